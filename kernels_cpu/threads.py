"""A small pool of threads for large elementwise loops: NumPy releases the GIL inside a ufunc."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

# Elements a thread should get at least. Starting a thread's share costs ~50 us: as long as a memory-bound
# loop takes for a quarter million elements, or one with transcendental functions for some ten thousand.
GRAIN = 1 << 20
HEAVY_GRAIN = 1 << 15

heavy: set[np.ufunc] = set()  # kernels that compute enough per element to be worth splitting early

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def _from_environment(text: str) -> int:
    """The number of threads that NBGRAD_NUM_THREADS asks for; unset, empty or 0: one a core, at most 16.

    Raises
    ------
    ValueError : not an integer >= 0.
    """
    if text and not text.strip().isdecimal():
        raise ValueError(
            f"environment variable NBGRAD_NUM_THREADS is {text!r}; expected an integer >= 0. "
            "Unset it to use one thread a core."
        )
    return int(text or 0) or min(os.cpu_count() or 1, 16)


_count = _from_environment(os.environ.get("NBGRAD_NUM_THREADS", ""))


def get_num_threads() -> int:
    """Threads used for large arrays."""
    return _count


def set_num_threads(n: int) -> None:
    """Set the number of threads used for large arrays (>= 1)."""
    global _count, _pool
    if n < 1:
        raise ValueError(f"set_num_threads: argument 'n' is {n}; expected at least 1")
    with _lock:
        _count = n
        if _pool is not None:
            _pool.shutdown(wait=False)
            _pool = None


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_count, thread_name_prefix="nbgrad")
        return _pool


def _after_fork() -> None:
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run(kernel: np.ufunc, arrays: tuple, outs: tuple) -> None:
    """``kernel(*arrays, out=outs)``, split over the first axis of the outputs when it is worth it."""
    out = outs[0]
    parts = min(_count, out.size // (HEAVY_GRAIN if kernel in heavy else GRAIN))
    if parts < 2:
        kernel(*arrays, out=outs)
        return
    if out.flags.c_contiguous and all(
        getattr(a, "ndim", 0) == 0 or (a.shape == out.shape and a.flags.c_contiguous)
        for a in arrays
    ):
        arrays = tuple(a.reshape(-1) if getattr(a, "ndim", 0) else a for a in arrays)
        outs = tuple(o.reshape(-1) for o in outs)
    else:
        arrays = tuple(np.broadcast_to(a, out.shape) for a in arrays)
    n = outs[0].shape[0]
    if n < parts:
        kernel(*arrays, out=outs)
        return
    cuts = [n * i // parts for i in range(parts + 1)]

    def piece(i: int) -> None:
        s = slice(cuts[i], cuts[i + 1])
        kernel(
            *[a[s] if getattr(a, "ndim", 0) else a for a in arrays], out=tuple(o[s] for o in outs)
        )

    rest = [_executor().submit(piece, i) for i in range(1, parts)]
    piece(0)
    for f in rest:
        f.result()


def split(piece: Callable[[int, int], None], n: int, size: int) -> None:
    """``piece(lo, hi)`` over parts of ``range(n)``, in threads where ``size`` elements are worth it."""
    parts = min(_count, size // GRAIN, n)
    if parts < 2:
        piece(0, n)
        return
    cuts = [n * i // parts for i in range(parts + 1)]
    rest = [_executor().submit(piece, cuts[i], cuts[i + 1]) for i in range(1, parts)]
    piece(0, cuts[1])
    for f in rest:
        f.result()
