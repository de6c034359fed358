"""Linear algebra: values, derivatives to second order (more where free), singular and degenerate matrices, errors."""

import functools
import itertools
import math

import numpy as np
import pytest
import scipy.linalg

import nbgrad as ng
from nbgrad import linalg as la
from nbgrad.autograd import grad, gradcheck
from nbgrad.autograd import gradgradcheck as thorough_gradgradcheck
from nbgrad.errors import ArgumentError, DTypeError, NbgradError, ShapeError, UnsupportedError

RNG = np.random.default_rng(11)
gradgradcheck = functools.partial(thorough_gradgradcheck, fast_mode=True)


def draw(*shape, kind="f"):
    x = RNG.uniform(-1, 1, shape)
    return x + 1j * RNG.uniform(-1, 1, shape) if kind == "c" else x


def regular(*shape, kind="f"):
    """Well-conditioned square matrices with well-separated eigenvalues."""
    return draw(*shape, kind=kind) + np.diag(3.0 + 2 * np.arange(shape[-1]))


def T(v):
    return ng.tensor(v, requires_grad=True)


def positive(a):
    return a @ a.mH + ng.eye(a.shape[-1]).to(a.dtype)


# every function of one matrix argument, with a shape it takes
UNARY = {
    "inv": (la.inv, (3, 3)),
    "det": (la.det, (3, 3)),
    "logabsdet": (lambda a: la.slogdet(a)[1], (2, 2, 2)),
    "logdet": (lambda a: la.logdet(positive(a)), (3, 3)),
    "cholesky": (lambda a: la.cholesky(positive(a)), (2, 2, 2)),
    "cholesky upper": (lambda a: la.cholesky(positive(a), upper=True), (3, 3)),
    "cholesky_inverse": (lambda a: ng.cholesky_inverse(la.cholesky(positive(a))), (3, 3)),
    "eigvalsh": (lambda a: la.eigvalsh(a + a.mH), (3, 3)),
    "svdvals": (la.svdvals, (2, 3, 2)),
    "pinv": (la.pinv, (4, 2)),
    "pinv wide": (la.pinv, (2, 3)),
    "qr": (lambda a: tuple(la.qr(a)), (3, 2)),
    "qr wide": (lambda a: tuple(la.qr(a)), (2, 3)),
    "lu": (lambda a: tuple(la.lu(a))[1:], (2, 2, 2)),
    "matrix_exp": (lambda a: la.matrix_exp(a / 4), (3, 3)),
    "power": (lambda a: la.matrix_power(a / 3, 5), (2, 2)),
    "power -2": (lambda a: la.matrix_power(a, -2), (2, 2)),
    "cond": (la.cond, (3, 3)),
    "cond 1": (lambda a: la.cond(a, 1), (3, 3)),
    "nuc": (lambda a: la.matrix_norm(a, "nuc"), (3, 2)),
    "spectral": (lambda a: la.norm(a, 2), (3, 3)),
    "fro": (la.matrix_norm, (2, 3, 2)),
}


