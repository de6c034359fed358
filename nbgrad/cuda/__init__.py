"""CUDA: devices, streams and memory; tensors get there with ``.cuda()``, ``.to('cuda')`` or ``device='cuda'``.

Importing this module starts nothing: `numba.cuda` is imported when a device is asked for.
"""

from __future__ import annotations

from typing import Any

from kernels_cuda import _compat

from ..memory.allocators import MockAllocator
from ..memory.cuda import CudaAllocator, cuda_pool
from ..memory.pool import MemoryPool
from .array import DeviceArray, guarded
from .streams import Stream, stream
from .transfer import checked, to_device

FakeBackend = MockAllocator

__all__ = [
    "CudaAllocator",
    "DeviceArray",
    "FakeBackend",
    "MemoryPool",
    "Stream",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "set_limit",
    "stream",
    "synchronize",
    "to_device",
]


def is_available() -> bool:
    """Whether tensors can live on ``cuda``: numba-cuda, a driver and a device (or the simulator)."""
    return _compat.available()


def device_count() -> int:
    """Number of devices; 0 where CUDA cannot be used."""
    return _compat.device_count()


def _native(device: Any = None) -> Any:
    target = checked("cuda" if device is None else device)
    return _compat.numba_cuda().gpus[target.index or 0]


def current_device() -> int:
    """Index of the device that ``'cuda'`` means. Raises DeviceError without one."""
    return checked("cuda").index or 0


def get_device_name(device: Any = None) -> str:
    """The device's name."""
    if _compat.simulated():
        return "numba simulator"
    name = _native(device).name
    return name.decode() if isinstance(name, bytes) else str(name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, e.g. ``(9, 0)``."""
    found = _native(device).compute_capability
    return int(found[0]), int(found[1])


@guarded
def synchronize(device: Any = None) -> None:
    """Wait until the device has done everything it was given."""
    target = checked("cuda" if device is None else device)
    with _compat.on_device(target.index or 0):
        _compat.require().synchronize()


def _pool(device: Any) -> Any:
    text = f"cuda:{device}" if isinstance(device, int) else str(device or "cuda")
    return cuda_pool(int(text.partition(":")[2] or 0))


def memory_allocated(device: Any = None) -> int:
    """Bytes in live blocks of the device's pool; sizes are rounded up to size classes."""
    return _pool(device).counters()["allocated_bytes"]


def memory_reserved(device: Any = None) -> int:
    """Bytes the pool holds on the device, in use or cached."""
    return _pool(device).counters()["reserved_bytes"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes allocated at once since the start or `reset_peak_memory_stats`."""
    return _pool(device).counters()["allocated_bytes_peak"]


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes reserved at once since the start or `reset_peak_memory_stats`."""
    return _pool(device).counters()["reserved_bytes_peak"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks start again from the present values."""
    _pool(device).reset_peak_stats()


def memory_stats(device: Any = None) -> dict[str, int]:
    """Every statistic by name."""
    return _pool(device).stats()


def memory_summary(device: Any = None) -> str:
    """The statistics as a table."""
    return _pool(device).memory_summary()


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """Every chunk with its blocks."""
    return _pool(device).snapshot()


def empty_cache(device: Any = None) -> None:
    """Give cached chunks back to the driver."""
    _pool(device).empty_cache()


def set_limit(nbytes: int | None, device: Any = None) -> None:
    """Bound the bytes the pool holds on the device; None lifts the bound."""
    _pool(device).set_limit(nbytes)
