"""Estimates: unbiased, with honest errors, reproducible."""

import numpy as np
import pytest
from known_fields import close, mlp, network, points, scalar, sines

import nbgrad as ng
from nbgrad import pde

DISTRIBUTIONS = ("rademacher", "gaussian", "sparse")
N = 3000
C = ng.tensor(np.random.default_rng(4).normal(size=4))


def generator(seed=0):
    return ng.Generator().manual_seed(seed)


def operator(u, **options):
    terms = {(0,): 2.0, (): 1.0, (0, 0): C, (1, 2): 0.7, (2, 2): -1.0}
    return pde.linear_operator(u, terms, **options)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("op", [pde.laplacian, pde.biharmonic, operator], ids=lambda f: f.__name__)
def test_estimates_agree_with_the_exact_value_within_their_errors(op, distribution):
    x, p = points(4), network(width=4)
    estimate, error = op(
        mlp, samples=N, distribution=distribution, generator=generator(), standard_error=True
    )(x, p)
    want = op(mlp)(x, p)
    assert estimate.shape == error.shape == want.shape == (4, 2)
    off = ((estimate - want) / error).numpy()
    assert np.abs(off).max() < 4.5 and np.sqrt((off**2).mean()) < 2
    mean = op(mlp, samples=N, distribution=distribution, generator=generator())(x, p)
    assert close(mean, estimate)  # collapsed: the same draws, summed inside


def test_the_error_falls_with_the_square_root_of_the_samples():
    x = points(40)
    few, many = (
        pde.laplacian(
            sines, samples=n, standard_error=True, distribution="gaussian", generator=generator()
        )(x)[1]
        for n in (100, 1600)
    )
    assert abs((few.mean() / many.mean()).item() - 4) < 0.5


def test_rademacher_is_exact_where_nothing_is_mixed():
    """Signs square to one: the estimate of a sum of one-coordinate functions has no variance."""
    x = points()
    got = pde.laplacian(lambda x: ng.exp(x).sum(-1), samples=1)(x)
    assert close(got, ng.exp(x).sum(-1))


def test_every_point_draws_its_own_directions():
    x = points(1).expand(50, 3)
    got = pde.laplacian(sines, samples=1, generator=generator())(x).numpy()
    assert len(np.unique(got.round(9))) > 2


def test_draws_are_reproducible_and_recorded():
    x, p = points(), network()
    op = pde.laplacian(scalar, samples=2, distribution="gaussian")
    ng.manual_seed(5)
    first = op(x, p)
    ng.manual_seed(5)
    tape = ng.trace(op)(x, p)
    assert close(tape.replay(x, p), first) and close(tape.replay(x, p), first)


def test_an_estimate_has_gradients():
    x, p = points(), network()

    def loss(w, method):
        op = pde.laplacian(scalar, samples=3, generator=generator(), method=method)
        return ng.square(op(x, [w, *p[1:]])).mean()

    g = ng.func.grad(loss)(p[0], "collapsed")
    assert close(g, ng.func.grad(loss)(p[0], "taylor"))
    v = ng.tensor(np.random.default_rng(0).normal(size=p[0].shape))
    h = 1e-6
    slope = (loss(p[0] + h * v, "auto") - loss(p[0] - h * v, "auto")) / (2 * h)
    assert abs(((g * v).sum() - slope).item()) < 1e-6 * (1 + abs(slope.item()))


def test_separate_coordinates_and_single_points():
    x = points()
    a, b, c = x.unbind(-1)

    def u(a, b, c):
        return ng.exp(a) + ng.exp(b) + ng.exp(c)

    got = pde.laplacian(u, samples=1, argnums=(0, 1, 2))(a, b, c)
    assert close(got, u(a, b, c))
    one = pde.laplacian(lambda x: ng.exp(x).sum(-1), samples=1)(x[0])
    assert close(one, ng.exp(x[0]).sum())


def test_a_hundred_dimensions():
    d = 100
    x = points(3, d)

    def u(x):
        return ng.sin(x).sum(-1) + (x[..., :1] * x[..., 1:]).sum(-1)

    exact = pde.laplacian(u)(x)
    assert close(exact, -ng.sin(x).sum(-1))
    estimate, error = pde.laplacian(u, samples=400, standard_error=True, generator=generator())(x)
    assert (np.abs((estimate - exact).numpy()) < 4.5 * error.numpy()).all()


def test_a_multiple_of_the_laplacian_takes_one_direction_a_sample():
    terms = {(i, i): 0.5 for i in range(3)}
    half = pde.linear_operator(sines, terms, samples=4, generator=generator())
    whole = pde.laplacian(sines, samples=4, generator=generator())
    assert close(half(points()), 0.5 * whole(points()))
