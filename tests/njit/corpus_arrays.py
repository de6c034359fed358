"""Programs of arrays: layouts, writes, views, allocation, array expressions, reductions, linear algebra, indexing."""

import math

import numpy as np
from corpus import definite, normal, positive, program, strided
from numba import njit

# --- layouts and writes ------------------------------------------------------------------------------------------


@program("layouts", normal(3, 4, order="F"), strided(3, 4), normal(3, 4), argnums=(0, 1, 2))
@njit
def layouts(a, b, c):
    s = 0.0
    for i in range(3):
        for j in range(4):
            s += a[i, j] * b[i, j] * c[i, j] + math.sin(a[i, j])
    return s


@program("layouts", normal(2, 3, 2), normal(2, 2, 1, 2), argnums=(0, 1))
@njit
def many_axes(a, b):
    s = 0.0
    for i in range(2):
        for j in range(3):
            for k in range(2):
                s += a[i, j, k] ** 2 * b[k, i, 0, 1 - k]
    return s


@program("in-place writes", normal(6), 0.2, argnums=(0, 1))
@njit
def smoother(u, c):
    for _ in range(3):
        for i in range(1, 5):
            u[i] = u[i] + c * (u[i - 1] - 2.0 * u[i] + u[i + 1]) * u[i]
    return u[2] * u[3] + u[0]


@program("augmented assignment", normal(5), normal(5), argnums=(0, 1))
@njit
def augmented(x, y):
    x[0] += y[1] * x[1]
    x[1] *= x[0]
    x[2] -= x[1] * x[2]
    x[3] /= 2.0 + x[2] ** 2
    x[-1] **= 2
    x *= y
    x += 0.5 * x
    return x.sum()


@program("overwrites", normal(4), argnums=0)
@njit
def array_overwritten(x):
    s = x[0] * x[1]
    x[0] = 3.0
    x[1] = x[0] * x[2]
    s += x[0] * x[1] * x[3]
    x[:] = s
    x[2] = x[3] * s
    return x.sum()


@program("in-place writes", normal(4), normal(3), argnums=(0, 1))
@njit
def scattered(x, y):
    for i in range(4):
        for j in range(3):
            x[(i + j) % 4] += y[j] * x[i]
    return x[0] * x[3]


# --- slices and views --------------------------------------------------------------------------------------------


@program("slices", normal(8), argnums=0)
@njit
def slices(x):
    a = x[1:5]
    b = x[::-2]
    c = x[-3:]
    a[0] = b[1] * b[2]
    c[:] = c * c
    x[2:4] += a[2:]
    return (a * b).sum() + c[0] * x[-1]


@program("views", normal(4, 5), argnums=0)
@njit
def rows_and_columns(a):
    for i in range(1, 4):
        row = a[i]
        row[1:] = row[1:] * 0.5 + a[i - 1, :-1] * row[0]
    col = a[:, 2]
    col *= 2.0
    return (a[::-1, 1] * a[:, 2]).sum() + a[-1].sum()


@program("views", normal(3, 4), argnums=0)
@njit
def transposed_and_reshaped(a):
    t = a.T
    t[1, 2] = t[0, 0] * t[3, 1]
    r = a.reshape(4, 3)
    r[0] = r[1] * r[2]
    flat = a.ravel()
    flat[5] *= flat[7]
    return (r * a.T).sum() + a.flatten()[2] * np.transpose(a)[3, 2]


@program("views", normal(2, 3, 4), argnums=0)
@njit
def view_of_a_view(a):
    b = a[1]
    c = b[:, 1:3]
    d = c[::-1].T
    d[0, 0] = d[1, 2] * 2.0
    d += a[0, :2, :3]
    return (a * a).sum()


# --- allocation --------------------------------------------------------------------------------------------------


