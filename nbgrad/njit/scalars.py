"""Scalar functions of the Numba door, and their partial derivatives.

Every function is an elementwise operator of the tensor engine under its name there; its partials are the operator's
own declaration, run on `Sym` values that emit operations instead of computing. So one table of conventions (ties, kinks,
zero wins, complex) serves tensors and Numba code alike.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.np.numpy_support import as_dtype

from ..op.base import REGISTRY
from ..op.kernels import contribution
from ..op.symbolic import Symbolic
from . import ir

# name -> text for Numba; operators without a text become helper functions made from their body
TEXT = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "div": "({} / {})",
    "neg": "(-{})",
    "pow": "({} ** {})",
    "floordiv": "({} // {})",
    "mod": "({} % {})",
    "and": "({} and {})",
    "or": "({} or {})",
    "not": "(not {})",
    "bitand": "({} & {})",
    "bitor": "({} | {})",
    "bitxor": "({} ^ {})",
    "shl": "({} << {})",
    "shr": "({} >> {})",
    "invert": "(~{})",
    "lt": "({} < {})",
    "le": "({} <= {})",
    "gt": "({} > {})",
    "ge": "({} >= {})",
    "eq": "({} == {})",
    "ne": "({} != {})",
    "where": "({1} if {0} else {2})",
    "max": "max({}, {})",
    "min": "min({}, {})",
    "abs": "abs({})",
    "real": "({}).real",
    "imag": "({}).imag",
    "conj": "np.conj({})",
    "complex": "complex({}, {})",
    "angle": "np.angle({})",
    "square": "({0} * {0})",
    "cube": "({0} * {0} * {0})",
    "reciprocal": "(1 / {})",
    "asin": "np.arcsin({})",
    "acos": "np.arccos({})",
    "atan": "np.arctan({})",
    "asinh": "np.arcsinh({})",
    "acosh": "np.arccosh({})",
    "atanh": "np.arctanh({})",
    "atan2": "np.arctan2({}, {})",
    "lgamma": "math.lgamma({})",
    "erf": "math.erf({})",
    "erfc": "math.erfc({})",
    "gamma": "math.gamma({})",
    "hypot": "np.hypot({}, {})",
    "fmod": "math.fmod({}, {})",
    "trunc": "np.trunc({})",
    "round": "np.rint({})",
    "sgn": "np.sign({})",
    "radd": "radd({}, {})",
    "stop": "{}",
    "zdiv": "zdiv({}, {})",
}
for _n in ["sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "floor", "ceil"]:
    TEXT[_n] = f"np.{_n}({{}})"
for _n in ["isnan", "isinf", "isfinite", "maximum", "minimum", "fmax", "fmin", "copysign", "logaddexp", "deg2rad", "rad2deg", "signbit"]:
    TEXT[_n] = f"np.{_n}({', '.join(['{}'] * (2 if _n[0] in 'mc' or _n in ('fmax', 'fmin', 'logaddexp') else 1))})"

# the operator whose rules a function has, where the names differ
RULES_OF = {"max": "maximum", "min": "minimum", "mod": "remainder", "radd": "add", "csgn": "sgn", "zdiv": "div"}
# results that have no derivative
FLAT = frozenset(
    ["floordiv", "and", "or", "not", "bitand", "bitor", "bitxor", "shl", "shr", "invert", "lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "isfinite", "signbit", "floor", "ceil", "trunc", "round", "sgn", "heaviside", "stop"]
)
BOOLEAN = frozenset(["and", "or", "not", "lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "isfinite", "signbit"])
# partials of these may be infinite where the cotangent is zero: zero wins; other products are plain ones
SINGULAR = frozenset(
    ["div", "reciprocal", "sqrt", "rsqrt", "cbrt", "log", "log2", "log10", "log1p", "pow", "asin", "acos", "acosh", "atanh", "hypot", "atan2", "lgamma", "gamma", "digamma", "zdiv", "xlogy", "xlog1py", "erfinv", "zeta", "tan", "remainder", "fmod", "ratio0", "one_over0"]
)
# cheap enough to be computed again in the reverse sweep
CHEAP = frozenset(
    ["add", "sub", "mul", "div", "neg", "floordiv", "mod", "and", "or", "not", "bitand", "bitor", "bitxor", "shl", "shr", "invert", "lt", "le", "gt", "ge", "eq", "ne", "where", "max", "min", "abs", "zdiv", "real", "imag", "conj", "complex", "square", "cube", "reciprocal", "isnan", "isinf", "isfinite", "maximum", "minimum", "copysign", "keep", "drop", "zmul", "radd", "floor", "ceil", "trunc", "stop", "sgn", "deg2rad", "rad2deg", "sqrt"]
)


def _mapping() -> dict[Any, str]:
    """Python's, math's and NumPy's functions -> names."""
    found: dict[Any, str] = {
        abs: "abs",
        math.fabs: "abs",
        np.abs: "abs",
        np.fabs: "abs",
        np.sign: "sgn",
        np.rint: "round",
        np.negative: "neg",
        np.power: "pow",
        np.float_power: "pow",
        math.pow: "pow",
        np.divide: "div",
        np.true_divide: "div",
        np.subtract: "sub",
        np.multiply: "mul",
        np.add: "add",
        np.mod: "mod",
        np.remainder: "mod",
        np.fmod: "fmod",
        math.fmod: "fmod",
        np.floor_divide: "floordiv",
        np.equal: "eq",
        np.not_equal: "ne",
        np.less: "lt",
        np.less_equal: "le",
        np.greater: "gt",
        np.greater_equal: "ge",
        np.logical_and: "and",
        np.logical_or: "or",
        np.logical_not: "not",
        np.logical_xor: "ne",
        np.bitwise_and: "bitand",
        np.bitwise_or: "bitor",
        np.bitwise_xor: "bitxor",
        np.invert: "invert",
        np.left_shift: "shl",
        np.right_shift: "shr",
        np.conj: "conj",
        np.conjugate: "conj",
        np.real: "real",
        np.imag: "imag",
        np.angle: "angle",
        np.radians: "deg2rad",
        np.degrees: "rad2deg",
        math.radians: "deg2rad",
        math.degrees: "rad2deg",
        math.floor: "floor",
        math.ceil: "ceil",
        math.trunc: "trunc",
        math.erf: "erf",
        math.erfc: "erfc",
        math.gamma: "gamma",
        math.lgamma: "lgamma",
        math.asin: "asin",
        math.acos: "acos",
        math.atan: "atan",
        math.asinh: "asinh",
        math.acosh: "acosh",
        math.atanh: "atanh",
        math.atan2: "atan2",
    }
    for short in ["asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2"]:
        found[getattr(np, "arc" + short[1:])] = short
    for name in REGISTRY:
        for module in (math, np):
            f = getattr(module, name, None)
            if f is not None and name in TEXT and callable(f):
                found.setdefault(f, name)
    for f in (operator.add, operator.sub, operator.mul, operator.neg, operator.pow):
        found[f] = f.__name__
    return found


