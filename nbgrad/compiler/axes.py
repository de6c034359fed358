"""Which axes of a program are the same axis: the analysis behind row tiling.

Every dimension of every variable is a node; an operator that treats dimension i of one operand and j of another
as one index joins them. What remains are classes: a class of size N whose members are never mixed (no value has it
twice) can be executed row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..layout import Layout, contiguous
from ..op import REGISTRY
from ..tape.program import Instruction, Tape
from .movement import window_layout

ROW = 1 << 44  # stride that marks the row dimension in a layout of tile storage

Pairs = list[tuple[int, int, int, int]]  # (input number, its dim, output number, its dim)


class Axes:
    """Union-find over ``(variable, dimension)``."""

    def __init__(self, tape: Tape):
        self.tape = tape
        self.first: dict[int, int] = {}
        self.classes: dict[int, list[int]] = {}
        count = 0
        for var, spec in tape.specs.items():
            self.first[var] = count
            count += len(spec.shape)
        self.parent = list(range(count))
        for ins in tape.instructions:
            for i, a, o, b in relations(tape, ins):
                self._join(self.first[ins.inputs[i]] + a, self.first[ins.outputs[o]] + b)
            for (i, a), (j, b) in contracted(tape, ins):
                self._join(self.first[ins.inputs[i]] + a, self.first[ins.inputs[j]] + b)

    def _find(self, node: int) -> int:
        while self.parent[node] != node:
            self.parent[node] = self.parent[self.parent[node]]
            node = self.parent[node]
        return node

    def _join(self, a: int, b: int) -> None:
        self.parent[self._find(a)] = self._find(b)

    def of(self, var: int) -> list[int]:
        """The class of each dimension of a variable."""
        found = self.classes.get(var)
        if found is None:
            if var not in self.first:  # made by the scheduler
                return []
            first = self.first[var]
            n = len(self.tape.specs[var].shape)
            found = self.classes[var] = [self._find(first + i) for i in range(n)]
        return found

    def dim(self, var: int, cls: int) -> int | None:
        """The dimension of a variable that belongs to a class, or None."""
        dims = self.of(var)
        return dims.index(cls) if cls in dims else None

    def candidates(self, least: int) -> list[int]:
        """Classes that may be tiled, the one with the most elements behind it first."""
        weight: dict[int, int] = {}
        broken: set[int] = set()
        for var, spec in self.tape.specs.items():
            dims = [c for c, n in zip(self.of(var), spec.shape, strict=True) if n != 1]
            broken.update(c for c in dims if dims.count(c) > 1)
            for c, n in zip(self.of(var), spec.shape, strict=True):
                if n >= least:
                    weight[c] = weight.get(c, 0) + math.prod(spec.shape)
        good = [c for c in weight if c not in broken]
        return sorted(good, key=lambda c: -weight[c])


def relations(tape: Tape, ins: Instruction) -> Pairs:
    """Dimensions of inputs that are dimensions of outputs."""
    op = REGISTRY[ins.op]
    if op.category == "elementwise" or ins.op in ("to_dtype", "clone"):
        return _broadcast(tape, ins)
    if is_view(tape, ins):
        return _viewed(tape, ins)
    rule = _RELATIONS.get(ins.op)
    return rule(tape, ins) if rule is not None else []


def contracted(tape: Tape, ins: Instruction) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of input dimensions that are summed over together."""
    if ins.op != "matmul":
        return []
    a, b = (len(tape.specs[v].shape) for v in ins.inputs)
    return [((0, a - 1), (1, b - 2))]


def _broadcast(tape: Tape, ins: Instruction) -> Pairs:
    out = tape.specs[ins.outputs[0]].shape
    pairs = []
    for i, v in enumerate(ins.inputs):
        shape = tape.specs[v].shape
        lead = len(out) - len(shape)
        pairs += [(i, d, 0, lead + d) for d, n in enumerate(shape) if n == out[lead + d]]
    return pairs


