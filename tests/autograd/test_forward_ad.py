"""Dual numbers in PyTorch's style."""

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import forward_ad as fw
from nbgrad.errors import AutogradError, DTypeError, ShapeError, TraceError

X, T = ng.tensor([0.3, 0.7]), ng.tensor([1.0, -2.0])


def test_make_and_unpack():
    with fw.dual_level():
        x = fw.make_dual(X, T)
        y = fw.unpack_dual(ng.sin(x) * x + X)
        np.testing.assert_allclose(y.primal.numpy(), np.sin(X.numpy()) * X.numpy() + X.numpy())
        want = (np.cos(X.numpy()) * X.numpy() + np.sin(X.numpy())) * T.numpy()
        np.testing.assert_allclose(y.tangent.numpy(), want)
        assert fw.unpack_dual(X * 2).tangent is None
        assert fw.unpack_dual(x.detach()).tangent is None
        assert fw.unpack_dual((x > 0).double()).tangent is None
        primal, tangent = fw.unpack_dual(x)
        assert primal is X and tangent is T
    assert fw.unpack_dual(X).tangent is None


def test_the_tangent_can_be_differentiated_in_reverse():
    x = ng.tensor([0.3, 0.7], requires_grad=True)
    with fw.dual_level():
        t = fw.unpack_dual((fw.make_dual(x, T) ** 3).sum()).tangent
    (hv,) = ng.autograd.grad(t, x)
    np.testing.assert_allclose(hv.numpy(), 6 * x.detach().numpy() * T.numpy())


def test_with_transforms():
    with fw.dual_level():
        x = fw.make_dual(X, T)
        g = ng.func.grad(lambda x: (x**3).sum())(x)
        np.testing.assert_allclose(fw.unpack_dual(g).tangent.numpy(), 6 * X.numpy() * T.numpy())
        y = fw.unpack_dual(ng.func.vmap(ng.sin)(x))
        np.testing.assert_allclose(y.tangent.numpy(), np.cos(X.numpy()) * T.numpy())


def test_writing_a_dual_number_into_a_tensor_of_the_level():
    with fw.dual_level():
        b = ng.zeros(2)
        b.copy_(fw.make_dual(X, T))
        b[0] *= 3
        np.testing.assert_allclose(fw.unpack_dual(b).tangent.numpy(), [3.0, -2.0])
        with pytest.raises(TraceError, match="from outside"):
            X.copy_(fw.make_dual(X, T))


def test_errors():
    with pytest.raises(AutogradError, match="dual_level"):
        fw.make_dual(X, T)
    with fw.dual_level():
        with pytest.raises(AutogradError, match="nested"), fw.dual_level():
            pass
        with pytest.raises(ShapeError, match="tangent"):
            fw.make_dual(X, ng.ones(3))
        with pytest.raises(DTypeError, match="tangent"):
            fw.make_dual(X, T.float())
        with pytest.raises(DTypeError, match="floating"):
            fw.make_dual(ng.tensor([1, 2]), ng.tensor([1, 2]))
        x = fw.make_dual(X, T)
        with pytest.raises(AutogradError, match="already"):
            fw.make_dual(x, T)
    with pytest.raises(TraceError, match="was used after"):
        x * 2
    with pytest.raises(AutogradError, match="no level"):
        fw.exit_dual_level()


def test_levels_by_hand():
    assert fw.enter_dual_level() == 0
    y = fw.unpack_dual(fw.make_dual(X, T) * 2).tangent
    fw.exit_dual_level()
    np.testing.assert_allclose(y.numpy(), 2 * T.numpy())
