"""Reductions of device arrays."""

from __future__ import annotations

import functools
import math
from typing import Any

from kernels_cuda import reduce as reductions

from .. import dtypes as dt
from ..device import Device
from ..errors import DTypeError, ShapeError, message
from ..memory.cuda import Buffer
from ..op.shapes import reduced
from .array import DeviceArray, empty, guarded, launch
from .operands import common_device
from .streams import current_key, current_stream


@guarded
def reduce(name: str, x: DeviceArray, axes: tuple[int, ...], keepdim: bool) -> DeviceArray:
    """One of sum, prod, max, min, any, all over axes."""
    device = common_device(name, (x,))
    if name in ("max", "min") and x.dtype.kind == "c":
        raise DTypeError(message(name, "the operand's dtype", x.dtype.name, "a real dtype"))
    shape = reduced(x.shape, axes, False)
    if name in ("max", "min") and math.prod(x.shape) == 0 and math.prod(shape):
        raise ShapeError(message(name, "the reduced size", 0, "at least one element"))
    out = empty(shape, dt.as_dtype(reductions.result(name, x.dtype)), device)
    scratch = functools.partial(_scratch, device)
    launch(
        device,
        lambda: reductions.run(name, x.view(), axes, out.view(), scratch, current_stream()),
    )
    return out.reshape(reduced(x.shape, axes, True)) if keepdim else out


def _scratch(device: Device, nbytes: int) -> Any:
    """Memory for partial results: it returns to the pool with its last reference, in stream order."""
    buffer = Buffer(nbytes, device.index or 0, current_key())
    return buffer.memory._replace(owner=buffer)
