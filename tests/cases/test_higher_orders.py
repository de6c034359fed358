"""Second and higher derivatives from public reports: norms at zero, products, softplus tails, PDE residuals."""

import math

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import functional, grad, gradgradcheck
from nbgrad.testing import assert_close, check_grads


def leaf(v):
    return ng.tensor(v, requires_grad=True)


def hessian_by_rows(f, v):
    """Double backward, row by row."""
    x = leaf(v)
    (g,) = grad(f(x), x, create_graph=True)
    return np.stack([grad(g[i], x, retain_graph=True)[0].numpy() for i in range(len(v))])


def derivatives(f, v, order):
    """f', f'' ... at a number, by nested reverse mode."""
    x = leaf(v)
    y, out = f(x), []
    for _ in range(order):
        (y,) = grad(y, x, create_graph=True)
        out.append(y.item())
    return out


def prod_hessian():
    h = np.zeros((4, 4))
    h[2, 3] = h[3, 2] = 6.0
    return h


HESSIANS = {
    "norm squared at zero": (lambda x: x.norm() ** 2, [0.0, 0.0], 2 * np.eye(2)),
    "prod with two zeros": (lambda x: x.prod(), [2.0, 3.0, 0.0, 0.0], prod_hessian()),
    "sin times exp": (
        lambda x: ng.sin(x[0]) * ng.exp(x[1]),
        [0.5, 0.0],
        [[-math.sin(0.5), math.cos(0.5)], [math.cos(0.5), math.sin(0.5)]],
    ),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_hessians_in_all_combinations_of_modes(name):
    f, v, want = HESSIANS[name]
    want = np.asarray(want, float)
    assert_close(hessian_by_rows(f, v), want)
    x = ng.tensor(v)
    for outer in (ng.func.jacfwd, ng.func.jacrev):
        for inner in (ng.func.jacfwd, ng.func.jacrev):
            assert_close(outer(inner(f))(x), want)
    assert_close(functional.hessian(f, x), want)


# softplus and log-sigmoid: exact derivatives at 0, and full relative accuracy in the tail (jax 2107, 2140, 40387)
@pytest.mark.parametrize(
    "f, v, want",
    [
        (ng.nn.functional.softplus, 0.0, [0.5, 0.25, 0.0, -0.125]),
        (ng.nn.functional.logsigmoid, 0.0, [0.5, -0.25]),
        (ng.nn.functional.softplus, 37.42994775023705, [1.0, 5.551115123125775e-17]),
        (ng.nn.functional.softplus, 21.0, [1.0, 7.582560416412862e-10]),
    ],
)
def test_softplus_and_logsigmoid(f, v, want):
    got = derivatives(f, v, len(want))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=0 if want[1] < 0.1 and v else 1e-14)


def test_eight_nested_derivatives():
    # of exp(sin 2x) at 0.5, against the Taylor coefficients of mpmath
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        series = mpmath.taylor(lambda x: mpmath.exp(mpmath.sin(2 * x)), mpmath.mpf(0.5), 8)
        want = [float(c * mpmath.factorial(k)) for k, c in enumerate(series)][1:]
    got = derivatives(lambda x: ng.exp(ng.sin(2 * x)), 0.5, 8)
    np.testing.assert_allclose(got, want, rtol=1e-9)


def test_a_gradient_inside_a_function_is_differentiated_again():
    def inner(x):
        (g,) = grad((x**5).sum(), x, create_graph=True)
        return g

    x = leaf([1.0, 2.0])
    assert_close(grad(inner(x).sum(), x)[0], np.array([20.0, 160.0]))
    tape = ng.trace(lambda x: ng.func.grad(lambda x: (x**5).sum())(x).sum())(ng.tensor([1.0, 1.0]))
    assert_close(tape.grad().replay(ng.tensor([1.0, 2.0])), np.array([20.0, 160.0]))


