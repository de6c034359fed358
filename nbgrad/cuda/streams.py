"""Streams: queues of work on a device. Arrays belong to the stream they were made on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernels_cuda import _compat

from ..memory.cuda import cuda_pool, register_stream, stream_object

_numbers = itertools.count(1)


class Stream:
    """A queue of device work beside the default one; ``with ng.cuda.stream(s):`` uses it.

    The memory pool keeps free lists per stream: what was freed on a stream is reused on it without waiting. Use
    ``record_stream`` for an array that another stream reads.
    """

    def __init__(self) -> None:
        from .array import guarded

        self.key = next(_numbers)
        self.native = guarded(lambda: _compat.require().stream())()
        register_stream(self.key, self.native)

    def synchronize(self) -> None:
        """Wait for everything queued on this stream."""
        self.native.synchronize()

    def record_stream(self, tensor: Any) -> None:
        """Note that work on this stream uses a tensor made on another one: its memory is not reused before."""
        data = tensor._data
        cuda_pool(data.device.index or 0).record_stream(data.buffer.block, self.key)

    def __repr__(self) -> str:
        return f"<cuda stream {self.key}>"


class _Current(threading.local):
    key = 0


_current = _Current()


def current_key() -> int:
    """The number of this thread's stream; 0 is the default stream."""
    return _current.key


def current_stream() -> Any:
    """The native stream of this thread."""
    return stream_object(_current.key)


@contextmanager
def stream(s: Stream | None) -> Iterator[None]:
    """Queue this thread's work on a stream (None: the default one)."""
    previous = _current.key
    _current.key = 0 if s is None else s.key
    try:
        yield
    finally:
        _current.key = previous
