"""A fourth-order residual: bending of a clamped circular plate, ``D (u_xxxx + 2 u_xxyy + u_yyyy) = q``.

`pde.biharmonic` needs no nesting: in two dimensions fourth derivatives along four directions give the operator exactly,
and of the highest coefficients only their weighted sum is carried.

python examples/biharmonic_residual.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import nbgrad as ng
from nbgrad import pde


def plate(load: float, stiffness: float, radius: float) -> Callable:
    """The deflection of a clamped circular plate under a uniform load (Timoshenko)."""
    return lambda x, y: load / (64 * stiffness) * (radius**2 - x * x - y * y) ** 2


def wave(x: ng.Tensor, y: ng.Tensor) -> ng.Tensor:
    """``sin(2x) exp(-y)``, whose biharmonic is 9 times itself."""
    return ng.sin(2 * x) * ng.exp(-y)


class Result(NamedTuple):
    """Largest residual of the plate, and largest error for a field with all kinds of terms."""

    residual: float
    error: float


def main(n: int = 500) -> Result:
    """Check the plate's residual and the wave."""
    rng = np.random.default_rng(0)
    x, y = (ng.tensor(rng.uniform(-0.7, 0.7, n)) for _ in range(2))
    load, stiffness = 3.0, 0.5
    bending = pde.biharmonic(plate(load, stiffness, 1.0), argnums=(0, 1))(x, y)
    residual = stiffness * bending - load
    error = pde.biharmonic(wave, argnums=(0, 1))(x, y) - 9 * wave(x, y)
    result = Result(residual.abs().max().item(), error.abs().max().item())
    print(f"plate: largest residual {result.residual:.1e} (load {load})")
    print(f"sin(2x) exp(-y): largest error {result.error:.1e}")
    return result


if __name__ == "__main__":
    main()
