"""Which elements the iterations of a parallel loop touch, and whether two of them can touch the same one.

What the loop of the program stores and reads is taken on trust (that is what ``prange`` says); what a reverse sweep
adds to shadows is not: several iterations may read one element, so several may add to its cotangent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import ir, scalars
from .affine import Linear, Place, linear, place
from .alias import Aliases


class SerialError(Exception):
    """A loop has to run serially; the text completes 'because'."""


class Access(NamedTuple):
    """One access to an array from outside the loop: ``kind`` is ``read``, ``write`` or ``accum``."""

    kind: str
    op: ir.Op
    array: ir.Value
    place: Place


class Reach(NamedTuple):
    """Along one dimension, iteration i touches ``factor * i + rest + [low, high]`` of an array."""

    axis: int
    factor: int
    rest: tuple
    low: int
    high: int
    root: ir.Value

    @property
    def width(self) -> int:
        """How far iterations that touch one element are apart at most."""
        return (self.high - self.low) // abs(self.factor)


def accesses(
    loop: ir.Op, aliases: Aliases, tapes: set[ir.Value] | None = None
) -> dict[Any, list[Access]]:
    """Accesses to outside memory, by memory; ``tapes`` are stacks to be taken for the iteration's own."""
    found: dict[Any, list[Access]] = defaultdict(list)
    for op in ir.walk(loop.blocks[0]):
        if op.kind in ("push", "pop") and tapes is None and not made_inside(op.args[0], loop):
            raise SerialError(
                "its iterations share a stack of kept values (an inner loop whose length is not known before it)"
            )
        for kind, array, index in touched(op):
            at = place(array, index)
            if not made_inside(at.root, loop) and (tapes is None or at.root not in tapes):
                found[aliases.of(array)].append(Access(kind, op, array, at))
    return found


def touched(op: ir.Op) -> Iterator[tuple[str, ir.Value, list[ir.Value]]]:
    """The arrays an operation touches itself: how, which, and at which index."""
    if op.kind == "load":
        yield "read", op.args[0], op.args[1:]
    elif op.kind == "store":
        yield "write", op.args[0], op.args[1:-1]
    elif op.kind == "accum":
        yield "accum", op.args[0], op.args[1:-1]
    elif op.kind in ("copy", "add"):
        yield "write" if op.kind == "copy" else "accum", op.args[0], []
        yield "read", op.args[1], []
    elif op.kind in ("call", "effect"):
        for a in op.args:
            if ir.is_array(a):
                yield "read", a, []


def made_inside(root: ir.Value, loop: ir.Op) -> bool:
    """Whether an array belongs to the iteration."""
    inside = root.home is not None and root.home.within(loop.blocks[0])
    return inside and root.op is not None and root.op.kind in ("alloc", "call", "tape")


def depends(v: ir.Value, on: ir.Value, seen: set[ir.Value] | None = None) -> bool:
    """Whether a value may differ with another one."""
    seen = set() if seen is None else seen
    if v is on:
        return True
    if v in seen or isinstance(v, ir.Const):
        return False
    seen.add(v)
    if v.op is not None:
        inner = [y for b in v.op.blocks for y in b.yields]
        return any(depends(a, on, seen) for a in (*v.op.args, *inner))
    parent = v.block.parent if v.block is not None else None
    return parent is not None and any(depends(a, on, seen) for a in parent.args)


def check_writes(found: list[Access], iv: ir.Value) -> None:
    """Raise where every iteration writes to the same element."""
    for a in found:
        index = a.op.args[1:-1] if a.op.kind == "store" else []
        at = a.array
        while at.op is not None and at.op.kind == "view":
            index = [*index, *at.op.args[1:]]
            at = at.op.args[0]
        if a.kind == "write" and not any(depends(i, iv) for i in index):
            raise SerialError(
                f"every iteration writes to the same elements of '{a.place.root.name or 'an array'}'"
            )


