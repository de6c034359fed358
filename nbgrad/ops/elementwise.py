"""Every elementwise operator under one name, and Python's operators on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op.public import operators
from ..tensor import Tensor
from .arithmetic import add, addcdiv, addcmul, div, lerp, mul, neg, reciprocal, square, sub
from .compare import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    eq,
    ge,
    gt,
    isfinite,
    isinf,
    isnan,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    ne,
)
from .complex import abs, angle, imag, make_complex, sgn
from .extremes import clamp, fmax, fmin, maximum, minimum
from .logistic import logaddexp, sigmoid
from .rounding import ceil, copysign, floor, floor_divide, mod, trunc
from .selection import cj, conj, drop, keep, real, where, zmul
from .transcendental import (
    exp,
    expm1,
    hypot,
    log,
    log1p,
    pow,
    power,
    rsqrt,
    sqrt,
    unit,
    xlogy,
)
from .trigonometric import atan2, cos, cosh, sin, sinh, tanh

__all__ = [
    "abs",
    "add",
    "addcdiv",
    "addcmul",
    "angle",
    "atan2",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "cj",
    "clamp",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "div",
    "drop",
    "eq",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "ge",
    "gt",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "keep",
    "le",
    "lerp",
    "log",
    "log1p",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "make_complex",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "ne",
    "neg",
    "pow",
    "power",
    "real",
    "reciprocal",
    "rsqrt",
    "sgn",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tanh",
    "trunc",
    "unit",
    "where",
    "xlogy",
    "zmul",
]

_NUMERIC = (Tensor, int, float, complex, np.ndarray, np.generic, list, tuple)


def _equality(fn: Any) -> Any:
    """``==`` or ``!=`` that leaves what is no number (None, strings) to Python's default."""

    def compare(self: Any, other: Any) -> Any:
        return fn(self, other) if isinstance(other, _NUMERIC) else NotImplemented

    return compare


operators(
    {
        "add": (add, True, True),
        "sub": (sub, True, True),
        "mul": (mul, True, True),
        "truediv": (div, True, True),
        "floordiv": (floor_divide, True, True),
        "mod": (mod, True, True),
        "pow": (power, True, True),
        "neg": (neg, False, False),
        "abs": (abs, False, False),
        "eq": (_equality(eq), False, False),
        "ne": (_equality(ne), False, False),
        "lt": (lt, False, False),
        "le": (le, False, False),
        "gt": (gt, False, False),
        "ge": (ge, False, False),
        "and": (bitwise_and, True, True),
        "or": (bitwise_or, True, True),
        "xor": (bitwise_xor, True, True),
        "lshift": (bitwise_left_shift, True, True),
        "rshift": (bitwise_right_shift, True, True),
        "invert": (bitwise_not, False, False),
    }
)