def _viewed(tape: Tape, ins: Instruction) -> Pairs:
    """Follow each dimension through the layout map: a full dimension keeps its stride."""
    shape = tape.specs[ins.inputs[0]].shape
    pairs = []
    for d, n in enumerate(shape):
        if n == 1:
            continue
        layout = mapped(ins, marked(shape, d))
        if layout is None:
            continue
        steps = list(zip(layout.shape, layout.strides, strict=True))
        hits = [k for k, (m, t) in enumerate(steps) if t == ROW and m != 1]
        whole = layout.offset < ROW // 2 and all(
            abs(t) < ROW // 2 or m == 1 for k, (m, t) in enumerate(steps) if k not in hits
        )
        if len(hits) == 1 and whole and layout.shape[hits[0]] == n:
            pairs.append((0, d, 0, hits[0]))
    return pairs


def marked(shape: Sequence[int], row: int | None) -> Layout:
    """The layout of a fresh tile: features contiguous, the row dimension with stride `ROW`."""
    if row is None:
        return contiguous(shape)
    features = [n for i, n in enumerate(shape) if i != row]
    strides = list(contiguous(features).strides)
    strides.insert(row, ROW)
    return Layout(tuple(shape), tuple(strides), 0)


def is_view(tape: Tape, ins: Instruction) -> bool:
    """Whether an instruction shows elements of its operand through another layout."""
    if ins.op == "strided_view":
        return mapped(ins, contiguous(tape.specs[ins.inputs[0]].shape)) is not None
    return REGISTRY[ins.op].category == "view"


def mapped(ins: Instruction, layout: Layout) -> Layout | None:
    """The layout after a view operator, or None where it would need a copy."""
    if ins.op == "strided_view":
        return window_layout(ins.params["layout"], ins.params["base_layout"], layout)
    try:
        return REGISTRY[ins.op].layout_map(layout, **ins.params)  # type: ignore[attr-defined]
    except AssertionError:  # reshape of a layout that needs a copy
        return None


def _kept(tape: Tape, ins: Instruction) -> Pairs:
    axes, keep = ins.params["axes"], ins.params["keepdim"]
    rank = len(tape.specs[ins.inputs[0]].shape)
    kept = [d for d in range(rank) if d not in axes]
    return [(0, d, 0, d if keep else k) for k, d in enumerate(kept)]


def _product(tape: Tape, ins: Instruction) -> Pairs:
    out = tape.specs[ins.outputs[0]].shape
    pairs = []
    for i, v in enumerate(ins.inputs):
        shape = tape.specs[v].shape
        lead = len(out) - len(shape)
        for d in range(len(shape) - 2):
            if shape[d] == out[lead + d]:
                pairs.append((i, d, 0, lead + d))
    a, b = (len(tape.specs[v].shape) for v in ins.inputs)
    return [*pairs, (0, a - 2, 0, len(out) - 2), (1, b - 1, 0, len(out) - 1)]


def _joined(tape: Tape, ins: Instruction) -> Pairs:
    axis = ins.params["axis"]
    rank = len(tape.specs[ins.outputs[0]].shape)
    return [(i, d, 0, d) for i in range(len(ins.inputs)) for d in range(rank) if d != axis]


def _unviewed(tape: Tape, ins: Instruction) -> Pairs:
    """A dimension of the cotangent that fills a whole dimension of the base."""
    layout, base = ins.params["layout"], ins.params["base_layout"]
    pairs = []
    for k, (n, s) in enumerate(zip(layout.shape, layout.strides, strict=True)):
        for d, (m, t) in enumerate(zip(base.shape, base.strides, strict=True)):
            if n == m and n != 1 and s == t:
                pairs.append((0, k, 0, d))
    return pairs


_RELATIONS: dict[str, Callable[[Tape, Instruction], Pairs]] = {
    "sum": _kept,
    "amax": _kept,
    "amin": _kept,
    "matmul": _product,
    "cat": _joined,
    "unview": _unviewed,
}
