"""Parallel loops of a finished program: which of them run in parallel, and how.

A loop that comes from ``prange`` is run in parallel where that gives the serial loop's result:

- elements only one iteration touches are written directly;
- where neighbouring iterations add to the same elements (a stencil's reverse), the loop is cut into parts, and the
  iterations at the beginning of each part run after all others;
- where any iteration may add to any element, each part adds to a copy of its own and the copies are summed in order; if
  that costs more than the loop, additions are atomic, or the loop runs serially;
- sums and extremes of numbers are kept per part and joined in order.

The number of parts depends on sizes only, so results do not depend on the number of threads (but for atomic additions).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types

from . import ir, parallel_tapes, scalars
from .alias import Aliases
from .parallel_access import (
    WIDEST,
    Access,
    Condition,
    Serial,
    accesses,
    apart,
    check_writes,
    reach,
)
from .parallel_reduce import Reduction, count_uses, reduction
from .simplify import substitute

OPTIONS = {  # only the loops marked here run in parallel: Numba leaves array expressions alone
    name: name == "prange"
    for name in ("comprehension", "prange", "numpy", "reduction", "setitem", "inplace_binop", "stencil", "fusion")
}
PARTS = 256  # most parts of a loop
GRAIN = 4096  # operations worth a part
COPY_COST = 16  # operations an element of a private copy costs
ATOMIC_COST = 20  # operations an atomic addition costs
INNER_TRIPS = 16  # iterations taken for an inner loop of unknown length


class Plan(NamedTuple):
    """How a loop runs in parallel."""

    reductions: list[Reduction]
    conditions: list[Condition]
    width: int
    scattered: list[Access]  # additions any iteration may make to any element
    private: bool  # whether these may go to copies

    @property
    def simple(self) -> bool:
        """Whether it is a plain parallel loop."""
        return not (self.reductions or self.conditions or self.width or self.scattered)


def apply(f: ir.Function) -> list[str]:
    """Choose for every loop of a program, rewrite those that need it, and say what was done."""
    return _Pass(f).run()


class _Pass:
    def __init__(self, f: ir.Function):
        self.f = f
        self.aliases, self.uses = Aliases(f), count_uses(f)
        self.notes: list[str] = []
        self.mapping: dict[ir.Value, ir.Value] = {}

    def run(self) -> list[str]:
        """Everything."""
        parallel_tapes.convert(self.f, self.fits)
        self.aliases, self.uses = Aliases(self.f), count_uses(self.f)
        self.block(self.f.body)
        substitute(self.f, self.mapping)
        return self.notes

    def block(self, block: ir.Block) -> None:
        """The loops of a block; inside a parallel loop all others are serial."""
        for op in list(block.ops):
            if op.kind == "for" and op.attrs.get("parallel"):
                try:
                    self.loop(op)
                    continue
                except Serial as reason:
                    self.note(op, f"runs serially, because {reason}")
            for b in op.blocks:
                self.block(b)

    def fits(self, loop: ir.Op, tapes: set[ir.Value]) -> bool:
        """Whether a loop could be parallel if its iterations did not share stacks."""
        try:
            plan = self.plan(loop, tapes)
        except Serial:
            return False
        return not plan.scattered or plan.private or self.worth(loop, plan)

    @staticmethod
    def worth(loop: ir.Op, plan: Plan) -> bool:
        """Whether atomic additions cost little compared to the rest."""
        atomics = sum(_times(a.op, loop) for a in plan.scattered)
        return weight(loop.blocks[0]) >= ATOMIC_COST * atomics

    def note(self, loop: ir.Op, what: str) -> None:
        """Something to tell about a loop."""
        where = f"line {loop.line[1]} of {loop.line[0]}" if loop.line else "a loop"
        sweep = "reverse of the prange loop" if loop.attrs["parallel"] == "adjoint" else "prange loop"
        self.notes.append(f"{sweep} at {where}: {what}")

    def loop(self, loop: ir.Op) -> None:
        """One loop that may be parallel."""
        plan = self.plan(loop)
        work = weight(loop.blocks[0])
        if plan.simple:
            mark(loop)
            self.note(loop, "runs in parallel; each iteration has its elements to itself")
            return
        worth = self.worth(loop, plan)
        if plan.scattered and not plan.private and not worth:
            raise Serial(f"its iterations add to the same elements of {_names(plan.scattered)}")
        out = ir.Block()
        results = _Rewrite(self, loop, plan, work, worth).write(ir.Builder(out, loop.line))
        self.splice(loop, out)
        self.mapping.update(zip(loop.results, results, strict=True))
        self.note(loop, describe(plan, worth))

    @staticmethod
    def splice(loop: ir.Op, out: ir.Block) -> None:
        """Put operations in place of a loop."""
        block = loop.block
        assert block is not None
        for o in out.ops:
            o.block = block
        at = block.ops.index(loop)
        block.ops[at : at + 1] = out.ops

    def plan(self, loop: ir.Op, tapes: set[ir.Value] | None = None) -> Plan:
        """How a loop can run in parallel."""
        if loop.attrs.get("exit"):
            raise Serial("it may be left early")
        reductions = []
        for k, p in enumerate(loop.phis):
            r = reduction(loop, k, self.uses)
            if r is None:
                raise Serial(f"'{p.name or 'a value'}' of one iteration is used in the next")
            reductions.append(r)
        conditions: list[Condition] = []
        scattered: list[Access] = []
        width, private = 0, True
        iv = loop.blocks[0].params[0]
        for found in accesses(loop, self.aliases, tapes).values():
            check_writes(found, iv)
            adds = [a for a in found if a.kind == "accum"]
            if not adds or self.trusted(loop, adds):
                continue
            r = reach(adds, loop)
            safe: Any = apart(r, loop) if r is not None and self.near(r, loop) else False
            if safe is False:
                scattered += adds
                private &= len(adds) == len(found) and not any(self.is_record(a) for a in adds)
                continue
            if safe is not True:
                conditions.append(safe)
            assert r is not None
            width = max(width, r.width)
        return Plan(reductions, conditions, width, scattered, private)

    def trusted(self, loop: ir.Op, adds: list[Access]) -> bool:
        """Whether the additions are the program's own, to elements that differ between iterations."""
        if loop.attrs["parallel"] == "adjoint":
            return False
        try:
            check_writes([a._replace(kind="write") for a in adds if a.op.kind == "add"], loop.blocks[0].params[0])
            check_writes([_as_write(a) for a in adds if a.op.kind == "accum"], loop.blocks[0].params[0])
        except Serial:
            return False
        return True

    @staticmethod
    def near(r: Any, loop: ir.Op) -> bool:
        """Whether only neighbouring iterations meet."""
        return r.width == 0 or (r.width <= WIDEST and abs(r.factor) == 1)

    @staticmethod
    def is_record(a: Access) -> bool:
        """Whether it has no rows to make copies of: records are added field by field, and an array of no dimensions."""
        return isinstance(a.array.type.dtype, types.Record) or a.array.type.ndim == 0


