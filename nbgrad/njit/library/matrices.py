"""Diagonals, triangles, ranges, windows and statistics of rows."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import rule, substitute
from .common import equal_sizes, is_complex
from .passive import no_cotangent


@substitute(np.diag)
def diag(v, k=0):
    row = max(-k, 0)
    column = max(k, 0)
    if v.ndim == 1:
        n = v.size + row + column
        out = np.zeros((n, n), dtype=v.dtype)
        for i in range(v.size):
            out[row + i, column + i] = v[i]
        return out
    else:
        n = max(min(v.shape[0] - row, v.shape[1] - column), 0)
        out = np.empty(n, dtype=v.dtype)
        for i in range(n):
            out[i] = v[row + i, column + i]
        return out


@substitute(np.diagflat)
def diagflat(v, k=0):
    if isinstance(v, (int, float, complex)):
        return np.diag(np.full(1, v), k)
    else:
        return np.diag(v.ravel(), k)


@substitute(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    rows = min(a.shape[0], a.shape[1])
    if wrap and a.shape[0] > a.shape[1]:
        rows = a.shape[0]
    period = a.shape[1] + 1
    k = 0
    for i in range(rows):
        if i % period < a.shape[1]:
            if isinstance(val, (int, float, complex)):
                a[i, i % period] = val
            else:
                a[i, i % period] = val.ravel()[k % val.size]
            k += 1


@njit
def matrices_of(m):
    """(how many, rows, columns); a vector stands for the matrix that has it in every row."""
    if m.ndim == 1:
        return rows_of(m).reshape(1, m.size, m.size)
    else:
        rows, columns = m.shape[-2], m.shape[-1]
        return m.ravel().reshape(m.size // max(rows * columns, 1), rows, columns)


@njit
def like_matrices(out, m):
    if m.ndim == 1:
        return out.reshape(m.size, m.size)
    else:
        return out.reshape(m.shape)


@substitute(np.tril)
def tril(m, k=0):
    v = matrices_of(m)
    out = np.zeros(v.shape, dtype=m.dtype)
    for o in range(v.shape[0]):
        for i in range(v.shape[1]):
            for j in range(min(max(i + k + 1, 0), v.shape[2])):
                out[o, i, j] = v[o, i, j]
    return like_matrices(out, m)


@substitute(np.triu)
def triu(m, k=0):
    v = matrices_of(m)
    out = np.zeros(v.shape, dtype=m.dtype)
    for o in range(v.shape[0]):
        for i in range(v.shape[1]):
            for j in range(max(i + k, 0), v.shape[2]):
                out[o, i, j] = v[o, i, j]
    return like_matrices(out, m)


@njit
def rows_of(v):
    """Every row is ``v``: what NumPy takes the triangle of when given a vector."""
    out = np.empty((v.size, v.size), dtype=v.dtype)
    for i in range(v.size):
        out[i] = v
    return out


@substitute(np.linspace)
def linspace(start, stop, num=50):
    out = np.full(num, (start + stop) * 0.0)
    if num > 1:
        step = (stop - start) / (num - 1)
        for i in range(num):
            out[i] = start + step * i
        out[num - 1] = stop
    elif num == 1:
        out[0] = start
    return out


@substitute(np.logspace)
def logspace(start, stop, num=50):
    return 10.0 ** np.linspace(start, stop, num)


@substitute(np.geomspace)
def geomspace(start, stop, num=50):
    """Between two numbers of one sign; every entry is start * (stop / start) ** (i / (num - 1))."""
    out = np.full(num, (start + stop) * 0.0)
    ratio = stop / start
    for i in range(num - 1):
        out[i] = start * ratio ** (i / (num - 1))
    if num == 1:
        out[0] = start
    elif num > 1:
        out[num - 1] = stop
    return out


@njit
def cell(xp, x):
    """The last sample point that is not beyond ``x``; -1 if all are."""
    low = 0
    high = xp.size
    while low < high:
        middle = (low + high) // 2
        if xp[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit
def interp_at(x, xp, fp):
    result = fp[0] * 1.0
    if np.isnan(x):
        result = fp[0] * x
    else:
        j = cell(xp, x)
        if j >= xp.size - 1:
            result = fp[xp.size - 1] * 1.0
        elif j >= 0:
            slope = (fp[j + 1] - fp[j]) / (xp[j + 1] - xp[j])
            result = slope * (x - xp[j]) + fp[j]
    return result


@substitute(np.interp)
def interp(x, xp, fp):
    if equal_sizes(xp.size, fp.size) == 0:
        raise ValueError("array of sample points is empty")
    if isinstance(x, (int, float)):
        return interp_at(x, xp, fp)
    else:
        v = x.ravel()
        out = np.full(v.size, fp.dtype.type(0) * 1.0)
        for i in range(v.size):
            out[i] = interp_at(v[i], xp, fp)
        return out.reshape(x.shape)


@substitute(np.bincount)
def bincount(a, weights=None, minlength=0):
    n = minlength
    for i in range(a.size):
        if a[i] < 0:
            raise ValueError("first argument must be non-negative")
        n = max(n, a[i] + 1)
    if weights is None:
        counts = np.zeros(n, dtype=np.intp)
        for i in range(a.size):
            counts[a[i]] += 1
        return counts
    else:
        equal_sizes(a.size, weights.size)
        out = np.zeros(n, dtype=np.float64)
        for i in range(a.size):
            out[a[i]] += weights[i]
        return out


@njit
def counted(a, bins, low, high):
    return np.histogram(a, bins, (low, high))[0]


@njit
def counted_between(a, bins):
    return np.histogram(a, bins)[0]


@substitute(np.histogram)
def histogram(a, bins=10, range=None):
    """The counts have no derivative; edges have that of the bounds."""
    if not isinstance(bins, int):
        return counted_between(a, bins), bins
    elif range is None:
        low = np.min(a)
        high = np.max(a)
        return counted(a, bins, low, high), np.linspace(low, high, bins + 1)
    else:
        edges = np.linspace(range[0], range[1], bins + 1)
        return counted(a, bins, range[0], range[1]), edges


@njit
def bessel(z):
    """The modified Bessel function I0 of 2 sqrt(z), by its power series."""
    total = 1.0
    term = 1.0
    k = 1
    while term > 1e-18 * total and total < np.inf:
        term *= z / (k * k)
        total += term
        k += 1
    return total


@substitute(np.kaiser)
def kaiser(M, beta):
    out = np.ones(max(M, 0), dtype=np.float64)
    if M > 1:
        whole = bessel(0.25 * beta * beta)
        for i in range(M):
            r = 2.0 * i / (M - 1) - 1.0
            out[i] = bessel(0.25 * beta * beta * (1.0 - r * r)) / whole
    return out


@njit
def variables(m, rowvar):
    """One variable a row."""
    if m.ndim == 1:
        return m.ravel().reshape(1, m.size)
    elif rowvar or m.shape[0] == 1:
        return m.ravel().reshape(m.shape[0], m.shape[1])
    else:
        return m.T.copy()


@njit
def covariance(x, bias, ddof):
    n = x.shape[1]
    freedom = n - 1
    if ddof is not None:
        freedom = n - ddof
    elif bias:
        freedom = n
    centered = np.empty(x.shape, dtype=x.dtype)
    for i in range(x.shape[0]):
        center = np.mean(x[i])
        for k in range(n):
            centered[i, k] = x[i, k] - center
    return np.dot(centered, np.conj(centered.T)) / max(freedom, 0.0)


@njit
def both(m, y, rowvar):
    first = variables(m, rowvar)
    if y is None:
        return first * 1.0
    else:
        return np.concatenate((first * 1.0, variables(y, rowvar) * 1.0), 0)


@substitute(np.cov)
def cov(m, y=None, rowvar=True, bias=False, ddof=None):
    c = covariance(both(m, y, rowvar), bias, ddof)
    if m.ndim == 1 and y is None:
        return np.array(c[0, 0])
    else:
        return c


@njit
def clipped(x):
    return np.where(np.abs(x) > 1, np.sign(x), x)


@njit
def clipped_parts(c):
    if is_complex(c):
        return clipped(c.real) + 1j * clipped(c.imag)
    else:
        return clipped(c)


@substitute(np.corrcoef)
def corrcoef(x, y=None, rowvar=True):
    c = covariance(both(x, y, rowvar), False, None)
    if x.ndim == 1 and y is None:
        return np.array(c[0, 0] / c[0, 0])
    else:
        n = c.shape[0]
        out = np.empty(c.shape, dtype=c.dtype)
        for i in range(n):
            for j in range(n):
                out[i, j] = c[i, j] / np.sqrt(c[i, i].real) / np.sqrt(c[j, j].real)
        return clipped_parts(out)


for _function in (counted, counted_between):
    rule(_function, vjp=no_cotangent, jvp=no_cotangent)
