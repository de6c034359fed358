"""MAML (Finn, Abbeel & Levine 2017): learn a start from which one gradient step fits a new sine wave.

The outer gradient runs through the inner gradient step: ``func.grad`` inside ``vmap`` inside ``func.grad``.

python examples/maml_sine.py
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import nbgrad as ng

INNER_RATE = 0.05


def start(rng: np.random.Generator, width: int = 32) -> list[ng.Tensor]:
    """A tanh network with one input and one output."""
    sizes = [(1, width), (width,), (width, width), (width,), (width, 1), (1,)]
    scale = [1.0, 1.0, width**-0.5, 0.0, width**-0.5, 0.0]
    return [ng.tensor(rng.normal(size=s) * k) for s, k in zip(sizes, scale, strict=True)]


def network(p: list[ng.Tensor], x: ng.Tensor) -> ng.Tensor:
    """Values at a column of points."""
    return ng.tanh(ng.tanh(x @ p[0] + p[1]) @ p[2] + p[3]) @ p[4] + p[5]


def error(p: list[ng.Tensor], x: ng.Tensor, y: ng.Tensor) -> ng.Tensor:
    """Mean squared error."""
    return ng.square(network(p, x) - y).mean()


def adapted_error(p: list[ng.Tensor], x: Any, y: Any, x_new: Any, y_new: Any) -> ng.Tensor:
    """The error on new points after one gradient step on (x, y): the inner loop."""
    g = ng.func.grad(error)(p, x, y)
    return error([w - INNER_RATE * d for w, d in zip(p, g, strict=True)], x_new, y_new)


def meta_error(p: list[ng.Tensor], *tasks: ng.Tensor) -> ng.Tensor:
    """Mean over a batch of tasks (leading dimension)."""
    return ng.func.vmap(adapted_error, in_dims=(None, 0, 0, 0, 0))(p, *tasks).mean()


def draw(rng: np.random.Generator, tasks: int, points: int = 10) -> list[ng.Tensor]:
    """Sine waves of random amplitude and phase, seen at two sets of points."""
    amplitude, phase = rng.uniform(0.5, 2, (tasks, 1, 1)), rng.uniform(0, np.pi, (tasks, 1, 1))
    x = [rng.uniform(-3, 3, (tasks, points, 1)) for _ in range(2)]
    y = [amplitude * np.sin(a + phase) for a in x]
    return [ng.tensor(a) for a in (x[0], y[0], x[1], y[1])]


class Result(NamedTuple):
    """Mean error after one inner step on unseen tasks, before and after meta-training."""

    before: float
    after: float


def train(steps: int = 400, tasks: int = 16, rate: float = 0.02, seed: int = 0) -> Result:
    """Meta-train by plain gradient descent."""
    rng = np.random.default_rng(seed)
    p, unseen = start(rng), draw(rng, 200)
    before = meta_error(p, *unseen).item()
    for _ in range(steps):
        g = ng.func.grad(meta_error)(p, *draw(rng, tasks))
        p = [w - rate * d for w, d in zip(p, g, strict=True)]
    return Result(before, meta_error(p, *unseen).item())


if __name__ == "__main__":
    found = train()
    print(
        f"error after one step on unseen tasks: {found.before:.3f} before, {found.after:.3f} after"
    )
