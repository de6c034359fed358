"""Custom operations: every style, every mode, and what must never be silently wrong."""

import functools
import gc
import weakref

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import Function, grad
from nbgrad.autograd.function import once_differentiable
from nbgrad.errors import AutogradError, ShapeError, TraceError, UnsupportedError


def leaf(*values):
    return ng.tensor(list(values), requires_grad=True)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.detach()), b, rtol=1e-12, atol=1e-12)


class Cube(Function):
    """x**3 in the one-part style, differentiable to any order."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x * x * t


class Scaled(Function):
    """exp(k x) in the two-part style; the saved output carries the higher derivatives."""

    @staticmethod
    def forward(x, k):
        return (x * k).exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * ctx.k, None

    @staticmethod
    def jvp(ctx, t, _):
        return t * ctx.saved_tensors[0] * ctx.k


def nth(f, x, n):
    y = f(x)
    for _ in range(n):
        (y,) = grad(y.sum(), x, create_graph=True)
    return y


def test_all_orders_in_both_styles():
    x = leaf(0.5, -2.0)
    v = np.array([0.5, -2.0])
    for n, want in enumerate([v**3, 3 * v**2, 6 * v, 6 + 0 * v]):
        close(nth(Cube.apply, x, n), want)
    for n in range(4):
        close(nth(lambda x: Scaled.apply(x, 0.3), x, n), 0.3**n * np.exp(0.3 * v))


def test_forward_mode_taylor_and_mixed():
    x = ng.tensor([0.5, -2.0])
    _, t = ng.func.jvp(Cube.apply, (x,), (ng.ones(2),))
    close(t, [0.75, 12.0])
    f = lambda x: Cube.apply(x).sum()
    for outer in (ng.func.jacfwd, ng.func.jacrev):
        for inner in (ng.func.jacfwd, ng.func.jacrev):
            close(outer(inner(f))(x), np.diag([3.0, -12.0]))
    _, coefficients = ng.func.jet(
        lambda x: Scaled.apply(x, 2.0),
        (ng.tensor(0.0),),
        ([ng.tensor(1.0)] + [ng.tensor(0.0)] * 3,),
    )
    assert [float(c) for c in coefficients] == pytest.approx([2.0, 4.0, 8.0, 16.0])


def test_vmap_of_gradient_and_gradient_of_vmap():
    x = ng.tensor(np.linspace(-1, 1, 6).reshape(3, 2))
    f = lambda x: Cube.apply(x).sum()
    close(ng.func.vmap(ng.func.grad(f))(x), 3 * np.asarray(x) ** 2)
    close(ng.func.grad(lambda x: ng.func.vmap(f)(x).sum())(x), 3 * np.asarray(x) ** 2)
    close(ng.func.vmap(ng.func.hessian(f))(x)[1], np.diag(6 * np.asarray(x)[1]))
    h = ng.func.jacrev(ng.func.grad(lambda x: ng.func.vmap(f)(x).sum()))(x)
    close(h.reshape((6, 6)), np.diag(6 * np.asarray(x).ravel()))


class Mul(Function):
    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


def test_unbatched_arguments_get_the_sum_over_the_batch():
    w, x = leaf(2.0, 3.0), ng.tensor(np.arange(6.0).reshape(3, 2))
    y = ng.func.vmap(lambda x: Mul.apply(w, x))(x)
    close(grad(y.sum(), w)[0], np.asarray(x).sum(0))


def test_gradients_are_summed_to_broadcast_arguments():
    a, b = leaf(2.0), ng.tensor(np.ones((3, 2)), requires_grad=True)
    ga, gb = grad(Mul.apply(a, b).sum(), (a, b))
    close(ga, [6.0])
    close(gb, np.full((3, 2), 2.0))


class StraightThrough(Function):
    """round() with the identity as its gradient: differentiating through forward would give 0."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


