"""Sparse Jacobians and Hessians: patterns from the tape, colourings, compressed sweeps, SciPy matrices out."""

from .jacobian import (
    SparseHessian,
    SparseJacobian,
    hessian_sparsity,
    jacobian_sparsity,
    sparse_hessian,
    sparse_jacobian,
)
from .operators import hessian_operator, jacobian_operator

__all__ = [
    "SparseHessian",
    "SparseJacobian",
    "hessian_operator",
    "hessian_sparsity",
    "jacobian_operator",
    "jacobian_sparsity",
    "sparse_hessian",
    "sparse_jacobian",
]
