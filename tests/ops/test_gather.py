"""Gather, scatter and relatives: values by plain loops, gradients in both modes, vmap, traces, wrong calls."""

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad, gradcheck, gradgradcheck
from nbgrad.errors import (
    ArgumentError,
    DTypeError,
    IndexingError,
    NbgradError,
    ShapeError,
    TraceError,
)

RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 2, (3, 4, 2))
SRC = RNG.uniform(0.5, 2, (3, 4, 2))


def T(v):
    return ng.tensor(v, requires_grad=True)


def loop(x, dim, index, src, combine):
    """``combine(old, new)`` for every entry of index, in order."""
    out = x.copy()
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[dim] = index[at]
        out[tuple(to)] = combine(out[tuple(to)], src[at])
    return out


def index_for(dim, size=(2, 3, 2)):
    """An index smaller than X in the other dimensions, longer along ``dim``, with repeats and negative entries."""
    shape = list(size)
    shape[dim] = 5
    return RNG.integers(-X.shape[dim], X.shape[dim], shape)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather(dim):
    i = index_for(dim)
    want = np.take_along_axis(
        X[tuple(slice(n if d != dim else None) for d, n in enumerate(i.shape))], i, dim
    )
    np.testing.assert_array_equal(ng.tensor(X).gather(dim, ng.tensor(i)).numpy(), want)
    assert gradcheck(lambda x: x.gather(dim, ng.tensor(i)) ** 2, (T(X),))
    assert gradgradcheck(lambda x: x.gather(dim, ng.tensor(i)) ** 3, (T(X),))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter_and_scatter_add(dim):
    i = RNG.integers(-X.shape[dim], X.shape[dim], (2, 3, 2))
    t = ng.tensor(i)
    added = ng.tensor(X).scatter_add(dim, t, ng.tensor(SRC))
    np.testing.assert_allclose(added.numpy(), loop(X, dim, i, SRC, lambda a, b: a + b))
    written = ng.tensor(X).scatter(dim, t, ng.tensor(SRC))
    np.testing.assert_array_equal(written.numpy(), loop(X, dim, i, SRC, lambda a, b: b))
    np.testing.assert_array_equal(
        ng.tensor(X).scatter(dim, t, 7.0).numpy(), loop(X, dim, i, SRC, lambda a, b: 7.0)
    )
    for name in ("scatter", "scatter_add"):
        f = getattr(ng, name)
        assert gradcheck(lambda x, s, f=f: f(x, dim, t, s) ** 2, (T(X), T(SRC)))
        assert gradgradcheck(lambda x, s, f=f: f(x, dim, t, s) ** 3, (T(X), T(SRC)))
    inplace = T(X) * 1
    inplace.scatter_add_(dim, t, ng.tensor(SRC))
    np.testing.assert_allclose(inplace.detach().numpy(), added.numpy())


def test_repeated_indices_share_and_larger_sources_get_zero():
    x = T([0.1])
    x.gather(0, ng.tensor([0, 0])).backward(ng.tensor([0.2, 0.3]))
    np.testing.assert_allclose(x.grad.numpy(), [0.5])
    src = T(np.arange(1.0, 7).reshape(2, 3))
    y = ng.zeros(2, 3).scatter_add(0, ng.tensor([[1, 0]]), src)
    np.testing.assert_array_equal(y.detach().numpy(), [[0, 2, 0], [1, 0, 0]])
    (g,) = grad((y * ng.arange(6.0).reshape(2, 3)).sum(), src)
    np.testing.assert_array_equal(g.numpy(), [[3, 1, 0], [0, 0, 0]])
    s = T([1.0, 2.0])
    (g,) = grad(ng.ones(3).scatter(0, ng.zeros(0, dtype=ng.int64), s).sum() + s.sum(), s)
    np.testing.assert_array_equal(g.numpy(), [1, 1])


