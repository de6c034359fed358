"""Reading and writing through every kind of key, against NumPy, with gradients, under vmap and traces."""

import itertools

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.errors import DTypeError, IndexingError, NbgradError, ShapeError, TraceError

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4, 5))
M, M1, M2 = RNG.random((3, 4)) > 0.5, RNG.random(4) > 0.5, RNG.random((4, 5)) > 0.4
FULL = slice(None)

KEYS = [
    0,
    -1,
    np.int64(1),
    np.uint8(2),
    FULL,
    slice(None, None, -1),
    slice(2, 0, -1),
    slice(5, 9),
    None,
    ...,
    (),
    (..., 0),
    (None, 1, ..., None),
    (0, 0, 0),
    [0, 2],
    [],
    [[]],
    (FULL, []),
    [[0, 1], [2, 0]],
    [-1, 0],
    ((0, 1),),
    range(2),
    (range(2), range(2)),
    np.array(1),
    np.array([1, 2], np.int8),
    np.zeros((0, 2), int),
    [True, False, True],
    M,
    (FULL, M1),
    (FULL, M2),
    (M, slice(None, None, -2)),
    True,
    False,
    np.bool_(True),
    np.array(False),
    (True, [0, 1]),
    ([0, 1], FULL, [1, 2]),
    ([0, 1], None, [1, 2]),
    ([0, 1], [1, 2], None),
    (FULL, [[0], [1]], [0, 1, 2]),
    (slice(None, None, -1), [1, 0, 1], slice(1, 4, 2)),
    (..., [0, 1]),
    ([0], ..., [1]),
    (FULL, None, [0, 1], ...),
    (M1[:3], [0, 0]) if M1[:3].sum() == 2 else ([0, 2], [0, 0]),
]


def numpy_key(key):
    if isinstance(key, tuple):
        return tuple(list(k) if isinstance(k, range) else k for k in key)
    return list(key) if isinstance(key, range) else key


def positions(key):
    """Flat positions in A that a key selects, in result order."""
    return np.arange(A.size).reshape(A.shape)[numpy_key(key)]


@pytest.mark.parametrize("key", KEYS, ids=[str(i) for i in range(len(KEYS))])
def test_reading_and_its_gradient(key):
    x = ng.tensor(A, requires_grad=True)
    y = x[key]
    want = A[numpy_key(key)]
    assert tuple(y.shape) == want.shape
    np.testing.assert_array_equal(y.detach().numpy(), want)
    w = RNG.normal(size=want.shape)
    (g,) = ng.autograd.grad(y, x, ng.tensor(w))
    expected = np.zeros(A.size)
    np.add.at(expected, positions(key).reshape(-1), w.reshape(-1))
    np.testing.assert_allclose(g.numpy().reshape(-1), expected, rtol=1e-14)


@pytest.mark.parametrize("key", KEYS, ids=[str(i) for i in range(len(KEYS))])
def test_writing_and_its_gradients(key):
    where = positions(key)
    w, c = RNG.normal(size=where.shape), RNG.normal(size=A.shape)
    want = A.copy()
    want[numpy_key(key)] = w
    plain = ng.tensor(A)
    plain[key] = w
    np.testing.assert_array_equal(plain.numpy(), want)

    x, v = ng.tensor(A, requires_grad=True), ng.tensor(w, requires_grad=True)
    z = x * 1
    z[key] = v
    np.testing.assert_array_equal(z.detach().numpy(), want)
    gx, gv = ng.autograd.grad((z * ng.tensor(c)).sum(), (x, v))
    kept = np.ones(A.size)
    kept[where.reshape(-1)] = 0
    np.testing.assert_allclose(gx.numpy().reshape(-1), c.reshape(-1) * kept)
    last = {p: k for k, p in enumerate(where.reshape(-1))}
    expected = np.zeros(where.size)
    for p, k in last.items():
        expected[k] = c.reshape(-1)[p]
    np.testing.assert_allclose(gv.numpy().reshape(-1), expected)


@pytest.mark.parametrize(
    "key, shape",
    [
        ((FULL, [0, 1], FULL, 0), (3, 2, 3)),
        ((0, FULL, [1, 1, 2], FULL), (4, 3, 2)),
        (([0, 1], FULL, 0, [1, 0]), (2, 4)),
        ((FULL, ng.tensor(1), FULL, [1, 0]), (3, 3, 2)),
    ],
)
def test_integers_beside_index_tensors_count_as_basic(key, shape):
    x = ng.arange(3 * 4 * 3 * 2).reshape(3, 4, 3, 2)
    assert tuple(x[key].shape) == shape


def test_basic_keys_make_views_and_index_tensors_make_copies():
    x = ng.zeros(3, 4)
    x[1][2] = 5.0
    x[ng.tensor(2)][0] = 7.0
    x[None, ..., ::-1][0, 0, 0] = 3.0
    copy = x[[0, 1]]
    copy[0, 0] = 9.0
    np.testing.assert_array_equal(x.numpy(), [[0, 0, 0, 3], [0, 0, 5, 0], [7, 0, 0, 0]])


