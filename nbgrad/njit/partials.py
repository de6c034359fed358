"""Partial derivatives of scalar functions.

The partials are those the tensor engine's operators declare, run on `Sym` values that emit operations instead of computing.
So one table of conventions (ties, kinks, zero wins, complex) serves tensors and Numba code alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.np.numpy_support import as_dtype

from ..op.base import REGISTRY
from ..op.kernels import contribution, scaled
from ..op.symbolic import Symbolic
from . import ir
from .functions import FLAT, RULES_OF, SINGULAR
from .scalars import apply, cast, constant, result_type, zero


class Sym(Symbolic):
    """A scalar value under construction: operators of the engine applied to it emit operations."""

    __slots__ = ("b", "regular", "v")
    __hash__ = object.__hash__

    def __init__(self, b: ir.Builder, v: ir.Value, regular: bool = False):
        self.b, self.v, self.regular = b, v, regular

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of the value."""
        return as_dtype(self.v.type)

    def emit(self, name: str, *args: Any) -> Sym:
        """Apply a function; numbers take the type of the other operands."""
        if name == "zmul" and self.regular:
            name = "mul"
        kinds = [a.v.type for a in (args[1:] if name == "where" else args) if isinstance(a, Sym)]
        kinds = kinds or [a.v.type for a in args if isinstance(a, Sym)]
        wide = result_type("add", tuple(kinds)) if kinds else types.float64
        values = [a.v if isinstance(a, Sym) else _weak(a, wide) for a in args]
        if name == "mul" and any(ir.is_const(v, -1) for v in values):
            other = values[1] if ir.is_const(values[0], -1) else values[0]
            return Sym(self.b, apply(self.b, "neg", other), self.regular)
        out = apply(self.b, name, *values)
        if not self.regular and out.op is not None:
            out.op.attrs["singular"] = True
        return Sym(self.b, out, self.regular)

    def traced(self, op: Any, args: Sequence[Any]) -> Sym:
        """An operator of the engine met this value."""
        name = ENGINE_NAMES.get(op.name, str(op.name))
        if name == "sgn" and any(isinstance(a, Sym) and a.dtype.kind == "c" for a in args):
            name = "csgn"  # on the unit circle, not piecewise constant
        return self.emit(name, *args)

    def cast(self, dtype: np.dtype) -> Sym:
        """Converted to a dtype."""
        return Sym(self.b, cast(self.b, self.v, from_dtype(dtype)), self.regular)

    def zeros_like_(self) -> Sym:
        """Zero of the same type."""
        return Sym(self.b, zero(self.v.type), self.regular)


ENGINE_NAMES = {
    "logical_and": "and",
    "logical_or": "or",
    "logical_not": "not",
    "bitwise_and": "bitand",
    "bitwise_or": "bitor",
    "bitwise_not": "invert",
    "remainder": "mod",
}


def _weak(x: Any, t: Any) -> ir.Const:
    if isinstance(t, types.Complex) or isinstance(x, complex):
        return ir.Const(complex(x), t if isinstance(t, types.Complex) else types.complex128)
    if isinstance(t, types.Float):
        return ir.Const(float(x), t)
    return constant(x)


def operator_of(name: str) -> Any:
    """The engine's operator with the rules of a function, or None."""
    return REGISTRY.get(RULES_OF.get(name, name)) if name not in FLAT else None


def singular(op: ir.Op) -> bool:
    """Whether partials of a function may be infinite where its cotangent is zero: its own, or those of its factors."""
    return op.attrs["fn"] in SINGULAR or bool(op.attrs.get("singular"))


def differentiable(name: str, i: int) -> bool:
    """Whether a function has a derivative with respect to argument ``i``."""
    if name == "gamma":
        return True
    op = operator_of(name)
    return op is not None and op.differentiable and i < len(op.defined) and op.defined[i]


