"""Programs with prange, and arguments for them."""

import math

import numpy as np
from numba import njit, prange

N = 3000


def rng():
    """A seeded generator."""
    return np.random.default_rng(7)


@njit(parallel=True)
def elementwise(x, w):
    y = np.empty_like(x)
    for i in prange(x.shape[0]):
        y[i] = np.sin(x[i]) * w + x[i] ** 3
    return y.sum()


@njit(parallel=True)
def summed(x, w):
    s = 1.0
    for i in prange(x.shape[0]):
        if x[i] > 0.3:
            s += np.exp(x[i] * w)
        else:
            s -= x[i] * x[i]
    return s * s


@njit(parallel=True)
def stencil(x, w):
    y = np.zeros_like(x)
    for i in prange(2, x.shape[0] - 2):
        y[i] = w * (x[i - 2] - 4 * x[i] * x[i + 1] + x[i + 2]) ** 2
    return (y * y).sum()


@njit(parallel=True)
def window(x, w):
    y = np.zeros_like(x)
    for i in prange(8, x.shape[0] - 8):
        s = 0.0
        for k in range(-8, 9):
            s += x[i + k] * math.exp(-w * k * k)
        y[i] = s * s
    return y.sum()


@njit(parallel=True)
def shifted(x, first, last):
    y = np.zeros_like(x)
    for i in prange(first, last):
        y[i] = x[i - 1] * x[i - 1]
    return (y * y).sum()


@njit(parallel=True)
def every_other(x, w):
    y = np.zeros(x.shape[0] // 2)
    for i in prange(x.shape[0] // 2):
        y[i] = x[2 * i] * x[2 * i + 1] * w
    return (y * y).sum()


@njit(parallel=True)
def scattered(x, where, w):
    y = np.zeros_like(x)
    for i in prange(where.shape[0]):
        y[i] = np.exp(x[where[i]]) * w
    return (y * y).sum()


@njit(parallel=True)
def sparse(x, where, w):
    """Few iterations, each long, into a large array: additions are atomic."""
    s = 0.0
    for i in prange(where.shape[0]):
        z = x[where[i]]
        for _ in range(30):
            z = np.sin(z * w)
        s += z
    return s


@njit(parallel=True)
def parameters(x, p):
    s = 0.0
    for i in prange(x.shape[0]):
        s += np.tanh(p[0] * x[i] + p[1]) * p[2]
    return s


@njit(parallel=True)
def rows(a, v):
    y = np.empty(a.shape[0])
    for i in prange(a.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j] * v[j] * s + v[j]
        y[i] = np.tanh(s)
    return y.sum()


@njit(parallel=True)
def plane(u, w):
    out = np.zeros_like(u)
    for i in prange(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            out[i, j] = u[i, j] * (
                u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - w * u[i, j]
            )
    return (out * out).sum()


@njit(parallel=True)
def neighbours(x, start, other, w):
    y = np.zeros(start.shape[0] - 1)
    for i in prange(start.shape[0] - 1):
        s = 0.1
        for k in range(start[i], start[i + 1]):
            d = x[other[k]] - x[i]
            s = s * np.cos(d) + np.exp(-d * d * w)
        y[i] = s
    return (y * y).sum()


@njit(parallel=True)
def roots(x, w):
    y = np.empty(x.shape[0])
    for i in prange(x.shape[0]):
        z = 1.0 + abs(x[i])
        while abs(z * z - x[i] * x[i] - w) > 1e-12 * w:
            z = 0.5 * (z + (x[i] * x[i] + w) / z)
        y[i] = z
    return (y * y * y).sum()


@njit(parallel=True)
def steps(u, w, count):
    for _ in range(count):
        v = np.empty_like(u)
        for i in prange(u.shape[0]):
            v[i] = u[i] + w * np.sin(u[i - 1] - 2 * u[i])
        u = v
    return (u * u).sum()


@njit(parallel=True)
def in_place(x, w):
    u = x.copy()
    for i in prange(u.shape[0]):
        u[i] = np.sin(u[i]) * w
        u[i] = u[i] * u[i] + x[i]
    return (u * x).sum()


@njit(parallel=True)
def largest(x, w):
    m = -1e30
    for i in prange(x.shape[0]):
        m = max(m, x[i] * w)
    return m * m


@njit(parallel=True)
def multiplied(x, w):
    p = 1.0
    for i in prange(x.shape[0]):
        p *= 1.0 + x[i] * w / x.shape[0]
    return p


@njit(parallel=True)
def nested(a, w):
    y = np.zeros_like(a)
    for i in prange(a.shape[0]):
        for j in prange(a.shape[1]):
            y[i, j] = np.exp(a[i, j] * w) * a[i, 0]
    return y.sum()


@njit(parallel=True)
def accumulated(x, w):
    """A sum over arrays, which Numba reduces thread by thread."""
    t = np.zeros(5)
    for i in prange(x.shape[0]):
        t += x[i] * w * np.arange(5)
    return (t * t).sum()


@njit(parallel=True)
def row_expressions(a, v):
    """The sizes are compared once, before the loop."""
    out = np.zeros_like(a)
    for i in prange(a.shape[0]):
        out[i] = np.exp(a[i] * v) + a[0]
    return (out * out).sum()


@njit(parallel=True)
def counted(x, w):
    c = 0
    s = 0.0
    for i in prange(x.shape[0]):
        if x[i] > 0:
            c += 1
            s += x[i] * w
    return s * s / (c + 1)


def matrices(a, v):
    """A product with BLAS in each iteration."""
    s = 0.0
    for i in prange(a.shape[0]):
        r = np.dot(a[i], v)
        s += np.dot(r, r)
    return s


matrices = njit(parallel=True)(matrices)


def cases():
    r = rng()
    x = r.standard_normal(N)
    where = r.integers(0, N, N)
    counts = r.integers(0, 6, N)
    start = np.concatenate([[0], np.cumsum(counts)])
    a = r.standard_normal((60, 17)) / 4
    return {
        elementwise: ((x, 0.7), (0, 1)),
        summed: ((x, 0.7), (0, 1)),
        stencil: ((x, 0.7), (0, 1)),
        window: ((x, 0.01), (0, 1)),
        shifted: ((x, 5, N - 5), (0,)),
        every_other: ((x, 0.7), (0, 1)),
        scattered: ((x, where, 0.7), (0, 2)),
        sparse: ((r.standard_normal(200_000), where[:400] * 60, 1.3), (0, 2)),
        parameters: ((x, np.array([0.3, -0.2, 1.4])), (0, 1)),
        rows: ((a, a[0].copy()), (0, 1)),
        plane: ((a, 3.5), (0, 1)),
        neighbours: ((x, start, r.integers(0, N, start[-1]), 0.4), (0, 3)),
        roots: ((x, 2.0), (0, 1)),
        steps: ((x, 0.1, 6), (0, 1)),
        in_place: ((x, 0.8), (0, 1)),
        largest: ((x, 0.8), (0, 1)),
        multiplied: ((x, 0.8), (0, 1)),
        nested: ((a, 0.8), (0, 1)),
        accumulated: ((x, 0.8), (0, 1)),
        row_expressions: ((a, a[0].copy()), (0, 1)),
        counted: ((x, 0.8), (0, 1)),
        matrices: ((r.standard_normal((40, 6, 5)), r.standard_normal(5)), (0, 1)),
    }
