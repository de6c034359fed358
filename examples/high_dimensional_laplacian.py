"""The Laplacian of a network in 100 dimensions: exactly, and estimated from a few random directions.

    python examples/high_dimensional_laplacian.py [--dimensions D] [--points N] [--steps K] [--out FILE]

Exactly it takes one collapsed Taylor pass that carries d first-order coefficients. The estimate carries one a sample; its
error falls with the square root of their number and is known from the samples themselves. ``--steps`` is how often the
number of samples is doubled.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

# the matrices are narrow: threads inside BLAS cost more than they bring (set before NumPy loads it)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import nbgrad as ng
from nbgrad import pde


def network(d: int, width: int, rng: np.random.Generator) -> list[ng.Tensor]:
    """Weights of a network of two layers."""
    shapes = ((d, width), (width, width), (width, 1))
    return [ng.tensor(rng.normal(0, 1 / np.sqrt(s[0]), s)) for s in shapes]


def field(x: ng.Tensor, p: list[ng.Tensor]) -> ng.Tensor:
    """``(..., d)`` to ``(...)``."""
    return (ng.tanh(ng.sin(x @ p[0]) @ p[1]) @ p[2])[..., 0]


class Row(NamedTuple):
    """An estimate: samples, relative error found, relative error that the samples themselves tell, seconds."""

    samples: int
    error: float
    told: float
    seconds: float


class Result(NamedTuple):
    """Seconds for the exact Laplacian, the estimates, and how far collapsed and nested ways differ."""

    exact_seconds: float
    rows: list[Row]
    difference: float


def timed(fn: Any, *args: Any) -> tuple[Any, float]:
    """A result and the least seconds of three calls, after a first one that also checks the field."""
    spent = []
    for _ in range(4):
        begin = time.perf_counter()
        result = fn(*args)
        spent.append(time.perf_counter() - begin)
    return result, min(spent[1:])


def compare(d: int = 100, points: int = 200, steps: int = 6, out: str | None = None) -> Result:
    """Exact against estimates with 4, 8, ... samples."""
    rng = np.random.default_rng(0)
    x, p = ng.tensor(rng.normal(size=(points, d))), network(d, 64, rng)
    want, seconds = timed(pde.laplacian(field), x, p)
    scale = want.square().mean().sqrt().item()
    few = x[:3]
    gap = pde.laplacian(field)(few, p) - pde.laplacian(field, method="nested")(few, p)
    print(f"exact             {seconds * 1e3:.0f} ms for {points} points in {d} dimensions")
    rows = []
    for k in range(steps):
        n = 4 * 2**k
        generator = ng.Generator().manual_seed(k)
        op = pde.laplacian(field, samples=n, standard_error=True, generator=generator)
        (estimate, error), spent = timed(op, x, p)
        found = (estimate - want).square().mean().sqrt().item() / scale
        rows.append(Row(n, found, error.square().mean().sqrt().item() / scale, spent))
        print(
            f"{n:4d} samples      {spent * 1e3:.0f} ms, error {found:.3f}, by its own account {rows[-1].told:.3f}"
        )
    if out:
        draw(rows, d, out)
    return Result(seconds, rows, gap.abs().max().item())


def draw(rows: list[Row], d: int, path: str) -> None:
    """Errors over samples, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    n = np.array([r.samples for r in rows])
    fig, ax = pyplot.subplots(figsize=(5, 3.6), layout="constrained")
    ax.loglog(n, [r.error for r in rows], "o-", label="error")
    ax.loglog(n, [r.told for r in rows], "s--", label="standard error of the samples")
    ax.loglog(n, rows[0].error * np.sqrt(n[0] / n), "k:", label="slope -1/2")
    ax.set(xlabel="samples a point", ylabel="relative error", title=f"Laplacian, d = {d}")
    ax.legend()
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="The Laplacian in many dimensions.")
    parser.add_argument("--dimensions", type=int, default=100)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--steps", type=int, default=6, help="doublings of the samples")
    parser.add_argument("--out", default="laplacian.png", help="the picture's file")
    args = parser.parse_args(argv)
    if min(args.dimensions, args.points, args.steps) < 1:
        parser.error("--dimensions, --points and --steps are positive numbers")
    return compare(args.dimensions, args.points, args.steps, args.out)


if __name__ == "__main__":
    main()