def test_no_interpreter_looks_through_the_forward():
    x = ng.tensor([0.3, 1.7])
    f = lambda x: (StraightThrough.apply(x) * x).sum()
    want = np.round([0.3, 1.7]) + [0.3, 1.7]
    close(ng.func.grad(f)(x), want)
    xr = leaf(0.3, 1.7)
    close(grad(f(xr), xr)[0], want)
    rows = ng.func.vmap(lambda x: f(x))
    xb = ng.tensor([[0.3, 1.7], [2.2, -0.6]], requires_grad=True)
    close(grad(rows(xb).sum(), xb)[0], np.round(np.asarray(xb.detach())) + np.asarray(xb.detach()))
    tape = ng.trace(f)(x)
    assert sum(i.op == "custom_function" for i in tape.instructions) == 1
    close(ng.func.grad(tape)(x), want)
    close(tape.grad()(x), want)
    close(tape.vmap(2)(xb.detach()), np.asarray(rows(xb).detach()))


def test_second_derivative_of_a_tape_uses_the_users_backward():
    x = ng.tensor([0.5, -2.0])
    f = lambda x: Cube.apply(x).sum()
    close(ng.trace(f)(x).grad()(x), 3 * np.asarray(x) ** 2)
    first = ng.trace(lambda x: ng.func.grad(f)(x).sum())(x)
    close(first.grad()(x), 6 * np.asarray(x))
    close(ng.trace(lambda x: ng.func.grad(f)(x).sum())(x).grad().replay(2 * x), 12 * np.asarray(x))


def test_a_linear_function_has_a_zero_second_derivative_without_complaint():
    class Triple(Function):
        @staticmethod
        def forward(ctx, x):
            return 3 * x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(1.0, 2.0)
    y = Triple.apply(x) ** 2
    (g,) = grad(y.sum(), x, create_graph=True)
    close(grad(g.sum(), x)[0], [18.0, 18.0])
    (g,) = grad(Triple.apply(x).sum(), x, create_graph=True)
    assert grad(g.sum() + 0 * x.sum(), x, allow_unused=True)[0] is not None


def stash(name):
    """Functions x**2 whose backward uses 2x computed in forward, in many disguises."""

    def forward(ctx, x):
        d = 2 * x.detach()
        if name == "attribute":
            ctx.d = d
        elif name == "saved":
            ctx.save_for_backward(d)
        elif name == "list":
            ctx.d = [d]
        elif name == "dict":
            ctx.d = {"d": d}
        elif name == "closure":
            ctx.d = lambda: d
        elif name == "partial":
            ctx.d = functools.partial(ng.mul, d)
        elif name == "numpy":
            ctx.d = 2 * x.numpy()
        elif name == "from_numpy":
            ctx.d = ng.from_numpy(2 * x.numpy())
        elif name == "floats":
            ctx.d = (2 * x).tolist()
        elif name == "object":
            ctx.d = type("Box", (), {})()
            ctx.d.value = d
        return x * x

    def backward(ctx, g):
        if name == "saved":
            return g * ctx.saved_tensors[0]
        if name == "list":
            return g * ctx.d[0]
        if name == "dict":
            return g * ctx.d["d"]
        if name == "closure":
            return g * ctx.d()
        if name == "partial":
            return ctx.d(g)
        if name == "floats":
            return g * ng.tensor(ctx.d)
        if name == "object":
            return g * ctx.d.value
        return g * ctx.d

    return type(
        "Square",
        (Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(backward)},
    )


STASHES = ["attribute", "saved", "list", "dict", "closure", "partial", "numpy", "from_numpy"]
STASHES += ["floats", "object"]


@pytest.mark.parametrize("name", STASHES)
def test_stashed_values_never_give_a_silent_zero(name):
    f = stash(name).apply
    x = leaf(1.0, 2.0)
    close(grad(f(x).sum(), x)[0], [2.0, 4.0])
    (g,) = grad(f(x).sum(), x, create_graph=True)
    close(g, [2.0, 4.0])
    with pytest.raises(AutogradError, match="silently wrong"):
        grad(g.sum(), x, allow_unused=True)
    (g,) = grad(f(x).sum(), x, create_graph=True)
    with pytest.raises(AutogradError, match="silently wrong"):
        g.sum().backward()


