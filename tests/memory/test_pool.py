"""The caching pool over mock memory: reuse, streams, statistics, errors of the caller."""

from __future__ import annotations

import random
from typing import Any

import pytest

from nbgrad.errors import ArgumentError, OutOfMemoryError
from nbgrad.memory import CachingPool, HostAllocator, MemoryPool, MockAllocator
from nbgrad.memory.blocks import size_class

KIB = 1024
MIB = 1024 * KIB


def make_pool(**options: Any) -> CachingPool:
    bounds = {key: options.pop(key) for key in ("total", "fail_after") if key in options}
    return CachingPool(MockAllocator(**bounds), **{"chunk_bytes": MIB, **options})


def stat(pool: CachingPool, name: str) -> int:
    return pool.stats()[name]


# ---- size classes, splitting, merging --------------------------------------------------------


@pytest.mark.parametrize("alignment", [1, 64, 512])
def test_size_classes_are_aligned_monotonic_and_lose_little(alignment: int) -> None:
    last = 0
    for nbytes in [*range(1, 5000), *(random.Random(0).randrange(1, 1 << 40) for _ in range(2000))]:
        size = size_class(nbytes, alignment)
        assert size % alignment == 0
        assert nbytes <= size < nbytes + max(alignment, min(nbytes / 16 + 1, 2 * MIB))
        assert size_class(size, alignment) == size
        if nbytes < 5000:
            assert size >= last
            last = size


def test_small_requests_share_a_chunk_and_merge_again() -> None:
    pool = make_pool()
    blocks = [pool.malloc(10 * KIB) for _ in range(20)]
    assert stat(pool, "num_chunk_allocs") == 1
    assert len({block.address for block in blocks}) == 20
    for block in blocks:
        block.free()
    whole = pool.malloc(256 * KIB)  # needs the neighbours merged
    pool.check()
    assert stat(pool, "num_chunk_allocs") == 1
    assert whole.size == 256 * KIB


def test_best_fit_takes_the_smallest_gap_that_is_large_enough() -> None:
    pool = make_pool()
    gaps, walls = [], []
    for size in (64 * KIB, 16 * KIB, 32 * KIB):
        gaps.append(pool.malloc(size))
        walls.append(pool.malloc(64))
    addresses = [gap.address for gap in gaps]
    for gap in gaps:
        gap.free()
    pool.empty_cache()  # cannot release the chunk, but merges
    assert pool.malloc(15 * KIB).address == addresses[1]
    assert pool.malloc(20 * KIB).address == addresses[2]
    assert pool.malloc(40 * KIB).address == addresses[0]
    assert len(walls) == 3
    pool.check()


def test_a_freed_block_is_reused_for_the_same_size_without_the_allocator() -> None:
    pool = make_pool()
    first = pool.malloc(5 * MIB)
    address = first.address
    first.free()
    second = pool.malloc(5 * MIB - 100)  # same size class
    assert second.address == address
    assert second is not first
    assert stat(pool, "num_cache_hits") == 1


def test_a_large_chunk_is_split_when_the_rest_is_worth_it() -> None:
    pool = make_pool()
    pool.malloc(8 * MIB).free()
    half = pool.malloc(4 * MIB)
    assert half.size == 4 * MIB
    assert stat(pool, "inactive_split_bytes") == 4 * MIB
    half.free()
    almost = pool.malloc(7 * MIB + 512 * KIB)
    assert almost.size == 8 * MIB  # half a megabyte beside eight would only lie about
    assert stat(pool, "num_chunk_allocs") == 1
    pool.check()


def test_a_small_block_does_not_pin_a_large_chunk() -> None:
    pool = make_pool()
    pool.malloc(8 * MIB).free()
    small = pool.malloc(KIB)
    large = pool.malloc(8 * MIB)
    assert stat(pool, "num_chunk_allocs") == 2
    assert small.chunk is not large.chunk


def test_an_odd_size_under_a_limit_is_reused_without_merging() -> None:
    pool = make_pool(limit=100 * MIB)
    blocks = [pool.malloc(nbytes) for nbytes in (10 * MIB + 1, 20 * MIB + 1)]
    address = blocks[0].address
    for block in blocks:
        block.free()
    assert pool.malloc(10 * MIB + 1).address == address
    assert [chunk["blocks"][0]["state"] for chunk in pool.snapshot()] == ["live", "cached"]


