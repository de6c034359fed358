"""Sums, products, moments and extrema, of whole arrays and along an axis."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import substitute
from .common import folded, refused, squared, without


@njit
def total(v):
    result = v.dtype.type(0)
    for i in range(v.size):
        result += v[i]
    return result


@njit
def lines_total(v, last):
    """Sums over the middle axis; ``last`` says that the inner axis is a single entry."""
    out = np.zeros((v.shape[0], v.shape[2]), dtype=v.dtype)
    if last:
        for o in range(v.shape[0]):
            result = v.dtype.type(0)
            for k in range(v.shape[1]):
                result += v[o, k, 0]
            out[o, 0] = result
    else:
        for o in range(v.shape[0]):
            for k in range(v.shape[1]):
                for i in range(v.shape[2]):
                    out[o, i] += v[o, k, i]
    return out


@njit
def axis_total(a, axis):
    last = axis % a.ndim == a.ndim - 1
    return lines_total(folded(a, axis), last).reshape(without(a, axis))


@substitute(np.sum, "sum")
def sum(a, axis=None, dtype=None):
    if dtype is None:
        return summed(a, axis)
    else:
        return summed(a.astype(dtype), axis)


@njit
def summed(a, axis):
    if axis is None or a.ndim == 1:
        return total(a.ravel())
    else:
        return axis_total(a, axis)


@njit
def product(v):
    result = v.dtype.type(1)
    for i in range(v.size):
        result *= v[i]
    return result


@substitute(np.prod, "prod")
def prod(a, axis=None):
    if axis is None or a.ndim == 1:
        return product(a.ravel())
    else:
        v = folded(a, axis)
        out = np.ones((v.shape[0], v.shape[2]), dtype=a.dtype)
        for o in range(v.shape[0]):
            for k in range(v.shape[1]):
                for i in range(v.shape[2]):
                    out[o, i] *= v[o, k, i]
        return out.reshape(without(a, axis))


@substitute(np.mean, "mean")
def mean(a, axis=None):
    if axis is None or a.ndim == 1:
        return total(a.ravel()) / a.size
    else:
        return axis_total(a, axis) / a.shape[axis]


@substitute(np.average)
def average(a, axis=None, weights=None):
    if axis is not None:
        refused("the argument 'axis' of 'average'", "Leave it out, as for Numba: average the rows.")
    if weights is None:
        return np.mean(a)
    else:
        if a.shape != weights.shape:
            raise TypeError("np.average: a and weights need the same shape")
        v = a.ravel()
        w = weights.ravel()
        scale = total(w)
        if scale == 0.0:
            raise ZeroDivisionError("Weights sum to zero, can't be normalized.")
        result = v.dtype.type(0) * w.dtype.type(0)
        for i in range(v.size):
            result += v[i] * w[i]
        return result / scale


@njit
def scatter(v):
    """Sum of the squared distances from the mean: two passes, as NumPy takes them."""
    center = total(v) / v.size
    result = squared(v.dtype.type(0))
    for i in range(v.size):
        result += squared(v[i] - center)
    return result


@njit
def axis_variance(a, axis):
    v = folded(a, axis)
    n = v.shape[1]
    center = lines_total(v, axis % a.ndim == a.ndim - 1) / n
    out = np.zeros((v.shape[0], v.shape[2]), dtype=a.real.dtype)
    for o in range(v.shape[0]):
        for k in range(n):
            for i in range(v.shape[2]):
                out[o, i] += squared(v[o, k, i] - center[o, i])
    return out.reshape(without(a, axis)) / n


@substitute(np.var, "var")
def var(a, axis=None):
    if axis is None or a.ndim == 1:
        return scatter(a.ravel()) / a.size
    else:
        return axis_variance(a, axis)


@substitute(np.std, "std")
def std(a, axis=None):
    return np.sqrt(np.var(a, axis))


@njit
def shared(v, k):
    """``v[k]``, with the derivative divided evenly among the entries equal to it.

    The differences are all zero, so the value is v[k] to the last bit; they only spread the derivative.
    """
    result = v[k]
    if result - result == 0:
        count = 0
        for i in range(v.size):
            if v[i] == v[k]:
                count += 1
        if count > 1:
            spread = v.dtype.type(0)
            for i in range(v.size):
                if v[i] == v[k]:
                    spread += v[i] - v[k]
            result += v.dtype.type(spread / count)
    return result


@substitute(np.max, np.amax, "max")
def max(a, axis=None):
    if axis is None or a.ndim == 1:
        v = a.ravel()
        return shared(v, np.argmax(v))
    else:
        v = folded(a, axis)
        out = np.empty((v.shape[0], v.shape[2]), dtype=a.dtype)
        for o in range(v.shape[0]):
            for i in range(v.shape[2]):
                line = v[o, :, i]
                out[o, i] = shared(line, np.argmax(line))
        return out.reshape(without(a, axis))


@substitute(np.min, np.amin, "min")
def min(a, axis=None):
    if axis is None or a.ndim == 1:
        v = a.ravel()
        return shared(v, np.argmin(v))
    else:
        v = folded(a, axis)
        out = np.empty((v.shape[0], v.shape[2]), dtype=a.dtype)
        for o in range(v.shape[0]):
            for i in range(v.shape[2]):
                line = v[o, :, i]
                out[o, i] = shared(line, np.argmin(line))
        return out.reshape(without(a, axis))


@substitute(np.ptp, "ptp")
def ptp(a):
    v = a.ravel()
    return shared(v, np.argmax(v)) - shared(v, np.argmin(v))


@substitute(np.trace)
def trace(a, offset=0):
    first = 0
    if offset < 0:
        first = -offset
    second = first + offset
    n = 0
    if a.shape[0] > first and a.shape[1] > second:
        n = a.shape[0] - first
        if a.shape[1] - second < n:
            n = a.shape[1] - second
    result = a.dtype.type(0)
    for i in range(n):
        result += a[first + i, second + i]
    return result
