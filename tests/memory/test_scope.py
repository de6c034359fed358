"""Memory scopes: what they free, what they keep, and what they never touch."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from nbgrad import memory
from nbgrad.errors import NbgradError
from nbgrad.memory import CachingPool, MockAllocator, current_scopes, scope
from nbgrad.memory.blocks import size_class
from nbgrad.memory.host import empty
from nbgrad.memory.scope import _watchers, register, watch


class Fake:
    """Stands for a tensor: an array, what its graph saved, and a note of its invalidation."""

    def __init__(self, *saved: Fake) -> None:
        self.data: np.ndarray | None = empty((10_000,))
        self.saved = saved
        register(self)

    def _invalidate(self) -> None:
        self.data = None

    def _scope_members(self) -> tuple[Fake, ...]:
        return self.saved

    @property
    def alive(self) -> bool:
        return self.data is not None


def test_everything_but_what_is_kept_goes() -> None:
    gc.collect()
    before = memory.memory_allocated()
    outside = Fake()
    with scope() as s:
        gone, kept = Fake(), Fake()
        assert s.keep(kept) is kept
    assert not current_scopes()
    assert (outside.alive, gone.alive, kept.alive) == (True, False, True)
    assert memory.memory_allocated() - before == 2 * size_class(80_000, 64)


def test_what_a_kept_object_needs_is_kept_with_it() -> None:
    with scope() as s:
        chain = Fake()
        first = chain
        for _ in range(5000):
            chain = Fake(chain)
        other = Fake()
        s.keep(chain)
    assert first.alive
    assert chain.alive
    assert not other.alive


def test_live_exports_survive_the_scope() -> None:
    with scope():
        tensor = Fake()
        assert tensor.data is not None
        tensor.data[...] = 5.0
        export = tensor.data[10:20]
    assert not tensor.alive
    others = [empty((10_000,)) for _ in range(4)]
    for other in others:
        other[...] = 0.0
    assert (export == 5.0).all()


def test_objects_the_program_drops_are_not_held() -> None:
    with scope() as s:
        ref = weakref.ref(Fake())
        assert ref() is None
        for _ in range(10_000):
            Fake()
        assert len(s._refs) < 200


def test_nested_scopes_hand_on_what_they_keep() -> None:
    with scope() as outer:
        with scope() as inner:
            gone, up, top = Fake(), Fake(), Fake()
            inner.keep(up)
            inner.keep(top)
        assert (gone.alive, up.alive, top.alive) == (False, True, True)
        outer.keep(top)
    assert (up.alive, top.alive) == (False, True)


def test_keeping_what_was_created_outside_changes_nothing() -> None:
    before = Fake()
    with scope():
        mine = Fake()
        with scope() as inner:
            inner.keep(before)
            inner.keep(mine)
        assert mine.alive
    assert before.alive
    assert not mine.alive


def test_an_exception_in_the_body_frees_too() -> None:
    with pytest.raises(KeyError), scope() as s:
        gone, kept = Fake(), s.keep(Fake())
        raise KeyError
    assert not gone.alive
    assert kept.alive
    assert not current_scopes()


class Stubborn(Fake):
    def _invalidate(self) -> None:
        raise RuntimeError("will not go")


def test_a_failing_invalidation_does_not_save_the_others() -> None:
    with pytest.raises(RuntimeError, match="will not go") as caught, scope():
        one, bad, two = Fake(), Stubborn(), Fake()
        raise KeyError
    assert isinstance(caught.value.__context__, KeyError)
    assert (one.alive, bad.alive, two.alive) == (False, True, False)
    assert not current_scopes()


def test_blocks_of_a_pool_are_recorded() -> None:
    pool = CachingPool(MockAllocator(), chunk_bytes=1 << 20)
    outside = pool.malloc(1000)
    with scope() as s:
        pool.malloc(1000)  # dropped without free: the scope finds it
        pool.malloc(2000).free()
        kept = s.keep(pool.malloc(0))
    assert pool.stats()["active_blocks"] == 2
    pool.check()
    kept.free()
    outside.free()
    assert pool.stats()["active_blocks"] == 0


def test_arrays_are_not_taken_from_under_their_owner() -> None:
    with scope():
        array = empty((20_000,))
        array[...] = 3.0
    empty((20_000,))[...] = 4.0
    assert (array == 3.0).all()


class Slotted:
    __slots__ = ("alive",)

    def __init__(self) -> None:
        self.alive = True

    def _invalidate(self) -> None:
        self.alive = False


def test_objects_without_weak_references() -> None:
    with scope() as s:
        gone, kept = Slotted(), Slotted()
        s.register(gone)
        s.register(kept)
        s.keep(kept)
    assert (gone.alive, kept.alive) == (False, True)


def test_threads_have_scopes_of_their_own() -> None:
    found: list[Any] = []
    with scope():
        thread = threading.Thread(target=lambda: found.append((list(current_scopes()), Fake())))
        thread.start()
        thread.join()
    assert found[0][0] == []
    assert found[0][1].alive


def test_scopes_closed_out_of_order() -> None:
    first, second = scope(), scope()
    first.__enter__()
    second.__enter__()
    mine = second.keep(Fake())
    first.__exit__(None, None, None)
    assert current_scopes() == [second]
    second.__exit__(None, None, None)
    assert mine.alive  # the scope it would belong to is gone
    assert not current_scopes()


def test_what_is_kept_goes_to_the_nearest_scope_that_is_open() -> None:
    with scope():
        first, second = scope(), scope()
        first.__enter__()
        second.__enter__()
        mine = second.keep(Fake())
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        assert mine.alive
    assert not mine.alive


def test_watchers_are_told_the_depth() -> None:
    depths: list[int] = []
    watch(depths.append)
    try:
        with scope(), scope():
            pass
    finally:
        _watchers.remove(depths.append)
    assert depths == [1, 2, 1, 0]


def test_misuse() -> None:
    s = scope()
    with pytest.raises(NbgradError, match="not open"):
        s.keep(Fake())
    with s:
        pass
    with pytest.raises(NbgradError, match="used before"), s:
        pass
    with pytest.raises(NbgradError, match="not open"):
        s.keep(Fake())
