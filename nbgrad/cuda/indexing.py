"""Gather, scatter and assignment through index arrays on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels_cuda import gather
from kernels_cuda._compat import View

from .. import dtypes as dt
from .. import layout as lay
from ..device import Device
from ..errors import DTypeError, IndexingError, message
from ..layout import broadcast_shapes
from .array import DeviceArray, empty, from_numpy, full, guarded, launch
from .operands import common_device
from .reducing import reduce
from .streams import current_stream


def index_views(
    op: str, idx: Sequence[Any], sizes: Sequence[int], device: Device
) -> tuple[tuple, list[View], list[DeviceArray]]:
    """Index arrays broadcast, flat and checked: their common shape, their views, what keeps them alive.

    Index arrays on the host are copied over; those on the device are checked there, for which the host waits.

    Raises
    ------
    IndexingError : an index out of range.
    """
    shape = broadcast_shapes(*(i.shape for i in idx), op=op)
    flat = []
    for i, n in zip(idx, sizes, strict=True):
        on_device = i if isinstance(i, DeviceArray) else from_numpy(np.asarray(i), device)
        if on_device.size:
            axes = tuple(range(on_device.ndim))
            low = int(reduce("min", on_device, axes, False).to_numpy())
            high = int(reduce("max", on_device, axes, False).to_numpy())
            if low < -n or high >= n:
                bad = low if low < -n else high
                raise IndexingError(
                    message(op, "an index", bad, f"between {-n} and {n - 1} (the size is {n})")
                )
        wide_index = on_device if on_device.dtype == dt.int64 else on_device.astype(dt.int64)
        spread = wide_index.restride(lay.expand(wide_index.layout, shape))
        flat.append(spread.copy().reshape((math.prod(shape),)))
    return shape, [f.view() for f in flat], flat


def _gathered(x: Any, axes: tuple[int, ...], shape: tuple) -> tuple[tuple, int]:
    """Shape of a gather with the index dimensions as one, and where that one stands."""
    rest = [n for d, n in enumerate(x) if d not in axes]
    at = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    return (*rest[:at], math.prod(shape), *rest[at:]), at


def _unfolded(flat: tuple, at: int, shape: tuple) -> tuple:
    return (*flat[:at], *shape, *flat[at + 1 :])


@guarded
def index(x: Any, *idx: Any, axes: tuple[int, ...]) -> DeviceArray:
    """Gather along ``axes``."""
    device = _device_of_first(x, idx)
    x = x if isinstance(x, DeviceArray) else from_numpy(x, device)
    shape, views, keep = index_views("index", idx, [x.shape[a] for a in axes], device)
    flat, at = _gathered(x.shape, axes, shape)
    out = empty(flat, x.dtype, device)
    launch(
        device,
        lambda: gather.run("get", x.view(), axes, views, out.view(), at, None, current_stream()),
    )
    del keep
    return out.reshape(_unfolded(flat, at, shape))


def _device_of_first(x: Any, idx: Sequence[Any]) -> Device:
    if not isinstance(x, DeviceArray):
        common_device("index", [x, *idx])  # raises: the data are on the host, an index is not
    return x.device


@guarded
def unindex(g: Any, *idx: Any, axes: tuple[int, ...], shape: tuple) -> DeviceArray:
    """Zeros with g added at the indices."""
    device = _device_of_first(g, idx)
    out = full(shape, g.dtype, device, 0)
    many, views, keep = index_views("index", idx, [shape[a] for a in axes], device)
    flat, at = _gathered(shape, axes, many)
    source = g.reshape(flat)
    try:
        launch(
            device,
            lambda: gather.run(
                "add", out.view(), axes, views, source.view(), at, None, current_stream()
            ),
        )
    except gather.AtomicsError:
        raise DTypeError(
            message("index", "the dtype", g.dtype.name, "one with atomic additions", "Use .cpu().")
        ) from None
    del keep
    return out


def _flags(views: list[View], sizes: Sequence[int], device: Device) -> DeviceArray:
    """Per index tuple, whether no later one names the same place."""
    mark = full((math.prod(sizes),), dt.int64, device, -1)
    flags = empty((views[0].size,), dt.uint8, device)
    launch(
        device,
        lambda: gather.winners(views, sizes, mark.view(), flags.view(), current_stream()),
    )
    return flags


@guarded
def index_put(x: Any, v: Any, *idx: Any, axes: tuple[int, ...], accumulate: bool) -> DeviceArray:
    """A copy of x with v written (of repeated indices the last one wins) or added."""
    device = common_device("index_put", (x, v))
    out = x.copy() if isinstance(x, DeviceArray) else full(x.shape, x.dtype, device, x.flat[0])
    sizes = [out.shape[a] for a in axes]
    many, views, keep = index_views("index_put", idx, sizes, device)
    flat, at = _gathered(out.shape, axes, many)
    full_shape = _unfolded(flat, at, many)
    if isinstance(v, DeviceArray):
        source = v.restride(lay.expand(v.layout, full_shape)).copy().reshape(flat)
    else:
        source = full(flat, out.dtype, device, v.flat[0])
    flags = None if accumulate else _flags(views, sizes, device)
    mode = "add" if accumulate else "put"
    f = None if flags is None else flags.view()
    launch(
        device,
        lambda: gather.run(mode, out.view(), axes, views, source.view(), at, f, current_stream()),
    )
    del keep
    return out


@guarded
def winners(*idx: Any, axes: tuple[int, ...], shape: tuple) -> Any:
    """Which of the written values survive where indices repeat (the last one)."""
    device = common_device("index_put", [i for i in idx if isinstance(i, DeviceArray)])
    many, views, keep = index_views("index_put", idx, [shape[a] for a in axes], device)
    flat, at = _gathered(shape, axes, many)
    flags = _flags(views, [shape[a] for a in axes], device).astype(dt.bool_)
    column = flags.reshape((flat[at], *(1,) * (len(flat) - at - 1)))
    spread = column.restride(lay.expand(column.layout, flat)).copy()
    del keep
    return spread.reshape(_unfolded(flat, at, many))
