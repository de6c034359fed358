"""Reverse stencils as gathers, and rows of a tape written on their own: loops that are cut up so that each runs fast.

A loop that adds to ``d[i - 1]``, ``d[i]`` and ``d[i + 1]`` writes every element three times. Where the additions may be done
in any order, ``d[j] += p(j + 1) + q(j) + r(j - 1)`` writes it once; what is left of the ends is done by a short loop.

A loop that computes a state again and keeps residuals in a tape interleaves stores to first-level cache with stores that
miss it; the loads of the next sweep over the state then wait for both (measured: 2.2 times the time of two loops).
"""

from __future__ import annotations

from collections.abc import Sequence

from numba import types

from . import functions, ir, scalars
from .affine import Linear, linear
from .alias import Aliases, apart, base

Slice = list[ir.Op]  # operations in order, the last one an addition


def index_of(o: ir.Op) -> list[ir.Value]:
    """The index of an access."""
    return o.args[1:] if o.kind == "load" else o.args[1:-1]


def row_of(o: ir.Op, loop: ir.Op) -> tuple | None:
    """What accesses have in common that differ by a constant along one dimension; None if there is no such dimension."""
    iv = loop.blocks[0].params[0]
    key: list = [o.args[0]]
    moving = 0
    for i in index_of(o):
        form = linear(i)
        factor = form.coefficient(iv)
        if factor not in (0, 1) or not all(outside(s, loop) for s, _ in form.without(iv).terms):
            return None
        moving += factor
        key.append((factor, form.terms, 0 if factor else form.const))
    return tuple(key) if moving == 1 else None


def outside(v: ir.Value, loop: ir.Op) -> bool:
    """Whether a value is the same in every iteration."""
    return v.home is None or not v.home.within(loop.blocks[0])


def offset(o: ir.Op, iv: ir.Value) -> int:
    """The constant along the dimension that moves."""
    forms: list[Linear] = [linear(i) for i in index_of(o)]
    return next(f.const for f in forms if f.coefficient(iv))


def gather(loop: ir.Op, slices: Sequence[Slice]) -> list[ir.Op]:
    """Loops that add what the slices of ``loop`` add to one row: a short one for the ends, and one an element."""
    iv = loop.blocks[0].params[0]
    offsets = [offset(s[-1], iv) for s in slices]
    first = min(offsets)
    shifts = [c - first for c in offsets]
    span = max(shifts)
    home = ir.Block()
    b = ir.Builder(home, loop.line)
    lo, hi = loop.args[:2]
    start = scalars.apply(b, "add", lo, _int(span))
    _ends(b, loop, slices, shifts, start)
    main = b.loop(start, hi, [], iv.name)
    inside = ir.Builder(main.blocks[0], loop.line)
    j = main.blocks[0].params[0]
    total: ir.Value | None = None
    for s, c in zip(slices, shifts, strict=True):
        mapping = {iv: scalars.apply(inside, "sub", j, _int(c))}
        for o in s[:-1]:
            ir.clone(o, mapping, inside.block)
        v = mapping.get(s[-1].args[-1], s[-1].args[-1])
        total = v if total is None else scalars.apply(inside, "radd", total, v)
    target = slices[offsets.index(first)][-1]
    at = [_moved(inside, i, iv, j) for i in index_of(target)]
    assert total is not None
    inside.accum(target.args[0], at, total)
    return home.ops


def _int(n: int) -> ir.Const:
    return ir.Const(n, types.intp)


def _moved(b: ir.Builder, i: ir.Value, iv: ir.Value, j: ir.Value) -> ir.Value:
    """An index with another loop variable."""
    form = linear(i)
    out: ir.Value = j if form.coefficient(iv) else _int(0)
    for s, c in form.without(iv).terms:
        out = scalars.apply(b, "add", out, scalars.apply(b, "mul", s, _int(c)))
    name = "add" if form.const >= 0 else "sub"
    return scalars.apply(b, name, out, _int(abs(form.const)))


def _ends(
    b: ir.Builder, loop: ir.Op, slices: Sequence[Slice], shifts: list[int], start: ir.Value
) -> None:
    """The additions that the main loop leaves: the first and last ``span`` iterations, each addition under its condition."""
    lo, hi = loop.args[:2]
    span = max(shifts)
    count = scalars.apply(b, "min", scalars.trips(b, lo, hi), _int(2 * span))
    behind = scalars.apply(b, "sub", hi, count)
    short = b.loop(_int(0), count, [], "e")
    inside = ir.Builder(short.blocks[0], loop.line)
    e = short.blocks[0].params[0]
    i = scalars.apply(
        inside,
        "where",
        scalars.apply(inside, "lt", e, _int(span)),
        scalars.apply(inside, "add", e, lo),
        scalars.apply(inside, "add", e, behind),
    )
    mapping: dict[ir.Value, ir.Value] = {loop.blocks[0].params[0]: i}
    done: set[ir.Op] = set()
    for s, c in zip(slices, shifts, strict=True):
        for o in s[:-1]:
            if o not in done:
                ir.clone(o, mapping, inside.block)
                done.add(o)
        j = scalars.apply(inside, "add", i, _int(c))
        left = scalars.apply(
            inside,
            "or",
            scalars.apply(inside, "lt", j, start),
            scalars.apply(inside, "ge", j, hi),
        )
        choice = inside.op("if", [left], [], blocks=[ir.Block(), ir.Block()])
        ir.clone(s[-1], mapping, choice.blocks[0])


