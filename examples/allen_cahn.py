"""Identify the Allen-Cahn equation u_t - a u_xx + b (u^3 - u) = 0 from its solution.

    python examples/allen_cahn.py [--data AC.mat] [--steps N] [--points N] [--out FILE]

The data are a ``.mat`` file with ``x``, ``tt`` and ``uu`` (len(x) by len(tt)), as in the literature on physics-informed networks
(a = 1e-4, b = 5, u(x, 0) = x^2 cos(pi x), periodic on [-1, 1]); without it the solution is computed by a split
spectral method. A network periodic in x is fitted to samples while a and b are found such that it satisfies the
equation; u, u_t and u_xx come from one call of `pde.derivatives`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

# the matrices are narrow: threads inside BLAS cost more than they bring (set before NumPy loads it)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize

import nbgrad as ng
from nbgrad import pde

TRUTH = (1e-4, 5.0)
SIZES = (3, 20, 20, 20, 1)
SHAPES = [s for n, m in pairwise(SIZES) for s in ((n, m), (m,))]


class Field(NamedTuple):
    """Samples u[i, j] = u(x[i], t[j])."""

    x: np.ndarray
    t: np.ndarray
    u: np.ndarray


def spectral(n: int = 512, m: int = 201, substeps: int = 10) -> Field:
    """The solution by Strang splitting: diffusion exactly in Fourier space, the reaction exactly in closed form.

    ``u' = b (u - u^3)`` gives ``u e^{b t} / sqrt(1 + u^2 (e^{2 b t} - 1))``; the error is of second order in the step.
    """
    a, b = TRUTH
    x, t = -1 + 2 * np.arange(n) / n, np.linspace(0, 1, m)
    h = (t[1] - t[0]) / substeps
    decay = np.exp(-a * (np.pi * np.fft.rfftfreq(n, 1 / n)) ** 2 * h)
    growth = np.exp(b * h / 2)

    def react(u: np.ndarray) -> np.ndarray:
        return u * growth / np.sqrt(1 + u * u * (growth**2 - 1))

    u = x**2 * np.cos(np.pi * x)
    columns = [u]
    for _ in range(m - 1):
        for _ in range(substeps):
            u = react(np.fft.irfft(decay * np.fft.rfft(react(u)), n))
        columns.append(u)
    return Field(x, t, np.stack(columns, 1))


def load(path: str) -> Field:
    """Read x, tt and uu; exits with a plain message where that is not possible."""
    file = Path(path)
    if not file.is_file():
        sys.exit(f"{path}: no such file.")
    from scipy.io import loadmat

    try:
        content = loadmat(file)
    except Exception as e:
        sys.exit(f"{path}: cannot be read as .mat: {e}")
    missing = [k for k in ("x", "tt", "uu") if k not in content]
    if missing:
        sys.exit(f"{path}: has no {', '.join(missing)}; expected x, tt and uu.")
    x, t = (np.asarray(content[k], float).ravel() for k in ("x", "tt"))
    u = np.asarray(content["uu"], float)
    if u.shape != (x.size, t.size):
        sys.exit(
            f"{path}: 'uu' has shape {u.shape}; expected (len(x), len(tt)) = {x.size, t.size}."
        )
    return Field(x, t, u)


def start(rng: np.random.Generator) -> np.ndarray:
    """Xavier-normal weights, zero biases, a = 1e-3 and b = 1 (both as logarithms), as one vector."""
    parts = [rng.normal(0, np.sqrt(2 / sum(s)), s) if len(s) == 2 else np.zeros(s) for s in SHAPES]
    return np.concatenate([*(p.ravel() for p in parts), [np.log(1e-3), 0.0]])


def network(z: ng.Tensor, theta: ng.Tensor) -> ng.Tensor:
    """u at points ``(..., 2)``: x, t; periodic in x."""
    cuts = np.cumsum([0, *(int(np.prod(s)) for s in SHAPES)])
    parts = [theta[lo:hi].reshape(s) for (lo, hi), s in zip(pairwise(cuts), SHAPES, strict=True)]
    x, t = z[..., :1], z[..., 1:]
    h = ng.cat([ng.cos(np.pi * x), ng.sin(np.pi * x), 2 * t - 1], -1)
    for w, b in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        h = ng.tanh(h @ w + b)
    return (h @ parts[-2] + parts[-1])[..., 0]


def residual(z: ng.Tensor, theta: ng.Tensor) -> tuple[ng.Tensor, ng.Tensor]:
    """u, and ``u_t - a u_xx + b (u^3 - u)``."""
    a, b = ng.exp(theta[-2]), ng.exp(theta[-1])
    u, u_t, u_xx = pde.derivatives(network, ["t", "xx"], coords="xt", value=True)(z, theta)
    return u, u_t - a * u_xx + b * (u**3 - u)


class Result(NamedTuple):
    """The coefficients found, the loss at the start and at the end, the relative error of u."""

    a: float
    b: float
    before: float
    after: float
    error: float


def identify(
    field: Field, steps: int = 2000, points: int = 2000, seed: int = 0, out: str | None = None
) -> Result:
    """Fit ``mean (u - data)^2 + 0.01 mean residual^2``, report, draw."""
    rng = np.random.default_rng(seed)
    pick = rng.choice(field.u.size, min(points, field.u.size), replace=False)
    i, j = np.unravel_index(pick, field.u.shape)
    z, data = ng.tensor(np.stack([field.x[i], field.t[j]], -1)), ng.tensor(field.u[i, j])

    def loss(p: ng.Tensor) -> ng.Tensor:
        u, r = residual(z, p)
        return ng.square(u - data).mean() + 0.01 * ng.square(r).mean()

    def both(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, g = ng.func.value_and_grad(loss)(ng.tensor(theta))
        return value.item(), g.numpy()

    first = start(rng)
    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 50, "ftol": 0, "gtol": 1e-9}
    theta = minimize(both, first, jac=True, method="L-BFGS-B", options=options).x
    grid = np.stack(np.meshgrid(field.x, field.t, indexing="ij"), -1)
    u = network(ng.tensor(grid), ng.tensor(theta)).numpy()
    a, b = (float(v) for v in np.exp(theta[-2:]))
    error = float(np.linalg.norm(u - field.u) / np.linalg.norm(field.u))
    result = Result(a, b, both(first)[0], both(theta)[0], error)
    print(f"identified        u_t - {a:.6f} u_xx + {b:.4f} (u^3 - u) = 0")
    print(f"expected          u_t - {TRUTH[0]:.6f} u_xx + {TRUTH[1]:.4f} (u^3 - u) = 0")
    print(f"loss              {result.before:.2e} at the start, {result.after:.2e} at the end")
    print(f"error of u        {error:.2e} (relative L2 norm, all samples)")
    if out:
        draw(field, u, out)
    return result


def draw(field: Field, u: np.ndarray, path: str) -> None:
    """Data, model and difference, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    fig, axes = pyplot.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    pairs: list[tuple[Any, str]] = [(field.u, "data"), (u, "model"), (u - field.u, "difference")]
    for ax, (values, title) in zip(axes, pairs, strict=True):
        image = ax.pcolormesh(field.t, field.x, values, cmap="RdBu_r", rasterized=True)
        fig.colorbar(image, ax=ax)
        ax.set(title=title, xlabel="t", ylabel="x")
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="Identify the Allen-Cahn equation.")
    parser.add_argument("--data", help="a .mat file with x, tt and uu; default: computed here")
    parser.add_argument("--steps", type=int, default=2000, help="iterations of L-BFGS")
    parser.add_argument("--points", type=int, default=2000, help="samples to fit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="allen_cahn.png", help="the picture's file")
    args = parser.parse_args(argv)
    if args.steps < 1 or args.points < 1:
        parser.error(f"--steps {args.steps} --points {args.points}; expected positive numbers")
    field = load(args.data) if args.data else spectral()
    return identify(field, args.steps, args.points, args.seed, args.out)


if __name__ == "__main__":
    main()
