"""Stand-ins for ``math``, ``np`` and the builtins that let a plain Python function run on dual numbers.

Float and complex arrays are object arrays whose items are numbers or duals; integer and boolean arrays stay as they
are. What is not replaced here is NumPy's own function, which works on objects or fails.
"""

from __future__ import annotations

import builtins
import cmath
import math
import types

import dual
import numpy as np
from dual import Dual, plain
from object_arrays import (
    array,
    cholesky,
    clip,
    conjugate,
    det,
    deviation,
    elementwise,
    filled,
    filled_like,
    floats,
    fold,
    full,
    linspace,
    mean,
    norm,
    predicate,
    shaped,
    slogdet,
    solve,
    total,
    values,
    variance,
    where,
)


class Cast:
    """np.float64 and its like: a dtype for the functions above, and a conversion that keeps duals."""

    def __init__(self, kind):
        self.dtype, self.kind = np.dtype(kind), kind

    def __call__(self, x):
        if isinstance(x, Dual):
            return x if self.dtype.kind in "fc" else self.kind(plain(x))
        return self.kind(x)


ONE = "sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt cbrt sign angle"
RENAMED = {
    "arcsin": dual.asin, "arccos": dual.acos, "arctan": dual.atan, "arcsinh": dual.asinh,
    "arccosh": dual.acosh, "arctanh": dual.atanh, "abs": dual.absolute, "absolute": dual.absolute,
    "fabs": dual.absolute, "square": lambda x: x * x, "reciprocal": lambda x: 1.0 / x,
    "negative": lambda x: -x, "conj": conjugate, "conjugate": conjugate,
    "real": lambda x: x.real, "imag": lambda x: x.imag,
    "deg2rad": lambda x: x * (math.pi / 180), "rad2deg": lambda x: x * (180 / math.pi),
    "radians": lambda x: x * (math.pi / 180), "degrees": lambda x: x * (180 / math.pi),
    "floor": lambda x: float(math.floor(x)), "ceil": lambda x: float(math.ceil(x)),
    "trunc": lambda x: float(math.trunc(x)), "rint": lambda x: float(np.rint(plain(x))),
}  # fmt: skip
TWO = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y, "true_divide": lambda x, y: x / y, "power": dual.power,
    "maximum": dual.maximum, "minimum": dual.minimum, "fmax": dual.maximum, "fmin": dual.minimum,
    "hypot": dual.hypot, "arctan2": dual.atan2, "copysign": dual.copysign, "fmod": dual.fmod,
    "mod": lambda x, y: x % y, "remainder": lambda x, y: x % y,
    "floor_divide": lambda x, y: x // y, "logaddexp": dual.logaddexp,
}  # fmt: skip
MOVES = """dot vdot inner outer kron cross trace diag diagonal tril triu transpose reshape ravel flip fliplr flipud
roll repeat concatenate stack vstack hstack column_stack expand_dims cumsum cumprod diff sort swapaxes broadcast_to
atleast_1d squeeze copy"""


CASTS = "float64 float32 complex128 complex64 int64 int32 int16 uint8 bool_"
ARRAYS = {
    "zeros": filled(0.0), "ones": filled(1.0), "empty": filled(math.nan), "full": full,
    "zeros_like": filled_like(0.0), "ones_like": filled_like(1.0),
    "empty_like": filled_like(math.nan),
    "full_like": lambda a, value: full(np.shape(a), value, a.dtype),
    "array": array, "asarray": array, "ascontiguousarray": shaped(np.array),
    "arange": floats(np.arange), "eye": floats(np.eye), "identity": floats(np.eye),
    "linspace": linspace, "where": where, "clip": clip, "sum": total, "mean": mean,
    "var": variance, "std": deviation, "prod": fold(lambda x, y: x * y),
    "max": fold(dual.maximum), "amax": fold(dual.maximum),
    "min": fold(dual.minimum), "amin": fold(dual.minimum),
}  # fmt: skip


def numpy_stand_in():
    np_ = types.SimpleNamespace(**{k: getattr(np, k) for k in dir(np) if not k.startswith("__")})
    for name in ONE.split():
        setattr(np_, name, elementwise(getattr(dual, name)))
    for name, function in RENAMED.items():
        setattr(np_, name, elementwise(function))
    for name, function in TWO.items():
        setattr(np_, name, elementwise(function, 2))
    for name in MOVES.split():
        setattr(np_, name, shaped(getattr(np, name)))
    for name in ("isnan", "isfinite", "isinf"):
        setattr(np_, name, predicate(getattr(np, name)))
    for name in ("argmax", "argmin", "argsort"):
        setattr(np_, name, lambda a, *args, name=name: getattr(values(a), name)(*args))
    for name in CASTS.split():
        setattr(np_, name, Cast(getattr(np, name)))
    np_.__dict__.update(ARRAYS)
    np_.linalg = types.SimpleNamespace(
        solve=solve, det=det, slogdet=slogdet, cholesky=cholesky, norm=norm,
        inv=lambda a: solve(a, np.eye(len(a))),
    )  # fmt: skip
    return np_


def math_stand_in():
    """math: our functions of the same name, and the others on plain values."""
    names = [k for k in dir(math) if not k.startswith("__")]
    out = types.SimpleNamespace(**{k: getattr(math, k) for k in names})
    for name in names:
        if hasattr(dual, name):
            setattr(out, name, getattr(dual, name))
    out.pow, out.fabs, out.log = dual.power, dual.absolute, logarithm
    for name in ("isnan", "isinf", "isfinite"):
        setattr(out, name, lambda x, test=getattr(math, name): test(plain(x)))
    return out


def logarithm(x, base=None):
    return dual.log(x) if base is None else dual.log(x) / dual.log(base)


def cmath_stand_in():
    """cmath: the same functions, whose argument becomes complex."""
    names = [k for k in dir(cmath) if not k.startswith("__")]
    out = types.SimpleNamespace(**{k: getattr(cmath, k) for k in names})
    for name in names:
        if hasattr(dual, name) and callable(getattr(dual, name)):
            setattr(out, name, lambda z, f=getattr(dual, name): f(dual.make_complex(z)))
    out.phase = dual.angle
    return out


def extreme(function):
    def choose(*args):
        args = list(args[0]) if len(args) == 1 else args
        out = args[0]
        for x in args[1:]:
            out = function(out, x)
        return out

    return choose


BUILTINS = dict(vars(builtins)) | {
    "abs": elementwise(dual.absolute),
    "float": lambda x: x if isinstance(x, Dual) else float(x),
    "complex": dual.make_complex,
    "max": extreme(dual.maximum),
    "min": extreme(dual.minimum),
    "pow": dual.power,
}
STAND_INS = {np: numpy_stand_in(), math: math_stand_in(), cmath: cmath_stand_in()}