# -- rows of a tape --------------------------------------------------------------------------------------------------


def tape_rows(loop: ir.Op, aliases: Aliases) -> list[ir.Op]:
    """The loop, or two: one that fills a row of a stretch's tape, and one that reads it where it needs the values."""
    ops = loop.blocks[0].ops
    if any(o.blocks or o.kind not in ("apply", "cast", "load", "store") for o in ops):
        return [loop]
    kept = [o for o in ops if o.kind == "store" and is_stretch_tape(o.args[0])]
    states = [o for o in ops if o.kind == "store" and o not in kept]
    if not kept or not states or not _own_elements(loop, kept):
        return [loop]
    mine = needed(ops, kept, [])
    if any(v in loop.phis for o in mine for v in o.args):
        return [loop]
    loads = [o for o in mine if o.kind == "load"]
    if not all(apart(aliases, o.args[0], s.args[0]) for o in loads for s in states):
        return [loop]
    first = part(loop, mine)
    _read_back(loop, kept)
    return [first, loop]


def is_stretch_tape(array: ir.Value) -> bool:
    """Whether an array is a tape made anew in each stretch of a time loop."""
    array = base(array)
    return ir.is_kept(array) and array.home is not None and array.home.parent is not None


def _own_elements(loop: ir.Op, kept: Sequence[ir.Op]) -> bool:
    """Whether every iteration fills an element of its own in each tape, and nothing reads a tape."""
    tapes = [base(o.args[0]) for o in kept]
    if len(set(tapes)) < len(tapes):
        return False
    reads = [base(a) for o in loop.blocks[0].ops if o.kind == "load" for a in o.args[:1]]
    return not set(reads) & set(tapes) and all(row_of(o, loop) is not None for o in kept)


def _read_back(loop: ir.Op, kept: Sequence[ir.Op]) -> None:
    """Read kept values from the tape in ``loop``, and drop what only they needed."""
    block = loop.blocks[0]
    mapping: dict[ir.Value, ir.Value] = {}
    for s in kept:
        v = s.args[-1]
        if v in mapping or v.op is None or v.op.block is not block or v.op.kind == "load":
            continue
        if v.type != s.args[0].type.dtype:
            continue
        at = _after_index(block, s, v)
        if any(v in o.args for o in block.ops[block.ops.index(v.op) + 1 : at]):
            continue
        loaded = ir.Op("load", s.args[:-1], [v.type], line=s.line)
        loaded.result.name = v.name
        ir.insert(block, [loaded], at)
        mapping[v] = loaded.result
    for o in block.ops:
        o.args = [mapping.get(a, a) for a in o.args]
    block.yields = [mapping.get(v, v) for v in block.yields]
    rest = [o for o in block.ops if o.kind == "store" and o not in kept]
    block.ops = needed(block.ops, rest, block.yields)


def _after_index(block: ir.Block, store: ir.Op, v: ir.Value) -> int:
    """The place right after an element's value and index are known."""
    defined = [a.op for a in [*store.args[1:-1], v] if a.op is not None and a.op.block is block]
    return 1 + max(block.ops.index(o) for o in defined)


def needed(ops: Sequence[ir.Op], wanted: Sequence[ir.Op], values: Sequence[ir.Value]) -> Slice:
    """The operations among ``ops`` that some of them, or some values, depend on."""
    need: set[ir.Value] = {v for o in wanted for v in o.args} | set(values)
    kept = []
    for o in reversed(ops):
        if o in wanted or any(r in need for r in o.results):
            kept.append(o)
            need.update(o.args)
    return kept[::-1]


def cheap(s: Sequence[ir.Op], limit: int) -> bool:
    """Whether a slice may be computed again."""
    return len(s) <= limit and all(o.kind != "apply" or o.attrs["fn"] in functions.CHEAP for o in s)


def part(loop: ir.Op, ops: Sequence[ir.Op]) -> ir.Op:
    """A loop over some of the operations, without carried values."""
    new = ir.Op("for", loop.args[:2], [], dict(loop.attrs), [ir.Block()], loop.line)
    new.block = loop.block
    iv = loop.blocks[0].params[0]
    own = ir.Value(iv.type, iv.name, block=new.blocks[0])
    new.blocks[0].params = [own]
    mapping: dict[ir.Value, ir.Value] = {iv: own}
    for o in ops:
        ir.clone(o, mapping, new.blocks[0])
    return new
