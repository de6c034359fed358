"""Numbers carried round a parallel loop: sums, products and extremes, whose order is free."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from . import ir, scalars

FAMILIES = (
    ("add", frozenset({"add", "radd", "sub"})),
    ("mul", frozenset({"mul"})),
    ("max", frozenset({"max"})),
    ("min", frozenset({"min"})),
    ("maximum", frozenset({"maximum"})),
    ("minimum", frozenset({"minimum"})),
    ("or", frozenset({"or"})),
    ("and", frozenset({"and"})),
)


class Reduction(NamedTuple):
    """A carried value that is only added to (or multiplied, ...)."""

    position: int
    fn: str

    def neutral(self, loop: ir.Op) -> ir.Value:
        """What a part of the loop starts from."""
        init = loop.inits[self.position]
        if self.fn == "add":
            return scalars.zero(init.type)
        if self.fn == "mul":
            return ir.Const(1, init.type)
        return init  # repeating it does not matter


def count_uses(f: ir.Function) -> Counter:
    """How often each value is used."""
    uses: Counter = Counter(f.body.yields)
    for op in ir.walk(f.body):
        uses.update(ir.uses(op))
    return uses


def reduction(loop: ir.Op, k: int, uses: Counter) -> Reduction | None:
    """The reduction a carried value is, or None."""
    phi = loop.phis[k]
    if ir.is_array(phi):
        return None
    for name, fns in FAMILIES:
        sites = _chain(loop.nexts[k], phi, fns)
        if sites is None:
            continue
        inside = Counter([loop.nexts[k], *sites.values()])
        if all(uses[v] == n for v, n in inside.items()):
            return Reduction(k, name)
    return None


Sites = dict[
    tuple, ir.Value
]  # places where values are used: an operation or a block, and a position


def _chain(v: ir.Value, start: ir.Value, fns: frozenset) -> Sites | None:
    """The uses that lead from ``start`` to ``v`` through functions of one family, or None.

    Each use counts once, by whatever many ways it is reached: all others are uses of what is not known yet.
    """
    if v is start:
        return {}
    op = v.op
    if op is None:
        return None
    if op.kind == "apply" and op.attrs["fn"] in fns:
        for i, a in enumerate(op.args[:1] if op.attrs["fn"] == "sub" else op.args):
            found = _chain(a, start, fns)
            if found is not None:
                return {**found, (op, i): a}
        return None
    if op.kind == "if":
        k = op.results.index(v)
        out: Sites = {}
        for b in op.blocks:
            found = _chain(b.yields[k], start, fns)
            if found is None:
                return None
            out.update(found)
            out[b, k] = b.yields[k]
        return out
    if op.kind in ir.LOOPS:
        k = op.results.index(v)
        before = _chain(op.inits[k], start, fns)
        within = _chain(op.nexts[k], op.phis[k], fns)
        if before is None or within is None:
            return None
        return {**before, **within, (op, "init", k): op.inits[k], (op, "next", k): op.nexts[k]}
    return None
