"""Operations whose result, where it is not finite, makes the result of the program not finite either.

Zero wins: a cotangent of zero times an infinite partial is zero, because ``1 / x`` at 0 may be a branch that was not chosen. That
costs comparisons. Where a quotient reaches the only seeded result through sums and products alone, nothing can have hidden
it: if its partials are infinite, so is the result (or NaN), and the gradient may say so.
"""

from __future__ import annotations

from . import ir

PASSING = frozenset({"add", "sub", "mul", "neg", "radd", "cube", "square"})  # not finite in, out
# their partials are infinite (or NaN) only where their values are
TELLING = frozenset({"div", "reciprocal", "log", "log2", "log10"})


def exposed(f: ir.Function, result: ir.Value) -> set[ir.Value]:
    """The numbers that certainly reach a result through sums and products, once they have been computed."""
    found: set[ir.Value] = set()
    _visit([result], f.body, found)
    return found


def telling(f: ir.Function, result: ir.Value) -> set[ir.Value]:
    """Those whose partials need no guard: quotients and logarithms that the result tells of."""
    return {
        v
        for v in exposed(f, result)
        if v.op is not None and v.op.kind == "apply" and v.op.attrs["fn"] in TELLING
    }


def _visit(values: list[ir.Value], block: ir.Block, found: set[ir.Value]) -> set[ir.Value]:
    """Follow numbers back through a block; those from outside it are returned: the block may not be run."""
    pending, outside = list(values), set()
    while pending:
        v = pending.pop()
        op = v.op
        if v in found or not ir.is_float(v.type) or ir.is_array(v):
            continue
        if v.home is not None and not v.home.within(block):
            outside.add(v)
            continue
        found.add(v)
        if op is None:
            continue
        if op.kind == "cast" or (op.kind == "apply" and op.attrs["fn"] in PASSING):
            pending += op.args
        elif op.kind == "if":
            k = op.results.index(v)
            ways = [_visit([b.yields[k]], b, found) for b in op.blocks]
            pending += set.intersection(*ways)
        elif op.kind in ir.LOOPS:
            k = op.results.index(v)
            if _carries(op.nexts[k], op.phis[k], {}):
                _visit([op.nexts[k]], op.blocks[-1], found)
                pending.append(op.inits[k])
    return outside


def _carries(v: ir.Value, phi: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether a number is not finite where a carried one is not, whichever way was taken."""
    if v is phi:
        return True
    if v not in known:
        known[v] = False
        known[v] = v.op is not None and _passes(v, v.op, phi, known)
    return known[v]


def _passes(v: ir.Value, op: ir.Op, phi: ir.Value, known: dict[ir.Value, bool]) -> bool:
    if op.kind == "cast" or (op.kind == "apply" and op.attrs["fn"] in PASSING):
        return any(_carries(a, phi, known) for a in op.args)
    if op.kind == "if":
        k = op.results.index(v)
        return all(_carries(b.yields[k], phi, known) for b in op.blocks)
    if op.kind in ir.LOOPS:
        k = op.results.index(v)
        own = _carries(op.nexts[k], op.phis[k], {})
        return own and _carries(op.inits[k], phi, known)
    return False
