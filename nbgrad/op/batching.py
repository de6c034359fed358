"""Helpers for batching rules: align batch dimensions, materialise unbatched operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def front(x: Any, dim: int | None) -> Any:
    """Move a batch dimension to the front."""
    from ..ops.view import to_front

    return x if dim is None else to_front(x, dim)


def align(dims: Sequence[int | None], inputs: Sequence[Any]) -> list[Any]:
    """Batch dimensions in front and ranks padded, so that elementwise broadcasting does the rest."""
    from ..ops.view import _reshape

    rank = max(x.ndim - (d is not None) for x, d in zip(inputs, dims, strict=True))
    out = []
    for x, d in zip(inputs, dims, strict=True):
        if d is None:
            out.append(x)
            continue
        x = front(x, d)
        pad = rank - (x.ndim - 1)
        out.append(_reshape(x, (x.shape[0], *(1,) * pad, *x.shape[1:])) if pad else x)
    return out


def materialize(dims: Sequence[int | None], inputs: Sequence[Any]) -> tuple[int, list[Any]]:
    """Every operand with a leading batch dimension (unbatched ones are expanded)."""
    from ..ops.view import expand

    n = next(x.shape[d] for x, d in zip(inputs, dims, strict=True) if d is not None)
    out = []
    for x, d in zip(inputs, dims, strict=True):
        out.append(expand(x, shape=(n, *x.shape)) if d is None else front(x, d))
    return n, out
