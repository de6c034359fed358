"""Samples of elementwise operators that stay away from kinks, poles and jumps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..op.samples import Maker, Sample, draw

BOOL, POSITIVE, UNIT = "bool", (0.3, 3.0), (-0.9, 0.9)
REAL = (-2.5, 2.5)
# two sides of zero
SIDES = [(-2.5, -0.3), (0.3, 2.5)]
# values of LOW, MIDDLE and HIGH never meet: for operators with a kink where two arguments are equal
LOW = [(-2.2, -2.0), (-0.7, -0.5), (0.8, 1.0)]
MIDDLE = [(-1.5, -1.3), (0.1, 0.3), (1.5, 1.7)]
HIGH = [(2.2, 2.4)]


def _one(rng: np.random.Generator, dtype: np.dtype, shape: tuple, spec: Any) -> np.ndarray:
    if spec == BOOL:
        return np.asarray(rng.integers(0, 2, shape) > 0)
    if isinstance(spec, range):
        return np.asarray(rng.integers(spec.start, spec.stop, shape))
    if isinstance(spec, tuple):
        return draw(rng, dtype, shape, *spec)
    drawn = np.stack([draw(rng, dtype, shape, *interval) for interval in spec])
    return np.take_along_axis(drawn, rng.integers(0, len(spec), (1, *shape)), 0)[0]


def elements(*specs: Any) -> Maker:
    """Samples with argument i drawn by ``specs[i]``: same shapes, 0-d, and broadcast.

    A spec is ``(low, high)``, a list of such intervals, ``BOOL``, or a ``range`` of integers.
    """

    def make(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
        n = len(specs)
        rows: list[Sequence[tuple]] = [[(2, 3)] * n, [()] * n]
        if n > 1:
            rows += [[(2, 3), *[(3,)] * (n - 1)], [(2, 1), *[(1, 3)] * (n - 1)]]
        return [
            Sample(tuple(_one(rng, dtype, s, spec) for s, spec in zip(row, specs, strict=True)))
            for row in rows
        ]

    return make
