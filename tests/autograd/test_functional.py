"""autograd.functional: shapes as PyTorch's, products against the full matrices, strict and create_graph."""

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import functional as fn
from nbgrad.errors import ArgumentError, AutogradError, DTypeError, ShapeError

A = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 1.0]])


def f(x):
    return ng.sin(ng.tensor(A) @ x).sum() * (x**2).sum()


X, V = ng.tensor([0.1, -0.2, 0.3]), ng.tensor([1.0, 2.0, -1.0])


def shapes(tree):
    return [shapes(t) for t in tree] if isinstance(tree, tuple) else tuple(tree.shape)


def test_products_agree_with_the_hessian():
    h = fn.hessian(f, X).numpy()
    np.testing.assert_allclose(h, h.T)
    value, hv = fn.hvp(f, X, V)
    assert float(value) == pytest.approx(float(f(X)))
    np.testing.assert_allclose(hv.numpy(), h @ V.numpy())
    np.testing.assert_allclose(fn.vhp(f, X, V)[1].numpy(), V.numpy() @ h)
    np.testing.assert_allclose(fn.hvp(f, X, V, strict=True)[1].numpy(), h @ V.numpy())
    for options in (
        {"vectorize": True},
        {"vectorize": True, "outer_jacobian_strategy": "forward-mode"},
    ):
        np.testing.assert_allclose(fn.hessian(f, X, **options).numpy(), h)


