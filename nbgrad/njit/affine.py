"""Index expressions as linear forms, and where an access through views lies in the memory it belongs to.

Loops that run in parallel and CUDA kernels ask the same question: can two iterations (two threads) touch one element?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numba import types

from . import ir


class Linear(NamedTuple):
    """``const + sum(coefficient * symbol)``; a symbol is any integer that is not a sum or a product with a constant."""

    terms: tuple[tuple[ir.Value, int], ...]
    const: int

    def coefficient(self, v: ir.Value) -> int:
        """The factor of a symbol."""
        return next((c for s, c in self.terms if s is v), 0)

    def without(self, v: ir.Value) -> Linear:
        """The form less one symbol."""
        return Linear(tuple((s, c) for s, c in self.terms if s is not v), self.const)


def linear(v: ir.Value) -> Linear:
    """An integer as a linear form."""
    if isinstance(v, ir.Const):
        return Linear((), int(v.value))
    op = v.op
    if op is not None and op.kind == "apply":
        name = op.attrs["fn"]
        if name in ("add", "sub"):
            x, y = (linear(a) for a in op.args)
            return _sum(x, y, 1 if name == "add" else -1)
        if name == "neg":
            return _sum(Linear((), 0), linear(op.args[0]), -1)
        if name == "mul":
            for a, b in (op.args, op.args[::-1]):
                if isinstance(a, ir.Const):
                    return _sum(Linear((), 0), linear(b), int(a.value))
    if op is not None and op.kind == "cast" and _widens(op.args[0].type, v.type):
        return linear(op.args[0])
    return Linear(((v, 1),), 0)


def _widens(a: types.Type, b: types.Type) -> bool:
    return (
        isinstance(a, types.Integer)
        and isinstance(b, types.Integer)
        and a.bitwidth <= b.bitwidth
        and (a.signed == b.signed or (not a.signed and a.bitwidth < b.bitwidth))
    )


def _sum(x: Linear, y: Linear, factor: int) -> Linear:
    terms = dict(x.terms)
    for s, c in y.terms:
        terms[s] = terms.get(s, 0) + factor * c
    ordered = sorted(((s, c) for s, c in terms.items() if c), key=lambda t: t[0].id)
    return Linear(tuple(ordered), x.const + factor * y.const)


Index = list[Linear | None]


class Place(NamedTuple):
    """The array an access ends at when views are undone, and its index there (None: unknown in that dimension)."""

    root: ir.Value
    index: Index

    @property
    def ndim(self) -> int:
        """Dimensions of the array."""
        return len(self.index)


def place(array: ir.Value, index: Sequence[ir.Value]) -> Place:
    """Undo views. Fewer indices than dimensions mean all elements of the rest."""
    at: Index = [linear(i) for i in index]
    at += [None] * (array.type.ndim - len(at))
    while array.op is not None and array.op.kind == "view":
        spec: ir.View = array.op.attrs["spec"]
        base = array.op.args[0]
        if spec.kind == "index":
            at = _through_index(spec, array.op.args[1:], at, base.type.ndim)
        elif spec.kind == "T":
            old = at
            at = [None for _ in old]
            for k, axis in enumerate(spec.axes):
                at[axis] = old[k]
        elif spec.kind not in ("field", "real", "imag"):
            at = [None] * base.type.ndim
        array = base
    return Place(array, at)


def _through_index(spec: ir.View, args: Sequence[ir.Value], at: Index, ndim: int) -> Index:
    """The index in the base of a subscript's view."""
    rest, own = iter(args), iter(at)
    out: Index = []
    for p in spec.parts:
        if p[0] == "n":
            next(own)
        elif p[0] == "i":
            out.append(linear(next(rest)))
        else:
            start, _, step = (next(rest) if given else None for given in p[1:4])
            out.append(_shifted(next(own), start, step))
    out += list(own)
    return out + [None] * (ndim - len(out))


def _shifted(i: Linear | None, start: ir.Value | None, step: ir.Value | None) -> Linear | None:
    """An index in a slice as one in its base; a start that may count from the end is not followed."""
    if i is None or (step is not None and not ir.is_const(step, 1)):
        return None
    if start is None or ir.is_const(start, 0):
        return i
    if isinstance(start, ir.Const) and start.value > 0:
        return _sum(i, Linear((), int(start.value)), 1)
    return None
