"""Looking at a pool from outside: tables, snapshots and the check of its invariants."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nbgrad.memory.blocks import (
    CACHED,
    FREE,
    LIVE,
    QUEUED,
    STATE_NAMES,
    WAITING,
    Block,
    Chunk,
    FreeSpans,
)

if TYPE_CHECKING:
    from nbgrad.memory.books import Books

ALLOCATED = (LIVE, QUEUED, WAITING)


def readable(nbytes: int) -> str:
    """A number of bytes as people read it, exact where that is not the same: `1.50 KiB (1536)`."""
    if nbytes < 1024:
        return f"{nbytes} B"
    power = min((nbytes.bit_length() - 1) // 10, 6)
    return f"{nbytes / 1024**power:.2f} {'KMGTPE'[power - 1]}iB ({nbytes})"


def table(name: str, limit: int | None, stats: dict[str, int]) -> str:
    """Statistics of a pool, one to a line."""
    rows = [("limit", "none" if limit is None else readable(limit))]
    for key, value in stats.items():
        is_bytes = "bytes" in key
        label = key.replace("num_", "").replace("_bytes", "").replace("_", " ")
        rows.append((label, readable(value) if is_bytes else str(value)))
    left = max(len(label) for label, _ in rows)
    right = max(len(value) for _, value in rows)
    rule = "-" * (left + right + 3)
    lines = [f"{label:<{left}} | {value:>{right}}" for label, value in rows]
    return "\n".join([f"memory pool '{name}'", rule, *lines, rule])


def describe(chunk: Chunk) -> dict[str, Any]:
    """A chunk and its blocks as plain data; sizes in bytes."""
    blocks = [
        {
            "address": block.address,
            "size": block.size,
            "requested": block.nbytes if block.state in ALLOCATED else 0,
            "state": STATE_NAMES[block.state],
        }
        for block in chunk.blocks()
    ]
    return {
        "address": chunk.address,
        "size": chunk.size,
        "stream": chunk.shelf.stream,
        "large": chunk.spans is chunk.shelf.large,
        "allocated": sum(b.size for b in chunk.blocks() if b.state in ALLOCATED),
        "blocks": blocks,
    }


def inactive_split_bytes(chunk: Chunk) -> int:
    """The free bytes of a chunk that is partly in use; 0 for one that is not in use at all."""
    blocks = chunk.blocks()
    idle = sum(block.size for block in blocks if block.state not in ALLOCATED)
    return idle if idle < chunk.size else 0


def require(condition: bool, text: str) -> None:
    """Raise `AssertionError`, also under `python -O`."""
    if not condition:
        raise AssertionError(text)


def check(pool: Books) -> None:
    """Verify the chunks, the free lists and the statistics of a pool at rest."""
    blocks: list[Block] = []
    for address, chunk in pool._chunks.items():
        require(chunk.address == address, f"chunk at {chunk.address:#x} is filed at {address:#x}")
        check_tiling(chunk, pool.alignment)
        blocks += chunk.blocks()
    for one, two in pairwise(sorted(pool._chunks.items())):
        require(one[0] + one[1].size <= two[0], f"chunks overlap at {two[0]:#x}")
    check_free_lists(pool, blocks)
    check_statistics(pool, blocks)


def check_tiling(chunk: Chunk, alignment: int) -> None:
    """The blocks cover the chunk without gap or overlap, are linked, aligned and merged."""
    end, before = 0, None
    for block in chunk.blocks():
        require(block.chunk is chunk, f"{block} belongs to another chunk")
        require(block.prev is before, f"{block} is not linked to the block before it")
        require(block.offset == end, f"{block} leaves a gap or an overlap")
        require(block.address % alignment == 0, f"{block} is not aligned to {alignment}")
        require(block.size >= max(block.nbytes, 1) or block.state == FREE, f"{block} is too small")
        both_free = before is not None and before.state == FREE and block.state == FREE
        require(not both_free, f"{block} and the one before it are not merged")
        end, before = end + block.size, block
    require(end == chunk.size, f"blocks cover {end} bytes of a chunk of {chunk.size}")


def check_free_lists(pool: Books, blocks: list[Block]) -> None:
    """Free and cached blocks are in the list of their size and stream, and nothing else is."""
    spans: list[FreeSpans] = []
    cached = 0
    for stream, shelf in pool._shelves.items():
        require(shelf.stream == stream, f"the shelf of stream {shelf.stream} is at {stream}")
        spans += [shelf.small, shelf.large]
        cached += sum(map(len, shelf.cached.values()))
    for each in spans:
        require(each.sizes == sorted(each.bins), "the sorted sizes are not those of the bins")
    by_state = [[block for block in blocks if block.state == state] for state in range(FREE + 1)]
    for block in by_state[FREE]:
        require(block in block.chunk.spans.bins.get(block.size, ()), f"{block} is in no free list")
    for block in by_state[CACHED]:
        require(block in block.chunk.shelf.cached.get(block.size, ()), f"{block} is not cached")
    in_bins = sum(len(bin_) for each in spans for bin_ in each.bins.values())
    require(in_bins == len(by_state[FREE]), "a free list holds a block that is not free")
    require(cached == len(by_state[CACHED]), "a cache list holds a block that is not cached")
    require(len(pool._waiting) == len(by_state[WAITING]), "a block waits in no queue")
    require(sum(map(len, by_state)) == len(blocks), "a dead block is linked into a chunk")


def check_statistics(pool: Books, blocks: list[Block]) -> None:
    """The counters are what a walk over the chunks finds."""
    allocated = [block.size for block in blocks if block.state in ALLOCATED]
    reserved = sum(chunk.size for chunk in pool._chunks.values())
    active = pool._allocs - pool._frees
    for name, counted, found in (
        ("allocated bytes", pool._allocated, sum(allocated)),
        ("reserved bytes", pool._reserved, reserved),
        ("active blocks", active - pool._empties, len(allocated)),
        ("chunks", pool._chunk_allocs - pool._chunk_frees, len(pool._chunks)),
    ):
        require(counted == found, f"{name}: counted {counted}, found {found}")
    require(pool._peak_allocated >= pool._allocated, "the peak is below what is allocated")
    require(pool._peak_reserved >= pool._reserved, "the peak is below what is reserved")