def test_products_agree_with_the_jacobian():
    g = lambda x: ng.stack([x[0] * x[1], x[1].sin(), x[2] ** 2, x.sum()])
    j = fn.jacobian(g, X).numpy()
    assert j.shape == (4, 3)
    u = ng.tensor([1.0, -1.0, 2.0, 0.5])
    out, uj = fn.vjp(g, X, u)
    np.testing.assert_allclose(out.numpy(), g(X).numpy())
    np.testing.assert_allclose(uj.numpy(), u.numpy() @ j)
    np.testing.assert_allclose(fn.jvp(g, X, V)[1].numpy(), j @ V.numpy())
    for options in ({"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        np.testing.assert_allclose(fn.jacobian(g, X, **options).numpy(), j)


@pytest.mark.parametrize(
    "options",
    [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}],
    ids=["rows", "batched", "forward"],
)
def test_shapes_for_tuples(options):
    j = fn.jacobian(lambda a: ng.outer(a[:2], a[1:]), ng.arange(4.0), **options)
    a, want = np.arange(4.0), np.zeros((2, 3, 4))
    for i in range(2):
        for k in range(3):
            want[i, k, i] += a[1 + k]
            want[i, k, 1 + k] += a[i]
    np.testing.assert_allclose(j.numpy(), want)
    two = lambda a, b: (a.sum() * b, a * 1)
    j = fn.jacobian(two, (ng.ones(2), ng.ones(3)), **options)
    assert shapes(j) == [[(3, 2), (3, 3)], [(2, 2), (2, 3)]]
    assert shapes(fn.jacobian(lambda a: (a * 1,), ng.ones(2), **options)) == [(2, 2)]
    assert shapes(fn.jacobian(lambda a: a * 1, (ng.ones(2),), **options)) == [(2, 2)]
    assert shapes(fn.jacobian(lambda a: a**2, ng.tensor(2.0), **options)) == ()
    assert shapes(fn.jacobian(lambda a: a**2, ng.zeros(0, 5), **options)) == (0, 5, 0, 5)


def test_hessian_shapes():
    h = fn.hessian(lambda a, b: (a**2).sum() * b.sum(), (ng.ones(2), ng.ones(1)))
    assert shapes(h) == [[(2, 2), (2, 1)], [(1, 2), (1, 1)]]
    np.testing.assert_allclose(h[0][0].numpy(), 2 * np.eye(2))
    np.testing.assert_allclose(h[0][1].numpy(), [[2.0], [2.0]])
    h = fn.hessian(lambda a: a**3, ng.tensor(2.0))
    assert shapes(h) == () and float(h) == 12.0
    assert shapes(fn.hessian(lambda a: (a**3).sum(), ng.ones(2, 3))) == (2, 3, 2, 3)
    assert shapes(fn.hessian(lambda a: (a**3).sum(0, keepdim=True), ng.ones(2))) == (2, 2)


def test_products_of_tuples():
    g = lambda a, b: (a**2).sum() * b.sum()
    a, b = ng.tensor([1.0, 2.0]), ng.tensor([3.0])
    for product in (fn.hvp, fn.vhp):
        out, (ha, hb) = product(g, (a, b), (ng.ones(2), ng.tensor([2.0])))
        assert float(out) == 15.0
        np.testing.assert_allclose(ha.numpy(), [6.0 + 4.0, 6.0 + 8.0])
        np.testing.assert_allclose(hb.numpy(), [6.0])
    outs, (ga, _) = fn.vjp(lambda a, b: (a * b, a), (a, b), (ng.ones(2), ng.ones(2)))
    assert shapes(outs) == [(2,), (2,)]
    np.testing.assert_allclose(ga.numpy(), [4.0, 4.0])
    _, (ta, tb) = fn.jvp(lambda a, b: (a * b, a), (a, b), (ng.ones(2), ng.ones(1)))
    np.testing.assert_allclose(ta.numpy(), [4.0, 5.0])
    np.testing.assert_allclose(tb.numpy(), [1.0, 1.0])


def test_create_graph_connects_the_result_to_the_inputs():
    x = ng.tensor([0.1, -0.2, 0.3], requires_grad=True)
    for call in (
        lambda **k: fn.jacobian(lambda x: x**3, x, **k),
        lambda **k: fn.hessian(f, x, **k),
        lambda **k: fn.vjp(lambda x: x**3, x, V, **k)[1],
        lambda **k: fn.jvp(lambda x: x**3, x, V, **k)[1],
        lambda **k: fn.hvp(f, x, V, **k)[1],
        lambda **k: fn.vhp(f, x, V, **k)[1],
    ):
        assert not call().requires_grad
        assert call(create_graph=True).requires_grad
    j = fn.jacobian(lambda x: x**3, x, create_graph=True)
    np.testing.assert_allclose(
        ng.autograd.grad(j.sum(), x)[0].numpy(), 6 * x.detach().numpy(), rtol=1e-12
    )
    h = fn.hessian(lambda x: (x**4).sum(), x, create_graph=True)
    np.testing.assert_allclose(ng.autograd.grad(h.sum(), x)[0].numpy(), 24 * x.detach().numpy())


def test_strict():
    const = lambda x: ng.ones(2)
    assert float(fn.jacobian(const, X).abs().sum()) == 0.0
    with pytest.raises(AutogradError, match="independent"):
        fn.jacobian(const, X, strict=True)
    two = lambda a, b: a * 2
    with pytest.raises(AutogradError, match="input 1"):
        fn.jacobian(two, (ng.ones(1), ng.ones(1)), strict=True)
    assert float(fn.hessian(lambda x: x.sum(), X).abs().sum()) == 0.0
    with pytest.raises(AutogradError, match="independent"):
        fn.hessian(lambda x: x.sum(), X, strict=True)
    with pytest.raises(AutogradError, match="independent"):
        fn.vhp(lambda x: x.sum(), X, V, strict=True)


def test_a_function_without_forward_rule_falls_back_to_symmetry():
    class Cube(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * g * ctx.saved_tensors[0] ** 2

    _, hv = fn.hvp(lambda x: Cube.apply(x).sum(), X, V)
    np.testing.assert_allclose(hv.numpy(), 6 * X.numpy() * V.numpy())
    _, t = fn.jvp(lambda x: Cube.apply(x), X, V)
    np.testing.assert_allclose(t.numpy(), 3 * X.numpy() ** 2 * V.numpy())


def test_inside_transforms():
    h = ng.func.vmap(lambda x: fn.hessian(lambda x: (x**3).sum(), x))(ng.tensor([[1.0, 2.0]] * 3))
    np.testing.assert_allclose(h.numpy(), [np.diag([6.0, 12.0])] * 3)


def test_wrong_arguments():
    with pytest.raises(DTypeError, match="inputs"):
        fn.jacobian(f, [1.0, 2.0])
    with pytest.raises(DTypeError, match="outputs"):
        fn.jacobian(lambda x: 3.0, X)
    with pytest.raises(DTypeError, match="floating"):
        fn.jacobian(f, ng.tensor([1, 2, 3]))
    with pytest.raises(ShapeError, match="scalar"):
        fn.hessian(lambda x: x * 2, X)
    with pytest.raises(ShapeError, match="scalar"):
        fn.vhp(lambda x: x * 2, X, V)
    with pytest.raises(ShapeError, match="'v'"):
        fn.vjp(f, X, V)
    with pytest.raises(ArgumentError, match="'v'"):
        fn.jvp(f, X)
    with pytest.raises(ArgumentError, match="strategy"):
        fn.jacobian(f, X, strategy="sideways")
    with pytest.raises(ArgumentError, match="vectorize"):
        fn.jacobian(f, X, strategy="forward-mode")