def reach(found: list[Access], loop: ir.Op) -> Reach | None:
    """The dimension along which iterations are told apart best, or None."""
    root = found[0].place.root
    if any(a.place.root is not root for a in found):
        return None
    best = None
    for k in range(root.type.ndim):
        r = _along(k, found, loop, root)
        if r is not None and (best is None or r.width < best.width):
            best = r
    return best


def _along(k: int, found: list[Access], loop: ir.Op, root: ir.Value) -> Reach | None:
    """The reach in one dimension."""
    shape, low, high = None, 0, 0
    for a in found:
        form = a.place.index[k]
        part = _interval(form, loop) if form is not None else None
        if part is None:
            return None
        if shape is None:
            shape, low, high = part[0], part[1], part[2]
        elif part[0] != shape:
            return None
        low, high = min(low, part[1]), max(high, part[2])
    assert shape is not None
    return Reach(k, shape[0], shape[1], low, high, root)


def _interval(form: Linear, loop: ir.Op) -> tuple[tuple, int, int] | None:
    """``((factor, rest), low, high)`` of an index; None where it varies otherwise within an iteration."""
    iv = loop.blocks[0].params[0]
    factor = form.coefficient(iv)
    if factor == 0:
        return None
    low = high = form.const
    rest = []
    for s, c in form.without(iv).terms:
        if s.home is None or not s.home.within(loop.blocks[0]):
            rest.append((s, c))
            continue
        span = _constant_range(s)
        if span is None:
            return None
        low += min(c * span[0], c * span[1])
        high += max(c * span[0], c * span[1])
    return (factor, tuple(rest)), low, high


def _constant_range(s: ir.Value) -> tuple[int, int] | None:
    """First and last value of an inner loop's variable between constants."""
    parent = s.block.parent if s.block is not None else None
    if parent is None or parent.kind != "for" or s is not parent.blocks[0].params[0]:
        return None
    lo, hi = parent.args[:2]
    if not (isinstance(lo, ir.Const) and isinstance(hi, ir.Const)) or hi.value <= lo.value:
        return None
    return int(lo.value), int(hi.value) - 1


Condition = Callable[[ir.Builder], ir.Value]


def apart(r: Reach, loop: ir.Op) -> Condition | bool:
    """Whether no two iterations (``width`` 0) wrap round to one element: known, or a condition for run time.

    A negative index counts from the end. Indices that are not negative are all different; so are those that span no
    more than the dimension.
    """
    lo, hi = loop.args[:2]
    low = linear(lo)
    if r.factor > 0 and not r.rest and not low.terms and r.factor * low.const + r.low >= 0:
        return True
    if r.width == 0 and abs(r.factor) == 1 and r.low == r.high:
        if _covers(r, lo, hi):
            return True
        inside = r.root.home is not None and r.root.home.within(loop.blocks[0])
        if not inside:  # its size is known before the loop
            return lambda b: scalars.apply(
                b, "le", scalars.apply(b, "sub", hi, lo), b.shape(r.root, r.axis)
            )
    if r.factor > 0 and not r.rest and not low.terms:
        return False  # it does wrap

    def lowest(b: ir.Builder) -> ir.Value:
        first = lo if r.factor > 0 else scalars.apply(b, "sub", hi, ir.Const(1, hi.type))
        total = scalars.apply(b, "mul", first, ir.Const(r.factor, first.type))
        for s, c in r.rest:
            total = scalars.apply(b, "add", total, scalars.apply(b, "mul", s, ir.Const(c, s.type)))
        total = scalars.apply(b, "add", total, ir.Const(r.low, first.type))
        return scalars.apply(b, "ge", total, ir.Const(0, first.type))

    return lowest


def _covers(r: Reach, lo: ir.Value, hi: ir.Value) -> bool:
    """Whether the loop runs over no more than the dimension, as far as the program shows."""
    if not (isinstance(lo, ir.Const) and lo.value >= 0):
        return False
    op = hi.op
    if op is not None and op.kind == "shape":
        return op.args[0] is r.root and op.attrs["axis"] == r.axis
    made = r.root.op
    return made is not None and made.kind == "alloc" and made.args[r.axis] is hi
