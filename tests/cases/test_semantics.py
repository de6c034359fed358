"""What autograd must do around the numbers: in-place writes, shapes, hooks, replay, errors; from public reports."""

import gc
import math
import weakref

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import (
    GradcheckError,
    detect_anomaly,
    functional,
    grad,
    gradcheck,
    gradgradcheck,
)
from nbgrad.errors import AutogradError, NbgradError, TraceError
from nbgrad.testing import assert_close


def leaf(v, **options):
    return ng.tensor(v, requires_grad=True, **options)


def numbers(*values):
    return np.array(values, float)


# -- in-place ------------------------------------------------------------------------------------------


def test_a_write_through_a_view_reaches_the_base():
    x, y = leaf(np.arange(1.0, 7.0)), leaf([10.0, 20.0, 30.0])
    base = (x * 1).view(2, 3)
    row = base[1]
    row.mul_(y)
    gx, gy = grad(base.sum(), (x, y))
    assert_close(gx, numbers(1, 1, 1, 10, 20, 30))
    assert_close(gy, numbers(4, 5, 6))


def test_writes_through_a_transposed_view():
    x = leaf(np.arange(1.0, 7.0))
    base = x * 1
    turned = base.view(2, 3).t()
    turned[0].add_(1)
    turned[0] *= 2
    assert_close(base.detach(), numbers(4, 2, 3, 10, 5, 6))
    assert_close(grad(base.sum(), x)[0], numbers(2, 1, 1, 2, 1, 1))


def test_a_write_into_one_part_of_an_unbound_tensor():
    root = leaf(np.arange(9.0).reshape(3, 3))
    x = root * 1
    x.unbind()[0].narrow(0, 0, 2).mul_(2)
    want = np.array([[2.0, 2, 1], [1, 1, 1], [1, 1, 1]])
    assert_close(grad(x.sum(), root)[0], want)


def test_a_refused_write_changes_nothing():
    a = leaf([1.0, 2.0])
    with pytest.raises(AutogradError, match="no_grad"):
        a.add_(5)
    with pytest.raises(AutogradError):
        a[0] = 7.0
    assert_close(a.detach(), numbers(1, 2))
    with ng.no_grad():
        a.sub_(0.5)
    assert_close(a.detach(), numbers(0.5, 1.5))


def test_an_overwritten_value_has_no_gradient():
    x = leaf([1.0, 2.0])
    b = ng.zeros(2)
    b[:] = x * 2
    b[:] = x * 3
    assert_close(grad(b.sum(), x)[0], numbers(3, 3))


