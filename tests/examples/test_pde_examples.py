"""The examples of ``ng.pde``, with small budgets."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import nbgrad as ng


def has_picture(path):
    if importlib.util.find_spec("matplotlib") is None:
        return not Path(path).exists()
    return Path(path).read_bytes()[:4] == b"\x89PNG"


def test_poisson_is_solved(example, capsys):
    result = example("poisson_2d").main(["--steps", "60", "--points", "200", "--out", "p.png"])
    assert result.after < 0.2 * result.before and result.error < 0.15
    assert "largest error" in capsys.readouterr().out and has_picture("p.png")


def test_the_poisson_source_belongs_to_the_exact_solution(example):
    poisson = example("poisson_2d")
    x = ng.tensor(np.random.default_rng(0).uniform(0, 1, (20, 2)))
    lap = ng.pde.laplacian(poisson.exact)(x)
    assert ng.allclose(lap + poisson.source(x), ng.zeros(20), atol=1e-12)


def test_high_dimensional_estimates_know_their_errors(example):
    args = ["--dimensions", "30", "--points", "60", "--steps", "3", "--out", "h.png"]
    result = example("high_dimensional_laplacian").main(args)
    assert result.difference < 1e-10 and has_picture("h.png")
    for row in result.rows:
        assert 0.6 < row.error / row.told < 1.6
    assert result.rows[-1].told < 0.7 * result.rows[0].told


def test_the_taylor_green_vortex_solves_the_navier_stokes_equations(example):
    result = example("navier_stokes_stream").main(100, "v.png")
    assert result.right < 1e-13 and result.wrong > 1e-2
    assert abs(result.viscosity - 0.05) < 1e-12 and has_picture("v.png")


def test_the_allen_cahn_solution_solves_its_equation(example):
    field = example("allen_cahn").spectral(512, 401, 2)
    a, b = 1e-4, 5.0
    h, dx = field.t[1], field.x[1] - field.x[0]
    u = field.u[:, 100:300]
    u_t = (field.u[:, 101:301] - field.u[:, 99:299]) / (2 * h)
    u_xx = (np.roll(u, 1, 0) - 2 * u + np.roll(u, -1, 0)) / dx**2
    assert np.abs(u_t - a * u_xx + b * (u**3 - u)).max() < 5e-3
    fine = example("allen_cahn").spectral(512, 401, 8)
    assert np.abs(field.u - fine.u).max() < 1e-6


@pytest.mark.parametrize("source", ["computed", "file"])
def test_allen_cahn_is_fitted(example, source):
    ac = example("allen_cahn")
    args = ["--steps", "40", "--points", "200", "--out", "a.png"]
    if source == "file":
        from scipy.io import savemat

        field = ac.spectral(64, 41, 20)
        savemat("AC.mat", {"x": field.x, "tt": field.t, "uu": field.u})
        args += ["--data", "AC.mat"]
    result = ac.main(args)
    assert result.after < 0.3 * result.before and result.error < 0.7
    assert has_picture("a.png")


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "no such file"),
        ({"x": np.ones(3)}, "no tt, uu"),
        ({"x": np.ones(3), "tt": np.ones(2), "uu": np.ones((2, 3))}, "expected"),
    ],
)
def test_wrong_allen_cahn_files_are_explained(example, content, words):
    from scipy.io import savemat

    if content is not None:
        savemat("bad.mat", content)
    with pytest.raises(SystemExit, match=words):
        example("allen_cahn").load("bad.mat")


@pytest.mark.parametrize("name", ["poisson_2d", "allen_cahn", "high_dimensional_laplacian"])
def test_wrong_budgets_are_refused(example, name, capsys):
    with pytest.raises(SystemExit):
        example(name).main(["--steps", "0"])
    assert "--steps" in capsys.readouterr().err
