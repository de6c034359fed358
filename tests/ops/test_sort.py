"""Sorting and searching: values, order of equals and NaN, gradients to the chosen elements, counting."""

import math

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad
from nbgrad.errors import ArgumentError, ShapeError, TraceError
from nbgrad.testing import check_grads

RNG = np.random.default_rng(3)
X = RNG.permutation(120).reshape(3, 8, 5) * 0.1 - 6  # no two elements are close
NAN = math.nan


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(axis, descending):
    for a in (X, X.transpose(2, 0, 1), X[::-1, :, ::-2], (X / 3).round()):
        values, order = ng.from_numpy(a).sort(axis, descending=descending)
        want = -np.sort(-a, axis) if descending else np.sort(a, axis)
        np.testing.assert_array_equal(values.numpy(), want)
        np.testing.assert_array_equal(np.take_along_axis(a, order.numpy(), axis), want)
        again = ng.from_numpy(a).argsort(axis, descending)
        np.testing.assert_array_equal(order.numpy(), again.numpy())
    check_grads(lambda v: v.sort(axis, descending).values, (ng.from_numpy(X),), order=2)


def test_equal_elements_keep_their_order_and_nan_is_largest():
    x = ng.tensor([2.0, 1.0, 2.0, 1.0])
    assert x.argsort().tolist() == [1, 3, 0, 2]
    assert x.argsort(descending=True).tolist() == [0, 2, 1, 3]
    y = ng.tensor([2.0, NAN, 1.0])
    assert y.argsort().tolist() == [2, 0, 1]
    assert y.argsort(descending=True).tolist() == [1, 0, 2]
    np.testing.assert_array_equal(ng.msort(ng.from_numpy(X)).numpy(), np.sort(X, 0))


@pytest.mark.parametrize("k", [0, 1, 3, 8])
@pytest.mark.parametrize("largest", [False, True])
def test_topk(k, largest):
    values, at = ng.from_numpy(X).topk(k, 1, largest=largest)
    want = np.sort(X, 1)
    want = want[:, ::-1][:, :k] if largest else want[:, :k]
    np.testing.assert_array_equal(values.numpy(), want)
    np.testing.assert_array_equal(np.take_along_axis(X, at.numpy(), 1), want)
    check_grads(lambda v: v.topk(k, 1, largest=largest).values, (ng.from_numpy(X),), order=1)


def test_topk_of_a_long_row_uses_a_partition():
    a = RNG.normal(size=1000)
    values, at = ng.from_numpy(a).topk(5)
    np.testing.assert_array_equal(values.numpy(), np.sort(a)[:-6:-1])
    np.testing.assert_array_equal(a[at.numpy()], values.numpy())
    low = ng.from_numpy(a).topk(5, largest=False).values
    np.testing.assert_array_equal(low.numpy(), np.sort(a)[:5])


def test_kthvalue_and_medians():
    x = ng.from_numpy(X)
    for k in (1, 4, 8):
        values = x.kthvalue(k, 1).values
        np.testing.assert_array_equal(values.numpy(), np.sort(X, 1)[:, k - 1])
        kept = x.kthvalue(k, 1, keepdim=True)
        np.testing.assert_array_equal(
            np.take_along_axis(X, kept.indices.numpy(), 1), kept.values.numpy()
        )
    np.testing.assert_array_equal(x.median(1).values.numpy(), np.sort(X, 1)[:, 3])
    assert x.median().item() == np.sort(X.reshape(-1))[59]
    assert tuple(x.median(1, keepdim=True).values.shape) == (3, 1, 5)
    check_grads(lambda v: (v.median(1).values, v.kthvalue(2, 0).values), (x,), order=2)


def test_medians_and_nan():
    x = ng.tensor([3.0, NAN, 1.0, 2.0, NAN], requires_grad=True)
    assert math.isnan(x.median().item()) and x.median(0).indices.item() == 1
    middle = x.nanmedian()
    assert middle.item() == 2
    np.testing.assert_array_equal(grad(middle, x)[0].numpy(), [0, 0, 0, 1, 0])
    assert math.isnan(ng.tensor([NAN, NAN]).nanmedian().item())


def test_sorting_inside_vmap_and_traces():
    x = ng.from_numpy(X)
    for f in (
        lambda v: v.sort(0).values,
        lambda v: v.topk(2, 0).values,
        lambda v: v.median(0).values,
        lambda v: v.kthvalue(3, 0).values,
        lambda v: v.argsort(1),
        lambda v: ng.searchsorted(v.sort().values, v),
        lambda v: ng.histc(v, 4, -1, 1),
    ):
        want = np.stack([f(row).numpy() for row in x])
        np.testing.assert_array_equal(ng.func.vmap(f)(x).numpy(), want)
        np.testing.assert_array_equal(ng.trace(f)(x[0]).replay(x[1]).numpy(), want[1])