@pytest.mark.parametrize("name", ["attribute", "saved", "dict"])
def test_stashed_values_under_transforms(name):
    f = lambda x: stash(name).apply(x).sum()
    x = ng.tensor([1.0, 2.0])
    close(ng.func.grad(f)(x), [2.0, 4.0])
    close(ng.func.vmap(ng.func.grad(f))(ng.ones(3, 2)), np.full((3, 2), 2.0))
    for second in (ng.func.jacrev(ng.func.grad(f)), ng.func.jacfwd(ng.func.grad(f))):
        with pytest.raises((AutogradError, UnsupportedError)):
            second(x)
    tape = ng.trace(f)(x)
    close(tape.grad()(x), [2.0, 4.0])
    with pytest.raises(AutogradError, match="silently wrong"):
        ng.func.jacrev(ng.func.grad(tape))(x)


def test_state_that_does_not_depend_on_the_inputs_raises_no_alarm():
    table = ng.tensor([1.0, 3.0])

    class Masked(Function):
        @staticmethod
        def forward(ctx, x, p):
            mask = (x > 0).double() / p  # piecewise constant
            noise = ng.rand(2)
            ctx.save_for_backward(mask, table)
            ctx.noise, ctx.p, ctx.steps = noise, p, [1, 2]
            return x * mask * table + noise

        @staticmethod
        def backward(ctx, g):
            mask, table = ctx.saved_tensors
            return g * mask * table + 0 * ctx.noise * ctx.p, None

    x = leaf(1.0, -2.0)
    (g,) = grad((Masked.apply(x, 0.5) ** 2).sum(), x, create_graph=True)
    close(grad(g.sum(), x)[0], [8.0, 0.0])


