"""Which device an operator runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..device import Device
from ..errors import DeviceError, message
from .array import DeviceArray


def common_device(op: str, arrays: Sequence[Any]) -> Device:
    """The device of the operands; numbers on the host go anywhere.

    Raises
    ------
    DeviceError : operands on different devices.
    """
    devices = {a.device for a in arrays if isinstance(a, DeviceArray)}
    hosts = [a for a in arrays if type(a) is np.ndarray and not is_number(a)]
    if len(devices) == 1 and not hosts:
        return next(iter(devices))
    names = sorted(map(str, devices)) + (["cpu"] if hosts else [])
    raise DeviceError(
        message(
            op,
            "the operands' devices",
            " and ".join(names),
            "one device (only 0-d CPU tensors mix with any device)",
            "Move one of them with .to('cuda') or .cpu().",
        )
    )


def is_number(a: np.ndarray) -> bool:
    """One value on the host: 0-d, or expanded from 0-d."""
    return a.ndim == 0 or (a.size > 0 and all(s == 0 for s in a.strides))
