"""Hooks: on tensors, on nodes, on leaves, on what is saved, on several tensors at once."""

import gc
import weakref

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad, graph
from nbgrad.errors import ArgumentError, AutogradError, DTypeError


def leaf(*values):
    return ng.tensor(list(values), requires_grad=True)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.detach()), b, rtol=1e-12, atol=1e-14)


def test_order_modification_and_removal():
    log = []
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: log.append(("first", float(g))) or g * 10)
    second = y.register_hook(lambda g: log.append(("second", float(g))))
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda t: log.append(("after", float(t.grad))))
    y.sum().backward()
    assert log == [("first", 1.0), ("second", 10.0), ("after", 20.0)]
    close(y.grad, [10.0])
    second.remove()
    second.remove()
    log.clear()
    x.grad = None
    (x * 3).sum().backward()
    assert log == [("after", 3.0)]
    with x.register_hook(lambda g: g * 100):
        close(grad((x * 3).sum(), x)[0], [300.0])
    close(grad((x * 3).sum(), x)[0], [3.0])


def test_hooks_run_for_grad_and_act_before_accumulation():
    x = leaf(1.0)
    x.register_hook(lambda g: g + 1)
    z = x * 2
    z.register_hook(lambda g: g * 5)
    gz, gx = grad(z.sum(), (z, x))
    close(gz, [5.0])
    close(gx, [11.0])
    (x * x).sum().backward()  # one call on the sum of both paths
    close(x.grad, [3.0])


def test_hooks_are_differentiated_with_create_graph():
    x = leaf(1.0, 2.0)
    y = x**2
    y.register_hook(lambda g: g * x)
    (g,) = grad(y.sum(), x, create_graph=True)
    close(g, [2.0, 8.0])
    close(grad(g.sum(), x)[0], [4.0, 8.0])


def test_wrong_hooks():
    x = leaf(1.0, 2.0)
    for bad, text in ((lambda g: 3.0, "float"), (lambda g: ng.ones(3), r"\[3\]")):
        y = x * 2
        y.register_hook(bad)
        with pytest.raises(AutogradError, match=text):
            y.sum().backward()
    with pytest.raises(AutogradError, match="never run"):
        ng.ones(1).register_hook(print)
    with pytest.raises(AutogradError, match="leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(AutogradError, match="no gradient"):
        ng.ones(1).retain_grad()


def test_node_hooks():
    x, w = leaf(1.0), leaf(5.0)
    y = x * w
    log = []
    y.grad_fn.register_prehook(lambda gs: log.append("pre") or (gs[0] * 2,))
    y.grad_fn.register_hook(
        lambda gi, go: log.append((gi[0].item(), go[0].item())) or (gi[0] + 1, None)
    )
    gx, gw = grad(y.sum(), (x, w), allow_unused=True)
    assert log == ["pre", (10.0, 2.0)]
    close(gx, [11.0])
    assert gw is None
    # a tensor captured by grad() is not affected by the hooks of the node below it
    y = x * w
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
    close(grad(y.sum(), y)[0], [1.0])
    y = x * w
    y.grad_fn.register_hook(lambda gi, go: (gi[0],))
    with pytest.raises(AutogradError, match="1 gradients; expected 2"):
        y.sum().backward()


def test_hooks_of_the_accumulating_node():
    x = leaf(1.0)
    node = (x * 1).grad_fn.next_functions[0][0]
    seen = []
    node.register_prehook(lambda gs: (gs[0] * 3,))
    node.register_hook(lambda gi, go: seen.append(go[0].item()))
    (x * 2).sum().backward()
    close(x.grad, [6.0])
    assert seen == [6.0]


def test_saved_tensors_of_nodes():
    x, w = leaf(2.0), leaf(5.0)
    y = x * w
    assert [t.item() for t in y.grad_fn.saved_tensors] == [2.0, 5.0]
    assert y.grad_fn._saved_self.item() == 2.0 and y.grad_fn._saved_other.requires_grad
    z = y.exp()
    assert z.grad_fn._saved_result.item() == pytest.approx(np.exp(10.0))
    m = ng.ones(2, 2, requires_grad=True) @ ng.ones(2, 2)
    assert tuple(m.grad_fn._saved_other.shape) == (2, 2)
    with pytest.raises(AttributeError, match="weight"):
        _ = z.grad_fn._saved_weight
    with pytest.raises(AttributeError, match="nonsense"):
        _ = z.grad_fn.nonsense
    z.sum().backward()
    with pytest.raises(AutogradError, match="freed"):
        _ = z.grad_fn.saved_tensors


def test_saved_tensors_hooks_pack_and_unpack():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    store, asked = [], []

    def pack(t):
        assert not t.requires_grad
        store.append(t.numpy().copy())
        return len(store) - 1

    def unpack(i):
        asked.append(i)
        return ng.tensor(store[i])

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * w).exp()
        z = y @ y
    assert len(store) >= 4 and not asked
    ref = ((x * w).exp()) @ ((x * w).exp())
    gx, gw = grad(z, (x, w), create_graph=True)
    rx, rw = grad(ref, (x, w), create_graph=True)
    close(gx, rx.detach().numpy())
    assert asked
    # the history of the saved values is still there
    h = grad((gx * gw).sum(), (x, w))
    for a, b in zip(h, grad((rx * rw).sum(), (x, w)), strict=True):
        close(a, b.numpy())


