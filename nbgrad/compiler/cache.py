"""The disk cache of machine code: what is in it, emptying it."""

from __future__ import annotations

from typing import Any, NamedTuple

from kernels_cpu import objcache


class CacheInfo(NamedTuple):
    """The directory (None: caching is off), its entries and bytes, its limit, and what this process did."""

    directory: Any
    entries: int
    bytes: int
    limit: int
    hits: int
    misses: int
    evicted: int


def cache_info() -> CacheInfo:
    """See `nbgrad.cache_info`."""
    found = objcache.entries()
    c = objcache.Counters
    return CacheInfo(
        objcache.cache_dir(),
        len(found),
        sum(size for _, size, _ in found),
        objcache.limit(),
        c.hits,
        c.misses,
        c.evicted,
    )


def clear_cache() -> int:
    """See `nbgrad.clear_cache`."""
    return objcache.evict(0)
