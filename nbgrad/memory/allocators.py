"""Where a pool gets its chunks from: the allocator protocol, host memory and a mock for tests.

A pool never asks what kind of memory it manages. It needs chunks (`allocate`, `release`) and, for
memory that several streams use, events (`record_event`, `event_done`, `wait_event`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from nbgrad.errors import ArgumentError, message


class Memory(NamedTuple):
    """One piece of raw memory: its address, its size in bytes and the object that holds it."""

    address: int
    nbytes: int
    buffer: Any = None


class Allocator(Protocol):
    """What a pool needs from the memory below it.

    `allocate` raises `MemoryError` when there is no room, and then has changed nothing; the pool
    frees cached chunks and tries again. Any other exception reaches the caller of the pool.
    """

    def allocate(self, nbytes: int) -> Memory:
        """Return `nbytes` (> 0) bytes of fresh memory, aligned as the pool was told."""
        ...

    def release(self, memory: Memory) -> None:
        """Give back one result of `allocate`."""
        ...

    def record_event(self, stream: int) -> object:
        """Mark the present end of the work queued on `stream`."""
        ...

    def event_done(self, event: object) -> bool:
        """Whether all work before `event` has finished; does not wait."""
        ...

    def wait_event(self, event: object) -> None:
        """Wait until all work before `event` has finished."""
        ...


class ChunkArray(np.ndarray):
    """The bytes of one host chunk.

    A type of its own, because NumPy shortens a chain of `base` references wherever two links have
    the type of the new array: over a plain ndarray the owner of a block (see `host.py`) would be
    skipped, and the block would return to the pool while arrays still read it.
    """

    __slots__ = ()


class HostAllocator:
    """Chunks of host memory from NumPy's allocator, aligned to `alignment` bytes."""

    def __init__(self, alignment: int = 64) -> None:
        self.alignment = alignment

    def allocate(self, nbytes: int) -> Memory:
        """Return `nbytes` uninitialised bytes. Raises `MemoryError` when there is no room."""
        try:
            raw = np.empty(nbytes + self.alignment, np.uint8)
        except (ValueError, OverflowError) as error:  # more bytes than an array can address
            raise MemoryError(str(error)) from None
        start = -raw.ctypes.data % self.alignment
        buffer = raw[start : start + nbytes].view(ChunkArray)
        return Memory(buffer.ctypes.data, nbytes, buffer)

    def release(self, memory: Memory) -> None:
        """Do nothing: the bytes go when the last reference to `memory.buffer` does."""

    def record_event(self, stream: int) -> object:
        """Return None: work on the host is finished when the call that does it returns."""
        return None

    def event_done(self, event: object) -> bool:
        """True."""
        return True

    def wait_event(self, event: object) -> None:
        """Return at once."""


class MockEvent:
    """An event that is done when a test says so."""

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.done = False


class MockAllocator:
    """Addresses without memory, for tests of a pool's logic.

    Parameters
    ----------
    total : the bytes there are; None for no bound.
    fail_after : the number of allocations that succeed before all fail; None for no such bound.
    alignment : the multiple, in bytes, that every address is.
    """

    def __init__(
        self, total: int | None = None, fail_after: int | None = None, alignment: int = 512
    ) -> None:
        self.total = total
        self.fail_after = fail_after
        self.alignment = alignment
        self.live: dict[int, int] = {}
        self.events: list[MockEvent] = []
        self.num_allocates = 0
        self.num_failures = 0
        self._next_address = 1 << 32

    @property
    def used(self) -> int:
        """Bytes handed out and not released."""
        return sum(self.live.values())

    def allocate(self, nbytes: int) -> Memory:
        """Return a fresh address. Raises `MemoryError` at the bounds given."""
        exhausted = self.fail_after is not None and self.num_allocates >= self.fail_after
        if exhausted or (self.total is not None and self.used + nbytes > self.total):
            self.num_failures += 1
            raise MemoryError(f"mock allocator: no room for {nbytes} bytes")
        address = self._next_address
        # A gap after every chunk: a pool that merges across chunks is found out by its addresses.
        self._next_address += (nbytes // self.alignment + 2) * self.alignment
        self.live[address] = nbytes
        self.num_allocates += 1
        return Memory(address, nbytes)

    def release(self, memory: Memory) -> None:
        """Take a chunk back. Raises `ArgumentError` for a chunk that is not out."""
        if self.live.get(memory.address) != memory.nbytes:
            raise ArgumentError(
                message(
                    "MockAllocator.release",
                    "the chunk",
                    f"{memory.nbytes} bytes at {memory.address:#x}",
                    "a chunk that was allocated and not yet released",
                )
            )
        del self.live[memory.address]

    def record_event(self, stream: int) -> MockEvent:
        """Return an event that stays open until `finish(stream)`."""
        event = MockEvent(stream)
        self.events.append(event)
        return event

    def event_done(self, event: object) -> bool:
        """Whether `finish` has been called for the event's stream."""
        return isinstance(event, MockEvent) and event.done

    def wait_event(self, event: object) -> None:
        """Finish the event's stream, as waiting for it would."""
        if isinstance(event, MockEvent):
            self.finish(event.stream)

    def finish(self, stream: int) -> None:
        """Complete every event recorded on `stream` so far."""
        for event in self.events:
            event.done = event.done or event.stream == stream
        self.events = [event for event in self.events if not event.done]

    def assert_no_leak(self) -> None:
        """Raise `AssertionError` if a chunk is still out."""
        if self.live:
            raise AssertionError(f"{len(self.live)} chunks ({self.used} bytes) were not released")
