"""What the names in generated loops stand for: Numba objects, imported only when something is compiled."""

from __future__ import annotations

import math

from numba import njit, types
from numba.extending import intrinsic

from . import pointers, vecmath
from .scalar import ROUNDING
from .vecmath import _trig


def _llvm_unary(name: str):
    def typed(typingctx, x):
        if not isinstance(x, types.Float):
            return None

        def codegen(context, builder, sig, args):
            fn = builder.module.declare_intrinsic(f"llvm.{name}", [args[0].type])
            return builder.call(fn, args)

        return x(x), codegen

    return intrinsic(typed)


@intrinsic
def fmod(typingctx, x, y):
    """C's fmod (exact); Numba has no ``math.fmod``."""
    if not isinstance(x, types.Float) or x != y:
        return None

    def codegen(context, builder, sig, args):
        return builder.frem(*args)

    return x(x, y), codegen


_LLVM = {n: _llvm_unary(n) for n in ROUNDING}


@njit
def ipow(base, exponent):
    """Integer power that wraps on overflow; a negative exponent truncates ``1 / base**-exponent``."""
    result = base * 0 + 1
    if exponent < 0:
        odd = exponent & 1
        exponent = exponent * 0
        if base == -1:
            result = base if odd else result
        elif base != 1:
            result = base * 0
    while exponent > 0:
        if exponent & 1:
            result = result * base
        base = base * base
        exponent >>= 1
    return result


NAMESPACE: dict = {
    **pointers.NAMESPACE,
    "math": math,
    "fmod": fmod,
    "ipow": ipow,
    "inf": math.inf,
    "nan": math.nan,
    **{f"_{k}": v for k, v in _LLVM.items()},
    **{
        t: getattr(types, t)
        for t in [
            "float64",
            "float32",
            "complex128",
            "complex64",
            "int64",
            "int32",
            "int16",
            "int8",
            "uint8",
        ]
    },
    "sin_near_float64": _trig.sin_near_f64,
    "cos_near_float64": _trig.cos_near_f64,
    "NEAR": _trig.NEAR,
    **{f"{name}_{dtype}": f for (name, dtype), f in vecmath.TABLE.items()},
}
