"""Scans: running sums, products, extrema and log-sum-exp, with derivatives at zeros and in the tails."""

import math

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad
from nbgrad.errors import IndexingError, ShapeError
from nbgrad.op import REGISTRY
from nbgrad.testing import check_grads

RNG = np.random.default_rng(2)
X = RNG.normal(size=(3, 4, 5))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_values_on_every_layout(axis):
    for a in (X, X.transpose(2, 0, 1), X[::-1, :, ::-2], np.broadcast_to(X[:, :1], X.shape)):
        x = ng.from_numpy(a)
        np.testing.assert_allclose(x.cumsum(axis).numpy(), np.cumsum(a, axis))
        np.testing.assert_allclose(x.cumprod(axis).numpy(), np.cumprod(a, axis))
        want = np.logaddexp.accumulate(a, axis)
        np.testing.assert_allclose(x.logcumsumexp(axis).numpy(), want, rtol=1e-12, atol=1e-14)
        for name, fn in (("cummax", np.maximum), ("cummin", np.minimum)):
            values, at = getattr(x, name)(axis)
            np.testing.assert_array_equal(values.numpy(), fn.accumulate(a, axis))
            np.testing.assert_array_equal(np.take_along_axis(a, at.numpy(), axis), values.numpy())
        np.testing.assert_array_equal(x.diff(2, axis).numpy(), np.diff(a, 2, axis))


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int32", "uint8", "bool"])
def test_dtypes(dtype):
    a = np.array([[1, 0, 3], [1, 1, 2]]).astype(dtype)
    for name in ("cumsum", "cumprod"):
        got = getattr(ng.from_numpy(a), name)(1)
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(a, 1))
        assert got.dtype == (np.int64 if a.dtype.kind in "biu" else a.dtype)


def test_float32_state_is_float64():
    a = np.full(1 << 20, 0.1, np.float32)
    got = ng.from_numpy(a).cumsum(0).numpy()
    np.testing.assert_array_equal(got, np.cumsum(a, dtype=float).astype(np.float32))


def test_large_scans():
    a = RNG.normal(size=(700, 600))
    for axis in (0, 1):
        np.testing.assert_allclose(
            ng.from_numpy(a).cumsum(axis).numpy(), np.cumsum(a, axis), atol=1e-11
        )


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
@pytest.mark.parametrize("axis", [0, 2])
def test_derivatives_to_second_order(name, axis):
    x = ng.from_numpy(X)
    check_grads(lambda v: getattr(v, name)(axis), (x,), order=2)


def test_products_with_zeros_to_third_order():
    """No division: the derivatives of a running product are right where several factors are 0."""
    a = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    last = lambda v: v.cumprod(0)[-1]
    hessian = ng.func.hessian(last)(ng.from_numpy(a)).numpy()
    want = np.zeros((5, 5))
    want[1, 3] = want[3, 1] = 30
    np.testing.assert_array_equal(hessian, want)
    third = ng.func.jacrev(ng.func.hessian(last))(ng.from_numpy(a)).numpy()
    assert third[0, 1, 3] == 15 and third[2, 3, 1] == 10 and third[4, 1, 3] == 6
    check_grads(lambda v: v.cumprod(0), (ng.from_numpy(a),), order=2)


def test_cumprod_does_not_meet_infinity_without_need():
    x = ng.tensor([0.0, math.inf, 1.0], requires_grad=True)
    (g,) = grad(x.cumprod(0)[0], x)
    np.testing.assert_array_equal(g.numpy(), [1, 0, 0])


def test_logcumsumexp_in_the_tails():
    inf = math.inf
    x = ng.tensor([1000.0, 1001.0, -1000.0], requires_grad=True)
    (g,) = grad(x.logcumsumexp(0)[2], x)
    np.testing.assert_allclose(g.numpy(), [1 / (1 + math.e), math.e / (1 + math.e), 0], rtol=1e-12)
    y = ng.tensor([-inf, -inf, 1.0, 2.0], requires_grad=True)
    out = y.logcumsumexp(0)
    np.testing.assert_allclose(out.detach().numpy(), [-inf, -inf, 1, np.logaddexp(1, 2)])
    (g,) = grad(out[3] + out[0], y, create_graph=True)
    assert np.isfinite(g.detach().numpy()).all() and g[0].item() == 0
    assert np.isfinite(grad(g.sum(), y)[0].numpy()).all()
    assert ng.tensor([1.0, math.nan, 2.0]).logcumsumexp(0).isnan().tolist() == [False, True, True]


def test_running_extrema_give_the_gradient_to_their_index():
    x = ng.tensor([1.0, 3.0, 2.0, 3.0, 0.0], requires_grad=True)
    values, at = x.cummax(0)
    assert at.tolist() == [0, 1, 1, 3, 3]
    np.testing.assert_array_equal(grad(values.sum(), x)[0].numpy(), [1, 2, 0, 2, 0])
    assert ng.tensor([1.0, math.nan, 3.0]).cummin(0).indices.tolist() == [0, 1, 1]


@pytest.mark.parametrize("mode", ["at", "before", "after"])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_three_recurrences_are_adjoint(mode, reverse):
    """<v, L(a) b> = <L(a)' v, b>, with the transpose in the opposite direction."""
    op = REGISTRY["linear_scan"]
    a, b, v = (ng.from_numpy(RNG.normal(size=(4, 6))) for _ in range(3))
    other = {"at": "after", "before": "before", "after": "at"}[mode]
    left = (v * op(a, b, axis=1, mode=mode, reverse=reverse)).sum()
    right = (b * op(a, v, axis=1, mode=other, reverse=not reverse)).sum()
    np.testing.assert_allclose(left.item(), right.item())


def test_zero_size_and_zero_dimensions():
    for name in ("cumsum", "cumprod", "logcumsumexp", "cummax"):
        for shape in ((2, 0), (0, 2), ()):
            x = ng.tensor(np.ones(shape), requires_grad=True)
            out = getattr(x, name)(-1)
            out = out[0] if isinstance(out, tuple) else out
            assert tuple(grad(out.sum(), x)[0].shape) == shape
            batch = ng.func.vmap(lambda v, o=name: getattr(v, o)(-1))(ng.ones(3, *shape))
            assert tuple((batch[0] if isinstance(batch, tuple) else batch).shape) == (3, *shape)


def test_diff_joins_and_subtracts():
    x = ng.from_numpy(X)
    got = x.diff(dim=1, prepend=x[:, :1], append=x[:, -1:] * 2)
    want = np.diff(X, axis=1, prepend=X[:, :1], append=X[:, -1:] * 2)
    np.testing.assert_array_equal(got.numpy(), want)
    assert ng.tensor([True, False, False]).diff().tolist() == [True, False]
    assert tuple(ng.zeros(3).diff(5).shape) == (0,)
    check_grads(lambda v: v.diff(2, 1), (x,), order=1)


def test_in_place_and_mistakes():
    x = ng.tensor([1.0, 2.0, 3.0])
    assert x.cumsum_(0).tolist() == [1, 3, 6] and x.tolist() == [1, 3, 6]
    with pytest.raises(IndexingError, match="cumsum: argument 'dim' is 1"):
        x.cumsum(1)
    with pytest.raises(ShapeError, match="diff: the tensor's shape"):
        ng.diff(ng.tensor(1.0))


def test_the_zeroth_difference_joins_nothing():
    x = ng.tensor([1.0, 3.0])
    assert ng.diff(x, n=0, append=x, prepend=x).tolist() == [1, 3]