def test_saved_tensors_hooks_nest_and_check():
    x = leaf(2.0)
    log = []
    make = lambda name: graph.saved_tensors_hooks(lambda t: log.append(name) or t, lambda t: t)
    with make("outer"):
        x.exp()
        with make("inner"):
            x.exp()
        x.exp()
    assert log == ["outer", "inner", "outer"]
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(AutogradError, match="int; expected a tensor"):
        y.backward()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: ng.ones(7)):
        y = x.exp()
    with pytest.raises(AutogradError, match=r"\[7\]"):
        y.backward()
    with pytest.raises(DTypeError, match="two functions"):
        graph.saved_tensors_hooks(None, None)
    off = graph.disable_saved_tensors_hooks("not here")
    with off, pytest.raises(AutogradError, match="not here"), make("never"):
        pass


def test_packing_a_copy_allows_writes():
    x = leaf(1.0, 2.0)
    y = x * 1
    with graph.save_on_cpu():
        z = (y * y).sum()
    y.mul_(0)
    close(grad(z, x)[0], [2.0, 4.0])


def test_custom_functions_save_through_the_hooks():
    class Square(ng.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(1.0, 2.0)
    with graph.saved_tensors_hooks(lambda t: t * 10, lambda t: t / 5):
        y = Square.apply(x)
    close(grad(y.sum(), x)[0], [4.0, 8.0])
    assert Square.apply(x).grad_fn.saved_tensors[0].tolist() == [1.0, 2.0]


def test_multi_grad_hooks():
    x, w, unused = leaf(1.0), leaf(2.0), leaf(3.0)
    y = x * w
    log = []
    show = lambda gs: log.append([None if g is None else g.item() for g in gs])
    handle = graph.register_multi_grad_hook([x, w, unused, y], show)
    (y * 3).sum().backward()
    assert log == [[6.0, 3.0, None, 3.0]]
    log.clear()
    (x * 7).sum().backward()
    (w * unused).sum().backward()
    assert log == [[7.0, None, None, None], [None, 3.0, 2.0, None]]
    log.clear()
    grad((x * w).sum(), x)  # only what this backward visits is waited for
    assert log == [[2.0, None, None, None]]
    handle.remove()
    (x * 7).sum().backward()
    assert len(log) == 1
    first = []
    with graph.register_multi_grad_hook([x, w], lambda g: first.append(g.item()), mode="any"):
        (x * w).sum().backward()
    assert len(first) == 1
    with pytest.raises(ArgumentError, match="mode"):
        graph.register_multi_grad_hook([x], print, mode="some")


def test_an_optimiser_step_in_the_backward_pass():
    w = leaf(1.0, 2.0)

    def step(t):
        with ng.no_grad():
            t.sub_(0.1 * t.grad)
        t.grad = None

    w.register_post_accumulate_grad_hook(step)
    (w * w).sum().backward()
    close(w, [0.8, 1.6])
    assert w.grad is None


def test_hooks_do_not_keep_graphs_alive():
    gc.disable()
    try:
        x = leaf(1.0)
        y = x * 2
        y.register_hook(lambda g: g)
        y.retain_grad()
        node = weakref.ref(y.grad_fn)
        (y * y).sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()
