"""Random histories of a pool against a model of it: nothing overlaps, leaks or is miscounted."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from nbgrad.errors import ArgumentError, OutOfMemoryError
from nbgrad.memory import Block, CachingPool, MockAllocator, current_scopes, scope

KIB = 1024
CHUNK = 64 * KIB
SIZES = st.one_of(
    st.sampled_from([0, 1, 63, 64, 65, 1000, 4 * KIB, 16 * KIB, 17 * KIB, CHUNK, 100 * KIB]),
    st.integers(0, 2 * KIB),
    st.integers(0, 3 * CHUNK),
)
STREAMS = st.integers(0, 2)


class PoolMachine(RuleBasedStateMachine):
    """The model: the blocks that are live, those that wait for a stream, and the open scopes."""

    blocks = Bundle("blocks")

    @initialize(
        limit=st.none() | st.integers(0, 6 * CHUNK),
        total=st.none() | st.integers(0, 6 * CHUNK),
        fail_after=st.none() | st.integers(0, 20),
        alignment=st.sampled_from([1, 64, 512]),
    )
    def start(
        self, limit: int | None, total: int | None, fail_after: int | None, alignment: int
    ) -> None:
        self.allocator = MockAllocator(total, fail_after)
        self.pool = CachingPool(self.allocator, limit=limit, chunk_bytes=CHUNK, alignment=alignment)
        self.live: dict[Block, int] = {}  # to the bytes asked for
        self.waiting: dict[Block, set[int]] = {}  # to the streams waited for
        self.used_on: dict[Block, set[int]] = {}
        self.scopes: list[tuple[scope, list[Block], list[Block]]] = []  # created, kept
        self.peak = self.allocs = self.ooms = 0

    # ---- actions ----

    def must_fit(self, nbytes: int) -> bool:
        """Whether there is room beside the chunks that live blocks pin, without any rounding."""
        pinned = sum(chunk.size for chunk in {block.chunk for block in self.live})
        bounds = [b for b in (self.pool.limit, self.allocator.total) if b is not None]
        if self.allocator.fail_after is not None:
            return nbytes == 0
        return nbytes == 0 or all(pinned + nbytes <= bound for bound in bounds)

    @rule(target=blocks, nbytes=SIZES, stream=STREAMS)
    def malloc(self, nbytes: int, stream: int):
        fits = self.must_fit(nbytes)
        retries = self.pool.counters()["num_retries"]
        try:
            block = self.pool.malloc(nbytes, stream)
        except OutOfMemoryError:
            assert not fits
            self.ooms += 1
            block = None
        if self.pool.counters()["num_retries"] > retries:
            self.waiting.clear()  # short of memory, it waited for all streams
        if block is None:
            return multiple()
        assert block not in self.live
        assert block.nbytes == nbytes <= block.size
        assert block.stream == stream
        self.live[block] = nbytes
        self.allocs += 1
        if self.scopes:
            self.scopes[-1][1].append(block)
        self.forget_finished()
        self.peak = max(self.peak, self.allocated())
        return block

    @rule(block=consumes(blocks))
    def free(self, block: Block) -> None:
        if block not in self.live:
            with pytest.raises(ArgumentError):
                block.free()
            return
        block.free()
        self.gone(block)
        with pytest.raises(ArgumentError):
            self.pool.free(block)

    @rule(block=blocks, stream=STREAMS)
    def record_stream(self, block: Block, stream: int) -> None:
        if block in self.live:
            self.pool.record_stream(block, stream)
            if stream != block.stream:
                self.used_on.setdefault(block, set()).add(stream)

    @rule(stream=STREAMS)
    def finish_stream(self, stream: int) -> None:
        self.pool.counters()  # the pool records its events when it next looks
        self.allocator.finish(stream)
        for streams in self.waiting.values():
            streams.discard(stream)

    @rule()
    def empty_cache(self) -> None:
        self.pool.empty_cache()
        self.waiting.clear()
        for chunk in self.pool.snapshot():
            assert chunk["allocated"] > 0

    @rule(limit=st.none() | st.integers(0, 8 * CHUNK))
    def set_limit(self, limit: int | None) -> None:
        self.pool.set_limit(limit)

    @rule()
    def more_memory(self) -> None:
        self.allocator.fail_after = self.allocator.total = None

    @rule()
    def reset_peaks(self) -> None:
        self.pool.reset_peak_stats()
        self.peak = self.allocated()

    @precondition(lambda self: len(self.scopes) < 3)
    @rule()
    def open_scope(self) -> None:
        self.scopes.append((scope().__enter__(), [], []))

    @precondition(lambda self: self.scopes)
    @rule(block=blocks)
    def keep(self, block: Block) -> None:
        self.scopes[-1][0].keep(block)
        self.scopes[-1][2].append(block)

    @precondition(lambda self: self.scopes)
    @rule()
    def close_scope(self) -> None:
        opened, created, kept = self.scopes.pop()
        opened.__exit__(None, None, None)
        for block in created:
            if block in kept:
                if self.scopes:
                    self.scopes[-1][1].append(block)
            elif block in self.live:
                self.gone(block)

    # ---- the model ----

    def gone(self, block: Block) -> None:
        del self.live[block]
        streams = self.used_on.pop(block, set())
        if block.size and streams:
            self.waiting[block] = streams

    def forget_finished(self) -> None:
        """Blocks come back in the order they were freed, up to the first that still waits."""
        for block, streams in list(self.waiting.items()):
            if streams:
                break
            del self.waiting[block]

    def allocated(self) -> int:
        return sum(block.size for block in (*self.live, *self.waiting))

    @invariant()
    def sound(self) -> None:
        if not hasattr(self, "pool"):
            return
        self.pool.check()
        self.forget_finished()
        stats = self.pool.stats()
        assert stats["active_blocks"] == len(self.live) + len(self.waiting)
        assert stats["allocated_bytes"] == self.allocated()
        assert stats["allocated_bytes_peak"] == max(self.peak, self.allocated())
        assert stats["reserved_bytes"] == self.allocator.used
        assert stats["chunks"] == len(self.allocator.live)
        assert stats["num_allocs"] == self.allocs
        assert stats["num_chunk_allocs"] == self.allocator.num_allocates
        assert stats["num_ooms"] == self.ooms

    @invariant()
    def no_overlap(self) -> None:
        if not hasattr(self, "pool"):
            return
        held = [b for b in (*self.live, *self.waiting) if b.size]
        held.sort(key=lambda block: block.address)
        for one, two in pairwise(held):
            assert one.address + one.size <= two.address
        for block in held:
            assert block.address % self.pool.alignment == 0

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        while self.scopes:
            self.close_scope()
        assert not current_scopes()
        for block in list(self.live):
            block.free()
        self.pool.empty_cache()
        self.pool.check()
        self.allocator.assert_no_leak()
        assert self.pool.counters()["active_blocks"] == 0


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestPoolMachine = PoolMachine.TestCase
