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


# --- functions defined inside ------------------------------------------------------------------------------------


@program("functions inside", normal(4), 0.7, argnums=(0, 1))
@njit
def a_rate_defined_inside(x, k):
    def rate(u, scale=2.0):
        return k * u * (1.0 - u / scale)

    s = 0.0
    for i in range(x.size):
        u = x[i]
        for _ in range(5):
            middle = u + 0.05 * rate(u)
            u += 0.1 * rate(middle, scale=3.0)
        s += u * u
    return s


@program("functions inside", normal(4), 0.7, argnums=(0, 1))
@njit
def names_as_they_are_at_the_call(x, k):
    square = lambda v: v * v + k

    def total(a):
        t = 0.0
        for v in a:
            if v < 0.0:
                continue
            t += square(v)
            if t > 50.0:
                return -t
        return t

    k = k * 2.0
    return total(x) * square(k)


@program("functions inside", normal(4), 7, argnums=0)
@njit
def writes_from_inside(x, n):
    out = np.zeros(n)

    def put(i, v):
        out[i] = v * x[i % x.size]
        return 1 if v > 1.0 else 2

    count = 0
    for i in range(n):
        count += put(i, out[i - 1] + 0.5 * i)
    return out.sum() * count


@program("functions inside", normal(3), argnums=0)
@njit
def defined_in_a_loop(x):
    for i in range(3):

        def scaled(v):
            return v * (i + 1)  # noqa: B023 (as it is at the call)

        x = x + scaled(x)
    return scaled(x[0]) * x[1]


@njit
def polynomial_of(x, *coefficients):
    s = 0.0 * x
    for c in coefficients:
        s = s * x + c
    return s * len(coefficients)


@program("any number of arguments", 0.7, -0.4, 1.3, argnums=(0, 1, 2))
@njit
def any_number_of_arguments(x, a, b):
    pair = (a, b, 1.0)
    p = polynomial_of(x, a, b, 2.0)
    return p + polynomial_of(x, *pair) ** 2 + polynomial_of(x, b)


@program("any number of arguments", 0.7, -0.4, 1.3, 2.0, argnums=(0, 2))
@njit
def open_ended(x, *rest):
    s = x * rest[0]
    for r in rest[1:]:
        s = s * x + r * r
    return s * len(rest)


@program("lists", normal(3), 0.6, argnums=(0, 1))
@njit
def lists_that_stay_as_they_are(x, y):
    weights = [0.5, 1.5, y]
    order = [2, 0, 1]
    s = x[order[0]] * len(weights)
    for i, c in enumerate([x[0], x[1] * 2.0, 3.0]):
        s += c * weights[i]
    for a, b in zip([1.0, y], [x[0], x[1]]):
        s += a * b * b
    matrix = np.array([[x[0], 1.0], [y, x[1]]])
    return s * matrix[0, 0] * matrix[1, 1] - matrix[1, 0]


@program("tuples", 1.3, 3, argnums=0)
@njit
def tuples_with_none_and_text(x, n):
    state = (x, None, "first")
    for _ in range(n):
        state = (state[0] * x, state[1], state[2])
    if x > 0.0:
        state = (state[0] + x, None, "first")
    return state[0] * (2.0 if state[1] is None else 1.0)


@program("functions inside", normal(3), argnums=0)
@njit
def deleted_names(x):
    a = x * x
    b = a * a
    del a
    return b.sum()


@program("conditions", normal(3), argnums=0)
@njit
def conditions_that_assign(x):
    s = x[0]
    while (s := s * 1.5 + x[2]) < 5.0 and s > -5.0:
        s += 0.25
    if (n := x.size) > 2 and (m := x[0] * x[1]) > -100.0:
        s += m * n
    return s * x[1]


# --- several outputs ---------------------------------------------------------------------------------------------


@program("tuples", normal(3), 0.4, argnums=(0, 1), output="several")
@njit
def tuple_output(x, y):
    z = x * y
    return z.sum() ** 2, z * z