@pytest.mark.parametrize("name", list(UNARY))
def test_derivatives_to_second_order(name):
    f, shape = UNARY[name]
    a = regular(*shape) if shape[-1] == shape[-2] else draw(*shape)
    assert gradcheck(f, (T(a),), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(f, (T(a),))
    many = ng.tensor(np.stack([a, a + 0.1 * draw(*shape)]))
    for g, w in zip(
        flat(ng.func.vmap(f)(many)), zip(*(flat(f(x)) for x in many), strict=True), strict=True
    ):
        np.testing.assert_allclose(
            g.numpy(), np.stack([x.numpy() for x in w]), rtol=1e-10, atol=1e-12
        )


def flat(out):
    return list(out) if isinstance(out, tuple) else [out]


COMPLEX = [
    "inv",
    "det",
    "logabsdet",
    "cholesky",
    "eigvalsh",
    "svdvals",
    "pinv",
    "qr",
    "qr wide",
    "lu",
    "matrix_exp",
    "nuc",
]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_adjoints(name):
    f, shape = UNARY[name][0], UNARY[name][1][-2:]
    a = regular(*shape, kind="c") if shape[-1] == shape[-2] else draw(*shape, kind="c")
    assert gradcheck(f, (T(a),))
    assert gradgradcheck(f, (T(a),))


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize(
    "p, q", [((2, 2), (2,)), ((3, 2, 2), (3, 2)), ((3, 2, 2), (2, 1)), ((2, 2), (3, 2, 1))]
)
def test_solves(p, q, kind):
    a, b = regular(*p, kind=kind), draw(*q, kind=kind)
    vector = len(q) == 1 or q == (3, 2)
    want = np.linalg.solve(a, b[..., None])[..., 0] if vector else np.linalg.solve(a, b)
    np.testing.assert_allclose(la.solve(ng.tensor(a), ng.tensor(b)).numpy(), want, rtol=1e-12)
    lu = la.lu_factor(ng.tensor(a))
    np.testing.assert_allclose(la.lu_solve(*lu, ng.tensor(b)).numpy(), want, rtol=1e-12)
    assert gradcheck(la.solve, (T(a), T(b)))
    assert gradgradcheck(la.solve, (T(a), T(b)))
    assert gradgradcheck(lambda a, b: la.lu_solve(*la.lu_factor(a), b), (T(a), T(b)))
    s = a @ np.conj(np.swapaxes(a, -1, -2))
    low = la.cholesky(ng.tensor(s))
    want = np.linalg.solve(s, b[..., None])[..., 0] if vector else np.linalg.solve(s, b)
    np.testing.assert_allclose(ng.cholesky_solve(ng.tensor(b), low).numpy(), want, rtol=1e-10)


def test_right_hand_solves():
    a, b = regular(3, 3), draw(2, 3)
    x = la.solve(ng.tensor(a), ng.tensor(b), left=False).numpy()
    np.testing.assert_allclose(x @ a, b, atol=1e-13)


@pytest.mark.parametrize("upper, left, unit", list(itertools.product([False, True], repeat=3)))
def test_triangular_solves_read_one_triangle(upper, left, unit):
    a, b = regular(2, 3, 3), draw(3, 2) if left else draw(2, 3)
    t = np.triu(a) if upper else np.tril(a)
    if unit:
        t = t * (1 - np.eye(3)) + np.eye(3)

    def f(a, b):
        return la.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)

    x = f(ng.tensor(a), ng.tensor(b)).numpy()
    np.testing.assert_allclose(
        t @ x if left else x @ t, np.broadcast_to(b, (2, *b.shape)), atol=1e-13
    )
    assert gradcheck(f, (T(a), T(b)))
    assert gradgradcheck(f, (T(a), T(b)))
    big = la.solve_triangular(ng.tensor(regular(40, 40)), ng.tensor(np.eye(40)), upper=upper)
    np.testing.assert_allclose(big.numpy(), np.triu(big.numpy()) if upper else np.tril(big.numpy()))


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
def test_least_squares(shape):
    a, b = draw(*shape), draw(shape[0], 2)
    got = la.lstsq(ng.tensor(a), ng.tensor(b))
    want = np.linalg.lstsq(a, b, rcond=None)
    np.testing.assert_allclose(got.solution.numpy(), want[0], rtol=1e-10)
    np.testing.assert_allclose(got.singular_values.numpy(), want[3])
    assert int(got.rank) == want[2]
    miss = ((a @ want[0] - b) ** 2).sum(0)
    np.testing.assert_allclose(got.residuals.numpy(), miss, atol=1e-12)
    assert gradcheck(lambda a, b: la.lstsq(a, b)[0], (T(a), T(b)))
    assert gradgradcheck(lambda a, b: la.lstsq(a, b)[0], (T(a), T(b)))
    deficient = np.outer([1.0, 2, 3], [1.0, 1])
    x = la.lstsq(ng.tensor(deficient), ng.tensor([1.0, 0, 1]))
    np.testing.assert_allclose(x.solution.numpy(), np.linalg.pinv(deficient) @ [1, 0, 1])
    assert int(x.rank) == int(la.matrix_rank(ng.tensor(deficient))) == 1


# -- determinants ---------------------------------------------------------------------------------------


def leibniz(a):
    """det as a polynomial: the reference for derivatives of any order."""
    n, total = a.shape[0], 0
    for sigma in itertools.permutations(range(n)):
        swaps = sum(sigma[i] > sigma[j] for i in range(n) for j in range(i + 1, n))
        term = (-1) ** swaps
        for i in range(n):
            term = term * a[i, sigma[i]]
        total = total + term
    return total


