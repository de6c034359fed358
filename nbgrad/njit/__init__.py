"""Derivatives of Numba functions, as Numba functions: see ``docs/guide/njit.md``."""

from .api import grad, hvp, jet, jvp, value_and_grad, vjp

__all__ = ["grad", "hvp", "jet", "jvp", "value_and_grad", "vjp"]
