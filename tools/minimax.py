"""Derive every polynomial coefficient of ``kernels_cpu.vecmath``.

    python tools/minimax.py            print the text of kernels_cpu/vecmath/_coefficients.py
    python tools/minimax.py exp_f64    print one table and its approximation error
    python tools/minimax.py --check    compare the file with a fresh derivation

Method: the Remez exchange on a dense Chebyshev grid, in 60-digit arithmetic (mpmath).  For a
target ``f`` and a weight ``w`` the polynomial ``p`` of the given degree minimises
``max |w(x) (p(x) - f(x))|``; the weight turns the error of ``p`` into the relative error of the
function it serves.  Rounding the coefficients to float64 is part of the printed error.

Reference: E. Remez (1934); J.-M. Muller, Elementary Functions, 3rd ed., chapter 3.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
COEFFICIENTS = Path(__file__).parents[1] / "kernels_cpu" / "vecmath" / "_coefficients.py"
HEADER = '''"""Minimax coefficients, lowest degree first.  Generated: do not edit.

Made by ``python tools/minimax.py``; ``python tools/minimax.py NAME`` derives one table.
The figure after each name is the weighted error of the rounded polynomial.
"""
'''


@dataclass(frozen=True)
class Target:
    """One polynomial: ``f`` on ``[low, high]`` under the weight ``w``."""

    f: Callable
    w: Callable
    low: object
    high: object
    degree: int
    doc: str


def away_from_zero(f, limit):
    """``f`` with its removable singularity at 0 filled in (series terms are below 1e-40)."""
    return lambda x: mp.mpf(limit) if abs(x) < mp.mpf(10) ** -20 else f(x)


def remez(target: Target) -> list:
    """The minimax coefficients of ``target``, by exchange on a grid of Chebyshev points."""
    n = target.degree + 2
    grid = _grid(target.low, target.high, 24 * n)
    values = [target.f(x) for x in grid]
    weights = [target.w(x) for x in grid]
    step = (len(grid) - 1) / mp.mpf(n - 1)
    picks = [int(mp.nint(i * step)) for i in range(n)]
    for _ in range(60):
        coefficients = _levelled(target, grid, values, weights, picks)
        errors = [
            w * (_eval(coefficients, x) - v) for x, v, w in zip(grid, values, weights, strict=True)
        ]
        fresh = _alternating_peaks(errors, n)
        if fresh == picks:
            return coefficients
        picks = fresh
    return coefficients


def _grid(low, high, count):
    """``count`` Chebyshev points from ``low`` to ``high``, both ends included."""
    middle, half = (high + low) / mp.mpf(2), (high - low) / mp.mpf(2)
    return [middle - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]


def _levelled(target, grid, values, weights, picks):
    """Coefficients whose weighted error is +e, -e, +e ... on the picked points."""
    n = len(picks)
    a, b = mp.matrix(n, n), mp.matrix(n, 1)
    for row, i in enumerate(picks):
        for power in range(n - 1):
            a[row, power] = weights[i] * grid[i] ** power
        a[row, n - 1] = (-1) ** row
        b[row] = weights[i] * values[i]
    return list(mp.lu_solve(a, b))[: n - 1]


def _eval(coefficients, x):
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _alternating_peaks(errors, n):
    """Indices of ``n`` extrema of alternating sign, keeping the largest."""
    peaks = []
    for i, e in enumerate(errors):
        if peaks and mp.sign(e) == mp.sign(errors[peaks[-1]]):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        elif e != 0:
            peaks.append(i)
    while len(peaks) > n:
        if len(peaks) == n + 1:
            del peaks[0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1]
            continue
        weakest = min(range(len(peaks) - 1), key=lambda i: _pair(errors, peaks, i))
        del peaks[weakest : weakest + 2]
    if len(peaks) < n:
        raise ArithmeticError(
            f"{len(peaks)} alternations, {n} needed: degree too high for 60 digits"
        )
    return peaks


def _pair(errors, peaks, i):
    return max(abs(errors[peaks[i]]), abs(errors[peaks[i + 1]]))


def max_error(target: Target, coefficients) -> mp.mpf:
    """The largest weighted error of ``coefficients`` on a grid of 1000 points."""
    grid = _grid(target.low, target.high, 1000)
    return max(abs(target.w(x) * (_eval(coefficients, x) - target.f(x))) for x in grid)


# --- the functions -----------------------------------------------------------------------------

HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.0001")  # a little slack for the rounding of the reduction
LOG_Z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")
TINY = mp.mpf(10) ** -24  # variables that are squares start here: every f below is smooth at 0


def _exp(degree):
    f = away_from_zero(lambda r: (mp.expm1(r) - r) / r**2, 0.5)
    return Target(f, lambda r: r**2 / mp.exp(r), -HALF_LN2, HALF_LN2, degree, "(exp(r)-1-r)/r^2")


def _log(degree):
    def f(z):
        s = mp.sqrt(z)
        return (mp.log((1 + s) / (1 - s)) - 2 * s) / (s * z)

    return Target(f, lambda z: z / 2, TINY, LOG_Z, degree, "(log((1+s)/(1-s))-2s)/s^3 in z=s^2")


def _log_direct(degree):
    def f(x):
        return (mp.log1p(x) - x + x * x / 2) / x**3

    return Target(
        away_from_zero(f, mp.mpf(1) / 3),
        lambda x: x**3 / mp.log1p(x) if x else mp.mpf(0),
        (mp.sqrt(0.5) - 1) * mp.mpf("1.0001"),
        (mp.sqrt(2) - 1) * mp.mpf("1.0001"),
        degree,
        "(log(1+f)-f+f^2/2)/f^3",
    )


def _log_tail(degree):
    def f(z):
        s = mp.sqrt(z)
        return (mp.log((1 + s) / (1 - s)) - 2 * s - mp.mpf(2) / 3 * s * z) / (s * z * z)

    return Target(
        f, lambda z: z * z / 2, mp.mpf(10) ** -16, LOG_Z, degree, "the same less 2/3 s^3, over s^5"
    )


def _odd(fun, derivative, high, degree, doc):
    """``(fun(x) - x) / x^3`` in ``z = x^2`` for an odd ``fun`` with ``fun(x) ~ x``."""

    def f(z):
        x = mp.sqrt(z)
        return mp.mpf(derivative) if z <= TINY else (fun(x) - x) / (x * z)

    def w(z):
        x = mp.sqrt(z)
        return z * x / fun(x)

    high = mp.mpf(high)
    return Target(f, w, TINY, high * high * mp.mpf("1.0001"), degree, doc)


def _erf_small(degree):
    def f(z):
        x = mp.sqrt(z)
        return mp.erf(x) / x - 1

    return Target(
        f, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), TINY, mp.mpf(1), degree, "erf(x)/x-1 in z=x^2"
    )


def _erf_large(high, degree):
    def f(u):
        return mp.log(mp.erfc(u + 2))

    return Target(
        f,
        lambda u: mp.erfc(u + 2) / mp.erf(u + 2),
        mp.mpf(-1),
        mp.mpf(high) - 2,
        degree,
        "log(erfc(u+2))",
    )


def _erfcx(high, degree):
    """``F(t) = (1+2x) exp(x^2) erfc(x)``, ``t = (x-4)/(x+4)`` (Shepherd and Laframboise, 1981).

    ``F(-1) = 1`` is split off, so that the rounding of ``t`` does not reach it.
    """

    def big_f(t):
        x = 4 * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    low, top = mp.mpf(-1) + TINY, (mp.mpf(high) - 4) / (mp.mpf(high) + 4)
    return Target(
        lambda t: (big_f(t) - 1) / (1 + t),
        lambda t: (1 + t) / big_f(t),
        low,
        top,
        degree,
        "((1+2x)exp(x^2)erfc(x)-1)/(1+t)",
    )


def _rcbrt(degree):
    return Target(lambda m: 1 / mp.cbrt(m), mp.cbrt, mp.mpf(1), mp.mpf(2), degree, "m^(-1/3)")


HALF_PI = mp.pi / 2
TARGETS: dict[str, Callable[[], Target]] = {
    "exp_f64": lambda: _exp(9),
    "exp_f32": lambda: _exp(4),
    "log_f64": lambda: _log(6),
    "log_f32": lambda: _log(2),
    "log_direct_f32": lambda: _log_direct(8),
    "log_tail_f64": lambda: _log_tail(6),
    "sin_f64": lambda: _odd(mp.sin, -mp.mpf(1) / 6, HALF_PI, 7, "(sin(x)-x)/x^3"),
    "sin_f32": lambda: _odd(mp.sin, -mp.mpf(1) / 6, HALF_PI, 3, "(sin(x)-x)/x^3"),
    "tan_f64": lambda: _odd(mp.tan, mp.mpf(1) / 3, mp.pi / 4, 13, "(tan(x)-x)/x^3"),
    "tan_f32": lambda: _odd(mp.tan, mp.mpf(1) / 3, mp.pi / 4, 6, "(tan(x)-x)/x^3"),
    "sinh_f64": lambda: _odd(mp.sinh, mp.mpf(1) / 6, 1, 6, "(sinh(x)-x)/x^3"),
    "sinh_f32": lambda: _odd(mp.sinh, mp.mpf(1) / 6, 1, 3, "(sinh(x)-x)/x^3"),
    "atan_f64": lambda: _odd(mp.atan, -mp.mpf(1) / 3, 1, 18, "(atan(x)-x)/x^3"),
    "atan_f32": lambda: _odd(mp.atan, -mp.mpf(1) / 3, 1, 8, "(atan(x)-x)/x^3"),
    "asin_f64": lambda: _odd(mp.asin, mp.mpf(1) / 6, 0.5, 11, "(asin(x)-x)/x^3"),
    "asin_f32": lambda: _odd(mp.asin, mp.mpf(1) / 6, 0.5, 4, "(asin(x)-x)/x^3"),
    "erf_small_f64": lambda: _erf_small(12),
    "erf_small_f32": lambda: _erf_small(6),
    "erf_large_f64": lambda: _erf_large(6, 20),
    "erf_large_f32": lambda: _erf_large(4, 6),
    "erfcx_f64": lambda: _erfcx(28, 23),
    "erfcx_f32": lambda: _erfcx(11, 10),
    "rcbrt_f64": lambda: _rcbrt(6),
}


def derive(name: str) -> tuple[list[float], mp.mpf, str]:
    """The rounded coefficients of one table, their error, and what they approximate."""
    target = TARGETS[name]()
    coefficients = [float(c) for c in remez(target)]
    return coefficients, max_error(target, [mp.mpf(c) for c in coefficients]), target.doc


def render(name: str) -> str:
    coefficients, error, doc = derive(name)
    lines = [f"# tools/minimax.py {name}: {doc}; error 2^{mp.nstr(mp.log(error, 2), 4)}"]
    lines.append(f"{name.upper()} = (")
    lines += [f"    {c!r}," for c in coefficients]
    return "\n".join([*lines, ")"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="tables to print; none: the whole file")
    parser.add_argument("--check", action="store_true", help="compare with the stored file")
    options = parser.parse_args(arguments)
    text = "\n".join(render(name) for name in options.names or TARGETS)
    if options.check:
        return int(COEFFICIENTS.read_text() != f"{HEADER}\n{text}\n")
    print(text if options.names else f"{HEADER}\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
