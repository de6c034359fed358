"""Norms, condition numbers and powers of matrices."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..rules import substitute
from .common import squared


@njit
def euclidean(v):
    """The 2-norm; at 0 its derivative is 0. Entries too large or small to square are scaled first."""
    s = squared(v.dtype.type(0))
    for i in range(v.size):
        s += squared(v[i])
    result = s
    if s > 1e-30 and s < 1e30:
        result = np.sqrt(s)
    else:
        big = abs(v.dtype.type(0))
        for i in range(v.size):
            if abs(v[i]) > big or np.isnan(v[i]):
                big = abs(v[i])
        result = big
        if big > 0.0 and math.isfinite(big):
            s = squared(v.dtype.type(0))
            for i in range(v.size):
                s += squared(v[i] / big)
            result = big * np.sqrt(s)
    return result


@njit
def power_norm(v, p):
    s = abs(v.dtype.type(0))
    for i in range(v.size):
        x = abs(v[i])
        if x != 0.0 or p < 0:
            s += x**p
    result = s
    if s != 0.0:
        result = s ** (1.0 / p)
    return result


@njit
def vector_norm(v, ord):
    result = abs(v.dtype.type(0)) * 1.0
    if v.size > 0:
        if ord == 2:
            result = euclidean(v)
        elif ord == np.inf:
            result = np.max(np.abs(v))
        elif ord == -np.inf:
            result = np.min(np.abs(v))
        elif ord == 0:
            for i in range(v.size):
                if v[i] != 0:
                    result += 1.0
        elif ord == 1:
            for i in range(v.size):
                result += abs(v[i])
        else:
            result = power_norm(v, ord)
    return result


@njit
def line_sums(x):
    """Sums of absolute values of the rows."""
    out = np.zeros(x.shape[0], dtype=x.real.dtype)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i] += abs(x[i, j])
    return out


@njit
def matrix_norm(x, ord):
    result = abs(x.dtype.type(0)) * 1.0
    if x.size > 0:
        if ord == np.inf:
            result = np.max(line_sums(x))
        elif ord == -np.inf:
            result = np.min(line_sums(x))
        elif ord == 1:
            result = np.max(line_sums(x.T))
        elif ord == -1:
            result = np.min(line_sums(x.T))
        elif ord == 2:
            result = np.linalg.svd(x, False)[1][0]
        elif ord == -2:
            result = np.linalg.svd(x, False)[1][-1]
        else:
            raise ValueError("Invalid norm order for matrices.")
    return result


@substitute(np.linalg.norm)
def norm(x, ord=None):
    if ord is None:
        return euclidean(x.ravel())
    elif x.ndim == 1:
        return vector_norm(x, ord)
    else:
        return matrix_norm(x, ord)


@substitute(np.linalg.cond)
def cond(x, p=None):
    if p is None:
        return cond_2(x, 2)
    elif p == 2 or p == -2:
        return cond_2(x, p)
    else:
        return matrix_norm(x, p) * matrix_norm(np.linalg.inv(x), p)


@njit
def cond_2(x, p):
    s = np.linalg.svd(x, False)[1]
    low = s[s.size - 1]
    result = low
    if p == -2:
        result = low / s[0]
    elif low == 0.0:
        result = np.inf
    else:
        result = s[0] / low
    return result


@substitute(np.linalg.matrix_power)
def matrix_power(a, n):
    if a.shape[0] != a.shape[1]:
        raise ValueError("input must be a square array")
    base = np.empty(a.shape, dtype=a.dtype)
    if n < 0:
        base[:] = np.linalg.inv(a)
    else:
        base[:] = a
    out = np.zeros(a.shape, dtype=a.dtype)
    for i in range(a.shape[0]):
        out[i, i] = 1
    rest = abs(n)
    while rest > 0:
        if rest % 2 == 1:
            out[:] = np.dot(out, base)
        rest //= 2
        if rest > 0:
            base[:] = np.dot(base, base)
    return out
