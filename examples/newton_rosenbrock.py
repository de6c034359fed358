"""Newton-CG on the Rosenbrock function: Hessian-vector products, never a Hessian.

python examples/newton_rosenbrock.py [DIMENSION]
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

import nbgrad as ng


def rosenbrock(x: ng.Tensor) -> ng.Tensor:
    """``sum 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2``; the minimum 0 is at (1, ..., 1)."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


class Result(NamedTuple):
    """Where the search ended, and what it cost."""

    x: np.ndarray
    value: float
    iterations: int
    products: int


def search(n: int) -> Result:
    """Minimise from (-1.2, 1, -1.2, 1, ...)."""
    start = np.where(np.arange(n) % 2, 1.0, -1.2)
    products = 0

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        g, f = ng.func.grad_and_value(rosenbrock)(ng.tensor(x))
        return f.item(), g.numpy()

    def product(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        return ng.func.hvp(rosenbrock, (ng.tensor(x),), (ng.tensor(v),))[1].numpy()

    found = minimize(
        value_and_gradient, start, jac=True, hessp=product, method="Newton-CG", tol=1e-10
    )
    return Result(found.x, float(found.fun), found.nit, products)


def main() -> Result:
    """Minimise in the dimension given on the command line (default 100) and report."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    result = search(n)
    distance = np.abs(result.x - 1).max()
    print(f"{n} unknowns: f = {result.value:.2e}, distance to the minimum {distance:.1e}")
    print(f"{result.iterations} Newton steps, {result.products} Hessian-vector products")
    return result


if __name__ == "__main__":
    main()