def _as_write(a: Access) -> Access:
    return a._replace(kind="write", op=ir.Op("store", a.op.args))


def mark(loop: ir.Op) -> None:
    """Let a loop run in parallel; the order of its iterations is free, and Numba wants it upwards."""
    loop.attrs["prange"] = True
    loop.attrs.pop("reverse", None)


def weight(block: ir.Block) -> int:
    """Roughly how many operations a block takes."""
    total = 0
    for op in block.ops:
        if op.kind == "apply":
            total += 1 if op.attrs["fn"] in scalars.CHEAP else 20
        elif op.kind in ("load", "store", "accum"):
            total += 2
        elif op.kind in ("copy", "add"):
            total += 3 * INNER_TRIPS
        elif op.kind in ("call", "alloc"):
            total += 100
        trips = _trips(op)
        total += sum(trips * weight(b) for b in op.blocks)
    return max(total, 1)


def _trips(op: ir.Op) -> int:
    if op.kind not in ir.LOOPS:
        return 1
    lo, hi = op.args[:2] if op.kind == "for" else (None, None)
    if isinstance(lo, ir.Const) and isinstance(hi, ir.Const):
        return max(int(hi.value) - int(lo.value), 0)
    return INNER_TRIPS


def _times(op: ir.Op, loop: ir.Op) -> int:
    """How often an operation runs in an iteration."""
    n = 1
    block = op.block
    while block is not None and block is not loop.blocks[0]:
        assert block.parent is not None
        n *= _trips(block.parent)
        block = block.parent.block
    return n


def _names(found: list[Access]) -> str:
    names = dict.fromkeys(a.place.root.name or "an array" for a in found)
    return ", ".join(f"'{n}'" for n in names)


