"""CPU results: NumPy arrays over blocks of the process-wide pool.

Below `THRESHOLD` NumPy's own allocator is the faster one. Above it, and much more so above the
size from which the C library maps and unmaps pages, reuse wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from nbgrad.memory.allocators import HostAllocator
from nbgrad.memory.blocks import Block
from nbgrad.memory.pool import CachingPool

THRESHOLD = 64 * 1024

_pool = CachingPool(HostAllocator(), name="cpu")
_take = _pool.take
_new = np.ndarray.__new__


def cpu_pool() -> CachingPool:
    """The pool behind `empty`, one to a process."""
    return _pool


class BlockOwner(np.ndarray):
    """The link between exported arrays and their block, which it frees when the last of them dies.

    NumPy lets `base` skip over a link only where the link after it has the type of the new array.
    Exports are plain ndarrays and the memory behind an owner is a `ChunkArray`, so no view, reshape,
    transpose or buffer of an export gets past the owner.
    """

    __slots__ = ("_block",)
    _block: Block

    def __del__(self) -> None:
        # Runs at any moment, also at interpreter shutdown: `free` only appends to a queue, and
        # nothing here looks up a global. Views that someone makes with this type have no block.
        try:
            block = self._block
        except AttributeError:
            return
        block.chunk.pool.free(block)


def empty(shape: int | Sequence[int], dtype: Any = np.float64) -> np.ndarray:
    """Return an uninitialised C-contiguous array, from the pool if it is `THRESHOLD` bytes or more.

    Arrays from the pool are aligned to 64 bytes. Raises `OutOfMemoryError`, and what `np.empty`
    raises for a wrong shape or dtype.
    """
    dtype = np.dtype(dtype)
    if type(shape) is not tuple:
        shape = _as_tuple(shape)
    nbytes = dtype.itemsize
    for length in shape:
        if type(length) is not int:  # a NumPy integer, whose product could overflow
            return empty(_as_tuple(shape), dtype)
        nbytes *= length
    if nbytes < THRESHOLD or dtype.hasobject:
        return np.empty(shape, dtype)
    block = _take(nbytes)
    chunk = block.chunk
    try:
        owner = _new(BlockOwner, shape, dtype, chunk.buffer, block.offset)
    except BaseException:
        _pool.free(block)
        raise
    owner._block = block
    return owner.view(np.ndarray)


def _as_tuple(shape: Any) -> tuple[int, ...]:
    try:
        return (int(index(shape)),)
    except TypeError:
        return tuple(int(index(length)) for length in shape)