def test_determinant_of_a_singular_matrix_twice():
    a = leaf([[1.0, 2.0], [2.0, 4.0]])
    (g,) = grad(ng.linalg.det(a), a, create_graph=True)
    assert_close(grad(g[0, 0], a)[0], np.array([[0.0, 0.0], [0.0, 1.0]]), atol=1e-7)
    rank2 = np.outer([1.0, 2, 3], [1.0, 0, -1]) + np.outer([0.0, 1, 1], [2.0, 1, 0])
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(rank2, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    m = leaf(rank2)
    assert_close(grad(ng.linalg.det(m), m)[0], np.array(minors), atol=1e-9)


def spd(a):
    """A symmetric positive definite matrix from any small one."""
    return a + a.mT + 6 * ng.eye(3)


LINALG = {
    "cholesky": (lambda a: ng.linalg.cholesky(spd(a)), 1),
    "inv": (lambda a: ng.linalg.inv(spd(a)), 1),
    "slogdet": (lambda a: ng.linalg.slogdet(spd(a))[1], 1),
    "solve": (lambda a, b: ng.linalg.solve(spd(a), b), 2),
}


@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra_to_second_order(name):
    f, n = LINALG[name]
    rng = np.random.default_rng(0)
    args = (leaf(rng.normal(size=(3, 3))), leaf([1.0, 2.0, 3.0]))[:n]
    assert gradgradcheck(f, args)
    check_grads(f, args, order=2)


def test_linear_algebra_values():
    m = np.random.default_rng(0).normal(size=(3, 3))
    s = m @ m.T + 3 * np.eye(3)
    inverse = np.linalg.inv(s)
    a = leaf(s)
    assert_close(grad(2 * ng.linalg.cholesky(a).diagonal().log().sum(), a)[0], inverse)
    a = leaf(s)
    sign, logdet = ng.linalg.slogdet(a)
    assert_close(grad(sign * logdet, a)[0], inverse.T)
    a, b = leaf(s), leaf([1.0, 2.0, 3.0])
    ga, gb = grad(ng.linalg.solve(a, b).sum(), (a, b))
    adjoint = np.linalg.solve(s.T, np.ones(3))
    assert_close(gb, adjoint)
    assert_close(ga, -np.outer(adjoint, np.linalg.solve(s, [1.0, 2.0, 3.0])))


@pytest.mark.parametrize(
    "f", [lambda x: x.cumsum(1) ** 2, lambda x: x.cumprod(1), lambda x: ng.logcumsumexp(x, 1)]
)
def test_scans_to_second_order(f):
    assert gradgradcheck(f, (leaf(np.random.default_rng(0).normal(size=(2, 4))),))


def test_complex_to_second_order():
    z = leaf([1 + 2j, -0.5j])
    assert gradgradcheck(lambda v: v**3 / (v.abs() + 1), (z,))
    check_grads(lambda v: v * v.conj() + v**2 * ng.exp(v), (z,), order=2)


# -- fields --------------------------------------------------------------------------------------------


def test_parameter_gradient_of_a_residual_with_second_derivatives():
    # Burgers-like residual of a small network: a chain of third order (deepxde, PINA, torch 33999)
    rng = np.random.default_rng(0)
    weights = (rng.normal(size=(6, 1)), rng.normal(size=6), rng.normal(size=(1, 6)))
    points = np.linspace(-1, 1, 9)[:, None]

    def loss(w1, b1, w2):
        x = leaf(points)
        u = ng.tanh(x @ w1.mT + b1) @ w2.mT
        (ux,) = grad(u.sum(), x, create_graph=True)
        (uxx,) = grad(ux.sum(), x, create_graph=True)
        return ((uxx + u * ux + ng.sin(x)) ** 2).mean()

    check_grads(loss, weights, order=1, modes=("rev",))


def test_divergence_of_a_flux_with_a_variable_coefficient():
    x = leaf(np.random.default_rng(0).uniform(size=(6, 2)))
    k = 1 + x[:, 0] ** 2 * x[:, 1]
    p = ng.sin(x[:, 0]) * ng.exp(x[:, 1])
    (gp,) = grad(p.sum(), x, create_graph=True)
    flux = k[:, None] * gp
    div = sum(grad(flux[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(2))
    a, b = x.detach().numpy().T
    # div(k grad p) = grad k . grad p + k lap p, and p is harmonic
    want = 2 * a * b * np.cos(a) * np.exp(b) + a**2 * np.sin(a) * np.exp(b)
    assert_close(div.detach(), want)


def test_second_derivatives_of_a_batched_network_point_by_point():
    rng = np.random.default_rng(1)
    w1, w2 = rng.normal(size=(4, 2)), rng.normal(size=(1, 4))
    x = leaf(rng.normal(size=(5, 2)))
    u = ng.tanh(x @ ng.tensor(w1).mT) @ ng.tensor(w2).mT
    (g,) = grad(u.sum(), x, create_graph=True)
    uxx = grad(g[:, 0].sum(), x, create_graph=True)[0]
    t = np.tanh(x.detach().numpy() @ w1.T)
    curvature = -2 * t * (1 - t * t) * w2
    assert_close(g.detach(), ((1 - t * t) * w2) @ w1)
    assert_close(uxx[:, 0].detach(), (curvature * w1[:, 0] ** 2).sum(1))
    assert_close(uxx[:, 1].detach(), (curvature * w1[:, 0] * w1[:, 1]).sum(1))
    one = lambda p: (ng.tanh(p @ ng.tensor(w1).mT) @ ng.tensor(w2).mT).sum()
    hessians = ng.func.vmap(ng.func.hessian(one))(x.detach())
    assert_close(hessians[:, 0, 0], uxx[:, 0].detach())


def test_hessian_vector_products_agree_with_the_hessian():
    a = ng.tensor(np.random.default_rng(0).normal(size=(3, 3)))
    f = lambda x: ng.sin(a @ x).sum() * (x**2).sum()
    x, v = ng.tensor([0.1, -0.2, 0.3]), ng.tensor([1.0, 2.0, -1.0])
    h = functional.hessian(f, x).numpy()
    assert_close(h, h.T)
    assert_close(functional.hvp(f, x, v)[1], h @ v.numpy())
    assert_close(functional.vhp(f, x, v)[1], v.numpy() @ h)
    assert_close(ng.func.hvp(f, (x,), (v,))[1], h @ v.numpy())
