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
    """State of the disk cache of kernels and compiled programs.

    ``NBGRAD_CACHE_DIR`` chooses the directory ("off" turns it off), ``NBGRAD_CACHE_LIMIT`` its size in MiB.
    """
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
    """Remove every entry of the disk cache; returns how many went. Code in use stays loaded."""
    return objcache.evict(0)
