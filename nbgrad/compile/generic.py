"""One program for any number of rows.

Two traces of a function that differ in the length of the batch axis alone have the same instructions; what differs are that
length and a few constants made from it (the divisor of a mean). From the second such trace on, the machine code is
generic: it reads the number of rows, and these constants, from memory. A further length costs a trace, no compilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..layout import Layout
from ..op import Spec
from ..tape.program import Tape
from .items import Host
from .lower import Schedule
from .prepare import Constants
from .run import Runner

Prepared = tuple[Tape, Constants]
STATICS = 4  # programs of one number of rows that later ones are compared with


class Match(NamedTuple):
    """How a tape differs from another one: the two lengths, and pairs of constants with other values."""

    old: int
    new: int
    constants: list[tuple[int, int]]


def match(a: Prepared, b: Prepared, n: int | None = None) -> Match | None:
    """Whether tape ``b`` is tape ``a`` with one other length in the shapes (``n`` where the lengths are equal)."""
    (ta, ca), (tb, cb) = a, b
    if len(ta) != len(tb) or len(ta.inputs) != len(tb.inputs):
        return None
    same: dict[int, int] = dict(zip(ta.inputs, tb.inputs, strict=True))
    pairs = [p for v, w in same.items() for p in zip(ta.specs[v].shape, tb.specs[w].shape)]
    lengths = {(x, y) for x, y in pairs if x != y}
    if not lengths and n is not None:
        lengths = {(n, n)}
    if len(lengths) != 1:
        return None
    ((n, new),) = lengths
    if any(not _similar(ta.specs[v], tb.specs[w], n, new) for v, w in same.items()):
        return None
    differing: list[tuple[int, int]] = []
    for x, y in zip(ta.instructions, tb.instructions, strict=True):
        if x.op != y.op or not _equal(_params(x), _params(y), n, new):
            return None
        for v, w in zip((*x.inputs, *x.outputs), (*y.inputs, *y.outputs), strict=True):
            if same.setdefault(v, w) == w and v not in ca:
                if not _similar(ta.specs[v], tb.specs[w], n, new):
                    return None
            elif same[v] != w or w not in cb:
                return None
    if [same.get(v, v) for v in ta.outputs] != list(tb.outputs):
        return None
    for v, w in same.items():
        if v in ca and not _constant(ca, cb, v, w, differing):
            return None
    return Match(n, new, differing)


def _constant(ca: Constants, cb: Constants, v: int, w: int, differing: list) -> bool:
    """Compare two constants; scalars may differ."""
    if w not in cb:
        return False
    x, y = ca.arrays[v], cb.arrays[w]
    if x.dtype != y.dtype or x.ndim != y.ndim:
        return False
    fills = ca.fill(v), cb.fill(w)
    if None not in fills:
        if fills[0] == fills[1]:
            return True
        differing.append((v, w))
        return True
    return x.shape == y.shape and np.array_equal(x, y)


def _similar(a: Spec, b: Spec, old: int, new: int) -> bool:
    return a.dtype == b.dtype and _equal(tuple(a.shape), tuple(b.shape), old, new)


def _params(ins: Any) -> tuple:
    return tuple(sorted(ins.params.items()))


def _equal(a: Any, b: Any, old: int, new: int) -> bool:
    """Equality with ``old`` on the left standing for ``new`` on the right."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(_equal(x, y, old, new) for x, y in zip(a, b, strict=True))
    if isinstance(a, Layout) or type(a) is not type(b):
        return False
    if isinstance(a, int) and not isinstance(a, bool):
        return a == b or (a == old and b == new)
    return a is b or bool(a == b)


class Template:
    """Generic machine code made from the second trace of a function."""

    def __init__(self, prepared: Prepared, symbolic: Sequence[int], n: int):
        tape, constants = prepared
        self.prepared, self.n, self.symbolic = prepared, n, list(symbolic)
        open_constants = Constants.__new__(Constants)
        open_constants.arrays = {v: a for v, a in constants.arrays.items() if v not in symbolic}
        self.schedule = Schedule(tape, open_constants, generic=n)
        self.usable = self._independent()
        self.runner: Runner | None = None

    def _independent(self) -> bool:
        """Whether nothing but the number of rows depends on their number."""
        schedule = self.schedule
        axes = schedule.placement.axes
        classes = {b.cls for b in schedule.blocks() if b.cls is not None}
        if not classes or any(schedule.placement.rows(c) != self.n for c in classes):
            return False
        for block in schedule.blocks():
            if any(isinstance(i, Host) for i in block.items):
                return False
        for store in (*schedule.arrays.values(), *schedule.outputs):
            rows = [axes.dim(store.var, c) for c in classes]
            inner = any(d is not None and d > 0 for d in rows)
            if inner or (store.kind == "work" and store.first >= 0 and any(d == 0 for d in rows)):
                return False
        loaded = [v for v in schedule.constants.arrays if schedule.constants.fill(v) is None]
        for var in (*schedule.inputs, *loaded):
            if any((axes.dim(var, c) or 0) > 0 for c in classes):
                return False
        return self._rows_stay_in_regions(classes)

    def _rows_stay_in_regions(self, classes: set) -> bool:
        """Uniform code must not run over rows (a constant result as long as the batch, say)."""
        axes = self.schedule.placement.axes
        for block in self.schedule.blocks():
            if block.cls is None:
                for node in block.nodes:
                    step = node.step
                    target = step.target if step is not None else None
                    var = target.store.var if target is not None else -1
                    if var >= 0 and any(axes.dim(var, c) is not None for c in classes):
                        return False
        return True

    def run_for(self, program: Any, prepared: Prepared, found: Match) -> Runner:
        """The code for a program of another number of rows."""
        values = dict(found.constants)
        extras = [np.ascontiguousarray(prepared[1].arrays[values.get(v, v)]) for v in self.symbolic]
        if self.runner is None:
            self.runner = Runner(self.schedule, program.in_specs, program.out_specs)
        return self.runner.share(program.in_specs, program.out_specs, found.new, extras)


class Family:
    """Programs of one function (or of one derivative of it) that may share code."""

    def __init__(self) -> None:
        self.templates: list[Template] = []
        self.statics: list[Prepared] = []
        self.derived: dict[Any, Family] = {}

    def child(self, key: Any) -> Family:
        """The family of a derived program."""
        return self.derived.setdefault(key, Family())

    def shared(self, program: Any) -> Runner | None:
        """Code that serves the program, if other programs differ in the number of rows alone."""
        prepared = program.prepared
        for template in self.templates:
            found = match(template.prepared, prepared, template.n)
            if found is not None and {v for v, _ in found.constants} <= set(template.symbolic):
                return template.run_for(program, prepared, found)
        for old in self.statics:
            found = match(old, prepared)
            if found is None:
                continue
            template = Template(prepared, [w for _, w in found.constants], found.new)
            if template.usable:
                self.templates.append(template)
                same = Match(found.new, found.new, [(v, v) for v in template.symbolic])
                return template.run_for(program, prepared, same)
        return None

    def remember(self, prepared: Prepared) -> None:
        """A program that later ones may be compared with."""
        if len(self.statics) < STATICS:
            self.statics.append(prepared)
