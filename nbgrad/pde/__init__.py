"""Differential operators of fields, by collapsed Taylor mode: what residuals of differential equations are made of."""

from .coupling import CouplingError
from .explanation import explain
from .laplacians import biharmonic, laplacian, vector_laplacian, weighted_laplacian
from .operators import (
    derivatives,
    directional,
    gradient,
    hessian,
    jacobian,
    linear_operator,
    material_derivative,
    partial,
    time_derivative,
)
from .vector import curl, divergence

__all__ = [
    "CouplingError",
    "biharmonic",
    "curl",
    "derivatives",
    "directional",
    "divergence",
    "explain",
    "gradient",
    "hessian",
    "jacobian",
    "laplacian",
    "linear_operator",
    "material_derivative",
    "partial",
    "time_derivative",
    "vector_laplacian",
    "weighted_laplacian",
]
