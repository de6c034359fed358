"""Operator declarations. Importing this package registers every operator."""

from . import assign, basic, contraction, creation, elementwise, index, reduce, shape, view

__all__ = ["assign", "basic", "contraction", "creation", "elementwise", "index", "reduce", "shape", "view"]
