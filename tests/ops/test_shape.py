"""Shape functions against NumPy: values, views, gradients in every mode, zero sizes, mistakes."""

import itertools

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad
from nbgrad.errors import ArgumentError, AutogradError, DTypeError, IndexingError, ShapeError
from nbgrad.testing import check_grads

RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 4, 5))
M = RNG.normal(size=(4, 6))

# name -> (function of a tensor, the same of an array)
SHAPE_FUNCTIONS = {
    "reshape": (lambda x: x.reshape(5, -1), lambda a: a.reshape(5, -1)),
    "flatten": (lambda x: x.flatten(1), lambda a: a.reshape(3, 20)),
    "ravel": (lambda x: x.ravel(), lambda a: a.ravel()),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)), lambda a: a.reshape(3, 2, 2, 5)),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    "squeeze": (lambda x: x[:1].squeeze(0), lambda a: a[0]),
    "expand": (
        lambda x: x[:, :1].expand(2, 3, 4, 5),
        lambda a: np.broadcast_to(a[:, :1], (2, 3, 4, 5)),
    ),
    "expand_as": (lambda x: x[0].expand_as(x), lambda a: np.broadcast_to(a[0], a.shape)),
    "broadcast_to": (lambda x: ng.broadcast_to(x[0], (2, 4, 5)), lambda a: np.stack([a[0], a[0]])),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
    "repeat new": (lambda x: x.repeat(2, 2, 1, 3), lambda a: np.tile(a, (2, 2, 1, 3))),
    "tile": (lambda x: x.tile(2), lambda a: np.tile(a, 2)),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), lambda a: np.repeat(a, 3, 1)),
    "repeat_interleave flat": (lambda x: x.repeat_interleave(2), lambda a: np.repeat(a, 2)),
    "repeat_interleave counts": (
        lambda x: x.repeat_interleave(ng.tensor([1, 0, 2, 1]), 1),
        lambda a: np.repeat(a, [1, 0, 2, 1], 1),
    ),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda x: x.transpose(0, 2), lambda a: a.swapaxes(0, 2)),
    "swapaxes": (lambda x: ng.swapaxes(x, 0, 1), lambda a: a.swapaxes(0, 1)),
    "movedim": (lambda x: x.movedim((0, 1), (2, 0)), lambda a: np.moveaxis(a, (0, 1), (2, 0))),
    "moveaxis": (lambda x: ng.moveaxis(x, 2, 0), lambda a: np.moveaxis(a, 2, 0)),
    "flip": (lambda x: x.flip(0, 2), lambda a: np.flip(a, (0, 2))),
    "flip all": (lambda x: ng.flip(x), np.flip),
    "fliplr": (lambda x: x.fliplr(), np.fliplr),
    "flipud": (lambda x: x.flipud(), np.flipud),
    "roll": (lambda x: x.roll((1, -2), (0, 2)), lambda a: np.roll(a, (1, -2), (0, 2))),
    "roll flat": (lambda x: x.roll(7), lambda a: np.roll(a, 7)),
    "tril": (lambda x: x.tril(1), lambda a: np.tril(a, 1)),
    "triu": (lambda x: x.triu(-1), lambda a: np.triu(a, -1)),
    "diagonal": (lambda x: x.diagonal(1, 1, 2), lambda a: np.diagonal(a, 1, 1, 2)),
    "diag": (lambda x: x[0, 0].diag(-1), lambda a: np.diag(a[0, 0], -1)),
    "diag of matrix": (lambda x: x[0].diag(1), lambda a: np.diag(a[0], 1)),
    "diagflat": (lambda x: x[0, :2].diagflat(1), lambda a: np.diagflat(a[0, :2], 1)),
    "diag_embed": (
        lambda x: x.diag_embed(),
        lambda a: a[..., None] * np.eye(5),
    ),
    "stack": (lambda x: ng.stack([x, 2 * x], -1), lambda a: np.stack([a, 2 * a], -1)),
    "cat": (lambda x: ng.cat([x, x * x], 1), lambda a: np.concatenate([a, a * a], 1)),
    "hstack": (lambda x: ng.hstack([x, x]), lambda a: np.hstack([a, a])),
    "vstack": (lambda x: ng.vstack([x[0, 0], x[1, 1]]), lambda a: np.vstack([a[0, 0], a[1, 1]])),
    "dstack": (lambda x: ng.dstack([x[0], x[1]]), lambda a: np.dstack([a[0], a[1]])),
    "column_stack": (
        lambda x: ng.column_stack([x[:, 0, 0], x[:, 0]]),
        lambda a: np.column_stack([a[:, 0, 0], a[:, 0]]),
    ),
    "select": (lambda x: x.select(1, -1), lambda a: a[:, -1]),
    "narrow": (lambda x: x.narrow(1, 1, 2), lambda a: a[:, 1:3]),
    "unfold": (
        lambda x: x.unfold(2, 3, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 2)[:, :, ::2],
    ),
    "atleast_3d": (lambda x: ng.atleast_3d(x[0]), lambda a: np.atleast_3d(a[0])),
    "as_strided": (
        lambda x: ng.as_strided(x, (2, 3), (1, 2), 1),
        lambda a: a.ravel()[[[1, 3, 5], [2, 4, 6]]],
    ),
    "pad": (lambda x: ng.pad(x, (1, 2, 0, 1)), lambda a: np.pad(a, ((0, 0), (0, 1), (1, 2)))),
    "pad value": (
        lambda x: ng.pad(x, (1, 2), value=3.0),
        lambda a: np.pad(a, ((0, 0), (0, 0), (1, 2)), constant_values=3),
    ),
    "pad crop": (
        lambda x: ng.pad(x, (-1, 2, 1, -1)),
        lambda a: np.pad(a[:, :-1, 1:], ((0, 0), (1, 0), (0, 2))),
    ),
    "pad reflect": (
        lambda x: ng.pad(x, (3, 1, 2, 0), "reflect"),
        lambda a: np.pad(a, ((0, 0), (2, 0), (3, 1)), "reflect"),
    ),
    "pad replicate": (
        lambda x: ng.pad(x, (2, 7), "replicate"),
        lambda a: np.pad(a, ((0, 0), (0, 0), (2, 7)), "edge"),
    ),
    "pad circular": (
        lambda x: ng.pad(x, (2, 1), "circular"),
        lambda a: np.pad(a, ((0, 0), (0, 0), (2, 1)), "wrap"),
    ),
    "T": (lambda x: x[0].T, lambda a: a[0].T),
    "mT": (lambda x: x.mT, lambda a: a.swapaxes(-1, -2)),
}


