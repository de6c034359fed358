"""Reductions: values against NumPy over axes, layouts and dtypes; conventions at ties, zeros, NaN and nothing."""

import itertools
import math

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad
from nbgrad.errors import DTypeError, IndexingError, ShapeError
from nbgrad.testing import check_grads

RNG = np.random.default_rng(1)
X = RNG.normal(size=(3, 4, 5))


def leaf(values):
    return ng.tensor(values, requires_grad=True)


def gradient(f, x):
    return grad(f(x), x)[0].numpy()


def axis_sets(ndim):
    return [None, *(a for r in (1, 2, 3) for a in itertools.combinations(range(ndim), r))]


# -- values -----------------------------------------------------------------------------------------

WITH_AXES = [
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "any",
    "all",
    "count_nonzero",
    "nansum",
    "nanmean",
]


@pytest.mark.parametrize("name", WITH_AXES)
@pytest.mark.parametrize("axes", axis_sets(3))
def test_axes_and_layouts(name, axes):
    """Any dimensions, kept or not, on contiguous, transposed, reversed, strided and broadcast memory."""
    for a in (X, X.transpose(2, 0, 1), X[::-1, :, ::-2], np.broadcast_to(X[:, :1], X.shape)):
        want = getattr(np, name)(a, axis=axes, keepdims=True)
        got = getattr(ng, name)(ng.from_numpy(a), dim=axes, keepdim=True)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-13, atol=1e-14)
        flat = getattr(ng.from_numpy(a), name)(axes)
        assert tuple(flat.shape) == np.shape(getattr(np, name)(a, axis=axes))
        assert flat.is_contiguous()


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "any", "all", "count_nonzero"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "int8", "uint8", "bool"])
def test_dtypes(name, dtype):
    a = np.array([[1, 0, 3], [1, 1, 2]]).astype(dtype)
    want = getattr(np, name)(a, axis=1)
    got = getattr(ng, name)(ng.from_numpy(a), 1)
    np.testing.assert_array_equal(got.numpy(), want)
    integral = a.dtype.kind in "biu"
    expected = {"any": "bool", "all": "bool", "count_nonzero": "int64"}.get(name)
    if name in ("sum", "prod"):
        expected = "int64" if integral else dtype
    assert got.dtype == np.dtype(expected or dtype)


def test_complex_sums_and_products():
    z = X + 1j * X[::-1]
    for name in ("sum", "prod", "mean", "any", "count_nonzero"):
        want = getattr(np, name)(z, axis=1)
        np.testing.assert_allclose(getattr(ng, name)(ng.from_numpy(z), 1).numpy(), want)
    np.testing.assert_allclose(ng.from_numpy(z).var(1).numpy(), z.var(1, ddof=1))
    np.testing.assert_allclose(ng.from_numpy(z).norm(dim=1).numpy(), np.linalg.norm(z, axis=1))