def test_unique():
    x = ng.tensor([[3, 1], [1, 2]])
    values, inverse, counts = ng.unique(x, return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3] and counts.tolist() == [2, 1, 1]
    assert inverse.tolist() == [[2, 0], [0, 1]]
    assert x.unique(dim=1).tolist() == [[1, 3], [2, 1]]
    with pytest.raises(TraceError, match="not known inside"):
        ng.trace(ng.unique)(x)
    with pytest.raises(TraceError, match="not known inside"):
        ng.func.vmap(ng.unique)(x)


def test_searchsorted():
    edges = np.sort(RNG.normal(size=6))
    values = np.concatenate([RNG.normal(size=5), edges[:2]])
    for side in ("left", "right"):
        got = ng.searchsorted(ng.from_numpy(edges), ng.from_numpy(values), side=side)
        np.testing.assert_array_equal(got.numpy(), np.searchsorted(edges, values, side))
    rows = np.sort(RNG.normal(size=(3, 6)), 1)
    got = ng.searchsorted(ng.from_numpy(rows), ng.from_numpy(X[:, :4, 0].copy()))
    want = np.stack([np.searchsorted(r, v) for r, v in zip(rows, X[:, :4, 0], strict=True)])
    np.testing.assert_array_equal(got.numpy(), want)
    assert ng.bucketize(ng.tensor(2.5), ng.tensor([1.0, 2.0, 3.0])).item() == 2
    with pytest.raises(ShapeError, match="searchsorted: argument 'sorted_sequence'"):
        ng.searchsorted(ng.from_numpy(rows), ng.zeros(2, 4))


def test_bincount_and_histc():
    x = ng.tensor([0, 3, 3, 1])
    assert x.bincount().tolist() == [1, 1, 0, 2]
    assert ng.bincount(x, minlength=6).tolist() == [1, 1, 0, 2, 0, 0]
    assert ng.bincount(ng.tensor(np.zeros(0, int))).tolist() == []
    w = ng.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    out = ng.bincount(x, w)
    assert out.tolist() == [1, 4, 0, 5]
    np.testing.assert_array_equal(grad((out**2).sum(), w)[0].numpy(), [2, 10, 10, 8])
    with pytest.raises(ArgumentError, match="bincount: the input"):
        ng.bincount(ng.tensor([-1, 2]))
    a = RNG.normal(size=50)
    got = ng.histc(ng.from_numpy(a), 7, -1, 1)
    np.testing.assert_array_equal(got.numpy(), np.histogram(a, 7, (-1, 1))[0])
    np.testing.assert_array_equal(ng.histc(ng.from_numpy(a), 5).numpy(), np.histogram(a, 5)[0])


def test_wrong_ranks():
    with pytest.raises(ArgumentError, match="topk: argument 'k' is 9; expected between 0 and 8"):
        ng.topk(ng.from_numpy(X), 9, 1)
    with pytest.raises(ArgumentError, match="kthvalue: argument 'k' is 0"):
        ng.kthvalue(ng.from_numpy(X), 0)


def test_quantile_is_differentiable_in_q():
    x = ng.tensor([1.0, 2.0, 4.0, 8.0], requires_grad=True)
    q = ng.tensor([0.1, 0.4, 0.9], requires_grad=True)
    assert grad(ng.quantile(x, q).sum(), q)[0].tolist() == pytest.approx([3, 6, 12])
    check_grads(lambda x, q: ng.quantile(x, q), (x, q), order=2)
    for flat in ("lower", "higher", "nearest", "midpoint"):
        out = ng.quantile(x, q, interpolation=flat)
        assert grad(out.sum(), q)[0].tolist() == [0, 0, 0]
        np.testing.assert_array_equal(
            out.detach().numpy(), np.quantile(x.detach().numpy(), q.detach().numpy(), method=flat)
        )
    many = ng.func.vmap(lambda q: ng.quantile(x, q))(ng.tensor([0.4, 1.5])).tolist()
    assert many[0] == pytest.approx(2.4) and math.isnan(many[1])
    _, t = ng.func.jvp(lambda q: ng.quantile(x, q), (ng.tensor(0.4),), (ng.tensor(1.0),))
    assert float(t) == pytest.approx(6)


def test_the_whole_median_gives_its_gradient_to_one_of_equals():
    x = ng.tensor([2.0, 1.0, 2.0, 2.0, 5.0], requires_grad=True)
    assert sorted(grad(ng.median(x), x)[0].tolist()) == [0, 0, 0, 0, 1]
