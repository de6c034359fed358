"""Passes on a program before it is differentiated: constants, short loops written out, counters, invariant work moved out.

What a loop computes again and again without need would be kept again and again for the reverse sweep, so these matter more
here than for speed of the program itself (LLVM does them too, later).
"""

from __future__ import annotations

from typing import Any

from numba import types

from . import ir, scalars
from .alias import Aliases, apart, writes_in
from .scalarize import scalarize
from .share import share
from .simplify import keep_phis, simplify, substitute

UNROLL_TRIPS, UNROLL_OPS = 4, 48


def tidy(f: ir.Function) -> ir.Function:
    """All passes, in place."""
    unroll(f)
    scalarize(f)
    fold(f)
    counters(f)
    hoist(f)
    share(f)
    return simplify(f)


def fold(f: ir.Function) -> None:
    """Fold functions of constants and neutral elements."""
    mapping: dict[ir.Value, ir.Value] = {}

    def final(v: ir.Value) -> ir.Value:
        while v in mapping:
            v = mapping[v]
        return v

    def visit(block: ir.Block) -> None:
        for op in block.ops:
            op.args = [final(a) for a in op.args]
            if op.kind == "apply":
                found = scalars.simplified(op.attrs["fn"], op.args)
                if found is not None and found.type == op.result.type:
                    mapping[op.result] = found
            elif op.kind == "cast" and isinstance(op.args[0], ir.Const):
                found = scalars.cast(ir.Builder(ir.Block()), op.args[0], op.result.type)
                if isinstance(found, ir.Const):
                    mapping[op.result] = found
            for b in op.blocks:
                visit(b)
                b.yields = [final(v) for v in b.yields]

    visit(f.body)
    f.body.yields = [final(v) for v in f.body.yields]


# -- short loops ----------------------------------------------------------------------------------------------------


def unroll(f: ir.Function) -> None:
    """Write out loops of few iterations known now."""
    mapping: dict[ir.Value, ir.Value] = {}

    def visit(block: ir.Block) -> None:
        new: list[ir.Op] = []
        for op in block.ops:
            op.args = [mapping.get(a, a) for a in op.args]
            for b in op.blocks:
                visit(b)
                b.yields = [mapping.get(v, v) for v in b.yields]
            if _short(op):
                _write_out(op, block, new, mapping)
            else:
                new.append(op)
        block.ops = new

    visit(f.body)
    substitute(f, mapping)


def _short(op: ir.Op) -> bool:
    if (
        op.kind != "for"
        or op.attrs.get("exit")
        or op.attrs.get("parallel")
        or op.attrs.get("every") is not None
    ):
        return False
    lo, hi = op.args[:2]
    if not (isinstance(lo, ir.Const) and isinstance(hi, ir.Const)):
        return False
    size = sum(1 for _ in ir.walk(op.blocks[0]))
    trips = hi.value - lo.value
    return 0 < trips <= UNROLL_TRIPS and trips * size <= UNROLL_OPS


def _write_out(
    op: ir.Op, block: ir.Block, new: list[ir.Op], mapping: dict[ir.Value, ir.Value]
) -> None:
    lo, hi = (int(a.value) for a in op.args[:2])  # type: ignore[attr-defined]
    values = list(op.inits)
    order = range(hi - 1, lo - 1, -1) if op.attrs.get("reverse") else range(lo, hi)
    body = op.blocks[0]
    for k in order:
        names: dict[ir.Value, ir.Value] = {body.params[0]: ir.Const(k, types.intp)}
        names.update(zip(op.phis, values, strict=True))
        target = ir.Block()
        for o in body.ops:
            ir.clone(o, names, target)
        for o in target.ops:
            o.block = block
        new += target.ops
        values = [names.get(v, v) for v in op.nexts]
    for r, v in zip(op.results, values, strict=True):
        mapping[r] = v


# -- counters ------------------------------------------------------------------------------------------------------


def counters(f: ir.Function) -> None:
    """Integers that grow by the same amount in every iteration are computed from the loop's variable."""
    mapping: dict[ir.Value, ir.Value] = {}

    def final(v: ir.Value) -> ir.Value:
        while v in mapping:
            v = mapping[v]
        return v

    def visit(block: ir.Block) -> None:
        for op in list(block.ops):
            for b in op.blocks:
                visit(b)
            if op.kind == "for" and not op.attrs.get("exit"):
                _count(op, block, mapping, final)

    visit(f.body)
    substitute(f, mapping)


