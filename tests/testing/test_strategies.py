"""The strategies draw what they promise, reproducibly, and fail clearly without Hypothesis."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import nbgrad as ng
from nbgrad.errors import ArgumentError
from nbgrad.layout import is_contiguous
from nbgrad.op.view import array_layout
from nbgrad.testing import broadcastable_shapes, shapes, tensors

FAST = settings(max_examples=40, deadline=None)


@FAST
@given(shapes(min_dims=1, max_dims=2, min_side=1, max_side=3))
def test_shapes_respect_their_bounds(shape):
    assert 1 <= len(shape) <= 2 and all(1 <= n <= 3 for n in shape)


def test_shapes_reach_scalars_and_empty_ones():
    assert find(shapes(), lambda s: s == ()) == ()
    assert 0 in find(shapes(), lambda s: 0 in s)


@FAST
@given(broadcastable_shapes(3))
def test_broadcastable_shapes_broadcast(found):
    assert len(found) == 3
    np.broadcast_shapes(*found)


def test_broadcastable_shapes_are_not_all_equal():
    a, b = find(broadcastable_shapes(2), lambda s: len(s[0]) != len(s[1]) and max(s[0] + s[1]) > 1)
    assert len(a) != len(b)


@FAST
@given(tensors(dtypes=[ng.float64, ng.float32, ng.complex128, ng.int64, ng.bool], low=-1, high=3))
def test_values_lie_in_the_range_and_leaves_require_grad(t):
    a = t.detach().numpy()
    assert t.requires_grad == (a.dtype.kind in "fc")
    if a.dtype.kind != "b":
        assert (a.real >= -1).all() and (a.real <= 3).all()


@pytest.mark.parametrize("layout", ["transposed", "sliced", "reversed"])
def test_layouts_are_really_strided(layout):
    t = find(
        tensors(shapes=(3, 4), layouts=[layout]),
        lambda t: not is_contiguous(array_layout(t.detach().numpy())),
    )
    strides = t.detach().numpy().strides
    assert {
        "transposed": strides[0] < strides[1],
        "sliced": strides[1] == 16,
        "reversed": strides[0] < 0,
    }[layout]


def test_expanded_tensors_repeat_memory_and_are_no_leaves():
    plain = tensors(shapes=(2, 3), layouts=["expanded"], requires_grad=False)
    assert find(plain, lambda t: True).numpy().strides[1] == 0
    leaf = find(tensors(shapes=(2, 3), layouts=["expanded"]), lambda t: True)
    assert leaf.requires_grad and leaf.detach().numpy().strides[1] != 0


@FAST
@given(tensors(shapes=(4, 5), dtypes=[ng.float64, ng.complex128], away_from=(0.0, 1.0), margin=0.1))
def test_kinks_are_avoided(t):
    a = t.detach().numpy()
    parts = [a.real, a.imag] if a.dtype.kind == "c" else [a]
    for p in parts:
        assert (np.abs(p) >= 0.1 - 1e-12).all() and (np.abs(p - 1) >= 0.1 - 1e-12).all()


@FAST
@given(tensors(shapes=(2, 2), elements=st.sampled_from([1.5, 2.5])))
def test_elements_come_from_the_given_strategy(t):
    assert set(t.detach().numpy().ravel()) <= {1.5, 2.5}


@FAST
@given(tensors(shapes=st.sampled_from([(2,), (3, 1)]), dtypes=st.just("float32")))
def test_shapes_and_dtypes_may_be_strategies(t):
    assert tuple(t.shape) in {(2,), (3, 1)} and t.dtype == ng.float32


def test_unknown_layouts_are_refused():
    with pytest.raises(ArgumentError, match="layouts"):
        find(tensors(layouts=["spiral"]), lambda t: True)


def test_close_kinks_are_all_kept_clear():
    crowded = tensors(shapes=(50,), low=0, high=1, away_from=(0.4, 0.42), margin=0.05)
    a = find(crowded, lambda t: True).detach().numpy()
    assert (np.abs(a - 0.4) >= 0.05 - 1e-12).all() and (np.abs(a - 0.42) >= 0.05 - 1e-12).all()


def test_a_missing_hypothesis_names_the_extra():
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import nbgrad.testing as t\n"
        "t.check_grads\n"
        "try:\n    t.tensors\n"
        "except ImportError as e:\n    print(e)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'nbgrad[test]'" in out.stdout
