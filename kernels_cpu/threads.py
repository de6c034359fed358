"""A small pool of threads for large elementwise loops: NumPy releases the GIL inside a ufunc."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Sequence

import numpy as np

# Elements a thread should get at least. Starting a thread's share costs ~50 us: as long as a memory-bound
# loop takes for a quarter million elements, or one with transcendental functions for some ten thousand.
GRAIN = 1 << 18
HEAVY_GRAIN = 1 << 15

heavy: set[np.ufunc] = set()  # kernels that compute enough per element to be worth splitting early


class _Worker:
    """A thread that waits on a bare lock: handing it a job takes some 20 us, an executor up to 500."""

    def __init__(self, number: int):
        self.go, self.done = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.done.acquire()
        self.job: Callable[[], None] | None = None
        self.error: BaseException | None = None
        self.avoids: int | None = None
        self.thread = threading.Thread(target=self._loop, name=f"nbgrad-{number}", daemon=True)
        self.thread.start()

    def _loop(self) -> None:
        while True:
            self.go.acquire()
            if self.job is None:
                return
            try:
                self.job()
            except BaseException as error:  # handed to the thread that waits
                self.error = error
            self.done.release()

    def keep_off(self, cpu: int, allowed: set[int]) -> None:
        """Do not run on the processor of the thread that waits.

        A thread that has slept is woken on its waker's processor, and a job is over before the scheduler moves it.
        """
        if cpu != self.avoids and self.thread.native_id is not None:
            os.sched_setaffinity(self.thread.native_id, allowed - {cpu})
            self.avoids = cpu

    def start(self, job: Callable[[], None]) -> None:
        """Begin a job."""
        self.job, self.error = job, None
        self.go.release()

    def wait(self) -> BaseException | None:
        """The job's exception, or None, when it has ended."""
        self.done.acquire()
        self.job = None
        return self.error

    def stop(self) -> None:
        """End the thread."""
        self.job = None
        self.go.release()


_busy = threading.Lock()  # one parallel region at a time; a second one runs in its own thread
_workers: list[_Worker] = []


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
    global _count
    if n < 1:
        raise ValueError(f"set_num_threads: argument 'n' is {n}; expected at least 1")
    with _busy:
        _count = n
        while len(_workers) >= n:
            _workers.pop().stop()


def _after_fork() -> None:
    global _busy
    _busy = threading.Lock()
    _workers.clear()  # their threads did not come along


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _current_cpu() -> Callable[[], int] | None:
    """The C library's ``sched_getcpu``, where there is one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.CDLL(None), "sched_getcpu", None)


_getcpu = _current_cpu()


def _spread(workers: Sequence[_Worker]) -> None:
    if _getcpu is None:
        return
    cpu, allowed = _getcpu(), os.sched_getaffinity(0)
    if cpu in allowed and len(allowed) > 1:
        for worker in workers:
            worker.keep_off(cpu, allowed)


def parallel(jobs: Sequence[Callable[[], None]]) -> None:
    """Run jobs at once, the first one here; one after the other where the workers are taken.

    Every job has ended when this returns or raises (the first exception).
    """
    if len(jobs) == 1 or not _busy.acquire(blocking=False):
        for job in jobs:
            job()
        return
    try:
        while len(_workers) < len(jobs) - 1:
            _workers.append(_Worker(len(_workers)))
        helpers = _workers[: len(jobs) - 1]
        _spread(helpers)
        for worker, job in zip(helpers, jobs[1:], strict=True):
            worker.start(job)
        try:
            jobs[0]()
        finally:
            errors = [worker.wait() for worker in helpers]
        for error in errors:
            if error is not None:
                raise error
    finally:
        _busy.release()


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

    parallel([functools.partial(piece, i) for i in range(parts)])


def split(piece: Callable[[int, int], None], n: int, size: int) -> None:
    """``piece(lo, hi)`` over parts of ``range(n)``, in threads where ``size`` elements are worth it."""
    parts = min(_count, size // GRAIN, n)
    if parts < 2:
        piece(0, n)
        return
    cuts = [n * i // parts for i in range(parts + 1)]
    parallel([functools.partial(piece, cuts[i], cuts[i + 1]) for i in range(parts)])
