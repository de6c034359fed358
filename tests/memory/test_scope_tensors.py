"""Memory scopes and tensors: what is made inside goes, what is kept and what NumPy holds stays."""

import gc

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.errors import AutogradError


def test_tensors_made_inside_are_freed_and_kept_ones_stay():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    with ng.memory.scope() as s:
        a = x * 2
        b = s.keep((a * a).sum())
        z = ng.zeros(3)
    with pytest.raises(AutogradError, match="memory scope"):
        a + 1
    with pytest.raises(AutogradError, match="memory scope"):
        z.sum()
    b.backward()  # the kept tensor's graph keeps what it saved
    assert x.grad.tolist() == [8, 16]


def test_numpy_exports_outlive_the_scope():
    with ng.memory.scope():
        t = ng.ones(100_000) * 3
        a = t.numpy()[::2]
    gc.collect()
    other = ng.zeros(100_000)  # would reuse the block if it had been given back
    assert (a == 3).all() and other.sum() == 0


def test_large_results_live_in_the_pool_and_return():
    gc.collect()
    before = ng.memory.memory_allocated()
    t = ng.ones(1 << 16) + 1
    assert ng.memory.memory_allocated() >= before + t.nbytes
    view = t.numpy().reshape(256, 256)[3:5]
    del t
    assert ng.memory.memory_allocated() > before
    del view
    gc.collect()
    assert ng.memory.memory_allocated() == before


def test_exceptions_free_too_and_nested_scopes_hand_on():
    with ng.memory.scope() as outer:
        with ng.memory.scope() as inner:
            t = inner.keep(ng.ones(2))
        assert t.sum() == 2
        kept = outer.keep(t * 1)
    with pytest.raises(AutogradError):
        t + 1
    assert kept.tolist() == [1, 1]
    holder = []
    with pytest.raises(ZeroDivisionError), ng.memory.scope():
        holder.append(ng.ones(2))
        raise ZeroDivisionError
    with pytest.raises(AutogradError):
        holder[0] + 1
    np.testing.assert_array_equal((ng.ones(2) + 1).numpy(), [2, 2])
