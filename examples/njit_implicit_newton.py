"""Differentiate the root of a nonlinear system implicitly: Newton's method behind ``ng.njit.custom_vjp``.

    -u'' + a u^3 = q exp(-((x - c) / w)^2),     u = 0 at both ends

Newton's method solves the discretised problem for u(p), p = (a, q, c, w). Differentiating its iterations would keep and reverse
all of them; the implicit function theorem asks for one more linear solve only: from F(u, p) = 0 follows

    p_bar = -(dF/dp)^T (dF/du)^-T u_bar.

Only the residual F is written by hand: the Jacobian of Newton's method is ``ng.njit.jacfwd`` of it, and the products with dF/dp
are ``ng.njit.vjp`` of it, both called inside @njit. The gradient is compared with the one through the iterations, and fits p to
a few measured values of u.

python examples/njit_implicit_newton.py [--cells 30] [--steps 300] [--plot newton.png]
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.optimize import minimize

import nbgrad as ng

NAMES = ("a", "q", "c", "w")
TRUTH = np.array([8.0, 30.0, 0.4, 0.25])
GUESS = np.array([4.0, 20.0, 0.5, 0.2])


@njit
def residual(u, p):
    """F(u, p) at the inner points of a uniform grid."""
    n = u.size
    h = 1.0 / (n + 1)
    f = np.empty(n)
    for i in range(n):
        left = u[i - 1] if i > 0 else 0.0
        right = u[i + 1] if i < n - 1 else 0.0
        s = ((i + 1) * h - p[2]) / p[3]
        f[i] = (2.0 * u[i] - left - right) / h**2 + p[0] * u[i] ** 3 - p[1] * np.exp(-s * s)
    return f


jacobian = ng.njit.jacfwd(residual)
pull_back = ng.njit.vjp(residual, argnums=1)


@njit
def newton(p, n):
    """The root u(p), from zero."""
    u = np.zeros(n)
    for _ in range(50):
        step = np.linalg.solve(jacobian(u, p), residual(u, p))
        u = u - step
        if np.abs(step).max() < 1e-12:
            break
    return u


@njit
def forward(p, n):
    """The root, and what the reverse sweep needs of it."""
    u = newton(p, n)
    return u, (u, p)


@njit
def backward(kept, cotangent):
    """Cotangents of p and n by the implicit function theorem."""
    u, p = kept
    adjoint = np.linalg.solve(jacobian(u, p).T, -cotangent)
    return pull_back((u, p), adjoint)[1], 0


root = ng.njit.custom_vjp(newton)
root.defvjp(forward, backward)


@njit
def misfit(p, n, places, data):
    """Half the squared differences to values measured at some points."""
    return 0.5 * np.sum((root(p, n)[places] - data) ** 2)


@njit
def unrolled_misfit(p, n, places, data):
    """The same through the iterations."""
    return 0.5 * np.sum((newton(p, n)[places] - data) ** 2)


def progress(total: int) -> Any:
    """A bar by tqdm if that is installed; to be used by ``with``, and None inside if it is not."""
    try:
        from tqdm import tqdm
    except ImportError:
        return contextlib.nullcontext()
    return tqdm(total=total, unit="step", leave=False)


class Result(NamedTuple):
    """Parameters found, the misfit before and after, and how far the two gradients are apart (relative)."""

    p: np.ndarray
    before: float
    after: float
    apart: float


def setting(cells: int) -> tuple[int, np.ndarray, np.ndarray]:
    """The arguments of `misfit` after p: the size, the places and the data there."""
    places = np.linspace(1, cells - 2, 9).astype(np.int64)
    return cells, places, newton(TRUTH, cells)[places]


def fit(cells: int = 30, steps: int = 60) -> Result:
    """Compare the gradients at the guess, then minimise; the parameters are scaled by the guess."""
    others = setting(cells)
    both = ng.njit.value_and_grad(misfit)
    before, implicit = both(GUESS, *others)
    unrolled = ng.njit.grad(unrolled_misfit)(GUESS, *others)
    apart = float(np.abs(implicit - unrolled).max() / np.abs(unrolled).max())

    def scaled(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = both(GUESS * z, *others)
        return 1e4 * value, 1e4 * gradient * GUESS

    with progress(steps) as bar:
        found = minimize(
            scaled,
            np.ones(4),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.1, 10.0)] * 4,
            options={"maxiter": steps, "maxfun": 4 * steps, "ftol": 0, "gtol": 1e-9},
            callback=lambda _: bar.update() if bar else None,
        )
    p = GUESS * found.x
    return Result(p, before, both(p, *others)[0], apart)


def check(result: Result, complete: bool = True) -> None:
    """The gradients agree, and a complete fit finds the truth."""
    assert result.apart < 1e-8, result.apart
    assert result.after < 1e-3 * result.before, result
    if complete:
        assert np.all(np.abs(result.p - TRUTH) < 1e-2 * TRUTH), result.p


def draw(cells: int, result: Result, path: str) -> None:
    """Solutions and data, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    x = np.arange(1, cells + 1) / (cells + 1)
    _, places, data = setting(cells)
    fig, ax = pyplot.subplots(figsize=(6.5, 4), layout="constrained")
    ax.plot(x, newton(GUESS, cells), "--", label="guess")
    ax.plot(x, newton(result.p, cells), label="found")
    ax.plot(x[places], data, "o", label="data")
    ax.set(title="-u'' + a u^3 = source", xlabel="x", ylabel="u")
    ax.legend()
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="Implicit derivatives of Newton's method.")
    parser.add_argument("--cells", type=int, default=30, help="inner points of the grid")
    parser.add_argument("--steps", type=int, default=300, help="iterations of L-BFGS")
    parser.add_argument("--plot", help="write a picture to this file")
    args = parser.parse_args(argv)
    if args.cells < 12 or args.steps < 1:
        parser.error(f"--cells {args.cells} --steps {args.steps}; expected at least 12 and 1")
    result = fit(args.cells, args.steps)
    print(f"gradients         implicit and through the iterations: {result.apart:.1e} apart")
    print(f"misfit            {result.before:.2e} -> {result.after:.2e}")
    for name, value, truth in zip(NAMES, result.p, TRUTH, strict=True):
        print(f"{name:<17} {value:.5f} (true: {truth})")
    check(result, args.steps >= 100)
    if args.plot:
        draw(args.cells, result, args.plot)
    return result


if __name__ == "__main__":
    main()
