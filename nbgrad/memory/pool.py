"""A caching pool: memory comes from an allocator in chunks and goes out in blocks.

*Programs repeat themselves.* A freed block is first kept as it is, under its size; only when a
request finds nothing are such blocks merged with their neighbours and searched by best fit.

*Memory runs out.* Then the cache is emptied, then the garbage collector runs, and only then an
error is raised; chunk sizes are cut to the request where rounding up would not fit.

*Finalisers allocate.* One that comes in while the pool is at work gets a chunk of its own, which
enters the books later; what `free` does about finalisers is told in `books.py`.
"""

from __future__ import annotations

import gc
from operator import index
from typing import Any

from nbgrad.errors import ArgumentError, OutOfMemoryError, message
from nbgrad.memory import audit
from nbgrad.memory.allocators import Allocator, HostAllocator, Memory
from nbgrad.memory.blocks import FREE, LIVE, Block, Chunk, Shelf, size_class, take_front
from nbgrad.memory.books import Books
from nbgrad.memory.scope import register

CHUNK_BYTES = 32 << 20


class CachingPool(Books):
    """Blocks of memory, reused.

    Parameters
    ----------
    allocator : where chunks come from.
    limit : the most bytes to hold in chunks; None for no limit.
    chunk_bytes : the size of the chunks that small requests share. A request above a quarter of it
        gets a chunk of its own.
    alignment : the multiple, in bytes and a power of two, that every block's address is; 64 suits
        CPUs, 512 CUDA.
    name : what messages and tables call the pool.
    """

    def __init__(
        self,
        allocator: Allocator,
        *,
        limit: int | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        alignment: int = 64,
        name: str = "cpu",
    ) -> None:
        if alignment < 1 or alignment & (alignment - 1):
            raise ArgumentError(
                message("CachingPool", "argument 'alignment'", alignment, "a power of two")
            )
        super().__init__(allocator, alignment, name)
        self.chunk_bytes = size_class(max(chunk_bytes, 1), alignment)
        self._refusal = ""
        self.set_limit(limit)

    def set_limit(self, nbytes: int | None) -> None:
        """Bound the bytes held in chunks; None lifts the bound.

        A bound below what is reserved takes effect as chunks are released. Raises `ArgumentError`
        for a negative bound.
        """
        if nbytes is not None and (not hasattr(nbytes, "__index__") or index(nbytes) < 0):
            raise ArgumentError(
                message("set_limit", "argument 'nbytes'", repr(nbytes), "0 bytes or more, or None")
            )
        self.limit = None if nbytes is None else index(nbytes)
        # Under a limit a shared chunk takes an eighth of it at most: one small block would
        # otherwise keep from the others room that nobody uses.
        self._shared_bytes = self.chunk_bytes
        if self.limit is not None:
            self._shared_bytes = min(self.chunk_bytes, self.limit // 8 & -self.alignment)
        self._large_bytes = self._shared_bytes // 4

    def malloc(self, nbytes: int, stream: int = 0) -> Block:
        """Return a block of at least `nbytes` bytes, and note it in the innermost memory scope.

        Raises `OutOfMemoryError`, or `ArgumentError` for a negative size. Zero bytes are valid.
        """
        block = self.take(index(nbytes), stream)
        register(block)
        return block

    def take(self, nbytes: int, stream: int = 0) -> Block:
        """As `malloc`, for owners that free the block themselves: no scope knows about it."""
        if nbytes <= 0:
            return self._take_empty(nbytes, stream)
        size = size_class(nbytes, self.alignment)
        with self._lock:
            if self._busy:
                return self._take_inside(nbytes, stream)
            self._busy = True
            try:
                block = self._find(nbytes, size, stream)
            finally:
                self._busy = False
        return block or self._take_last_chance(nbytes, size, stream)

    def _find(self, nbytes: int, size: int, stream: int) -> Block | None:
        if self._returns or self._waiting:
            self._drain()
        shelf = self._shelves.get(stream) or self._shelves.setdefault(stream, Shelf(stream))
        cached = shelf.cached.get(size) or shelf.cached.get(nbytes)
        if cached:
            span = cached.pop()
            block = take_front(span, span.size, nbytes)
        else:
            block = self._search(nbytes, size, shelf)
            if block is None:
                return None
        self._allocs += 1
        self._allocated += block.size
        self._peak_allocated = max(self._peak_allocated, self._allocated)
        return block

    def _search(self, nbytes: int, size: int, shelf: Shelf) -> Block | None:
        """Best fit, then best fit after merging, then a new chunk, then all after a clean-up."""
        large = size > self._large_bytes
        spans = shelf.large if large else shelf.small
        span = spans.best(nbytes)
        if span is None and shelf.cached:
            shelf.merge_cached()
            span = spans.best(nbytes)
        if span is None:
            self._trim(size)
            span = self._grow(nbytes, size, shelf, large)
        if span is None:
            self._retries += 1
            self._await_streams()
            self._release_idle_chunks()
            other = shelf.small if large else shelf.large
            span = (
                spans.best(nbytes) or self._grow(nbytes, size, shelf, large) or other.best(nbytes)
            )
        return span and self._carve(span, nbytes, size)

    def _carve(self, span: Block, nbytes: int, size: int) -> Block:
        size = min(size, span.size)
        # A rest that is small beside a large block would only lie about: let the block have it.
        least = max(self.alignment, size >> 3 if size > self._large_bytes else 0)
        rest = span.size - size
        if rest < least:
            return take_front(span, span.size, nbytes)
        block = take_front(span, size, nbytes)
        span.chunk.spans.add(span)
        return block

    def _grow(self, nbytes: int, size: int, shelf: Shelf, large: bool) -> Block | None:
        """Get a chunk and return it as one free block that is in no list; None if refused."""
        wanted = size if large else self._shared_bytes
        if large and self.limit is not None:
            wanted = nbytes  # rounding this one up could fail the next one
        for total in dict.fromkeys((wanted, nbytes)):
            memory = self._allocate(total)
            if memory is not None:
                chunk = Chunk(self, memory, shelf, large)
                chunk.first = Block(chunk, 0, chunk.size, 0, FREE)
                self._register(chunk)
                return chunk.first
        return None

    def _trim(self, size: int) -> None:
        """Before growing by `size`, drop the cache if it would outweigh all that was ever in use.

        A program whose requests grow a little each time would otherwise leave a trail of chunks
        that are each a little too small, and on a host nothing says stop before the machine does.
        """
        needed = max(self._peak_allocated, self._allocated + size)
        if self._reserved + size > 2 * needed + self.chunk_bytes:
            self._release_idle_chunks()

    def _allocate(self, nbytes: int) -> Memory | None:
        if self.limit is not None and self._reserved + nbytes > self.limit:
            self._refusal = ""
            return None
        try:
            return self.allocator.allocate(nbytes)
        except MemoryError as error:
            # Its text only: the traceback would keep the callers' arrays alive during the retry.
            self._refusal = str(error)
            return None

    def _take_empty(self, nbytes: int, stream: int) -> Block:
        if nbytes < 0:
            raise ArgumentError(
                message("malloc", "argument 'nbytes'", nbytes, "a size of 0 bytes or more")
            )
        chunk = Chunk(self, Memory(0, 0), Shelf(stream), large=False)
        with self._lock:
            self._allocs += 1
            self._empties += 1
        return Block(chunk, 0, 0, 0, LIVE)

    def _take_inside(self, nbytes: int, stream: int) -> Block:
        """Serve a finaliser that came in while the books are open: a chunk that is all its own."""
        memory = self._allocate(nbytes)
        if memory is None:
            raise OutOfMemoryError(self._out_of_memory_text(nbytes))
        chunk = Chunk(self, memory, self._shelves.setdefault(stream, Shelf(stream)), large=True)
        chunk.first = block = Block(chunk, 0, chunk.size, nbytes, LIVE)
        self._returns.append(chunk)
        return block

    def _take_last_chance(self, nbytes: int, size: int, stream: int) -> Block:
        # Arrays in reference cycles wait for the collector. It runs outside the lock, as the
        # finalisers it calls may wait for other threads.
        gc.collect()
        with self._exclusive():
            block = self._find(nbytes, size, stream)
            if block is not None:
                return block
            self._ooms += 1
            text = self._out_of_memory_text(nbytes)
        raise OutOfMemoryError(text)

    def _out_of_memory_text(self, nbytes: int) -> str:
        limit = "none" if self.limit is None else audit.readable(self.limit)
        refusal = f"; the allocator said: {self._refusal}" if self._refusal else ""
        return message(
            "malloc",
            f"the request to the {self.name} pool",
            audit.readable(nbytes),
            f"no more than there is room for (allocated {audit.readable(self._allocated)}, "
            f"reserved {audit.readable(self._reserved)}, limit {limit}{refusal})",
            "Free what is no longer needed (del, or ng.memory.scope()), work in smaller batches, "
            "or raise the limit with set_limit().",
        )


class MemoryPool(CachingPool):
    """A pool of one's own, with CuPy's names for what one does with it.

    Parameters are those of `CachingPool`; without a `backend`, host memory.
    """

    def __init__(self, backend: Allocator | None = None, **options: Any) -> None:
        super().__init__(backend or HostAllocator(), **{"name": "private", **options})

    def alloc(self, nbytes: int, stream: int = 0) -> Block:
        """As `malloc`; the block has a `free()` method."""
        return self.malloc(nbytes, stream)

    def free_all_blocks(self) -> None:
        """As `empty_cache`: give everything that is not in use back to the backend."""
        self.empty_cache()

    def total_bytes(self) -> int:
        """Bytes held in chunks."""
        return self.counters()["reserved_bytes"]

    def used_bytes(self) -> int:
        """Bytes in live blocks."""
        return self.counters()["allocated_bytes"]

    def free_bytes(self) -> int:
        """Bytes held and not in use."""
        counters = self.counters()
        return counters["reserved_bytes"] - counters["allocated_bytes"]