@pytest.mark.parametrize(
    "shape", [(3 * 2048 + 77,), (700, 300), (3, 70_001), (5, 100, 33), (9000, 17)]
)
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_large_arrays(shape, name):
    """Blocks, lanes, tiles and remainders, in every direction."""
    a = RNG.normal(size=shape)
    for axes in [None, *((k,) for k in range(a.ndim))]:
        want = getattr(np, name)(a, axis=axes)
        op = ng.sum if name == "sum" else getattr(ng, "a" + name)
        np.testing.assert_allclose(op(ng.from_numpy(a), axes).numpy(), want, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("place", [0, 63, 64, 1000, 2047, 2048, 4999])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_extrema_propagate_nan_from_anywhere(place, dtype):
    a = RNG.normal(size=5000).astype(dtype)
    a[place] = np.nan
    assert np.isnan(ng.from_numpy(a).amax().item())
    assert np.isnan(ng.from_numpy(a).amin().item())
    a[place] = -np.inf
    a[(place + 7) % 5000] = np.inf  # infinities of both signs must not be taken for NaN
    assert ng.from_numpy(a).amax().item() == np.inf
    assert ng.from_numpy(a).amin().item() == -np.inf
    assert ng.from_numpy(np.delete(a, place)).amin().item() == np.delete(a, place).min()


def test_sums_are_pairwise():
    a = RNG.normal(size=1 << 20) * 10.0 ** RNG.integers(-3, 3, 1 << 20)
    exact, size = math.fsum(a), math.fsum(np.abs(a))
    assert abs(ng.from_numpy(a).sum().item() - exact) <= 16 * np.finfo(float).eps * size
    column = a.reshape(-1, 4)
    got = ng.from_numpy(column).sum(0).numpy()
    for k in range(4):
        size = math.fsum(np.abs(column[:, k]))
        assert abs(got[k] - math.fsum(column[:, k])) <= 64 * np.finfo(float).eps * size


def test_float32_accumulates_in_float64():
    a = np.full(1 << 22, 0.1, np.float32)
    want = np.float32(float(np.float32(0.1)) * (1 << 22))
    assert ng.from_numpy(a).sum().numpy() == want
    assert ng.from_numpy(a.reshape(-1, 2)).sum(0).numpy()[1] == want / 2
    b = np.lib.stride_tricks.as_strided(
        a, (64, 8, 64), (4 * 4096, 4, 4 * 32)
    )  # axes that do not merge
    got = ng.from_numpy(b).sum((0, 2)).numpy()
    np.testing.assert_array_equal(got, np.sum(b, axis=(0, 2), dtype=float).astype(np.float32))


def test_result_does_not_depend_on_the_number_of_threads():
    from kernels_cpu import threads

    a = ng.from_numpy(RNG.normal(size=(1 << 22) + 5))
    before = threads.get_num_threads()
    try:
        found = []
        for n in (1, 2, 3):
            threads.set_num_threads(n)
            found.append((a.sum().item(), a.amax().item(), a[:-5].reshape(64, -1).sum(0)[7].item()))
    finally:
        threads.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_numpy_spellings():
    x = ng.from_numpy(X)
    np.testing.assert_allclose(
        x.sum(axis=(0, 2), keepdims=True).numpy(), X.sum((0, 2), keepdims=True)
    )
    np.testing.assert_allclose(ng.std(x, axis=1, ddof=0).numpy(), X.std(1))
    np.testing.assert_allclose(ng.softmax(x, axis=1).sum(axis=1).numpy(), np.ones((3, 5)))
    values, indices = ng.max(x, axis=2, keepdims=True)
    np.testing.assert_array_equal(values.numpy(), X.max(2, keepdims=True))
    np.testing.assert_array_equal(indices.numpy(), X.argmax(2, keepdims=True))
    assert ng.max(x, ng.zeros(5)).min().item() == 0  # two tensors: the elementwise maximum


def test_arguments_of_extrema():
    x = ng.from_numpy(X)
    for name in ("argmax", "argmin"):
        op, want = getattr(ng, name), getattr(np, name)
        assert op(x).item() == want(X)
        assert tuple(op(x, keepdim=True).shape) == (1, 1, 1)
        np.testing.assert_array_equal(op(x, 1).numpy(), want(X, 1))
        np.testing.assert_array_equal(op(x, -1, keepdim=True).numpy(), want(X, -1, keepdims=True))
    assert ng.argmax(ng.tensor([1.0, np.nan, 3.0, np.nan])).item() == 1
    low, high = ng.aminmax(x, dim=0)
    np.testing.assert_array_equal(low.numpy(), X.min(0))
    np.testing.assert_array_equal(high.numpy(), X.max(0))


# -- norms and moments ------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, -1, -2, math.inf, -math.inf])
@pytest.mark.parametrize("axes", [None, 1, (0, 2)])
def test_norm_values_and_derivatives(p, axes):
    x = ng.from_numpy(X)
    a = np.abs(X)
    want = {
        0: lambda: (a != 0).sum(axes),
        math.inf: lambda: a.max(axes),
        -math.inf: lambda: a.min(axes),
    }
    want = want.get(p, lambda: (a**p).sum(axes) ** (1 / p))()
    np.testing.assert_allclose(ng.vector_norm(x, p, axes).numpy(), want, rtol=1e-13)
    np.testing.assert_allclose(x.norm(p, axes).numpy(), want, rtol=1e-13)
    if p != 0:
        away = ng.from_numpy(X + np.sign(X))  # small powers have steep kinks at 0
        check_grads(lambda v: ng.vector_norm(v, p, axes), (away,), order=2)


def test_norm_neither_overflows_nor_underflows():
    for size in (1e-320, 1e-200, 1e200, 1e300):
        x = leaf(np.array([3.0, 4.0]) * size)
        np.testing.assert_allclose(x.norm().item(), 5 * size, rtol=1e-3 if size < 1e-300 else 1e-15)
        np.testing.assert_allclose(gradient(lambda v: v.norm(), x), [0.6, 0.8], rtol=1e-3)
    assert ng.tensor([1.0, np.inf]).norm().item() == np.inf
    assert np.isnan(ng.tensor([1.0, np.nan]).norm().item())
    assert ng.zeros(0).norm().item() == 0


@pytest.mark.parametrize("name", ["var", "std"])
def test_var_and_std(name):
    x = ng.from_numpy(X)
    for axes, correction in itertools.product((None, 0, (0, 2)), (0, 1, 2)):
        want = getattr(np, name)(X, axis=axes, ddof=correction)
        got = getattr(ng, name)(x, axes, correction=correction)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-13)
    np.testing.assert_allclose(getattr(x, name)(unbiased=False).item(), getattr(np, name)(X))
    np.testing.assert_allclose(getattr(x, name)(False).item(), getattr(np, name)(X))
    both, mean = getattr(ng, name + "_mean")(x, 1)
    np.testing.assert_allclose(both.numpy(), getattr(np, name)(X, axis=1, ddof=1))
    np.testing.assert_allclose(mean.numpy(), X.mean(1))
    assert np.isnan(getattr(ng.ones(1), name)().item())
    check_grads(lambda v: getattr(v, name)(1), (x,), order=2)