@pytest.mark.parametrize(
    "value", [2.0, 3, True, np.float32(2), np.ones(4), np.ones((1, 1, 3, 1)), [1.0, 2, 3, 4]]
)
def test_values_broadcast(value):
    x, want = ng.zeros(3, 4), np.zeros((3, 4))
    x[:] = value
    want[:] = np.asarray(value).reshape(np.shape(value)[-2:])
    np.testing.assert_array_equal(x.numpy(), want)


def test_writes_that_overlap_their_source():
    x = ng.arange(6.0)
    x[1:] = x[:-1]
    np.testing.assert_array_equal(x.numpy(), [0, 0, 1, 2, 3, 4])
    x[[0, 1, 2]] = x[[2, 0, 1]]
    np.testing.assert_array_equal(x.numpy(), [1, 0, 0, 2, 3, 4])


def test_repeated_indices_last_one_wins_in_every_memory_order():
    i = np.array([[2, 0], [2, 1], [2, 0]])
    v = np.arange(6.0).reshape(3, 2)
    for layout in (i, np.asfortranarray(i), i[::-1].copy()[::-1], i[::-1, ::-1].copy()[::-1, ::-1]):
        x = ng.zeros(3)
        x[ng.from_numpy(layout)] = v
        np.testing.assert_array_equal(x.numpy(), [5, 3, 4])


def test_a_mask_write_of_one_number_needs_no_host_read():
    mask = np.array([[True, False], [False, True], [True, True]])
    x = ng.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    s = ng.tensor(7.0, requires_grad=True)

    def f(a, m, v):
        a = a * a
        a[m] = v
        return a

    y = ng.trace(f)(x, ng.tensor(mask), s).replay(x, ng.tensor(~mask), s)
    np.testing.assert_array_equal(
        y.detach().numpy(), np.where(~mask, 7.0, np.arange(6.0).reshape(3, 2) ** 2)
    )
    gx, gs = ng.autograd.grad(f(x, ng.tensor(mask), s).sum(), (x, s))
    np.testing.assert_array_equal(gx.numpy(), np.where(mask, 0, 2 * x.detach().numpy()))
    assert float(gs) == 4
    many = ng.func.vmap(f, in_dims=(None, 0, None))(x, ng.tensor(np.stack([mask, ~mask])), s)
    np.testing.assert_array_equal(
        many[0].detach().numpy(), f(x, ng.tensor(mask), s).detach().numpy()
    )


def test_unselected_nan_does_not_reach_gradients():
    x = ng.tensor([1.0, np.nan, 4.0], requires_grad=True)
    (g,) = ng.autograd.grad(x.sqrt()[~np.isnan(x.detach().numpy())].sum(), x)
    np.testing.assert_allclose(g.numpy(), [0.5, 0, 0.25])


I0, I1 = RNG.integers(-3, 3, (2, 3)), RNG.integers(0, 4, (2, 3))


@pytest.mark.parametrize(
    "xd, id0, id1", list(itertools.product((None, 0, 2), (None, 0, 1), (None, 0)))[1:]
)
@pytest.mark.parametrize("between", [False, True])
def test_vmap_in_every_combination_of_dims(xd, id0, id1, between):
    n = 2
    xs = np.stack([A, A + 1], axis=xd) if xd is not None else A
    i0 = np.stack([I0, I0[::-1]], axis=id0) if id0 is not None else I0
    i1 = np.stack([I1, I1[:, ::-1]], axis=id1) if id1 is not None else I1
    v = RNG.normal(size=())

    def read(x, i, j):
        return x[i, :, j] if between else x[i, j]

    def write(x, i, j):
        x = x * 1
        x[(i, FULL, j) if between else (i, j)] = v
        return x

    dims = (xd, id0, id1)
    for f in (read, write):
        args = [ng.tensor(t) for t in (xs, i0, i1)]
        got = ng.func.vmap(f, in_dims=dims)(*args).numpy()
        for b in range(n):
            one = [
                ng.tensor(t if d is None else np.take(t, b, d))
                for t, d in zip((xs, i0, i1), dims, strict=True)
            ]
            np.testing.assert_array_equal(got[b], f(*one).numpy())

        def loss(x, i, j, f=f):
            return (f(x, i, j) ** 3).sum()

        got = ng.func.vmap(ng.func.grad(loss), in_dims=dims)(*args).numpy()
        whole = ng.func.grad(
            lambda x, d=dims, a=args, f=f: (ng.func.vmap(f, in_dims=d)(x, *a[1:]) ** 3).sum()
        )
        back = whole(args[0]).numpy()
        parts = []
        for b in range(n):
            one = [
                ng.tensor(t if d is None else np.take(t, b, d))
                for t, d in zip((xs, i0, i1), dims, strict=True)
            ]
            parts.append(ng.func.grad(loss)(*one).numpy())
            np.testing.assert_allclose(got[b], parts[-1], rtol=1e-12)
        want = sum(parts) if xd is None else np.stack(parts, axis=xd)
        np.testing.assert_allclose(back, want, rtol=1e-12)


