"""A third-order residual: is this field a solution of the Korteweg-de Vries equation u_t + 6 u u_x + u_xxx = 0?

`pde.derivatives` computes u, u_t, u_x and u_xxx for all points in one pass. The field is the soliton, for which the
residual vanishes, and a soliton of a wrong speed, for which it does not.

python examples/kdv_residual.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import nbgrad as ng
from nbgrad import pde


def soliton(c: float, speed: float | None = None) -> Callable:
    """``c/2 sech^2(sqrt(c)/2 (x - speed t))``; a solution if the speed is c (the default)."""
    v = c if speed is None else speed
    return lambda x, t: c / 2 / ng.cosh(c**0.5 / 2 * (x - v * t)) ** 2


def residual(u: Callable, x: ng.Tensor, t: ng.Tensor, method: str = "auto") -> ng.Tensor:
    """``u_t + 6 u u_x + u_xxx`` at the points (x, t)."""
    wanted = pde.derivatives(
        u, ["t", "x", "xxx"], coords="xt", argnums=(0, 1), value=True, method=method
    )
    value, u_t, u_x, u_xxx = wanted(x, t)
    return u_t + 6 * value * u_x + u_xxx


class Result(NamedTuple):
    """Largest residuals: of the soliton, of one with a wrong speed, and the two ways' difference."""

    right: float
    wrong: float
    difference: float


def main(n: int = 2001) -> Result:
    """Evaluate on a space-time grid."""
    x = ng.tensor(np.linspace(-15, 15, n))
    t = ng.tensor(np.linspace(0, 3, n))
    good, bad = residual(soliton(2.0), x, t), residual(soliton(2.0, speed=1.9), x, t)
    gap = good - residual(soliton(2.0), x, t, method="nested")
    result = Result(*(r.abs().max().item() for r in (good, bad, gap)))
    print(f"largest residual: {result.right:.1e} (soliton), {result.wrong:.1e} (wrong speed)")
    print(f"difference between Taylor and nested reverse mode: {result.difference:.1e}")
    return result


if __name__ == "__main__":
    main()