def test_reading_the_data_is_fine_where_only_inputs_are_saved():
    class NumpySin(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return ng.from_numpy(np.sin(x.numpy()))

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

    x = leaf(0.3, 1.0)
    close(nth(NumpySin.apply, x, 2), -np.sin([0.3, 1.0]))
    # in a trace: one instruction that runs on arrays when the tape is replayed
    tape = ng.trace(lambda x: NumpySin.apply(x).sum())(ng.ones(2))
    close(tape.replay(ng.tensor([0.3, 1.0])), np.sin([0.3, 1.0]).sum())
    close(tape.grad().replay(ng.tensor([0.3, 1.0])), np.cos([0.3, 1.0]))


def test_once_differentiable():
    class NumpyTanh(Function):
        @staticmethod
        def forward(ctx, x):
            y = np.tanh(x.numpy())
            ctx.y = y
            return ng.from_numpy(y)

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return ng.from_numpy(g.numpy() * (1 - ctx.y**2))

    x = leaf(0.3, 1.0)
    want = 1 - np.tanh([0.3, 1.0]) ** 2
    close(grad(NumpyTanh.apply(x).sum(), x)[0], want)
    (g,) = grad(NumpyTanh.apply(x).sum(), x, create_graph=True)
    with pytest.raises(AutogradError, match="once_differentiable"):
        grad(g.sum(), x)
    # also with respect to the cotangent
    v = leaf(1.0, 1.0)
    (g,) = grad(NumpyTanh.apply(x), x, v, create_graph=True)
    with pytest.raises(AutogradError, match="once_differentiable"):
        grad(g.sum(), v)
    tape = ng.trace(lambda x: NumpyTanh.apply(x).sum())(x.detach())
    close(tape.grad()(x.detach()), want)


def test_several_outputs_missing_gradients_and_materialising():
    seen = []

    class SinCos(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(x)
            return x.sin(), x.cos(), "label"

        @staticmethod
        def backward(ctx, gs, gc, _):
            seen.append(gc is None)
            (x,) = ctx.saved_tensors
            gx = gs * x.cos()
            return gx if gc is None else gx - gc * x.sin(), None

    x = leaf(0.3)
    s, c, label = SinCos.apply(x, True)
    assert label == "label"
    close(grad(s.sum(), x, retain_graph=True)[0], [np.cos(0.3)])
    close(grad((s * c).sum(), x)[0], [np.cos(0.6)])
    s, _, _ = SinCos.apply(x, False)
    close(grad(s.sum(), x)[0], [np.cos(0.3)])
    assert seen == [False, False, True]


def test_non_differentiable_outputs_and_needs_input_grad():
    class Sort(Function):
        @staticmethod
        def forward(ctx, x, y):
            assert ctx.needs_input_grad == (True, False)
            order = ng.tensor(np.argsort(x.numpy()))
            rank = order.double()
            ctx.mark_non_differentiable(rank)
            ctx.save_for_backward(order)
            return x[order], order, rank

        @staticmethod
        def backward(ctx, g, g_order, g_rank):
            assert ctx.needs_input_grad == (True, False)
            assert g_order.dtype == ng.int64 and float(g_rank.sum()) == 0
            (order,) = ctx.saved_tensors
            back = ng.tensor(np.argsort(order.numpy()))
            return g[back], None

    x = leaf(3.0, 1.0, 2.0)
    y, order, rank = Sort.apply(x, ng.ones(3))
    assert y.requires_grad and not order.requires_grad and not rank.requires_grad
    close(grad((y * ng.tensor([1.0, 10.0, 100.0])).sum(), x)[0], [100.0, 1.0, 10.0])


class Mul3_(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_in_place_functions_rewrite_history_also_of_views_and_without_a_result():
    x = leaf(1.0, 2.0, 3.0)
    z = x + 1
    assert Mul3_.apply(z) is z
    close(grad(z.sum(), x)[0], [3.0, 3.0, 3.0])
    z = x + 1
    Mul3_.apply(z[:2])
    close(z, [6.0, 9.0, 4.0])
    close(grad(z.sum(), x)[0], [3.0, 3.0, 1.0])


def test_in_place_functions_under_transforms():
    def f(x):
        z = x + 1
        Mul3_.apply(z)
        Mul3_.apply(z[:1])
        return (z * z).sum()

    x = ng.tensor([1.0, 2.0])
    want = np.array([2 * 81 * 2.0, 2 * 9 * 3.0])
    close(ng.func.grad(f)(x), want)
    close(ng.func.vmap(ng.func.grad(f))(ng.stack([x, x])), [want, want])
    close(ng.trace(f)(x).grad()(x), want)
    close(x, [1.0, 2.0])


def test_an_in_place_function_on_a_leaf_raises_before_it_writes():
    x = leaf(1.0, 2.0)
    with pytest.raises(AutogradError, match="leaf"):
        Mul3_.apply(x)
    with pytest.raises(AutogradError, match="leaf"):
        Mul3_.apply(x[:1])
    close(x, [1.0, 2.0])
    with ng.no_grad():
        Mul3_.apply(x)
    close(x, [3.0, 6.0])


def test_changes_in_place_must_be_marked():
    class Forgot(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(AutogradError, match="mark_dirty"):
        Forgot.apply(leaf(1.0) * 1)


def test_replaying_an_in_place_function_leaves_the_inputs_alone():
    x = ng.tensor([1.0, 2.0])
    tape = ng.trace(lambda x: Mul3_.apply(x * 1).sum())(x)
    y = x * 1
    close(tape.replay(y), 9.0)
    close(y, [1.0, 2.0])


def test_recording_on_a_tape():
    x = ng.tensor([1.0, 2.0])
    with ng.Tape(x) as tape:
        z = x * 2
        Mul3_.apply(z[:1])
        tape.output(Cube.apply(z).sum())
    assert "custom_function(%" in str(tape) and "call=Cube" in str(tape)
    close(tape.replay(x), 280.0)
    close(tape.replay(ng.tensor([2.0, 2.0])), 1792.0)
    close(ng.func.grad(lambda x: tape.run([x])[0])(x), [648.0, 96.0])


def test_a_graph_of_its_own_kept_for_backward():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            with ng.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x.sin() * ctx.x
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            return grad(ctx.y, ctx.x, g)[0]

    x = leaf(0.3, 0.7)
    v = np.array([0.3, 0.7])
    close(grad(Inner.apply(x).sum(), x)[0], np.cos(v) * v + np.sin(v))
    (g,) = grad(Inner.apply(x).sum(), x, create_graph=True)
    with pytest.raises(AutogradError, match="silently wrong"):
        grad(g.sum(), x)


def test_gradcheck_sees_right_and_wrong_functions():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            return 3 * g * ctx.saved_tensors[0]

    x = leaf(0.3, 0.7)
    assert ng.autograd.gradcheck(Cube.apply, (x,)) and ng.autograd.gradgradcheck(Cube.apply, (x,))
    assert not ng.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(Exception, match="silently wrong"):
        ng.autograd.gradgradcheck(stash("attribute").apply, (x,))


def test_wrong_returns_are_explained():
    def make(result):
        return type(
            "Bad",
            (Function,),
            {
                "forward": staticmethod(lambda ctx, x, k: x * k),
                "backward": staticmethod(lambda ctx, g: result),
            },
        )

    x = leaf(1.0, 2.0)
    for result, error, text in [
        (x.detach(), AutogradError, "number of gradients"),
        ((x.detach(), x.detach()), AutogradError, "None"),
        ((ng.ones(5), None), ShapeError, "shape"),
        (("text", None), TypeError, "tensor or None"),
    ]:
        with pytest.raises(error, match=text):
            grad(make(result).apply(x, 2.0).sum(), x)


def test_missing_rules_name_the_function_and_the_mode():
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return x / 2

    x = leaf(1.0)
    with pytest.raises(UnsupportedError, match=r"Half.*backward"):
        grad(Half.apply(x), x)
    with pytest.raises(UnsupportedError, match=r"Mul.*jvp.*forward mode"):
        ng.func.jvp(lambda x: Mul.apply(x, x), (x.detach(),), (ng.ones(1),))


def test_custom_vmap_rule():
    calls = []

    class Outer(Function):
        @staticmethod
        def forward(x):
            return x.reshape((-1, 1)) * x.reshape((1, -1))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return ((g + g.t()) * x).sum(1)

        @staticmethod
        def vmap(info, in_dims, x):
            calls.append((info.batch_size, in_dims))
            x = x.movedim(in_dims[0], 0)
            return x.unsqueeze(2) * x.unsqueeze(1), 0

    x = ng.tensor(np.arange(6.0).reshape(3, 2))
    y = ng.func.vmap(Outer.apply)(x)
    close(y, np.einsum("bi,bj->bij", np.asarray(x), np.asarray(x)))
    assert calls == [(3, (0,))]
    want = 2 * np.asarray(x).sum(1, keepdims=True) * np.ones((1, 2))
    close(ng.func.vmap(ng.func.grad(lambda x: Outer.apply(x).sum()))(x), want)


def test_saved_tensors_are_version_checked_and_freed():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = Cube.apply(y)
    y.add_(1)
    with pytest.raises(AutogradError, match="add_"):
        z.sum().backward()
    z = Cube.apply(x)
    z.sum().backward()
    with pytest.raises(AutogradError, match="retain_graph"):
        z.sum().backward()


def test_views_returned_by_forward_cannot_be_written():
    class First(Function):
        @staticmethod
        def forward(ctx, x):
            return x[0]

        @staticmethod
        def backward(ctx, g):
            return ng.stack([g, 0 * g])

    x = leaf(1.0, 2.0) * 1
    y = First.apply(x)
    with pytest.raises(AutogradError, match="custom Function"):
        y.add_(1)


def test_returning_an_input_gives_a_new_tensor():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return 7 * g

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x and x.grad_fn is None and y.grad_fn.name() == "SameBackward"
    close(grad(y, x)[0], [7.0])


def test_no_cycles_keep_the_graph_alive():
    gc.disable()
    try:
        x = leaf(1.0)
        y = Cube.apply(Scaled.apply(x, 2.0))
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
        z = x * 1
        Mul3_.apply(z[:1])
        ref = weakref.ref(z)
        del z
        assert ref() is None
    finally:
        gc.enable()


def test_a_function_reading_values_cannot_be_batched_without_a_rule():
    class Host(Function):
        @staticmethod
        def forward(ctx, x):
            return ng.from_numpy(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    with pytest.raises(TraceError, match="vmap"):
        ng.func.vmap(Host.apply)(ng.ones(2, 2))
