"""Time loops in stretches: the state is kept at the start of each stretch, and a stretch is run again to be reversed.

What a time loop keeps for its reverse sweep grows with its length; kept for one stretch at a time it stays in the cache, and
memory grows with the number of stretches only. `cut` rewrites such loops before the adjoint is made: an outer loop over
stretches, each a ``region``; the reverse of a region runs the adjoint of its own program from the state kept at its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba import types

from ..errors import UnsupportedError
from . import ir, scalars
from .alias import Aliases, apart, base, writes_in, written

STRETCH_BYTES = 1 << 19  # of state written in a stretch: about what a second-level cache holds
STATE_BYTES = 3 << 24  # of states kept in all


class Regions:
    """Part of the adjoint: the reverse of a region."""

    f: ir.Function
    b: ir.Builder
    aliases: Any
    activity: Any
    order: dict[ir.Op, int]
    kept: Any
    shadow_of: Any
    add: Any
    take: Any

    def rev_region(self, op: ir.Op, adj: dict) -> None:
        """Run the region again from its start, and its reverse sweep."""
        from .adjoint import adjoint
        from .derive import inline

        free, views = base_values(op)
        active_results = [k for k, r in enumerate(op.results) if self.activity.active(r)]
        changed = {self.aliases.of(t) for t in writes_in(op.blocks[0])}
        own = [
            v
            for v in free
            if ir.is_array(v) and self.aliases.of(v) in changed and self.activity.active(v)
        ]
        if not active_results and not own:
            return
        program = self.region_program(op, free, views)
        wrt = [k for k, v in enumerate(free) if self.activity.active(v)]
        outputs = [k for k, v in enumerate(free) if v in own]
        p = adjoint(program, wrt, active_results, outputs)
        args = [self.kept(op, v) if ir.is_array(v) else v for v in free]
        args += [self.shadow_of(free[k]) for k in p.shadows]
        for k in p.seeds:
            r = op.results[k]
            args.append(
                self.shadow_of(r) if ir.is_array(r) else self.take(adj, r) or scalars.zero(r.type)
            )
        out = inline(p.fn, args, self.b, self.f.body)
        for k, g in zip(p.inputs, out[len(op.results) :]):
            self.add(adj, free[k], g)

    @staticmethod
    def region_program(op: ir.Op, free: list[ir.Value], views: list[ir.Op]) -> ir.Function:
        """The region as a program of its own; views of arrays from outside are made inside."""
        program = ir.Function("region")
        mapping: dict[ir.Value, ir.Value] = {v: program.add_param(v.type, v.name) for v in free}
        for o in [*views, *op.blocks[0].ops]:
            ir.clone(o, mapping, program.body)
        program.body.yields = [mapping.get(v, v) for v in op.blocks[0].yields]
        return program


def base_values(op: ir.Op) -> tuple[list[ir.Value], list[ir.Op]]:
    """What the blocks of an operation read from outside, with views traced to their arrays; and these views, in order."""
    found: dict[ir.Value, None] = {}
    views: dict[ir.Op, None] = {}

    def note(v: ir.Value) -> None:
        if v.op is not None and v.op.kind == "view":
            for a in v.op.args:
                if not isinstance(a, ir.Const):
                    note(a)
            views[v.op] = None
        else:
            found[v] = None

    for v in ir.free_values(op):
        note(v)
    return list(found), list(views)


def time_loops(f: ir.Function) -> list[int]:
    """Positions (among the top level's operations) of loops that carry arrays or hold inner loops over kept arrays."""
    aliases = Aliases(f)
    found = []
    for k, op in enumerate(f.body.ops):
        if (
            op.kind != "for"
            or op.attrs.get("exit")
            or op.attrs.get("parallel")
            or op.attrs.get("cut")
        ):
            continue
        wanted = op.attrs.get("every") is not None or _evolves(op, aliases)
        if wanted and _separate(op, aliases) and not _used_by_old_names(f, k, aliases):
            found.append(k)
    return found


def _used_by_old_names(f: ir.Function, k: int, aliases: Aliases) -> bool:
    """Whether arrays that a loop carries are used after it by handles from before it: shadows would not be the same."""
    before = {f.body.ops[i] for i in range(k)}
    carried = {aliases.of(v) for v in f.body.ops[k].inits if ir.is_array(v)}
    after = [v for op in f.body.ops[k + 1 :] for v in _all_uses(op)] + f.results
    return any(
        ((base(v).op is None and base(v).home is f.body) or base(v).op in before)
        and aliases.of(v) in carried
        for v in after
        if ir.is_array(v)
    )


def _all_uses(op: ir.Op) -> Iterator[ir.Value]:
    """The values an operation reads, and those inside it."""
    yield from ir.uses(op)
    for b in op.blocks:
        for o in ir.walk(b):
            yield from ir.uses(o)


def _separate(op: ir.Op, aliases: Aliases) -> bool:
    """Whether the arrays a loop uses from outside certainly do not overlap."""
    if any(
        o.kind in ("push", "pop") for o in ir.walk(op.blocks[0])
    ):  # a derivative's own loop: its stacks go on
        return False
    arrays = [v for v in base_values(op)[0] if ir.is_array(v)] + [
        v for v in op.inits if ir.is_array(v)
    ]
    arrays = list(dict.fromkeys(base(v) for v in arrays))
    return all(apart(aliases, a, b) for k, a in enumerate(arrays) for b in arrays[:k])


def _evolves(op: ir.Op, aliases: Aliases) -> bool:
    """Whether an iteration reads arrays that the one before has written."""
    if not any(o.kind in ir.LOOPS or o.kind == "call" for o in op.blocks[0].ops):
        return False
    if any(ir.is_array(p) for p in op.phis):
        return True
    first: dict[Any, str] = {}
    for o in ir.walk(op.blocks[0]):
        target = written(o)
        if o.kind in ("load", "accum") and _from_outside(o.args[0], op):
            first.setdefault(aliases.of(o.args[0]), "read")
        elif target is not None and _from_outside(target, op):
            first.setdefault(aliases.of(target), "write")
    changed = {aliases.of(t) for t in writes_in(op.blocks[0])}
    return any(kind == "read" and memory in changed for memory, kind in first.items())


def _from_outside(a: ir.Value, op: ir.Op) -> bool:
    a = base(a)
    return a.home is None or not a.home.within(op.blocks[0])


def cut(f: ir.Function, where: list[int]) -> None:
    """Cut loops of the top level into stretches, in place."""
    for op in [f.body.ops[k] for k in where]:
        _cut(f, op)


def refuse_others(f: ir.Function, where: list[int]) -> None:
    """Raise for a loop over ``checkpoint(range(...))`` that cannot be cut.

    Raises
    ------
    UnsupportedError : the loop is inside another one, can be left early, or its arrays may overlap.
    """
    chosen = [f.body.ops[k] for k in where]
    for op in ir.walk(f.body):
        if op.attrs.get("every") is not None and op not in chosen:
            place = f"{op.line[0]}, line {op.line[1]}" if op.line else "a loop"
            raise UnsupportedError(
                f"njit: checkpoint(range(...)) at {place}: the loop is inside another one, ends by break or return, or uses "
                "arrays that may overlap; expected a loop at the outermost level that runs to its end. Put checkpoint on the "
                "outer loop, or around a function: checkpoint(f)."
            )


def _cut(f: ir.Function, op: ir.Op) -> None:
    b = ir.Builder(ir.Block(), op.line)
    lo, hi = op.args[:2]
    n = scalars.trips(b, lo, hi)
    every = op.attrs.pop("every", None)
    length = every if every is not None and not ir.is_const(every, 0) else _length(b, op, n)
    length = scalars.apply(b, "max", length, ir.Const(1, types.intp))
    pieces = scalars.apply(
        b,
        "floordiv",
        scalars.apply(b, "add", n, scalars.apply(b, "sub", length, ir.Const(1, types.intp))),
        length,
    )
    inits = op.inits
    outer = b.loop(ir.Const(0, types.intp), pieces, inits, "stretch", cut=True)
    if op.attrs.get("reverse"):  # the last stretch comes first
        outer.attrs["reverse"] = True
    outer.results = op.results
    for r in outer.results:
        r.op = outer
    body = outer.blocks[0]
    inside = ir.Builder(body, op.line)
    start = scalars.apply(inside, "mul", body.params[0], length)
    first = scalars.apply(inside, "add", lo, start)
    last = scalars.apply(inside, "min", hi, scalars.apply(inside, "add", first, length))
    region = inside.op("region", [], [p.type for p in op.phis], blocks=[ir.Block()])
    op.args = [first, last, *body.params[1:]]
    op.results = [ir.Value(p.type, p.name, op) for p in op.phis]
    op.attrs["cut"] = True
    at = f.body.ops.index(op)
    f.body.ops.remove(op)
    op.block = region.blocks[0]
    region.blocks[0].ops = [op]
    region.blocks[0].yields = list(op.results)
    body.yields = list(region.results)
    ir.insert(f.body, b.block.ops, at)


def _length(b: ir.Builder, op: ir.Op, n: ir.Value) -> ir.Value:
    """Iterations whose written state fits the cache, more where the states kept in all would be too many."""
    arrays: dict[ir.Value, None] = {}
    for v in [
        *op.inits,
        *writes_in(op.blocks[0]),
    ]:
        if ir.is_array(v) and _from_outside(v, op):
            arrays[base(v)] = None
    total: ir.Value = ir.Const(64, types.intp)
    for a in arrays:
        size: ir.Value = ir.Const(8, types.intp)
        for k in range(a.type.ndim):
            size = scalars.apply(b, "mul", size, b.shape(a, k))
        total = scalars.apply(b, "add", total, size)
    cached = scalars.apply(b, "floordiv", ir.Const(STRETCH_BYTES, types.intp), total)
    frugal = scalars.apply(
        b, "floordiv", scalars.apply(b, "mul", n, total), ir.Const(STATE_BYTES, types.intp)
    )
    length = scalars.apply(b, "max", cached, frugal)
    even = scalars.apply(
        b,
        "mul",
        scalars.apply(
            b,
            "floordiv",
            scalars.apply(b, "add", length, ir.Const(2, types.intp)),
            ir.Const(2, types.intp),
        ),
        ir.Const(2, types.intp),
    )
    return even
