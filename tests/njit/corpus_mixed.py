"""Small programs of the kinds people write: solvers, dynamics, statistics; several features at once."""

import math

import numpy as np
from corpus import definite, normal, positive, program
from numba import njit, prange


@program("solvers", positive(5), normal(5), argnums=(0, 1))
@njit
def thomas(c, d):
    n = d.shape[0]
    diagonal = np.full(n, 4.0)
    for i in range(1, n):
        w = c[i - 1] / diagonal[i - 1]
        diagonal[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    d[n - 1] /= diagonal[n - 1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / diagonal[i]
    return (d * d).sum()


@program("solvers", definite(3), argnums=0)
@njit
def elimination_with_pivots(a):
    n = a.shape[0]
    det = 1.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            for j in range(n):
                a[k, j], a[p, j] = a[p, j], a[k, j]
            det = -det
        det *= a[k, k]
        for i in range(k + 1, n):
            a[i, k:] -= a[k, k:] * (a[i, k] / a[k, k])
    return math.log(det)


@njit
def pendulum(t, y, g):
    out = np.empty(2)
    out[0] = y[1]
    out[1] = -g * math.sin(y[0]) + 0.1 * math.cos(t)
    return out


@program("dynamics", normal(2), 1.3, argnums=(0, 1))
@njit
def runge_kutta(y, g):
    t, h = 0.0, 0.1
    while t < 0.45:
        k1 = pendulum(t, y, g)
        k2 = pendulum(t + h / 2, y + h / 2 * k1, g)
        k3 = pendulum(t + h / 2, y + h / 2 * k2, g)
        k4 = pendulum(t + h, y + h * k3, g)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t += h
    return y[0] * y[1]


@program("dynamics", normal(4, 2), argnums=0)
@njit
def pair_energy(p):
    e = 0.0
    for i in range(p.shape[0]):
        for j in range(i + 1, p.shape[0]):
            d = p[i] - p[j]
            r2 = (d * d).sum() + 0.5
            if r2 > 9.0:
                continue
            e += 1 / r2**3 - 1 / r2
    return e


@program("dynamics", normal(4, 5), 0.1, argnums=(0, 1))
@njit
def heat_in_two_buffers(u, k):
    new = u.copy()
    for _ in range(3):
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + k * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
        new[0] = new[1] * new[1]
        u, new = new, u
    return u.sum() + new[2, 2]


@program("dynamics", normal(5), normal(5), normal(5), argnums=(0, 1, 2))
@njit
def three_time_levels(a, b, c):
    for n in range(4):
        for i in range(5):
            c[i] = 2 * b[i] - a[i] + 0.1 * (b[i - 1] - b[i]) * n
        a, b, c = b, c, a
    return (b * a).sum() + c[1]


@program("statistics", normal(4, 3), normal(3), np.array([0, 2, 1, 1]), argnums=(0, 1))
@njit
def softmax_regression(x, w, labels):
    loss = 0.0
    for i in range(x.shape[0]):
        z = x[i] * w + x[i, 0]
        top = z.max()
        loss += top + np.log(np.sum(np.exp(z - top))) - z[labels[i]]
    return loss / x.shape[0]


@program("statistics", positive(2, 2), positive(4, 2), argnums=(0, 1))
@njit
def hidden_markov_chain(transition, emission):
    alpha = emission[0].copy()
    total = 0.0
    for t in range(1, 4):
        scale = alpha.sum()
        total += math.log(scale)
        alpha = (alpha / scale) @ transition * emission[t]
    return total + math.log(alpha.sum())


@program("statistics", normal(6), argnums=0)
@njit
def sorted_by_exchange(x):
    for i in range(6):
        for j in range(5 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x[0] * x[1] + x[4] * x[5] ** 2 - x[2] / (1 + x[3] ** 2)


@program("integer locals", normal(8), argnums=0)
@njit
def binned(x):
    counts = np.zeros(3, np.int64)
    sums = np.zeros(3)
    for v in x:
        k = min(max(int(v + 1.5), 0), 2)
        counts[k] += 1
        sums[k] += v * v
    s = 0.0
    for k in range(3):
        if counts[k] > 0:
            s += sums[k] / counts[k] * sums[k]
    return s


@program("complex", normal(8), argnums=0)
@njit
def fourier_transform(x):
    n = x.shape[0]
    z = x.astype(np.complex128)
    size = 1
    while size < n:
        new = np.empty_like(z)
        half = n // 2
        for k in range(half):
            phase = np.exp(-1j * math.pi * (k // (half // size if half >= size else 1)) / size)
            new[2 * k] = z[k] + z[k + half] * phase
            new[2 * k + 1] = z[k] - z[k + half] * phase
        z = new
        size *= 2
    return (np.abs(z) ** 4).sum() * 1e-3


@program("defaults", 0.7, argnums=0)
@njit
def default_arguments(x, n=3, scale=0.5):
    for _ in range(n):
        x = x * x * scale + 1
    return x


@program("optional arguments", normal(4), None, argnums=0)
@njit
def no_mask(x, mask):
    s = 0.0
    for i in range(4):
        if mask is None or mask[i] > 0:
            s += x[i] ** 3
    return s


@program("flags", normal(5), np.array([True, False, True, True, False]), argnums=0)
@njit
def flagged(x, keep):
    done = False
    s = 1.0
    for i in range(5):
        done = done or x[i] > 1.5
        if keep[i] and not done:
            s *= 1 + x[i] * 0.3
    return s if not done else s * s


@program("carried tuples", 0.3, 0.5, argnums=(0, 1))
@njit
def carried_tuple(x, y):
    state = (x, y, 0)
    while state[2] < 5:
        a, b, n = state
        state = (b, a * b + 0.5 * x, n + 1)
    return state[0] * state[1]


@program("prange", normal(5), normal(5), argnums=(0, 1))
@njit(parallel=True)
def parallel_neighbours(x, w):
    out = np.empty_like(x)
    n = x.shape[0]
    for step in range(2):
        for i in prange(n):
            out[i] = x[i] * w[i] + x[(i + 1) % n] * 0.5
        for i in prange(n):
            x[i] = math.sin(out[i]) + step
    return (x * out).sum()


@program("empty", np.zeros(0), normal(3), argnums=(0, 1))
@njit
def empty_arrays(nothing, x):
    s = nothing.sum() + (x[3:] * 2.0).sum()
    for v in nothing:
        s += v
    for i in range(3, 1):
        s += x[i] * 100.0
    return s + x[0] * x[1]


@program("reused names", normal(4), 0.6, argnums=(0, 1))
@njit
def one_name_for_several_things(x, t):
    y = x * t
    s = y.sum()
    y = np.sin(y[1:])
    s += y.sum()
    y = y[::-1] * s
    t = t * t
    for i in range(3):
        t += y[i]
        y[i] = t
    return t * y[0]
