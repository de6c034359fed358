"""Calls whose results are integers, flags or constants: they stay as they are and carry no derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ..rules import rule, substitute
from .common import is_complex

_NAMES = """
    all any allclose argmax argmin argpartition argwhere array_equal count_nonzero digitize
    flatnonzero isclose iscomplex isin isreal isscalar
    nanargmax nanargmin searchsorted tri tril_indices tril_indices_from triu_indices
    triu_indices_from indices bartlett blackman hamming hanning
"""
PASSIVE = {getattr(np, name) for name in _NAMES.split()} | {
    np.linalg.matrix_rank,
    math.gcd,
    np.gcd,
    np.lcm,
}


def no_cotangent(args: Any, out: Any, cotangent: Any) -> Any:
    """Never asked: the result is not active."""
    return args


for _function in PASSIVE:
    rule(_function, vjp=no_cotangent, jvp=no_cotangent)


@substitute("argmax")
def argmax(a, axis=None):
    if axis is None:
        return np.argmax(a)
    else:
        return np.argmax(a, axis)


@substitute("argmin")
def argmin(a, axis=None):
    if axis is None:
        return np.argmin(a)
    else:
        return np.argmin(a, axis)


@njit
def order(a):
    return np.argsort(a)


@njit
def stable_order(a):
    return np.argsort(a, kind="mergesort")


@njit
def ones_on_a_diagonal(n, m, k):
    return np.eye(n, m, k)


@substitute(np.eye)
def eye(N, M=None, k=0, dtype=None):
    ones = ones_on_a_diagonal(N, N if M is None else M, k)
    return ones if dtype is None else ones.astype(dtype)


@substitute(np.identity)
def identity(n, dtype=None):
    return np.eye(n, n, 0, dtype)


for _function in (order, stable_order, ones_on_a_diagonal):
    rule(_function, vjp=no_cotangent, jvp=no_cotangent)


@substitute(np.argsort, "argsort")
def argsort(a, axis=-1, kind="quicksort"):
    if kind == "quicksort":
        return order(a)
    else:
        return stable_order(a)


@substitute(np.isposinf)
def isposinf(x, out=None):
    return filled(x == np.inf, out)


@substitute(np.isneginf)
def isneginf(x, out=None):
    return filled(x == -np.inf, out)


@njit
def filled(flags, out):
    if out is None:
        return flags
    else:
        out[...] = flags
        return out


@njit
def positions(a):
    """Row and column of every entry that is not zero."""
    n = np.count_nonzero(a)
    rows = np.empty(n, dtype=np.int64)
    columns = np.empty(n, dtype=np.int64)
    k = 0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] != 0:
                rows[k] = i
                columns[k] = j
                k += 1
    return rows, columns


@substitute(np.nonzero, np.where, "nonzero")
def nonzero(a):
    """Positions of what is not zero, an array an axis; ``np.where`` of one argument is the same."""
    if a.ndim == 1:
        first = np.empty(np.count_nonzero(a), dtype=np.int64)
        k = 0
        for i in range(a.shape[0]):
            if a[i] != 0:
                first[k] = i
                k += 1
        return (first,)
    elif a.ndim == 2:
        return positions(a)
    else:
        planes = a.ravel().reshape(a.shape[0] * a.shape[1], a.shape[2])
        both, third = positions(planes)
        return (both // a.shape[1], both % a.shape[1], third)


@substitute(np.iscomplexobj)
def iscomplexobj(x):
    if isinstance(x, (int, float, complex)):
        return isinstance(x, complex)
    else:
        return is_complex(x)


@substitute(np.isrealobj)
def isrealobj(x):
    return not np.iscomplexobj(x)


@substitute("any")
def any(a):
    return np.any(a)


@substitute("all")
def all(a):
    return np.all(a)
