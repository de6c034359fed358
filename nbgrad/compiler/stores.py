"""Where values live: stores, and references into them.

A *global* store is an array in memory (an argument, a constant, a result, or part of the workspace); a *tile* store
holds the rows of one tile, feature by feature, rows adjacent; an *accumulator* collects sums over rows, one copy per chunk of
tiles.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..layout import Layout

GLOBAL = ("input", "const", "output", "work")


class Store:
    """One piece of memory: ``size`` elements (of one row, for a tile store)."""

    __slots__ = (
        "combine",
        "dtype",
        "first",
        "index",
        "kind",
        "lanes",
        "last",
        "offset",
        "size",
        "value",
        "var",
    )

    def __init__(self, kind: str, size: int, dtype: np.dtype, index: int = -1, value: Any = None):
        self.kind, self.size, self.dtype, self.index, self.value = kind, size, dtype, index, value
        self.offset = 0  # bytes into the workspace or the tile scratch; set by the planner
        self.first = self.last = -1  # first and last item that touch it
        self.lanes = 1
        self.combine = "add"  # how an accumulator takes in values
        self.var = -1

    @property
    def is_global(self) -> bool:
        """Whether it is an array in memory."""
        return self.kind in GLOBAL

    @property
    def bytes(self) -> int:
        """Size in bytes (of one row, for a tile store)."""
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        name = f"{self.kind}{self.index if self.index >= 0 else ''}"
        return name if self.var < 0 else f"{name}:%{self.var}"


class Ref(NamedTuple):
    """A view of a store; tile stores mark the row dimension with stride `axes.ROW`."""

    store: Store
    layout: Layout


def size_of(shape: Any) -> int:
    """Number of elements."""
    return math.prod(shape)


def identity(combine: str, dtype: np.dtype) -> float:
    """What changes nothing when combined."""
    if combine == "add":
        return 0
    if dtype.kind == "f":
        return -math.inf if combine == "max" else math.inf
    limits = np.iinfo(dtype)
    return int(limits.min if combine == "max" else limits.max)
