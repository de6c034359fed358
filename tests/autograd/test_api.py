"""autograd.grad and backward: PyTorch's meaning, corner by corner."""

import copy
import pickle

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import backward, grad
from nbgrad.errors import AutogradError, DTypeError, ShapeError


def leaf(*values):
    return ng.tensor(list(values), requires_grad=True)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.detach()), b, rtol=1e-12, atol=1e-14)


# -- leaves and flags ----------------------------------------------------------------------------


def test_leaves_and_history():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert x.is_leaf and x.requires_grad and x.grad_fn is None
    assert not y.is_leaf and y.requires_grad and y.grad_fn.name() == "MulBackward"
    d = y.detach()
    assert d.is_leaf and not d.requires_grad and d.data_ptr() == y.data_ptr()
    (node, nr), _ = y.grad_fn.next_functions
    assert nr == 0 and node.variable is x
    y.detach_()
    assert y.is_leaf and not y.requires_grad


def test_requires_grad_can_be_switched_on_leaves_only():
    x = ng.ones(2)
    assert x.requires_grad_() is x and x.requires_grad
    x.grad = ng.ones(2)
    x.requires_grad = False
    close(x.grad, [1.0, 1.0])
    x.requires_grad = True
    close(x.grad, [1.0, 1.0])
    y = x * 2
    with pytest.raises(AutogradError, match="leaf"):
        y.requires_grad_(False)
    assert y.requires_grad_() is y


@pytest.mark.parametrize("data", [[1, 2], [True]])
def test_integers_refuse_requires_grad(data):
    with pytest.raises(DTypeError, match=r"dtype=ng.float64"):
        ng.tensor(data, requires_grad=True)
    with pytest.raises(DTypeError, match="floating"):
        ng.tensor(data).requires_grad_()


def test_integer_results_carry_no_gradient():
    x = leaf(1.5, 2.5, 0.5)
    for y in (x.argmax(), x > 1, x.to(ng.int64), x.floor().long()):
        assert not y.requires_grad
    mask, k = ng.tensor([True, False, True]), ng.tensor([2, 3, 4])
    (g,) = grad((x * mask * k).sum(), x)
    close(g, [2.0, 0.0, 4.0])
    with pytest.raises(AutogradError, match="does not require grad"):
        grad((x > 1).sum(), x)


# -- backward ------------------------------------------------------------------------------------


def test_backward_accumulates_and_zero_grad_forgets():
    x = leaf(1.0, 2.0)
    for k in (1, 2):
        (x * x).sum().backward()
        close(x.grad, k * np.array([2.0, 4.0]))
    x.zero_grad(set_to_none=False)
    close(x.grad, [0.0, 0.0])
    x.zero_grad()
    assert x.grad is None


def test_accumulated_gradients_own_their_memory():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    v = ng.tensor([1.0, 10.0])
    (x + y).backward(v)
    x.grad.mul_(0)
    close(y.grad, [1.0, 10.0])
    close(v, [1.0, 10.0])
    x.grad = y.grad = None
    for create_graph in (False, True):
        (x + y).backward(v, create_graph=create_graph)
    (x + y).backward(v)
    close(x.grad, [3.0, 30.0])
    close(y.grad, [3.0, 30.0])
    close(v, [1.0, 10.0])


def test_results_of_grad_can_be_written():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    gx, gy = grad((x + y).sum(), (x, y))
    gx.mul_(5)
    close(gx, [5.0, 5.0])
    close(gy, [1.0, 1.0])
    v = ng.ones(2)
    (g,) = grad(x, x, v)
    g.mul_(2)
    close(v, [1.0, 1.0])


def test_backward_needs_a_cotangent_unless_real_scalar():
    x = leaf(1.0, 2.0)
    with pytest.raises(AutogradError, match="scalar"):
        (x * 2).backward()
    with pytest.raises(AutogradError, match="complex"):
        ng.tensor(1j, requires_grad=True).backward()
    with pytest.raises(ShapeError, match=r"\(3,\).*\(2,\)"):
        (x * 2).backward(ng.ones(3))
    (x * 2).backward(ng.tensor([1.0, 10.0]))
    close(x.grad, [2.0, 20.0])
    with pytest.raises(AutogradError, match="requires_grad=True"):
        ng.ones(()).backward()
    (x[:1] * 3).backward()  # one element counts as a scalar
    close(x.grad, [5.0, 20.0])


def test_several_outputs_and_cotangents():
    x = leaf(1.0, 2.0)
    backward([x.sum(), x * 2], [None, ng.tensor([1.0, 2.0])])
    close(x.grad, [3.0, 5.0])
    with pytest.raises(ShapeError, match="grad_outputs"):
        grad([x.sum(), x * 2], x, [None])
    (g,) = grad([x.sum(), x.sum()], x)
    close(g, [2.0, 2.0])


