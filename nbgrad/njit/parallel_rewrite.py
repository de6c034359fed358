"""The operations in place of a loop that runs in parallel by parts."""

from __future__ import annotations

from typing import NamedTuple

from numba import types

from . import ir, scalars
from .parallel_access import Access, Condition, SerialError
from .parallel_reduce import Reduction

PARTS = 256  # most parts of a loop
GRAIN = 4096  # operations worth a part
COPY_COST = 16  # operations an element of a private copy costs


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


def mark(loop: ir.Op) -> None:
    """Let a loop run in parallel; the order of its iterations is free, and Numba wants it upwards."""
    loop.attrs["prange"] = True
    loop.attrs.pop("reverse", None)


class Rewrite:
    """The operations in place of a loop."""

    def __init__(self, loop: ir.Op, plan: Plan, work: int, worth: bool):
        self.loop, self.plan, self.work, self.worth = loop, plan, work, worth
        self.lo, self.hi = loop.args[:2]

    def write(self, b: ir.Builder) -> list[ir.Value]:
        """All of it; returns the loop's results."""
        n = self.call(b, "max", self.call(b, "sub", self.hi, self.lo), 0)
        parts = self.parts(b, n)
        if not (self.plan.scattered and self.plan.private):
            return self.chunked(b, n, parts, [], bool(self.plan.scattered))
        handles = list(dict.fromkeys(self.outside(a) for a in self.plan.scattered))
        size = self.total(b, handles)
        budget = self.call(
            b,
            "floordiv",
            self.call(b, "mul", n, self.work),
            self.call(b, "add", self.call(b, "mul", size, COPY_COST), 1),
        )
        few = self.call(b, "min", parts, budget)
        branch = b.op("if", [self.call(b, "ge", few, 2)], blocks=[ir.Block(), ir.Block()])
        then, other = (ir.Builder(x, self.loop.line) for x in branch.blocks)
        known = self.call(
            then, "max", few, 2
        )  # as it is here: now the printer sees that no index is negative
        branch.blocks[0].yields = self.chunked(then, n, known, handles, False)
        branch.blocks[1].yields = (
            self.chunked(other, n, parts, [], True) if self.worth else self.serial(other)
        )
        branch.results = [ir.Value(r.type, r.name, branch) for r in self.loop.results]
        return branch.results

    @staticmethod
    def call(b: ir.Builder, name: str, x: ir.Value, y: ir.Value | int) -> ir.Value:
        """A function of integers."""
        return scalars.apply(b, name, x, ir.Const(y, types.intp) if isinstance(y, int) else y)

    def parts(self, b: ir.Builder, n: ir.Value) -> ir.Value:
        """How many parts."""
        grain = max(1, GRAIN // self.work, 2 * self.plan.width)
        parts = self.call(
            b, "max", self.call(b, "min", self.call(b, "floordiv", n, grain), PARTS), 1
        )
        for condition in self.plan.conditions:
            parts = scalars.apply(b, "where", condition(b), parts, ir.Const(1, types.intp))
        return parts

    def outside(self, a: Access) -> ir.Value:
        """The handle from outside the loop that an access goes through."""
        array = a.array
        while array.home is not None and array.home.within(self.loop.blocks[0]):
            if array.op is None or array.op.kind != "view":
                raise SerialError(f"which array '{array.name}' is, is decided in each iteration")
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

    def chunked(
        self, b: ir.Builder, n: ir.Value, parts: ir.Value, handles: list, atomic: bool
    ) -> list[ir.Value]:
        """A parallel loop over parts; what parts leave behind is joined in order."""
        rounds = 2 if self.plan.width else 1
        slots = self.call(b, "mul", parts, rounds)
        kept = [
            b.alloc([slots], self.loop.phis[r.position].type, None, "part")
            for r in self.plan.reductions
        ]
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
        self,
        b: ir.Builder,
        n: ir.Value,
        parts: ir.Value,
        phase: ir.Value | None,
        kept: list,
        copies: dict,
        atomic: bool,
    ) -> None:
        """The parallel loop over parts."""
        outer = b.loop(ir.Const(0, types.intp), parts, [], "part")
        outer.attrs["prange"] = True
        body = ir.Builder(outer.blocks[0], self.loop.line)
        t = outer.blocks[0].params[0]
        start, stop = (
            self.call(
                body,
                "add",
                self.lo,
                self.call(body, "floordiv", self.call(body, "mul", n, k), parts),
            )
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
        spec = ir.View("index", (("i",),))
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
