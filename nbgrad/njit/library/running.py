"""Running sums and products, differences, quadrature and phase unwrapping."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import substitute
from .common import equal_sizes, folded, refused, resized


@substitute(np.cumsum, "cumsum")
def cumsum(a, axis=None, dtype=None):
    if dtype is None:
        return running_total(a, axis)
    else:
        return running_total(a.astype(dtype), axis)


@njit
def running_total(a, axis):
    if axis is None or a.ndim == 1:
        v = a.ravel()
        out = np.empty(v.size, dtype=a.dtype)
        result = a.dtype.type(0)
        for i in range(v.size):
            result += v[i]
            out[i] = result
        return out
    else:
        v = folded(a, axis)
        out = np.empty(v.shape, dtype=a.dtype)
        for o in range(v.shape[0]):
            for k in range(v.shape[1]):
                for i in range(v.shape[2]):
                    if k == 0:
                        out[o, k, i] = v[o, k, i]
                    else:
                        out[o, k, i] = out[o, k - 1, i] + v[o, k, i]
        return out.reshape(a.shape)


@substitute(np.cumprod, "cumprod")
def cumprod(a):
    v = a.ravel()
    out = np.empty(v.size, dtype=a.dtype)
    result = a.dtype.type(1)
    for i in range(v.size):
        result *= v[i]
        out[i] = result
    return out


@substitute(np.diff)
def diff(a, n=1):
    if n < 0:
        raise ValueError("diff(): order must be non-negative")
    size = a.shape[-1]
    work = a.copy().reshape(a.size // max(size, 1), size)
    for k in range(n):
        for o in range(work.shape[0]):
            for i in range(size - 1 - k):
                work[o, i] = work[o, i + 1] - work[o, i]
    rest = max(size - n, 0)
    return work[:, :rest].copy().reshape(resized(a, -1, rest))


@njit
def end_size(x):
    if x is None:
        return 0
    elif isinstance(x, (int, float, complex)):
        return 1
    else:
        return x.size


@substitute(np.ediff1d)
def ediff1d(ary, to_end=None, to_begin=None):
    v = ary.ravel()
    first = end_size(to_begin)
    n = max(v.size - 1, 0)
    out = np.empty(first + n + end_size(to_end), dtype=ary.dtype)
    if to_begin is not None:
        out[:first] = to_begin
    for i in range(n):
        out[first + i] = v[i + 1] - v[i]
    if to_end is not None:
        out[first + n :] = to_end
    return out


@njit
def trapezoids(y, x, dx):
    result = y.dtype.type(0) * 1.0
    for i in range(y.size - 1):
        if x is None:
            result += dx * (y[i] + y[i + 1]) / 2.0
        else:
            result += (x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2.0
    return result


@substitute(np.trapezoid)
def trapezoid(y, x=None, dx=1.0):
    if x is not None:
        equal_sizes(x.shape[-1], y.shape[-1])
    if y.ndim == 1:
        return trapezoids(y, x, dx)
    else:
        v = y.ravel().reshape(y.size // y.shape[-1], y.shape[-1])
        out = np.empty(v.shape[0], dtype=y.dtype)
        for o in range(v.shape[0]):
            out[o] = trapezoids(v[o], x, dx)
        return out.reshape(y.shape[:-1])


@njit
def wrapped(step, discont, period):
    """The jump to add to ``step``: a whole number of periods, so its derivative is 0."""
    half = period / 2
    folded_step = (step + half) % period - half
    if folded_step == -half and step > 0:
        folded_step = half
    turns = round((folded_step - step) / period)
    if abs(step) < discont:
        turns = 0
    return turns * period


@substitute(np.unwrap)
def unwrap(p, discont=None, axis=-1, period=6.283185307179586):
    if axis != -1:
        refused("the argument 'axis' of 'unwrap'", "Leave it out: it is the last, as for Numba.")
    v = p.ravel().reshape(p.size // p.shape[-1], p.shape[-1])
    out = np.empty(v.shape, dtype=p.dtype)
    limit = period / 2
    if discont is not None:
        limit = discont
    for o in range(v.shape[0]):
        shift = 0.0
        for i in range(v.shape[1]):
            if i > 0:
                shift += wrapped(v[o, i] - v[o, i - 1], limit, period)
            out[o, i] = v[o, i] + shift
    return out.reshape(p.shape)


@substitute(np.sinc)
def sinc(x):
    if isinstance(x, (int, float, complex)):
        return sinc_at(x)
    else:
        v = x.ravel()
        out = np.empty(v.size, dtype=x.dtype)
        for i in range(v.size):
            out[i] = sinc_at(v[i])
        return out.reshape(x.shape)


@njit
def sinc_at(x):
    """sin(y)/y; near 0 its series, whose every derivative is exact where the quotient's would cancel."""
    y = np.pi * x
    z = y * y
    if abs(y) < 0.5:
        result = 1.0 - z / 6.0 * (
            1.0
            - z
            / 20.0
            * (
                1.0
                - z
                / 42.0
                * (1.0 - z / 72.0 * (1.0 - z / 110.0 * (1.0 - z / 156.0 * (1.0 - z / 210.0))))
            )
        )
    else:
        result = np.sin(y) / y
    return result