@pytest.mark.parametrize("name", SHAPE_FUNCTIONS)
def test_shape_function(name):
    """Values on several layouts, derivatives in both modes, batches and traces."""
    f, reference = SHAPE_FUNCTIONS[name]
    for a in (X, X[::-1].copy()[::-1], np.asfortranarray(X) if name != "as_strided" else X):
        got = f(ng.from_numpy(a))
        np.testing.assert_array_equal(got.numpy(), reference(a))
    x = ng.from_numpy(X)
    check_grads(lambda v: f(v * v), (x,), order=2)
    batch = np.stack([X, 2 * X])
    want = np.stack([reference(a) for a in batch])
    np.testing.assert_array_equal(ng.func.vmap(f)(ng.from_numpy(batch)).numpy(), want)
    np.testing.assert_array_equal(
        ng.func.vmap(f, 2)(ng.from_numpy(np.moveaxis(batch, 0, 2))).numpy(), want
    )
    np.testing.assert_array_equal(ng.trace(f)(x).replay(ng.from_numpy(2 * X)).numpy(), want[1])


@pytest.mark.parametrize("k", range(-1, 5))
def test_rot90(k):
    np.testing.assert_array_equal(
        ng.rot90(ng.from_numpy(X), k, (2, 0)).numpy(), np.rot90(X, k, (2, 0))
    )