def test_variance_of_a_large_mean():
    a = 1e8 + RNG.normal(size=1000)
    np.testing.assert_allclose(ng.from_numpy(a).var().item(), np.var(a - 1e8, ddof=1), rtol=1e-7)


# -- conventions ------------------------------------------------------------------------------------


def test_ties_share_evenly_or_go_to_the_index():
    x = leaf([1.0, 3.0, 3.0])
    np.testing.assert_array_equal(gradient(lambda v: v.amax(0), x), [0, 0.5, 0.5])
    np.testing.assert_array_equal(gradient(lambda v: v.max(), x), [0, 0.5, 0.5])
    np.testing.assert_array_equal(gradient(lambda v: (-v).min(), x), [0, -0.5, -0.5])
    np.testing.assert_array_equal(gradient(lambda v: v.max(0).values, x), [0, 1, 0])
    np.testing.assert_array_equal(
        gradient(lambda v: v.norm(math.inf), leaf([1.0, -3, 3])), [0, -0.5, 0.5]
    )
    for f in (lambda v: v.amax(), lambda v: v.max(0).values, lambda v: v.norm(math.inf)):
        t = ng.tensor([1.0, 2.0, 5.0])
        _, dot = ng.func.jvp(f, (x.detach(),), (t,))
        np.testing.assert_allclose(dot.item(), (gradient(f, x) * t.numpy()).sum())


