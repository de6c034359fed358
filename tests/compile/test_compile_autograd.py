"""Compiled functions under autograd and the function transforms, outside and inside."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.utils.pytree import flatten

F = ng.func
rng = np.random.default_rng(1)
W = ng.tensor(rng.normal(size=(3, 4)))
X = ng.tensor(rng.normal(size=(40, 3)))
V = ng.tensor(rng.normal(size=(40, 3)))


def f(x, w=W):
    """A smooth scalar function of a matrix."""
    return (ng.tanh(x @ w) ** 3).sum() + ng.sin(x).mean()


def vector(x):
    """A vector function of a vector."""
    return ng.stack([ng.sin(x[0]) * x[1], ng.exp(x[1] * x[2]), x.sum() ** 2])


def same(got, want, **tol):
    a, b = flatten(got)[0], flatten(want)[0]
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        x, y = ng.as_tensor(x).detach().numpy(), ng.as_tensor(y).detach().numpy()
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12, **tol)


POINT = ng.tensor([0.3, -0.5, 0.9])
TRANSFORMS = {
    "grad": lambda f: F.grad(f)(X),
    "grad_and_value": lambda f: F.grad_and_value(f)(X),
    "vjp": lambda f: F.vjp(f, X)[1](ng.tensor(0.7)),
    "jvp": lambda f: F.jvp(f, (X,), (V,)),
    "jvp of grad": lambda f: F.jvp(F.grad(f), (X,), (V,)),
    "grad of grad": lambda f: F.grad(lambda x: (F.grad(f)(x) * V).sum())(X),
    "grad of jvp": lambda f: F.grad(lambda x: F.jvp(f, (x,), (V,))[1])(X),
    "third order": lambda f: F.grad(
        lambda x: F.jvp(lambda y: F.jvp(f, (y,), (V,))[1], (x,), (V,))[1]
    )(X),
    "jet": lambda f: F.jet(f, (X,), ([V, 0.5 * V, 0.1 * V],)),
    "hvp": lambda f: F.hvp(f, (X,), (V,)),
    "vmap": lambda f: F.vmap(lambda row: f(row.unsqueeze(0)))(X),
    "vmap of grad": lambda f: F.vmap(F.grad(lambda row: f(row.unsqueeze(0))))(X),
    "grad of vmap": lambda f: F.grad(
        lambda x: (F.vmap(lambda row: f(row.unsqueeze(0)))(x) ** 2).sum()
    )(X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_a_compiled_function(name):
    same(TRANSFORMS[name](ng.compile(f)), TRANSFORMS[name](f))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_compiled_transforms(name):
    transform = TRANSFORMS[name]
    same(ng.compile(lambda: transform(f))(), transform(f))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_compiled_transforms_of_an_argument(name):
    """The point of the transform is the argument, so nothing is known when the program is compiled."""
    transform = TRANSFORMS[name]

    def at(shift):
        return transform(lambda x: f(x + shift))

    same(ng.compile(at)(ng.tensor(0.1)), at(ng.tensor(0.1)))


@pytest.mark.parametrize("transform", [F.jacfwd, F.jacrev, lambda g: F.jacfwd(F.jacrev(g))])
def test_jacobians_outside_and_inside(transform):
    want = transform(vector)(POINT)
    same(transform(ng.compile(vector))(POINT), want)
    same(ng.compile(transform(vector))(POINT), want)
    same(ng.compile(transform(ng.compile(vector)))(POINT), want)


def test_hessian_outside_and_inside():
    g = lambda x: (vector(x) ** 2).sum()
    want = F.hessian(g)(POINT)
    same(F.hessian(ng.compile(g))(POINT), want)
    same(ng.compile(F.hessian(g))(POINT), want)


def test_vmap_over_several_arguments_and_axes():
    g = lambda x, y: (ng.tanh(x) @ y, x.sum())
    x, y = ng.tensor(rng.normal(size=(5, 3, 2))), ng.tensor(rng.normal(size=(2, 5)))
    for dims in ((0, 1), (0, None), (1, 0)):
        a = x if dims[0] == 0 else x.permute(1, 2, 0)[:, :2].permute(2, 0, 1).transpose(0, 1)
        b = {1: y, None: y[:, 0], 0: y}[dims[1]]
        a = a if dims[1] != 0 else ng.tensor(rng.normal(size=(3, 2, 5)))
        b = b if dims[1] != 0 else ng.tensor(rng.normal(size=(2, 5)))
        if dims[1] == 0:
            a, b = ng.tensor(rng.normal(size=(3, 2, 4))), ng.tensor(rng.normal(size=(2, 4)))
        same(F.vmap(ng.compile(g), in_dims=dims)(a, b), F.vmap(g, in_dims=dims)(a, b))


# -- eager autograd ------------------------------------------------------------------------------------


def test_backward_runs_through_a_compiled_call_between_eager_ones():
    inner = ng.compile(lambda x, w: ng.tanh(x @ w))
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    (inner(2 * x, w) ** 2).sum().backward()
    y, v = X.clone().requires_grad_(), W.clone().requires_grad_()
    (ng.tanh((2 * y) @ v) ** 2).sum().backward()
    same([x.grad, w.grad], [y.grad, v.grad])


def test_create_graph_twice():
    def orders(fn):
        x = X.clone().requires_grad_()
        found = [fn(x)]
        for k in range(3):
            (g,) = ng.autograd.grad(found[-1], x, create_graph=k < 2)
            found.append((g * V).sum())
        return found

    same(orders(ng.compile(f)), orders(f))


def test_only_some_results_and_arguments_are_differentiated():
    def g(x, y, k):
        return x * y, ng.sin(x), (y > 0), x.sum() * k

    c = ng.compile(g)
    x, y = X.clone().requires_grad_(), V.clone()
    k = ng.tensor(3)
    a, b, mask, total = c(x, y, k)
    assert a.requires_grad and not mask.requires_grad
    (want,) = ng.autograd.grad((g(x, y, k)[1] * V).sum(), x)
    (got,) = ng.autograd.grad((b * V).sum(), x, retain_graph=True)
    same(got, want)
    same(ng.autograd.grad(total, x, retain_graph=True)[0], 3 * ng.ones_like(x))
    same(ng.autograd.grad(a.sum(), x)[0], y)


def test_integer_arguments_have_no_gradient():
    c = ng.compile(lambda x, i: x[i].sum())
    x = X.clone().requires_grad_()
    c(x, ng.tensor([0, 2, 2])).backward()
    want = ng.zeros(40, 3)
    want[0], want[2] = 1.0, 2.0
    same(x.grad, want)


@pytest.mark.parametrize("quiet", [ng.no_grad, ng.inference_mode])
def test_a_first_call_without_gradients_does_not_matter(quiet):
    c = ng.compile(lambda x: (x**3).sum())
    x = X.clone().requires_grad_()
    with quiet():
        same(c(x), (X**3).sum())
    (g,) = ng.autograd.grad(c(x), x, create_graph=True)
    same(g, 3 * X**2)
    same(ng.autograd.grad(g.sum(), x)[0], 6 * X)
    other = ng.compile(lambda x: (x**3).sum())
    (g,) = ng.autograd.grad(other(x), x)  # the vjp is compiled without create_graph
    (g,) = ng.autograd.grad(other(x), x, create_graph=True)
    same(ng.autograd.grad(g.sum(), x)[0], 6 * X)


def test_no_grad_detach_and_inference_mode():
    c = ng.compile(f)
    x = X.clone().requires_grad_()
    with ng.no_grad():
        assert not c(x).requires_grad
    with ng.inference_mode():
        same(c(x), f(X))
    assert not c(x.detach()).requires_grad
    assert c(x).requires_grad
    half = ng.compile(lambda x: (x * x.detach()).sum())
    same(ng.autograd.grad(half(x), x)[0], X)
    quiet = ng.compile(lambda x: quieted(x).sum())
    same(ng.autograd.grad(quiet(x), x)[0], X)


def quieted(x):
    """Half of the product is computed without gradients."""
    with ng.no_grad():
        y = x * 1.0
    return x * y


def test_hooks_of_inputs_and_results_run():
    seen = []
    x = X.clone().requires_grad_()
    x.register_hook(lambda g: seen.append("input"))
    y = ng.compile(f)(x)
    y.register_hook(lambda g: 2 * g)
    y.backward()
    assert seen == ["input"]
    same(x.grad, 2 * F.grad(f)(X))


def test_autograd_grad_inside_the_compiled_function():
    def residual(x, w):
        x = x.detach().requires_grad_()
        u = ng.tanh(x @ w).sum(1)
        (u_x,) = ng.autograd.grad(u.sum(), x, create_graph=True)
        (u_xx,) = ng.autograd.grad(u_x[:, 0].sum(), x, create_graph=True)
        return (u_xx[:, 0] + u * u_x[:, 1]).square().mean()

    w = W.clone().requires_grad_()
    want = ng.autograd.grad(residual(X, w), w)
    same(ng.autograd.grad(ng.compile(residual)(X, w), w), want)
    step = ng.compile(lambda w: F.grad(lambda v: residual(X, v))(w))
    same([step(W)], want)


def test_a_graph_kept_while_the_function_is_called_again():
    c = ng.compile(lambda x: ng.exp(x).sum(1))
    xs = [(X * k).requires_grad_() for k in (1.0, 0.5, 0.1)]
    ys = [c(x) for x in xs]
    for x, y in zip(xs, ys, strict=True):
        y.sum().backward()
        same(x.grad, ng.exp(x.detach()))


def test_an_input_written_after_the_call_is_noticed():
    c = ng.compile(lambda x: (x * x).sum())
    x = X.clone().requires_grad_()
    z = x * 1.0
    y = c(z)
    z.mul_(2.0)
    with pytest.raises(ng.errors.NbgradError, match=r"in[ -]place"):
        y.backward()


def test_traces_see_through_compiled_functions():
    tape = ng.trace(ng.compile(f))(X)
    assert "tanh" in [i.op for i in tape.instructions]
    same(tape.replay(X), f(X))
    same(ng.compile(lambda x: 2 * ng.compile(f)(x))(X), 2 * f(X))


def test_gradients_in_threads():
    c = ng.compile(f)

    def step(k):
        x = (X * k).requires_grad_()
        c(x).backward()
        return x.grad

    scales = [0.1 * k for k in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(step, scales))
    same(got, [F.grad(f)(X * k) for k in scales])


def test_gradcheck_of_a_compiled_function():
    c = ng.compile(lambda x, y: ng.atan2(ng.sin(x), y) * y)
    args = (
        ng.tensor([0.3, 1.2], requires_grad=True),
        ng.tensor([[0.5], [2.0]], requires_grad=True),
    )
    assert ng.autograd.gradcheck(c, args)
    assert ng.autograd.gradgradcheck(c, args)


def test_masked_singularities_stay_zero():
    """Zero wins in compiled derivatives, too."""
    g = lambda x: (ng.sqrt(ng.relu(x)) + ng.where(x > 0, ng.log(x), 0.0)).sum()
    x = ng.tensor([-1.0, 0.0, 4.0] * 30)
    want = F.grad(g)(x)
    assert np.isfinite(want.numpy()).all()
    same(F.grad(ng.compile(g))(x), want)
    same(ng.compile(F.grad(g))(x), want)
    same(F.jvp(ng.compile(g), (x,), (ng.ones_like(x),)), F.jvp(g, (x,), (ng.ones_like(x),)))


@pytest.mark.parametrize("rows", [0, 1, 31, 33, 700])
def test_batched_losses_of_every_size(rows):
    x = ng.tensor(rng.normal(size=(rows, 3)))
    c = ng.compile(f) if rows else ng.compile(lambda x, w: (ng.tanh(x @ w) ** 3).sum())
    g = f if rows else (lambda x, w: (ng.tanh(x @ w) ** 3).sum())
    w = W.clone()
    same(F.grad(c, (0, 1))(x, w), F.grad(g, (0, 1))(x, w))
    same(ng.compile(F.grad(g, (0, 1)))(x, w), F.grad(g, (0, 1))(x, w))
