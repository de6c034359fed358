"""Arrays on a device: a buffer of the pool and a layout over it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernels_cuda import _compat, copy
from kernels_cuda._compat import View

from .. import layout as lay
from ..device import Device
from ..errors import DeviceError, message, missing_extra
from ..layout import Layout
from ..memory.cuda import Buffer
from .streams import current_key, current_stream


def guarded(fn: Callable) -> Callable:
    """Turn the kernels' own errors (no package, no driver, a fork) into nbgrad's."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except _compat.MissingCudaError:
            raise missing_extra("numba-cuda", "cu12", "device 'cuda'") from None
        except _compat.NoDeviceError as error:
            raise DeviceError(
                message(
                    "cuda",
                    "the device",
                    f"not usable ({error})",
                    "a working CUDA device in the process that uses it",
                    "Use device='cpu', or start a fresh process (multiprocessing with 'spawn').",
                )
            ) from None

    return call


class DeviceArray:
    """Elements of a device buffer: what a Tensor on ``cuda`` holds.

    ``layout`` counts elements from the start of the buffer. Arrays over one buffer share it; it goes back to the pool when
    the last of them dies.
    """

    __slots__ = ("__weakref__", "buffer", "device", "dtype", "layout")
    is_device_array = True

    def __init__(self, buffer: Buffer, dtype: np.dtype, layout: Layout, device: Device):
        self.buffer, self.dtype, self.layout, self.device = buffer, dtype, layout, device

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.layout.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def pointer(self) -> int:
        """Device address of the first element."""
        return self.buffer.memory.address + self.layout.offset * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The protocol CuPy, Numba and PyTorch read; the export keeps this array alive."""
        if _compat.simulated():
            raise AttributeError("__cuda_array_interface__")  # host memory is no device memory
        size = self.dtype.itemsize
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": tuple(s * size for s in self.layout.strides),
            "version": 3,
            "stream": None,
        }

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise DeviceError(
            message("numpy", "the tensor's device", self.device, "cpu", "Call .cpu() first.")
        )

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> Any:
        self.__array__()

    # -- views ----------------------------------------------------------------------------------
    def view(self, shape: tuple[int, ...] | None = None) -> View:
        """What a kernel gets; broadcast to ``shape`` if given."""
        at = self.layout if shape is None or shape == self.shape else lay.expand(self.layout, shape)
        return View(self.buffer.memory, self.dtype, at.shape, at.strides, at.offset)

    def restride(self, layout: Layout) -> DeviceArray:
        """Another layout over the same buffer."""
        low, high = lay.extent(layout)
        if high > low and (low < 0 or high > self.buffer.memory.nbytes // self.dtype.itemsize):
            raise DeviceError(
                message("view", "the layout", layout, f"one inside the buffer of {self.layout}")
            )
        return DeviceArray(self.buffer, self.dtype, layout, self.device)

    def window(self, layout: Layout, base: Layout) -> DeviceArray:
        """``layout`` counted in a buffer that has these elements at ``base``; a copy if it has to be."""
        mine = self.layout
        if mine.strides != base.strides or mine.shape != base.shape:
            image = self.image(base)
            return image.restride(layout._replace(offset=layout.offset - lay.extent(base)[0]))
        return self.restride(layout._replace(offset=layout.offset + mine.offset - base.offset))

    def image(self, base: Layout) -> DeviceArray:
        """A copy stored with the strides of ``base``."""
        out = blank(base, self.dtype, self.device)
        out[...] = self
        return out

    def reshape(self, shape: tuple[int, ...]) -> DeviceArray:
        """The same elements in a new shape; copies where the layout needs it."""
        found = lay.reshape(self.layout, shape)
        if found is None:
            return self.copy().reshape(shape)
        return DeviceArray(self.buffer, self.dtype, found, self.device)

    # -- data -----------------------------------------------------------------------------------
    @guarded
    def copy(self) -> DeviceArray:
        """A contiguous copy."""
        out = empty(self.shape, self.dtype, self.device)
        self._launch(lambda: copy.convert(self.view(), out.view(), current_stream()))
        return out

    @guarded
    def astype(self, dtype: np.dtype) -> DeviceArray:
        """Converted elements in a new buffer (complex to real takes the real part)."""
        out = empty(self.shape, dtype, self.device)
        self._launch(lambda: copy.convert(self.view(), out.view(), current_stream()))
        return out

    def to_numpy(self) -> np.ndarray:
        """The elements on the host; waits for the device."""
        dense = self if lay.is_contiguous(self.layout) else self.copy()
        out = np.empty(self.shape, self.dtype)
        return dense._download(out)

    @guarded
    def _download(self, out: np.ndarray) -> np.ndarray:
        if out.size:
            flat = out.reshape(-1)
            start = self.layout.offset * self.dtype.itemsize

            def work() -> None:
                _finish(current_stream())
                _compat.download(self.buffer.memory, start, flat)

            self._launch(work)
        return out

    @guarded
    def __setitem__(self, key: Any, value: Any) -> None:
        """Write ``value`` (an array on this device or a number, broadcast) over all elements: key is ``...``."""
        if key is not Ellipsis:
            raise TypeError("a device array is written as a whole; restride() it first")
        src: Any
        if isinstance(value, DeviceArray):
            if value.buffer is self.buffer and value.layout != self.layout:
                value = value.copy()  # the two may overlap
            src = value.view(self.shape)
        elif isinstance(value, np.ndarray) and value.ndim:
            src = from_numpy(value, self.device).view(self.shape)
        else:
            src = number(np.asarray(value, self.dtype))
        self._launch(lambda: copy.convert(src, self.view(), current_stream()))

    def zeros_like(self) -> DeviceArray:
        """Zeros of the same shape, dtype and device."""
        return full(self.shape, self.dtype, self.device, 0)

    def ones_like(self) -> DeviceArray:
        """Ones of the same shape, dtype and device."""
        return full(self.shape, self.dtype, self.device, 1)

    def filled(self, shape: tuple[int, ...], dtype: np.dtype, value: Any) -> DeviceArray:
        """One number everywhere, on this device."""
        return full(shape, dtype, self.device, value)

    @staticmethod
    def from_scalar(value: np.ndarray) -> np.ndarray:
        """A number beside device arrays stays on the host: kernels take it by value."""
        return value

    def _launch(self, work: Callable[[], None]) -> None:
        launch(self.device, work)


def launch(device: Device, work: Callable[[], None]) -> None:
    """Run ``work`` with the device current."""
    with _compat.on_device(device.index or 0):
        work()


def _finish(stream: Any) -> None:
    if stream != 0:
        stream.synchronize()


@guarded
def empty(shape: tuple[int, ...], dtype: np.dtype, device: Device) -> DeviceArray:
    """Uninitialised contiguous memory from the device's pool."""
    nbytes = math.prod(shape) * dtype.itemsize
    buffer = Buffer(nbytes, device.index or 0, current_key())
    return DeviceArray(buffer, dtype, lay.contiguous(shape), device)


def full(shape: tuple[int, ...], dtype: np.dtype, device: Device, value: Any) -> DeviceArray:
    """One number everywhere."""
    out = empty(shape, dtype, device)
    out[...] = value
    return out


def blank(base: Layout, dtype: np.dtype, device: Device) -> DeviceArray:
    """Zeros stored with the strides of ``base`` (gaps are zero too), counted from its lowest element."""
    low, high = lay.extent(base)
    flat = full((max(high - low, 0),), dtype, device, 0)
    return flat.restride(Layout(base.shape, base.strides, base.offset - low))


@guarded
def from_numpy(array: np.ndarray, device: Device) -> DeviceArray:
    """A copy of a host array on the device."""
    out = empty(array.shape, array.dtype, device)
    if array.size:
        dense = np.ascontiguousarray(array)

        def work() -> None:
            _compat.upload(out.buffer.memory, dense)

        launch(device, work)
    return out


def number(value: np.ndarray) -> Any:
    """A 0-d (or stride-0) host array as the NumPy scalar a kernel takes by value."""
    if value.dtype.kind == "b":
        return np.uint8(value.flat[0])
    return value.astype(np.float32).flat[0] if value.dtype == np.float16 else value.flat[0]