@program("allocation", normal(4), 0.3, argnums=(0, 1))
@njit
def allocation(x, y):
    a = np.empty(4)
    b = np.zeros((2, 2))
    c = np.ones_like(x) * y
    d = np.full(4, y * y)
    e = np.zeros_like(x)
    g = np.arange(4) * y + np.linspace(0.0, 1.0, 4)
    h = x.copy()
    f = np.empty_like(x)
    for i in range(4):
        a[i] = x[i] * i
        b[i // 2, i % 2] = x[i] ** 2
        f[i] = a[i] * y
    e[1:] = h[:-1]
    h[0] = 7.0
    return (a * c + d * e - g * h + f).sum() + b[1, 0] * np.full_like(x, 2.0)[1]


@program("arrays in loops", normal(4), argnums=0)
@njit
def allocated_in_the_loop(x):
    s = 0.0
    for i in range(3):
        t = np.zeros(4)
        for j in range(4):
            t[j] = x[j] * (i + 1) + s
        t[i] *= t[3]
        s += t.sum() * 0.1
    return s


@program("carried arrays", normal(5), 0.1, argnums=(0, 1))
@njit
def functional_steps(u, dt):
    for _ in range(4):
        u = u + dt * (np.roll(u, 1) - u * u)
    return u @ u


@program("buffer swaps", normal(6), 0.2, argnums=(0, 1))
@njit
def swapped_buffers(u, c):
    a = u.copy()
    b = np.zeros_like(a)
    for _ in range(5):
        for i in range(6):
            b[i] = a[i] + c * (a[i - 1] - a[i]) * a[i]
        a, b = b, a
    return (a * a).sum() + b[0]


@program("chosen arrays", normal(4), normal(4), 3, argnums=(0, 1))
@njit
def array_chosen_by_a_branch(x, y, n):
    for i in range(n):
        if x[i] > y[i]:
            z = x
        else:
            z = y
        z[i] = z[i] * z[3] + x[0]
        w = x if i % 2 == 0 else y[::-1]
        w[1] += 0.5 * z[2]
    return x.sum() * y.sum()


@program("chosen arrays", normal(4), normal(4), 2.0, argnums=(1, 2))
@njit
def array_or_its_copy(x, y, c):
    if c < x[0]:
        w = y
    else:
        w = c * y
    s = 0.0
    for i in range(1, 4):
        s = x[i] - w[i] * c
    return s * w[0]


@program("chosen arrays", normal(6), normal(6), 3, argnums=1)
@njit
def swapped_in_nested_branches(x, y, n):
    if n == 0:
        pass
    elif n < 2:
        x = y
    else:
        x, y = y, x
    s = 0.0
    for i in range(6):
        s += x[i] * x[i] * 0.3 + y[i] * 0.5
    return s


# --- array expressions -------------------------------------------------------------------------------------------


@program("array expressions", normal(3, 4), normal(4), normal(3, 1), 0.7, argnums=(0, 1, 2, 3))
@njit
def broadcasting(a, b, c, d):
    e = a * b + c - d
    e[1] = b * d
    e[:, 1:] += c * b[1:]
    return (e / (1.0 + b * b)).sum() + (-e * 2.0 - a).max()


@program("array expressions", positive(5), argnums=0)
@njit
def numpy_functions(x):
    a = np.sin(x) + np.cos(x) * np.tan(x) + np.exp(-x) * np.log(x) + np.sqrt(x) + np.tanh(x)
    b = np.arctan(x) + np.arcsinh(x) + np.sinh(x) * np.cosh(x) + np.log1p(x) + np.expm1(x)
    c = np.square(x) + np.reciprocal(x) + np.abs(x) + np.power(x, 2.5) + x**-2 + np.log2(x)
    d = np.arctan2(x, a) + np.hypot(x, b) + np.maximum(x, 1.0) * np.minimum(a, b)
    return (a * b - c * d).sum() + np.arcsin(x[0] / 4) * np.arccos(x[1] / 4)


@program("array expressions", normal(6), argnums=0)
@njit
def masks(x):
    y = np.where(x > 0, x * x, np.exp(x))
    z = (x > 0.5) * x + np.sign(x) * y
    return y.sum() + np.clip(z, -0.8, 0.9).sum() * x[0]


@program("reductions", positive(3, 4), argnums=0)
@njit
def reductions(a):
    s = np.sum(a) + a.mean() * np.prod(a) + a.max() * a.min() + np.std(a) + a.var()
    s += (
        (np.sum(a, axis=0) * a[0]).sum()
        + (a.sum(axis=1) ** 2).sum()
        + np.max(a) * np.cumsum(a[0])[2]
    )
    return s + a[np.argmax(a[:, 0]), 1] * a.size


# --- linear algebra ----------------------------------------------------------------------------------------------


@program("matrix products", normal(3, 4), normal(4, 2), normal(3), normal(4), argnums=(0, 1, 2, 3))
@njit
def products(a, b, u, v):
    c = a @ b
    d = np.dot(a, v)
    return (c * c).sum() + u @ d + np.dot(u, a)[1] * np.dot(v, v) + np.outer(u, v)[1, 2]


@program("matrix products", normal(3, 3), normal(3), argnums=(0, 1))
@njit
def power_iteration(a, x):
    for _ in range(3):
        x = a @ x + a.T @ x
        x = x / np.sqrt(x @ x)
    return x[0]


@program("linear algebra", definite(3), normal(3), argnums=(0, 1))
@njit
def solve_inv_det(a, b):
    x = np.linalg.solve(a, b)
    return x @ x + np.linalg.inv(a)[0, 1] * 3.0 + 0.01 * np.linalg.det(a) + np.linalg.norm(x)


@program("linear algebra", normal(3, 3), normal(3), argnums=(0, 1))
@njit
def gaussian_log_density(m, x):
    low = np.linalg.cholesky(m @ m.T + 3.0 * np.eye(3))
    y = np.linalg.solve(low, x)
    s = 0.0
    for i in range(3):
        s += np.log(low[i, i])
    return -0.5 * y @ y - s


# --- fancy and boolean indexing ----------------------------------------------------------------------------------


@program("indexing", normal(6), np.array([2, 0, 2, 5]), argnums=0)
@njit
def gathered(x, index):
    y = x[index]
    y[0] = y[3] * y[1]
    return (y * y).sum() + x[index[1] + 1]


@program("indexing", normal(6), normal(3), np.array([4, 0, 1]), argnums=(0, 1))
@njit
def scattered_by_index(x, y, index):
    x[index] = x[index] * y
    return (x * x).sum()


@program("indexing", normal(7), 0.4, argnums=(0, 1))
@njit
def boolean_index(x, y):
    keep = x > -0.5
    z = x[keep]
    x[x > 0.7] = y
    return (z * z).sum() * y + x.sum() * z[0]


@program("indexing", normal(3, 3), (1, 2), argnums=0)
@njit
def index_by_a_tuple(a, ij):
    a[ij] = a[0, 0] * a[ij]
    return a[ij] ** 2 + a[ij[1], ij[0]]


ROWS, COLUMNS = np.array([0, 2]), np.array([1, 3])
SEVERAL, SOME = np.array([[0, 1], [2, -1]]), np.array([True, False, True])


@program("index arrays", normal(3, 4), normal(2), argnums=(0, 1))
@njit
def pairs_of_index_arrays(a, v):
    a[ROWS, COLUMNS] = v * v
    a[ROWS, COLUMNS] += v
    a[:, COLUMNS] *= v
    a[1:, COLUMNS] -= 0.5
    a[0, COLUMNS] = a[0, ROWS]
    b = a[::-1][ROWS, COLUMNS]
    return (a**3).sum() + (b * b).sum() + a[:, COLUMNS][1].sum()


@program("index arrays", normal(3, 4), normal(2), argnums=(0, 1))
@njit
def rows_by_index(a, v):
    a[ROWS] = a[:2]
    a[ROWS, :] -= 0.5 * a[0]
    a[SOME] *= 1.5
    a[SOME, 1] = v[0]
    a[SOME] = a[1:] * v[1]
    a[ROWS, 0] = (v[1], 2.0)
    return (a**3).sum() + (a[None, ROWS] ** 2).sum() + (a[SEVERAL, 1] ** 3).sum()


@program("index arrays", normal(4), normal(2), argnums=(0, 1))
@njit
def an_index_array_of_two_dimensions(x, v):
    x[SEVERAL] += v
    x[x > 0.5] *= v[1]
    x[SEVERAL] = np.sin(x[SEVERAL]) * v[0]
    return (x * x).sum()


@program("index arrays", normal(3, 3, 4), normal(2), argnums=(0, 1))
@njit
def index_arrays_apart(t, v):
    t[0, :, COLUMNS] = v[0] * v[1]
    t[:, ROWS, COLUMNS] += v
    t[ROWS, :, 1] *= 2.0
    first = t[0, :, COLUMNS]
    return (t**3).sum() + (first[1] ** 2).sum() + (t[ROWS, :, COLUMNS][0] ** 2).sum()


@program("index arrays", normal(3, 4), 0.4, argnums=(0, 1))
@njit
def elements_by_flat_position(a, y):
    b = np.asfortranarray(a)
    b.flat[5] = y * b[0, 1]
    b.flat[-2] += y
    return (b**3).sum() + b[1, 1] * y


# --- outputs other than one number -------------------------------------------------------------------------------


@program("writes without a return", normal(5), normal(5), argnums=(0, 1), output="written")
@njit
def written_output(out, x):
    for i in range(1, 5):
        out[i] = out[i - 1] * x[i] + x[i - 1] ** 2


@program("array outputs", normal(4), 0.6, argnums=(0, 1), output="several")
@njit
def array_output(x, y):
    z = np.empty(4)
    for i in range(4):
        z[i] = x[i] * y + x[i - 1] ** 2
    return z


@program("views", normal(3, 4), 0.3, argnums=(0, 1))
@njit
def extreme_in_a_branch(a, x):
    """What the branch keeps for its reverse is a view whose size is read there."""
    y = x
    if x < 0.5:
        a[::1] *= a
        y = np.min(a) * x
    return y * y + a[0, 1]
