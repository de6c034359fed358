"""What leaves a parallel loop before its analysis: checks of sizes, and carried values that conditions pass on unchanged."""

from __future__ import annotations

from numba import types

from . import ir, scalars
from .simplify import replace_invariant, substitute


def lift(f: ir.Function, loops: list[ir.Op]) -> None:
    """Prepare loops that may be parallel, in place."""
    pass_through(f)
    for loop in loops:
        for op in list(loop.blocks[0].ops):
            if op.kind == "check":
                lift_check(loop, op)


def pass_through(f: ir.Function) -> None:
    """A result that is the same value in both branches is that value."""
    while True:
        mapping = {}
        for op in ir.walk(f.body):
            if op.kind != "if":
                continue
            for r, x, y in zip(op.results, *(b.yields for b in op.blocks), strict=True):
                outside = x.home is None or not any(x.home.within(b) for b in op.blocks)
                if x is y and outside:
                    mapping[r] = x
            keep = [k for k, r in enumerate(op.results) if r not in mapping]
            for b in op.blocks:
                b.yields = [b.yields[k] for k in keep]
            op.results = [op.results[k] for k in keep]
        if not mapping:
            break
        substitute(f, mapping)
    replace_invariant(f)


def lift_check(loop: ir.Op, op: ir.Op) -> None:
    """Make a check whose condition is the same in all iterations once, before the loop (if it has any)."""
    found = invariant(op.args[0], loop)
    if found is None:
        return
    assert loop.block is not None
    out = ir.Block()
    b = ir.Builder(out, op.line)
    mapping: dict[ir.Value, ir.Value] = {}
    for o in found:
        ir.clone(o, mapping, out)
    holds = mapping.get(op.args[0], op.args[0])
    if isinstance(holds.type, types.Boolean):
        empty = scalars.apply(b, "ge", loop.args[0], loop.args[1])
        b.op("check", [scalars.apply(b, "or", empty, holds)], attrs=dict(op.attrs))
        loop.blocks[0].ops.remove(op)
        for o in out.ops:
            o.block = loop.block
        at = loop.block.ops.index(loop)
        loop.block.ops[at:at] = out.ops


def invariant(v: ir.Value, loop: ir.Op) -> list[ir.Op] | None:
    """The pure operations in the loop that compute a value from outside values, in order; None if there is more to it."""
    found: dict[ir.Op, None] = {}

    def visit(x: ir.Value) -> bool:
        if x.home is None or not x.home.within(loop.blocks[0]):
            return True
        op = x.op
        if op is None or op.kind not in ("apply", "cast", "shape"):
            return False
        if not all(visit(a) for a in op.args):
            return False
        found[op] = None
        return True

    return list(found) if visit(v) else None
