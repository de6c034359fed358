"""Overwriting: ``fill_``, ``zero_``, ``copy_``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, message
from ..op import as_tensor, cast, elementwise
from ..op.inplace import inplace
from ..op.public import METHODS
from ..op.samples import uniform
from ..tensor import Tensor


@elementwise(
    partials=(lambda x, v, out: 0, lambda x, v, out: 1),
    hidden=True,
    tests=uniform((-2, 2), (-2, 2)),
    reference=lambda x, v: np.broadcast_arrays(x, v)[1],
)
def second(x, v):
    """The second argument, broadcast against the first: what a tensor is after being overwritten."""
    return v


def _fits(value: Tensor, target: Tensor, op: str, arg: str) -> None:
    """Raise unless a value broadcasts to the tensor it is written to."""
    given, full = tuple(value.shape), tuple(target.shape)
    tail = full[len(full) - len(given) :]
    if len(given) <= len(full) and all(n in (1, m) for n, m in zip(given, tail, strict=True)):
        return
    wanted = f"one that broadcasts to {full}, the shape of the tensor written to"
    raise ShapeError(message(op, f"argument '{arg}' of shape", given, wanted))


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Copy ``src`` (broadcast, converted to this dtype) into this tensor; differentiable in ``src``."""
    value = as_tensor(src, "copy_", "src")
    if value.device != self.device:
        value = value.to(self.device)
    if self.dtype.kind != "c" and value.dtype.kind == "c":
        raise DTypeError(
            message(
                "copy_",
                "argument 'src' with dtype",
                value.dtype.name,
                f"one that fits the tensor's {self.dtype.name}",
                "Copy .real or .imag.",
            )
        )
    _fits(value, self, "copy_", "src")
    return inplace(lambda t: second(t, cast(value, t.dtype)), "copy", self)


def _as_truth(value: Any, target: Tensor) -> Any:
    """For a bool tensor the truth of an integer; any other value as it is."""
    if target.dtype.kind != "b":
        return value
    if isinstance(value, Tensor):
        return cast(value, target.dtype) if value.dtype.kind in "iu" else value
    return bool(value) if isinstance(value, int) else value


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with one number (or a 0-d tensor); integers fill bool tensors with their truth."""
    value = (
        value
        if isinstance(value, bool | int | float | complex)
        else as_tensor(value, "fill_", "value")
    )
    if isinstance(value, Tensor) and value.ndim:
        given = tuple(value.shape)
        raise ShapeError(
            message("fill_", "argument 'value' of shape", given, "one number", "Use copy_.")
        )
    return inplace(lambda t: second(t, _as_truth(value, t)), "fill", self)


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0."""
    return inplace(lambda t: second(t, _as_truth(0, t)), "zero", self)


for _fn in (copy_, fill_, zero_):
    METHODS[_fn.__name__] = _fn
