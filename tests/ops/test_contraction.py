"""Matrix products, einsum and relatives against NumPy, with derivatives to second order."""

import sys

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad, gradcheck, gradgradcheck
from nbgrad.errors import ArgumentError, IndexingError, NbgradError, ShapeError

RNG = np.random.default_rng(5)


def draw(*shape, kind="f"):
    x = RNG.normal(size=shape)
    return x + 1j * RNG.normal(size=shape) if kind == "c" else x


def T(v):
    return ng.tensor(v, requires_grad=True)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,ca", (2, 3), (4, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->ij", (3, 3, 2)),
    ("iii->i", (3, 3, 3)),
    ("iijj->ij", (2, 2, 3, 3)),
    ("ijij", (2, 3, 2, 3)),
    ("ij->", (2, 3)),
    ("ij->ji", (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i", (3,), (3,)),
    ("a,a,a->a", (3,), (3,), (3,)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...,...", (2, 3), (3,)),
    ("ij...->j...i", (2, 3, 4, 2)),
    ("a...b,...b", (2, 3, 4), (3, 4)),
    ("ijk,ik->j", (2, 3, 4), (2, 4)),
    ("zab,zb,za->z", (2, 3, 4), (2, 4), (2, 3)),
    ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)),
    ("ab,bc,cd,da", (2, 3), (3, 4), (4, 2), (2, 2)),
    ("bhij,bhjk->bhik", (2, 2, 3, 1), (2, 2, 1, 3)),
    ("ij,jk->ik", (0, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 3)),
    ("ij,kl->", (2, 3), (4, 2)),
]


@pytest.mark.parametrize("case", EQUATIONS, ids=[f"{k}-{c[0]}" for k, c in enumerate(EQUATIONS)])
@pytest.mark.parametrize("kind", ["f", "c"])
def test_einsum(case, kind):
    equation, *shapes = case
    arrays = [draw(*s, kind=kind) for s in shapes]
    got = ng.einsum(equation, *map(ng.tensor, arrays)).numpy()
    want = np.einsum(equation, *arrays)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    if kind == "f":
        assert gradgradcheck(lambda *xs: ng.einsum(equation, *xs) ** 2, tuple(map(T, arrays)))
    else:
        assert gradcheck(lambda *xs: ng.einsum(equation, *xs), tuple(map(T, arrays)))


def test_einsum_broadcasts_labels_of_size_one():
    x, y = T([2.0, 2.0]), T([2.0])
    gx, gy = grad(ng.einsum("i,i", x, y), (x, y))
    np.testing.assert_array_equal(gx.numpy(), [2, 2])
    np.testing.assert_array_equal(gy.numpy(), [4])
    p, q = T(draw(1, 3, 4)), T(draw(2, 4, 5))
    out = ng.einsum("bij,bjk->bik", p, q)
    want = np.einsum("bij,bjk->bik", np.repeat(p.detach().numpy(), 2, 0), q.detach().numpy())
    np.testing.assert_allclose(out.detach().numpy(), want)
    gp, gq = grad(out.sum(), (p, q))
    assert gp.shape == p.shape and gq.shape == q.shape
    np.testing.assert_allclose(gp.numpy()[0], q.detach().numpy().sum((0, 2)) * np.ones((3, 1)))


def test_einsum_takes_diagonals_as_views_and_uses_sublists():
    x = ng.zeros(3, 3)
    ng.einsum("ii->i", x)[:] = 1.0
    np.testing.assert_array_equal(x.numpy(), np.eye(3))
    a, b = draw(2, 3), draw(3, 4)
    for got, want in (
        (ng.einsum(a, [0, 1], b, [1, 2], [2, 0]), (a @ b).T),
        (ng.einsum(a, [7, 9], b, [9, 8]), a @ b),
        (ng.einsum(a, [..., 1], b, [1, 2], [..., 2]), a @ b),
    ):
        np.testing.assert_allclose(got.numpy(), want)


