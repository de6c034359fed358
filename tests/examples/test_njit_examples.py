"""The examples of ``ng.njit``: each finds what it looks for, and an independent fact about each model holds."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

import nbgrad as ng

pytestmark = pytest.mark.slow


def has_picture(path):
    if importlib.util.find_spec("matplotlib") is None:
        return not Path(path).exists()
    return Path(path).read_bytes()[:4] == b"\x89PNG"


def test_the_pde_is_fitted_and_its_errors_are_told(example, capsys):
    fit = example("njit_fit_pde")
    result = fit.main(["--cells", "30", "--plot", "p.png"])
    assert np.abs(result.theta / fit.TRUTH - 1).max() < 0.1
    assert "d left" in capsys.readouterr().out and has_picture("p.png")


def test_the_rods_control_is_that_of_linear_algebra(example, capsys):
    control = example("njit_heat_control")
    result = control.main(["--cells", "20", "--times", "10", "--plot", "c.png"])
    assert result.difference < 1e-6
    assert "without control" in capsys.readouterr().out and has_picture("c.png")


def test_dear_control_is_not_used(example):
    assert np.abs(example("njit_heat_control").solve(10, 5, 1e6).control).max() < 1e-3


def test_the_orbit_is_found(example, capsys):
    result = example("njit_orbit").main(["--seed", "1", "--plot", "o.png"])
    assert result.distance < 5 and result.residuals[-1] < 1.2
    assert "stations" in capsys.readouterr().out and has_picture("o.png")


def test_motion_conserves_energy_and_the_axial_angular_momentum(example):
    orbit = example("njit_orbit")

    def invariants(s):
        r = np.linalg.norm(s[:3])
        oblate = 0.5 * orbit.J2 * (orbit.RADIUS / r) ** 2 * (1 - 3 * (s[2] / r) ** 2)
        energy = 0.5 * s[3:] @ s[3:] - orbit.MU / r * (1 + oblate)
        return np.array([energy, s[0] * s[4] - s[1] * s[3]])

    s = orbit.TRUTH
    for _ in range(300):
        s = orbit.step(s, 10.0)
    assert np.abs(invariants(s) / invariants(orbit.TRUTH) - 1).max() < 1e-8


def test_hestons_parameters_are_found(example, capsys):
    heston = example("njit_heston")
    result = heston.main(["--plot", "h.png"])
    assert np.abs(result.params - heston.TRUTH).max() < 1e-6
    assert "kappa" in capsys.readouterr().out and has_picture("h.png")
    heston.check(heston.calibrate(heston.market(0.01, 3)), 0.01)


def test_heston_without_fluctuation_is_black_scholes(example):
    heston = example("njit_heston")
    strikes, t, vol = np.array([85.0, 100.0, 120.0]), 0.8, 0.3
    params = np.array([2.0, vol**2, 1e-4, 0.0, vol**2])
    got = heston.call_prices(params, strikes, np.full(3, t), *heston.quadrature())
    for price, k in zip(got, strikes, strict=True):
        d = (math.log(heston.SPOT / k) + heston.RATE * t) / (vol * t**0.5) + 0.5 * vol * t**0.5
        first, second = (0.5 * math.erfc(-x / 2**0.5) for x in (d, d - vol * t**0.5))
        assert price == pytest.approx(
            heston.SPOT * first - k * math.exp(-heston.RATE * t) * second, abs=1e-5
        )


def test_implicit_gradients_are_those_through_the_iterations(example, capsys):
    newton = example("njit_implicit_newton")
    result = newton.main(["--cells", "16", "--plot", "n.png"])
    assert result.apart < 1e-10
    assert "gradients" in capsys.readouterr().out and has_picture("n.png")
    others = newton.setting(16)
    gradient = ng.njit.value_and_grad(newton.misfit)(newton.GUESS, *others)[1]
    for k, h in enumerate(1e-4 * newton.GUESS):
        step = h * np.eye(4)[k]
        up, down = (newton.misfit(newton.GUESS + s * step, *others) for s in (1, -1))
        assert gradient[k] == pytest.approx((up - down) / (2 * h), rel=1e-6)


@pytest.mark.parametrize(
    "name, option",
    [
        ("njit_fit_pde", "--cells"),
        ("njit_heat_control", "--times"),
        ("njit_orbit", "--minutes"),
        ("njit_heston", "--steps"),
        ("njit_implicit_newton", "--cells"),
    ],
)
def test_wrong_budgets_are_refused(example, name, option, capsys):
    with pytest.raises(SystemExit):
        example(name).main([option, "0"])
    assert option in capsys.readouterr().err
