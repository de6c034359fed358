"""Programs of numbers, loops and branches."""

import cmath
import math

import numpy as np
from corpus import complex_normal, normal, positive, program
from numba import njit, prange

# --- numbers -----------------------------------------------------------------------------------------------------


@program("scalars", 0.7, -1.3, argnums=(0, 1))
@njit
def polynomial(x, y):
    return x**3 * y - 2.0 * x * y**2 + x / y - 3


@program("math functions", 0.6, argnums=0)
@njit
def every_math_function(x):
    s = math.sin(x) + math.cos(x) * math.tan(x) + math.asin(x) * math.acos(x) + math.atan(x)
    s += math.sinh(x) * math.cosh(x) - math.tanh(x) + math.asinh(x) + math.atanh(x)
    s += math.exp(x) * math.log(x) + math.expm1(x) + math.log1p(x) + math.log10(x) + math.log2(x)
    s += math.sqrt(x) + math.pow(x, 1.5) + math.fabs(x) + math.erf(x) * math.erfc(x)
    return s + math.acosh(1.0 + x) + math.hypot(x, 2.0 * x) * math.atan2(x, 1.0 - x)


@program("math functions", 2.6, argnums=0, curved=False)
@njit
def gamma_functions(x):
    return math.lgamma(x) * math.gamma(x)


@program("scalars", np.float32(0.7), normal(3, dtype=np.float32), argnums=(0, 1), rtol=2e-4)
@njit
def single_precision(a, x):
    s = np.float32(0.0)
    for i in range(x.shape[0]):
        s += a * x[i] * x[i]
    return s * a


@program("scalars", 0.7, np.float32(0.3), argnums=(0, 1), rtol=1e-5)
@njit
def mixed_precision(x, y):
    return x * y + np.float64(y) * x * x


@program("scalars", 5, 0.8, True, argnums=1)
@njit
def integers_and_flags(n, x, flag):
    half = n // 2
    scale = n % 3 - 1 + (n << 1) - (n & 6) + flag
    if flag and not (n > 7):
        return x**half * scale / n
    return x


