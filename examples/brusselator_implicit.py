"""The Brusselator with diffusion on a periodic grid, in implicit steps with a sparse Jacobian.

    u_t = B + u^2 v - (A + 1) u + a (u_xx + u_yy) + f
    v_t = A u - u^2 v + a (v_xx + v_yy),      A = 3.4, B = 1, a = 0.1

with f = 5 inside a disc after t = 1.1 (Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.10). The
problem is stiff, so time goes by implicit Euler; each step is a few Newton iterations. The Jacobian has six entries a row:
its pattern is found from the tape of the residual, coloured, and computed by about a dozen batched jvps, whatever the grid.

python examples/brusselator_implicit.py [--n 128] [--steps 40] [--solver direct|gmres] [--out brusselator.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres, spilu, splu

import nbgrad as ng

A, B, DIFFUSION = 3.4, 1.0, 0.1
END, SWITCH = 2.0, 1.1
# the pattern is symmetric and the diagonal dominates: SuperLU's symmetric mode fills in less
ORDERING: dict[str, Any] = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}


def grid(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of a periodic n x n grid on the unit square."""
    x = np.arange(n) / n
    return np.meshgrid(x, x, indexing="ij")


def start(n: int) -> np.ndarray:
    """The initial fields (u, v), of shape (2, n, n)."""
    x, y = grid(n)
    return np.stack([22 * y * (1 - y) ** 1.5, 27 * x * (1 - x) ** 1.5])


def laplacian(u: ng.Tensor) -> ng.Tensor:
    """The five-point Laplacian on the periodic grid."""
    h = 1 / u.shape[0]
    around = ng.roll(u, 1, 0) + ng.roll(u, -1, 0) + ng.roll(u, 1, 1) + ng.roll(u, -1, 1)
    return (around - 4 * u) / h**2


def rate(w: ng.Tensor, t: Any, disc: ng.Tensor) -> ng.Tensor:
    """The right-hand side at time t; ``disc`` is 1 where the source is."""
    u, v = w[0], w[1]
    uuv = u * u * v
    source = ng.where(t >= SWITCH, 5.0 * disc, 0.0)
    return ng.stack(
        [
            B + uuv - (A + 1) * u + DIFFUSION * laplacian(u) + source,
            A * u - uuv + DIFFUSION * laplacian(v),
        ]
    )


def residual(w: ng.Tensor, old: ng.Tensor, t: Any, dt: Any, disc: ng.Tensor) -> ng.Tensor:
    """What an implicit Euler step from ``old`` to ``w`` at time t makes zero."""
    return w - old - dt * rate(w, t, disc)


