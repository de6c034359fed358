"""Solve Poisson's equation -laplacian u = f on the unit square, u = 0 on its boundary, by a small network.

    python examples/poisson_2d.py [--steps N] [--points N] [--out FILE]

The network is multiplied by x (1-x) y (1-y), so that the boundary values hold exactly. The mean squared residual at
random points is minimised by SciPy's L-BFGS-B. The right-hand side belongs to ``sin(pi x) sin(2 pi y)``, which the result is
compared with.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

# the matrices are narrow: threads inside BLAS cost more than they bring (set before NumPy loads it)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize

import nbgrad as ng
from nbgrad import pde

SIZES = (2, 16, 16, 1)
SHAPES = [s for n, m in pairwise(SIZES) for s in ((n, m), (m,))]


def exact(x: Any) -> Any:
    """The solution, of arrays or tensors of points ``(..., 2)``."""
    sin = ng.sin if isinstance(x, ng.Tensor) else np.sin
    return sin(np.pi * x[..., 0]) * sin(2 * np.pi * x[..., 1])


def source(x: ng.Tensor) -> ng.Tensor:
    """The right-hand side."""
    return 5 * np.pi**2 * exact(x)


def start(rng: np.random.Generator) -> np.ndarray:
    """Xavier-normal weights and zero biases, as one vector."""
    parts = [rng.normal(0, np.sqrt(2 / sum(s)), s) if len(s) == 2 else np.zeros(s) for s in SHAPES]
    return np.concatenate([p.ravel() for p in parts])


def field(x: ng.Tensor, theta: ng.Tensor) -> ng.Tensor:
    """The trial solution at points ``(..., 2)``."""
    cuts = np.cumsum([0, *(int(np.prod(s)) for s in SHAPES)])
    parts = [theta[lo:hi].reshape(s) for (lo, hi), s in zip(pairwise(cuts), SHAPES, strict=True)]
    h = 2 * x - 1
    for w, b in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        h = ng.tanh(h @ w + b)
    bubble = (x * (1 - x)).prod(-1)
    return bubble * (h @ parts[-2] + parts[-1])[..., 0]


def residual(x: ng.Tensor, theta: ng.Tensor) -> ng.Tensor:
    """``laplacian u + f`` at the points."""
    return pde.laplacian(field)(x, theta) + source(x)


class Result(NamedTuple):
    """Root mean square of the residual before and after, and the largest error of u on a grid."""

    before: float
    after: float
    error: float


def solve(steps: int = 400, points: int = 800, seed: int = 0, out: str | None = None) -> Result:
    """Fit, compare, draw."""
    rng = np.random.default_rng(seed)
    x = ng.tensor(rng.uniform(0, 1, (points, 2)))

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, g = ng.func.value_and_grad(lambda p: ng.square(residual(x, p)).mean())(
            ng.tensor(theta)
        )
        return value.item(), g.numpy()

    first = start(rng)
    found = minimize(
        loss, first, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxfun": 2 * steps}
    )
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 2, indexing="ij"), -1)
    u = field(ng.tensor(grid), ng.tensor(found.x)).numpy()
    result = Result(
        loss(first)[0] ** 0.5, loss(found.x)[0] ** 0.5, float(np.abs(u - exact(grid)).max())
    )
    print(
        f"residual (rms)    {result.before:.2e} at the start, {result.after:.2e} after {found.nit} steps"
    )
    print(f"largest error     {result.error:.2e}")
    print(pde.explain(pde.laplacian(field), x, ng.tensor(found.x)))
    if out:
        draw(grid, u, out)
    return result


def draw(grid: np.ndarray, u: np.ndarray, path: str) -> None:
    """Solution and error, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    fig, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for ax, values, title in ((axes[0], u, "u"), (axes[1], u - exact(grid), "error")):
        image = ax.pcolormesh(grid[..., 0], grid[..., 1], values, cmap="RdBu_r", rasterized=True)
        fig.colorbar(image, ax=ax)
        ax.set(title=title, xlabel="x", ylabel="y", aspect="equal")
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="Poisson's equation on the unit square.")
    parser.add_argument("--steps", type=int, default=400, help="iterations of L-BFGS")
    parser.add_argument("--points", type=int, default=800, help="points of the residual")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="poisson.png", help="the picture's file")
    args = parser.parse_args(argv)
    if args.steps < 1 or args.points < 1:
        parser.error(f"--steps {args.steps} --points {args.points}; expected positive numbers")
    return solve(args.steps, args.points, args.seed, args.out)


if __name__ == "__main__":
    main()