def describe(plan: Plan, worth: bool) -> str:
    """A plan in words."""
    parts = ["runs in parallel, in parts"]
    if plan.reductions:
        parts.append(f"{len(plan.reductions)} numbers are summed up part by part")
    if plan.width:
        parts.append(f"iterations within {plan.width} of a part's first run afterwards")
    if plan.scattered and plan.private:
        other = "atomic additions" if worth else "one part"
        parts.append(f"each part has its own copy of {_names(plan.scattered)} ({other} where copies cost more)")
    elif plan.scattered:
        parts.append(f"additions to {_names(plan.scattered)} are atomic")
    return "; ".join(parts)


class _Rewrite:
    """The operations in place of a loop."""

    def __init__(self, owner: _Pass, loop: ir.Op, plan: Plan, work: int, worth: bool):
        self.owner, self.loop, self.plan, self.work, self.worth = owner, loop, plan, work, worth
        self.lo, self.hi = loop.args[:2]

    def write(self, b: ir.Builder) -> list[ir.Value]:
        """All of it; returns the loop's results."""
        n = self.call(b, "max", self.call(b, "sub", self.hi, self.lo), 0)
        parts = self.parts(b, n)
        if not (self.plan.scattered and self.plan.private):
            return self.chunked(b, n, parts, [], bool(self.plan.scattered))
        handles = list(dict.fromkeys(self.outside(a) for a in self.plan.scattered))
        size = self.total(b, handles)
        budget = self.call(b, "floordiv", self.call(b, "mul", n, self.work),
                           self.call(b, "add", self.call(b, "mul", size, COPY_COST), 1))
        few = self.call(b, "min", parts, budget)
        branch = b.op("if", [self.call(b, "ge", few, 2)], blocks=[ir.Block(), ir.Block()])
        then, other = (ir.Builder(x, self.loop.line) for x in branch.blocks)
        branch.blocks[0].yields = self.chunked(then, n, few, handles, False)
        branch.blocks[1].yields = self.chunked(other, n, parts, [], True) if self.worth else self.serial(other)
        branch.results = [ir.Value(r.type, r.name, branch) for r in self.loop.results]
        return branch.results

    @staticmethod
    def call(b: ir.Builder, name: str, x: ir.Value, y: ir.Value | int) -> ir.Value:
        """A function of integers."""
        return scalars.apply(b, name, x, ir.Const(y, types.intp) if isinstance(y, int) else y)

    def parts(self, b: ir.Builder, n: ir.Value) -> ir.Value:
        """How many parts."""
        grain = max(1, GRAIN // self.work, 2 * self.plan.width)
        parts = self.call(b, "max", self.call(b, "min", self.call(b, "floordiv", n, grain), PARTS), 1)
        for condition in self.plan.conditions:
            parts = scalars.apply(b, "where", condition(b), parts, ir.Const(1, types.intp))
        return parts

    def outside(self, a: Access) -> ir.Value:
        """The handle from outside the loop that an access goes through."""
        array = a.array
        while array.home is not None and array.home.within(self.loop.blocks[0]):
            if array.op is None or array.op.kind != "view":
                raise Serial(f"which array '{array.name}' is, is decided in each iteration")
            array = array.op.args[0]
        return array

    def total(self, b: ir.Builder, handles: list[ir.Value]) -> ir.Value:
        """Elements of all copies."""
        size: ir.Value = ir.Const(0, types.intp)
        for h in handles:
            n: ir.Value = ir.Const(1, types.intp)
            for k in range(h.type.ndim):
                n = self.call(b, "mul", n, b.shape(h, k))
            size = self.call(b, "add", size, n)
        return size

    def serial(self, b: ir.Builder) -> list[ir.Value]:
        """The loop as it was."""
        return ir.clone(self.loop, {}, b.block).results

    def chunked(self, b: ir.Builder, n: ir.Value, parts: ir.Value, handles: list, atomic: bool) -> list[ir.Value]:
        """A parallel loop over parts; what parts leave behind is joined in order."""
        rounds = 2 if self.plan.width else 1
        slots = self.call(b, "mul", parts, rounds)
        kept = [b.alloc([slots], self.loop.phis[r.position].type, None, "part") for r in self.plan.reductions]
        copies = [self.copies(b, h, parts) for h in handles]
        if rounds == 1:
            self.part_loop(b, n, parts, None, kept, dict(zip(handles, copies)), atomic)
        else:
            outer = b.loop(ir.Const(0, types.intp), ir.Const(2, types.intp), [], "round")
            inner = ir.Builder(outer.blocks[0], self.loop.line)
            phase = outer.blocks[0].params[0]
            self.part_loop(inner, n, parts, phase, kept, dict(zip(handles, copies)), atomic)
        for h, c in zip(handles, copies):
            self.join_copies(b, h, c, parts)
        return [self.join(b, r, a, slots) for r, a in zip(self.plan.reductions, kept)]

    @staticmethod
    def copies(b: ir.Builder, h: ir.Value, parts: ir.Value) -> ir.Value:
        """Zeros for all parts."""
        sizes = [b.shape(h, k) for k in range(h.type.ndim)]
        return b.alloc([parts, *sizes], h.type.dtype, 0, (h.name or "a") + "_parts")

    def part_loop(
        self, b: ir.Builder, n: ir.Value, parts: ir.Value, phase: ir.Value | None, kept: list, copies: dict, atomic: bool
    ) -> None:
        """The parallel loop over parts."""
        outer = b.loop(ir.Const(0, types.intp), parts, [], "part")
        outer.attrs["prange"] = True
        body = ir.Builder(outer.blocks[0], self.loop.line)
        t = outer.blocks[0].params[0]
        start, stop = (
            self.call(body, "add", self.lo, self.call(body, "floordiv", self.call(body, "mul", n, k), parts))
            for k in (t, self.call(body, "add", t, 1))
        )
        if phase is not None:  # first all but the first iterations of a part, then these
            split = self.call(body, "min", self.call(body, "add", start, self.plan.width), stop)
            first = self.call(body, "eq", phase, 0)
            start, stop = (
                scalars.apply(body, "where", first, split, start),
                scalars.apply(body, "where", first, stop, split),
            )
        mapping = {h: self.row(body, c, t, h) for h, c in copies.items()}
        inits = [r.neutral(self.loop) for r in self.plan.reductions]
        inner = body.op("for", [start, stop, *inits], [v.type for v in self.loop.phis], attrs={})
        block = ir.Block(parent=inner)
        inner.blocks.append(block)
        adds = [a.op for a in self.plan.scattered] if atomic else []
        for o in adds:
            o.attrs["atomic"] = True
        ir.copy_block(self.loop.blocks[0], block, mapping)
        for o in adds:
            o.attrs.pop("atomic")
        if phase is None or not kept:
            slot = t
        else:
            slot = self.call(body, "add", self.call(body, "mul", phase, parts), t)
        for r, a in zip(self.plan.reductions, kept):
            inner.results[r.position].name = self.loop.results[r.position].name
            body.store(a, [slot], inner.results[r.position])

    @staticmethod
    def row(b: ir.Builder, copies: ir.Value, t: ir.Value, h: ir.Value) -> ir.Value:
        """The copy of one part."""
        spec = ir.View("index", (("i",), *[("s", False, False, False)] * h.type.ndim))
        kind = types.Array(h.type.dtype, h.type.ndim, "C")
        return b.op("view", [copies, t], [kind], attrs={"spec": spec}, name=h.name).result

    def join(self, b: ir.Builder, r: Reduction, kept: ir.Value, slots: ir.Value) -> ir.Value:
        """The total of what the parts have left."""
        init = self.loop.inits[r.position]
        op = b.loop(ir.Const(0, types.intp), slots, [init], "part")
        inner = ir.Builder(op.blocks[0])
        got = inner.load(kept, [op.blocks[0].params[0]])
        total = scalars.apply(inner, r.fn, op.phis[0], got)
        op.blocks[0].yields = [scalars.cast(inner, total, init.type)]
        return op.results[0]

    def join_copies(self, b: ir.Builder, h: ir.Value, copies: ir.Value, parts: ir.Value) -> None:
        """Add the copies to the array, element by element."""
        index: list[ir.Value] = []
        for k in range(h.type.ndim):
            op = b.loop(ir.Const(0, types.intp), b.shape(h, k), [], "k")
            if k == 0:
                mark(op)
            b = ir.Builder(op.blocks[0])
            index.append(op.blocks[0].params[0])
        op = b.loop(ir.Const(0, types.intp), parts, [scalars.zero(h.type.dtype)], "part")
        inner = ir.Builder(op.blocks[0])
        got = inner.load(copies, [op.blocks[0].params[0], *index])
        op.blocks[0].yields = [scalars.apply(inner, "add", op.phis[0], got)]
        b.accum(h, index, op.results[0])
