"""CUDA kernels, each with the same computation as an @njit function, and arguments for both."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float64, njit

import nbgrad as ng

LENGTH, WIDTH = 24, 5


class Case(NamedTuple):
    """A kernel, its launch, its njit twin (which returns what the kernel writes), arguments, and what is differentiated.

    ``made`` are the arguments the kernel writes to, ``wrt`` those it reads and has cotangents for; the twin takes all
    arguments but is called with copies.
    """

    kernel: Any
    launch: tuple
    twin: Any
    args: tuple
    made: tuple[int, ...]
    wrt: tuple[int, ...]
    options: dict


@cuda.jit
def elementwise(x, w, y):
    i = cuda.grid(1)
    if i >= x.size:
        return
    if x[i] > 0:
        y[i] = math.sin(x[i]) * w[i] + math.exp(-x[i] * w[i])
    else:
        y[i] = x[i] * w[i] / (1 + x[i] * x[i])


@njit
def elementwise_twin(x, w, y):
    for i in range(x.size):
        if x[i] > 0:
            y[i] = math.sin(x[i]) * w[i] + math.exp(-x[i] * w[i])
        else:
            y[i] = x[i] * w[i] / (1 + x[i] * x[i])


@cuda.jit
def pairwise(x, w, y, scale):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if i < x.size:
        s = 0.0
        for j in range(x.size):
            d = x[i] - x[j]
            if d * d > 0.01:
                s += w[j] * math.exp(-d * d * scale) * (1 + s)
            else:
                s = s * 0.9
        y[i] = s * s


@njit
def pairwise_twin(x, w, y, scale):
    for i in range(x.size):
        s = 0.0
        for j in range(x.size):
            d = x[i] - x[j]
            if d * d > 0.01:
                s += w[j] * math.exp(-d * d * scale) * (1 + s)
            else:
                s = s * 0.9
        y[i] = s * s


@cuda.jit
def stencil(u, c, out):
    i, j = cuda.grid(2)
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        d = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]
        out[i, j] = u[i, j] + c[i, j] * d * u[i, j]


@njit
def stencil_twin(u, c, out):
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            d = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]
            out[i, j] = u[i, j] + c[i, j] * d * u[i, j]


@cuda.jit
def histogram(x, where, y):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(y, where[i], x[i] * x[where[i]])


@njit
def histogram_twin(x, where, y):
    for i in range(x.size):
        y[where[i]] += x[i] * x[where[i]]


@cuda.jit(device=True)
def softened(r, eps):
    return r / math.sqrt(r * r + eps)


@njit
def softened_twin(r, eps):
    return r / math.sqrt(r * r + eps)


@cuda.jit
def strided(x, a, y):
    t = cuda.local.array(4, np.float64)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        for k in range(4):
            t[k] = softened(x[i], 0.1 + k) * a[k]
        s = 0.0
        for k in range(4):
            s += t[k] * t[(k + 1) % 4]
        y[i] = s


@njit
def strided_twin(x, a, y):
    t = np.empty(4)
    for i in range(x.size):
        for k in range(4):
            t[k] = softened_twin(x[i], 0.1 + k) * a[k]
        s = 0.0
        for k in range(4):
            s += t[k] * t[(k + 1) % 4]
        y[i] = s


@cuda.jit
def newton(x, y):
    i = cuda.grid(1)
    if i < x.size:
        z = 1.0 + x[i] * x[i]
        while abs(z * z - x[i] * x[i] - 1.0) > 1e-13:
            z = 0.5 * (z + (x[i] * x[i] + 1.0) / z)
        y[i] = z


@njit
def newton_twin(x, y):
    for i in range(x.size):
        z = 1.0 + x[i] * x[i]
        while abs(z * z - x[i] * x[i] - 1.0) > 1e-13:
            z = 0.5 * (z + (x[i] * x[i] + 1.0) / z)
        y[i] = z


@cuda.jit
def triangular(x, y):
    i = cuda.grid(1)
    if i < x.size:
        s = 1.0
        for j in range(i):
            s = s * math.cos(x[j]) + x[i]
        y[i] = s


@njit
def triangular_twin(x, y):
    for i in range(x.size):
        s = 1.0
        for j in range(i):
            s = s * math.cos(x[j]) + x[i]
        y[i] = s


@cuda.jit
def in_place(u, k):
    i = cuda.grid(1)
    if i < u.size:
        u[i] = u[i] * math.sin(u[i])
        u[i] = u[i] * k[i] + u[i] * u[i]


@njit
def in_place_twin(u, k):
    for i in range(u.size):
        u[i] = u[i] * math.sin(u[i])
        u[i] = u[i] * k[i] + u[i] * u[i]


@cuda.jit
def matrix_row(a, x, y):
    i = cuda.grid(1)
    if i < a.shape[0]:
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = math.tanh(s)


@njit
def matrix_row_twin(a, x, y):
    for i in range(a.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = math.tanh(s)


@cuda.jit
def left_early(x, w, y, z):
    """A loop that is left early, a local array indexed by the loop, two outputs, an index from the end."""
    t = cuda.local.array(shape=(3, 2), dtype=float64)
    i = cuda.grid(1)
    if i >= x.size:
        return
    for k in range(3):
        t[k, 0] = x[i] * w[k]
        t[k, 1] = x[-1]
    s = 0.0
    for k in range(x.size):
        if s > 2.0:
            break
        if k % 2 == 0:
            continue
        s += abs(t[k % 3, 0]) * t[k % 3, 1] ** 2 + x[k]
    y[i] = s
    if s > 1.0:
        z[i] = math.log(s) * math.pi


@njit
def left_early_twin(x, w, y, z):
    t = np.empty((3, 2))
    for i in range(x.size):
        for k in range(3):
            t[k, 0] = x[i] * w[k]
            t[k, 1] = x[-1]
        s = 0.0
        for k in range(x.size):
            if s > 2.0:
                break
            if k % 2 == 0:
                continue
            s += abs(t[k % 3, 0]) * t[k % 3, 1] ** 2 + x[k]
        y[i] = s
        if s > 1.0:
            z[i] = math.log(s) * math.pi


@cuda.jit
def engine_functions(x, y):
    """Functions of the engine that Python has under another name, or under the same."""
    i = cuda.grid(1)
    if i < x.size:
        y[i] = abs(complex(x[i], 0.4)) * math.gamma(1.5 + x[i] * x[i]) + x[i] // 0.3 * x[i]


@njit
def engine_functions_twin(x, y):
    for i in range(x.size):
        y[i] = abs(complex(x[i], 0.4)) * math.gamma(1.5 + x[i] * x[i]) + x[i] // 0.3 * x[i]


@cuda.jit
def in_space(a, n, b):
    i, j, k = cuda.grid(3)
    if i < a.shape[0] and j < a.shape[1] and k < a.shape[2]:
        p = a[i, j, k]
        for _ in range(n):
            p = p * p * 0.5 + a[i, j, k]
        b[k, j, i] = p


@njit
def in_space_twin(a, n, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                p = a[i, j, k]
                for _ in range(n):
                    p = p * p * 0.5 + a[i, j, k]
                b[k, j, i] = p


def cases() -> list[Case]:
    """All kernels with arguments."""
    r = np.random.default_rng(3)
    x, w = r.standard_normal(LENGTH), r.random(LENGTH)
    y = np.zeros(LENGTH)
    u, c = r.standard_normal((7, WIDTH)), r.random((7, WIDTH))
    where = r.integers(0, LENGTH, LENGTH)
    a = r.standard_normal((LENGTH, WIDTH))
    c3 = r.random((3, 4, 2)) - 0.5
    line, plane, cube = (2, 16), ((2, 2), (4, 4)), ((2, 2, 1), (2, 2, 2))
    return [
        Case(elementwise, line, elementwise_twin, (x, w, y), (2,), (0, 1), {}),
        Case(pairwise, line, pairwise_twin, (x, w, y, 0.7), (2,), (0, 1, 3), {}),
        Case(stencil, plane, stencil_twin, (u, c, np.zeros_like(u)), (2,), (0, 1), {}),
        Case(histogram, line, histogram_twin, (x, where, y), (2,), (0,), {}),
        Case(strided, (1, 8), strided_twin, (x, w[:4].copy(), y), (2,), (0, 1), {}),
        Case(newton, line, newton_twin, (x, y), (1,), (0,), {"tape": 40}),
        Case(triangular, line, triangular_twin, (x, y), (1,), (0,), {"tape": 64}),
        Case(engine_functions, line, engine_functions_twin, (x, y), (1,), (0,), {}),
        Case(in_place, line, in_place_twin, (x, w), (0,), (1,), {}),
        Case(
            left_early,
            line,
            left_early_twin,
            (x, w[:3].copy(), y, np.zeros_like(y)),
            (2, 3),
            (0, 1),
            {},
        ),
        Case(in_space, cube, in_space_twin, (c3, 5, np.zeros((2, 4, 3))), (2,), (0,), {}),
        Case(matrix_row, line, matrix_row_twin, (a, r.standard_normal(WIDTH), y), (2,), (0, 1), {}),
    ]


def expected(case):
    """Cotangents of everything in ``made`` and ``wrt`` by the CPU's reverse mode, and the seeds."""
    r = np.random.default_rng(5)
    seeds = [r.standard_normal(case.args[k].shape) for k in case.made]
    where = sorted({*case.made, *case.wrt})
    copies = tuple(np.copy(a) if isinstance(a, np.ndarray) else a for a in case.args)
    v = ng.njit.vjp(case.twin, tuple(where))
    _, grads = v(copies, seeds[0] if len(seeds) == 1 else tuple(seeds))
    return where, seeds, grads


def shadows(case, where, seeds):
    """What goes into the launch: seeds, and zeros to add to."""
    given = dict(zip(case.made, seeds, strict=True))
    out = []
    for k in where:
        a = case.args[k]
        out.append(given[k].copy() if k in given else np.zeros(np.shape(a) or 1))
    return out
