"""Fit the parameters of a reaction-diffusion equation, solved by plain Numba loops, to noisy measurements.

    u_t = (d(x) u_x)_x + r u (1 - u / K)

A population spreads from one place; a few sensors counted it with noise. The solver is an ordinary @njit function of explicit
steps that writes its arrays in place. ``ng.njit.value_and_grad`` gives the gradient by reverse mode, with the state of the time
loop kept every 25 steps only (``ng.njit.checkpoint``); SciPy's L-BFGS-B finds diffusion on the left and on the right, growth and
capacity; ``ng.njit.hessian`` at the minimum gives their standard errors.

python examples/njit_fit_pde.py [--cells 60] [--steps 60] [--seed 0] [--plot fit.png]
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

NAMES = ("d left", "d right", "r", "K")
TRUTH = np.array([0.4, 0.15, 1.2, 0.9])
NOISE = 0.01
LENGTH, END = 10.0, 6.0


@njit
def observe(theta, start, sensors, every, samples, dt):
    """Values at the sensors after each ``every`` steps, shape (samples, sensors); theta holds logarithms."""
    d_left, d_right, r, capacity = np.exp(theta)
    n = start.size
    h = LENGTH / n
    u = start.copy()
    flux = np.zeros(n + 1)  # none through the ends
    seen = np.empty((samples, sensors.size))
    for t in ng.njit.checkpoint(range(samples * every), every=25):
        for i in range(1, n):
            d = d_left if 2 * i < n else d_right
            flux[i] = d * (u[i] - u[i - 1]) / h
        for i in range(n):
            u[i] += dt * ((flux[i + 1] - flux[i]) / h + r * u[i] * (1.0 - u[i] / capacity))
        if (t + 1) % every == 0:
            for k in range(sensors.size):
                seen[t // every, k] = u[sensors[k]]
    return seen


@njit
def misfit(theta, start, sensors, every, data, dt):
    """The negative logarithm of the likelihood, up to a constant."""
    model = observe(theta, start, sensors, every, data.shape[0], dt)
    total = 0.0
    for difference in (model - data).ravel():
        total += 0.5 * (difference / NOISE) ** 2
    return total


class Problem(NamedTuple):
    """All arguments of `misfit` after the parameters."""

    start: np.ndarray
    sensors: np.ndarray
    every: int
    data: np.ndarray
    dt: float


def measure(cells: int = 60, samples: int = 12, seed: int = 0) -> Problem:
    """Measurements made up with the true parameters and noise."""
    x = (np.arange(cells) + 0.5) * LENGTH / cells
    start = 0.3 * np.exp(-((x - 0.45 * LENGTH) ** 2))
    sensors = np.linspace(0.1 * cells, 0.9 * cells, 7).astype(np.int64)
    stable = 0.2 * (LENGTH / cells) ** 2 / TRUTH.max()
    every = int(np.ceil(END / samples / stable))
    dt = END / samples / every
    data = observe(np.log(TRUTH), start, sensors, every, samples, dt)
    data = data + NOISE * np.random.default_rng(seed).normal(size=data.shape)
    return Problem(start, sensors, every, data, dt)


def progress(total: int) -> Any:
    """A bar by tqdm if that is installed; to be used by ``with``, and None inside if it is not."""
    try:
        from tqdm import tqdm
    except ImportError:
        return contextlib.nullcontext()
    return tqdm(total=total, unit="step", leave=False)


class Result(NamedTuple):
    """Parameters found, their standard errors, the misfit before and after, and its gradient at the end."""

    theta: np.ndarray
    errors: np.ndarray
    before: float
    after: float
    slope: float


def fit(problem: Problem, steps: int = 60) -> Result:
    """Minimise from a start a factor of about two off."""
    both = ng.njit.value_and_grad(misfit)
    first = np.log(TRUTH) + np.log([0.5, 2.0, 0.6, 1.5])
    with progress(steps) as bar:
        found = minimize(
            lambda theta: both(theta, *problem),
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=[(v - 1.5, v + 1.0) for v in np.log(TRUTH)],  # keeps the explicit steps stable
            options={"maxiter": steps, "ftol": 1e-14, "gtol": 1e-6},
            callback=lambda _: bar.update() if bar else None,
        )
    covariance = np.linalg.inv(ng.njit.hessian(misfit)(found.x, *problem))
    theta = np.exp(found.x)
    errors = theta * np.sqrt(np.diag(covariance))  # from the logarithm to the parameter itself
    after, gradient = both(found.x, *problem)
    return Result(theta, errors, both(first, *problem)[0], after, float(np.abs(gradient).max()))


def check(result: Result, problem: Problem) -> None:
    """The minimum was found, fits as well as the noise allows, and holds the truth within four standard errors."""
    degrees = problem.data.size - TRUTH.size
    assert result.slope < 1e-2 * result.before, result.slope
    assert abs(2 * result.after - degrees) < 5 * np.sqrt(2 * degrees), result.after
    assert np.all(np.abs(result.theta - TRUTH) < 4 * result.errors), (result.theta, result.errors)
    assert np.all(result.errors < 0.1 * TRUTH), result.errors


def draw(problem: Problem, result: Result, path: str) -> None:
    """Measurements and the fitted curves, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    samples = problem.data.shape[0]
    t = np.arange(1, samples + 1) * problem.every * problem.dt
    model = observe(
        np.log(result.theta), problem.start, problem.sensors, problem.every, samples, problem.dt
    )
    fig, ax = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for k, cell in enumerate(problem.sensors):
        (line,) = ax.plot(
            t, model[:, k], label=f"x = {(cell + 0.5) * LENGTH / problem.start.size:.1f}"
        )
        ax.plot(t, problem.data[:, k], "o", color=line.get_color(), markersize=4)
    ax.set(title="measurements and fitted solution", xlabel="t", ylabel="u")
    ax.legend()
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="Fit a reaction-diffusion equation.")
    parser.add_argument("--cells", type=int, default=60, help="cells of the grid")
    parser.add_argument("--steps", type=int, default=60, help="iterations of L-BFGS")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--plot", help="write a picture to this file")
    args = parser.parse_args(argv)
    if args.cells < 20 or args.steps < 1:
        parser.error(f"--cells {args.cells} --steps {args.steps}; expected at least 20 and 1")
    problem = measure(args.cells, seed=args.seed)
    result = fit(problem, args.steps)
    print(f"misfit            {result.before:.1f} at the start, {result.after:.1f} at the end")
    for name, value, error, truth in zip(NAMES, result.theta, result.errors, TRUTH, strict=True):
        print(f"{name:<17} {value:.4f} +- {error:.4f} (true: {truth})")
    check(result, problem)
    if args.plot:
        draw(problem, result, args.plot)
    return result


if __name__ == "__main__":
    main()