def test_backward_into_chosen_inputs():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    z = x * w
    (z * z).sum().backward(inputs=[x, x, z])
    assert w.grad is None
    close(x.grad, 2 * np.array([1.0, 2.0]) * np.array([9.0, 16.0]))
    close(z.grad, [6.0, 16.0])  # a non-leaf retains its gradient
    with pytest.raises(AutogradError, match="empty"):
        x.sum().backward(inputs=[])
    z = x * w
    z.retain_grad()
    (z * z).sum().backward(inputs=[z, w])
    close(z.grad, [6.0, 16.0])  # not counted twice


def test_retain_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    close(x.grad, [4.0, 8.0])
    with pytest.raises(AutogradError, match=r"retain_graph=True.*detach"):
        y.backward()
    # nothing saved, nothing freed: as in PyTorch
    y = x.sum()
    y.backward()
    y.backward()
    # with inputs=, too
    y = (x * x).sum()
    y.backward(inputs=[x], retain_graph=True)
    y.backward(inputs=[x])
    with pytest.raises(AutogradError, match="retain_graph"):
        y.backward(inputs=[x])


# -- grad ----------------------------------------------------------------------------------------


def test_unused_inputs():
    x, y = leaf(1.0), leaf(2.0, 3.0)
    with pytest.raises(AutogradError, match=r"input 1 .*allow_unused"):
        grad(x.sum(), (x, y))
    assert grad(x.sum(), (x, y), allow_unused=True)[1] is None
    gx, gy = grad((x**2).sum(), (x, y), materialize_grads=True)
    close(gy, [0.0, 0.0])
    assert not gx.requires_grad and not gy.requires_grad
    with pytest.raises(AutogradError, match="allow_unused"):
        grad(x.sum(), x, allow_unused=False, materialize_grads=True)
    with pytest.raises(AutogradError, match="empty"):
        grad(x.sum(), [])


def test_requires_grad_of_results():
    x = leaf(1.0, 2.0)
    assert not grad((x**3).sum(), x)[0].requires_grad
    assert grad((x**3).sum(), x, create_graph=True)[0].requires_grad
    assert not grad((x * 3).sum(), x, create_graph=True)[0].requires_grad
    # a cotangent with history gives a result with history only with create_graph
    v = leaf(1.0, 1.0)
    assert not grad(x * 2, x, v)[0].requires_grad
    assert not grad(x, x, v)[0].requires_grad
    g = grad(x * 2, x, v, create_graph=True)[0]
    close(grad(g.sum(), v)[0], [2.0, 2.0])


def test_outputs_that_are_inputs_and_repeated_inputs():
    x = leaf(1.0, 2.0)
    z = x * 3
    close(grad(x.sum() + z.sum(), x)[0], [4.0, 4.0])
    v = ng.tensor([1.0, 5.0])
    close(grad(x, x, v)[0], [1.0, 5.0])
    close(grad(z, z, v)[0], [1.0, 5.0])
    z = x * 3
    gx, gz, again = grad((z * z).sum(), (x, z, x))
    close(gz, [6.0, 12.0])
    close(gx, [18.0, 36.0])
    close(again, [18.0, 36.0])


def test_an_intermediate_and_its_leaf_at_once():
    x = leaf(1.0, 2.0)
    z = x * 3
    gz, gx = grad((z * z * x).sum(), (z, x))
    close(gz, [6.0, 24.0])
    close(gx, [27.0, 108.0])
    # only down to the intermediate: the leaf below is not visited
    z = x * 3
    seen = []
    x.register_hook(seen.append)
    grad((z * z).sum(), z)
    assert not seen


def test_gradient_of_a_view_that_is_a_leaf():
    base = ng.tensor([1.0, 2.0, 3.0])
    v = base[1:].requires_grad_()
    (v * v).sum().backward()
    close(v.grad, [4.0, 6.0])
    base.add_(1)  # the base has no history: the view stays a leaf
    assert v.requires_grad and v.is_leaf
    close(v, [3.0, 4.0])
    (v * v).sum().backward()
    close(v.grad, [10.0, 14.0])
    w = leaf(2.0, 2.0, 2.0)
    base.mul_(w)
    with pytest.raises(AutogradError, match="leaf of its own"):
        v * 2


def test_zero_size():
    x = ng.zeros(0, 3, requires_grad=True)
    (x * 2).sum().backward()
    assert tuple(x.grad.shape) == (0, 3)
    b = ng.ones(4, requires_grad=True)
    (ng.zeros(4, 0) + b.unsqueeze(1)).sum().backward()
    close(b.grad, np.zeros(4))


def test_dtypes_of_gradients_follow_their_tensors():
    x = ng.ones(2, dtype=ng.float32, requires_grad=True)
    w = ng.ones(2, requires_grad=True)
    z = ng.tensor([1 + 2j], requires_grad=True)
    gx, gw = grad((x * w).sum(), (x, w))
    assert gx.dtype == ng.float32 and gw.dtype == ng.float64
    assert grad((z * w[:1]).abs().sum(), w)[0].dtype == ng.float64
    with pytest.raises(DTypeError, match="cotangent"):
        grad(w, w, ng.tensor([1j, 1j]))
    with pytest.raises(DTypeError, match="dtype"):
        w.grad = ng.ones(2, dtype=ng.float32)
    with pytest.raises(AutogradError, match="shape"):
        w.grad = ng.ones(3)
    with pytest.raises(DTypeError, match="tensor or None"):
        w.grad = 1.0