@pytest.mark.parametrize("offset", [-2, 0, 1])
@pytest.mark.parametrize("dims", [(-2, -1), (0, 2), (2, 0)])
def test_diag_embed_is_inverse_to_diagonal(offset, dims):
    x = ng.from_numpy(X)
    out = ng.diag_embed(x, offset, *dims)
    np.testing.assert_array_equal(out.diagonal(offset, *dims).numpy(), X)
    assert out.sum().item() == pytest.approx(X.sum())


SPLITS = {
    "split size": (lambda x: x.split(2, 2), lambda a: np.split(a, [2, 4], 2)),
    "split sizes": (lambda x: x.split([1, 3], 1), lambda a: np.split(a, [1], 1)),
    "chunk": (lambda x: x.chunk(3, 2), lambda a: np.split(a, [2, 4], 2)),
    "tensor_split": (lambda x: x.tensor_split(3, 2), lambda a: np.array_split(a, 3, 2)),
    "tensor_split at": (lambda x: x.tensor_split((1, 3), 2), lambda a: np.split(a, (1, 3), 2)),
    "hsplit": (lambda x: x.hsplit(2), lambda a: np.hsplit(a, 2)),
    "vsplit": (lambda x: x.vsplit((1,)), lambda a: np.vsplit(a, (1,))),
    "unbind": (lambda x: x.unbind(1), lambda a: [a[:, i] for i in range(4)]),
}


@pytest.mark.parametrize("name", SPLITS)
def test_splits_are_views_that_can_be_written(name):
    f, reference = SPLITS[name]
    x = ng.tensor(X, requires_grad=True)
    y = x * 1
    parts = f(y)
    assert type(parts) is tuple
    for got, want in zip(parts, reference(X), strict=True):
        np.testing.assert_array_equal(got.detach().numpy(), want)
    parts[0].mul_(2)
    weights = np.ones_like(X)
    reference(weights)[0][...] = 2
    np.testing.assert_array_equal(y.detach().numpy(), X * weights)
    total = sum(p.sum() for p in parts)
    np.testing.assert_array_equal(grad(total, x, retain_graph=True)[0].numpy(), weights)
    np.testing.assert_array_equal(grad(y.sum(), x)[0].numpy(), weights)


def test_a_view_of_a_split_can_be_written():
    x = ng.tensor(X, requires_grad=True)
    y = x * 1
    y.unbind()[0].narrow(0, 0, 2).mul_(3)
    weights = np.ones_like(X)
    weights[0, :2] = 3
    np.testing.assert_array_equal(grad(y.sum(), x)[0].numpy(), weights)


def test_views_share_memory_and_copies_do_not():
    x = ng.from_numpy(X.copy())
    views = [x.movedim(0, 1), x.diagonal(), x.unfold(2, 2, 1), x.split(2)[0], x.flatten(1), x.T]
    views += [ng.meshgrid(x[0, 0], x[0, 1])[0], ng.broadcast_tensors(x, x[0])[1]]
    assert all(np.shares_memory(v.numpy(), x.numpy()) for v in views)
    copies = [x.flip(0), x.roll(0, 0), ng.cat([x]), x.tril(9), x[0].diag(), x.rot90(0)]
    assert not any(np.shares_memory(c.numpy(), x.numpy()) for c in copies)


