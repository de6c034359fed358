"""What a schedule consists of: loop nests over a common index space, matrix products, calls of eager kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..tape.program import Instruction
from .axes import ROW
from .stores import Ref, Store

Space = tuple[int, ...]


class Access(NamedTuple):
    """How a loop nest reaches a store: strides over its index space, the row stride, an offset (in elements)."""

    store: Store
    strides: tuple[int, ...]
    row: int  # 0: the same for all rows; ROW marks adjacent rows of a tile
    offset: int


class Operand(NamedTuple):
    """A value read by a step: forwarded in a register from ``var``, or loaded through ``access``."""

    var: int
    access: Access
    forwarded: bool = False


class Step:
    """One statement of a loop nest: evaluate an operator, or pass its operand on; keep the value and/or store it.

    ``combine`` is how the value meets what is stored: "" (replaces), "add", "max", "min"; with ``fill`` the store holds
    what changes nothing before. ``row_sum`` adds over the rows of a tile first.
    """

    __slots__ = ("combine", "dtype", "fill", "ins", "op", "operands", "out", "row_sum", "target")

    def __init__(self, op: str, operands: Sequence[Operand], out: int, dtype: np.dtype):
        self.op, self.operands, self.out, self.dtype = op, list(operands), out, dtype
        self.target: Access | None = None
        self.combine = ""
        self.fill = False
        self.row_sum = False
        self.ins: Instruction | None = None

    def __str__(self) -> str:
        args = ", ".join(f"%{o.var}" if o.forwarded else at(o.access) for o in self.operands)
        text = args if self.op == "copy" else f"{self.op}({args})"
        name = f"%{self.out} = " if self.out >= 0 else ""
        if self.target is None:
            return name + text
        sign = {"": "=", "add": "+=", "max": "max=", "min": "min="}[self.combine]
        rows = "sum over rows of " if self.row_sum else ""
        return f"{at(self.target)} {sign} {rows}{name}{text}"


def at(access: Access) -> str:
    """An access as text: the store, and where it is not passed in order, how."""
    store = access.store
    if store.kind == "fill":
        return repr(store.value)
    strides = ",".join(map(str, access.strides))
    row = {0: "", ROW: "r"}.get(access.row, f"r*{access.row}")
    return f"{store}[{';'.join(p for p in (strides, row, str(access.offset or '')) if p)}]"


class Map(NamedTuple):
    """A loop nest over ``space`` (and the rows of the tile) with its steps in order."""

    space: Space
    steps: list[Step]


class Batch(NamedTuple):
    """A loop around a matrix product: size and strides of the operands and the result."""

    size: int
    a: int
    b: int
    c: int


class Dot(NamedTuple):
    """``c[m, n] = sum_k a[m, k] b[k, n]`` for every batch index.

    ``form`` says where the rows are: "left" (rows are m, b is uniform), "right" (rows are n, a is uniform), "both" (rows
    are a batch dimension), "sum" (rows are k: c is an accumulator), "flat" (no rows).
    """

    form: str
    m: int
    n: int
    k: int
    a: Ref
    b: Ref
    c: Ref
    a_strides: tuple[int, int]  # m, k
    b_strides: tuple[int, int]  # k, n
    c_strides: tuple[int, int]  # m, n
    batch: tuple[Batch, ...]


class Finish(NamedTuple):
    """Add an accumulator's chunks (and lanes) up into an array."""

    source: Store
    target: Store


class Host(NamedTuple):
    """Run an operator's eager kernel on whole arrays."""

    ins: Instruction
    inputs: tuple[Ref, ...]
    outputs: tuple[Store, ...]


Item = Any  # Map, Dot, Finish or Host
