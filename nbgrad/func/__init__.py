"""Composable function transforms on pytrees: grad, vjp, jvp, jacobians, hessian, vmap, jet."""

from .api import (
    grad,
    grad_and_value,
    hvp,
    jet,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from .jacobian import hessian, jacfwd, jacrev
from .vmap import vmap

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jet",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
    "vmap",
]
