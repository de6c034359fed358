"""A fourth-order residual: bending of a clamped circular plate, ``D (u_xxxx + 2 u_xxyy + u_yyyy) = q``.

The mixed derivative needs no nesting. Fourth derivatives along four directions give the biharmonic operator exactly:
``sum over +-: d^4/ds^4 u(x + s, y +- s) = 2 u_xxxx + 12 u_xxyy + 2 u_yyyy``, hence
``biharmonic = (that sum + 4 (u_xxxx + u_yyyy)) / 6``. Four Taylor expansions of order four in all, batched by vmap.

python examples/biharmonic_residual.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import nbgrad as ng

DIRECTIONS = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, -1.0))
WEIGHTS = (4 / 6, 4 / 6, 1 / 6, 1 / 6)


def biharmonic(u: Callable, x: ng.Tensor, y: ng.Tensor) -> ng.Tensor:
    """``u_xxxx + 2 u_xxyy + u_yyyy`` at the points (x, y)."""
    zero = ng.zeros_like(x)

    def fourth(direction: ng.Tensor) -> ng.Tensor:
        along = tuple((direction[i].expand(x.shape), zero, zero, zero) for i in range(2))
        return ng.func.jet(u, (x, y), along)[1][3]

    along_all = ng.func.vmap(fourth)(ng.tensor(DIRECTIONS))
    return (ng.tensor(WEIGHTS)[:, None] * along_all).sum(0)


def plate(load: float, stiffness: float, radius: float) -> Callable:
    """The deflection of a clamped circular plate under a uniform load (Timoshenko)."""
    return lambda x, y: load / (64 * stiffness) * (radius**2 - x * x - y * y) ** 2


class Result(NamedTuple):
    """Largest residual of the plate, and largest error for a field with all kinds of terms."""

    residual: float
    error: float


def main(n: int = 500) -> Result:
    """Check the plate's residual, and ``sin(2x) exp(-y)``, whose biharmonic is 9 times itself."""
    rng = np.random.default_rng(0)
    x, y = (ng.tensor(rng.uniform(-0.7, 0.7, n)) for _ in range(2))
    load, stiffness = 3.0, 0.5
    residual = stiffness * biharmonic(plate(load, stiffness, 1.0), x, y) - load

    def wave(x: ng.Tensor, y: ng.Tensor) -> ng.Tensor:
        return ng.sin(2 * x) * ng.exp(-y)

    error = biharmonic(wave, x, y) - 9 * wave(x, y)
    result = Result(residual.abs().max().item(), error.abs().max().item())
    print(f"plate: largest residual {result.residual:.1e} (load {load})")
    print(f"sin(2x) exp(-y): largest error {result.error:.1e}")
    return result


if __name__ == "__main__":
    main()