def test_einsum_order_comes_from_a_planner(monkeypatch):
    shapes = [(30, 2), (2, 30), (30, 2)]
    arrays = [ng.tensor(draw(*s)) for s in shapes]
    want = arrays[0].numpy() @ arrays[1].numpy() @ arrays[2].numpy()
    for hide in (False, True):
        if hide:
            monkeypatch.setitem(sys.modules, "opt_einsum", None)
        ng.ops.einsum._path.cache_clear()
        with ng.Tape(*arrays) as tape:
            out = ng.einsum("ab,bc,cd->ad", *arrays)
        np.testing.assert_allclose(out.numpy(), want)
        sizes = [
            np.prod(tape.specs[i.outputs[0]].shape) for i in tape.instructions if i.op == "matmul"
        ]
        assert sizes == [4, 60], sizes  # (2, 2) first, never the (30, 30) matrix


@pytest.mark.parametrize(
    "equation, shapes, error",
    [
        ("ij,jk->im", [(2, 3), (3, 4)], ArgumentError),
        ("ij->ij->i", [(2, 3)], ArgumentError),
        ("ij,jk->ii", [(2, 3), (3, 4)], ArgumentError),
        ("ij,", [(2, 3)], ArgumentError),
        ("i1,j", [(2, 3), (3,)], ArgumentError),
        ("i..j", [(2, 3)], ArgumentError),
        ("i...j...", [(2, 3)], ArgumentError),
        ("...j->j", [(2, 3)], ArgumentError),
        ("ijk", [(2, 3)], ShapeError),
        ("i", [(2, 3)], ShapeError),
        ("ij,ik->jk", [(2, 3), (3, 4)], ShapeError),
        ("ii", [(2, 3)], ShapeError),
        ("ii", [(1, 3)], ShapeError),
    ],
)
def test_wrong_equations(equation, shapes, error):
    with pytest.raises(error, match=r"einsum: .*expected"):
        ng.einsum(equation, *(ng.zeros(*s) for s in shapes))


MATMULS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((2, 3), (4, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((3, 4), (4, 0)),
]


@pytest.mark.parametrize("p, q", MATMULS)
def test_matmul_in_every_rank(p, q):
    a, b = draw(*p), draw(*q)
    np.testing.assert_allclose((ng.tensor(a) @ ng.tensor(b)).numpy(), a @ b, atol=1e-14)
    np.testing.assert_allclose((a @ ng.tensor(b)).numpy(), a @ b, atol=1e-14)
    assert gradgradcheck(ng.matmul, (T(a), T(b)))
    c, d = draw(*p, kind="c"), draw(*q, kind="c")
    assert gradcheck(ng.matmul, (T(c), T(d)))


@pytest.mark.parametrize("da, db", [(0, None), (None, 2), (1, 0)])
@pytest.mark.parametrize("p, q", [((3,), (3,)), ((2, 3), (3, 2)), ((4, 2, 3), (3,))])
def test_matmul_under_vmap(p, q, da, db):
    def batched(s, d):
        return draw(*s) if d is None else np.moveaxis(draw(2, *s), 0, min(d, len(s)))

    a, b = batched(p, da), batched(q, db)
    dims = (da and min(da, len(p)), db and min(db, len(q)))
    got = ng.func.vmap(ng.matmul, in_dims=dims)(ng.tensor(a), ng.tensor(b)).numpy()
    for k in range(2):
        one = [x if d is None else np.take(x, k, d) for x, d in zip((a, b), dims, strict=True)]
        np.testing.assert_allclose(got[k], one[0] @ one[1])


def test_named_products():
    a, b, c = draw(2, 3), draw(3, 4), draw(2, 4)
    v, w = draw(3), draw(2)
    p, q, u = draw(2, 3, 4), draw(2, 4, 3), draw(3, 2, 3)
    t = ng.tensor
    for got, want in (
        (ng.mm(t(a), t(b)), a @ b),
        (ng.mv(t(a), t(v)), a @ v),
        (ng.bmm(t(p), t(q)), p @ q),
        (t(c).addmm(t(a), t(b), beta=0.5, alpha=2), 0.5 * c + 2 * a @ b),
        (t(w).addmv(t(a), t(v)), w + a @ v),
        (t(a).addr(t(w), t(v), alpha=3), a + 3 * np.outer(w, v)),
        (t(v).baddbmm(t(p), t(q)), v + p @ q),
        (t(v).addbmm(t(p), t(q)), v + (p @ q).sum(0)),
        (ng.addmm(ng.tensor(np.nan), t(a), t(b), beta=0), a @ b),
        (ng.inner(t(a), t(a)), np.inner(a, a)),
        (ng.kron(t(a), t(b)), np.kron(a, b)),
        (ng.kron(t(a), t(v)), np.kron(a, v)),
        (ng.tensordot(t(p), t(b.T), 1), np.tensordot(p, b.T, 1)),
        (ng.tensordot(t(p), t(q), 0), np.tensordot(p, q, 0)),
        (ng.tensordot(t(p), t(q), ([0, -1], [0, 1])), np.tensordot(p, q, ([0, 2], [0, 1]))),
        (ng.multi_dot([t(w), t(a), t(b)]), w @ a @ b),
        (ng.chain_matmul(t(a), t(b), t(b.T)), a @ b @ b.T),
        (ng.bilinear(t(w), t(v), t(u), t(v)), np.einsum("i,oij,j->o", w, u, v) + v),
        (ng.vdot(t(draw(3) * 0 + 1j), t(v)), (-1j * v).sum()),
    ):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-13, atol=1e-14)
    assert gradgradcheck(lambda *x: ng.addmm(*x) ** 2, (T(c), T(a), T(b)))
    assert gradgradcheck(lambda x, y: ng.kron(x, y) ** 2, (T(a), T(v)))
    assert gradgradcheck(lambda *x: ng.multi_dot(x) ** 2, (T(w), T(a), T(b)))