def test_cat_promotes_skips_and_broadcasts_nothing():
    a, b = ng.tensor([1, 2]), ng.tensor([0.5])
    assert ng.cat([a, b]).tolist() == [1, 2, 0.5]
    assert ng.cat([ng.zeros(0), ng.ones(2, 3)], 1).tolist() == [[1, 1, 1]] * 2
    assert ng.concatenate((a, a), axis=0).tolist() == [1, 2, 1, 2]
    assert ng.concat([ng.ones(2, dtype=ng.float32)]).dtype == ng.float32
    z = ng.tensor([1j], requires_grad=True)
    x = ng.tensor([2.0], requires_grad=True)
    gx, gz = grad((ng.cat([x, z]) * ng.tensor([1j, 1j])).abs().sum(), (x, z))
    assert gx.dtype == ng.float64 and gz.dtype == ng.complex128


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing):
    vectors = [RNG.normal(size=n) for n in (2, 3, 4)]
    for count in (1, 2, 3):
        got = ng.meshgrid(*[ng.from_numpy(v) for v in vectors[:count]], indexing=indexing)
        for g, w in zip(got, np.meshgrid(*vectors[:count], indexing=indexing), strict=True):
            np.testing.assert_array_equal(g.numpy(), w)


def test_indices_blocks_and_products():
    for row, col, k in itertools.product((3, 4), (3, 5), (-1, 0, 2)):
        np.testing.assert_array_equal(
            ng.tril_indices(row, col, k).numpy(), np.tril_indices(row, k, col)
        )
        np.testing.assert_array_equal(
            ng.triu_indices(row, col, k).numpy(), np.triu_indices(row, k, col)
        )
    a, b = ng.from_numpy(M[:2, :2].copy()), ng.tensor([5.0])
    want = np.zeros((3, 3))
    want[:2, :2], want[2, 2] = M[:2, :2], 5
    np.testing.assert_array_equal(ng.block_diag(a, b).numpy(), want)
    pairs = ng.cartesian_prod(ng.tensor([1, 2]), ng.tensor([3, 4]))
    assert pairs.tolist() == [[1, 3], [1, 4], [2, 3], [2, 4]]


def test_zero_size():
    x = ng.tensor(np.zeros((3, 0, 2)), requires_grad=True)
    functions = [
        lambda v: ng.cat([v, v], 1),
        lambda v: ng.stack([v, v]),
        lambda v: v.flip(0),
        lambda v: v.roll(2, 1),
        lambda v: v.roll(2),
        lambda v: v.split(2, 1)[0],
        lambda v: v.chunk(2, 1)[1],
        lambda v: v.repeat(2, 2, 2),
        lambda v: v.tril(),
        lambda v: v.diag_embed(),
        lambda v: ng.pad(v, (1, 1)),
        lambda v: v.unbind(0)[0],
        lambda v: v.repeat_interleave(2, 1),
        lambda v: v.diagonal(0, 0, 1),
    ]
    for f in functions:
        assert tuple(grad(f(x).sum(), x)[0].shape) == (3, 0, 2)
    assert tuple(x.flatten().shape) == (0,)
    assert tuple(ng.tensor(1.0).flatten().shape) == (1,)


