"""Reductions: public functions over the reduction primitives."""

from __future__ import annotations

from typing import Any

from .. import dtypes as dt
from .. import layout as lay
from ..op import as_tensor, cast
from ..op.public import public
from ..tensor import Tensor
from .basic import sum_


@public(name="sum")
def sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over the given dimensions (all by default)."""
    x = as_tensor(x, "sum")
    if dtype is not None:
        x = cast(x, dt.as_dtype(dtype, "sum"))
    return sum_(x, axes=lay.normalize_axes(dim, x.ndim, "sum"), keepdim=bool(keepdim))


@public
def mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Arithmetic mean over the given dimensions (all by default); NaN for an empty one."""
    x = as_tensor(x, "mean")
    x = cast(x, dt.to_inexact(x.dtype) if dtype is None else dt.as_dtype(dtype, "mean"))
    axes = lay.normalize_axes(dim, x.ndim, "mean")
    count = 1
    for a in axes:
        count *= x.shape[a]
    total = sum_(x, axes=axes, keepdim=bool(keepdim))
    return total / count if count else total * float("nan")