REDUCE = {
    "sum": lambda v: np.sum(v),
    "prod": lambda v: np.prod(v),
    "mean": lambda v: np.mean(v),
    "amax": lambda v: np.max(v),
    "amin": lambda v: np.min(v),
}


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", list(REDUCE))
def test_scatter_reduce(reduce, include_self):
    i = RNG.integers(0, 4, (2, 3, 2))
    groups = {at: [X[at]] if include_self else [] for at in np.ndindex(*X.shape)}
    for at in np.ndindex(*i.shape):
        groups[at[0], i[at], at[2]].append(SRC[at])
    want = np.array([REDUCE[reduce](v) if v else X[at] for at, v in groups.items()]).reshape(
        X.shape
    )

    def f(x, s):
        return ng.scatter_reduce(x, 1, ng.tensor(i), s, reduce, include_self=include_self)

    np.testing.assert_allclose(f(ng.tensor(X), ng.tensor(SRC)).numpy(), want, rtol=1e-14)
    assert gradcheck(lambda x, s: f(x, s) ** 2, (T(X), T(SRC)))
    assert gradgradcheck(lambda x, s: f(x, s) ** 2, (T(X), T(SRC)))


def test_scatter_prod_is_exact_at_zeros_to_second_order():
    src, i = np.array([0.0, 2.0, 0.0, 3.0]), ng.tensor([0, 0, 1, 1])
    h = ng.func.hessian(lambda s: ng.ones(2).scatter_reduce(0, i, s, "prod").sum())(ng.tensor(src))
    want = np.zeros((4, 4))
    want[0, 1] = want[1, 0] = want[2, 3] = want[3, 2] = 1
    np.testing.assert_array_equal(h.numpy(), want)


def test_tied_extremes_share_the_gradient_in_both_modes():
    x, s, i = T([1.0, 5.0]), T([1.0, 1.0, 2.0]), ng.tensor([0, 0, 1])

    def f(x, s):
        return ng.scatter_reduce(x, 0, i, s, "amax")

    gx, gs = grad(f(x, s).sum(), (x, s))
    np.testing.assert_allclose(gx.numpy(), [1 / 3, 1])
    np.testing.assert_allclose(gs.numpy(), [1 / 3, 1 / 3, 0])
    _, dot = ng.func.jvp(f, (x.detach(), s.detach()), (ng.tensor([1.0, 2]), ng.tensor([3.0, 5, 7])))
    np.testing.assert_allclose(dot.numpy(), [3, 2])


def test_slices_along_a_dimension():
    i, x = np.array([2, 0, 2]), ng.tensor(X)
    t, src = ng.tensor(i), SRC[i]
    np.testing.assert_array_equal(x.index_select(0, t).numpy(), X[i])
    want = X.copy()
    np.add.at(want, i, 2 * src)
    np.testing.assert_allclose(x.index_add(0, t, src, alpha=2).numpy(), want)
    want = X.copy()
    want[i] = src
    np.testing.assert_array_equal(x.index_copy(0, t, src).numpy(), want)
    want[i] = 3
    np.testing.assert_array_equal(x.index_fill(0, t, 3).numpy(), want)
    for f in (
        lambda x, s: x.index_select(0, t) * s,
        lambda x, s: x.index_add(0, t, s) ** 2,
        lambda x, s: x.index_copy(0, t, s) ** 2,
        lambda x, s: x.index_fill(0, t, s[0, 0, 0]) ** 2,
    ):
        assert gradgradcheck(f, (T(X), T(src)))


def test_flat_positions():
    i, x = np.array([[3, -1], [3, 7]]), ng.tensor(X)
    np.testing.assert_array_equal(x.take(ng.tensor(i)).numpy(), X.take(i))
    np.testing.assert_array_equal(x.take(ng.tensor([1, 0]), 1).numpy(), X.take([1, 0], 1))
    j = RNG.integers(0, 4, (1, 5, 2))
    np.testing.assert_array_equal(
        x.take_along_dim(ng.tensor(j), 1).numpy(), np.take_along_axis(X, j.repeat(3, 0), 1)
    )
    v = np.arange(4.0).reshape(2, 2)
    for accumulate in (False, True):
        got = (x * 1).put_(ng.tensor(i), ng.tensor(v), accumulate=accumulate).numpy().reshape(-1)
        want = X.reshape(-1).copy()
        for p, value in zip(i.reshape(-1), v.reshape(-1), strict=True):
            want[p] = want[p] + value if accumulate else value
        np.testing.assert_allclose(got, want)
        key = (ng.tensor([0, 0]), None, ng.tensor([1, 1]))
        got = x.index_put(key, ng.tensor(10.0), accumulate=accumulate).numpy()
        want = X.copy()
        want[0, :, 1] = want[0, :, 1] + 20 if accumulate else 10
        np.testing.assert_allclose(got, want)
    assert gradgradcheck(lambda x, s: ng.put(x, ng.tensor(i), s) ** 2, (T(X), T(v)))
    assert gradgradcheck(lambda x: x.take_along_dim(ng.tensor(j), 1) ** 2, (T(X),))