MISTAKES = {
    "cat shapes": (
        lambda x: ng.cat([x, x[0]]),
        ShapeError,
        r"cat: the shape of tensors\[1\] is \(4, 5\)",
    ),
    "cat 0-d": (lambda x: ng.cat([ng.tensor(1.0)]), ShapeError, "Use stack for scalars"),
    "cat nothing": (lambda x: ng.cat([]), ArgumentError, "cat: argument 'tensors' is empty"),
    "cat a number": (lambda x: ng.cat(3), DTypeError, "cat: argument 'tensors' is int"),
    "stack shapes": (
        lambda x: ng.stack([x, x[0]]),
        ShapeError,
        r"stack: the shape of tensors\[1\]",
    ),
    "split size": (lambda x: x.split(0), ShapeError, "split: argument 'split_size' is 0"),
    "split sizes": (lambda x: x.split([1, 1]), ShapeError, "sizes of sum 3"),
    "split dim": (lambda x: x.split(1, 3), IndexingError, "split: argument 'dim' is 3"),
    "select": (lambda x: x.select(0, 3), IndexingError, "between -3 and 2"),
    "diagonal": (lambda x: x.diagonal(0, 1, 1), ShapeError, "dim1 and dim2"),
    "tril": (lambda x: x[0, 0].tril(), ShapeError, "at least 2"),
    "diag": (lambda x: x.diag(), ShapeError, "1 or 2"),
    "flatten": (lambda x: x.flatten(2, 0), ShapeError, "at most end_dim"),
    "repeat": (lambda x: x.repeat(2), ShapeError, "at least 3 numbers"),
    "roll": (lambda x: x.roll((1, 2), 0), ArgumentError, "one shift for each"),
    "movedim": (lambda x: x.movedim((0, 0), (1, 2)), ArgumentError, "distinct"),
    "unfold": (lambda x: x.unfold(0, 4, 1), ShapeError, "size <= 3"),
    "pad mode": (lambda x: ng.pad(x, (1, 1), "mirror"), ArgumentError, "constant, reflect"),
    "pad widths": (lambda x: ng.pad(x, (1,)), ShapeError, "pairs for at most 3"),
    "pad reflect": (lambda x: ng.pad(x, (5, 0), "reflect"), ShapeError, "between 0 and 4"),
    "pad crop": (lambda x: ng.pad(x, (-3, -3)), ShapeError, "not to remove more"),
    "meshgrid": (lambda x: ng.meshgrid(x), ShapeError, "a vector"),
    "rot90": (lambda x: x.rot90(1, (0, 0)), ArgumentError, "two different"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_remedy(name):
    f, error, text = MISTAKES[name]
    with pytest.raises(error, match=text):
        f(ng.from_numpy(X))


def test_reshape_of_a_permuted_value_inside_traces_and_batches():
    """A reshape that needs a copy gets one, also when only the replayed memory has such strides."""
    f = lambda x: x.permute(2, 0, 1).reshape(-1) * 2
    want = X.transpose(2, 0, 1).reshape(-1) * 2
    tape = ng.trace(f)(ng.from_numpy(X))
    np.testing.assert_array_equal(tape.replay(ng.from_numpy(X)).numpy(), want)
    np.testing.assert_array_equal(tape.replay(ng.from_numpy(np.asfortranarray(X))).numpy(), want)
    plain = ng.trace(lambda x: x.reshape(-1))(ng.from_numpy(X))
    got = plain.replay(ng.from_numpy(np.asfortranarray(X)))
    np.testing.assert_array_equal(got.numpy(), X.reshape(-1))
    check_grads(f, (ng.from_numpy(X),), order=2)


def test_parts_of_complex_tensors_refuse_writes():
    """``z.real`` is a copy here: a write to it raises instead of being lost."""
    z = ng.tensor([1 + 2j, 3j], requires_grad=True)
    np.testing.assert_array_equal(grad((z.real**2 + 3 * z.imag).sum(), z)[0].numpy(), [2 + 3j, 3j])
    with pytest.raises(AutogradError, match="read-only; clone"):
        z.detach().real.mul_(2)
    assert z.detach().imag.clone().mul_(2).tolist() == [4, 6]


def test_rot90_leaves_a_tensor_count_alone():
    k = ng.tensor(5)
    x = ng.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert ng.rot90(x, k).tolist() == np.rot90(x.numpy()).tolist() and int(k) == 5


def test_an_empty_part_of_cat_stays_in_the_graph():
    e = ng.zeros(0, requires_grad=True)
    for dim in (0, 1):
        out = ng.cat([e, ng.ones(2, 2), ng.zeros(0)], dim)
        assert out.tolist() == [[1, 1], [1, 1]] and out.requires_grad
        assert tuple(grad(out.sum(), e)[0].shape) == (0,)
    with pytest.raises(ShapeError, match=r"tensors\[2\] is \(3, 4\)"):
        ng.cat([ng.ones(2, 2), e, ng.ones(3, 4)])
