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
from ..tape.program import Instruction, Tape
from .axes import Axes
from .items import Host
from .lower import Schedule
from .prepare import Constants
from .run import Runner

Prepared = tuple[Tape, Constants]
STATICS = 4  # programs of one number of rows that later ones are compared with


class Match(NamedTuple):
    """How a tape differs from another one: the two lengths, pairs of constants with other values, all pairs."""

    old: int
    new: int
    constants: list[tuple[int, int]]
    variables: dict[int, int]


def match(a: Prepared, b: Prepared, n: int | None = None) -> Match | None:
    """Whether tape ``b`` is tape ``a`` with one other length in the shapes (``n`` where the lengths are equal).

    A first look: `exact` then tells lengths of rows from other lengths that happen to be equal.
    """
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
    for x, y in zip(ta.instructions, tb.instructions, strict=True):
        if x.op != y.op or not _same_params(x, y):
            return None
        for v, w in zip((*x.inputs, *x.outputs), (*y.inputs, *y.outputs), strict=True):
            if same.setdefault(v, w) != w or (v in ca) != (w in cb):
                return None
    if [same.get(v, v) for v in ta.outputs] != list(tb.outputs):
        return None
    differing: list[tuple[int, int]] = []
    for v, w in same.items():
        if v in ca and not _constant(ca, cb, v, w, differing):
            return None
    return Match(n, new, differing, same)


def exact(axes: Axes, cls: int, ta: Tape, tb: Tape, found: Match) -> bool:
    """Whether the row dimensions of all values, and no others, have the other length."""
    for v, w in found.variables.items():
        one, two = ta.specs[v], tb.specs[w]
        if one.dtype != two.dtype or len(one.shape) != len(two.shape):
            return False
        row = axes.dim(v, cls)
        for d, (x, y) in enumerate(zip(one.shape, two.shape, strict=True)):
            if (x, y) != ((found.old, found.new) if d == row else (x, x)):
                return False
    return True


def _same_params(x: Instruction, y: Instruction) -> bool:
    """Equality of parameters but for lengths, which the shapes of operands and results show."""
    if x.op in ("reshape", "expand"):
        return True
    if x.op == "slice":
        one, two = (_without_lengths(i.params["items"]) for i in (x, y))
        return one == two
    if x.params.keys() != y.params.keys():
        return False
    for name, a in x.params.items():
        b = y.params[name]
        if isinstance(a, Layout) and isinstance(b, Layout):
            if (a.strides, a.offset) != (b.strides, b.offset):
                return False
        elif not (a is b or (type(a) is type(b) and bool(a == b))):
            return False
    return True


def _without_lengths(items: tuple) -> tuple:
    return tuple((i[0], i[2]) if isinstance(i, tuple) else i for i in items)


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

    def fits(self, prepared: Prepared, found: Match) -> bool:
        """Whether the code serves a tape of another number of rows."""
        axes, (cls,) = self.schedule.placement.axes, self.schedule.placement.classes
        known = {v for v, _ in found.constants} <= set(self.symbolic)
        return known and exact(axes, cls, self.prepared[0], prepared[0], found)

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
        self.compiled = 0  # how often code was made
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
            if found is not None and template.fits(prepared, found):
                return template.run_for(program, prepared, found)
        for old in self.statics:
            found = match(old, prepared)
            if found is None:
                continue
            template = Template(prepared, [w for _, w in found.constants], found.new)
            back = Match(found.new, found.old, [], {w: v for v, w in found.variables.items()})
            if template.usable and template.fits(old, back):
                self.compiled += 1
                self.templates.append(template)
                here = Match(found.new, found.new, [(v, v) for v in template.symbolic], {})
                return template.run_for(program, prepared, here)
        return None

    def remember(self, prepared: Prepared) -> None:
        """A program that later ones may be compared with."""
        self.compiled += 1
        if len(self.statics) < STATICS:
            self.statics.append(prepared)