def direct(matrix: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Solve with a sparse LU factorisation."""
    return splu(matrix.tocsc(), **ORDERING).solve


class Preconditioned:
    """GMRES with an incomplete LU factorisation, which is made anew only when it no longer serves."""

    def __init__(self, patience: int = 2):
        self.ilu: Any = None
        self.patience, self.iterations = patience, 0

    def __call__(self, matrix: Any) -> Callable[[np.ndarray], np.ndarray]:
        def solve(b: np.ndarray) -> np.ndarray:
            if self.ilu is not None:
                x, failed = self.attempt(matrix, b, self.patience)
                if not failed:
                    return x
            self.ilu = spilu(matrix.tocsc(), drop_tol=1e-3, fill_factor=10, **ORDERING)
            x, failed = self.attempt(matrix, b, 20)
            if failed:
                raise RuntimeError("GMRES did not converge; take a smaller step or --solver direct")
            return x

        return solve

    def attempt(self, matrix: Any, b: np.ndarray, restarts: int) -> tuple[np.ndarray, int]:
        """GMRES with at most so many restarts."""

        def count(_: float) -> None:
            self.iterations += 1

        inverse = LinearOperator(matrix.shape, self.ilu.solve)  # type: ignore[call-arg]
        return gmres(
            matrix,
            b,
            rtol=1e-6,
            restart=30,
            maxiter=restarts,
            M=inverse,
            callback=count,
            callback_type="pr_norm",
        )


class Result(NamedTuple):
    """The fields at the end, the largest residual of any step, and what it took."""

    w: np.ndarray
    error: float
    newtons: int
    seconds: dict[str, float]
    jacobian: Any
    explanation: str


def integrate(
    n: int = 128,
    steps: int = 40,
    solver: Callable = direct,
    tolerance: float = 1e-8,
    most: int = 12,
) -> Result:
    """Implicit Euler from 0 to 2 in equal steps; Newton until the residual is below the tolerance.

    Raises RuntimeError if Newton's method does not get there in ``most`` iterations.
    """
    x, y = grid(n)
    disc = ((x - 0.3) ** 2 + (y - 0.6) ** 2 <= 0.01).astype(float)
    J = ng.sparse_jacobian(residual)
    w, dt = start(n), END / steps
    seconds = {"Jacobian, first": 0.0, "Jacobians": 0.0, "linear solves": 0.0}
    worst, newtons, matrix = 0.0, 0, None
    for k in range(steps):
        old, t = w, (k + 1) * dt
        for _ in range(most):
            begin = time.perf_counter()
            value, matrix = J.value_and_jacobian(w, old, t, dt, disc)
            done = time.perf_counter()
            seconds["Jacobians" if newtons else "Jacobian, first"] += done - begin
            newtons += 1
            error = value.abs().max().item()
            if error < tolerance:
                break
            w = w - solver(matrix)(value.numpy().reshape(-1)).reshape(w.shape)
            seconds["linear solves"] += time.perf_counter() - done
        else:
            raise RuntimeError(f"Newton's method did not converge at t = {t:.3f}; take more steps")
        worst = max(worst, error)
    text = J.explain(w, w, 0.0, dt, disc)
    return Result(w, worst, newtons, seconds, matrix, text)


def draw(result: Result, path: str) -> None:
    """The Jacobian's pattern and the field u, or what is missing for the picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = result.jacobian.shape[0]
    fig, (whole, corner, field) = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    whole.spy(result.jacobian, markersize=0.2, rasterized=True)
    whole.set(title=f"Jacobian, {size} x {size}")
    part = min(size, 2 * result.w.shape[1] + 40)
    corner.spy(result.jacobian[:part, :part], markersize=1.5, rasterized=True)
    corner.set(title=f"its first {part} rows and columns")
    image = field.imshow(result.w[0].T, origin="lower", extent=(0, 1, 0, 1), cmap="viridis")
    field.set(title=f"u at t = {END:g}", xlabel="x", ylabel="y")
    fig.colorbar(image, ax=field)
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: list[str] | None = None) -> Result:
    """Integrate, report, draw."""
    parser = argparse.ArgumentParser(description="Brusselator in implicit steps")
    parser.add_argument("--n", type=int, default=128, help="grid points a side")
    parser.add_argument("--steps", type=int, default=40, help="time steps to t = 2")
    parser.add_argument("--solver", choices=("direct", "gmres"), default="direct")
    parser.add_argument("--out", default="brusselator.png", help="the picture")
    args = parser.parse_args(argv)
    krylov = Preconditioned()
    solver = direct if args.solver == "direct" else krylov
    result = integrate(args.n, args.steps, solver)
    print(result.explanation)
    print(f"Newton iterations {result.newtons} in {args.steps} steps")
    if krylov.iterations:
        print(f"GMRES iterations  {krylov.iterations}")
    print(f"largest residual  {result.error:.1e}")
    for name, s in result.seconds.items():
        print(f"{name:<17} {s:.3f} s")
    print(f"u between         {result.w[0].min():.4f} and {result.w[0].max():.4f}")
    draw(result, args.out)
    return result


if __name__ == "__main__":
    main()
