"""Functions of single entries that are no ufuncs."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..rules import substitute


@njit
def bounded(x, low, high):
    """The derivative passes where low <= x <= high; beyond, it goes to the bound."""
    result = x
    if x < low:
        result = low
    elif x > high:
        result = high
    return result


@substitute(np.clip, "clip")
def clip(a, a_min=None, a_max=None, out=None):
    low = -np.inf if a_min is None else a_min
    high = np.inf if a_max is None else a_max
    if isinstance(a, (int, float)):
        return bounded(a, low, high)
    elif out is None:
        clipped = np.empty(a.shape, dtype=a.dtype)
        clipped[...] = np.where(a < low, low, np.where(a > high, high, a))
        return clipped
    else:
        out[...] = np.where(a < low, low, np.where(a > high, high, a))
        return out


@substitute(np.round, np.around, "round")
def rounded(a, decimals=0, out=None):
    scale = 10.0**decimals
    if isinstance(a, (int, float)):
        return np.rint(a * scale) / scale
    elif out is None:
        nearest = np.empty(a.shape, dtype=a.dtype)
        nearest[...] = np.rint(a * scale) / scale
        return nearest
    else:
        out[...] = np.rint(a * scale) / scale
        return out


@substitute(np.positive)
def positive(x):
    return np.negative(np.negative(x))


@substitute(np.ldexp, math.ldexp)
def ldexp(x1, x2):
    return x1 * 2.0**x2


@substitute(np.logaddexp2)
def logaddexp2(x1, x2):
    scale = math.log(2.0)
    return np.logaddexp(x1 * scale, x2 * scale) / scale


@substitute(np.angle)
def angle(z, deg=False):
    if deg:
        return np.arctan2(z.imag, z.real) * (180.0 / np.pi)
    else:
        return np.arctan2(z.imag, z.real)


@substitute(np.asarray)
def asarray(a, dtype=None):
    if isinstance(a, (tuple, int, float, complex)):
        return np.array(a)
    elif dtype is None:
        return a
    else:
        return a.astype(dtype)


@substitute(np.trim_zeros)
def trim_zeros(filt, trim="fb"):
    first = 0
    last = filt.size
    if trim != "b":
        while first < last and filt[first] == 0:
            first += 1
    if trim != "f":
        while last > first and filt[last - 1] == 0:
            last -= 1
    return filt[first:last]