SINGULAR = {
    "rank 1 of 3": np.outer([1.0, 2, 3], [1.0, 0, -1]),
    "rank 2 of 3": np.outer([1.0, 2, 3], [1.0, 0, -1]) + np.outer([0.0, 1, 1], [2.0, 1, 0]),
    "rank 2 of 4": draw(4, 2) @ draw(2, 4),
    "zero 3": np.zeros((3, 3)),
    "zero 1": np.zeros((1, 1)),
    "regular": draw(3, 3),
    "ill-scaled": np.diag([1e-160, 1e160, 2.0]) + 0,
}


@pytest.mark.parametrize("name", list(SINGULAR)[:-1])
def test_det_has_every_derivative_at_singular_matrices(name):
    x = ng.tensor(SINGULAR[name])
    ds = [ng.tensor(draw(*x.shape)) for _ in range(4)]

    def forward(f, k):
        for d in ds[:k]:
            f = lambda a, f=f, d=d: ng.func.jvp(f, (a,), (d,))[1]
        return float(f(x))

    def reverse(f, k):
        for d in ds[:k]:
            f = lambda a, f=f, d=d: (ng.func.grad(f)(a) * d).sum()
        return float(f(x))

    for k in range(1, 5):
        assert math.isclose(forward(la.det, k), forward(leibniz, k), rel_tol=1e-9, abs_tol=1e-11)
    for k in range(1, 4):
        assert math.isclose(reverse(la.det, k), reverse(leibniz, k), rel_tol=1e-9, abs_tol=1e-11)
    h, want = ng.func.hessian(la.det)(x).numpy(), ng.func.hessian(leibniz)(x).numpy()
    np.testing.assert_allclose(h, want, atol=1e-12)
    _, got = ng.func.jet(la.det, (x,), (ds[:3],))
    _, want = ng.func.jet(leibniz, (x,), (ds[:3],))
    np.testing.assert_allclose([float(v) for v in got], [float(v) for v in want], atol=1e-10)


def test_cofactors_survive_extreme_scales():
    a = SINGULAR["ill-scaled"]
    (g,) = grad(la.det(x := T(a)), x)
    np.testing.assert_allclose(np.diag(g.numpy()), [2e160, 2e-160, 1.0], rtol=1e-12)
    (g,) = grad(la.det(x := T(np.eye(200) * 0.01)), x)
    np.testing.assert_array_equal(g.numpy(), 0)  # 0.01**199 underflows
    n = np.array([[np.nan, 1], [1, 2]])
    (g,) = grad(la.det(x := T(n)), x)
    assert np.isnan(g.numpy()).any()


def test_det_of_a_batch_with_singular_and_regular_members():
    a = np.stack([SINGULAR["rank 1 of 3"], SINGULAR["regular"], np.eye(3)])
    (g,) = grad(la.det(x := T(a)).sum(), x)
    for k in range(3):
        (one,) = grad(la.det(y := T(a[k])), y)
        np.testing.assert_allclose(g.numpy()[k], one.numpy(), atol=1e-14)


def test_slogdet_sign():
    a = np.array([[0.0, 2.0], [1.0, 3.0]])
    sign, value = la.slogdet(x := T(a))
    assert (float(sign), float(value)) == (-1.0, pytest.approx(math.log(2)))
    (g,) = grad(sign * value, x)
    np.testing.assert_allclose(g.numpy(), -np.linalg.inv(a).T)
    z = draw(3, 3, kind="c")
    assert gradgradcheck(lambda a: tuple(la.slogdet(a)), (T(z),))
    np.testing.assert_allclose(la.logdet(ng.tensor(z)).exp().numpy(), np.linalg.det(z))
    assert math.isnan(float(la.logdet(ng.tensor(a))))
    with pytest.raises(la.LinAlgError, match="inv: the matrix"):
        grad(la.slogdet(x := T(np.zeros((2, 2))))[1], x)


def test_gradients_of_positive_definite_matrices_are_symmetric():
    m = draw(3, 3)
    s = m @ m.T + 3 * np.eye(3)
    (g,) = grad(2 * la.cholesky(x := T(s)).diagonal().log().sum(), x)
    np.testing.assert_allclose(g.numpy(), np.linalg.inv(s))


# -- spectra ---------------------------------------------------------------------------------------------


def function_of(a, f):
    w, v = la.eigh(a)
    return (v * f(w).unsqueeze(-2)) @ v.mH


