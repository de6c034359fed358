"""Operator declarations. Importing this package registers every operator."""

from . import basic, contraction, creation, elementwise, index, reduce, shape, view

__all__ = ["basic", "contraction", "creation", "elementwise", "index", "reduce", "shape", "view"]
