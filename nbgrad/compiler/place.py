"""Where each instruction runs: in a row region, as uniform code, or on the host, and in which phase.

The program becomes a sequence of phases. A phase is uniform code (whole arrays) followed by at most one region per
row class; what a region sums over its rows, and rows needed elsewhere, are available from the next phase on.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from kernels_cpu.llvm import jit, scalars
from kernels_cpu.llvm.text import Function, Module

from .. import dtypes as dt
from ..op import REGISTRY
from ..tape.program import Instruction, Tape
from . import control, gathering
from .axes import Axes, is_view, relations
from .evaluate import evaluate

LEAST_ROWS = 32  # an axis shorter than this is not tiled
LEAST_WEIGHT = 2048  # elements behind a class that make tiling worth its packing
BATCHED = 0.25  # worth of a product whose batch are the rows
HOST_FLOPS = 1 << 22  # a uniform matrix product above this goes to BLAS


class Place(NamedTuple):
    """``kind`` is row, uniform, host or view; ``cls`` the row class; ``depth`` the phase."""

    kind: str
    cls: int | None
    depth: int


class Placement:
    """The places of all instructions and what must be stored as whole arrays."""

    def __init__(
        self, tape: Tape, constants: Any, native_only: bool = False, rows: int | None = None
    ):
        self.constants = constants
        self.known: dict[Any, bool] = {}
        self.tape, self.axes, self.native_only = tape, Axes(tape), native_only
        self.classes = self._choose() if rows is None else self._batch(rows)
        self.places: list[Place] = []
        # variable -> (class or None, first phase in which it can be read in its own way)
        self.home: dict[int, tuple[int | None, int]] = {}
        self.spilled: set[int] = set()  # row variables needed as whole arrays
        for var in (*tape.inputs, *tape.captured):
            self.home[var] = (None, 0)
        for ins in tape.instructions:
            self.places.append(self._place(ins))
        for var in tape.outputs:
            self._as_array(var)

    @property
    def depth(self) -> int:
        """Number of phases."""
        later = [d + (c is not None) for c, d in self.home.values()]
        return max([*later, *(p.depth for p in self.places), 0]) + 1

    def _batch(self, rows: int) -> list[int]:
        """The row class of a program for any number of rows: the heaviest axis of that length."""
        good = [c for c in self.axes.candidates(1) if self.rows(c) == rows]
        return good[:1]

    def _choose(self) -> list[int]:
        """Row classes: by weight, none that shares a value with a heavier one."""
        shapes = self.tape.specs
        chosen: list[int] = []
        used = {v for i in self.tape.instructions for v in (*i.inputs, *i.outputs)}
        together: dict[int, set[int]] = {}
        weight: dict[int, int] = {}
        for var in used:
            dims = {c for c, n in zip(self.axes.of(var), shapes[var].shape, strict=True) if n > 1}
            for c in dims:
                together.setdefault(c, set()).update(dims)
                weight[c] = weight.get(c, 0) + math.prod(shapes[var].shape)
        heavy = [c for c in self.axes.candidates(LEAST_ROWS) if weight.get(c, 0) >= LEAST_WEIGHT]
        rank = lambda c: (-self._covered(c), -self._adjacent(c), -self.rows(c))
        for c in sorted(heavy, key=rank):
            if not any(c in together.get(o, ()) for o in chosen):
                chosen.append(c)
        return chosen

    def _adjacent(self, cls: int) -> int:
        """In how many arguments and results the rows of a class lie next to each other."""
        ends = (*self.tape.inputs, *self.tape.outputs)
        return sum(self.axes.dim(v, cls) == len(self.tape.specs[v].shape) - 1 for v in ends)

    def _covered(self, cls: int) -> float:
        """The work that would run in row regions of a class."""
        total = 0.0
        for ins in self.tape.instructions:
            dims = [self.axes.dim(v, cls) for v in (*ins.inputs, *ins.outputs)]
            if is_view(self.tape, ins) or all(d is None for d in dims):
                continue
            if self._row_form(ins, cls) and self._native(ins, cls):
                sizes = [math.prod(self.tape.specs[v].shape) for v in (*ins.inputs, *ins.outputs)]
                weight = 1.0
                if ins.op == "matmul":
                    weight = float(self.tape.specs[ins.inputs[0]].shape[-1])
                    out = self.tape.specs[ins.outputs[0]].shape
                    d = dims[-1]
                    if d is not None and d < len(out) - 2:
                        weight *= BATCHED  # rows as a batch of products: nothing is shared
                total += max(sizes) * weight
        return total

    def rows(self, cls: int) -> int:
        """Number of rows of a class."""
        for var, spec in self.tape.specs.items():
            d = self.axes.dim(var, cls)
            if d is not None:
                return spec.shape[d]
        raise KeyError(cls)

    # -- one instruction --------------------------------------------------------------------------
    def _place(self, ins: Instruction) -> Place:
        if is_view(self.tape, ins):
            return self._place_view(ins)
        cls = self._row_class(ins)
        kind = "row" if cls is not None else "uniform" if self._native(ins, None) else "host"
        if kind != "row":
            cls = None
        depth = 0
        for v in ins.inputs:
            home, d = self.home[v]
            depth = max(depth, d if home is None or home == cls else d + 1)
        for v in ins.inputs:
            home, d = self.home[v]
            if home is not None and (home != cls or d < depth):
                self._as_array(v)
        summed = kind == "row" and self._sums_rows(ins, cls)
        for v in ins.outputs:
            self.home[v] = (None, depth + 1) if summed else (cls, depth)
        return Place(kind, cls, depth)

    def _place_view(self, ins: Instruction) -> Place:
        (x,), (y,) = ins.inputs, ins.outputs
        cls, depth = self.home[x]
        if cls is not None and self._follows(ins, cls):
            self.home[y] = (cls, depth)
        elif cls is not None:  # the rows are cut or merged: a view of the whole array
            self._as_array(x)
            self.home[y] = (None, depth + 1)
        else:
            self.home[y] = (None, depth)
        return Place("view", cls, self.home[y][1])

    def _follows(self, ins: Instruction, cls: int) -> bool:
        """Whether row i of every operand goes into row i of the result (a flip or a shift does not)."""
        out = self.axes.dim(ins.outputs[0], cls)
        same = set(relations(self.tape, ins))
        dims = [self.axes.dim(v, cls) for v in ins.inputs]
        return out is not None and all(
            d is None or (i, d, 0, out) in same for i, d in enumerate(dims)
        )

    def _as_array(self, var: int) -> None:
        if self.home[var][0] is not None:
            self.spilled.add(var)

    def _row_class(self, ins: Instruction) -> int | None:
        """The class whose rows the instruction can be run on one by one."""
        for cls in self.classes:
            ins_dims = [self.axes.dim(v, cls) for v in ins.inputs]
            out_dims = [self.axes.dim(v, cls) for v in ins.outputs]
            if any(d is not None for d in (*ins_dims, *out_dims)):
                return cls if self._row_form(ins, cls) and self._native(ins, cls) else None
        return None

    def _row_form(self, ins: Instruction, cls: int) -> bool:
        """Whether the row axis is only iterated over, or summed."""
        dims = [self.axes.dim(v, cls) for v in ins.inputs]
        if ins.op in ("sum", "amax", "amin"):
            return dims[0] is not None
        if ins.op == "matmul" and self.axes.dim(ins.outputs[0], cls) is None:
            return True  # contracted
        if ins.op == "cat" and None in dims:
            return False
        if ins.op == "unview" and (dims[0] is None or not self._scatters(ins, cls)):
            return False
        return self._follows(ins, cls)

    def _scatters(self, ins: Instruction, cls: int) -> bool:
        from .movement import scatter_layout

        row = self.axes.dim(ins.outputs[0], cls)
        if row is None:
            return False
        return scatter_layout(ins.params["layout"], ins.params["base_layout"], row) is not None

    def _sums_rows(self, ins: Instruction, cls: int | None) -> bool:
        return all(self.axes.dim(v, cls) is None for v in ins.outputs)  # type: ignore[arg-type]

    def _native(self, ins: Instruction, cls: int | None) -> bool:
        """Whether there is vector code for the instruction."""
        key = (ins.outputs, cls is None)
        if key not in self.known:
            self.known[key] = self._has_code(ins, cls)
        return self.known[key]

    def _has_code(self, ins: Instruction, cls: int | None) -> bool:
        tape = self.tape
        specs = [tape.specs[v] for v in (*ins.inputs, *ins.outputs)]
        if any(0 in s.shape for s in specs):
            return False
        kinds = {s.dtype for s in specs}
        op = REGISTRY[ins.op]
        if op.category == "elementwise" or ins.op in ("to_dtype", "clone"):
            return supported(ins.op, tuple(s.dtype for s in specs[:-1]), specs[-1].dtype)
        if ins.op in ("sum", "amax", "amin", "cat", "unview"):
            plain = {dt.float64, dt.float32, dt.int64}
            if ins.op == "sum":
                plain.add(dt.bool_)
            return kinds <= plain and (ins.op != "unview" or self._plain_base(ins))
        if ins.op in gathering.OPERATORS:
            known = all(v in self.constants for v in gathering.index_inputs(ins))
            moved = {tape.specs[v].dtype.kind for v in ins.outputs}
            plain = moved <= {"f"} or ins.op in ("index", "gather_")
            return cls is None and known and plain
        if ins.op in control.OPERATORS:
            return cls is None and control.native(ins)
        if ins.op == "matmul" and kinds in ({dt.float64}, {dt.float32}):
            if cls is not None:
                return True
            (*batch, m, n), k = specs[-1].shape, specs[0].shape[-1]
            return self.native_only or 2 * math.prod(batch) * m * n * k <= HOST_FLOPS
        return False

    @staticmethod
    def _plain_base(ins: Instruction) -> bool:
        from ..layout import is_contiguous

        base = ins.params["base_layout"]
        return is_contiguous(base) and base.offset == 0


@functools.cache
def supported(op: str, dtypes: tuple, out: Any) -> bool:
    """Whether the body of an elementwise operator has a vector form for these dtypes."""
    fn = Function(Module(), "probe", [], attributes=jit.attributes())
    try:
        for d in (*dtypes, out):
            scalars.kind_of(scalars.real_part(d) if d.kind == "c" else d, 2)
        args = [scalars.constant(1, d, 2) for d in dtypes]
        evaluate(fn, op, dtypes, out, args)
    except scalars.NoVectorFormError:
        return False
    return True