@pytest.mark.parametrize("kind", ["f", "c"])
def test_functions_of_hermitian_matrices(kind):
    a = regular(3, 3, kind=kind) / 4
    s = a + np.conj(a.T)
    got = function_of(ng.tensor(s), ng.exp).numpy()
    np.testing.assert_allclose(got, scipy.linalg.expm(s), rtol=1e-12)
    f = lambda a: function_of(a + a.mH, ng.exp)
    assert gradcheck(f, (T(a),), check_forward_ad=True)
    assert gradgradcheck(f, (T(a),))
    for x in (ng.tensor(s),):
        w, v = la.eigh(x)
        np.testing.assert_allclose((x @ v).numpy(), (v * w.unsqueeze(-2)).numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_invariant_functions_of_singular_vectors(shape, kind):
    a = draw(*shape, kind=kind)

    def rebuilt(a):
        u, s, vh = la.svd(a, full_matrices=False)
        return (u * s.sqrt().unsqueeze(-2)) @ vh

    def polar(a):
        u, _, vh = la.svd(a, full_matrices=False)
        return u @ vh

    for f in (rebuilt, polar):
        assert gradcheck(f, (T(a),), check_forward_ad=True)
    assert gradgradcheck(rebuilt, (T(a),))
    u, s, vh = la.svd(ng.tensor(a))
    k = s.shape[-1]
    np.testing.assert_allclose(
        ((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :]).numpy(), a, atol=1e-13
    )


def test_general_eigenvalues():
    a = regular(3, 3) @ np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])  # a complex pair
    w, v = la.eig(ng.tensor(a))
    np.testing.assert_allclose(a @ v.numpy(), v.numpy() * w.numpy(), atol=1e-12)
    assert gradcheck(lambda a: tuple(la.eig(a)), (T(a),))
    (g,) = grad(la.eigvals(x := T(a)).real.sum(), x)
    np.testing.assert_allclose(g.numpy(), np.eye(3), atol=1e-12)


def test_values_are_differentiable_where_they_coincide():
    s = np.diag([1.0, 1.0, 2.0])
    (g,) = grad((la.eigvalsh(x := T(s)) ** 2).sum(), x)
    np.testing.assert_allclose(g.numpy(), 2 * s, atol=1e-14)
    (g,) = grad(la.svdvals(x := T(np.eye(3))).sum(), x)
    np.testing.assert_allclose(g.numpy(), np.eye(3), atol=1e-14)


def test_what_the_factors_cannot_give_is_nan_and_never_a_number():
    s = ng.tensor(np.diag([1.0, 1.0, 2.0]))
    d = ng.tensor(draw(3, 3))
    f = lambda a: (function_of(a, ng.exp) * d).sum()
    assert np.isnan(ng.func.grad(f)(s).numpy()).any()
    assert np.isnan(ng.func.jvp(f, (s,), (d,))[1].numpy())
    squares = lambda a: (la.eigvalsh(a) ** 2).sum()
    assert np.isnan(ng.func.hvp(squares, (s,), (d,))[1].numpy()).any()
    assert np.isnan(ng.func.grad(lambda a: (ng.func.grad(squares)(a) * d).sum())(s).numpy()).any()
    # a vector outside the group keeps its derivative
    projector = lambda a: la.eigh(a)[1][:, 2:] @ la.eigh(a)[1][:, 2:].mT
    sym = (d + d.mT).numpy()
    got = ng.func.jvp(projector, (s,), (ng.tensor(sym),))[1].numpy()
    want = np.zeros((3, 3))
    want[2, :2] = want[:2, 2] = sym[2, :2]
    np.testing.assert_allclose(got, want, atol=1e-12)
    z = draw(3, 3, kind="c")
    (g,) = grad(abs_sum(la.eigh(x := T(z + z.conj().T))[1]), x)
    assert np.isnan(g.numpy()).any()  # depends on the phase


def abs_sum(v):
    return (v * ng.tensor(np.arange(9.0).reshape(3, 3))).sum().abs() + v.sum().abs()


def test_square_factors_beyond_the_thin_form_have_no_derivative():
    a = T(draw(4, 2))
    (g,) = grad(la.svd(a)[1].sum(), a)
    assert g.shape == (4, 2)
    with pytest.raises(UnsupportedError, match="full_matrices=False"):
        grad(la.svd(a)[0].sum(), a)
    with pytest.raises(UnsupportedError, match="reduced"):
        grad(la.qr(a, "complete")[0].sum(), a)
    q, r = la.qr(a.detach(), "complete")
    np.testing.assert_allclose((q @ r).numpy(), a.detach().numpy(), atol=1e-14)
    assert la.qr(a, "r").Q.shape == (0,)