def test_sizes_that_do_not_come_back_are_forgotten() -> None:
    pool = make_pool()
    for size in range(64, 200 * 64, 64):
        pool.malloc(size).free()
        pool.empty_cache()
    pool.malloc(KIB)
    assert len(pool._shelves[0].small.sizes) < 5


def test_growing_requests_do_not_leave_a_trail_of_chunks() -> None:
    pool = make_pool()
    for size in range(4 * MIB, 200 * MIB, MIB):
        pool.malloc(size).free()
    counters = pool.counters()
    bound = 2 * counters["allocated_bytes_peak"] + pool.chunk_bytes
    assert counters["reserved_bytes_peak"] <= bound
    pool.check()


@pytest.mark.parametrize("alignment", [64, 512])
def test_every_address_is_aligned(alignment: int) -> None:
    pool = CachingPool(HostAllocator(alignment), alignment=alignment, chunk_bytes=MIB)
    blocks = [pool.malloc(n) for n in (1, 63, 65, 1000, 300 * KIB, 2 * MIB + 1)]
    assert all(block.address % alignment == 0 for block in blocks)
    pool.check()


def test_a_host_block_is_memory_one_can_write() -> None:
    pool = MemoryPool(chunk_bytes=MIB)
    one, two = pool.alloc(100), pool.alloc(100)
    for block, value in ((one, 1), (two, 2)):
        block.chunk.buffer[block.offset : block.offset + block.nbytes] = value
    assert set(one.chunk.buffer[one.offset : one.offset + 100]) == {1}


@pytest.mark.parametrize("alignment", [0, -64, 48])
def test_alignment_must_be_a_power_of_two(alignment: int) -> None:
    with pytest.raises(ArgumentError, match="alignment"):
        CachingPool(MockAllocator(), alignment=alignment)


# ---- errors of the caller --------------------------------------------------------------------


def test_double_free_is_an_error_also_after_the_memory_went_to_somebody_else() -> None:
    pool = make_pool()
    old = pool.malloc(1000)
    old.free()
    with pytest.raises(ArgumentError, match="already freed"):
        old.free()
    new = pool.malloc(1000)
    assert new.address == old.address
    with pytest.raises(ArgumentError, match="already freed"):
        pool.free(old)
    pool.check()
    assert stat(pool, "active_blocks") == 1


def test_foreign_blocks_are_refused() -> None:
    pool, other = make_pool(), make_pool(name="other")
    with pytest.raises(ArgumentError, match=r"another pool \(other\)"):
        pool.free(other.malloc(10))
    with pytest.raises(ArgumentError, match="of type int"):
        pool.free(12345)  # type: ignore[arg-type]
    assert stat(other, "active_blocks") == 1


def test_zero_bytes_are_valid_even_without_any_room() -> None:
    pool = make_pool(limit=0)
    block = pool.malloc(0)
    assert (block.size, block.address) == (0, 0)
    assert stat(pool, "active_blocks") == 1
    block.free()
    assert stat(pool, "active_blocks") == 0
    assert stat(pool, "reserved_bytes") == 0
    with pytest.raises(ArgumentError, match="already freed"):
        block.free()
    pool.check()


