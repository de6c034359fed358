"""Transforms inside transforms: every pair of modes, three deep, without confusing perturbations."""

import itertools

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.errors import AutogradError, DTypeError, TraceError

F = ng.func


def reverse(f):
    return F.grad(f)


def forward(f):
    return lambda x: F.jvp(f, (x,), (ng.ones(()),))[1]


def taylor(f):
    return lambda x: F.jet(f, (x,), ([ng.ones(())],))[1][0]


def backward(f):
    """PyTorch's autograd.grad inside other transforms."""

    def df(x):
        x = x * 1 if x.requires_grad else x.detach().requires_grad_()
        return ng.autograd.grad(f(x), x, create_graph=True)[0]

    return df


def dual(f):
    def df(x):
        with ng.autograd.forward_ad.dual_level():
            y = f(ng.autograd.forward_ad.make_dual(x, ng.ones(())))
            t = ng.autograd.forward_ad.unpack_dual(y).tangent
            return x * 0 if t is None else t

    return df


def batched(f):
    """The gradient of one member of a batch."""
    return lambda x: F.vmap(F.grad(f))(ng.stack([x, x]))[1]


def linear(f):
    return lambda x: F.linearize(f, x)[1](ng.ones(()))


def traced(f):
    return lambda x: ng.trace(f)(x).grad()(x)


def row(f):
    return lambda x: F.jacrev(lambda v: f(v[0]))(x.reshape((1,)))[0]


MODES = [reverse, forward, taylor, batched, linear, traced, row]
PAIRS = list(itertools.product(MODES, MODES))
ids = lambda v: v.__name__ if callable(v) else None


@pytest.mark.parametrize("outer, inner", PAIRS, ids=ids)
def test_the_inner_derivative_does_not_see_the_outer_perturbation(outer, inner):
    # d/dx [x * d/dy (x + y)] = 1, and 2 for those who confuse the perturbations
    x = ng.tensor(1.5)
    got = outer(lambda x: x * inner(lambda y: x + y)(ng.tensor(1.0)))(x)
    assert float(got) == pytest.approx(1.0)
    # d/dx [x * d/dy (x * y^2) at y = x] = d/dx 2x^3 = 6x^2
    got = outer(lambda x: x * inner(lambda y: x * y * y)(x))(x)
    assert float(got) == pytest.approx(6 * 1.5**2)
    # d/dx [d/dy sin(x y) at y = x^2]
    got = outer(lambda x: inner(lambda y: ng.sin(x * y))(x * x))(x)
    assert float(got) == pytest.approx(np.cos(1.5**3) - 3 * 1.5**3 * np.sin(1.5**3))


@pytest.mark.parametrize("outer, inner", PAIRS, ids=ids)
def test_the_outer_variable_may_be_captured_only(outer, inner):
    # d/dx [d/dy (x^3 y)] = 3x^2
    x = ng.tensor(1.5)
    got = outer(lambda x: inner(lambda y: x**3 * y)(ng.tensor(2.0)))(x)
    assert float(got) == pytest.approx(3 * 1.5**2)
    # nothing depends on x: the derivative of a constant
    got = outer(lambda x: 0 * x + inner(lambda y: y**3)(ng.tensor(2.0)))(x)
    assert float(got) == 0.0


TRIPLES = list(itertools.product([reverse, forward, taylor, batched, traced], repeat=3))


@pytest.mark.parametrize("a, b, c", TRIPLES, ids=ids)
def test_third_derivatives(a, b, c):
    x = 0.7
    got = a(b(c(lambda x: ng.exp(x) * ng.sin(x))))(ng.tensor(x))
    assert float(got) == pytest.approx(2 * np.exp(x) * (np.cos(x) - np.sin(x)))


@pytest.mark.parametrize("outer", [reverse, forward, taylor, batched], ids=ids)
@pytest.mark.parametrize("inner", [backward, dual], ids=ids)
def test_pytorch_style_derivatives_inside_transforms(outer, inner):
    x = 0.7
    got = outer(inner(lambda x: ng.exp(x) * ng.sin(x)))(ng.tensor(x))
    # detach(), in `backward`, cuts the tangents of forward and Taylor mode
    cut = inner is backward and outer in (forward, taylor)
    assert float(got) == pytest.approx(0.0 if cut else 2 * np.exp(x) * np.cos(x))