def test_matrix_exp_taylor_and_third_derivative():
    a, d = draw(3, 3), draw(3, 3)
    _, got = ng.func.jet(la.matrix_exp, (ng.tensor(a),), ([ng.tensor(d)],))
    np.testing.assert_allclose(got[0].numpy(), scipy.linalg.expm_frechet(a, d)[1], rtol=1e-12)
    zero = ng.tensor(np.zeros((3, 3)))
    _, got = ng.func.jet(la.matrix_exp, (zero,), ([ng.tensor(d), zero, zero],))
    np.testing.assert_allclose(got[2].numpy(), d @ d @ d, atol=1e-14)  # exp(t d)''' at 0
    f = lambda t: la.matrix_exp(ng.tensor(d) * t).sum()
    third = ng.func.grad(ng.func.grad(ng.func.grad(f)))(ng.tensor(0.0))
    np.testing.assert_allclose(float(third), (d @ d @ d).sum(), rtol=1e-12)


def test_solve_taylor_matches_the_closed_form():
    a, b = regular(3, 3), draw(3)
    d = draw(3, 3) / 5
    _, got = ng.func.jet(
        la.solve,
        (ng.tensor(a), ng.tensor(b)),
        ([ng.tensor(d)] + [ng.zeros(3, 3)] * 3, [ng.zeros(3)] * 4),
    )
    step, x = -np.linalg.solve(a, d), np.linalg.solve(a, b)
    for k, c in enumerate(got, 1):
        x = step @ x
        np.testing.assert_allclose(c.numpy(), math.factorial(k) * x, rtol=1e-11)