def test_wrong_sizes_and_limits() -> None:
    pool = make_pool()
    with pytest.raises(ArgumentError, match="'nbytes' is -1"):
        pool.malloc(-1)
    with pytest.raises(TypeError):
        pool.malloc(1.5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'nbytes' is -5"):
        pool.set_limit(-5)
    assert stat(pool, "num_allocs") == 0


# ---- streams ---------------------------------------------------------------------------------


def test_streams_do_not_share_blocks() -> None:
    pool = make_pool()
    block = pool.malloc(1000, stream=1)
    block.free()
    assert pool.malloc(1000, stream=2).address != block.address
    assert block.stream == 1
    pool.check()


def test_a_block_used_on_another_stream_returns_when_that_stream_is_done() -> None:
    allocator = MockAllocator()
    pool = CachingPool(allocator, chunk_bytes=MIB)
    block = pool.malloc(4 * MIB, stream=1)
    pool.record_stream(block, 1)  # its own: nothing to wait for
    pool.record_stream(block, 2)
    block.free()
    assert pool.malloc(4 * MIB, stream=1).address != block.address
    assert stat(pool, "active_blocks") == 2
    assert pool.snapshot()[0]["blocks"][0]["state"] == "waiting"
    pool.check()
    allocator.finish(1)
    assert stat(pool, "active_blocks") == 2
    allocator.finish(2)
    assert stat(pool, "active_blocks") == 1
    assert pool.malloc(4 * MIB, stream=1).address == block.address
    pool.check()


def test_a_block_of_no_bytes_waits_for_nothing() -> None:
    pool = make_pool()
    block = pool.malloc(0)
    pool.record_stream(block, 3)
    block.free()
    assert stat(pool, "active_blocks") == 0
    pool.check()


def test_running_out_waits_for_the_streams() -> None:
    allocator = MockAllocator(total=6 * MIB)
    pool = CachingPool(allocator, chunk_bytes=MIB)
    block = pool.malloc(4 * MIB)
    pool.record_stream(block, 7)
    block.free()
    assert pool.malloc(5 * MIB).nbytes == 5 * MIB
    pool.check()
    with pytest.raises(ArgumentError, match="record_stream: the block is already freed"):
        pool.record_stream(block, 7)


# ---- statistics ------------------------------------------------------------------------------


def test_peaks_and_their_reset() -> None:
    pool = make_pool()
    one, two = pool.malloc(4 * MIB), pool.malloc(2 * MIB)
    one.free()
    assert stat(pool, "allocated_bytes") == 2 * MIB
    assert stat(pool, "allocated_bytes_peak") == 6 * MIB
    pool.empty_cache()
    assert stat(pool, "reserved_bytes") == 2 * MIB
    assert stat(pool, "reserved_bytes_peak") == 6 * MIB
    pool.reset_peak_stats()
    assert stat(pool, "allocated_bytes_peak") == stat(pool, "reserved_bytes_peak") == 2 * MIB
    two.free()


def test_summary_and_snapshot() -> None:
    pool = make_pool(limit=64 * MIB, name="mine")
    pool.malloc(1000)
    pool.malloc(3 * MIB)
    summary = pool.memory_summary()
    assert "memory pool 'mine'" in summary
    assert "64.00 MiB (67108864)" in summary
    snapshot = pool.snapshot()
    assert [chunk["large"] for chunk in snapshot] == [False, True]
    assert sum(chunk["allocated"] for chunk in snapshot) == stat(pool, "allocated_bytes")
    assert [block["state"] for block in snapshot[0]["blocks"]] == ["live", "free"]
    assert snapshot[0]["blocks"][0]["requested"] == 1000
    for chunk in snapshot:
        assert sum(block["size"] for block in chunk["blocks"]) == chunk["size"]


@pytest.mark.parametrize("damage", ["size", "link", "state", "statistic", "list"])
def test_check_finds_damage(damage: str) -> None:
    pool = make_pool()
    one, two = pool.malloc(1000), pool.malloc(1000)
    two.free()
    pool.check()
    if damage == "size":
        one.size += 64
    elif damage == "link":
        two.prev = None
    elif damage == "state":
        one.state = 4
    elif damage == "statistic":
        pool._allocated += 1
    else:
        pool._shelves[0].cached.clear()
    with pytest.raises(AssertionError):
        pool.check()


# ---- the mock itself -------------------------------------------------------------------------


def test_the_mock_finds_leaks_and_double_frees() -> None:
    allocator = MockAllocator()
    memory = allocator.allocate(100)
    with pytest.raises(AssertionError, match=r"1 chunks \(100 bytes\)"):
        allocator.assert_no_leak()
    allocator.release(memory)
    with pytest.raises(ArgumentError, match="not yet released"):
        allocator.release(memory)
    allocator.assert_no_leak()


def test_host_memory_beyond_any_address_space_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        HostAllocator().allocate(1 << 62)
    with pytest.raises(OutOfMemoryError):
        MemoryPool().alloc(1 << 70)