def test_autograd_grad_inside_vmap_and_inside_a_trace():
    def second(x):
        x = x.clone() if x.requires_grad else x.requires_grad_()
        (g,) = ng.autograd.grad((x**3).sum(), x, create_graph=True)
        return ng.autograd.grad(g.sum(), x)[0]

    x = ng.tensor([1.0, 2.0, 3.0])
    np.testing.assert_allclose(F.vmap(second)(x).numpy(), 6 * x.numpy())
    np.testing.assert_allclose(ng.trace(second)(x).replay(2 * x).numpy(), 12 * x.numpy())
    x = ng.tensor([1.0, 2.0, 3.0])
    np.testing.assert_allclose(F.vmap(lambda v: second(v))(x).numpy(), 6 * x.numpy())


def test_gradients_of_captured_tensors():
    w = ng.tensor([1.0, 2.0], requires_grad=True)
    x = ng.tensor([[1.0, -1.0], [0.5, 2.0], [3.0, 0.0]])
    f = lambda x: (w * x).sin().sum()
    want = (x.numpy() ** 1 * np.cos(w.detach().numpy() * x.numpy())).sum(0)
    for y in (F.vmap(f)(x).sum(), sum(F.jvp(f, (r,), (r,))[0] for r in x)):
        np.testing.assert_allclose(ng.autograd.grad(y, w)[0].numpy(), want)
    g = F.vmap(F.grad(f))(x)  # w cos(w x): differentiable with respect to w, too
    wn, xn = w.detach().numpy(), x.numpy()
    want = (np.cos(wn * xn) - wn * xn * np.sin(wn * xn)).sum(0)
    np.testing.assert_allclose(ng.autograd.grad(g.sum(), w)[0].numpy(), want)
    t = F.vmap(lambda r: F.jvp(f, (r,), (ng.ones(2),))[1])(x)
    np.testing.assert_allclose(ng.autograd.grad(t.sum(), w)[0].numpy(), want)


def test_gradient_with_respect_to_a_cotangent_under_vmap():
    x = ng.tensor([0.3, 0.7])
    _, pull = F.vjp(ng.sin, x)
    v = ng.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    out = F.vmap(lambda v: pull(v)[0])(v)
    got = ng.autograd.grad((out**2).sum(), v)[0]
    np.testing.assert_allclose(got.numpy(), 2 * v.detach().numpy() * np.cos(x.numpy()) ** 2)


def test_hessians_by_all_four_routes_and_batched():
    f = lambda x: (x[0] ** 2 * x[1]).sin() + x[1] ** 3
    x = ng.tensor([0.6, -0.4])
    a, b = 0.6, -0.4
    c, s = np.cos(a * a * b), np.sin(a * a * b)
    want = np.array(
        [
            [2 * b * c - 4 * a * a * b * b * s, 2 * a * c - 2 * a**3 * b * s],
            [2 * a * c - 2 * a**3 * b * s, -(a**4) * s + 6 * b],
        ]
    )
    for outer, inner in itertools.product([F.jacfwd, F.jacrev], repeat=2):
        np.testing.assert_allclose(outer(inner(f))(x).numpy(), want)
    np.testing.assert_allclose(F.vmap(F.hessian(f))(ng.stack([x, x])).numpy(), [want, want])
    v = ng.tensor([1.0, -2.0])
    np.testing.assert_allclose(F.hvp(f, (x,), (v,))[1].numpy(), want @ v.numpy())
    rows = F.vmap(lambda v: F.jvp(F.grad(f), (x,), (v,))[1])(ng.eye(2))
    np.testing.assert_allclose(rows.numpy(), want)


def test_gradient_inside_jvp_inside_vmap():
    f = lambda x, y: (x * y).sin()
    inner = lambda x: F.jvp(lambda y: F.grad(f)(x, y), (2 * x,), (ng.ones(()),))[1]
    x = np.array([0.1, 0.5, 0.9])
    want = np.cos(2 * x * x) - 2 * x * x * np.sin(2 * x * x)
    np.testing.assert_allclose(F.vmap(inner)(ng.tensor(x)).numpy(), want)


@pytest.mark.parametrize(
    "run",
    [
        lambda keep: F.vmap(keep)(ng.ones(2)),
        lambda keep: F.jvp(keep, (ng.ones(2),), (ng.ones(2),)),
        lambda keep: F.jet(keep, (ng.ones(2),), ([ng.ones(2)],)),
        lambda keep: ng.trace(keep)(ng.ones(2)),
    ],
    ids=["vmap", "jvp", "jet", "trace"],
)
def test_values_that_escape_a_transform_cannot_be_used(run):
    box = []

    def keep(x):
        box.append(x * 2)
        return x * 1

    run(keep)
    with pytest.raises(TraceError, match="was used after"):
        box[0] + 1


