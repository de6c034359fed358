"""Stacks of kept values in parallel loops: every iteration gets a part of the stack of its own.

A stack is pushed to in iterations of one loop and popped from in those of its reverse; both orders go, once it is known
beforehand how much each iteration pushes. A copy of the loop that only counts finds that out; the sums of the counts
are where the iterations' parts begin, kept on a stack of integers outside the loop for the reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types

from . import ir, scalars
from .affine import place
from .alias import Aliases, written
from .simplify import remove_dead, substitute

INT = types.intp


class Pair(NamedTuple):
    """A loop that pushes, the loop that pops, and the stacks."""

    forward: ir.Op
    reverse: ir.Op
    tapes: list[ir.Value]


def convert(f: ir.Function, fits: Callable[[ir.Op, set], bool]) -> None:
    """Give iterations their own parts where ``fits(loop, tapes)`` says that the loops can be parallel otherwise."""
    skip = {t for op in ir.walk(f.body) if op.kind == "tape" for t in op.results}
    for loop in outermost(f.body):
        if fits(loop, skip):
            move_inside(f, loop)
        pair = find_pair(f, loop)
        if pair is None:
            continue
        if fits(pair.forward, skip) and fits(pair.reverse, skip):
            _Conversion(f, pair).run()


def outermost(block: ir.Block) -> list[ir.Op]:
    """Loops that may be parallel and are in no other such loop, in program order."""
    out = []
    for op in block.ops:
        if op.kind == "for" and op.attrs.get("parallel"):
            out.append(op)
        else:
            for b in op.blocks:
                out += outermost(b)
    return out


def move_inside(f: ir.Function, loop: ir.Op) -> None:
    """Stacks that are used in one iteration only (by a gradient taken there) are made in the iteration."""
    inner = set(ir.walk(loop.blocks[0]))
    body = loop.blocks[0]
    for t in uses(loop, "push"):
        made = t.op
        assert made is not None and made.block is not None
        if made.block is body or not all(op in inner for op in ir.walk(f.body) if t in ir.uses(op)):
            continue
        made.block.ops.remove(made)
        made.block = body
        body.ops.insert(0, made)


def uses(op: ir.Op, kind: str) -> list[ir.Value]:
    """The stacks from outside that are pushed to or popped from inside an operation."""
    found = dict.fromkeys(o.args[0] for b in op.blocks for o in ir.walk(b) if o.kind == kind)
    return [t for t in found if t.home is None or not any(t.home.within(b) for b in op.blocks)]


def find_pair(f: ir.Function, loop: ir.Op) -> Pair | None:
    """The loop that pops what a loop pushes, if that is one loop.

    A loop that pops as well shares a stack whatever is done here, and a copy of it that counts would pop twice.
    """
    tapes = uses(loop, "push")
    if not tapes or uses(loop, "pop"):
        return None
    others = [o for o in outermost(f.body) if o is not loop and set(uses(o, "pop")) & set(tapes)]
    if len(others) != 1 or not set(tapes) <= set(uses(others[0], "pop")):
        return None
    return Pair(loop, others[0], tapes)


class _Conversion:
    def __init__(self, f: ir.Function, pair: Pair):
        self.f, self.pair = f, pair

    def run(self) -> bool:
        """Convert; False if the counts depend on what the loop writes."""
        pair = self.pair
        tape = ir.Op("tape", [], [types.Array(INT, 1, "C")], name="starts")
        tape.block = self.f.body
        self.f.body.ops.insert(0, tape)
        self.starts = tape.result
        before = ir.Block()
        b = ir.Builder(before, pair.forward.line)
        n, step = self.sizes(b, pair.forward)
        first = b.op(
            "push", [self.starts, self.times(b, step, len(pair.tapes))], [INT], name="starts"
        ).result
        sections = [self.plus(b, first, self.times(b, step, k)) for k in range(len(pair.tapes))]
        counting = self.count(b, sections)
        self.insert(pair.forward, before)
        if counting is None or not self.independent(counting):
            return self.undo(before, tape)
        after = ir.Block()
        b = ir.Builder(after, pair.forward.line)
        mapping: dict[ir.Value, ir.Value] = {}
        for t, s in zip(pair.tapes, sections, strict=True):
            total = self.sums(b, s, n)
            base = b.op("push", [t, total], [INT], name="base").result
            self.enter(pair.forward, t, base, s, 0, mapping)
        self.insert(pair.forward, after)
        self.reverse(mapping)
        substitute(self.f, mapping)
        return True

    def undo(self, before: ir.Block, tape: ir.Op) -> bool:
        """Take back what was inserted."""
        block = self.pair.forward.block
        assert block is not None
        block.ops = [o for o in block.ops if o not in before.ops]
        self.f.body.ops.remove(tape)
        return False

    @staticmethod
    def plus(b: ir.Builder, x: ir.Value, y: ir.Value | int) -> ir.Value:
        """A sum."""
        return scalars.apply(b, "add", x, ir.Const(y, INT) if isinstance(y, int) else y)

    @staticmethod
    def times(b: ir.Builder, x: ir.Value, y: int) -> ir.Value:
        """A multiple."""
        return scalars.apply(b, "mul", x, ir.Const(y, INT)) if y else ir.Const(0, INT)

    def sizes(self, b: ir.Builder, loop: ir.Op) -> tuple[ir.Value, ir.Value]:
        """How many iterations a loop has, and one more."""
        n = scalars.apply(
            b, "max", scalars.apply(b, "sub", loop.args[1], loop.args[0]), ir.Const(0, INT)
        )
        return n, self.plus(b, n, 1)

    @staticmethod
    def insert(loop: ir.Op, new: ir.Block) -> None:
        """Put operations in front of a loop."""
        block = loop.block
        assert block is not None
        for o in new.ops:
            o.block = block
        at = block.ops.index(loop)
        block.ops[at:at] = new.ops

    def count(self, b: ir.Builder, sections: list[ir.Value]) -> ir.Op | None:
        """A copy of the loop that stores how much each iteration pushes."""
        loop = self.pair.forward
        new = b.op("for", loop.args[:2], [], attrs={"prange": True})
        body = ir.Block(parent=new)
        new.blocks.append(body)
        ir.copy_block(loop.blocks[0], body, dict(zip(loop.phis, loop.inits, strict=True)))
        mapping = dict(zip(body.params[1:], loop.inits, strict=True))
        body.params, body.yields = body.params[:1], []
        if not drop_writes(body, body):
            return None
        inner = ir.Builder(body, loop.line)
        for t, s in zip(self.pair.tapes, sections, strict=True):
            total = thread(body, t, ir.Const(0, INT), mapping)
            at = self.plus(inner, scalars.apply(inner, "sub", body.params[0], loop.args[0]), s)
            inner.store(self.starts, [self.plus(inner, at, 1)], total)
        substitute_in(new, mapping)
        return new

    def independent(self, counting: ir.Op) -> bool:
        """Whether the counts do not depend on what the loop writes."""
        self.f.body.yields.append(self.starts)  # what is stored there is needed
        remove_dead(self.f)
        self.f.body.yields.pop()
        aliases = Aliases(self.f)
        changed = {
            aliases.of(w)
            for o in ir.walk(self.pair.forward.blocks[0])
            if (w := written(o)) is not None
        }
        seen = [o.args[0] for o in ir.walk(counting.blocks[0]) if o.kind == "load"]
        seen += [
            a
            for o in ir.walk(counting.blocks[0])
            if o.kind == "call"
            for a in o.args
            if ir.is_array(a)
        ]
        local = {
            o.result
            for o in ir.walk(counting.blocks[0])
            if o.kind in ("alloc", "call") and o.results
        }
        return not any(aliases.of(a) in changed for a in seen if place(a, []).root not in local)

    def sums(self, b: ir.Builder, section: ir.Value, n: ir.Value) -> ir.Value:
        """Replace counts by their running sums; returns the total."""
        zero = ir.Const(0, INT)
        b.store(self.starts, [section], zero)
        loop = b.loop(zero, n, [zero], "k")
        inner = ir.Builder(loop.blocks[0])
        at = self.plus(inner, self.plus(inner, section, 1), loop.blocks[0].params[0])
        total = self.plus(inner, loop.phis[0], inner.load(self.starts, [at]))
        inner.store(self.starts, [at], total)
        loop.blocks[0].yields = [total]
        return loop.results[0]

    def enter(
        self,
        loop: ir.Op,
        tape: ir.Value,
        base: ir.Value,
        section: ir.Value,
        end: int,
        mapping: dict,
    ) -> None:
        """Thread an iteration's position on a stack through the body of a loop."""
        body = loop.blocks[0]
        start = ir.Block()
        b = ir.Builder(start, loop.line)
        k = scalars.apply(b, "sub", body.params[0], loop.args[0])
        at = self.plus(b, self.plus(b, section, k), end)
        position = self.plus(b, base, b.load(self.starts, [at]))
        thread(body, tape, position, mapping)
        for o in start.ops:
            o.block = body
        body.ops[0:0] = start.ops

    def reverse(self, mapping: dict) -> None:
        """The same for the loop that pops."""
        loop = self.pair.reverse
        before = ir.Block()
        b = ir.Builder(before, loop.line)
        n, step = self.sizes(b, loop)
        first = b.op(
            "pop", [self.starts, self.times(b, step, len(self.pair.tapes))], [INT], name="starts"
        ).result
        for k, t in enumerate(self.pair.tapes):
            section = self.plus(b, first, self.times(b, step, k))
            total = b.load(self.starts, [self.plus(b, section, n)])
            base = b.op("pop", [t, total], [INT], name="base").result
            self.enter(loop, t, base, section, 1, mapping)
        self.insert(loop, before)


