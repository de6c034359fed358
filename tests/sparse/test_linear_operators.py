"""Jacobians and Hessians as SciPy linear operators."""

import numpy as np
import pytest
from scipy.sparse.linalg import cg, gmres

import nbgrad as ng


def rng(seed=0):
    return np.random.default_rng(seed)


def matrix(op):
    return op @ np.eye(op.shape[1])


def fn(x):
    return ng.cat([x[1:] * x[:-1] ** 2, ng.sin(x).sum().reshape(1), x[:2]])


def test_products_are_those_with_the_jacobian():
    x = rng().normal(size=5)
    A = ng.jacobian_operator(fn, x)
    want = ng.func.jacfwd(fn)(ng.tensor(x)).numpy()
    assert A.shape == (7, 5) and A.dtype == np.float64
    assert np.allclose(matrix(A), want)
    assert np.allclose(matrix(A.H), want.T)
    v, w = rng(1).normal(size=5), rng(2).normal(size=7)
    assert np.isclose(w @ (A @ v), (A.H @ w) @ v)
    assert np.allclose(A @ (v + 2j * v), want @ (v + 2j * v))


def test_complex_products():
    z = rng().normal(size=4) + 1j * rng(1).normal(size=4)
    A = ng.jacobian_operator(lambda z: ng.exp(1j * z) * z[0], z)
    want = ng.func.jacfwd(lambda z: ng.exp(1j * z) * z[0])(ng.tensor(z)).numpy()
    assert np.allclose(matrix(A), want)
    assert np.allclose(matrix(A.H), want.conj().T)
    B = ng.jacobian_operator(lambda x: ng.exp(1j * x) * x[0], z.real)
    want = ng.func.jacfwd(lambda x: ng.exp(1j * x) * x[0])(ng.tensor(z.real)).numpy()
    assert np.allclose(matrix(B), want)
    w = rng(2).normal(size=4) + 1j * rng(3).normal(size=4)
    assert np.allclose(B.H @ w, want.conj().T @ w)


def test_numbering_matches_the_sparse_jacobian():
    def tree(p, k):
        return p["b"][0] * k, p["a"] ** 2 * p["b"].sum()

    p = {"a": rng().normal(size=(2, 2)), "b": rng(1).normal(size=3)}
    assert np.allclose(
        matrix(ng.jacobian_operator(tree, p, 2.0)), ng.sparse_jacobian(tree)(p, 2.0).toarray()
    )
    swapped = ng.jacobian_operator(lambda k, p: tree(p, k), 2.0, p, argnums=(1, 0))
    assert swapped.shape == (5, 8)


def test_a_krylov_solver_finds_a_newton_step():
    x = rng().random(30)

    def residual(x):
        return x - 0.1 * (ng.roll(x, 1) + ng.roll(x, -1)) + 0.2 * x**3

    b = rng(1).normal(size=30)
    step, info = gmres(ng.jacobian_operator(residual, x), b, rtol=1e-12)
    assert info == 0
    assert np.allclose(ng.sparse_jacobian(residual)(x) @ step, b)
    adjoint, info = gmres(ng.jacobian_operator(residual, x).H, b, rtol=1e-12)
    assert info == 0
    assert np.allclose(ng.sparse_jacobian(residual)(x).T @ adjoint, b)


def test_hessian_products():
    def f(x):
        return (x**4).sum() + (x[1:] * x[:-1]).sum() + (3 * x**2).sum()

    x = rng().normal(size=6)
    H = ng.hessian_operator(f, x)
    want = ng.func.hessian(f)(ng.tensor(x)).numpy()
    assert np.allclose(matrix(H), want)
    assert np.allclose(matrix(H.H), want)
    b = rng(1).normal(size=6)
    step, info = cg(H, b, rtol=1e-12)
    assert info == 0
    assert np.allclose(step, np.linalg.solve(want, b))


def test_the_function_runs_once_however_many_products():
    calls = []

    def counted(x):
        calls.append(1)
        return x**2

    A = ng.jacobian_operator(counted, np.ones(3))
    for _ in range(5):
        A @ np.ones(3)
    assert len(calls) == 1
    for _ in range(5):
        A.H @ np.ones(3)
    assert len(calls) == 2


def test_it_works_under_no_grad_and_for_float32():
    with ng.no_grad():
        A = ng.jacobian_operator(lambda x: x**2, np.ones(3, np.float32))
        assert np.allclose(A @ np.ones(3), 2)
        assert np.allclose(A.H @ np.ones(3), 2)
    assert A.dtype == np.float32


def test_mistakes_are_named():
    with pytest.raises(ng.errors.DTypeError, match="jacobian_operator"):
        ng.jacobian_operator(fn, np.arange(5))
    with pytest.raises(ng.errors.DTypeError, match="the function's result is bool"):
        ng.jacobian_operator(lambda x: x > 0, np.ones(5))
    with pytest.raises(ng.errors.DTypeError, match=r"hessian_operator: .*complex"):
        ng.hessian_operator(lambda z: z.abs().sum(), np.ones(2) + 0j)
    with pytest.raises(ng.errors.ShapeError, match="one scalar"):
        ng.hessian_operator(fn, np.ones(5))
    with pytest.raises(ng.errors.ArgumentError, match=r"jacobian_operator: .*requires grad"):
        ng.jacobian_operator(fn, ng.ones(5).requires_grad_())
    with pytest.raises(ng.errors.TraceError, match=r"jacobian_operator: .*traced"):
        ng.trace(lambda x: ng.jacobian_operator(fn, x))(np.ones(5))