NORMS = ["fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf]


@pytest.mark.parametrize("ord", NORMS)
def test_matrix_norms(ord):
    a = draw(3, 2, 4)
    got = la.matrix_norm(ng.tensor(a), ord, dim=(0, 2)).numpy()
    np.testing.assert_allclose(got, np.linalg.norm(a, ord, axis=(0, 2)), rtol=1e-12)
    kept = la.matrix_norm(ng.tensor(a), ord, dim=(2, 0), keepdim=True)
    assert tuple(kept.shape) == (1, 2, 1)
    assert gradcheck(lambda x: la.matrix_norm(x, ord), (T(a),))
    assert float(la.norm(ng.tensor(a[0]), ord)) == pytest.approx(np.linalg.norm(a[0], ord))


def test_norm_spellings():
    a = draw(3, 4)
    assert float(la.norm(ng.tensor(a))) == pytest.approx(np.linalg.norm(a))
    np.testing.assert_allclose(la.norm(ng.tensor(a), 1, dim=1).numpy(), np.abs(a).sum(1))
    np.testing.assert_allclose(
        la.vector_norm(ng.tensor(a), 3).numpy(), (np.abs(a) ** 3).sum() ** (1 / 3)
    )
    np.testing.assert_allclose(la.vecdot(ng.tensor(a), ng.tensor(a)).numpy(), (a * a).sum(1))
    (g,) = grad(la.matrix_norm(x := T(np.zeros((2, 2)))), x)
    np.testing.assert_array_equal(g.numpy(), 0)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_empty_matrices(shape):
    x = T(np.zeros(shape) + np.eye(shape[-1]))
    total = sum(
        f(x).sum()
        for f in (
            la.inv,
            la.det,
            la.cholesky,
            la.eigvalsh,
            la.svdvals,
            la.matrix_exp,
            la.pinv,
            lambda a: la.solve(a, a),
        )
    )
    total = total + la.slogdet(x)[1].sum() + la.qr(x)[1].sum() + la.lu_factor(x)[0].sum()
    (g,) = grad(total, x)
    assert g.shape == shape
    assert gradgradcheck(lambda a: la.det(a), (x,)) if 0 not in shape else True


def test_float32_stays_float32():
    a = ng.tensor(regular(3, 3).astype(np.float32), requires_grad=True)
    out = la.solve(a, la.inv(a)) @ la.cholesky(positive(a)) * la.det(a) * la.svdvals(a).sum()
    assert out.dtype == ng.float32 and grad(out.sum(), a)[0].dtype == ng.float32


def test_replay_and_traces():
    a = ng.tensor(regular(3, 3))

    def f(a):
        return la.solve(a, a.mT) + la.det(a) * la.inv(a) + la.eigvalsh(a + a.mT) + la.lu(a).L

    b = ng.tensor(regular(3, 3))
    np.testing.assert_allclose(ng.trace(f)(a).replay(b).numpy(), f(b).numpy(), rtol=1e-12)


S, N = ng.zeros(2, 3, 3), ng.ones(2, 3)
S[0] = ng.tensor(np.eye(3))
WRONG = [
    (lambda: la.solve(S, ng.ones(3, 1)), la.LinAlgError, r"solve: matrix \[1\] of the batch"),
    (
        lambda: la.inv(S),
        la.LinAlgError,
        r"inv: matrix \[1\] of the batch is not usable: it is singular",
    ),
    (lambda: la.inv(S[1]), la.LinAlgError, "inv: the matrix is not usable"),
    (lambda: la.cholesky(-S), la.LinAlgError, r"cholesky: matrix \[0\].*positive definite"),
    (lambda: la.cholesky(ng.tensor([[2.0, 1], [0, 2]])), la.LinAlgError, "not symmetric"),
    (lambda: la.eigh(ng.tensor([[2.0, 1], [0, 2]])), la.LinAlgError, "not symmetric"),
    (
        lambda: la.solve_triangular(S, S, upper=True),
        la.LinAlgError,
        r"\[1\].*diagonal element is 0",
    ),
    (lambda: la.inv(N), ShapeError, "inv: argument 'A'.*square"),
    (lambda: la.det(ng.ones(3)), ShapeError, "det: argument 'A'.*at least 2"),
    (lambda: la.solve(S, ng.ones(2)), ShapeError, "solve: argument 'B'.*3 rows"),
    (lambda: la.lstsq(N, ng.ones(3)), ShapeError, "lstsq: argument 'B'.*2 rows"),
    (lambda: la.inv(ng.ones(2, 2).half()), DTypeError, "float16"),
    (lambda: la.qr(N, "raw"), ArgumentError, "qr: argument 'mode'"),
    (lambda: la.eigh(S, "X"), ArgumentError, "eigh: argument 'UPLO'"),
    (lambda: la.matrix_power(S, 0.5), ArgumentError, "matrix_power: argument 'n'"),
    (lambda: la.matrix_norm(N, 3), ArgumentError, "matrix_norm: argument 'ord'"),
    (lambda: la.matrix_norm(N, dim=(0, 0)), ArgumentError, "matrix_norm: argument 'dim'"),
    (lambda: la.inv("x"), DTypeError, "inv: argument 'A'"),
]


@pytest.mark.parametrize("call, error, text", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_calls(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, NbgradError)
    if error is la.LinAlgError:
        assert isinstance(caught.value, np.linalg.LinAlgError)


def test_nan_propagates():
    a = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    for f in (la.inv, la.det, la.cholesky, la.eigvalsh, la.svdvals, la.pinv):
        out = f(ng.tensor(a)).numpy()
        assert np.isfinite(out[0]).all() and np.isnan(out[1]).all()


def test_a_function_of_complex_factors_that_is_constant_has_second_derivative_zero():
    for shape in ((3, 2), (2, 3), (3, 3)):
        a = ng.tensor(draw(*shape, kind="c"), requires_grad=True)
        w = ng.tensor(draw(*shape, kind="c") + 0.5j)
        u, s, vh = la.svd(a, full_matrices=False)
        (g,) = grad((u * s) @ vh, a, w, create_graph=True)  # the matrix itself: g is w
        (h,) = grad((g * g.conj()).real.sum(), a)
        np.testing.assert_allclose(h.numpy(), 0, atol=1e-10)


def test_matrix_rank_tolerances():
    a = ng.tensor(np.diag([10.0, 4.0, 0.1]))
    assert int(la.matrix_rank(a)) == 3
    assert int(la.matrix_rank(a, 0.5)) == int(la.matrix_rank(a, atol=0.5)) == 2  # absolute
    assert int(la.matrix_rank(a, rtol=0.5)) == 1
    assert int(la.matrix_rank(a, 5.0, rtol=0.001)) == 1
    pair = ng.stack([a, a])
    assert la.matrix_rank(pair, ng.tensor([0.01, 5.0])).tolist() == [3, 1]
