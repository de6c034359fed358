"""SciPy's solvers with compiled functions and derivatives: solve_ivp, minimize, least_squares, root, and quad in machine code.

Each problem is written once in nbgrad; `ng.compile` makes the function and its derivative one program, SciPy calls it.

python examples/scipy_callbacks.py [--out callbacks.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from numba import cfunc
from scipy.integrate import quad, solve_ivp
from scipy.optimize import least_squares, minimize, root

import nbgrad as ng

F = ng.func


def arrays(fn: Callable) -> Callable[..., Any]:
    """A compiled function for SciPy: arrays in, arrays out."""
    compiled = ng.compile(fn)

    def call(*args: Any) -> Any:
        out = compiled(*args)
        if isinstance(out, tuple):
            return tuple(x.numpy() for x in out)
        return out.numpy()

    return call


# -- a stiff oscillator -------------------------------------------------------------------------------


def van_der_pol(y: ng.Tensor, mu: Any) -> ng.Tensor:
    """``y1' = y2, y2' = mu (1 - y1^2) y2 - y1``."""
    return ng.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


class Oscillation(NamedTuple):
    """The solution, and the calls of the right-hand side with the compiled Jacobian and with SciPy's differences."""

    solution: Any
    calls: int
    without: int


def oscillate(mu: float = 1000.0) -> Oscillation:
    """Van der Pol's oscillator over one relaxation and a bit, by an implicit method."""
    rate = arrays(van_der_pol)
    jacobian = arrays(F.jacfwd(van_der_pol))
    calls = 0

    def counted(t: float, y: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return rate(y, mu)

    def run(jac: Any) -> tuple[Any, int]:
        nonlocal calls
        calls = 0
        options: dict[str, Any] = {"method": "Radau", "rtol": 1e-6, "atol": 1e-8}
        return solve_ivp(counted, (0, 2 * mu), [2.0, 0.0], jac=jac, **options), calls

    found, used = run(lambda t, y: jacobian(y, mu))
    return Oscillation(found, used, run(None)[1])


# -- a minimal surface ------------------------------------------------------------------------------------


def area(inside: ng.Tensor, frame: ng.Tensor) -> ng.Tensor:
    """Area of the surface with heights ``inside`` (n, n) in a frame of heights (n + 2, n + 2), on the unit square."""
    h = 1 / (frame.shape[0] - 1)
    z = frame + ng.pad(inside, (1, 1, 1, 1))
    dx, dy = (z[1:, :-1] - z[:-1, :-1]) / h, (z[:-1, 1:] - z[:-1, :-1]) / h
    ex, ey = (z[1:, 1:] - z[:-1, 1:]) / h, (z[1:, 1:] - z[1:, :-1]) / h
    both = ng.sqrt(1 + dx * dx + dy * dy) + ng.sqrt(1 + ex * ex + ey * ey)
    return both.sum() * h * h / 2


def film(n: int = 20) -> tuple[np.ndarray, Any]:
    """The soap film in a frame bent like a saddle (heights of shape (n + 2, n + 2)), and SciPy's report."""
    x = np.linspace(-1, 1, n + 2)
    saddle = np.subtract.outer(x**2, x**2)
    frame = saddle.copy()
    frame[1:-1, 1:-1] = 0.0
    flat = lambda v: area(v.reshape(n, n), ng.tensor(frame))
    gradient = arrays(F.grad_and_value(flat))
    product = arrays(lambda v, p: F.jvp(F.grad(flat), (v,), (p,))[1])

    def value_and_gradient(v: np.ndarray) -> tuple[float, np.ndarray]:
        g, f = gradient(v)
        return float(f), g

    found = minimize(
        value_and_gradient, np.zeros(n * n), jac=True, hessp=product, method="trust-ncg", tol=1e-8
    )
    heights = frame.copy()
    heights[1:-1, 1:-1] = found.x.reshape(n, n)
    return heights, found


# -- a fit ---------------------------------------------------------------------------------------------


def peaks(p: ng.Tensor, x: ng.Tensor) -> ng.Tensor:
    """Two Gaussian peaks on a line; p holds height, place and width of each, then offset and slope."""
    hill = lambda h, at, width: h * ng.exp(-(((x - at) / width) ** 2))
    return hill(p[0], p[1], p[2]) + hill(p[3], p[4], p[5]) + p[6] + p[7] * x


TRUTH = np.array([2.0, 1.1, 0.3, 1.2, 2.0, 0.5, 0.4, 0.1])


def fit(points: int = 200, noise: float = 0.02) -> Any:
    """Least squares on noisy data; the start is off by a third."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 3, points)
    data = peaks(ng.tensor(TRUTH), ng.tensor(x)).numpy() + noise * rng.normal(size=points)
    residual = arrays(lambda p, x, data: peaks(p, x) - data)
    jacobian = arrays(F.jacfwd(lambda p, x: peaks(p, x)))
    start = TRUTH * np.where(np.arange(8) % 2, 1.1, 0.7)
    return least_squares(lambda p: residual(p, x, data), start, jac=lambda p: jacobian(p, x))


# -- a nonlinear system ----------------------------------------------------------------------------------


def bratu(u: ng.Tensor, strength: Any) -> ng.Tensor:
    """``u'' + strength exp(u)`` on a grid of the unit interval with u = 0 at its ends."""
    h = 1 / (u.shape[0] + 1)
    z = ng.pad(u, (1, 1))
    return (z[2:] - 2 * z[1:-1] + z[:-2]) / h**2 + strength * ng.exp(u)


def combustion(n: int = 60, strength: float = 1.0) -> Any:
    """Bratu's equation by Powell's hybrid method with the compiled Jacobian."""
    both = arrays(lambda u, s: (bratu(u, s), F.jacfwd(bratu)(u, s)))
    return root(lambda u: both(u, strength), np.zeros(n), jac=True, tol=1e-12)


def bratu_exact(x: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """``u = -2 log(cosh((x - 1/2) t / 2) / cosh(t / 4))`` with ``t = sqrt(2 strength) cosh(t / 4)``."""
    t = 0.0
    for _ in range(200):
        t = np.sqrt(2 * strength) * np.cosh(t / 4)
    return -2 * np.log(np.cosh((x - 0.5) * t / 2) / np.cosh(t / 4))


# -- quadrature in machine code ----------------------------------------------------------------------------


def arc_length() -> tuple[float, int]:
    """Length of ``y = sin x`` from 0 to pi; SciPy's Fortran calls the compiled derivative without Python."""
    slope = ng.compile(F.grad(ng.sin)).program(0.0).njit

    @cfunc("float64(float64)")
    def integrand(x: float) -> float:
        return np.sqrt(1 + slope(x) ** 2)

    call = scipy.LowLevelCallable(integrand.ctypes)  # type: ignore[call-arg]
    length, _, report = quad(call, 0, np.pi, epsabs=1e-12, full_output=True)[:3]
    return length, report["neval"]


class Result(NamedTuple):
    """What every solver found."""

    oscillation: Oscillation
    film: np.ndarray
    minimum: Any
    fit: Any
    bratu: Any
    length: float


def draw(result: Result, path: str) -> None:
    """The oscillation, the film and the solution of Bratu's equation, or what is missing for the picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    fig, (left, middle, right) = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    found = result.oscillation.solution
    left.plot(found.t, found.y[0], ".-", markersize=3)
    left.set(title="van der Pol, mu = 1000", xlabel="t")
    image = middle.imshow(result.film, origin="lower", extent=(-1, 1, -1, 1), cmap="viridis")
    middle.set(title="soap film")
    fig.colorbar(image, ax=middle)
    x = np.linspace(0, 1, result.bratu.x.size + 2)
    right.plot(x[1:-1], result.bratu.x, ".", label="computed")
    right.plot(x, bratu_exact(x), label="exact")
    right.set(title="Bratu's equation", xlabel="x")
    right.legend()
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture        {path}")


def main(argv: list[str] | None = None) -> Result:
    """Solve all problems, report, draw."""
    parser = argparse.ArgumentParser(description="SciPy with compiled derivatives")
    parser.add_argument("--out", default="callbacks.png", help="the picture")
    args = parser.parse_args(argv)
    waves, (heights, minimum) = oscillate(), film()
    fitted, burnt, (length, calls) = fit(), combustion(), arc_length()
    jacobians = waves.solution.njev
    print(
        f"solve_ivp      {waves.calls} evaluations, {jacobians} Jacobians; by differences {waves.without}"
    )
    print(f"minimize       area {minimum.fun:.6f} in {minimum.nit} steps")
    print(
        f"least_squares  off by {np.abs(fitted.x - TRUTH).max():.3f} after {fitted.nfev} evaluations"
    )
    print(f"root           |residual| {np.abs(burnt.fun).max():.1e}, {burnt.nfev} evaluations")
    print(f"quad           length {length:.12f} in {calls} evaluations without Python")
    result = Result(waves, heights, minimum, fitted, burnt, length)
    draw(result, args.out)
    return result


if __name__ == "__main__":
    main()
