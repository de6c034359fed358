"""Optimal control of the heat equation: how to drive heaters so that a rod has a wanted temperature at the end.

    u_t = u_xx + sum_k c_k(t) b_k(x),     u = 0 at the ends,     u(x, 0) = 0
    minimise   0.5 |u(., T) - goal|^2 + 0.5 weight |c|^2

Time goes by implicit Euler with a tridiagonal solve, written as Numba loops. The cost is quadratic in the controls, so conjugate
gradients with Hessian-vector products find the optimum. The whole optimisation is one @njit function: ``ng.njit.grad`` and
``ng.njit.hvp`` are called inside it. The optimum is compared with the one from the assembled normal equations.

python examples/njit_heat_control.py [--cells 40] [--times 20] [--weight 1e-6] [--plot control.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

import nbgrad as ng

HEATERS = np.array([0.2, 0.4, 0.6, 0.8])
WIDTH, END = 0.05, 0.2


@njit
def solve_tridiagonal(diagonal, side, d):
    """Solve with constant diagonals; d is overwritten by the solution."""
    n = d.size
    c = np.empty(n)
    c[0] = side / diagonal
    d[0] /= diagonal
    for i in range(1, n):
        w = 1.0 / (diagonal - side * c[i - 1])
        c[i] = side * w
        d[i] = (d[i] - side * d[i - 1]) * w
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]


@njit
def final_temperature(control, shapes):
    """u at the end for controls of shape (times, heaters) and heaters of shape (heaters, cells)."""
    n = shapes.shape[1]
    dt, h = END / control.shape[0], 1.0 / (n + 1)
    r = dt / h**2
    u = np.zeros(n)
    for t in range(control.shape[0]):
        for k in range(shapes.shape[0]):
            u += dt * control[t, k] * shapes[k]
        solve_tridiagonal(1.0 + 2.0 * r, -r, u)
    return u


@njit
def cost(control, shapes, goal, weight):
    """The objective, integrals by the grids' sums."""
    u = final_temperature(control, shapes)
    dt, h = END / control.shape[0], 1.0 / (goal.size + 1)
    return 0.5 * h * np.sum((u - goal) ** 2) + 0.5 * weight * dt * np.sum(control**2)


gradient = ng.njit.grad(cost)
hessian_product = ng.njit.hvp(cost)


@njit
def optimise(shapes, goal, weight, times, tolerance, most):
    """Conjugate gradients from zero; returns the control and the norms of the gradient."""
    control = np.zeros((times, shapes.shape[0]))
    residual = -gradient(control, shapes, goal, weight)
    step = residual.copy()
    square = np.sum(residual**2)
    norms = [np.sqrt(square)]
    while norms[-1] > tolerance * norms[0] and len(norms) <= most:
        product = hessian_product((control, shapes, goal, weight), step)
        a = square / np.sum(step * product)
        control += a * step
        residual -= a * product
        square, before = np.sum(residual**2), square
        step = residual + square / before * step
        norms.append(np.sqrt(square))
    return control, np.array(norms)


def setting(cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The grid, the heaters' shapes and the wanted temperature."""
    x = np.arange(1, cells + 1) / (cells + 1)
    shapes = np.exp(-0.5 * ((x - HEATERS[:, None]) / WIDTH) ** 2)
    return x, shapes, np.sin(np.pi * x) + 0.3 * np.sin(2 * np.pi * x)


def by_normal_equations(
    shapes: np.ndarray, goal: np.ndarray, weight: float, times: int
) -> np.ndarray:
    """The optimal control by dense linear algebra, which knows nothing of derivatives."""
    n = goal.size
    dt, h = END / times, 1.0 / (n + 1)
    matrix = np.eye(n) * (1 + 2 * dt / h**2) - dt / h**2 * (np.eye(n, k=1) + np.eye(n, k=-1))
    inverse = np.linalg.inv(matrix)
    power, blocks = np.eye(n), []
    for _ in range(times):
        power = power @ inverse
        blocks.append(dt * power @ shapes.T)
    response = np.concatenate(blocks[::-1], 1)  # u = response @ control.ravel()
    left = h * response.T @ response + weight * dt * np.eye(response.shape[1])
    return np.linalg.solve(left, h * response.T @ goal).reshape(times, -1)


class Result(NamedTuple):
    """The control, the final temperature, the misses without and with control, iterations, and the two checks."""

    control: np.ndarray
    u: np.ndarray
    before: float
    after: float
    iterations: int
    slope: float
    difference: float


def solve(cells: int = 40, times: int = 20, weight: float = 1e-6) -> Result:
    """Optimise and compare."""
    _, shapes, goal = setting(cells)
    control, norms = optimise(shapes, goal, weight, times, 1e-10, 500)
    u = final_temperature(control, shapes)
    exact = by_normal_equations(shapes, goal, weight, times)
    slope = np.abs(gradient(control, shapes, goal, weight)).max() / norms[0]
    difference = np.abs(control - exact).max() / np.abs(exact).max()
    before, after = (float(np.sqrt(np.mean((v - goal) ** 2))) for v in (0.0, u))
    return Result(control, u, before, after, norms.size - 1, float(slope), float(difference))


def check(result: Result) -> None:
    """The gradient vanishes, and the control is that of the normal equations."""
    assert result.slope < 1e-8, result.slope
    assert result.difference < 1e-5, result.difference
    assert result.after < 0.2 * result.before, result.after


def draw(result: Result, path: str) -> None:
    """Temperature and controls, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    x, _, goal = setting(result.u.size)
    fig, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.plot(x, goal, "k--", label="wanted")
    left.plot(x, result.u, label="reached")
    left.set(title="temperature at the end", xlabel="x")
    left.legend()
    t = np.arange(len(result.control)) * END / len(result.control)
    for k, place in enumerate(HEATERS):
        right.step(t, result.control[:, k], where="post", label=f"heater at {place}")
    right.set(title="controls", xlabel="t")
    right.legend()
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="Optimal control of the heat equation.")
    parser.add_argument("--cells", type=int, default=40, help="inner points of the rod")
    parser.add_argument("--times", type=int, default=20, help="time steps")
    parser.add_argument("--weight", type=float, default=1e-6, help="price of control")
    parser.add_argument("--plot", help="write a picture to this file")
    args = parser.parse_args(argv)
    if args.cells < 5 or args.times < 1 or args.weight <= 0:
        parser.error("expected --cells of at least 5, --times of at least 1, a positive --weight")
    result = solve(args.cells, args.times, args.weight)
    print(f"miss (rms)        {result.before:.4f} without control, {result.after:.4f} with it")
    print(
        f"iterations        {result.iterations} of conjugate gradients, {result.control.size} unknowns"
    )
    print(f"gradient          {result.slope:.1e} of its first size")
    print(f"control           {result.difference:.1e} off the normal equations' (relative)")
    check(result)
    if args.plot:
        draw(result, args.plot)
    return result


if __name__ == "__main__":
    main()