def _count(op: ir.Op, block: ir.Block, mapping: dict, final: Any) -> None:
    keep = []
    for k, phi in enumerate(op.phis):
        step = _step(op, phi, final(op.nexts[k]), final)
        if step is None:
            keep.append(k)
            continue
        before, inside = ir.Block(), ir.Block()
        out, body = ir.Builder(before), ir.Builder(inside)
        lo, hi = final(op.args[0]), final(op.args[1])
        iv, init = op.blocks[0].params[0], final(op.inits[k])
        turn = scalars.apply(body, "sub", iv, lo)
        if op.attrs.get("reverse"):
            turn = scalars.apply(
                body, "sub", scalars.apply(body, "sub", hi, ir.Const(1, types.intp)), iv
            )
        here = scalars.apply(body, "add", init, scalars.apply(body, "mul", turn, step))
        trips = scalars.trips(out, lo, hi)
        total = scalars.apply(out, "add", init, scalars.apply(out, "mul", trips, step))
        ir.insert(op.blocks[0], inside.ops, 0)
        ir.insert(block, before.ops, block.ops.index(op) + 1)
        mapping[phi], mapping[op.results[k]] = here, total
    if len(keep) < len(op.phis):
        keep_phis(op, keep)


def _step(op: ir.Op, phi: ir.Value, last: ir.Value, final: Any) -> ir.Value | None:
    """What is added to a carried integer in an iteration, if it does not depend on the iteration."""
    if (
        not isinstance(phi.type, types.Integer)
        or phi.type != types.intp
        or last.op is None
        or last.op.kind != "apply"
    ):
        return None
    name, args = last.op.attrs["fn"], [final(a) for a in last.op.args]
    if name == "add" and phi in args:
        other = args[1] if args[0] is phi else args[0]
    elif name == "sub" and args[0] is phi and isinstance(args[1], ir.Const):
        other = ir.Const(-args[1].value, types.intp)
    else:
        return None
    invariant = other.home is None or not other.home.within(op.blocks[0])
    return other if invariant and isinstance(other.type, types.Integer) else None


# -- invariant work ----------------------------------------------------------------------------------------------


def hoist(f: ir.Function) -> None:
    """Move what does not change out of loops, inner loops first."""
    aliases = Aliases(f)

    def visit(block: ir.Block) -> None:
        for op in list(block.ops):
            for b in op.blocks:
                visit(b)
            if op.kind in ir.LOOPS:
                _hoist_pure(op, block)
                if op.kind == "for":
                    _hoist_loads(op, block, aliases)

    visit(f.body)


def _invariant(op: ir.Op, loop: ir.Op) -> bool:
    return all(a.home is None or not any(a.home.within(b) for b in loop.blocks) for a in op.args)


def _hoist_pure(loop: ir.Op, block: ir.Block) -> None:
    moved = []
    for b in loop.blocks:
        kept = []
        for o in b.ops:
            if o.kind in ("apply", "cast", "shape", "view") and _invariant(o, loop) and _fine(o):
                o.block = block
                moved.append(o)
            else:
                kept.append(o)
        b.ops = kept
    at = block.ops.index(loop)
    block.ops[at:at] = moved


def _fine(o: ir.Op) -> bool:
    """Whether an operation may run although the loop might not."""
    return not (
        o.kind == "apply"
        and o.attrs["fn"] in ("floordiv", "mod")
        and not isinstance(o.args[1], ir.Const)
    )


def _hoist_loads(loop: ir.Op, block: ir.Block, aliases: Aliases) -> None:
    """Loads that stay the same move before the loop, if it runs at all."""
    body = loop.blocks[0]
    writes = writes_in(body)
    moved = [
        o
        for o in body.ops
        if o.kind == "load"
        and not isinstance(o.args[0].type.dtype, types.Record)
        and _invariant(o, loop)
        and all(apart(aliases, o.args[0], w) for w in writes)
    ]
    if not moved:
        return
    body.ops = [o for o in body.ops if o not in moved]
    b = ir.Builder(ir.Block(), loop.line)
    runs = scalars.apply(b, "lt", loop.args[0], loop.args[1])
    if isinstance(runs, ir.Const):
        new = list(b.block.ops) + (moved if runs.value else [])
        for o in moved:
            o.block = block
        if runs.value:
            ir.insert(block, new, block.ops.index(loop))
        return
    branch = b.op("if", [runs], [o.result.type for o in moved], blocks=[ir.Block(), ir.Block()])
    branch.block = block
    mapping = {}
    for o, r in zip(moved, branch.results, strict=True):
        o.block = branch.blocks[0]
        branch.blocks[0].ops.append(o)
        branch.blocks[0].yields.append(o.result)
        branch.blocks[1].yields.append(scalars.zero(o.result.type))
        r.name = o.result.name
        mapping[o.result] = r
    _rename(loop, mapping)
    ir.insert(block, list(b.block.ops), block.ops.index(loop))


def _rename(loop: ir.Op, mapping: dict[ir.Value, ir.Value]) -> None:
    """Replace values inside a loop."""
    for b in loop.blocks:
        for o in ir.walk(b):
            o.args = [mapping.get(a, a) for a in o.args]
            for inner in o.blocks:
                inner.yields = [mapping.get(v, v) for v in inner.yields]
        b.yields = [mapping.get(v, v) for v in b.yields]
