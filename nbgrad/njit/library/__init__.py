"""NumPy's functions in the Numba door: importing this package fills the registries of ``nbgrad.njit.rules``."""

from __future__ import annotations

from . import (
    blas,
    elementwise,
    least_squares,
    matrices,
    nans,
    norms,
    order,
    passive,
    products,
    reductions,
    running,
    shapes,
    singular,
    spectra,
    systems,
)
from .passive import PASSIVE

__all__ = [
    "PASSIVE",
    "blas",
    "elementwise",
    "least_squares",
    "matrices",
    "nans",
    "norms",
    "order",
    "passive",
    "products",
    "reductions",
    "running",
    "shapes",
    "singular",
    "spectra",
    "systems",
]
