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

# names of the arguments of what is handled here, in order; others are refused
ARGUMENTS: dict[Any, str] = {
    range: "start stop step",
    numba.prange: "start stop step",
    len: "obj",
    enumerate: "iterable start",
    int: "x",
    float: "x",
    bool: "x",
    complex: "real imag",
    sum: "iterable start",
    abs: "x",
    round: "number ndigits",
    divmod: "x y",
    tuple: "iterable",
    isinstance: "obj classes",
    pow: "base exp",
    slice: "start stop step",
    math.floor: "x",
    math.ceil: "x",
    math.trunc: "x",
    math.isnan: "x",
    np.empty: "shape dtype",
    np.zeros: "shape dtype",
    np.ones: "shape dtype",
    np.full: "shape fill_value dtype",
    np.empty_like: "a dtype",
    np.zeros_like: "a dtype",
    np.ones_like: "a dtype",
    np.full_like: "a fill_value dtype",
    np.arange: "start stop step dtype",
    np.copy: "a",
    np.array: "object dtype",
    np.asarray: "a dtype",
    np.ascontiguousarray: "a",
    np.sum: "a axis dtype",
    np.where: "condition x y",
    np.ravel: "a",
    np.reshape: "a shape",
    np.transpose: "a axes",
    np.shape: "a",
    np.ndim: "a",
    np.size: "a",
    np.ndenumerate: "arr",
    cmath.phase: "z",
    **{getattr(cmath, n): "z" for n in CMATH},
}
# handlers that look at keywords which stand for no position
WITH_KEYWORDS = ("make", "make_like", "arange", "array", "sum")
# methods of arrays that are handled as these functions are, and the arguments of the others
METHODS = {
    "reshape": np.reshape,
    "ravel": np.ravel,
    "transpose": np.transpose,
    "copy": np.copy,
    "sum": np.sum,
    "conj": np.conj,
    "conjugate": np.conj,
    "dot": np.dot,
    "max": np.max,
    "min": np.min,
}
METHOD_ARGUMENTS = {"flatten": "", "astype": "dtype", "fill": "value"}


def name_of(f: Any) -> str:
    """A function's name, for messages."""
    return getattr(f, "__name__", type(f).__name__)


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