def cotangent(b: ir.Builder, op: ir.Op, i: int, g: ir.Value, plain: bool = False) -> ir.Value:
    """The contribution to argument ``i`` of an ``apply`` whose result has cotangent ``g``; ``plain``: zero need not win."""
    name = op.attrs["fn"]
    x = op.args[i]
    regular = plain or not singular(op)
    syms = [Sym(b, a, regular) for a in op.args]
    out = Sym(b, op.result, regular)
    if name == "gamma":
        p = out * syms[0].emit("digamma", syms[0])
        return (Sym(b, g, True) * p).v
    if _whole_power(op, i):
        return cast(b, (Sym(b, g, True) * Sym(b, _whole_slope(b, op), True)).v, x.type)
    if name in ("add", "sub", "neg", "radd"):
        c = Sym(b, apply(b, "neg", g) if name == "neg" or (name == "sub" and i == 1) else g)
    elif name in ("div", "zdiv") and not isinstance(op.result.type, types.Complex):
        g, below = cast(b, g, op.result.type), cast(b, op.args[1], op.result.type)
        q = apply(b, "div" if plain else "zdiv", g, below)
        scale = "mul" if plain else "zmul"
        c = Sym(b, q if i == 0 else apply(b, "neg", apply(b, scale, q, op.result)))
    elif name == "mul":
        other = syms[1 - i]
        other = other.emit("conj", other) if other.dtype.kind == "c" else other
        c = Sym(b, g, regular).emit("zmul", Sym(b, g, regular), other)
    else:
        c = contribution(operator_of(name), i, Sym(b, g, regular), syms, out)
    return cast(b, c.v, x.type)


def tangent(b: ir.Builder, op: ir.Op, i: int, t: ir.Value) -> ir.Value:
    """The contribution of a tangent of argument ``i`` to the result's tangent."""
    name = op.attrs["fn"]
    regular = not singular(op)
    syms = [Sym(b, a, regular) for a in op.args]
    out, dx = Sym(b, op.result, regular), Sym(b, t, regular)
    if name in ("add", "sub", "neg", "radd"):
        return apply(b, "neg", t) if name == "neg" or (name == "sub" and i == 1) else t
    if name == "mul":
        return apply(b, "mul" if regular else "zmul", t, op.args[1 - i])
    if name == "gamma":
        return (dx * (out * syms[0].emit("digamma", syms[0]))).v
    if _whole_power(op, i):
        return apply(b, "mul", t, _whole_slope(b, op))
    rule = operator_of(name)
    return _engine_tangent(rule, i, dx, syms, out)


def _whole_power(op: ir.Op, i: int) -> bool:
    """Whether an argument is the real base of a power with an integer exponent."""
    whole = op.attrs["fn"] == "pow" and i == 0 and isinstance(op.args[1].type, types.Integer)
    return whole and isinstance(op.result.type, types.Float)


def _whole_slope(b: ir.Builder, op: ir.Op) -> ir.Value:
    """``k x**(k - 1)``, and 0 for k = 0, where Numba would raise for x = 0."""
    x, k = op.args
    zero, one = ir.Const(0, types.intp), ir.Const(1, types.intp)
    less = apply(
        b, "where", apply(b, "eq", k, zero), zero, apply(b, "sub", cast(b, k, types.intp), one)
    )
    return apply(b, "mul", cast(b, k, op.result.type), apply(b, "pow", x, less))


def _engine_tangent(rule: Any, i: int, dx: Sym, syms: Sequence[Sym], out: Sym) -> ir.Value:
    if rule.linear and not rule.wirtinger:
        args = [
            dx
            if j == i
            else (s if rule.linear != "all" and j not in rule.linear else s.zeros_like_())
            for j, s in enumerate(syms)
        ]
        return dx.traced(rule, args).v
    if syms[i].dtype.kind == "c" and rule.wirtinger and rule.wirtinger[i]:
        dz, dzbar = rule.wirtinger[i](*syms, out)
        term = scaled(dx, dz) + scaled(dx.emit("conj", dx), dzbar)
        return cast(dx.b, term.v, out.v.type)
    if rule.multilinear:
        return dx.traced(rule, [dx if j == i else s for j, s in enumerate(syms)]).v
    if rule.contributions and rule.contributions[i]:
        return rule.contributions[i](dx, *syms, out).v
    return scaled(dx, rule.partial(i, syms, out)).v