class Triple(ng.autograd.Function):
    """x *= 3 in place."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_a_custom_in_place_function_whose_result_is_not_used():
    w = leaf([[1.0, 0.0], [0.0, 1.0]])
    y = ng.ones(2, 2) @ w
    Triple.apply(y)
    assert_close(grad(y.sum(), w)[0], np.full((2, 2), 6.0))
    x = leaf([1.0, 2.0, 3.0])
    z = x + 1
    Triple.apply(z[:2])
    assert_close(grad(z.sum(), x)[0], numbers(3, 3, 1))


def test_custom_in_place_functions_leave_no_reference_cycles():
    gc.disable()
    try:
        dead = []
        for _ in range(5):
            z = leaf(np.ones(100)) + 1
            Triple.apply(z[0:5])
            dead.append(weakref.ref(z))
            del z
        assert all(r() is None for r in dead)
    finally:
        gc.enable()


class StashedSquare(ng.autograd.Function):
    """x*x with its derivative stored as a constant: right once, wrong twice."""

    @staticmethod
    def forward(ctx, x):
        ctx.d = 2 * x.detach()
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.d


def test_a_derivative_stored_on_ctx_is_never_silently_differentiated():
    x = leaf([1.0, 2.0])
    assert gradcheck(StashedSquare.apply, (x,))
    with pytest.raises((AutogradError, GradcheckError)):
        gradgradcheck(StashedSquare.apply, (x,))
    (g,) = grad(StashedSquare.apply(x).sum(), x, create_graph=True)
    try:
        (h,) = grad(g.sum(), x, allow_unused=True)
    except AutogradError:
        h = None
    assert h is None or not np.allclose(h.numpy(), 0)


# -- shapes and dtypes ---------------------------------------------------------------------------------


def test_empty_tensors():
    a, b = leaf(np.ones((3, 4))), leaf(np.ones((4, 0)))
    ga, gb = grad((a @ b).sum(), (a, b))
    assert_close(ga, np.zeros((3, 4)))
    assert tuple(gb.shape) == (4, 0)
    for scan in (lambda x: x.cumsum(-1), lambda x: x.cumprod(-1)):
        x = leaf(np.zeros((2, 0)))
        assert tuple(grad(scan(x).sum(), x)[0].shape) == (2, 0)
    x = leaf(np.zeros((0, 3)))
    assert tuple(grad(x.prod(0).sum(), x)[0].shape) == (0, 3)
    with pytest.raises(NbgradError):
        leaf(np.zeros(0)).max()
    j = functional.jacobian(lambda v: v**2, ng.zeros(0, 5))
    assert tuple(j.shape) == (0, 5, 0, 5)


def test_integer_results_carry_no_gradient():
    x = leaf([1.5, 2.5, 0.5])
    assert not x.argmax().requires_grad
    assert not (x > 1).requires_grad
    assert not x.to(ng.int64).requires_grad


def test_einsum_repeated_letters_and_sizes_of_one():
    values = np.arange(18.0).reshape(3, 3, 2)
    b = leaf(values)
    y = ng.einsum("iij->ij", b)
    assert_close(y.detach(), np.einsum("iij->ij", values))
    w = np.arange(6.0).reshape(3, 2)
    want = np.zeros((3, 3, 2))
    want[np.arange(3), np.arange(3)] = w
    assert_close(grad((y * ng.tensor(w)).sum(), b)[0], want)
    rng = np.random.default_rng(0)
    p, q = leaf(rng.normal(size=(1, 3, 4))), leaf(rng.normal(size=(2, 4, 5)))
    gp, gq = grad(ng.einsum("bij,bjk->bik", p, q).sum(), (p, q))
    assert tuple(gq.shape) == (2, 4, 5)
    assert_close(gp, np.broadcast_to(q.detach().numpy().sum((0, 2)), (1, 3, 4)))


def test_a_scatter_whose_index_is_smaller_than_its_source():
    src = leaf(np.arange(1.0, 7.0).reshape(2, 3))
    y = ng.zeros(2, 3).scatter(1, ng.tensor([[1], [0]]), src)
    assert_close(y.detach(), np.array([[0.0, 1, 0], [4, 0, 0]]))
    got = grad((y * ng.arange(6.0).view(2, 3)).sum(), src)[0]
    assert_close(got, np.array([[1.0, 0, 0], [3, 0, 0]]))


def test_arrays_with_negative_strides():
    a = np.arange(5.0)
    t = ng.from_numpy(a[::-1])
    assert_close(t, a[::-1].copy())
    back = ng.arange(16.0).as_strided((4,), (-1,), 8)
    assert_close(back, numbers(8, 7, 6, 5))


def test_ties_of_max_over_a_dimension_go_to_the_returned_index():
    x = leaf([1.0, 3.0, 3.0])
    value, index = x.max(0)
    g = grad(value, x)[0].numpy()
    assert g.sum() == 1 and g[int(index)] == 1
    y = leaf([1.0, 3.0, 2.0, 3.0, 0.0])
    g = grad(y.cummax(0)[0].sum(), y)[0].numpy()
    assert g.sum() == 5 and (g[[0, 2, 4]] == [1, 0, 0]).all()


def test_one_convention_for_clamp_and_its_relatives_at_the_bounds():
    x = leaf([-1.0, 0.0, 3.0, 6.0, 7.0])
    g = grad(x.clamp(0.0, 6.0).sum(), x)[0].numpy()
    assert (g[[0, 2, 4]] == [0, 1, 0]).all() and ((g >= 0) & (g <= 1)).all()
    y = leaf([0.0, 6.0])
    relu6 = grad(ng.nn.functional.relu6(y).sum(), y)[0].numpy()
    assert (g[[1, 3]] == relu6).all()


def test_jacobians_of_several_arguments_and_results():
    j = functional.jacobian(lambda a: ng.outer(a[:2], a[1:]), ng.arange(4.0))
    a, want = np.arange(4.0), np.zeros((2, 3, 4))
    for i in range(2):
        for k in range(3):
            want[i, k, i] += a[1 + k]
            want[i, k, 1 + k] += a[i]
    assert_close(j, want)
    j = functional.jacobian(lambda a, b: (a.sum() * b, a * 1), (ng.ones(2), ng.ones(3)))
    assert [[tuple(t.shape) for t in r] for r in j] == [[(3, 2), (3, 3)], [(2, 2), (2, 3)]]
    h = functional.hessian(lambda a, b: (a**2).sum() * b.sum(), (ng.ones(2), ng.ones(1)))
    assert [[tuple(t.shape) for t in r] for r in h] == [[(2, 2), (2, 1)], [(1, 2), (1, 1)]]
    assert_close(h[0][1], np.full((2, 1), 2.0))
    cube = functional.hessian(lambda a: a**3, ng.tensor(2.0))
    assert tuple(cube.shape) == () and cube.item() == 12


# -- the sweep -----------------------------------------------------------------------------------------


def test_materialized_zeros_do_not_require_grad():
    x, unused = leaf(np.ones(3)), leaf(np.ones(4))
    g = grad((x**2).sum(), (x, unused), allow_unused=True, materialize_grads=True)
    assert_close(g[1], np.zeros(4))
    assert not g[0].requires_grad and not g[1].requires_grad


def test_a_second_backward_needs_the_graph():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward()
    with pytest.raises(AutogradError, match="retain_graph"):
        y.backward()
    x, w, s = leaf([1.0, 2.0]), leaf(2.0), ng.tensor(1.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert_close(x.grad, numbers(4, 8))

    def step(s):
        s = ng.sin(w * s)
        (s * s).backward()
        return s

    s = step(s)
    with pytest.raises(AutogradError, match="retain_graph"):
        step(s)
    step(s.detach())


def test_a_deep_chain_neither_recurses_nor_leaks():
    n = 100_000
    x = leaf(1.0)
    y = x
    for _ in range(n):
        y = y + y * 1e-5
    assert math.isclose(grad(y, x, retain_graph=True)[0].item(), (1 + 1e-5) ** n, rel_tol=1e-9)
    gone = weakref.ref(y.grad_fn)
    del y
    assert gone() is None


def test_hooks_run_in_order_and_may_change_the_gradient():
    log = []
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g: log.append(("first", g.item())) or g * 10)
    handle = y.register_hook(lambda g: log.append(("second", g.item())))
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda t: log.append(("post", t.grad.item())))
    y.sum().backward()
    assert log == [("first", 1.0), ("second", 10.0), ("post", 20.0)]
    assert_close(y.grad, numbers(10))
    handle.remove()
    log.clear()
    x.grad = None
    (x * 3).sum().backward()
    assert log == [("post", 3.0)]
    z = leaf([1.0]) * 2
    z.register_hook(lambda g: g * 5)
    assert_close(grad(z.sum(), z)[0], numbers(5))


def test_batched_gradients_equal_a_loop():
    values = np.linspace(0.1, 1, 6)
    x = leaf(values)
    y = ng.sin(x) * x.sum()
    v = ng.tensor(np.random.default_rng(0).normal(size=(4, 6)))
    (batched,) = grad(y, x, grad_outputs=v, is_grads_batched=True, retain_graph=True)
    loop = np.stack([grad(y, x, grad_outputs=v[k], retain_graph=True)[0].numpy() for k in range(4)])
    jacobian = np.diag(np.cos(values) * values.sum()) + np.sin(values)[:, None]
    assert_close(batched, loop)
    assert_close(batched, v.numpy() @ jacobian)


def test_anomaly_mode_names_where_the_nan_was_born():
    with pytest.raises(AutogradError, match="sqrt"), detect_anomaly():
        ng.sqrt(ng.sqrt(leaf([1.0]) - 2)).sum().backward()
    with pytest.raises(AutogradError, match="log"), detect_anomaly():
        ng.log(-leaf([1.0])).sum().backward()


def test_a_replay_sees_present_tensors_and_refuses_stale_arrays():
    theta, points = leaf(1.0), np.linspace(0, 1, 5)

    def loss(scale):
        return ((ng.sin(theta * points) - scale) ** 2).sum()

    scale = ng.tensor(np.sin(2.4 * points))
    tape = ng.trace(loss)(scale)
    assert tape.replay(scale).item() > 0
    with ng.no_grad():
        theta.fill_(2.4)
    assert tape.replay(scale).item() == 0
    points[0] = 0.5
    with pytest.raises(TraceError, match="changed since recording"):
        tape.replay(scale)


def test_forward_mode_through_a_singular_branch():
    _, t = functional.jvp(lambda v: ng.sqrt(ng.relu(v)), (ng.tensor(-10.0),), (ng.tensor(1.0),))
    assert_close(t, 0.0)


def test_a_gradient_taken_inside_forward_mode_with_a_constant_point():
    # a gradient at a point without tangent, used in a function that has one
    x0, v = ng.tensor([1.0, 2.0]), ng.tensor([1.0, 1.0])
    f = lambda v: ng.func.grad(lambda x: (x**2).sum())(x0) * v
    value, dot = ng.func.jvp(f, (v,), (v,))
    assert_close(value, numbers(2, 4))
    assert_close(dot, numbers(2, 4))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 0 * ng.sqrt(x),
        lambda x: ng.sqrt(x) * ng.tensor(0.0),
        lambda x: 0 * ng.log(x),
        lambda x: ng.sqrt(x) / float("inf"),
        lambda x: (x > 0) * ng.sqrt(x),
        lambda x: ng.sqrt(0 * x),
        lambda x: ng.sqrt(ng.relu(x)),
        lambda x: ng.lerp(ng.tensor(1.0), ng.sqrt(x), 0.0),
    ],
)
def test_zero_weights_win_in_every_mode(f):
    """A factor that is exactly zero makes the derivative zero, from whichever end the product is formed."""
    x, one = ng.tensor(0.0), ng.tensor(1.0)
    assert float(ng.func.grad(f)(x)) == 0
    assert float(ng.func.jvp(f, (x,), (one,))[1]) == 0
    assert float(ng.func.jet(f, (x,), ([one, ng.tensor(0.0)],))[1][0]) == 0
    assert float(ng.trace(f)(x).jvp().replay(x, one)[1]) == 0
