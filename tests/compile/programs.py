"""Random programs for differential tests: a seed decides shapes, operators and wiring.

A program is a list of steps over a growing list of values; ``run`` executes it with nbgrad operators, so the same object
can be run eagerly, traced, compiled and differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import nbgrad as ng

UNARY: dict[str, Callable] = {
    "tanh": ng.tanh,
    "sin": ng.sin,
    "exp": lambda x: ng.exp(-x * x),
    "sigmoid": ng.sigmoid,
    "square": ng.square,
    "abs": ng.abs,
    "relu": ng.relu,
    "sqrt": lambda x: ng.sqrt(x * x + 0.5),
    "log": lambda x: ng.log(x * x + 1.5),
    "neg": lambda x: -x,
    "detach": lambda x: x.detach() + x,
    "softplus": lambda x: ng.log1p(ng.exp(-ng.abs(x))),
}
BINARY: dict[str, Callable] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1.0),
    "max": ng.maximum,
    "where": lambda x, y: ng.where(x > y, x, 2.0 * y),
    "atan2": lambda x, y: ng.atan2(x, y * y + 1.0),
}


class Step(NamedTuple):
    """One operation: a function of earlier values."""

    text: str
    fn: Callable
    args: tuple[int, ...]


class Program(NamedTuple):
    """Inputs (arrays) and steps; the results are the last value and a sum of all leaves."""

    inputs: list[np.ndarray]
    steps: list[Step]

    def run(self, *inputs: Any) -> Any:
        """The results for the given inputs."""
        values = list(inputs)
        for step in self.steps:
            values.append(step.fn(*[values[i] for i in step.args]))
        used = {i for s in self.steps for i in s.args}
        loose = [v for i, v in enumerate(values) if i not in used]
        total = sum((v.sum() if v.ndim else v for v in loose[1:]), loose[0].sum())
        return values[-1], total

    def loss(self, *inputs: Any) -> Any:
        """A scalar that depends on every value."""
        return self.run(*inputs)[1]

    def __str__(self) -> str:
        n = len(self.inputs)
        lines = [f"v{i} = input{list(x.shape)}" for i, x in enumerate(self.inputs)]
        lines += [f"v{n + k} = {s.text} of {s.args}" for k, s in enumerate(self.steps)]
        return "\n".join(lines)


class _Builder:
    def __init__(self, seed: int, dtype: Any):
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.rows = int(self.rng.choice([1, 2, 5, 33, 100, 301]))
        self.inputs: list[np.ndarray] = []
        self.steps: list[Step] = []
        self.shapes: list[tuple[int, ...]] = []

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def input(self, shape: tuple[int, ...]) -> int:
        self.inputs.append(self.rng.uniform(-1.5, 1.5, shape).astype(self.dtype))
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def add(self, text: str, fn: Callable, *args: int) -> int:
        probe = [ng.zeros(self.shapes[i]) for i in args]
        self.steps.append(Step(text, fn, args))
        self.shapes.append(tuple(fn(*probe).shape))
        return len(self.shapes) - 1

    def value(self) -> int:
        return int(self.rng.integers(max(0, len(self.shapes) - 6), len(self.shapes)))

    def unary(self) -> None:
        name = self.pick(*UNARY)
        self.add(name, UNARY[name], self.value())

    def binary(self) -> None:
        a = self.value()
        partners = [b for b, s in enumerate(self.shapes) if _broadcast(self.shapes[a], s)]
        name = self.pick(*BINARY)
        self.add(name, BINARY[name], a, self.pick(*partners))

    def product(self) -> None:
        a = self.value()
        shape = self.shapes[a]
        if len(shape) < 2:
            return
        partners = [b for b, s in enumerate(self.shapes) if len(s) >= 2 and s[-2] == shape[-1]]
        partners = [b for b in partners if _broadcast(shape[:-2], self.shapes[b][:-2])]
        if partners:
            scale = 1.0 / max(shape[-1], 1)
            self.add("matmul", lambda x, y: (x @ y) * scale, a, self.pick(*partners))

    def reduce(self) -> None:
        a = self.value()
        rank = len(self.shapes[a])
        if not rank:
            return
        dim = self.pick(None, *range(rank))
        keep = bool(self.rng.integers(2))
        name = self.pick("sum", "mean", "amax", "var")
        if name == "var":
            fn = lambda x: ng.var(x, dim, keepdim=keep, correction=0)
        else:
            fn = lambda x: getattr(ng, name)(x, dim, keepdim=keep)
        self.add(f"{name}(dim={dim}, keepdim={keep})", fn, a)

    def softmax(self) -> None:
        a = self.value()
        if self.shapes[a]:
            dim = int(self.rng.integers(len(self.shapes[a])))
            fn = self.pick(
                lambda x: ng.softmax(x, dim),
                lambda x: ng.logsumexp(x, dim),
                lambda x: ng.cumsum(x, dim) * 0.1,
            )
            self.add(f"softmax or logsumexp or cumsum along {dim}", fn, a)

    def move(self) -> None:
        a = self.value()
        shape = self.shapes[a]
        if not shape:
            self.add("expand", lambda x: x.expand(3), a)
            return
        d = int(self.rng.integers(len(shape)))
        n = shape[d]
        kind = self.pick(
            "permute", "slice", "flip", "reshape", "cat", "index", "stack", "pick", "roll"
        )
        if kind == "permute":
            dims = tuple(int(i) for i in self.rng.permutation(len(shape)))
            self.add(f"permute{dims}", lambda x: x.permute(dims), a)
        elif kind == "slice" and n > 1:
            lo = int(self.rng.integers(n - 1))
            key = (slice(None),) * d + (slice(lo, None, self.pick(1, 2)),)
            self.add(f"slice[{d}, {lo}:]", lambda x: x[key], a)
        elif kind == "flip":
            self.add(f"flip({d})", lambda x: ng.flip(x, (d,)), a)
        elif kind == "reshape":
            self.add("flatten", lambda x: x.reshape(-1), a)
        elif kind == "cat":
            self.add(f"cat({d})", lambda x: ng.cat([x, 2.0 * x], d), a)
        elif kind == "index":
            picks = self.rng.integers(0, n, 4)
            self.add(f"index_select({d})", lambda x: ng.index_select(x, d, ng.tensor(picks)), a)
        elif kind == "stack":
            self.add("stack", lambda x: ng.stack([x, -x], d), a)
        elif kind == "pick":
            key = (slice(None),) * d + (int(self.rng.integers(n)),)
            self.add(f"pick[{key[-1]}] of {d}", lambda x: x[key], a)
        elif kind == "roll":
            self.add(f"roll({d})", lambda x: ng.roll(x, 1, d), a)


def _broadcast(a: tuple, b: tuple) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


def build(seed: int, dtype: Any = "float64", length: int | None = None) -> Program:
    """The program of a seed."""
    b = _Builder(seed, dtype)
    n, d = b.rows, int(b.rng.integers(1, 5))
    for shape in [(n, d), (d, 3), (3,), (n, 1), (n, 3), ()]:
        b.input(shape)
    if b.rng.integers(2):
        b.input((2, n, d))
    kinds = [b.unary] * 5 + [b.binary] * 6 + [b.product] * 3 + [b.reduce] * 3 + [b.move] * 3
    kinds += [b.softmax]
    for _ in range(length or int(b.rng.integers(3, 18))):
        b.pick(*kinds)()
        if np.prod(b.shapes[-1], dtype=float) > 4000:
            b.add("sum", lambda x: x.sum(0), len(b.shapes) - 1)
    return Program(b.inputs, b.steps)