OUTSIDE = {
    "grad": lambda f: F.grad(f)(ng.ones(2)),
    "vjp": lambda f: F.vjp(f, ng.ones(2)),
    "vmap": lambda f: F.vmap(f)(ng.ones(3, 2)),
    "jvp": lambda f: F.jvp(f, (ng.ones(2),), (ng.ones(2),)),
    "jet": lambda f: F.jet(f, (ng.ones(2),), ([ng.ones(2)],)),
    "jacrev": lambda f: F.jacrev(f)(ng.ones(2)),
    "jacfwd": lambda f: F.jacfwd(f)(ng.ones(2)),
    "linearize": lambda f: F.linearize(f, ng.ones(2)),
    "trace": lambda f: ng.trace(f)(ng.ones(2)),
    "jacobian": lambda f: ng.autograd.functional.jacobian(f, ng.ones(2)),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "value"])
def test_a_transformed_function_cannot_write_to_tensors_from_outside(name, constant):
    outside = ng.tensor([5.0, 6.0])
    view = outside[:1]

    def whole(x):
        outside.add_(1.0 if constant else x)
        return (outside * x).sum()

    def part(x):
        view[0] = 1.0 if constant else x[0]
        return (outside * x).sum()

    def detached(x):
        outside.detach()[0] = 1.0 if constant else x[0]
        return (outside * x).sum()

    for f in (whole, part, detached):
        with pytest.raises(TraceError, match="from outside"):
            OUTSIDE[name](f)
        assert outside.tolist() == [5.0, 6.0] and view.tolist() == [5.0]
        assert not outside.requires_grad and outside._version == 0


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_transformed_function_may_write_to_its_own_tensors(name):
    kept = []

    def f(x):
        b = ng.zeros(3)
        kept.append(b)  # other references to it do no harm
        b[0] = x[0]
        b[1:] = x * 2
        c = ng.ones(3) * 2
        c.mul_(b)
        return (b * c).sum()

    OUTSIDE[name](f)
    x = ng.tensor([0.5, -1.0])
    np.testing.assert_allclose(F.grad(f)(x).numpy(), [4 * 0.5 * 5, 4 * -1.0 * 4])


def test_a_detached_alias_of_a_transformed_value_cannot_be_written():
    def f(x):
        d = ng.exp(x)
        d.detach().mul_(0)
        return d.sum()

    for call in (lambda: F.vmap(f)(ng.ones(2, 2)), lambda: ng.trace(f)(ng.ones(2))):
        with pytest.raises(TraceError, match="detached alias"):
            call()


def test_an_inner_transform_cannot_write_to_tensors_of_the_outer_one():
    def outer(x):
        b = ng.zeros(2)
        b[0] = x[0]

        def inner(y):
            b[1] = y[0]
            return (b * y).sum()

        return F.grad(inner)(x).sum()

    with pytest.raises(TraceError, match="from outside"):
        F.grad(outer)(ng.ones(2))


def test_tensors_made_by_an_inner_transform_belong_to_the_outer_one():
    def outer(x):
        g = F.grad(lambda y: (y * y * x).sum())(x)
        g[0] = 0.0
        return g.sum()

    x = ng.tensor([1.0, 3.0])
    np.testing.assert_allclose(F.grad(outer)(x).numpy(), [0.0, 12.0])
    np.testing.assert_allclose(F.vmap(F.grad(outer))(ng.stack([x, x])).numpy(), [[0.0, 12.0]] * 2)


def test_detach_is_a_constant_in_every_mode():
    x = ng.tensor(1.5)
    f = lambda x: x * x.detach() ** 2
    for mode in MODES:
        assert float(mode(f)(x)) == pytest.approx(1.5**2), mode.__name__


def test_inputs_changed_between_vjp_and_pullback_are_noticed():
    x = ng.tensor([1.0, 2.0])
    _, pull = F.vjp(lambda x: x * x, x)
    x.add_(1)
    with pytest.raises(AutogradError, match="changed in place"):
        pull(ng.ones(2))


def test_integer_inputs_are_refused():
    n = ng.tensor([1, 2])
    for call in (
        lambda: F.grad(lambda x: x.sum())(n),
        lambda: F.vjp(lambda x: x, n),
        lambda: F.jvp(lambda x: x, (n,), (n,)),
        lambda: F.jacrev(lambda x: x)(n),
        lambda: F.jacfwd(lambda x: x)(n),
        lambda: F.hessian(lambda x: x.sum())(n),
    ):
        with pytest.raises(DTypeError, match="floating"):
            call()
    assert float(F.grad(lambda x, n: (x * n).sum())(ng.tensor(2.0), n)) == 3.0
