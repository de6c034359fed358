"""Source templates of the scalar primitives on the CPU, per dtype class.

Bodies use this vetted vocabulary and never raw ``math``: ``math.floor(1e300)`` is an integer overflow, ``math`` raises
where a loop must return NaN, and Python's ``min`` drops NaN.
"""

from __future__ import annotations

import functools
import hashlib
import math
from pathlib import Path

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from . import vecmath

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "ifloordiv": "//",
    "imod": "%",
}
def _llvm_unary(name: str):
    def typed(typingctx, x):
        if not isinstance(x, types.Float):
            return None

        def codegen(context, builder, sig, args):
            fn = builder.module.declare_intrinsic(f"llvm.{name}", [args[0].type])
            return builder.call(fn, args)

        return x(x), codegen

    return intrinsic(typed)


_LLVM = {n: _llvm_unary(n) for n in ("floor", "ceil", "trunc", "rint", "fabs", "sqrt")}



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
    "math": math,
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
    **{f"{name}_{dtype}": f for (name, dtype), f in vecmath.TABLE.items()},
}


def template(op: str, dtype: np.dtype, arg_dtypes: list[np.dtype], args: list[str]) -> str:
    """Source text of primitive ``op`` with result ``dtype`` applied to the named arguments."""
    kind = arg_dtypes[0].kind if arg_dtypes else dtype.kind
    if op in _INFIX:
        text = f"{args[0]} {_INFIX[op]} {args[1]}"
        # float32 with float32 stays float32 in Numba, small integers do not: wrap them back
        return f"{dtype.name}({text})" if dtype.kind in "iu" and dtype.itemsize < 8 else text
    if op == "select":
        return f"select({', '.join(args)})"
    if op == "neg":
        return f"{dtype.name}(-{args[0]})" if dtype.kind in "iu" else f"-{args[0]}"
    if op == "invert":
        return f"{dtype.name}(~{args[0]})"
    if op == "not":
        return f"not {args[0]}"
    if op == "cast":
        return f"{args[0]} != 0" if dtype.kind == "b" else f"{dtype.name}({args[0]})"
    if kind == "c":
        return _complex_template(op, args)
    if op == "conj" or op == "real":
        return args[0]
    if op == "complex":
        return f"{dtype.name}(complex({args[0]}, {args[1]}))"
    if op == "ipow":
        return f"{dtype.name}(ipow(int64({args[0]}), int64({args[1]})))"
    if op in _LLVM:
        return f"_{op}({args[0]})"
    if (op, dtype.name) in vecmath.TABLE:
        return f"{op}_{dtype.name}({', '.join(args)})"
    return f"math.{op}({', '.join(args)})"


def _complex_template(op: str, args: list[str]) -> str:
    """Only the parts: every complex function is written in real primitives before it comes here."""
    if op in ("real", "imag"):
        return f"{args[0]}.{op}"
    if op == "conj":
        return f"{args[0]}.conjugate()"
    raise NotImplementedError(f"primitive '{op}' has no complex form")


@functools.cache
def salt() -> str:
    """What the names above stand for: part of the disk-cache key."""
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return own + vecmath.source_digest()