def test_multi_dot_chooses_the_cheap_order():
    mats = [ng.tensor(draw(*s)) for s in ((40, 2), (2, 40), (40, 2), (2, 40))]
    with ng.Tape(*mats) as tape:
        ng.multi_dot(mats)
    shapes = [tape.specs[i.outputs[0]].shape for i in tape.instructions if i.op == "matmul"]
    assert sum(s == (40, 40) for s in shapes) == 1


A, B = ng.ones(2, 3), ng.ones(3, 4)
WRONG = [
    (lambda: A @ A, ShapeError, "matmul: argument 'other'"),
    (lambda: ng.matmul(A, ng.tensor(1.0)), ShapeError, "matmul"),
    (lambda: ng.ones(2, 2, 3) @ ng.ones(3, 3, 2), ShapeError, "matmul"),
    (lambda: ng.mm(A, ng.ones(3)), ShapeError, "mm: argument 'mat2'"),
    (lambda: ng.mv(A, B), ShapeError, "mv: argument 'vec'"),
    (lambda: ng.bmm(ng.ones(2, 2, 3), ng.ones(1, 3, 2)), ShapeError, "bmm: argument 'mat2'"),
    (lambda: ng.addmm(ng.ones(3, 2, 4), A, B), ShapeError, "addmm: argument 'input'"),
    (lambda: ng.tensordot(A, B, 3), ShapeError, "tensordot: argument 'dims'"),
    (lambda: ng.tensordot(A, B, ([0], [0])), ShapeError, "tensordot: argument 'dims'"),
    (lambda: ng.tensordot(A, B, ([2], [0])), IndexingError, "tensordot: argument 'dims'"),
    (lambda: ng.multi_dot([]), ShapeError, "multi_dot"),
    (lambda: ng.multi_dot([A, ng.ones(3), B]), ShapeError, "multi_dot: operand 1"),
    (lambda: ng.einsum("ij"), ArgumentError, "einsum: the number of operands"),
    (lambda: ng.einsum(A, [0.5]), ArgumentError, "einsum: a sublist"),
    (lambda: ng.einsum(A), ArgumentError, "einsum: the call"),
]


@pytest.mark.parametrize("call, error, text", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_calls(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, NbgradError)
