"""Shape rules shared by operators."""

from __future__ import annotations


def reduced(shape: tuple, axes: tuple, keepdim: bool) -> tuple:
    """Shape after reducing ``axes`` (sorted, non-negative)."""
    if keepdim:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)
