"""The CUDA pool on mock memory: no device, no driver, no numba.cuda."""

import itertools
import subprocess
import sys

import pytest

import nbgrad as ng
from kernels_cuda import _compat
from nbgrad.errors import OutOfMemoryError
from nbgrad.memory.cuda import ALIGNMENT, CudaAllocator
from nbgrad.memory.pool import CachingPool

MIB = 1 << 20


class FakeDriver:
    """Device memory as numbers; what numba.cuda would do behind `_compat`."""

    def __init__(self, total):
        self.total, self.live, self.next, self.frees = total, {}, 1 << 32, 0

    def allocate(self, nbytes):
        if sum(self.live.values()) + nbytes > self.total:
            raise MemoryError("CUDA_ERROR_OUT_OF_MEMORY")
        address, self.next = self.next, self.next + nbytes + 4096
        self.live[address] = nbytes
        return _compat.Memory(address, nbytes, Owner(self, address))

    def flush(self):
        self.frees += 1


class Owner:
    """numba's array: the memory goes when the last reference does."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address

    def __del__(self):
        del self.driver.live[self.address]


class Event:
    def __init__(self):
        self.done = False

    def query(self):
        return self.done

    def synchronize(self):
        self.done = True


@pytest.fixture
def driver(monkeypatch):
    from contextlib import nullcontext

    made = FakeDriver(64 * MIB)
    monkeypatch.setattr(_compat, "allocate", made.allocate)
    monkeypatch.setattr(_compat, "flush_frees", made.flush)
    monkeypatch.setattr(_compat, "on_device", lambda index: nullcontext())
    return made


def pool_over(driver, **options):
    return CachingPool(CudaAllocator(0), alignment=ALIGNMENT, name="cuda:0", **options)


def test_chunks_are_few_and_reused(driver):
    pool = pool_over(driver)
    for _ in range(50):
        blocks = [pool.take(1000) for _ in range(20)]
        assert all(b.address % ALIGNMENT == 0 for b in blocks)
        for b in blocks:
            b.free()
    assert len(driver.live) == 1
    pool.check()


def test_freeing_an_array_costs_no_driver_call_and_empty_cache_gives_all_back(driver):
    pool = pool_over(driver)
    block = pool.take(10 * MIB)
    block.free()
    assert driver.frees == 0
    pool.empty_cache()
    assert driver.live == {}
    assert driver.frees == 1


def test_out_of_memory_is_retried_after_the_cache_is_dropped(driver):
    pool = pool_over(driver)
    first = pool.take(40 * MIB)
    first.free()
    second = pool.take(60 * MIB)  # fits only without the cached 40 MiB
    assert sum(driver.live.values()) <= driver.total
    assert pool.stats()["num_retries"] >= 1
    with pytest.raises(OutOfMemoryError, match=r"cuda:0.*CUDA_ERROR_OUT_OF_MEMORY"):
        pool.take(10 * MIB)
    second.free()
    pool.take(10 * MIB).free()


def test_streams_do_not_share_free_blocks(driver):
    pool = pool_over(driver)
    a = pool.take(2000, stream=1)
    address = a.address
    a.free()
    assert pool.take(2000, stream=2).address != address
    assert pool.take(2000, stream=1).address == address


def test_a_block_used_on_another_stream_waits_for_it(driver, monkeypatch):
    events = []

    def record(self, stream):
        events.append(Event())
        return events[-1]

    monkeypatch.setattr(CudaAllocator, "record_event", record)
    pool = pool_over(driver)
    block = pool.take(2000, stream=1)
    address = block.address
    pool.record_stream(block, 2)
    block.free()
    assert pool.take(2000, stream=1).address != address
    events[0].done = True
    pool.take(100, stream=1)
    assert pool.take(2000, stream=1).address == address


def test_fragmentation_gives_no_false_out_of_memory():
    """Two blocks of 30, one freed: 60 of the 100 there are must still go in (cupy/cupy#1165, #1256)."""
    backend = ng.cuda.FakeBackend(total=100)
    pool = ng.cuda.MemoryPool(backend=backend)
    p1, p2 = pool.alloc(30), pool.alloc(30)
    p2.free()
    p3 = pool.alloc(60)
    p1.free()
    p3.free()
    pool.free_all_blocks()
    assert pool.total_bytes() == 0
    backend.assert_no_leak()


def test_splitting_loses_no_block():
    backend = ng.cuda.FakeBackend(total=600 * MIB)
    pool = ng.cuda.MemoryPool(backend=backend)
    blocks = [pool.alloc(512 * (i + 1)) for i in range(1024)]
    spans = sorted((b.address, b.address + b.nbytes) for b in blocks)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    for b in blocks[::2] + blocks[1::2]:
        b.free()
    pool.check()
    pool.free_all_blocks()
    assert pool.total_bytes() == 0
    backend.assert_no_leak()


LAZY = """
import sys
import nbgrad as ng
ng.zeros(3).sum()
ng.cuda.FakeBackend
ng.cuda.memory_allocated()
assert "numba.cuda" not in sys.modules, "numba.cuda was imported before a device was asked for"
assert not any(m.startswith("numba.cuda") for m in sys.modules)
"""


def test_numba_cuda_is_imported_only_when_a_device_is_asked_for():
    subprocess.run([sys.executable, "-c", LAZY], check=True)


MISSING = """
import sys
sys.modules["numba.cuda"] = None
import nbgrad as ng
assert not ng.cuda.is_available()
assert ng.cuda.device_count() == 0
try:
    ng.zeros(3, device="cuda")
except ng.errors.MissingExtraError as error:
    assert "numba-cuda" in str(error) and "pip install" in str(error), error
else:
    raise AssertionError("no error")
"""


def test_without_the_package_the_error_says_what_to_install():
    subprocess.run([sys.executable, "-c", MISSING], check=True)


def test_without_a_device_the_error_says_so(monkeypatch):
    monkeypatch.setattr(_compat, "available", lambda: False)
    with pytest.raises(ng.errors.DeviceError, match="device='cpu'"):
        ng.zeros(3, device="cuda")
    with pytest.raises(ng.errors.DeviceError, match="'cpu', 'cuda'"):
        ng.zeros(3, device="gpu")
