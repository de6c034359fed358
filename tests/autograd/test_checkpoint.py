"""Checkpointing: the same derivatives, recomputed."""

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad
from nbgrad.errors import ArgumentError, AutogradError
from nbgrad.utils.checkpoint import checkpoint, checkpoint_sequential


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.detach()), np.asarray(b.detach()), rtol=1e-13)


class Counted:
    def __init__(self, fn):
        self.fn, self.calls = fn, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.fn(*args, **kwargs)


W = ng.tensor([[0.3, -0.2], [0.5, 0.1]], requires_grad=True)


def layer(x, scale=1.0):
    return ng.tanh(x @ W) * scale


def test_first_and_second_derivatives_also_of_captured_parameters():
    x = ng.tensor([[0.4, -1.0]], requires_grad=True)
    f = Counted(layer)
    y = checkpoint(f, x, scale=2.0)
    assert f.calls == 1
    g = grad(y.sum(), (x, W), create_graph=True)
    assert f.calls == 2
    ref = grad(layer(x, 2.0).sum(), (x, W), create_graph=True)
    for a, b in zip(g, ref, strict=True):
        close(a, b)
    h = grad(sum((a * a).sum() for a in g), (x, W))
    for a, b in zip(h, grad(sum((a * a).sum() for a in ref), (x, W)), strict=True):
        close(a, b)


def test_nothing_is_kept():
    import weakref

    x = ng.tensor(np.ones(10), requires_grad=True)
    refs = []

    def f(x):
        y = x.sin()
        refs.append(weakref.ref(y._data))
        return y.exp().sum()

    y = checkpoint(f, x)
    assert refs[0]() is None
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(1.0) * np.exp(np.sin(np.ones(10))))


def test_backward_twice_with_retain_graph():
    x = ng.tensor([0.4, -1.0], requires_grad=True)
    f = Counted(lambda x: (x.sin() * x).sum())
    y = checkpoint(f, x, use_reentrant=True)
    a = grad(y, x, retain_graph=True)[0]
    close(a, grad(y, x)[0])
    assert f.calls == 3
    with pytest.raises(AutogradError, match="retain_graph"):
        grad(y, x)


def test_random_numbers_are_the_same_again():
    x = ng.ones(50, requires_grad=True)
    f = lambda x: (x * ng.rand(50)).sin().sum()
    ng.manual_seed(3)
    y = checkpoint(f, x)
    after = ng.rand(1)
    ng.rand(7)
    (g,) = grad(y, x)
    ng.manual_seed(3)
    close(g, grad(f(x), x)[0])
    close(after, ng.rand(1))


def test_under_transforms():
    x = ng.tensor([0.4, -1.0])
    f = lambda x: (x.sin() * x.exp()).sum()
    c = lambda x: checkpoint(f, x)
    for t in (ng.func.grad, ng.func.hessian, lambda f: ng.func.jacrev(ng.func.grad(f))):
        close(t(c)(x), t(f)(x))
    xs = ng.stack([x, 2 * x])
    close(ng.func.vmap(ng.func.grad(c))(xs), ng.func.vmap(ng.func.grad(f))(xs))


def test_sequential_and_nested():
    x = ng.tensor([0.4, -1.0], requires_grad=True)
    steps = [Counted(f) for f in (ng.sin, ng.exp, ng.tanh, lambda x: x * x, ng.cos)]
    y = checkpoint_sequential(steps, 2, x)
    close(grad(y.sum(), x)[0], grad((((x.sin()).exp().tanh()) ** 2).cos().sum(), x)[0])
    assert [s.calls for s in steps] == [2, 2, 1, 1, 1]
    nested = checkpoint(lambda x: checkpoint(lambda x: x.sin().exp(), x).tanh(), x)
    close(grad(nested.sum(), x)[0], grad(x.sin().exp().tanh().sum(), x)[0])
    with pytest.raises(ArgumentError, match="segments"):
        checkpoint_sequential(steps, 6, x)


def test_a_recomputation_that_differs_is_noticed():
    x = ng.tensor([0.4, -1.0], requires_grad=True)
    flips = iter([True, False])
    y = checkpoint(lambda x: x.sin().exp() if next(flips) else x.sin(), x)
    with pytest.raises(AutogradError, match="same"):
        y.sum().backward()
    z = x * 1
    y = checkpoint(lambda z: z.sin().exp(), z)
    z.add_(1)
    with pytest.raises(AutogradError, match=r"argument 0.*in place"):
        y.sum().backward()
    with pytest.raises(ArgumentError, match="determinism_check"):
        checkpoint(ng.sin, x, determinism_check="strict")
