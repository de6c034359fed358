"""Programs of calls, tuples, named tuples, records, closures, literals, iteration."""

import math
from collections import namedtuple

import numpy as np
from corpus import normal, program
from numba import njit, vectorize

# --- calls -------------------------------------------------------------------------------------------------------


@njit
def force(r, k=1.0, n=2):
    return -k * r**n


@njit
def advance(x, v, dt, k):
    a = force(x, k=k)
    if x > 2.0:
        return x, v
    return x + dt * v, v + dt * (a + force(v, 0.3, n=3))


@program("calls", 0.6, 0.2, 1.4, argnums=(0, 1, 2))
@njit
def nested_calls(x, v, k):
    for _ in range(6):
        x, v = advance(x, v, 0.1, k)
    return x * v + force(x)


@njit
def relax(u, c):
    for i in range(1, u.shape[0] - 1):
        u[i] += c * (u[i - 1] + u[i + 1])


@njit
def energy(u):
    return (u * u).sum()


@program("calls", normal(6), 0.3, argnums=(0, 1))
@njit
def helper_that_writes(u, c):
    for _ in range(2):
        relax(u, c)
    relax(u[::2], c * c)
    return energy(u)


@njit
def gradient_step(u, rate):
    return u - rate * np.tanh(u)


@program("calls", normal(4), 0.2, argnums=(0, 1))
@njit
def helper_that_returns_arrays(u, rate):
    for _ in range(3):
        u = gradient_step(u, rate)
    return energy(u)


@njit(inline="always")
def softplus(x):
    return math.log1p(math.exp(x)) if x < 20 else x


@program("inline", normal(4), argnums=0)
@njit
def inlined_helper(x):
    s = 0.0
    for i in range(4):
        s += softplus(x[i]) * softplus(-s)
    return s


@vectorize
def kernel(x, w):
    return x * w / (1.0 + x * x) if x > 0 else math.sin(w) * x


@program("vectorize", normal(5), normal(5), 0.4, argnums=(0, 1, 2))
@njit
def vectorized_helper(x, w, c):
    return (kernel(x, w) * kernel(c, x)).sum() + kernel(c, w[0])


@njit
def quadratic(x):
    return x * x


@njit
def twice(function, x):
    return function(function(x))


@program("functions as arguments", 0.7, argnums=0)
@njit
def function_argument(x):
    return twice(quadratic, x) * x


def make_closure(scale, table):
    @njit
    def closure(x):
        s = 0.0
        for i in range(3):
            s += x[i] ** 2 * table[i] * scale
        return s

    return closure


program("closures", normal(3), argnums=0)(make_closure(2.5, (1.0, 2.0, -0.5)))

COEFFICIENTS = np.array([0.5, -1.0, 2.0])
ORDER = 3


@program("closures", 0.8, argnums=0)
@njit
def global_constants(x):
    s = 0.0
    for i in range(ORDER):
        s = s * x + COEFFICIENTS[i]
    return s


@njit
def horner(x, order, monic):
    s = 1.0 if monic else 0.5
    for i in range(order):
        s = s * x + i
    return s


@program("literal arguments", 0.8, argnums=0)
@njit
def literal_arguments(x):
    return horner(x, 4, True) * horner(x * x, 2, monic=False)


# --- tuples ------------------------------------------------------------------------------------------------------


@njit
def minmax(x):
    low, high = x[0], x[0]
    for v in x:
        low, high = min(low, v), max(high, v)
    return low, high


@program("tuples", normal(5), argnums=0)
@njit
def packed_and_unpacked(x):
    low, high = minmax(x)
    pair = (low * high, x[1:])
    a, (b, c) = pair[0], (pair[1][0], pair[1][1])
    a, b = b, a
    return a * b + c


@program("tuples", 0.3, 0.7, argnums=(0, 1))
@njit
def homogeneous_tuple(x, y):
    values = (x, y, x * y, 2.0)
    s = 0.0
    for i in range(4):
        s += values[i] * values[i - 1]
    for v in values:
        s += v * v
    return s * len(values)


@program("tuples", (0.3, 0.9), argnums=0)
@njit
def tuple_argument(p):
    return p[0] * math.exp(p[1]) * p[0]


@program("tuples", lambda r: (r.standard_normal(3), 0.8), 0.4, argnums=(0, 1))
@njit
def tuple_with_an_array(p, y):
    x, c = p
    return (x * x).sum() * y * c


Parameters = namedtuple("Parameters", ["mass", "rates"])


@program("named tuples", normal(3), 0.4, argnums=(0, 1))
@njit
def named_tuple(x, y):
    p = Parameters(y * y, x * 2.0)
    s = p.mass
    for i in range(3):
        s += p.rates[i] * p.mass * x[i]
    return s


@program("named tuples", lambda r: Parameters(0.7, r.standard_normal(3)), 0.4, argnums=(0, 1))
@njit
def named_tuple_argument(p, y):
    return p.mass**2 * y + (p.rates * p.rates).sum() * p.mass


PARTICLE = np.dtype([("x", float), ("charge", float), ("kind", np.int64)])


def particles(rng):
    out = np.zeros(4, PARTICLE)
    out["x"], out["charge"], out["kind"] = (
        rng.standard_normal(4),
        rng.uniform(1, 2, 4),
        [0, 1, 1, 0],
    )
    return out.view(np.recarray)


@program("records", particles, 0.3, argnums=1)
@njit
def record_parameters(p, y):
    s = 0.0
    for i in range(4):
        s += p[i].charge * y * y * (p[i].kind + 1) + p[i].x * y
    return s


@program("records", particles, 0.3, argnums=(0, 1))
@njit
def record_fields(p, y):
    s = 0.0
    for i in range(4):
        for j in range(i):
            s += p[i].charge * p[j].charge / (1.0 + (p[i].x - p[j].x) ** 2)
        if p[i].kind == 1:
            p[i].x = p[i].x * y
        s += p[i]["x"] ** 2
    return s * y


# --- iteration ---------------------------------------------------------------------------------------------------


@program("iteration", normal(4), normal(4), argnums=(0, 1))
@njit
def enumerate_and_zip(x, y):
    s = 0.0
    for i, v in enumerate(x):
        s += i * v * v
    for a, b in zip(x, y[::-1]):
        s += a * b
        s *= 1.0 + 0.1 * b
    for i, (a, b) in enumerate(zip(x, y)):
        x[i] = a * b + 0.1
    return s + x.sum()


@program("iteration", normal(3, 4), argnums=0)
@njit
def rows_of_a_matrix(a):
    s = 0.0
    for row in a:
        row[0] = row[1] * row[2]
        for v in row:
            s += v * v * 0.5
    return s


@program("iteration", normal(2, 3), argnums=0)
@njit
def all_indices(a):
    s = 0.0
    for i, j in np.ndindex(a.shape):
        s += a[i, j] ** 2 * (i + 2 * j)
    for index, v in np.ndenumerate(a):
        s += v * index[1]
    for v in a.flat:
        s += math.sin(v)
    return s


# --- several outputs ---------------------------------------------------------------------------------------------


@program("tuples", normal(3), 0.4, argnums=(0, 1), output="several")
@njit
def tuple_output(x, y):
    z = x * y
    return z.sum() ** 2, z * z
