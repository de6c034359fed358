"""The examples of ``ng.compile``, with small budgets."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest


def has_picture(path):
    if importlib.util.find_spec("matplotlib") is None:
        return not Path(path).exists()
    return Path(path).read_bytes()[:4] == b"\x89PNG"


def test_robertson_is_integrated_inside_njit(example, capsys):
    euler = example("implicit_euler_njit")
    result = euler.main(["--end", "40", "--tolerance", "1e-3", "--out", "r.png"])
    assert result.error < 2e-3 and result.newtons > 0 and result.t[-1] == 40
    assert np.abs(result.y.sum(1) - 1).max() < 1e-12  # nothing is lost in the reaction
    finer = euler.solve(40.0, 1e-4)
    assert finer.error < 0.3 * result.error and finer.t.size > 2 * result.t.size
    assert "Newton steps" in capsys.readouterr().out and has_picture("r.png")


def test_robertsons_jacobian(example):
    euler = example("implicit_euler_njit")
    import nbgrad as ng

    y = np.array([0.7, 2e-5, 0.3])
    f, jacobian = euler.rate_and_jacobian(ng.tensor(y))
    assert abs(f.sum()) < 1e-12
    want = [
        [-0.04, 1e4 * y[2], 1e4 * y[1]],
        [0.04, -1e4 * y[2] - 6e7 * y[1], -1e4 * y[1]],
        [0.0, 6e7 * y[1], 0.0],
    ]
    assert np.allclose(jacobian.numpy(), want, rtol=1e-13)


def test_wrong_budgets_of_the_integrator_are_refused(example, capsys):
    euler = example("implicit_euler_njit")
    with pytest.raises(SystemExit):
        euler.main(["--end", "0"])
    assert "must be positive" in capsys.readouterr().err


def test_scipy_solves_with_compiled_derivatives(example, capsys):
    scipy_callbacks = example("scipy_callbacks")
    result = scipy_callbacks.main(["--out", "c.png"])
    assert result.oscillation.solution.success and has_picture("c.png")
    assert result.oscillation.calls < result.oscillation.without
    assert result.minimum.success and np.abs(result.minimum.jac).max() < 1e-8
    assert np.abs(result.fit.x - scipy_callbacks.TRUTH).max() < 0.02
    x = np.linspace(0, 1, result.bratu.x.size + 2)[1:-1]
    assert np.abs(result.bratu.x - scipy_callbacks.bratu_exact(x)).max() < 1e-4
    from scipy.special import ellipe

    assert abs(result.length - 2 * np.sqrt(2) * ellipe(0.5)) < 1e-11
    assert "without Python" in capsys.readouterr().out


def test_the_film_is_a_minimum(example):
    heights, found = example("scipy_callbacks").film(6)
    n = heights.shape[0]
    import nbgrad as ng

    frame = heights.copy()
    frame[1:-1, 1:-1] = 0
    area = example("scipy_callbacks").area
    least = area(ng.tensor(heights[1:-1, 1:-1]), ng.tensor(frame)).item()
    assert abs(least - found.fun) < 1e-12
    rng = np.random.default_rng(0)
    for _ in range(5):
        bump = 0.05 * rng.normal(size=(n - 2, n - 2))
        assert area(ng.tensor(heights[1:-1, 1:-1] + bump), ng.tensor(frame)).item() > least
