"""Operators: the record, the categories, the registry and the dispatch to the current interpreter."""

from .base import REGISTRY, Operator, Spec, operator
from .dispatch import apply, as_tensor, cast
from .elementwise import Elementwise, elementwise
from .view import ViewOp, view

__all__ = [
    "REGISTRY",
    "Elementwise",
    "Operator",
    "Spec",
    "ViewOp",
    "apply",
    "as_tensor",
    "cast",
    "elementwise",
    "operator",
    "view",
]
