"""A natural cubic spline: tridiagonal solve, binary search, evaluation inside and outside, curvature energy."""

import numpy as np
from numba import njit


@njit
def thomas(a, b, c, d):
    """Solve a tridiagonal system; ``b`` and ``d`` are overwritten and ``d`` is the solution."""
    n = len(d)
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    d[n - 1] /= b[n - 1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]
    return d


@njit
def second_derivatives(x, y):
    """Second derivatives at the knots; zero at the ends."""
    h = np.diff(x)
    slope = (y[1:] - y[:-1]) / h
    m = np.zeros_like(y)
    a = h[:-1].copy()
    c = h[1:].copy()
    b = 2.0 * (h[:-1] + h[1:])
    d = 6.0 * (slope[1:] - slope[:-1])
    m[1:-1] = thomas(a, b, c, d)
    return m


@njit
def locate(x, v):
    """The interval in which v lies, by bisection."""
    lo, hi = 0, x.size - 1
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if x[mid] > v:
            hi = mid
        else:
            lo = mid
    return lo


@njit
def evaluate(x, y, m, v):
    """The spline at one place; straight lines go on outside."""
    k = locate(x, v)
    h = x[k + 1] - x[k]
    if v < x[0]:
        return y[0] + (v - x[0]) * ((y[1] - y[0]) / h - h * m[1] / 6.0)
    elif v > x[-1]:
        return y[-1] + (v - x[-1]) * ((y[-1] - y[-2]) / h + h * m[-2] / 6.0)
    s = (v - x[k]) / h
    t = 1.0 - s
    bend = (t**3 - t) * m[k] + (s**3 - s) * m[k + 1]
    return t * y[k] + s * y[k + 1] + bend * h**2 / 6.0


@njit
def interpolate(x, y, where):
    """The spline at many places."""
    m = second_derivatives(x, y)
    out = np.empty(where.size)
    for i in range(where.size):
        out[i] = evaluate(x, y, m, where[i])
    return out


@njit
def smoothing_objective(x, y, at, data, weight):
    """Squared error at data plus the curvature energy of the spline through the knots."""
    m = second_derivatives(x, y)
    err = 0.0
    for v, d in zip(at, data):
        err += (evaluate(x, y, m, v) - d) ** 2
    energy = 0.0
    for k, h in enumerate(np.diff(x)):
        energy += h * (m[k] ** 2 + m[k] * m[k + 1] + m[k + 1] ** 2) / 3.0
    return err / at.size + weight * energy
