"""The books of a pool: what is free where, what was freed by whom, and how much of it there is.

*Frees come from finalisers*, which may run at any moment, also inside the pool while its lock is
held. So `free` takes no lock: it appends to a queue, and whoever enters the pool next empties it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbgrad.errors import ArgumentError, NbgradError, message
from nbgrad.memory import audit
from nbgrad.memory.allocators import Allocator
from nbgrad.memory.blocks import CACHED, DEAD, FREE, LIVE, QUEUED, WAITING, Block, Chunk, Shelf


class Books:
    """Chunks, blocks and counters of one pool, and everything that does not allocate."""

    def __init__(self, allocator: Allocator, alignment: int, name: str) -> None:
        self.allocator = allocator
        self.alignment = alignment
        self.name = name
        self.limit: int | None = None
        # An RLock, and a flag set while the books are open: a finaliser that comes in on the same
        # thread gets through the lock and finds the flag, instead of waiting for itself.
        self._lock = threading.RLock()
        self._busy = False
        self._returns: deque[Block | Chunk] = deque()
        self._waiting: deque[tuple[list[object], Block]] = deque()
        self._chunks: dict[int, Chunk] = {}
        self._shelves: dict[int, Shelf] = {}
        self._allocated = self._reserved = self._peak_allocated = self._peak_reserved = 0
        self._allocs = self._frees = self._empties = 0
        self._chunk_allocs = self._chunk_frees = self._retries = self._ooms = 0
        _pools.add(self)

    @contextmanager
    def _exclusive(self) -> Iterator[bool]:
        """Hold the lock; yields False inside a call of the same thread that holds it already."""
        with self._lock:
            if self._busy:
                yield False
                return
            self._busy = True
            try:
                yield True
            finally:
                self._busy = False

    @contextmanager
    def _at_rest(self, op: str) -> Iterator[None]:
        with self._exclusive() as outermost:
            if not outermost:
                raise NbgradError(
                    message(
                        op,
                        f"the {self.name} pool",
                        "in the middle of a call (of which this is a finaliser)",
                        "a pool at rest",
                        "Do not inspect the pool from a finaliser.",
                    )
                )
            self._drain()
            yield

    def free(self, block: Block) -> None:
        """Give a block back. May be called from any thread and from finalisers; never waits.

        Raises `ArgumentError` for a block that was freed before or is not this pool's.
        """
        if type(block) is not Block or block.chunk.pool is not self or block.state != LIVE:
            raise self._wrong_block("free", block)
        block.state = QUEUED
        self._returns.append(block)

    def record_stream(self, block: Block, stream: int) -> None:
        """Note that work on `stream` uses a block of another stream.

        After `free`, the block counts as allocated until that work has finished.
        Raises `ArgumentError` for a block that is not live.
        """
        if type(block) is not Block or block.chunk.pool is not self or block.state != LIVE:
            raise self._wrong_block("record_stream", block)
        if stream != block.stream and block.size:
            block.streams = (block.streams or set()) | {stream}

    def _wrong_block(self, op: str, block: object) -> ArgumentError:
        if not isinstance(block, Block):
            given = f"of type {type(block).__name__}"
        elif block.chunk.pool is not self:
            given = f"from another pool ({block.chunk.pool.name})"
        else:
            given = f"already freed ({block!r})"
        return ArgumentError(
            message(op, "the block", given, f"a live block of the {self.name} pool")
        )

    def _drain(self) -> None:
        """Enter what finalisers have queued into the books."""
        returns = self._returns
        while returns:
            item = returns[0]  # removed when done: an allocator that raises loses nothing
            if isinstance(item, Chunk):
                self._adopt(item)
            elif item.state == QUEUED:
                if item.streams:
                    events = [self.allocator.record_event(stream) for stream in item.streams]
                    item.state = WAITING
                    self._waiting.append((events, item))
                else:
                    self._reclaim(item)
            returns.popleft()
        waiting = self._waiting
        # In order, up to the first that is not ready: one question a call, not one a block.
        while waiting and all(map(self.allocator.event_done, waiting[0][0])):
            self._reclaim(waiting.popleft()[1])

    def _adopt(self, chunk: Chunk) -> None:
        self._register(chunk)
        self._allocs += 1
        self._allocated += chunk.size
        self._peak_allocated = max(self._peak_allocated, self._allocated)

    def _reclaim(self, block: Block) -> None:
        size = block.size
        self._frees += 1
        self._allocated -= size
        if not size:
            self._empties -= 1
            block.state = DEAD
            return
        block.state = CACHED
        cached = block.chunk.shelf.cached
        blocks = cached.get(size)
        if blocks is None:
            cached[size] = [block]
        else:
            blocks.append(block)

    def empty_cache(self) -> None:
        """Give every chunk that holds no live block back to the allocator.

        Waits for streams that still use freed blocks.
        """
        with self._exclusive() as outermost:
            if outermost:
                self._drain()
                self._await_streams()
                self._release_idle_chunks()

    def _await_streams(self) -> None:
        """Wait for the work that still uses freed blocks, and take these back."""
        while self._waiting:
            events, block = self._waiting[0]
            for event in events:
                self.allocator.wait_event(event)
            self._waiting.popleft()
            self._reclaim(block)

    def _release_idle_chunks(self) -> None:
        for shelf in list(self._shelves.values()):  # a finaliser may add one
            shelf.merge_cached()
        for chunk in list(self._chunks.values()):
            block = chunk.first
            if block is not None and block.state == FREE and block.next is None:
                # Out of the books before the allocator is called: should that raise, the memory
                # may be lost, but is not handed out again.
                chunk.spans.remove(block)
                block.state = DEAD
                del self._chunks[chunk.address]
                self._reserved -= chunk.size
                self._chunk_frees += 1
                self.allocator.release(chunk.memory)

    def _register(self, chunk: Chunk) -> None:
        self._chunks[chunk.address] = chunk
        self._chunk_allocs += 1
        self._reserved += chunk.size
        self._peak_reserved = max(self._peak_reserved, self._reserved)

    def counters(self) -> dict[str, int]:
        """The statistics that cost nothing to read; bytes where the name says so, else counts."""
        with self._exclusive() as outermost:
            if outermost:
                self._drain()
            return {
                "allocated_bytes": self._allocated,
                "allocated_bytes_peak": self._peak_allocated,
                "reserved_bytes": self._reserved,
                "reserved_bytes_peak": self._peak_reserved,
                "active_blocks": self._allocs - self._frees,
                "num_allocs": self._allocs,
                "num_frees": self._frees,
                "num_cache_hits": self._allocs - self._chunk_allocs,
                "num_chunk_allocs": self._chunk_allocs,
                "num_chunk_frees": self._chunk_frees,
                "num_retries": self._retries,
                "num_ooms": self._ooms,
            }

    def stats(self) -> dict[str, int]:
        """`counters()` and, from a walk over the chunks, `chunks` and `inactive_split_bytes`.

        The latter are free bytes in chunks that also hold live blocks: `empty_cache` cannot
        return them.
        """
        with self._at_rest("stats"):
            split = sum(audit.inactive_split_bytes(chunk) for chunk in self._chunks.values())
            return self.counters() | {"chunks": len(self._chunks), "inactive_split_bytes": split}

    def reset_peak_stats(self) -> None:
        """Set the peaks to the present values."""
        with self._exclusive() as outermost:
            if outermost:
                self._drain()
            self._peak_allocated = self._allocated
            self._peak_reserved = self._reserved

    def memory_summary(self) -> str:
        """The statistics as a table."""
        return audit.table(self.name, self.limit, self.stats())

    def snapshot(self) -> list[dict[str, Any]]:
        """Every chunk, in address order, with its blocks: addresses, sizes in bytes, states."""
        with self._at_rest("snapshot"):
            chunks = sorted(self._chunks.values(), key=lambda chunk: chunk.address)
            return [audit.describe(chunk) for chunk in chunks]

    def check(self) -> None:
        """Verify every invariant; raises `AssertionError` naming the first that does not hold."""
        with self._at_rest("check"):
            audit.check(self)


# ---- fork ----------------------------------------------------------------------------------

_pools: weakref.WeakSet[Books] = weakref.WeakSet()
_held: list[Books] = []


def _before_fork() -> None:
    # A fork while another thread is inside would copy a pool with its books half written.
    pools = sorted(_pools, key=id)  # in one order, or two forks at once could block each other
    for pool in pools:
        pool._lock.acquire()
    _held[:] = pools


def _after_fork_in_parent() -> None:
    pools = _held[:]
    _held.clear()
    for pool in pools:
        pool._lock.release()


def _after_fork_in_child() -> None:
    for pool in _held:
        pool._lock = threading.RLock()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
