"""Which method interprets a call of a Python, ``math`` or NumPy function."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numba
import numpy as np
from numba import types

from .. import ir

CMATH = (
    "exp",
    "log",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
)
HANDLERS: dict[Any, str] = {
    range: "range",
    numba.prange: "prange",
    len: "len",
    enumerate: "enumerate",
    zip: "zip",
    int: "int",
    float: "float",
    bool: "bool",
    complex: "complex",
    max: "extreme",
    min: "extreme",
    sum: "builtin_sum",
    abs: "scalar",
    round: "round",
    divmod: "divmod",
    tuple: "tuple",
    isinstance: "isinstance",
    print: "print",
    pow: "scalar",
    slice: "slice",
    math.floor: "whole",
    math.ceil: "whole",
    math.trunc: "whole",
    math.isnan: "scalar",
    np.empty: "make",
    np.zeros: "make",
    np.ones: "make",
    np.full: "make",
    np.empty_like: "make_like",
    np.zeros_like: "make_like",
    np.ones_like: "make_like",
    np.full_like: "make_like",
    np.arange: "arange",
    np.linspace: "linspace",
    np.copy: "copy",
    np.array: "array",
    np.asarray: "array",
    np.ascontiguousarray: "array",
    np.sum: "sum",
    np.where: "where",
    np.transpose: "transpose",
    np.reshape: "reshape",
    np.ravel: "ravel",
    np.shape: "shape",
    np.ndim: "ndim",
    np.size: "size",
    np.ndindex: "ndindex",
    np.ndenumerate: "ndenumerate",
    cmath.phase: "phase",
    **{getattr(cmath, n): "cmath" for n in CMATH},
}


def name_of(f: Any) -> str:
    """A function's name, for messages."""
    return getattr(f, "__name__", str(f))


def is_number(x: Any) -> bool:
    """Whether an object is a number."""
    return isinstance(x, ir.Value) and not ir.is_array(x)


def is_integer(x: Any) -> bool:
    """Whether an object is an integer or a truth value."""
    return isinstance(x, ir.Value) and isinstance(x.type, types.Integer | types.Boolean)


def is_boolean(x: Any) -> bool:
    """Whether an object is a truth value, or an array of them."""
    if not isinstance(x, ir.Value):
        return False
    return isinstance(x.type.dtype if ir.is_array(x) else x.type, types.Boolean)