def test_batched_cotangents():
    x = leaf(0.3, 0.7, -1.0)
    y = x.sin() * x.sum()
    v = ng.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    rows = [grad(y, x, r, retain_graph=True)[0].numpy() for r in v]
    got = grad(y, x, v, is_grads_batched=True, retain_graph=True)[0]
    np.testing.assert_allclose(got.numpy(), rows)
    assert not got.requires_grad
    # differentiable again, with respect to x and to the cotangents
    v.requires_grad_()
    (g,) = grad(y, x, v, is_grads_batched=True, create_graph=True)
    hx, hv = grad((g * g).sum(), (x, v))
    y = x.sin() * x.sum()
    ref = [grad(y, x, r, create_graph=True)[0] for r in v]
    rx, rv = grad(sum((r * r).sum() for r in ref), (x, v))
    np.testing.assert_allclose(hx.numpy(), rx.numpy())
    np.testing.assert_allclose(hv.numpy(), rv.numpy())
    y = x.sin() * x.sum()
    unused = ng.ones(2, requires_grad=True)
    assert (
        grad(y, (x, unused), v, is_grads_batched=True, allow_unused=True, retain_graph=True)[1]
        is None
    )
    for bad in (None, ng.ones(()), ng.ones(4, 2)):
        with pytest.raises(ShapeError, match="batch"):
            grad(x.sin(), x, bad, is_grads_batched=True)


def test_gradient_edges_stand_for_tensors():
    x = leaf(1.0, 2.0)
    y = x * 3
    edge = ng.autograd.graph.get_gradient_edge(y)
    z = (y * y).sum()
    del y
    close(grad(z, edge)[0], [6.0, 12.0])
    out = x * x
    edge = ng.autograd.graph.get_gradient_edge(out)
    close(grad(edge, x, grad_outputs=ng.ones(2))[0], [2.0, 4.0])
    with pytest.raises(AutogradError, match="grad_outputs"):
        grad(edge, x)


def test_wrong_arguments():
    x = leaf(1.0)
    with pytest.raises(DTypeError, match="outputs"):
        grad(3.0, x)
    with pytest.raises(DTypeError, match="an output"):
        grad([3.0], x)
    with pytest.raises(DTypeError, match="an input"):
        grad(x.sum(), [2.0])
    with pytest.raises(AutogradError, match="requires_grad_"):
        grad(x.sum(), ng.ones(1))


# -- copies --------------------------------------------------------------------------------------


def test_deepcopy_and_pickle():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.requires_grad and y.is_leaf and y is not x
        close(y, [1.0, 2.0])
        close(y.grad, [2.0, 4.0])
        with ng.no_grad():
            y.add_(1)
        close(x, [1.0, 2.0])
    a, b = copy.deepcopy([x, x])
    assert a is b
    z = ng.tensor(3.0)
    assert float(pickle.loads(pickle.dumps(z))) == 3.0
    with pytest.raises(AutogradError, match="leaf"):
        copy.deepcopy(x * 2)


def test_mixed_second_derivatives():
    x, y = leaf(0.3), leaf(0.7)
    f = (x**2 * y**3).sum()
    gx, gy = grad(f, (x, y), create_graph=True)
    close(grad(gx, y, retain_graph=True)[0], [6 * 0.3 * 0.49])
    close(grad(gy, x)[0], [6 * 0.3 * 0.49])


def test_backward_with_create_graph_fills_differentiable_grads():
    x = leaf(1.0, 2.0)
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    assert g.requires_grad
    x.grad = None
    g.sum().backward()
    close(x.grad, [6.0, 12.0])
    x.grad = None


def test_as_strided_of_a_leaf_that_is_a_view():
    x = ng.arange(6.0).reshape(2, 3).requires_grad_()
    y = x.as_strided((2, 2), (1, 1), 0)
    close(y.detach(), [[0, 1], [1, 2]])
    close(ng.autograd.grad(y.sum(), x)[0], [[1, 2, 1], [0, 0, 0]])
    x = ng.arange(6.0)[2::2].requires_grad_()
    close(ng.autograd.grad(x.as_strided((2,), (2,)).sum(), x)[0], [1, 1])


def test_writes_to_a_part_of_a_complex_tensor_are_refused_not_lost():
    z = ng.tensor([1 + 2j, 3.0])
    for write in (lambda: ng.real(z).mul_(2), lambda: ng.imag(z).fill_(7), lambda: z.real.mul_(2)):
        with pytest.raises(AutogradError, match="read-only"):
            write()
    assert z.tolist() == [1 + 2j, 3]
