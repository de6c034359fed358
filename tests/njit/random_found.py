"""Random programs whose derivatives were wrong once, reduced, with the seed of their arguments."""

SERIAL = {
    "an array that a time loop in stretches swaps, used under the name it had before": (
        0,
        """
import math
from numba import njit

@njit
def f(a, b, m, c, h, t, g, x, y, z, n):
    p = a
    for _ in range(5):
        for i in range(6):
            b[i] = math.sin(a[i] * b[i])
        a, b = b, a
    return (p * p).sum()
""",
    ),
    "the stretches of a loop that runs down": (
        0,
        """
import math
from numba import njit

@njit
def f(a, b, m, c, h, t, g, x, y, z, n):
    for k in range(5):
        for i in range(1, 6):
            a[i] = math.sin(a[i] * a[i - 1] + k * x)
    return (a * a).sum()
""",
    ),
    "sizes of arrays carried by two loops, one inside the other": (
        107273,
        """
import math
import numpy as np
from numba import njit

@njit
def f(a, b, m, c, h, t, g, x, y, z, n):
    u1 = c.copy().reshape(2, -1)
    k3 = 5
    for i4 in range(4):
        if k3 % 2 == 1 and z.real > 0.97:
            a
        elif b[(k3 * 2 - 1) % 6] < z.imag:
            if y > 0.14:
                w6 = a
            else:
                w6 = 1.0 * (h[(n * 3 - 1) % 4] - x) * b
            for i7 in range(n % 4):
                v8 = y = math.tanh(0.99 * k3 * 0.1 * u1[(k3 * 1 - 1) % 2, i7 % 6] * 0.5 * 0.5) * 1.3
                a, w6 = (w6, a)
        else:
            pass
    s = x
    for q in range(6):
        s += a[q]
    return s
""",
    ),
}

PARALLEL = {
    "a maximum that is kept under two conditions": (
        10438,
        """
from numba import njit, prange

@njit(parallel=True)
def f(a, b, m, c, k, x, y, n):
    s = 0.0
    for i in prange(n):
        s = max(s, 0.013 * i)
        if i < 1:
            s = max(s, 2.0 + c[i] * c[i])
    return s
""",
    ),
    "in the reverse of a reverse, a loop pops from one stack what it pushes to another": (
        44,
        """
import math
from numba import njit, prange

@njit(parallel=True)
def f(a, b, m, c, k, x, y, n):
    for i in prange(n):
        row = m[i]
        j = 0
        while j < 4:
            j += 1
            row[j % 3] = math.tanh(math.atan(a[10]))
    s = 0.0
    for q in range(n):
        s += m[q, 1] * b[q]
    return s
""",
    ),
    "an array chosen in an iteration, read at an index that may count from the end": (
        2,
        """
from numba import njit, prange

@njit(parallel=True)
def f(a, b, m, c, k, x, y, n):
    for i in prange(n):
        w = a if x > 0.5 else b
        m[i, 0] += w[i - 1] * w[i - 1]
    return m.sum()
""",
    ),
}
