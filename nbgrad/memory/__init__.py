"""Memory of the CPU: statistics, limits and scopes of the process-wide pool.

Results of 64 KiB and more live in the pool; smaller ones use NumPy's allocator and are in none of
these numbers. All sizes are in bytes.
"""

from __future__ import annotations

from typing import Any

from nbgrad.memory.allocators import Allocator, HostAllocator, Memory, MockAllocator
from nbgrad.memory.blocks import Block
from nbgrad.memory.host import cpu_pool
from nbgrad.memory.pool import CachingPool, MemoryPool
from nbgrad.memory.scope import current_scopes, scope

__all__ = [
    "Allocator",
    "Block",
    "CachingPool",
    "HostAllocator",
    "Memory",
    "MemoryPool",
    "MockAllocator",
    "cpu_pool",
    "current_scopes",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "scope",
    "set_limit",
]


def memory_allocated() -> int:
    """Bytes in live blocks; sizes are rounded up to size classes."""
    return cpu_pool().counters()["allocated_bytes"]


def memory_reserved() -> int:
    """Bytes held in chunks, in use or cached."""
    return cpu_pool().counters()["reserved_bytes"]


def max_memory_allocated() -> int:
    """The most bytes allocated at once since the start or `reset_peak_memory_stats`."""
    return cpu_pool().counters()["allocated_bytes_peak"]


def max_memory_reserved() -> int:
    """The most bytes reserved at once since the start or `reset_peak_memory_stats`."""
    return cpu_pool().counters()["reserved_bytes_peak"]


def reset_peak_memory_stats() -> None:
    """Let the peaks start again from the present values."""
    cpu_pool().reset_peak_stats()


def memory_stats() -> dict[str, int]:
    """Every statistic by name; see `CachingPool.stats`."""
    return cpu_pool().stats()


def memory_summary() -> str:
    """The statistics as a table."""
    return cpu_pool().memory_summary()


def memory_snapshot() -> list[dict[str, Any]]:
    """Every chunk with its blocks; see `CachingPool.snapshot`."""
    return cpu_pool().snapshot()


def empty_cache() -> None:
    """Give chunks without live blocks back to the system."""
    cpu_pool().empty_cache()


def set_limit(nbytes: int | None) -> None:
    """Bound the bytes held in chunks; None lifts the bound. Raises `ArgumentError` if negative."""
    cpu_pool().set_limit(nbytes)
