"""What array code asks of operands: their kind, dtype, and the arrays they read."""

from __future__ import annotations

from typing import Any

from .. import ir
from .objects import Lazy


def is_scalar(a: Any) -> bool:
    """Whether an operand is a number."""
    return isinstance(a, ir.Value) and not ir.is_array(a)


def dtype_of(a: Any) -> Any:
    """The scalar type of an operand."""
    if isinstance(a, Lazy):
        return a.dtype
    return a.type.dtype if ir.is_array(a) else a.type


def reads_of(a: Any) -> tuple:
    """The arrays an operand reads."""
    if isinstance(a, Lazy):
        return a.reads
    return (a,) if isinstance(a, ir.Value) and ir.is_array(a) else ()


def nonzero() -> Any:
    """The text that finds true elements."""
    from .pieces import nonzero

    return nonzero