FROM_PYTHON = _mapping()


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
        return types.boolean if name in ("where", "bitand", "bitor", "bitxor", "invert", "max", "min") else types.int64
    if t.kind in "iu":  # Numba computes in 64 bits
        return types.uint64 if t.kind == "u" else types.int64
    return from_dtype(t)


INTEGRAL = frozenset(
    ["add", "sub", "mul", "neg", "pow", "floordiv", "mod", "bitand", "bitor", "bitxor", "shl", "shr", "invert", "where", "max", "min", "abs", "maximum", "minimum", "fmax", "fmin", "square", "cube", "conj", "real", "imag", "sgn", "radd", "stop"]
)


def arity(name: str) -> int:
    """How many arguments a function takes."""
    text = TEXT.get(name)
    if text is None:
        return REGISTRY[name].nin or 1
    return text.count("{}") or len({c for c in "0123" if f"{{{c}}}" in text})


def fold(name: str, values: Sequence[Any]) -> Any:
    """The value of a function of constants, or None where it is left to run time."""
    f = _FOLD.get(name)
    if f is None or any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return None
    try:
        return f(*values)
    except (ArithmeticError, ValueError):
        return None


_FOLD: dict[str, Any] = {
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


def constant(value: Any) -> ir.Const:
    """A Python number as Numba types it."""
    if isinstance(value, np.generic):
        return ir.Const(value.item(), from_dtype(value.dtype))
    kind = {bool: types.boolean, int: types.intp, float: types.float64, complex: types.complex128}[type(value)]
    return ir.Const(value, kind)


def apply(b: ir.Builder, name: str, *args: ir.Value) -> ir.Value:
    """A function of scalars, with constants folded and neutral elements dropped (exactly)."""
    simple = _simplify(name, args)
    if simple is not None:
        return simple
    t = result_type(name, tuple(a.type for a in args))
    return b.op("apply", args, [t], attrs={"fn": name}).result


def _simplify(name: str, args: Sequence[ir.Value]) -> ir.Value | None:
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
    if name == "mul" and not isinstance(x.type, types.Boolean) and not isinstance(y.type, types.Boolean):
        if ir.is_const(x, 1) and _keeps(y, x):
            return y
        if ir.is_const(y, 1) and _keeps(x, y):
            return x
    if name == "div" and ir.is_const(y, 1) and ir.is_float(x.type) and _keeps(x, y):
        return x
    if name in ("and", "or") and isinstance(x.type, types.Boolean) and isinstance(y.type, types.Boolean):
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
            return ir.Const(float(np.float32(x)) if t == types.float32 else float(getattr(x, "real", x)), t)
        if isinstance(t, types.Complex):
            return ir.Const(complex(x), t)
        if isinstance(t, types.Integer) and isinstance(x, int):
            return ir.Const(int(x), t)
    if isinstance(v.type, types.Complex) and not isinstance(t, types.Complex):
        v = apply(b, "real", v)
        if v.type == t:
            return v
    return b.op("cast", [v], [t]).result


def zero(t: Any) -> ir.Const:
    """Zero of a scalar type."""
    if isinstance(t, types.Complex):
        return ir.Const(0j, t)
    if isinstance(t, types.Boolean):
        return ir.Const(False, t)
    return ir.Const(0 if isinstance(t, types.Integer) else 0.0, t)


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
        return Sym(self.b, apply(self.b, name, *values), self.regular)

    def traced(self, op: Any, args: Sequence[Any]) -> Sym:
        """An operator of the engine met this value."""
        name = ENGINE_NAMES.get(op.name, op.name)
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


def differentiable(name: str, i: int) -> bool:
    """Whether a function has a derivative with respect to argument ``i``."""
    if name == "gamma":
        return True
    op = operator_of(name)
    return op is not None and op.differentiable and i < len(op.defined) and op.defined[i]


def cotangent(b: ir.Builder, op: ir.Op, i: int, g: ir.Value) -> ir.Value:
    """The contribution to argument ``i`` of an ``apply`` whose result has cotangent ``g``."""
    name = op.attrs["fn"]
    x = op.args[i]
    regular = name not in SINGULAR
    syms = [Sym(b, a, regular) for a in op.args]
    out = Sym(b, op.result, regular)
    if name == "gamma":
        p = out * syms[0].emit("digamma", syms[0])
        return (Sym(b, g, True) * p).v
    if name in ("add", "sub", "neg", "radd"):
        c = Sym(b, apply(b, "neg", g) if name == "neg" or (name == "sub" and i == 1) else g)
    elif name in ("div", "zdiv") and not isinstance(op.result.type, types.Complex):
        q = apply(b, "zdiv", cast(b, g, op.result.type), cast(b, op.args[1], op.result.type))
        c = Sym(b, q if i == 0 else apply(b, "neg", apply(b, "zmul", q, op.result)))
    elif name == "mul":
        other = syms[1 - i]
        c = Sym(b, g) * (other.emit("conj", other) if other.dtype.kind == "c" else other)
    else:
        c = contribution(operator_of(name), i, Sym(b, g, regular), syms, out)
    return cast(b, c.v, x.type)


def tangent(b: ir.Builder, op: ir.Op, i: int, t: ir.Value) -> ir.Value:
    """The contribution of a tangent of argument ``i`` to the result's tangent."""
    name = op.attrs["fn"]
    regular = name not in SINGULAR
    syms = [Sym(b, a, regular) for a in op.args]
    out, dx = Sym(b, op.result, regular), Sym(b, t, regular)
    if name in ("add", "sub", "neg", "radd"):
        return apply(b, "neg", t) if name == "neg" or (name == "sub" and i == 1) else t
    if name == "mul":
        return apply(b, "mul", t, op.args[1 - i])
    if name == "gamma":
        return (dx * (out * syms[0].emit("digamma", syms[0]))).v
    rule = operator_of(name)
    return _engine_tangent(rule, i, dx, syms, out)


def _engine_tangent(rule: Any, i: int, dx: Sym, syms: Sequence[Sym], out: Sym) -> ir.Value:
    from ..op.kernels import scaled

    if rule.linear and not rule.wirtinger:
        args = [dx if j == i else (s if rule.linear != "all" and j not in rule.linear else s.zeros_like_())
                for j, s in enumerate(syms)]
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
