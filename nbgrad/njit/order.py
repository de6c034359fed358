"""Reverse loops whose iterations may run in any order: run upwards, and split where that lets them vectorise.

Iterations commute (up to the rounding of sums) if what they carry are sums, and if each array is only read, only added to,
or touched at one element of its own in every iteration. A loop that scatters to several elements of one array is split
into one loop a row that gathers (`gather`): each is then free of overlapping writes.
"""

from __future__ import annotations

from collections import defaultdict

from . import ir
from .affine import Linear, linear
from .alias import Aliases, apart, base, written
from .gather import cheap, gather, index_of, needed, outside, part, row_of, tape_rows

SLICE_LIMIT = 20  # operations computed again in each part of a split loop
COSTLY = frozenset({"call", "check", "effect", "push", "pop", "copy", "add", "alloc", "while"})


def apply(f: ir.Function) -> None:
    """Turn and split the reverse loops of a finished program, in place."""
    aliases = Aliases(f)
    uses = use_counts(f)
    for block in [f.body, *(b for op in ir.walk(f.body) for b in op.blocks)]:
        new: list[ir.Op] = []
        for op in block.ops:
            if op.kind != "for" or op.attrs.get("exit") or op.attrs.get("prange"):
                new.append(op)
            elif op.attrs.get("reverse") and commutes(op, aliases, uses):
                op.attrs["reverse"] = False
                new += split(op, aliases)
            else:
                new += [op] if op.attrs.get("reverse") else tape_rows(op, aliases)
        block.ops = new


def use_counts(f: ir.Function) -> dict[ir.Value, int]:
    """How often every value is read."""
    counts: dict[ir.Value, int] = defaultdict(int)
    for op in ir.walk(f.body):
        for v in ir.uses(op):
            counts[v] += 1
    for v in f.results:
        counts[v] += 1
    return counts


def commutes(op: ir.Op, aliases: Aliases, uses: dict) -> bool:
    """Whether the iterations of a loop may run in any order."""
    inner = list(ir.walk(op.blocks[0]))
    if any(o.kind in COSTLY for o in inner):
        return False
    if not all(is_sum(op, k, uses) for k in range(len(op.phis))):
        return False
    groups: list[list[tuple[ir.Op, ir.Value]]] = []
    for o in inner:
        target = written(o) if o.kind != "load" else o.args[0]
        if target is None:
            continue
        home = [g for g in groups if not all(apart(aliases, target, a) for _, a in g)]
        merged = [(o, target), *(x for g in home for x in g)]
        groups = [g for g in groups if g not in home] + [merged]
    return all(_harmless(op, g) for g in groups)


def is_sum(op: ir.Op, k: int, uses: dict) -> bool:
    """Whether a carried value is only added to."""
    phi, last = op.phis[k], op.nexts[k]
    if last is phi:
        return uses[phi] == 1
    if ir.is_array(phi):
        return False
    at = phi
    by_arg: dict[ir.Value, list[ir.Op]] = defaultdict(list)
    for o in op.blocks[0].ops:
        for v in o.args:
            by_arg[v].append(o)
    while at is not last:
        users = by_arg[at]
        if uses[at] != 1 or len(users) != 1:
            return False
        (u,) = users
        if u.kind == "apply" and u.attrs["fn"] in ("radd", "add") and ir.is_float(u.result.type):
            at = u.result
        elif u.kind == "for" and at in u.inits and is_sum(u, u.inits.index(at), uses):
            at = u.results[u.inits.index(at)]
        else:
            return False
    return uses[last] == 1


def _harmless(loop: ir.Op, group: list[tuple[ir.Op, ir.Value]]) -> bool:
    """Whether the accesses to one memory do not meet across iterations, or commute."""
    kinds = {o.kind for o, _ in group}
    if kinds == {"load"} or kinds == {"accum"}:
        return True
    iv = loop.blocks[0].params[0]
    common: set[tuple] | None = None
    first = group[0][1]
    for o, a in group:
        if a is not first:
            return False
        own = set()
        for d, i in enumerate(index_of(o)):
            form = linear(i)
            if form.coefficient(iv) in (1, -1) and all(
                outside(s, loop) for s, _ in form.without(iv).terms
            ):
                own.add((d, form.terms, form.const))
        common = own if common is None else common & own
    return bool(common)


# -- splitting ----------------------------------------------------------------------------------------------------


def split(op: ir.Op, aliases: Aliases) -> list[ir.Op]:
    """The loop, or several in its place: sums first, then one for each row added to, then what is overwritten."""
    ops = op.blocks[0].ops
    if any(o.blocks for o in ops):
        return [op]
    accums = [o for o in ops if o.kind == "accum"]
    stores = [o for o in ops if o.kind == "store"]
    if not _crowded(accums) or not _splittable(ops, accums, stores, aliases):
        return [op]
    sums = needed(ops, [], op.nexts) if op.phis else None
    parts = [needed(ops, [a], []) for a in accums]
    last = needed(ops, stores, []) if stores else None
    again = [p for p in [sums, *parts, last] if p is not None][1:]
    if not all(cheap(p, SLICE_LIMIT) for p in again):
        return [op]
    rows: dict[tuple, list[list[ir.Op]]] = defaultdict(list)
    for k, p in enumerate(parts):
        rows[row_of(p[-1], op) or (k,)].append(p)
    out = [_with_sums(op, sums)] if sums is not None else []
    for row in rows.values():
        out += gather(op, row) if len(row) > 1 else [part(op, row[0])]
    return out + ([part(op, last)] if last is not None else [])


def _crowded(accums: list[ir.Op]) -> bool:
    """Whether one array is added to at several places."""
    places: dict[ir.Value, set] = defaultdict(set)
    for a in accums:
        places[base(a.args[0])].add(tuple(map(_key, index_of(a))))
    return any(len(p) > 1 for p in places.values())


def _key(i: ir.Value) -> Linear:
    return linear(i)


def _splittable(
    ops: list[ir.Op], accums: list[ir.Op], stores: list[ir.Op], aliases: Aliases
) -> bool:
    """Whether loads see the same in every part."""
    loads = [(k, o) for k, o in enumerate(ops) if o.kind == "load"]
    for k, o in loads:
        if not all(apart(aliases, o.args[0], a.args[0]) for a in accums):
            return False
        for s in stores:
            if not apart(aliases, o.args[0], s.args[0]) and ops.index(s) < k:
                return False
    if not all(apart(aliases, s.args[0], a.args[0]) for s in stores for a in accums):
        return False
    return all(isinstance(s.args[-1], ir.Const) for s in stores)


def _with_sums(op: ir.Op, ops: list[ir.Op]) -> ir.Op:
    """The part of a loop that carries its sums; it keeps the results."""
    block = op.blocks[0]
    new = ir.Op("for", op.args, [], dict(op.attrs), [ir.Block()], op.line)
    new.results = op.results
    for r in new.results:
        r.op = new
    new.blocks[0].params = block.params
    for p in block.params:
        p.block = new.blocks[0]
    new.blocks[0].ops = ops
    new.blocks[0].yields = block.yields
    for o in ops:
        o.block = new.blocks[0]
    new.block = op.block
    return new
