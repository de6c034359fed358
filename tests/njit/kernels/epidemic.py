"""An SEIR epidemic by an adaptive embedded Runge-Kutta method, and its fit to counted cases."""

import numpy as np
from numba import njit


@njit
def rates(t, y, p, begin, dy):
    """The right-hand side; the contact rate drops when measures begin."""
    s, e, i, _ = y
    beta = p[0]
    if t > begin:
        beta *= 1.0 - p[3]
    infection = beta * s * i
    dy[0] = -infection
    dy[1] = infection - p[1] * e
    dy[2] = p[1] * e - p[2] * i
    dy[3] = p[2] * i


@njit
def error_norm(err, y, rtol, atol):
    """The root mean square of the scaled error."""
    s = 0.0
    for k in range(err.size):
        s += (err[k] / (atol + rtol * abs(y[k]))) ** 2
    return np.sqrt(s / err.size)


@njit
def bs23(y, t0, t1, p, begin, rtol, atol):
    """Bogacki-Shampine from t0 to t1; changes y in place and returns the number of accepted steps."""
    n = y.size
    k = np.empty((4, n))
    t, h = t0, 0.2 * (t1 - t0)
    accepted = 0
    rates(t, y, p, begin, k[0])
    while t < t1:
        last = t + h >= t1
        if last:
            h = t1 - t
        rates(t + 0.5 * h, y + 0.5 * h * k[0], p, begin, k[1])
        rates(t + 0.75 * h, y + 0.75 * h * k[1], p, begin, k[2])
        new = y + h * (2.0 / 9.0 * k[0] + 1.0 / 3.0 * k[1] + 4.0 / 9.0 * k[2])
        rates(t + h, new, p, begin, k[3])
        err = h * (-5.0 / 72.0 * k[0] + k[1] / 12.0 + k[2] / 9.0 - k[3] / 8.0)
        norm = error_norm(err, new, rtol, atol)
        if norm > 1.0:
            h *= max(0.2, 0.9 * norm ** (-1.0 / 3.0))
            continue
        y[:] = new
        k[0] = k[3]
        accepted += 1
        if last:
            break
        t += h
        h *= min(5.0, 0.9 * (norm + 1e-10) ** (-1.0 / 3.0))
    return accepted


@njit
def daily_cases(p, begin, y0, days):
    """New infections a day."""
    y = y0.copy()
    cases = np.zeros(days)
    for d in range(days):
        before = y[0]
        bs23(y, float(d), d + 1.0, p, begin, 1e-6, 1e-9)
        cases[d] = before - y[0]
    return cases


@njit
def poisson_misfit(p, begin, y0, counts, population):
    """The negative logarithm of the Poisson likelihood, without its constant; days without a count are -1."""
    cases = daily_cases(p, begin, y0, counts.size)
    total = 0.0
    for d in range(counts.size):
        if counts[d] < 0:
            continue
        mean = population * cases[d]
        total += mean - counts[d] * np.log(mean)
    return total
