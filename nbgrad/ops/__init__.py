"""Operator declarations. Importing this package registers every operator."""

from . import assign, basic, contraction, creation, einsum, elementwise, gather, index, reduce, select, shape, view

__all__ = ["assign", "basic", "contraction", "creation", "einsum", "elementwise", "gather", "index", "reduce", "select", "shape", "view"]
