"""The pieces of a pool: chunks, the blocks that tile them, and free lists searched by best fit.

The blocks of a chunk form a doubly linked list in address order. A `Block` is also the handle
that `CachingPool.malloc` returns, and a handle is never used twice: a block that was freed either
stands for free memory or is dead, and the next allocation of that memory is a new object. That is
what makes a second `free` of an old handle an error and not the theft of somebody else's memory.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbgrad.memory.allocators import Memory
    from nbgrad.memory.books import Books

# States of a block. Only LIVE belongs to a user; QUEUED and WAITING still count as allocated.
LIVE = 0  # handed out
QUEUED = 1  # freed by its user, not yet seen by the pool
WAITING = 2  # freed, but another stream may still be using it
CACHED = 3  # on a list of blocks of exactly this size, not merged with its neighbours
FREE = 4  # merged, in the free spans
DEAD = 5  # swallowed by a neighbour, replaced by a new handle, or its chunk was released

WIDEST_STEP = 2 << 20  # bytes

STATE_NAMES = ("live", "queued", "waiting", "cached", "free", "dead")


class Chunk:
    """Memory got from the allocator in one piece; belongs to one stream."""

    __slots__ = ("address", "buffer", "first", "memory", "pool", "shelf", "size", "spans")

    def __init__(self, pool: Books, memory: Memory, shelf: Shelf, large: bool) -> None:
        self.pool = pool
        self.memory = memory
        self.address = memory.address
        self.size = memory.nbytes
        self.buffer = memory.buffer
        self.shelf = shelf
        self.spans = shelf.large if large else shelf.small
        self.first: Block | None = None

    def blocks(self) -> list[Block]:
        """The blocks in address order."""
        found, block = [], self.first
        while block is not None:
            found.append(block)
            block = block.next
        return found


class Block:
    """A piece of a chunk.

    `size` is the number of bytes it occupies, `nbytes` the number asked for.
    """

    __slots__ = (
        "__weakref__",
        "chunk",
        "nbytes",
        "next",
        "offset",
        "prev",
        "size",
        "state",
        "streams",
    )

    def __init__(self, chunk: Chunk, offset: int, size: int, nbytes: int, state: int) -> None:
        self.chunk = chunk
        self.offset = offset
        self.size = size
        self.nbytes = nbytes
        self.state = state
        self.prev: Block | None = None
        self.next: Block | None = None
        self.streams: set[int] | None = None  # other streams that have used the block

    @property
    def address(self) -> int:
        """The first byte's address; 0 for a block of zero bytes."""
        return self.chunk.address + self.offset

    @property
    def stream(self) -> int:
        """The stream the memory belongs to."""
        return self.chunk.shelf.stream

    def free(self) -> None:
        """Give the block back to its pool. Raises `ArgumentError` the second time."""
        self.chunk.pool.free(self)

    def _invalidate(self) -> None:
        # What a memory scope calls at its end.
        if self.state == LIVE:
            self.free()

    def __repr__(self) -> str:
        where = f"{self.address:#x}, stream {self.stream}"
        return f"<Block {STATE_NAMES[self.state]}, {self.nbytes} of {self.size} bytes at {where}>"


class FreeSpans:
    """Free blocks by size. `bins` maps a size to its blocks; `sizes` is the sorted list of keys."""

    __slots__ = ("bins", "sizes")

    def __init__(self) -> None:
        self.bins: dict[int, dict[Block, None]] = {}
        self.sizes: list[int] = []

    def add(self, block: Block) -> None:
        """Insert a free block."""
        bin_ = self.bins.get(block.size)
        if bin_ is None:
            bin_ = self.bins[block.size] = {}
            insort(self.sizes, block.size)
        bin_[block] = None

    def remove(self, block: Block) -> None:
        """Take out a block that is in."""
        del self.bins[block.size][block]

    def best(self, nbytes: int) -> Block | None:
        """Take out the smallest block of at least `nbytes`, the most recent among equals."""
        i = bisect_left(self.sizes, nbytes)
        while i < len(self.sizes):
            bin_ = self.bins[self.sizes[i]]
            if bin_:
                return bin_.popitem()[0]
            # Bins are left in place when they run empty, since a size that was freed once tends
            # to come back; the search throws out the empty ones it meets.
            del self.bins[self.sizes.pop(i)]
        return None


class Shelf:
    """Everything one stream has free.

    `cached` maps a size to the blocks of that size which were freed last; they are not merged with
    their neighbours until a request finds no other room, so that a program that asks for the same
    sizes again and again neither merges nor splits. Large and small requests have spans of their
    own, or one small block would keep a large chunk from serving the next large request.
    """

    __slots__ = ("cached", "large", "small", "stream")

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.cached: dict[int, list[Block]] = {}
        self.small = FreeSpans()
        self.large = FreeSpans()

    def merge_cached(self) -> None:
        """Move every cached block into the spans, joined with its free neighbours."""
        for blocks in self.cached.values():
            while blocks:
                block = blocks.pop()
                spans = block.chunk.spans
                block = merge_neighbours(block, spans)
                block.state = FREE
                spans.add(block)
        self.cached.clear()


def size_class(nbytes: int, alignment: int) -> int:
    """Round a request up to its size class, in bytes.

    Sixteen classes to a doubling, so that requests of nearly equal size reuse each other's blocks
    at a loss of at most 1/16 and 2 MiB; multiples of `alignment` (a power of two) where that is
    more.
    """
    step = alignment if nbytes <= alignment << 4 else 1 << (nbytes - 1).bit_length() - 5
    if step > WIDEST_STEP:
        step = max(WIDEST_STEP, alignment)
    return (nbytes + step - 1) & -step


def merge_neighbours(block: Block, spans: FreeSpans) -> Block:
    """Join a block with the free blocks beside it, which leave `spans`; return the result.

    Blocks leave a list first and enter one last, here and in the pool: if a signal handler raises
    in between, the worst that is left behind is unused memory, never memory owned twice.
    """
    after, before = block.next, block.prev
    if after is not None and after.state == FREE:
        spans.remove(after)
        after.state = DEAD
        block.size += after.size
        block.next = after.next
        if after.next is not None:
            after.next.prev = block
        after.prev = after.next = None
    if before is not None and before.state == FREE:
        spans.remove(before)
        block.state = DEAD
        before.size += block.size
        before.next = block.next
        if block.next is not None:
            block.next.prev = before
        block.prev = block.next = None
        return before
    return block


def take_front(span: Block, size: int, nbytes: int) -> Block:
    """Hand out the first `size` bytes of a free block that is in no list.

    What is left of `span` stays behind it, in no list either; if nothing is left, `span` is dead.
    """
    block = Block(span.chunk, span.offset, size, nbytes, LIVE)
    block.prev = before = span.prev
    rest = span.size - size
    if rest:
        span.offset += size
        span.size = rest
        span.prev = block
        block.next = span
    else:
        block.next = after = span.next
        if after is not None:
            after.prev = block
        span.state = DEAD
        span.prev = span.next = None
    if before is None:
        block.chunk.first = block
    else:
        before.next = block
    return block
