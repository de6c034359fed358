"""Sample arguments that an operator's declaration gives to the registry-driven tests.

``tests=`` of a declaration is a function ``(rng, dtype) -> list[Sample]``; the generic test runs every sample through
eager, tape, both modes, second order, Taylor and vmap, and compares with ``reference``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Sample(NamedTuple):
    """Arguments (arrays; integer and bool ones are not differentiated) and parameters of one call."""

    args: tuple
    params: dict[str, Any] = {}


Maker = Callable[[np.random.Generator, np.dtype], list[Sample]]


def draw(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple, low: float, high: float
) -> np.ndarray:
    """A uniform random array; complex dtypes get an imaginary part from the same range."""
    x = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(low, high, shape)
    if dtype.kind in "iu":
        x = np.round(x)
    return np.asarray(x).astype(dtype)


def uniform(*ranges: tuple[float, float]) -> Maker:
    """Elementwise samples: argument i uniform in ``ranges[i]``; same shapes, broadcast and 0-d."""

    def make(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
        shapes: list[list[tuple]] = [[(2, 3)] * len(ranges), [()] * len(ranges)]
        if len(ranges) > 1:
            shapes.append([(2, 3), *[(3,)] * (len(ranges) - 1)])
            shapes.append([(2, 1), *[(1, 3)] * (len(ranges) - 1)])
        return [
            Sample(
                tuple(draw(rng, dtype, s, lo, hi) for s, (lo, hi) in zip(row, ranges, strict=True))
            )
            for row in shapes
        ]

    return make


def calls(*rows: tuple[tuple, dict[str, Any]]) -> Maker:
    """Samples from ``(argument shapes, parameters)`` pairs; values uniform in [-1.5, 1.5]."""

    def make(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
        return [
            Sample(tuple(draw(rng, dtype, s, -1.5, 1.5) for s in shapes), params)
            for shapes, params in rows
        ]

    return make
