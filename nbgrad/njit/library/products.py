"""Products that BLAS has no routine for, and polynomials."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.np.extensions import cross2d
from numpy.polynomial import polynomial

from ..rules import substitute
from .common import refused


@njit
def flat_entries(x):
    if isinstance(x, (int, float, complex)):
        return np.full(1, x)
    else:
        return x.ravel()


@substitute(np.outer)
def outer(a, b, out=None):
    first = flat_entries(a)
    second = flat_entries(b)
    if out is None:
        return first.reshape(first.size, 1) * second.reshape(1, second.size)
    else:
        out[...] = first.reshape(first.size, 1) * second.reshape(1, second.size)
        return out


@njit
def as_matrix(x):
    if isinstance(x, (int, float, complex)):
        return np.full((1, 1), x)
    elif x.ndim == 1:
        return x.ravel().reshape(1, x.size)
    else:
        return x


@njit
def kron_blocks(a, b):
    rows, cols = b.shape
    zero = a.dtype.type(0) * b.dtype.type(0)
    out = np.full((a.shape[0] * rows, a.shape[1] * cols), zero)
    for i in range(a.shape[0]):
        for k in range(rows):
            for j in range(a.shape[1]):
                for q in range(cols):
                    out[i * rows + k, j * cols + q] = a[i, j] * b[k, q]
    return out


@substitute(np.kron)
def kron(a, b):
    if isinstance(a, (int, float, complex)) or isinstance(b, (int, float, complex)):
        return a * b
    else:
        out = kron_blocks(as_matrix(a), as_matrix(b))
        if a.ndim == 1 and b.ndim == 1:
            return out.ravel()
        else:
            return out


@njit
def spread(a, b):
    """Full convolution: every product of entries, added up by the sum of their indices."""
    if a.size == 0 or b.size == 0:
        raise ValueError("np.convolve and np.correlate need arrays with entries")
    out = np.full(a.size + b.size - 1, a.dtype.type(0) * b.dtype.type(0))
    for i in range(a.size):
        for j in range(b.size):
            out[i + j] += a[i] * b[j]
    return out


@substitute(np.convolve)
def convolve(a, v, mode="full"):
    full = spread(a, v)
    if mode == "full":
        return full
    elif mode == "same":
        first = (min(a.size, v.size) - 1) // 2
        return full[first : first + max(a.size, v.size)].copy()
    else:
        first = min(a.size, v.size) - 1
        return full[first : first + max(a.size, v.size) - first].copy()


@substitute(np.correlate)
def correlate(a, v, mode="valid"):
    full = spread(a, np.conj(v)[::-1])
    if mode == "full":
        return full
    elif mode == "same":
        # NumPy swaps the longer operand to the front and turns the result round: the odd entry falls on the other side
        first = (min(a.size, v.size) - 1) // 2
        if a.size < v.size:
            first = min(a.size, v.size) // 2
        return full[first : first + max(a.size, v.size)].copy()
    else:
        first = min(a.size, v.size) - 1
        return full[first : first + max(a.size, v.size) - first].copy()


@njit
def third(x, o):
    if x.shape[1] == 3:
        result = x[o, 2]
    else:
        result = x.dtype.type(0)
    return result


@njit
def cross_rows(a, b):
    rows = max(a.shape[0], b.shape[0])
    if (a.shape[0] != rows and a.shape[0] != 1) or (b.shape[0] != rows and b.shape[0] != 1):
        raise ValueError("np.cross: shapes of a and b do not go together")
    out = np.full((rows, 3), a.dtype.type(0) * b.dtype.type(0))
    for o in range(rows):
        i = o % a.shape[0]
        j = o % b.shape[0]
        a2 = third(a, i)
        b2 = third(b, j)
        out[o, 0] = a[i, 1] * b2 - a2 * b[j, 1]
        out[o, 1] = a2 * b[j, 0] - a[i, 0] * b2
        out[o, 2] = a[i, 0] * b[j, 1] - a[i, 1] * b[j, 0]
    return out


@substitute(np.cross)
def cross(a, b):
    p = a.shape[-1]
    q = b.shape[-1]
    if p < 2 or p > 3 or q < 2 or q > 3 or p + q == 4:
        raise ValueError("np.cross: the last axes need length 3 (or one of them 2)")
    out = cross_rows(a.ravel().reshape(a.size // p, p), b.ravel().reshape(b.size // q, q))
    if a.ndim == 1 and b.ndim == 1:
        return out.ravel()
    elif a.ndim >= b.ndim:
        return out.reshape(a.shape[:-1] + (3,))
    else:
        return out.reshape(b.shape[:-1] + (3,))


@substitute(cross2d)
def cross2d_text(a, b):
    if a.shape[-1] != 2 or b.shape[-1] != 2:
        raise ValueError("cross2d: the last axes need length 2")
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


@substitute(np.vander)
def vander(x, N=None, increasing=False):
    columns = x.size
    if N is not None:
        columns = N
    out = np.empty((x.size, columns), dtype=x.dtype)
    for i in range(x.size):
        power = x.dtype.type(1)
        for j in range(columns):
            if increasing:
                out[i, j] = power
            else:
                out[i, columns - 1 - j] = power
            power *= x[i]
    return out


@njit
def horner(x, c):
    result = c[c.size - 1] + x * 0
    for k in range(c.size - 1):
        result = c[c.size - 2 - k] + result * x
    return result


@substitute(polynomial.polyval)
def polyval(x, c, tensor=True):
    if c.ndim != 1:
        refused("'polyval' of a matrix of coefficients", "Call it for each polynomial.")
    if isinstance(x, (int, float, complex)):
        return horner(x, c)
    else:
        v = x.ravel()
        out = np.full(v.size, x.dtype.type(0) * c.dtype.type(0))
        for i in range(v.size):
            out[i] = horner(v[i], c)
        return out.reshape(x.shape)


@njit
def trimmed(c):
    """Without the zero coefficients of the highest powers; one is left."""
    n = c.size
    while n > 1 and c[n - 1] == 0:
        n -= 1
    return c[:n].copy()


@njit
def sum_of_series(a, b, sign):
    out = np.full(max(a.size, b.size), a.dtype.type(0) * b.dtype.type(0))
    for i in range(a.size):
        out[i] += a[i]
    for i in range(b.size):
        out[i] += sign * b[i]
    return trimmed(out)


@substitute(polynomial.polyadd)
def polyadd(c1, c2):
    return sum_of_series(c1, c2, 1.0)


@substitute(polynomial.polysub)
def polysub(c1, c2):
    return sum_of_series(c1, c2, -1.0)


@substitute(polynomial.polymul)
def polymul(c1, c2):
    return trimmed(spread(c1, c2))


@substitute(polynomial.polyint)
def polyint(c, m=1):
    out = np.zeros(c.size + m, dtype=c.dtype)
    for i in range(c.size):
        out[i + m] = c[i]
        for k in range(m):
            out[i + m] /= i + k + 1
    return out


@substitute(np.roots)
def roots(p):
    """Eigenvalues of the companion matrix; zero coefficients at the end are roots at 0."""
    first = 0
    last = p.size - 1
    while first < last and p[first] == 0:
        first += 1
    while last > first and p[last] == 0:
        last -= 1
    n = last - first
    out = np.zeros(p.size - 1 - first, dtype=p.dtype)
    if n > 0:
        companion = np.zeros((n, n), dtype=p.dtype)
        for i in range(n):
            companion[0, i] = -p[first + 1 + i] / p[first]
        for i in range(n - 1):
            companion[i + 1, i] = 1
        out[:n] = np.linalg.eigvals(companion)
    return out
