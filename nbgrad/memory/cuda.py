"""CUDA memory: one caching pool per device over numba's memory manager.

The pool holds large chunks and hands out blocks; freeing an array costs no driver call. Blocks belong to a stream: work
queued on that stream runs in order, so a freed block can be reused there at once.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from kernels_cuda import _compat

from .allocators import Memory
from .blocks import Block
from .pool import CachingPool

ALIGNMENT = 512  # bytes: what cudaMalloc gives, and a whole number of memory transactions


class CudaAllocator:
    """Chunks of device memory; in the simulator, host memory that stands for it."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self._owners: dict[int, Any] = {}  # the only references to numba's arrays

    def allocate(self, nbytes: int) -> Memory:
        """Return `nbytes` uninitialised bytes. Raises `MemoryError` when there is no room."""
        with _compat.on_device(self.index):
            raw = _compat.allocate(nbytes)
        self._owners[raw.address] = raw.owner
        return Memory(raw.address, raw.nbytes, raw._replace(owner=None))

    def release(self, memory: Memory) -> None:
        """Give the chunk back to the driver."""
        with _compat.on_device(self.index):
            del self._owners[memory.address]
            _compat.flush_frees()

    def record_event(self, stream: int) -> object:
        """Mark the present end of the work queued on `stream`."""
        if _compat.simulated():
            return None
        with _compat.on_device(self.index):
            event = _compat.numba_cuda().event(timing=False)
            event.record(stream_object(stream))
        return event

    def event_done(self, event: Any) -> bool:
        """Whether all work before `event` has finished; does not wait."""
        return event is None or bool(event.query())

    def wait_event(self, event: Any) -> None:
        """Wait until all work before `event` has finished."""
        if event is not None:
            event.synchronize()


_lock = threading.Lock()
_pools: dict[int, CachingPool] = {}
_streams: dict[int, Any] = {}


def cuda_pool(index: int = 0) -> CachingPool:
    """The pool of a device."""
    found = _pools.get(index)
    if found is None:
        with _lock:
            found = _pools.get(index)
            if found is None:
                allocator = CudaAllocator(index)
                name = f"cuda:{index}"
                found = _pools[index] = CachingPool(allocator, alignment=ALIGNMENT, name=name)
    return found


def register_stream(key: int, stream: Any) -> None:
    """Give a numba stream the number under which the pool knows it."""
    _streams[key] = stream


def stream_object(key: int) -> Any:
    """The numba stream of a number; 0 is the default stream."""
    return _streams.get(key, 0)


class Buffer:
    """A block that returns to its pool when the last array over it (or export of it) dies."""

    __slots__ = ("__weakref__", "block", "memory")

    def __init__(self, nbytes: int, index: int = 0, stream: int = 0):
        _compat.require()
        self.block: Block = cuda_pool(index).take(nbytes, stream)
        block = self.block
        raw = block.chunk.memory.buffer
        host = None
        if raw is not None and raw.host is not None:
            host = raw.host[block.offset : block.offset + nbytes]
        elif not nbytes and _compat.simulated():
            host = _EMPTY
        self.memory = _compat.Memory(block.address, nbytes, None, host)

    def __del__(self) -> None:
        try:
            block = self.block
        except AttributeError:  # the pool had no room for it
            return
        block.chunk.pool.free(block)


_EMPTY = np.empty(0, np.uint8)