MASK = RNG.random(X.shape) > 0.5


def test_masks():
    x, m = ng.tensor(X), ng.tensor(MASK)
    np.testing.assert_array_equal(x.masked_fill(m, 2).numpy(), np.where(MASK, 2, X))
    np.testing.assert_array_equal(x.masked_select(m).numpy(), X[MASK])
    want = X.copy()
    want[MASK] = SRC.reshape(-1)[: MASK.sum()]
    np.testing.assert_array_equal(x.masked_scatter(m, ng.tensor(SRC)).numpy(), want)
    for f in (
        lambda x, s: x.masked_fill(m, s[0, 0, 0]) ** 2,
        lambda x, s: x.masked_select(m) * s.masked_select(m),
        lambda x, s: x.masked_scatter(m, s) ** 2,
    ):
        assert gradgradcheck(f, (T(X), T(SRC)))
    bad = T([np.inf, 1.0])
    (g,) = grad((bad**-0.5 - bad).masked_fill(ng.tensor([True, False]), 0.0).sum(), bad)
    np.testing.assert_allclose(g.numpy(), [0, -1.5])


def test_masked_scatter_and_one_hot_need_no_values():
    x, masks = ng.tensor(X), ng.tensor(np.stack([MASK, ~MASK]))
    got = ng.func.vmap(lambda m: x.masked_scatter(m, ng.tensor(SRC)))(masks).numpy()
    np.testing.assert_array_equal(got[1], x.masked_scatter(masks[1], ng.tensor(SRC)).numpy())
    i = ng.tensor([[0, 2], [1, 1]])
    want = np.eye(3, dtype=int)[i.numpy()]
    assert ng.one_hot(i).dtype == ng.int64
    np.testing.assert_array_equal(ng.one_hot(i).numpy(), want)
    np.testing.assert_array_equal(ng.func.vmap(lambda k: ng.one_hot(k, 3))(i).numpy(), want)


