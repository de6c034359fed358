"""Arrays over pool blocks: who keeps a block alive, and when it comes back."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbgrad import memory
from nbgrad.errors import OutOfMemoryError
from nbgrad.memory.host import THRESHOLD, BlockOwner, cpu_pool, empty

SHAPE = (64, 32, 16)  # 256 KiB of float64


@pytest.fixture(autouse=True)
def balanced() -> Any:
    """Every test gives back what it takes, and leaves the pool in order."""
    gc.collect()
    before = memory.memory_allocated()
    yield
    gc.collect()
    assert memory.memory_allocated() == before
    cpu_pool().check()


def in_use() -> int:
    return memory.memory_stats()["active_blocks"]


def test_small_results_use_numpy_and_large_ones_the_pool() -> None:
    before = in_use()
    small, large = empty((THRESHOLD // 8 - 1,)), empty((THRESHOLD // 8,))
    assert small.base is None
    assert isinstance(large.base, BlockOwner)
    assert type(large) is np.ndarray
    assert in_use() == before + 1


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (SHAPE, np.float64),
        ((100_000,), "float32"),
        (100_000, np.complex128),
        ([300, 200], ">i8"),
        ((np.int32(300), np.int64(200)), np.int64),
        ((70_000,), np.dtype([("a", "f4"), ("b", "i1")])),
        ((1 << 20,), bool),
        ((), np.float64),
        ((0, 1 << 40), np.float64),
        ((3, 0), "i2"),
        (np.array([200, 300]), "f8"),
        (np.array(20_000), "f8"),
    ],
)
def test_shape_dtype_and_layout_are_those_of_np_empty(shape: Any, dtype: Any) -> None:
    ours, theirs = empty(shape, dtype), np.empty(shape, dtype)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    assert ours.strides == theirs.strides
    assert ours.flags.c_contiguous
    assert ours.flags.writeable
    if ours.nbytes >= THRESHOLD:
        assert ours.ctypes.data % 64 == 0
    ours[...] = np.zeros((), dtype)
    assert (ours == np.zeros((), dtype)).all()


def test_objects_and_subarrays() -> None:
    before = in_use()
    objects = empty((20_000,), object)
    assert in_use() == before  # a reference in memory that others have written would be a crash
    assert objects[7] is None
    assert empty((20_000,), np.dtype((np.float64, (3,)))).shape == (20_000, 3)


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ((-1, -100_000), ValueError),
        ((-1,), ValueError),
        ((1 << 16,) * 65, ValueError),
        ((2.5, 100_000), TypeError),
        ("abc", TypeError),
    ],
)
def test_a_wrong_shape_raises_and_leaks_nothing(shape: Any, error: type[Exception]) -> None:
    with pytest.raises((error, OutOfMemoryError)):
        empty(shape)


def test_numpy_integers_do_not_overflow() -> None:
    with pytest.raises(MemoryError):
        empty((np.int32(1 << 30), np.int32(1 << 30), 1 << 10))


VIEWS: dict[str, Callable[[np.ndarray], Any]] = {
    "slice": lambda a: a[3:5],
    "slice of slice": lambda a: a[3:50][2:9][1:, ::-1],
    "reshape": lambda a: a.reshape(-1),
    "transpose": lambda a: a.T,
    "reshape of transpose of slice": lambda a: a[:, 1].T.reshape(16, 8, 8),
    "another dtype": lambda a: a.view(np.uint8),
    "view": lambda a: a.view(),
    "asarray of base": lambda a: np.asarray(a.base),
    "subclass": lambda a: a.view(np.matrix if a.ndim == 2 else np.recarray),
    "masked": lambda a: np.ma.asarray(a),
    "real part": lambda a: a.view(complex).real,
    "diagonal": lambda a: a[0].diagonal(),
    "broadcast": lambda a: np.broadcast_to(a, (5, *a.shape)),
    "as_strided": lambda a: np.lib.stride_tricks.as_strided(a, (2, 2), (8, 8)),
    "memoryview": memoryview,
    "memoryview of slice": lambda a: memoryview(a[1:]).cast("B"),
    "frombuffer": lambda a: np.frombuffer(a),
    "frombuffer of memoryview": lambda a: np.frombuffer(memoryview(a[2:]))[4:],
    "frombuffer of base": lambda a: np.frombuffer(a.base),
    "ndarray over buffer": lambda a: np.ndarray((4,), np.float64, a),
    "array interface": lambda a: np.asarray(Interface(a)),
    "dlpack": lambda a: np.from_dlpack(a),
    "iterator": lambda a: iter(a),
    "flat": lambda a: a.flat,
    "owner": lambda a: a.base,
    "view as owner": lambda a: a[1:].view(BlockOwner),
    "readonly": lambda a: a.view(),
}


class Interface:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_keeps_the_block_until_it_dies_too(name: str) -> None:
    before = in_use()
    array = empty(SHAPE)
    array[...] = 7.0
    address = array.ctypes.data
    view = VIEWS[name](array)
    del array
    gc.collect()
    assert in_use() == before + 1
    others = [empty(SHAPE) for _ in range(3)]
    assert address not in [other.ctypes.data for other in others]
    del others, view
    gc.collect()
    assert in_use() == before


@pytest.mark.parametrize(
    "copied", [np.copy, copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))]
)
def test_copies_do_not_keep_the_block(copied: Callable[[Any], Any]) -> None:
    before = in_use()
    for pick in (lambda a: a, lambda a: a.base):
        twin = copied(pick(empty(SHAPE)))
        assert in_use() == before
        assert twin.shape == SHAPE


def test_the_memory_is_reused() -> None:
    first = empty(SHAPE)
    address = first.ctypes.data
    del first
    assert empty(SHAPE).ctypes.data == address


def test_live_arrays_do_not_overlap_and_keep_their_values() -> None:
    rng = np.random.default_rng(0)
    live: list[tuple[int, np.ndarray]] = []
    for step in range(300):
        array = empty((int(rng.integers(8_192, 400_000)),))
        array[...] = step
        live.append((step, array))
        if len(live) > 8:
            live.pop(int(rng.integers(8)))
        assert all((array == value).all() for value, array in live[:3])
    assert all((array == value).all() for value, array in live)


def test_a_limit_turns_into_an_error_and_back() -> None:
    memory.empty_cache()
    memory.set_limit(memory.memory_reserved() + (1 << 20))
    try:
        with pytest.raises(OutOfMemoryError, match="the request to the cpu pool is"):
            empty((1 << 20,))
        assert empty((1 << 15,)).nbytes == 1 << 18
    finally:
        memory.set_limit(None)
    assert empty((1 << 20,)).nbytes == 1 << 23


def test_the_facade_counts() -> None:
    memory.reset_peak_memory_stats()
    start = memory.memory_allocated()
    array = empty((1 << 20,))
    assert memory.memory_allocated() - start == array.nbytes
    del array
    assert memory.memory_allocated() == start
    assert memory.max_memory_allocated() - start == 1 << 23
    assert memory.max_memory_reserved() >= memory.memory_reserved() >= 1 << 23
    assert "memory pool 'cpu'" in memory.memory_summary()
    assert sum(chunk["size"] for chunk in memory.memory_snapshot()) == memory.memory_reserved()
    memory.empty_cache()
    assert memory.memory_stats()["inactive_split_bytes"] == (
        memory.memory_reserved() - memory.memory_allocated()
    )


def test_arrays_in_cycles_freed_by_the_collector_during_allocation() -> None:
    before = in_use()
    for _ in range(2000):
        cycle: list[Any] = [empty((8_192,))]
        cycle.append(cycle)
    gc.collect()
    del cycle
    gc.collect()
    assert in_use() == before


def test_two_threads_write_only_their_own_arrays() -> None:
    failures: list[str] = []

    def work(value: float) -> None:
        for size in (8_192, 20_000, 300_000) * 100:
            array = empty((size,))
            array.fill(value)
            again = array + 0.0
            if not (again == value).all():
                failures.append(f"{value} in {size}")

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_own_pool() -> None:
    array = empty(SHAPE)
    array[...] = 1.0
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            array[...] = 2.0
            other = empty(SHAPE)
            other[...] = 3.0
            del other
            cpu_pool().check()
            status = 0 if (array == 2.0).all() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (array == 1.0).all()


SHUTDOWN = """
import sys
from nbgrad.memory.host import empty
kept = [empty((100, 100)) for _ in range(10)]
cycle = [empty((100, 1000))]; cycle.append(cycle)
class Late:
    def __init__(self): self.array = empty((100, 100))
    def __del__(self, empty=empty): self.array = empty((100, 1000))
sys.late = Late()
late = Late()
"""


def test_nothing_is_printed_at_interpreter_shutdown() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", SHUTDOWN],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
