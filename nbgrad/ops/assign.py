"""Overwriting: ``fill_``, ``zero_``, ``copy_``."""

from __future__ import annotations

from typing import Any

from ..op import as_tensor, cast, elementwise
from ..op.inplace import inplace
from ..op.public import METHODS
from ..tensor import Tensor


@elementwise(partials=(lambda x, v, out: 0, lambda x, v, out: 1), hidden=True)
def second(x, v):
    """The second argument, broadcast against the first: what a tensor is after being overwritten."""
    return v


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Copy ``src`` (broadcast, converted to this dtype) into this tensor; differentiable in ``src``."""
    value = as_tensor(src, "copy_", "src")
    if value.device != self.device:
        value = value.to(self.device)
    if self.dtype.kind != "c" and value.dtype.kind == "c":
        value = value.real if isinstance(value.real, Tensor) else value.real()
    return inplace(lambda t: second(t, cast(value, t.dtype)), "copy", self)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with one number (or a 0-d tensor)."""
    return inplace(lambda t: second(t, value), "fill", self)


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0."""
    return inplace(lambda t: second(t, 0), "zero", self)


for _fn in (copy_, fill_, zero_):
    METHODS[_fn.__name__] = _fn
