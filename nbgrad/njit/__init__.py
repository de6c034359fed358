"""Derivatives of Numba functions, as Numba functions: see ``docs/guide/njit.md``."""

from . import cuda
from .api import (
    explain,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jet,
    jvp,
    show_source,
    value_and_grad,
    vjp,
)
from .custom import checkpoint, custom_jvp, custom_vjp, stop_gradient
from .operator import operator

__all__ = [
    "checkpoint",
    "cuda",
    "custom_jvp",
    "custom_vjp",
    "explain",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jet",
    "jvp",
    "operator",
    "show_source",
    "stop_gradient",
    "value_and_grad",
    "vjp",
]