@pytest.mark.parametrize(
    "f", [lambda n: n**2, lambda n: n.square(), lambda n: n * n, lambda n: n**2.0]
)
@pytest.mark.parametrize("outer", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("inner", ["jacfwd", "jacrev"])
def test_hessian_of_a_squared_norm_at_zero(f, outer, inner):
    """The gradient of a norm at 0 is 0 by convention; its square is smooth and keeps its Hessian."""

    def hessian(g, x):
        return getattr(ng.func, outer)(getattr(ng.func, inner)(g))(x).numpy()

    zero = ng.zeros(2)
    np.testing.assert_allclose(hessian(lambda x: f(x.norm()), zero), 2 * np.eye(2))
    rows = hessian(lambda x: f(x.reshape(2, 1).norm(dim=1)).sum(), ng.tensor([0.0, 3.0]))
    np.testing.assert_allclose(rows, 2 * np.eye(2), atol=1e-14)
    spread = hessian(lambda x: f(x.std(correction=0)), ng.ones(2))
    np.testing.assert_allclose(spread, np.eye(2) - 0.5)
    np.testing.assert_array_equal(hessian(lambda x: x.norm(), zero), np.zeros((2, 2)))


def test_squared_norm_keeps_the_norm_in_the_graph():
    x = leaf([3.0, 4.0])
    n = x.norm()
    assert grad(n**2, n)[0].item() == 10
    n = x.norm()
    with ng.no_grad():
        x.mul_(0)  # the norm no longer belongs to x: no curvature is added
    assert (n**2).item() == 25


def test_squared_norm_is_completed_in_traces_and_batches():
    hessian = ng.func.hessian(lambda x: x.norm() ** 2)
    both = ng.func.vmap(hessian)(ng.tensor([[0.0, 0.0], [3.0, 4.0]]))
    np.testing.assert_allclose(both.numpy(), np.stack([2 * np.eye(2)] * 2), atol=1e-14)
    tape = ng.trace(hessian)(ng.tensor([1.0, 2.0]))
    np.testing.assert_allclose(tape.replay(ng.zeros(2)).numpy(), 2 * np.eye(2))


def test_deviation_of_constants_has_gradient_zero():
    np.testing.assert_array_equal(gradient(lambda v: v.std(), leaf(np.ones(4))), np.zeros(4))
    np.testing.assert_array_equal(gradient(lambda v: v.norm(), leaf(np.zeros(4))), np.zeros(4))
    np.testing.assert_array_equal(gradient(lambda v: v.norm(3), leaf(np.zeros(4))), np.zeros(4))


def test_product_with_zeros_to_second_order():
    x = leaf([2.0, 3.0, 0.0, 0.0])
    (g,) = grad(x.prod(), x, create_graph=True)
    np.testing.assert_array_equal(g.detach().numpy(), np.zeros(4))
    hessian = ng.func.hessian(lambda v: v.prod())(x.detach()).numpy()
    want = np.zeros((4, 4))
    want[2, 3] = want[3, 2] = 6
    np.testing.assert_array_equal(hessian, want)
    third = ng.func.jacrev(ng.func.hessian(lambda v: v.prod()))(x.detach()).numpy()
    assert third[0, 2, 3] == 3 and third[1, 3, 2] == 2 and third[2, 2, 2] == 0
    y = RNG.normal(size=(2, 3, 2))
    y[0, 1, 0] = y[1, 1, 0] = 0
    check_grads(lambda v: v.prod((0, 2)), (ng.from_numpy(y),), order=2)


def test_logsumexp_of_minus_infinity():
    inf = math.inf
    np.testing.assert_array_equal(
        gradient(lambda v: ng.logsumexp(v, 0), leaf([-inf, -inf])), [0, 0]
    )
    np.testing.assert_array_equal(gradient(lambda v: ng.logsumexp(v, 0), leaf([-inf, 1.0])), [0, 1])
    assert ng.logsumexp(ng.zeros(0, 2), 0).tolist() == [-inf, -inf]
    assert ng.logsumexp(ng.tensor([inf, 1.0]), 0).item() == inf
    big = leaf([1000.0, 1001.0])
    np.testing.assert_allclose(ng.logsumexp(big, 0).item(), 1001 + math.log1p(math.exp(-1)))
    hessian = ng.func.hessian(lambda v: ng.logsumexp(v, 0))(ng.tensor([-inf, -inf])).numpy()
    np.testing.assert_array_equal(hessian, np.zeros((2, 2)))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_family(axis):
    x = ng.from_numpy(X * 30)
    e = np.exp(x.numpy() - x.numpy().max(axis, keepdims=True))
    want = e / e.sum(axis, keepdims=True)
    np.testing.assert_allclose(ng.softmax(x, axis).numpy(), want, rtol=1e-13, atol=1e-300)
    sharp = ng.log_softmax(ng.tensor([[0.0, -2000.0]]), 1).numpy()
    np.testing.assert_array_equal(sharp, [[0, -2000]])
    check_grads(lambda v: (v.softmax(axis), v.log_softmax(axis)), (ng.from_numpy(X),), order=2)


def test_nan_is_left_out_and_gets_no_gradient():
    x = leaf([math.nan, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient(lambda v: (v**2).nanmean(), x), [0, 2 / 3, 4 / 3, 2])
    np.testing.assert_array_equal(gradient(lambda v: v.nansum(), x), [0, 1, 1, 1])
    assert np.isnan(ng.tensor([math.nan]).nanmean().item())
    _, dot = ng.func.jvp(lambda v: v.nansum(), (x.detach(),), (ng.ones(4),))
    assert dot.item() == 3


# -- nothing, and mistakes --------------------------------------------------------------------------


def test_zero_size():
    x = leaf(np.zeros((3, 0, 2)))
    for name in ("sum", "prod", "nansum", "norm", "any", "all"):
        for axes in (None, 0, 1, (0, 1)):
            want = getattr(np, "sum" if name == "norm" else name)(np.zeros((3, 0, 2)), axis=axes)
            out = getattr(ng, name)(x, dim=axes)
            np.testing.assert_array_equal(out.detach().numpy(), want)
            if out.dtype.kind == "f":
                assert gradient(
                    lambda v, o=name, a=axes: getattr(ng, o)(v, dim=a).sum(), x
                ).shape == (3, 0, 2)
    assert np.isnan(ng.zeros(0).mean().item())
    assert tuple(x.amax(0).shape) == (0, 2) and tuple(x.max(2).values.shape) == (3, 0)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "argmax", "argmin", "median"])
def test_extrema_of_nothing_raise(name):
    for call in (lambda x: getattr(ng, name)(x), lambda x: getattr(ng, name)(x, 1)):
        with pytest.raises(ShapeError, match=f"{name}: .*at least one element"):
            call(ng.zeros(3, 0, 2))