def test_nonzero_in_its_spellings():
    m = ng.tensor(MASK)
    np.testing.assert_array_equal(ng.nonzero(m).numpy(), np.argwhere(MASK))
    np.testing.assert_array_equal(ng.argwhere(m).numpy(), np.argwhere(MASK))
    for got in (ng.nonzero(m, as_tuple=True), ng.where(m)):
        for a, b in zip(got, np.nonzero(MASK), strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    x = ng.tensor(X)
    np.testing.assert_array_equal(x.where(m, 0.0).numpy(), np.where(MASK, X, 0))


@pytest.mark.parametrize(
    "dims", [(0, None, None), (None, 1, None), (None, None, 2), (0, 1, 2), (None, 0, 0)]
)
@pytest.mark.parametrize("name", ["gather", "scatter", "scatter_add", "prod", "amax"])
def test_vmap(name, dims):
    i = RNG.integers(0, 4, (2, 3, 2))

    def f(x, i, s):
        if name == "gather":
            return ng.gather(x, 1, i) * s[:2, :3, :2]
        if name in ("prod", "amax"):
            return ng.scatter_reduce(x, 1, i, s, name)
        return getattr(ng, name)(x, 1, i, s)

    def stacked(a, d):
        return a if d is None else np.stack([a, np.ascontiguousarray(a[::-1])], axis=d)

    args = [stacked(a, d) for a, d in zip((X, i, SRC), dims, strict=True)]
    tensors = [ng.tensor(a) for a in args]
    got = ng.func.vmap(f, in_dims=dims)(*tensors).numpy()

    def loss(x, i, s):
        return (f(x, i, s) ** 2).sum()

    grads = ng.func.vmap(ng.func.grad(loss, (0, 2)), in_dims=dims)(*tensors)
    for b in range(2):
        one = [
            ng.tensor(a if d is None else np.take(a, b, d)) for a, d in zip(args, dims, strict=True)
        ]
        np.testing.assert_allclose(got[b], f(*one).numpy(), rtol=1e-14)
        for g, w in zip(grads, ng.func.grad(loss, (0, 2))(*one), strict=True):
            np.testing.assert_allclose(g.numpy()[b], w.numpy(), rtol=1e-12)


def test_float32_sums_accumulate_in_double():
    n = 1 << 20
    out = ng.zeros(1, dtype=ng.float32).index_add(
        0, ng.zeros(n, dtype=ng.int64), ng.full((n,), 0.1, dtype=ng.float32)
    )
    assert abs(float(out[0]) - n * float(np.float32(0.1))) < 0.02
    assert out.dtype == ng.float32


def test_zero_dimensional_inputs():
    x, i = T(2.0), ng.tensor(0)
    assert x.gather(0, i).shape == () and x.scatter_add(0, i, ng.tensor(1.0)).shape == ()
    (g,) = grad(x.gather(0, i) * 3 + x.index_select(0, ng.tensor([0])).sum(), x)
    assert float(g) == 4


W, I2 = ng.ones(2, 3), ng.zeros(2, 3, dtype=ng.int64)
WRONG = [
    (lambda: W.gather(0, I2 + 2), IndexingError, "gather: an index"),
    (lambda: W.gather(2, I2), IndexingError, "gather: argument 'dim'"),
    (lambda: W.gather(0, W), DTypeError, "gather: argument 'index'"),
    (lambda: W.gather(0, ng.zeros(2, 4, dtype=ng.int64)), ShapeError, "gather: argument 'index'"),
    (lambda: W.gather(0, ng.zeros(2, dtype=ng.int64)), ShapeError, "gather: argument 'index'"),
    (lambda: W.scatter(0, I2 - 3, W), IndexingError, "scatter: an index"),
    (lambda: W.scatter(0, I2, W.long()), DTypeError, "scatter: argument 'src'"),
    (lambda: W.scatter(0, I2, W[:1]), ShapeError, "scatter: argument 'index'"),
    (lambda: W.scatter(0, I2, W, reduce="max"), ArgumentError, "scatter: argument 'reduce'"),
    (lambda: W.long().scatter(0, I2, 0.5), DTypeError, "scatter: argument 'src'"),
    (lambda: W.scatter_add(0, I2 + 5, W), IndexingError, "scatter_add: an index"),
    (lambda: W.scatter_reduce(0, I2, W, "min"), ArgumentError, "scatter_reduce: argument 'reduce'"),
    (lambda: W.cdouble().scatter_reduce(0, I2, W.cdouble(), "amax"), DTypeError, "real dtype"),
    (lambda: W.index_select(0, I2), ShapeError, "index_select: argument 'index'"),
    (lambda: W.index_add(0, I2[0], W), ShapeError, "index_add: argument 'source'"),
    (lambda: W.index_fill(0, I2[0], W), ShapeError, "index_fill: argument 'value'"),
    (lambda: W.take(ng.tensor([6])), IndexingError, "an index of dimension 0 is 6"),
    (lambda: W.take_along_dim(I2[0], 1), ShapeError, "take_along_dim: argument 'indices'"),
    (lambda: ng.put(W, I2[0], W), ShapeError, "put: argument 'source'"),
    (lambda: W.index_put((0,), 1.0), IndexingError, "index_put: argument 'indices'"),
    (lambda: W.masked_fill(I2, 0.0), DTypeError, "masked_fill: argument 'mask'"),
    (lambda: W.masked_fill(W > 0, W), ShapeError, "masked_fill: argument 'value'"),
    (lambda: W.long().masked_fill(W > 0, 0.5), DTypeError, "masked_fill: argument 'value'"),
    (lambda: W.masked_select(ng.ones(4) > 0), ShapeError, "masked_select"),
    (lambda: W.masked_scatter(W > 0, W[0]), ShapeError, "masked_scatter: argument 'source'"),
    (lambda: ng.where(W > 0, W), ArgumentError, "where: the call"),
    (lambda: ng.one_hot(ng.tensor([3]), 3), IndexingError, "one_hot: an index"),
    (lambda: ng.one_hot(W), DTypeError, "one_hot: argument 'index'"),
    (lambda: ng.func.vmap(ng.nonzero)(W), TraceError, "nonzero: the number"),
]


@pytest.mark.parametrize("call, error, text", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_calls(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, NbgradError)
