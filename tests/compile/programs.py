"""Random programs for differential tests: a seed decides shapes, layouts, operators and wiring.

A program is a list of steps over a growing list of values; ``run`` executes it with nbgrad operators, so the same object
can be run eagerly, traced, compiled and differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import steps as families

import nbgrad as ng
from nbgrad.errors import NbgradError

LARGEST = 4000  # elements of a value; larger ones are summed over their first axis
MODERATE = 1e3  # a step with larger results is dropped


class Step(NamedTuple):
    """One operation: a function of earlier values."""

    text: str
    fn: Callable
    args: tuple[int, ...]


class Program(NamedTuple):
    """Inputs (arrays) and steps; the results are the last value and a sum of all that is not used further."""

    inputs: list[np.ndarray]
    steps: list[Step]
    dtype: np.dtype

    def run(self, *inputs: Any, noise: np.random.Generator | None = None) -> tuple:
        """The results for the given inputs; with ``noise``, every step is rounded once more at random."""
        values = list(inputs)
        for step in self.steps:
            value = step.fn(*[values[i] for i in step.args])
            if noise is not None and value.dtype.kind in "fc":
                unit = 4 * np.finfo(value.dtype).eps
                bump = 1.0 + unit * noise.uniform(-1, 1, tuple(value.shape))
                value = value * ng.tensor(bump.astype(self.dtype))
            values.append(value)
        used = {i for s in self.steps for i in s.args}
        loose = [v for i, v in enumerate(values) if i not in used and v.dtype.kind == "f"]
        total = sum((v.sum() for v in loose), ng.zeros((), dtype=self.dtype))
        return values[-1], total

    def loss(self, *inputs: Any, noise: np.random.Generator | None = None) -> Any:
        """A scalar that depends on every value."""
        return self.run(*inputs, noise=noise)[1]

    def __str__(self) -> str:
        n = len(self.inputs)
        lines = [
            f"v{i} = input {x.dtype}{list(x.shape)} strides {x.strides}"
            for i, x in enumerate(self.inputs)
        ]
        lines += [f"v{n + k} = {s.text} of {s.args}" for k, s in enumerate(self.steps)]
        return "\n".join(lines)

    def without(self, k: int) -> Program | None:
        """The program without step ``k`` (and what needs it), for making a failure small."""
        n = len(self.inputs)
        renamed: dict[int, int] = {i: i for i in range(n)}
        kept: list[Step] = []
        for j, s in enumerate(self.steps):
            if j != k and all(i in renamed for i in s.args):
                renamed[n + j] = n + len(kept)
                kept.append(s._replace(args=tuple(renamed[i] for i in s.args)))
        return self._replace(steps=kept) if kept else None

    def bypassing(self, k: int) -> Program | None:
        """The program with step ``k`` replaced by its first operand."""
        n = len(self.inputs)
        first = self.steps[k].args[0]
        rename = lambda i: first if i == n + k else i - (i > n + k)
        kept = [s for j, s in enumerate(self.steps) if j != k]
        kept = [s._replace(args=tuple(rename(i) for i in s.args)) for s in kept]
        return self._replace(steps=kept) if kept else None


class Builder:
    """Draws a program; it runs while it is built, so that every step is known to work eagerly."""

    def __init__(self, seed: int, dtype: Any, special: bool):
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.special = special
        self.inputs: list[np.ndarray] = []
        self.steps: list[Step] = []
        self.values: list[ng.Tensor] = []

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]

    def number(self, below: int) -> int:
        """An integer from 0 to below - 1."""
        return int(self.rng.integers(below))

    def coin(self) -> bool:
        """True or False."""
        return bool(self.rng.integers(2))

    def shape(self, i: int) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(self.values[i].shape)

    def floats(self) -> list[int]:
        """The values of the program's dtype."""
        return [i for i, v in enumerate(self.values) if v.dtype == self.dtype]

    def value(self) -> int:
        """One of the latest values."""
        return self.pick(*self.floats()[-6:])

    def partner(self, a: int) -> int:
        """A value that broadcasts with another."""
        shape = self.shape(a)
        return self.pick(*[j for j in self.floats() if families.broadcast(shape, self.shape(j))])

    def like(self, a: int) -> int:
        """A value of the same shape as another."""
        return self.pick(*[j for j in self.floats() if self.shape(j) == self.shape(a)])

    def input(self, shape: tuple[int, ...]) -> None:
        """An input with uniform values in one of several memory layouts."""
        x = np.asarray(self.rng.uniform(-1.5, 1.5, shape)).astype(self.dtype)
        if self.special and x.size and self.number(3) == 0:
            x.reshape(-1)[self.number(x.size)] = self.pick(np.nan, np.inf, -np.inf, 0.0)
        if x.ndim:
            x = self.pick(*[lambda a: a] * 3, *LAYOUTS)(x)
        self.inputs.append(x)
        self.values.append(ng.tensor(x))

    def add(self, text: str, fn: Callable, *args: int) -> None:
        """Append a step, if it runs and keeps values moderate."""
        with np.errstate(all="ignore"):
            try:
                value = fn(*[self.values[i] for i in args])
            except NbgradError:
                return
        if not self.special and value.dtype.kind == "f" and value.numel():
            size = ng.abs(value).max().item()
            if not size < MODERATE:
                return
        self.steps.append(Step(text, fn, args))
        self.values.append(value)
        if value.numel() > LARGEST and value.dtype == self.dtype:
            self.add("sum(0)", lambda x: x.mean(0), len(self.values) - 1)


LAYOUTS: list[Callable[[np.ndarray], np.ndarray]] = [
    np.asfortranarray,
    lambda a: a[::-1].copy()[::-1],
    lambda a: a[..., ::-1].copy()[..., ::-1],
    lambda a: np.repeat(a, 2, -1)[..., ::2],
    lambda a: np.broadcast_to(a[:1], a.shape),
]


def build(
    seed: int, dtype: Any = "float64", length: int | None = None, special: bool = False
) -> Program:
    """The program of a seed; with ``special``, some inputs contain NaN, infinities and zeros."""
    b = Builder(seed, dtype, special)
    n = b.pick(0, 1, 2, 5, 33, 64, 100, 301)
    d = b.pick(1, 2, 3, 4, 9)
    for shape in [(n, d), (d, 3), (3,), (n, 1), (n, 3), ()]:
        b.input(shape)
    if b.coin():
        b.input((2, n, d))
    if b.coin():
        b.input((b.pick(1, 2), d, b.pick(2, 5)))
    table = [f for f, weight in families.FAMILIES for _ in range(weight)]
    wanted = length or b.pick(*range(3, 18))
    for _ in range(3 * wanted):
        if len(b.steps) >= wanted:
            break
        b.pick(*table)(b)
    if not b.steps:
        families.unary(b)
    return Program(b.inputs, b.steps, b.dtype)
