"""The main job: identify Burgers' equation from a field."""

import builtins
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

import nbgrad as ng

ROOT = Path(__file__).parents[2]
PLACES = [Path(os.environ.get("NBGRAD_DATA", "/nonexistent")), ROOT.parent / "shared" / "data"]
REAL = next(
    (
        f
        for p in PLACES
        for f in (p / "pde/burgers_shock.mat", p / "burgers_shock.mat")
        if f.is_file()
    ),
    None,
)


@pytest.fixture
def burgers(example):
    return example("burgers_identify")


def small_field(burgers, n=40, m=30):
    return burgers.exact(n, m, nodes=100)


def forward_difference_residual(u, x, t, l1, l2, h=1e-4):
    u_t = (u(x, t + h) - u(x, t - h)) / (2 * h)
    u_x = (u(x + h, t) - u(x - h, t)) / (2 * h)
    u_xx = (u(x + h, t) - 2 * u(x, t) + u(x - h, t)) / h**2
    return u_t + l1 * u(x, t) * u_x - l2 * u_xx


def test_the_exact_solution_solves_the_equation(burgers):
    def u(x, t):
        nu = burgers.TRUTH[1]
        y, w = np.polynomial.hermite.hermgauss(200)
        z = x - np.sqrt(4 * nu * t) * y
        f = w * np.exp(-np.cos(np.pi * z) / (2 * np.pi * nu))
        return -(np.sin(np.pi * z) * f).sum() / f.sum()

    field = burgers.exact(9, 3)
    assert np.allclose(field.u[:, 0], -np.sin(np.pi * field.x), atol=1e-12)
    assert abs(field.u[2, 1] - u(field.x[2], field.t[1])) < 1e-12
    for x, t in ((0.5, 0.2), (-0.3, 0.6), (0.02, 0.3)):
        assert abs(forward_difference_residual(u, x, t, *burgers.TRUTH)) < 1e-3


@pytest.mark.parametrize("way", ["jet", "nested"])
def test_both_ways_give_the_residual_of_finite_differences(burgers, way):
    field = small_field(burgers)
    model = burgers.Model(field, 6, 2)
    theta = model.start(np.random.default_rng(0))
    parts, _, _ = model.unpack(ng.tensor(theta))
    x, t = np.array([[0.3], [-0.8], [0.01]]), np.array([[0.1], [0.5], [0.9]])

    def u(x, t):
        return model(parts, ng.tensor(x), ng.tensor(t)).numpy()

    l1, l2 = ng.tensor(0.7), ng.tensor(0.2)
    value, r = burgers.RESIDUALS[way](model, parts, ng.tensor(x), ng.tensor(t), l1, l2)
    assert np.allclose(value.detach().numpy(), u(x, t), rtol=1e-13)
    want = forward_difference_residual(u, x, t, 0.7, 0.2)
    assert np.allclose(r.detach().numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["jet", "nested"])
def test_the_gradient_of_the_loss_matches_differences(burgers, way):
    field = small_field(burgers)
    model = burgers.Model(field, 5, 2)
    rng = np.random.default_rng(1)
    fit = burgers.Fit(model, burgers.choose(field, 50, rng), burgers.RESIDUALS[way])
    theta, v = model.start(rng), rng.normal(size=model.start(rng).size)
    theta[-2:] = 0.5, -1.0
    h = 1e-6
    slope = (fit(theta + h * v)[0] - fit(theta - h * v)[0]) / (2 * h)
    assert abs(fit(theta)[1] @ v - slope) < 1e-6 * max(1, abs(slope))


# the generated field always; the reference data where they are found
SOURCES = [pytest.param([], id="generated")]
if REAL is not None:
    SOURCES.append(pytest.param([str(REAL)], id="reference", marks=pytest.mark.data))


@pytest.mark.parametrize("data", SOURCES)
def test_small_budget_identifies_the_equation(burgers, capsys, data):
    result = burgers.main([*data, "--budget", "small", "--out", "picture.png"])
    text = capsys.readouterr().out
    assert result.error_l1 < 0.1 and result.error_l2 < 0.2 and result.error_u < 0.1
    assert f"u_t + {result.l1:.5f} u u_x - {result.l2:.7f} u_xx = 0" in text
    assert "error of l1, l2" in text and "relative L2" in text


@pytest.mark.parametrize("data", SOURCES)
def test_the_data_are_the_exact_solution(burgers, data):
    field = burgers.load(data[0]) if data else burgers.exact(nodes=150)
    assert np.abs(field.u - burgers.exact().u).max() < 1e-2


def test_reads_npz_and_mat_alike(burgers, tmp_path):
    from scipy.io import savemat

    field = small_field(burgers)
    np.savez(tmp_path / "f.npz", x=field.x, t=field.t, u=field.u)
    savemat(tmp_path / "f.mat", {"x": field.x, "t": field.t, "usol": field.u})
    a, b = burgers.load(str(tmp_path / "f.npz")), burgers.load(str(tmp_path / "f.mat"))
    for i in range(3):
        assert np.array_equal(a[i], b[i]) and np.array_equal(a[i], field[i])


@pytest.mark.parametrize(
    "content, words",
    [
        ({"x": np.ones(3), "t": np.ones(2)}, ["has no u (or usol)", "x, t"]),
        ({"u": np.ones((3, 2)), "t": np.ones(2)}, ["has no x"]),
        ({"u": np.ones((2, 3)), "x": np.ones(3), "t": np.ones(2)}, ["(2, 3)", "(3, 2)"]),
        ({"u": np.full((3, 2), np.nan), "x": np.ones(3), "t": np.ones(2)}, ["NaN"]),
        ({"u": np.ones((3, 2)) + 1j, "x": np.ones(3), "t": np.ones(2)}, ["complex"]),
    ],
)
def test_wrong_files_are_explained(burgers, tmp_path, content, words):
    np.savez(tmp_path / "bad.npz", **content)
    with pytest.raises(SystemExit) as e:
        burgers.load(str(tmp_path / "bad.npz"))
    assert all(w in str(e.value) for w in words), str(e.value)


def test_missing_files_and_other_formats_are_explained(burgers):
    for path, word in (("nothing.npz", "no such file"), ("data.csv", ".mat or .npz")):
        with pytest.raises(SystemExit, match=word):
            burgers.load(path)
    for ending in ("npz", "mat"):
        Path(f"broken.{ending}").write_bytes(b"this is no data file" * 20)
        with pytest.raises(SystemExit, match="cannot be read"):
            burgers.load(f"broken.{ending}")


def test_without_the_optional_packages_it_says_so_and_goes_on(burgers, monkeypatch, capsys):
    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("matplotlib", "tqdm"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    budget = burgers.Budget(width=4, depth=1, points=50, adam=3, iterations=3)
    burgers.identify(small_field(burgers), budget, out="picture.png")
    shown = capsys.readouterr()
    assert "pip install 'nbgrad[plot]'" in shown.out
    assert "/6  loss" in shown.err
    assert not Path("picture.png").exists()


def test_the_picture_is_written_where_matplotlib_is_installed(burgers):
    budget = burgers.Budget(width=4, depth=1, points=50, adam=2, iterations=2)
    burgers.identify(small_field(burgers), budget, quiet=True, out="picture.png")
    if importlib.util.find_spec("matplotlib") is None:
        assert not Path("picture.png").exists()
    else:
        assert Path("picture.png").read_bytes()[:4] == b"\x89PNG"