def test_traced_indices_follow_the_values_of_the_replay():
    def f(x, i):
        y = x * 1
        y[:, i] = x[:, i] * 2
        return y[i]

    x = ng.tensor(RNG.normal(size=(4, 4)))
    tape = ng.trace(f)(x, ng.tensor([0, 1]))
    for i in ([3, -1], [2, 2]):
        np.testing.assert_allclose(tape.replay(x, ng.tensor(i)).numpy(), f(x, ng.tensor(i)).numpy())
    with pytest.raises(IndexingError, match="index of dimension"):
        tape.replay(x, ng.tensor([0, 4]))
    with ng.Tape(x, index := ng.tensor([0, 1])) as eager:
        x[index] * 1
    np.testing.assert_array_equal(eager.replay(x, ng.tensor([2, -1])).numpy(), x.numpy()[[2, -1]])


def test_zero_dimensional_index_tensors_keep_their_place_in_traces_and_vmap():
    x = ng.tensor(A)

    def f(x, k):
        y = x * 1
        y[k, :, [0, 1]] = 0.5
        return x[k, :, [0, 1]] + y[k, :, 0].sum()

    k = ng.tensor([0, 2])
    want = [f(x, i).numpy() for i in k]
    np.testing.assert_array_equal(ng.trace(f)(x, k[0]).replay(x, k[1]).numpy(), want[1])
    np.testing.assert_array_equal(ng.func.vmap(f, in_dims=(None, 0))(x, k).numpy(), want)


def test_a_mask_with_unknown_values_says_what_to_do():
    x = ng.tensor(A)
    with pytest.raises(TraceError, match=r"ng\.where"):
        ng.trace(lambda x: x[x > 0])(x)
    with pytest.raises(TraceError, match=r"ng\.where"):
        ng.func.vmap(lambda x: x[x > 0])(x)


WRONG = [
    3,
    -4,
    (0, 0, 0, 0),
    [3],
    "a",
    1.5,
    [1.5],
    np.array(1.0),
    {1: 2},
    object(),
    (FULL, M),
    (..., ...),
    slice("a", None),
    slice(None, None, 0),
    ([0, 1], [0, 1, 2]),
    [[0], [1, 2]],
]


@pytest.mark.parametrize("key", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_keys(key):
    x = ng.tensor(A)
    with pytest.raises(IndexingError, match=r"getitem: .*expected"):
        x[key]
    with pytest.raises(IndexingError, match=r"setitem: .*expected"):
        x[key] = 0.0
    np.testing.assert_array_equal(x.numpy(), A)


@pytest.mark.parametrize(
    "make, key, value, error",
    [
        (lambda: ng.zeros(3), FULL, np.ones(2), ShapeError),
        (lambda: ng.zeros(3), [0, 1], np.ones(3), ShapeError),
        (lambda: ng.zeros(3, dtype=ng.int64), 0, 1.5, DTypeError),
        (lambda: ng.zeros(3, dtype=ng.int64), [0], np.array([1.0]), DTypeError),
        (lambda: ng.zeros(3), 0, 1j, DTypeError),
        (lambda: ng.zeros(3), 0, "x", DTypeError),
        (lambda: ng.zeros(3, dtype=ng.bool), [0], np.array([2]), DTypeError),
    ],
)
def test_wrong_values_leave_the_tensor_alone(make, key, value, error):
    x = make()
    with pytest.raises(error):
        x[key] = value
    assert not x.numpy().any()


def test_a_leaf_and_an_overlapping_view_refuse_writes():
    x = ng.zeros(3, requires_grad=True)
    for key in (0, [0, 1], np.array([True, False, False])):
        with pytest.raises(NbgradError, match="leaf"):
            x[key] = 1.0
    with pytest.raises(NbgradError, match="share one memory"):
        ng.zeros(1).expand(3)[[0]] = 1.0
    with ng.no_grad():
        x[[0, 2]] = 1.0
    np.testing.assert_array_equal(x.detach().numpy(), [1, 0, 1])


def test_dead_writes_and_repeated_copies():
    x = ng.tensor([1.0, 2.0], requires_grad=True)
    b = ng.zeros(2)
    b[:] = x * 2
    b[[0, 1]] = x * 3
    (g,) = ng.autograd.grad(b.sum() + b[[0, 0, 1]].sum(), x)
    np.testing.assert_array_equal(g.numpy(), [9, 6])
