"""Calibrate Heston's stochastic-volatility model to option prices, by derivatives of a complex-valued @njit pricer.

    dS = r S dt + sqrt(v) S dW1,   dv = kappa (theta - v) dt + xi sqrt(v) dW2,   dW1 dW2 = rho dt

A call's price is an integral over the characteristic function (Heston 1993, in the form of Albrecher and others that stays on one
branch of the logarithm), here by Gauss-Legendre quadrature in Numba loops with complex numbers. ``ng.njit.jacfwd`` gives the
derivatives of all prices with respect to the five parameters, and Levenberg-Marquardt fits them to quotes of a known model.

python examples/njit_heston.py [--steps 40] [--noise 0] [--seed 0] [--plot heston.png]
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

import nbgrad as ng

NAMES = ("kappa", "theta", "xi", "rho", "v0")
TRUTH = np.array([1.8, 0.06, 0.45, -0.65, 0.04])
GUESS = np.array([3.0, 0.1, 0.25, -0.2, 0.09])
SPOT, RATE = 100.0, 0.02


@njit
def characteristic(u, t, kappa, theta, xi, rho, v0):
    """The characteristic function of log(S_t / S_0) without the drift, at a complex u."""
    b = kappa - rho * xi * 1j * u
    d = np.sqrt(b * b + xi * xi * (u * u + 1j * u))
    g = (b - d) / (b + d)
    e = np.exp(-d * t)
    c = kappa * theta / xi**2 * ((b - d) * t - 2.0 * np.log((1.0 - g * e) / (1.0 - g)))
    return np.exp(c + v0 * (b - d) / xi**2 * (1.0 - e) / (1.0 - g * e))


@njit
def call_prices(params, strikes, maturities, nodes, weights):
    """Prices of calls, one for each pair of strike and maturity (Lewis' single integral)."""
    kappa, theta, xi, rho, v0 = params[0], params[1], params[2], params[3], params[4]
    prices = np.empty(strikes.size)
    for i in range(strikes.size):
        t = maturities[i]
        k = np.log(SPOT / strikes[i]) + RATE * t
        total = 0.0
        for j in range(nodes.size):
            u = nodes[j]
            phi = characteristic(u - 0.5j, t, kappa, theta, xi, rho, v0)
            total += weights[j] * (np.exp(1j * u * k) * phi).real / (u * u + 0.25)
        discounted = strikes[i] * np.exp(-RATE * t)
        prices[i] = SPOT - np.sqrt(SPOT * discounted) / np.pi * total
    return prices


def quadrature(n: int = 48, end: float = 120.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre on (0, end), denser at zero by a square."""
    x, w = np.polynomial.legendre.leggauss(n)
    s = 0.5 * (x + 1)
    return end * s**2, end * s * w


class Problem(NamedTuple):
    """The quotes and all arguments of `call_prices` but the parameters."""

    quotes: np.ndarray
    strikes: np.ndarray
    maturities: np.ndarray
    nodes: np.ndarray
    weights: np.ndarray


def market(noise: float = 0.0, seed: int = 0) -> Problem:
    """Quotes at the true parameters, with noise of the given standard deviation."""
    strikes, maturities = np.meshgrid(np.linspace(80, 120, 7), [0.25, 0.5, 1.0, 2.0])
    grid = (strikes.ravel(), maturities.ravel(), *quadrature())
    quotes = call_prices(TRUTH, *grid)
    return Problem(quotes + noise * np.random.default_rng(seed).normal(size=quotes.size), *grid)


def progress(total: int) -> Any:
    """A bar by tqdm if that is installed; to be used by ``with``, and None inside if it is not."""
    try:
        from tqdm import tqdm
    except ImportError:
        return contextlib.nullcontext()
    return tqdm(total=total, unit="step", leave=False)


class Result(NamedTuple):
    """Parameters, errors of prices (rms) after each step, and standard errors for noise of one unit."""

    params: np.ndarray
    misfits: list[float]
    sensitivity: np.ndarray


def admissible(p: np.ndarray) -> bool:
    """Positive variances and rates, a correlation inside (-1, 1)."""
    return bool(np.all(p[[0, 1, 2, 4]] > 0) and abs(p[3]) < 0.999)


def calibrate(problem: Problem, steps: int = 40) -> Result:
    """Levenberg-Marquardt with Marquardt's scaling; steps to where prices do not exist are shortened."""
    quotes, grid = problem.quotes, problem[1:]
    jacobian = ng.njit.jacfwd(call_prices)
    params, damping = GUESS, 1e-2
    r = quotes - call_prices(params, *grid)
    misfits = [float(np.sqrt(np.mean(r**2)))]
    J = jacobian(params, *grid)
    with progress(steps) as bar:
        for _ in range(steps):
            A = J.T @ J
            change = np.linalg.solve(A + damping * np.diag(np.diag(A)), J.T @ r)
            if np.abs(change / params).max() < 1e-12:
                break
            tried = params + change
            exists = admissible(tried)
            trial = quotes - call_prices(tried, *grid) if exists else np.full(r.size, np.inf)
            if trial @ trial < r @ r:
                params, r, damping = tried, trial, damping / 10
                J = jacobian(params, *grid)
            else:
                damping *= 4
            misfits.append(float(np.sqrt(np.mean(r**2))))
            if bar:
                bar.update()
    return Result(params, misfits, np.sqrt(np.diag(np.linalg.inv(J.T @ J))))


def check(result: Result, noise: float) -> None:
    """The parameters are the true ones: within five standard errors, or within 1e-6 of quotes without noise."""
    bound = 5 * noise * result.sensitivity + 1e-6
    assert np.all(np.abs(result.params - TRUTH) < bound), (result.params, bound)
    assert result.misfits[-1] < 1e-8 + 1.5 * noise, result.misfits


def draw(problem: Problem, result: Result, path: str) -> None:
    """Prices over quotes and the misfits, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    fig, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for t in np.unique(problem.maturities):
        rows = problem.maturities == t
        grid = (problem.strikes[rows], problem.maturities[rows], problem.nodes, problem.weights)
        (line,) = left.plot(grid[0], call_prices(result.params, *grid), label=f"T = {t:g}")
        left.plot(grid[0], problem.quotes[rows], "o", color=line.get_color())
    left.set(title="quotes and fitted prices", xlabel="strike")
    left.legend()
    right.semilogy(result.misfits, "o-")
    right.set(title="misfit of prices (rms)", xlabel="step")
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="Calibrate Heston's model.")
    parser.add_argument("--steps", type=int, default=40, help="most steps of Levenberg-Marquardt")
    parser.add_argument("--noise", type=float, default=0.0, help="standard deviation in the quotes")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--plot", help="write a picture to this file")
    args = parser.parse_args(argv)
    if args.steps < 1 or args.noise < 0:
        parser.error(f"--steps {args.steps} --noise {args.noise}; expected at least 1 and 0")
    problem = market(args.noise, args.seed)
    result = calibrate(problem, args.steps)
    print(
        f"misfit (rms)      {result.misfits[0]:.2e} -> {result.misfits[-1]:.2e}, {len(result.misfits) - 1} steps"
    )
    for name, value, truth in zip(NAMES, result.params, TRUTH, strict=True):
        print(f"{name:<17} {value:.6f} (true: {truth})")
    check(result, args.noise)
    if args.plot:
        draw(problem, result, args.plot)
    return result


if __name__ == "__main__":
    main()