@program("integer locals", 1.73, argnums=0)
@njit
def rounding(x):
    k = int(3 * x)
    r = x - math.floor(x)
    return k * x + r * r + (x % 0.4) * x + x * round(x) + x * math.ceil(x) + (x // 0.3) * x


@program("complex", complex(0.4, -0.7), complex(1.1, 0.2), argnums=(0, 1))
@njit
def complex_numbers(z, w):
    q = (z * w + 1j) / (w - 2.0) + z.conjugate() * z**2
    return q.real * abs(w) + q.imag * z.imag + abs(q)


@program("complex", complex(0.4, -0.7), 0.3, argnums=(0, 1))
@njit
def complex_functions(z, x):
    w = cmath.exp(z * x) + cmath.sin(z) / cmath.sqrt(z + 2.0) + np.log(z + x)
    u = complex(x, 2.0 * x) * w
    return u.real * cmath.phase(w) + np.cos(u).imag


@program("complex", complex_normal(4), normal(4), argnums=(0, 1))
@njit
def complex_arrays(z, x):
    w = np.zeros(4, np.complex128)
    for i in range(4):
        w[i] = z[i] * x[3 - i]
    w[1:] += np.conj(z[:-1]) * 0.5
    w *= 1j * x
    return (w * np.exp(z)).sum().real + np.abs(w).sum() + np.real(w[0]) * np.imag(w[1])


# --- branches ----------------------------------------------------------------------------------------------------


@program("if/elif/else", normal(6), argnums=0)
@njit
def branches(x):
    s = 0.0
    for v in x:
        if v > 1.0:
            s += v * v
        elif v > 0.0:
            t = v**3
            s += t
        elif v > -0.5:
            s -= math.sin(v)
        else:
            s *= 1.0 + 0.1 * v
    return s


@program("conditional expressions", normal(5), 0.4, argnums=(0, 1))
@njit
def conditional_expressions(x, y):
    s = y if x[0] > 0 else y * y
    for i in range(5):
        s += (x[i] if i % 2 == 0 else x[i] * s) if x[i] < s else math.exp(-y)
    return s


@program("short-circuit logic", normal(6), 0.5, argnums=(0, 1))
@njit
def short_circuits(x, y):
    s, i = 0.0, 0
    while i < x.shape[0] and s < 3.0:
        if (x[i] > 0 and y > x[i]) or not (i % 2 == 0 or x[i] * y < 0.1):
            s += x[i] * x[i] * y
        i += 1
    return s * y


@program("early returns", normal(6), 0.9, argnums=(0, 1))
@njit
def event_time(x, c):
    s = 0.0
    for i in range(x.shape[0]):
        if s + abs(x[i]) > c:
            return i + (c - s) / abs(x[i])
        s += abs(x[i])
    return -1.0


@program("early returns", 0.4, 1.2, argnums=(0, 1))
@njit
def guard_clauses(x, y):
    if x > y:
        return x
    y *= x
    if y > 10.0:
        return 10.0
    if x * y < 0.5:
        return math.sin(x * y) + x
    return y


@program("early returns", normal(5), 1.7, argnums=(0, 1))
@njit
def return_from_two_loops(x, c):
    for _ in range(9):
        if c > 0.5:
            for v in x:
                if v * c > 0.3:
                    return v * c * c
        c = c * 0.8
    return c


@program("assert", positive(3), argnums=0)
@njit
def asserts(x):
    s = 0.0
    for v in x:
        assert v > 0, "positive entries only"
        s += math.sqrt(v)
    return s


# --- loops -------------------------------------------------------------------------------------------------------


@program("while", 2.7, argnums=0)
@njit
def newton_root(a):
    x = a
    while abs(x * x - a) > 1e-13 * a:
        x = 0.5 * (x + a / x)
    return x


@program("while", normal(5), argnums=0)
@njit
def while_true(x):
    s, i = 1.0, 0
    while True:
        s = s * 0.5 + math.cos(x[i])
        i += 1
        if i == 5:
            break
        if s < 0.2:
            continue
        s += x[i] * 0.1
    return s


@program("break/continue", normal(8), 0.3, argnums=(0, 1))
@njit
def breaks_and_continues(x, y):
    s = 0.0
    for i in range(8):
        if x[i] > 1.2:
            break
        for j in range(i, 8):
            if (i + j) % 3 == 0:
                continue
            if j > 5:
                break
            s += x[i] * x[j] * y
        y = y * 1.1 + s * 0.01
    return s + y


@program("break/continue", normal(5), argnums=0)
@njit
def loop_else(x):
    s = 0.0
    for i in range(5):
        if x[i] > 100.0:
            break
        s += x[i] ** 3
    else:
        s *= x[0]
    return s


@program("break/continue", 1.3, 0.6, argnums=(0, 1))
@njit
def jumps_in_the_else_of_a_loop(x, y):
    """They belong to the loop around."""
    for i in range(1, 5):
        for _ in range(2):
            x = x * 1.2
        else:
            if i == 2:
                continue
            x = x * x * y
            if i == 3:
                break
        y += x
    while x > 0.1:
        x *= 0.5
        while y > 20.0:
            y *= x
            break
        else:
            x *= y
            break
    return x * y


@program("for over range", normal(7), 2, argnums=0)
@njit
def strange_ranges(x, step):
    s = 0.0
    for i in range(6, -1, -1):
        s = s * 0.7 + x[i]
    for i in range(0, 7, step):
        s += x[i] * x[i]
    for i in range(5, 0, -step):
        s *= 1 + 0.1 * x[i]
    for i in range(3, 3):
        s += 100.0 * x[i]
    return s


@program("for over range", normal(4), argnums=0)
@njit
def index_after_the_loop(x):
    i = 0
    for i in range(1, 4):
        if x[i] < -3.0:
            break
    return x[i] * x[i - 1]


@program("triangles", normal(4, 4), argnums=0)
@njit
def triangle(a):
    s = 0.0
    for i in range(4):
        for j in range(i):
            for k in range(j, i):
                s += a[i, j] * a[j, k] - a[k, i]
    return s


@program("accumulators", normal(5), argnums=0)
@njit
def moments(x):
    mean = 0.0
    second = 0.0
    biggest = x[0]
    for i in range(5):
        delta = x[i] - mean
        mean += delta / (i + 1)
        second += delta * (x[i] - mean)
        biggest = max(biggest, x[i])
    return second / 4 + mean * biggest + min(x[0], x[1], x[2])


@program("accumulators", 0.3, 0.9, argnums=(0, 1))
@njit
def carried_pair(x, v):
    for _ in range(20):
        a = -x + 0.1 * v * (1 - x * x)
        x, v = x + 0.05 * v, v + 0.05 * a
    return x * v


@program("prange", normal(9), 0.4, argnums=(0, 1))
@njit(parallel=True)
def parallel_sum(x, c):
    s = 0.0
    for i in prange(x.shape[0]):
        t = x[i] * c
        s += math.sin(t) * t
    return s


@program("prange", normal(6, 3), argnums=0)
@njit(parallel=True)
def parallel_rows(a):
    out = np.zeros(6)
    for i in prange(6):
        for j in range(3):
            out[i] += a[i, j] * a[(i + 1) % 6, j]
    return (out * out).sum()


@program("overwrites", normal(4), 0.8, argnums=(0, 1))
@njit
def overwritten(x, y):
    t = y
    s = 0.0
    for i in range(4):
        t = t * x[i]
        s += t
        t = math.tanh(t + y)
        y = 0.5 * y
    t = s
    return t * t
