"""Source templates of the scalar primitives on the CPU, per dtype class.

Bodies use this vetted vocabulary and never raw ``math``: ``math.floor(1e300)`` is an integer overflow, ``math`` raises
where a loop must return NaN, and Python's ``min`` drops NaN.
"""

from __future__ import annotations

import numpy as np

INFIX = {
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


# primitives that are one LLVM intrinsic
ROUNDING = ("floor", "ceil", "trunc", "rint", "fabs", "sqrt")
# functions of kernels_cpu.vecmath (its TABLE holds each for float64 and float32)
VECMATH = frozenset(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "hypot",
        "log",
        "log10",
        "log1p",
        "log2",
        "pow",
        "sigmoid",
        "sin",
        "sinh",
        "softplus",
        "tan",
        "tanh",
    ]
)


def template(op: str, dtype: np.dtype, arg_dtypes: list[np.dtype], args: list[str]) -> str:
    """Source text of primitive ``op`` with result ``dtype`` applied to the named arguments."""
    kind = arg_dtypes[0].kind if arg_dtypes else dtype.kind
    if op in INFIX:
        text = f"{args[0]} {INFIX[op]} {args[1]}"
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
    if op == "fmod":
        return f"fmod({args[0]}, {args[1]})"
    if op in ROUNDING:
        return f"_{op}({args[0]})"
    if op in VECMATH:
        return f"{op}_{dtype.name}({', '.join(args)})"
    return f"math.{op}({', '.join(args)})"


def _complex_template(op: str, args: list[str]) -> str:
    """Only the parts: every complex function is written in real primitives before it comes here."""
    if op in ("real", "imag"):
        return f"{args[0]}.{op}"
    if op == "conj":
        return f"{args[0]}.conjugate()"
    raise NotImplementedError(f"primitive '{op}' has no complex form")
