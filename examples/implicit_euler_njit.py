"""A stiff reaction in an @njit time loop: implicit Euler with the Newton Jacobian from nbgrad.

Robertson's problem (Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.1):

    y1' = -0.04 y1 + 1e4 y2 y3
    y2' =  0.04 y1 - 1e4 y2 y3 - 3e7 y2^2
    y3' =  3e7 y2^2,                            y(0) = (1, 0, 0)

The right-hand side is written once, in nbgrad; value and Jacobian come out of one compiled program, called by Numba code
without Python and without allocation. Step doubling chooses the steps, and Richardson extrapolation of the two results makes
the method one of second order. SciPy's Radau gives the reference.

python examples/implicit_euler_njit.py [--end 1e5] [--tolerance 1e-5] [--out robertson.png]
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.integrate import solve_ivp

import nbgrad as ng

START = np.array([1.0, 0.0, 0.0])
SCALES = np.array([1.0, 1e-4, 1.0])  # the second component is that small


def reaction(y: ng.Tensor) -> ng.Tensor:
    """The right-hand side, of shape (3,)."""
    slow, back, fast = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] * y[1]
    return ng.stack([back - slow, slow - back - fast, fast])


def rate_and_jacobian(y: ng.Tensor) -> tuple[ng.Tensor, ng.Tensor]:
    """``f(y)`` and ``df/dy`` of shape (3, 3), row i for component i."""
    return reaction(y), ng.func.jacfwd(reaction)(y)


@functools.cache
def make_integrator(system: Callable, n: int) -> Callable:
    """The time loop for a compiled ``(y) -> (f, J)`` of n unknowns, as one @njit function.

    It returns times, states, and the numbers of Newton iterations and rejected steps; the last time is short of the end
    when ``most`` steps did not suffice.
    """
    program = ng.compile(system).program(np.zeros(n))
    call, bytes_needed = program.njit_into, program.workspace().size

    @njit(nogil=True)
    def euler(y: Any, h: float, f: Any, J: Any, space: Any) -> tuple[Any, int]:
        """Solve ``z = y + h f(z)`` by Newton's method; a negative count says that it did not converge."""
        z = y.copy()
        for k in range(10):
            call(z, f, J, space)
            change = np.linalg.solve(np.eye(z.size) - h * J, y + h * f - z)
            z += change
            if np.abs(change).max() <= 1e-12 * np.abs(z).max():
                return z, k + 1
        return z, -10

    @njit(nogil=True)
    def integrate(y: Any, end: float, tolerance: float, scales: Any, most: int) -> tuple:
        f, J = np.empty(n), np.empty((n, n))
        space = np.empty(bytes_needed, np.uint8)
        times, states = np.empty(most + 1), np.empty((most + 1, n))
        times[0], states[0] = 0.0, y
        t, h, k, newtons, rejected = 0.0, 1e-6, 0, 0, 0
        while t < end and k < most:
            h = min(h, end - t)
            once, a = euler(y, h, f, J, space)
            half, b = euler(y, h / 2, f, J, space)
            twice, c = euler(half, h / 2, f, J, space)
            newtons += abs(a) + abs(b) + abs(c)
            error = np.abs((twice - once) / scales).max()
            if min(a, b, c) < 0 or not error <= tolerance:
                h *= 0.5
                rejected += 1
                continue
            t, y, k = t + h, 2 * twice - once, k + 1
            times[k], states[k] = t, y
            h *= min(2.0, 0.9 * np.sqrt(tolerance / max(error, 1e-300)))
        return times[: k + 1], states[: k + 1], newtons, rejected

    return integrate


class Result(NamedTuple):
    """Times, states of shape (times, 3), the largest scaled error, and what it took."""

    t: np.ndarray
    y: np.ndarray
    error: float
    newtons: int
    rejected: int
    seconds: float


def solve(end: float = 1e5, tolerance: float = 1e-5) -> Result:
    """Integrate, time a second run, and compare with Radau at its tightest useful tolerance.

    Raises RuntimeError if the end is not reached.
    """
    integrate = make_integrator(rate_and_jacobian, 3)
    args = (START, end, tolerance, SCALES, 100_000)
    integrate(START, 1e-3, 1e-3, SCALES, 100)  # compile
    begin = time.perf_counter()
    t, y, newtons, rejected = integrate(*args)
    seconds = time.perf_counter() - begin
    if t[-1] < end:
        raise RuntimeError(f"only t = {t[-1]:.3g} was reached; ask for a larger tolerance")
    want = reference(t)
    error = float(np.abs((y - want) / SCALES).max())
    return Result(t, y, error, newtons, rejected, seconds)


def reference(t: np.ndarray) -> np.ndarray:
    """Radau's solution at the given times."""
    system = ng.compile(rate_and_jacobian)
    found = solve_ivp(
        lambda _, y: system(y)[0].numpy(),
        (0.0, t[-1]),
        START,
        method="Radau",
        t_eval=t,
        jac=lambda _, y: system(y)[1].numpy(),
        rtol=1e-9,
        atol=1e-12,
    )
    return found.y.T


def draw(result: Result, path: str) -> None:
    """The three concentrations over the logarithm of time, or what is missing for the picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    fig, (fields, steps) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    t = result.t[1:]
    for y, label in zip(result.y[1:].T, ("y1", "1e4 y2", "y3"), strict=True):
        fields.semilogx(t, y * (1e4 if "y2" in label else 1), ".-", markersize=2, label=label)
    fields.set(title="Robertson's reaction", xlabel="t")
    fields.legend()
    steps.loglog(t, np.diff(result.t))
    steps.set(title="step sizes", xlabel="t")
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture          {path}")


def main(argv: list[str] | None = None) -> Result:
    """Integrate, report, draw."""
    parser = argparse.ArgumentParser(description="implicit Euler inside njit")
    parser.add_argument("--end", type=float, default=1e5, help="the last time")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="scaled error of a step")
    parser.add_argument("--out", default="robertson.png", help="the picture")
    args = parser.parse_args(argv)
    if args.end <= 0 or args.tolerance <= 0:
        parser.error("--end and --tolerance must be positive")
    result = solve(args.end, args.tolerance)
    print(f"steps            {result.t.size - 1} ({result.rejected} rejected)")
    print(f"Newton steps     {result.newtons} in {1e3 * result.seconds:.2f} ms")
    print(f"largest error    {result.error:.1e} (scaled, against Radau)")
    print("y at the end     " + ", ".join(f"{v:.6e}" for v in result.y[-1]))
    draw(result, args.out)
    return result


if __name__ == "__main__":
    main()
