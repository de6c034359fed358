"""Moving tensors between devices, as a differentiable operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_cuda import _compat

from ..device import CPU, Device, array_under
from ..errors import DeviceError, message
from ..op import Spec, operator
from ..op.samples import calls
from ..tensor import Tensor
from .array import DeviceArray, from_numpy, guarded

_HERE = {"device": "cpu", "source": "cpu"}


@operator(
    "to_device",
    linear=(0,),
    tests=calls((((2, 3),), _HERE), (((),), _HERE)),
    reference=lambda x, device, source: x,
)
def move(x: Any, *, device: str, source: str) -> Any:
    """A copy on another device; ``source`` names where it comes from, for the way back."""
    return _move(x, device)


@move.cuda
def _move(x: Any, device: str, source: str = "") -> Any:
    target = Device(device)
    if isinstance(x, DeviceArray):
        if target.type == "cpu":
            return x.to_numpy()
        return x.copy() if x.device == target else from_numpy(x.to_numpy(), target)
    return np.array(x) if target.type == "cpu" else from_numpy(x, target)


@move.vjp
def _(g: Any, out: Any, x: Any, *, needs: Any, device: str, source: str) -> tuple:
    return (move(g, device=source, source=device),)


@move.batch
def _(dims: Any, x: Any, *, device: str, source: str) -> tuple:
    return move(x, device=device, source=source), dims[0]


@move.infer
def _(x: Any, *, device: str, source: str) -> Spec:
    return Spec(x.shape, x.dtype)


def checked(device: Any) -> Device:
    """A device that can be used.

    Raises
    ------
    DeviceError : no such device.
    MissingExtraError : numba-cuda is not installed.
    """
    target = Device(f"cuda:{device}" if isinstance(device, int) else device)
    if target.type == "cuda":
        guarded(_compat.require)()
        count = _compat.device_count()
        if (target.index or 0) >= count:
            raise DeviceError(
                message("device", "argument 'device'", target, f"one of {count} CUDA device(s)")
            )
    return target


def where_is(t: Tensor) -> Device:
    """The device under a tensor, also under a transform's value."""
    there = array_under(t)
    return CPU if there is None else there.device


def to_device(t: Tensor, device: Any) -> Tensor:
    """The tensor on a device; itself if it is there already. Differentiable."""
    target = checked(device)
    source = where_is(t)
    if target == source:
        return t
    return move(t, device=str(target), source=str(source))
