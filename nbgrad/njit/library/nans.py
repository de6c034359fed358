"""The reductions that leave NaNs out: no derivative reaches a NaN."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import substitute
from .common import is_complex, refused, squared
from .order import interpolated, line_of
from .reductions import shared


@njit
def kept(v):
    """The entries of ``v`` that are numbers, in order."""
    count = 0
    for i in range(v.size):
        if not np.isnan(v[i]):
            count += 1
    out = np.empty(count, dtype=v.dtype)
    k = 0
    for i in range(v.size):
        if not np.isnan(v[i]):
            out[k] = v[i]
            k += 1
    return out


@substitute(np.nansum)
def nansum(a):
    v = a.ravel()
    result = v.dtype.type(0)
    for i in range(v.size):
        if not np.isnan(v[i]):
            result += v[i]
    return result


@substitute(np.nanprod)
def nanprod(a):
    v = a.ravel()
    result = v.dtype.type(1)
    for i in range(v.size):
        if not np.isnan(v[i]):
            result *= v[i]
    return result


@njit
def mean_and_count(v):
    result = v.dtype.type(0)
    count = 0
    for i in range(v.size):
        if not np.isnan(v[i]):
            result += v[i]
            count += 1
    return np.divide(result, count), count


@substitute(np.nanmean)
def nanmean(a):
    return mean_and_count(a.ravel())[0]


@substitute(np.nanvar)
def nanvar(a, axis=None, dtype=None, out=None, ddof=0):
    if axis is not None or dtype is not None or out is not None:
        refused("'nanvar' or 'nanstd' with axis, dtype or out", "Leave them out, as for Numba.")
    v = a.ravel()
    center, count = mean_and_count(v)
    result = squared(v.dtype.type(0))
    for i in range(v.size):
        if not np.isnan(v[i]):
            result += squared(v[i] - center)
    return np.divide(result, count - ddof)


@substitute(np.nanstd)
def nanstd(a, axis=None, dtype=None, out=None, ddof=0):
    return np.sqrt(np.nanvar(a, axis, dtype, out, ddof))


@substitute(np.nanmax)
def nanmax(a):
    v = a.ravel()
    best = 0
    for i in range(v.size):
        if v[i] > v[best] or np.isnan(v[best]):
            best = i
    return shared(v, best)


@substitute(np.nanmin)
def nanmin(a):
    v = a.ravel()
    best = 0
    for i in range(v.size):
        if v[i] < v[best] or np.isnan(v[best]):
            best = i
    return shared(v, best)


@substitute(np.nancumsum)
def nancumsum(a):
    v = a.ravel()
    out = np.empty(v.size, dtype=a.dtype)
    result = a.dtype.type(0)
    for i in range(v.size):
        if not np.isnan(v[i]):
            result += v[i]
        out[i] = result
    return out


@substitute(np.nancumprod)
def nancumprod(a):
    v = a.ravel()
    out = np.empty(v.size, dtype=a.dtype)
    result = a.dtype.type(1)
    for i in range(v.size):
        if not np.isnan(v[i]):
            result *= v[i]
        out[i] = result
    return out


@substitute(np.nanmedian)
def nanmedian(a):
    return np.median(kept(a.ravel()))


@substitute(np.nanquantile)
def nanquantile(a, q):
    v = kept(a.ravel())
    order = np.argsort(v)
    if isinstance(q, (int, float)):
        return interpolated(v, order, q)
    else:
        return line_of(v, order, q.ravel(), 1.0)


@substitute(np.nanpercentile)
def nanpercentile(a, q):
    v = kept(a.ravel())
    order = np.argsort(v)
    if isinstance(q, (int, float)):
        return interpolated(v, order, q / 100.0)
    else:
        return line_of(v, order, q.ravel(), 100.0)


@substitute(np.nan_to_num)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    if isinstance(x, int):
        return x
    elif isinstance(x, float):
        high = 1.7976931348623157e308 if posinf is None else posinf
        low = -1.7976931348623157e308 if neginf is None else neginf
        return replaced(x, nan, high, low)
    elif isinstance(x, complex):
        return complex(
            np.nan_to_num(x.real, True, nan, posinf, neginf),
            np.nan_to_num(x.imag, True, nan, posinf, neginf),
        )
    else:
        out = x.copy() if copy else x
        replace_in(out, nan, posinf, neginf)
        return out


@njit
def replace_in(a, nan, posinf, neginf):
    largest = 3.4028234663852886e38 if a.real.dtype == np.float32 else 1.7976931348623157e308
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    if is_complex(a):
        a[...] = replaced(a.real, nan, high, low) + 1j * replaced(a.imag, nan, high, low)
    else:
        a[...] = replaced(a, nan, high, low)


@njit
def replaced(x, nan, high, low):
    return np.where(np.isnan(x), nan, np.where(x == np.inf, high, np.where(x == -np.inf, low, x)))