def touches(op: ir.Op, tape: ir.Value) -> bool:
    """Whether an operation pushes to or pops from a stack inside."""
    return any(
        o.kind in ("push", "pop") and o.args[0] is tape for b in op.blocks for o in ir.walk(b)
    )


def thread(
    block: ir.Block, tape: ir.Value, position: ir.Value, mapping: dict[ir.Value, ir.Value]
) -> ir.Value:
    """Replace pushes and pops in a block by sums that start from a position; returns where it ends."""
    for op in list(block.ops):
        if op.kind in ("push", "pop") and op.args[0] is tape:
            new = ir.Block()
            moved = scalars.apply(
                ir.Builder(new), "add" if op.kind == "push" else "sub", position, op.args[1]
            )
            for o in new.ops:
                o.block = block
            at = block.ops.index(op)
            block.ops[at : at + 1] = new.ops
            mapping[op.result] = position if op.kind == "push" else moved
            position = moved
        elif op.blocks and touches(op, tape):
            position = _through(op, tape, position, mapping)
    return position


def _through(op: ir.Op, tape: ir.Value, position: ir.Value, mapping: dict) -> ir.Value:
    """The position behind an operation with blocks."""
    r = ir.Value(INT, "at", op)
    if op.kind == "if":
        for b in op.blocks:
            b.yields.append(thread(b, tape, position, mapping))
        op.results.append(r)
        return r
    count = len(op.nexts)
    p = ir.Value(INT, "at", block=op.blocks[0])
    op.blocks[0].params.append(p)
    op.args.append(position)
    end: ir.Value = p
    for b in op.blocks:
        end = thread(b, tape, end, mapping)
    op.blocks[-1].yields.insert(count, end)
    op.results.append(r)
    return r


def substitute_in(op: ir.Op, mapping: dict[ir.Value, ir.Value]) -> None:
    """Replace values inside one operation."""

    def final(v: ir.Value) -> ir.Value:
        while v in mapping:
            v = mapping[v]
        return v

    for block in op.blocks:
        for o in ir.walk(block):
            o.args = [final(a) for a in o.args]
            for b in o.blocks:
                b.yields = [final(v) for v in b.yields]


def drop_writes(block: ir.Block, outer: ir.Block) -> bool:
    """Remove what a block does to arrays from outside; False if it is not known whether an array is from outside."""
    kept = []
    for op in block.ops:
        if op.kind in ("store", "accum", "copy", "add"):
            root: Any = place(op.args[0], []).root
            inside = root.home is not None and root.home.within(outer)
            if not inside:
                continue
            if root.op is None or root.op.kind not in ("alloc", "call"):
                return False
        if op.kind in ("check", "effect"):
            continue
        kept.append(op)
        if not all(drop_writes(b, outer) for b in op.blocks):
            return False
    block.ops = kept
    return True