@pytest.mark.parametrize(
    "name", ["amax", "max", "argmin", "logsumexp", "softmax", "median", "sort", "cummax"]
)
def test_complex_numbers_have_no_order(name):
    z = ng.tensor([1 + 1j, 2.0])
    with pytest.raises(DTypeError, match="no order"):
        getattr(ng, name)(z, 0)


def test_wrong_dimensions():
    x = ng.zeros(2, 3)
    with pytest.raises(IndexingError, match="sum: argument 'dim' is 2"):
        x.sum(2)
    with pytest.raises(IndexingError, match="distinct"):
        x.mean((0, -2))
    with pytest.raises(DTypeError, match="norm: the tensor's dtype is int64"):
        ng.tensor([1, 2]).norm()


# -- vectors and quantiles --------------------------------------------------------------------------


def test_vector_products():
    a, b = RNG.normal(size=5), RNG.normal(size=5)
    x, y = ng.from_numpy(a), ng.from_numpy(b)
    np.testing.assert_allclose(ng.dot(x, y).item(), a @ b)
    np.testing.assert_allclose(ng.outer(x, y).numpy(), np.outer(a, b))
    np.testing.assert_allclose(ng.inner(ng.from_numpy(X), x).numpy(), np.inner(X, a))
    z = ng.from_numpy(a + 1j * b)
    np.testing.assert_allclose(ng.vdot(z, z).numpy(), np.vdot(a + 1j * b, a + 1j * b))
    u, v = RNG.normal(size=(4, 3)), RNG.normal(size=(1, 3))
    got = ng.cross(ng.from_numpy(u), ng.from_numpy(v), dim=1)
    np.testing.assert_allclose(got.numpy(), np.cross(u, v))
    np.testing.assert_allclose(ng.trace(ng.from_numpy(X[0])).item(), np.trace(X[0]))
    check_grads(lambda p, q: ng.cross(p, q, dim=1), (ng.from_numpy(u), ng.from_numpy(v)), order=2)
    with pytest.raises(ShapeError, match="two vectors of one length"):
        ng.dot(x, ng.zeros(4))


@pytest.mark.parametrize("q", [0.0, 0.3, 1.0, [0.1, 0.5, 0.9]])
@pytest.mark.parametrize("kind", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantile(q, kind):
    x = ng.from_numpy(X)
    for axis in (None, 1):
        want = np.quantile(X, q, axis=axis, method=kind)
        np.testing.assert_allclose(ng.quantile(x, q, axis, interpolation=kind).numpy(), want)
    check_grads(lambda v: ng.quantile(v, q, 1, interpolation=kind), (x,), order=1)


def test_quantile_propagates_nan():
    a = X.copy()
    a[0, 1, 2] = np.nan
    got = ng.quantile(ng.from_numpy(a), 0.5, 2).numpy()
    assert np.isnan(got[0, 1]) and not np.isnan(np.delete(got.reshape(-1), 1)).any()


@pytest.mark.parametrize("dim", [(), []])
def test_no_dimension_means_all_in_every_reduction(dim):
    x = ng.tensor([[0.5, 1.5, 3.0], [2.0, 0.25, 1.0]])
    names = "sum mean prod nansum nanmean var std norm any all count_nonzero amax amin logsumexp"
    for name in names.split():
        got, want = getattr(ng, name)(x, dim=dim), getattr(ng, name)(x, dim=(0, 1))
        assert tuple(got.shape) == () and float(got) == float(want), name
        assert tuple(getattr(ng, name)(x, dim=dim, keepdim=True).shape) == (1, 1), name


def test_the_result_has_the_dtype_asked_for():
    x = ng.tensor([1, 2, 0])
    assert x.sum(dtype=ng.bool).dtype == ng.bool and bool(x.sum(dtype=ng.bool))
    assert x.sum(dtype=ng.int32).dtype == ng.int32 and x.prod(dtype=ng.int16).dtype == ng.int16


def test_numpy_integers_are_dimensions():
    x = ng.tensor([[1.0, 5.0], [4.0, 2.0]])
    assert x.amax(dim=np.int64(0)).tolist() == [4, 5] and x.amin(dim=np.int64(1)).tolist() == [1, 2]
    assert x.aminmax(dim=np.int64(0)).max.tolist() == [4, 5]


def test_the_count_norm_has_gradient_zero():
    x = ng.tensor([1.0, 0.0, math.nan, math.inf], requires_grad=True)
    n = ng.norm(x, 0)
    assert float(n) == 3 and grad(n, x)[0].tolist() == [0, 0, 0, 0]
    z = ng.tensor([1j, 0.0], requires_grad=True)
    assert ng.norm(z, 0).dtype == ng.float64 and grad(ng.norm(z, 0), z)[0].tolist() == [0, 0]
