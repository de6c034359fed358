"""Who may enter the pool when: finalisers, threads and forked children."""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import pytest

from nbgrad.errors import NbgradError, OutOfMemoryError
from nbgrad.memory import CachingPool, Memory, MockAllocator

KIB = 1024
MIB = 1024 * KIB


def make_pool(**options: Any) -> CachingPool:
    bounds = {key: options.pop(key) for key in ("total", "fail_after") if key in options}
    return CachingPool(MockAllocator(**bounds), **{"chunk_bytes": MIB, **options})


def stat(pool: CachingPool, name: str) -> int:
    return pool.stats()[name]


class Meddling(MockAllocator):
    """Calls back while the pool's books are open, as a finaliser run by the collector does."""

    def __init__(self) -> None:
        super().__init__()
        self.callback: Any = None

    def allocate(self, nbytes: int) -> Memory:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()
        return super().allocate(nbytes)


def test_finalisers_inside_the_pool_may_free_and_allocate() -> None:
    allocator = Meddling()
    pool = CachingPool(allocator, chunk_bytes=MIB)
    victim = pool.malloc(2 * MIB)
    taken = []

    def finaliser() -> None:
        victim.free()
        taken.append(pool.malloc(3000))
        taken.append(pool.malloc(0))
        pool.malloc(100, stream=5).free()
        pool.empty_cache()
        pool.reset_peak_stats()
        assert pool.counters()["num_allocs"] >= 1
        with pytest.raises(NbgradError, match="finaliser"):
            pool.check()

    allocator.callback = finaliser
    outer = pool.malloc(8 * MIB)
    pool.check()
    assert stat(pool, "active_blocks") == 3
    for block in (outer, *taken):
        block.free()
    pool.empty_cache()
    assert stat(pool, "active_blocks") == stat(pool, "reserved_bytes") == 0
    pool.check()
    allocator.assert_no_leak()


def test_out_of_memory_inside_a_finaliser_is_an_error_of_that_call_only() -> None:
    allocator = Meddling()
    pool = CachingPool(allocator, chunk_bytes=MIB, limit=4 * MIB)

    def finaliser() -> None:
        with pytest.raises(OutOfMemoryError):
            pool.malloc(64 * MIB)

    allocator.callback = finaliser
    assert pool.malloc(2 * MIB).size == 2 * MIB
    pool.check()


def churn(pool: CachingPool, seed: int, steps: int, failures: list[BaseException]) -> None:
    rng, live = random.Random(seed), []
    try:
        for _ in range(steps):
            if live and rng.random() < 0.5:
                live.pop(rng.randrange(len(live))).free()
            else:
                live.append(pool.malloc(rng.choice((64, 1000, 70_000, 600_000)), rng.randrange(2)))
            if rng.random() < 0.01:
                pool.empty_cache()
                pool.check()
        for block in live:
            block.free()
    except BaseException as failure:
        failures.append(failure)


def test_threads() -> None:
    allocator = MockAllocator()
    pool = CachingPool(allocator, chunk_bytes=MIB)
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=churn, args=(pool, seed, 3000, failures)) for seed in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    pool.check()
    pool.empty_cache()
    assert stat(pool, "allocated_bytes") == stat(pool, "reserved_bytes") == 0
    allocator.assert_no_leak()


def test_a_block_freed_in_another_thread_comes_back() -> None:
    pool = make_pool()
    block = pool.malloc(5000)
    thread = threading.Thread(target=block.free)
    thread.start()
    thread.join()
    assert stat(pool, "active_blocks") == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_another_thread_is_inside() -> None:
    pool = make_pool()
    kept = pool.malloc(1000)
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        while not stop.is_set():
            churn(pool, 3, 50, failures)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    pool.check()
                    pool.malloc(2000).free()
                    kept.free()
                    thread = threading.Thread(target=pool.check, daemon=True)
                    thread.start()
                    thread.join(10)
                    status = int(thread.is_alive())
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        worker.join()
    assert not failures
    pool.check()
