"""Scalar functions applied, folded and typed."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.np.numpy_support import as_dtype

from . import ir
from .functions import BOOLEAN, INTEGRAL, TEXT


@lru_cache(maxsize=4096)
def result_type(name: str, arg_types: tuple) -> Any:
    """The Numba type of a function's result."""
    if name in BOOLEAN:
        return types.boolean
    ts = arg_types[1:] if name in ("where", "keep", "drop") else arg_types
    t = np.result_type(*[as_dtype(t) for t in ts])
    if name in ("real", "imag", "abs", "angle") and t.kind == "c":
        return types.float32 if t.itemsize == 8 else types.float64
    if name == "complex":
        return types.complex64 if t.itemsize == 4 and t.kind == "f" else types.complex128
    integral = name in TEXT and name in INTEGRAL
    if t.kind in "iub" and not integral:
        return types.float64
    if t.kind == "b":
        return (
            types.boolean
            if name in ("where", "bitand", "bitor", "bitxor", "invert", "max", "min")
            else types.int64
        )
    if t.kind in "iu":  # Numba computes in 64 bits
        return types.uint64 if t.kind == "u" else types.int64
    return from_dtype(t)


def fold(name: str, values: Sequence[Any]) -> Any:
    """The value of a function of constants, or None where it is left to run time."""
    f = FOLD.get(name)
    if f is None or any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return None
    try:
        return f(*values)
    except (ArithmeticError, ValueError):
        return None


FOLD: dict[str, Any] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "not": operator.not_,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "max": max,
    "min": min,
    "pow": lambda a, b: a**b if isinstance(a, int) and isinstance(b, int) and 0 <= b < 64 else None,
    "where": lambda c, a, b: a if c else b,
    "abs": abs,
}


def type_of(dtype: Any) -> Any:
    """Numba's type of a dtype."""
    return from_dtype(dtype)


def constant(value: Any) -> ir.Const:
    """A Python number as Numba types it."""
    if isinstance(value, np.generic):
        return ir.Const(value.item(), type_of(value.dtype))
    kind = {bool: types.boolean, int: types.intp, float: types.float64, complex: types.complex128}[
        type(value)
    ]
    return ir.Const(value, kind)


def apply(b: ir.Builder, name: str, *args: ir.Value) -> ir.Value:
    """A function of scalars, with constants folded and neutral elements dropped (exactly)."""
    simple = simplified(name, args)
    if simple is not None:
        return simple
    t = result_type(name, tuple(a.type for a in args))
    return b.op("apply", args, [t], attrs={"fn": name}).result


def simplified(name: str, args: Sequence[ir.Value]) -> ir.Value | None:
    if all(isinstance(a, ir.Const) for a in args):
        v = fold(name, [a.value for a in args])  # type: ignore[attr-defined]
        if v is not None:
            return ir.Const(v, result_type(name, tuple(a.type for a in args)))
    if name == "where" and isinstance(args[0], ir.Const) and args[1].type == args[2].type:
        return args[1] if args[0].value else args[2]
    if len(args) != 2:
        return None
    x, y = args
    integers = isinstance(x.type, types.Integer) and isinstance(y.type, types.Integer)
    if name == "add" and integers:
        if ir.is_const(x, 0):
            return y
        if ir.is_const(y, 0):
            return x
    if name == "sub" and integers and ir.is_const(y, 0):
        return x
    if (
        name == "mul"
        and not isinstance(x.type, types.Boolean)
        and not isinstance(y.type, types.Boolean)
    ):
        if ir.is_const(x, 1) and _keeps(y, x):
            return y
        if ir.is_const(y, 1) and _keeps(x, y):
            return x
    if name == "div" and ir.is_const(y, 1) and ir.is_float(x.type) and _keeps(x, y):
        return x
    if (
        name in ("and", "or")
        and isinstance(x.type, types.Boolean)
        and isinstance(y.type, types.Boolean)
    ):
        absorbing = name == "or"
        for c, other in ((x, y), (y, x)):
            if isinstance(c, ir.Const):
                return c if bool(c.value) is absorbing else other
    return None


def _keeps(x: ir.Value, neutral: ir.Value) -> bool:
    return result_type("mul", (x.type, neutral.type)) == x.type


def cast(b: ir.Builder, v: ir.Value, t: Any) -> ir.Value:
    """Convert a scalar to a type (complex to real takes the real part)."""
    if v.type == t:
        return v
    if isinstance(v, ir.Const):
        x = v.value
        if isinstance(t, types.Float):
            return ir.Const(
                float(np.float32(x)) if t == types.float32 else float(getattr(x, "real", x)), t
            )
        if isinstance(t, types.Complex):
            return ir.Const(complex(x), t)
        if isinstance(t, types.Integer) and isinstance(x, int):
            return ir.Const(int(x), t)
    if isinstance(v.type, types.Complex) and not isinstance(t, types.Complex):
        v = apply(b, "real", v)
        if v.type == t:
            return v
    return b.op("cast", [v], [t]).result


def trips(b: ir.Builder, lo: ir.Value, hi: ir.Value) -> ir.Value:
    """How often a loop over a range runs."""
    return apply(b, "max", apply(b, "sub", hi, lo), ir.Const(0, types.intp))


def zero(t: Any) -> ir.Const:
    """Zero of a scalar type."""
    if isinstance(t, types.Complex):
        return ir.Const(0j, t)
    if isinstance(t, types.Boolean):
        return ir.Const(False, t)
    return ir.Const(0 if isinstance(t, types.Integer) else 0.0, t)
