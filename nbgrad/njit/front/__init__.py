"""From the Python text of a function and Numba's types of its arguments to the intermediate form."""

from .build import build

__all__ = ["build"]
