"""The short examples do what their texts say."""

import numpy as np

import nbgrad as ng


def test_newton_finds_the_minimum_of_rosenbrock(example):
    newton = example("newton_rosenbrock")
    result = newton.search(6)
    assert np.abs(result.x - 1).max() < 1e-6
    assert result.products > 0


def test_newtons_hessian_products_match_scipy(example):
    from scipy.optimize import rosen_der, rosen_hess_prod

    newton = example("newton_rosenbrock")
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(2, 7))
    g, hv = ng.func.hvp(newton.rosenbrock, (ng.tensor(x),), (ng.tensor(v),))
    assert np.allclose(g.numpy(), rosen_der(x))
    assert np.allclose(hv.numpy(), rosen_hess_prod(x, v))


def test_maml_learns_to_adapt(example):
    result = example("maml_sine").train(steps=60, tasks=8)
    assert result.after < 0.8 * result.before


def test_mamls_outer_gradient_runs_through_the_inner_step(example):
    maml = example("maml_sine")
    rng = np.random.default_rng(0)
    p, tasks = maml.start(rng, width=3), maml.draw(rng, 4, points=5)
    g = ng.func.grad(maml.meta_error)(p, *tasks)
    direction = [rng.normal(size=w.shape) for w in p]
    h = 1e-6
    up, down = (
        maml.meta_error([w + s * h * d for w, d in zip(p, direction, strict=True)], *tasks).item()
        for s in (1, -1)
    )
    slope = sum((a.numpy() * d).sum() for a, d in zip(g, direction, strict=True))
    assert abs(slope - (up - down) / (2 * h)) < 1e-6


def test_the_penalised_critic_approaches_the_known_distance(example):
    critic = example("gradient_penalty")
    result = critic.train(steps=200, batch=64)
    assert abs(result.distance - np.hypot(*critic.SHIFT)) < 0.5
    assert 0.7 < result.slope < 1.5


def test_the_custom_function_passes_gradcheck(example, capsys):
    kepler = example("custom_function")
    assert kepler.main()
    root = kepler.Kepler.apply(ng.tensor([1.0]), ng.tensor([0.3]))
    assert abs(root.item() - 0.3 * np.sin(root.item()) - 1.0) < 1e-14


def test_kdv_residual_vanishes_for_the_soliton_only(example):
    result = example("kdv_residual").main(101)
    assert result.right < 1e-13 and result.difference < 1e-13
    assert result.wrong > 1e-3


def test_biharmonic_of_known_fields(example):
    result = example("biharmonic_residual").main(20)
    assert result.residual < 1e-12 and result.error < 1e-12
