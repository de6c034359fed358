"""Coefficients of the special functions in ``nbgrad/ops/special.py``, from their definitions, with mpmath.

``python tools/special_coefficients.py`` prints them; ``tests/ops/test_special_functions.py`` compares the file with this script.
"""

from __future__ import annotations

import mpmath as mp

ROOT_TERMS = 26
TAIL_TERMS = 12


def digamma_root() -> tuple[float, float, list[float]]:
    """The positive root of digamma as a sum of two floats, and digamma's Taylor coefficients 1.. about it."""
    with mp.workdps(60):
        root = mp.findroot(mp.digamma, mp.mpf("1.4616"))
        high = float(root)
        low = float(root - mp.mpf(high))
        taylor = [mp.polygamma(k, root) / mp.factorial(k) for k in range(1, ROOT_TERMS + 1)]
        return high, low, [float(c) for c in taylor]


def bernoulli_over_factorial() -> list[float]:
    """B(2j)/(2j)! for j = 1.., the weights of the Euler-Maclaurin formula."""
    with mp.workdps(60):
        return [float(mp.bernoulli(2 * j) / mp.factorial(2 * j)) for j in range(1, TAIL_TERMS + 1)]


def digamma_tail() -> list[float]:
    """B(2j)/(2j) for j = 1.., the asymptotic series of digamma."""
    with mp.workdps(60):
        return [float(mp.bernoulli(2 * j) / (2 * j)) for j in range(1, 10)]


def main() -> None:
    """Print the constants as they stand in the source."""
    high, low, taylor = digamma_root()
    print(f"ROOT_HIGH, ROOT_LOW = {high!r}, {low!r}")
    for name, row in (
        ("ROOT_TAYLOR", taylor),
        ("EULER_MACLAURIN", bernoulli_over_factorial()),
        ("DIGAMMA_TAIL", digamma_tail()),
    ):
        print(f"{name} = (")
        for c in row:
            print(f"    {c!r},")
        print(")")


if __name__ == "__main__":
    main()
