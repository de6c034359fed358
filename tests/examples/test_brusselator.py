"""The implicit Brusselator: both solvers agree, the steps converge, the picture is drawn."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import nbgrad as ng


@pytest.fixture
def brusselator(example):
    return example("brusselator_implicit")


def test_both_solvers_give_the_same_field(brusselator):
    straight = brusselator.integrate(10, 10, brusselator.direct)
    krylov = brusselator.Preconditioned()
    other = brusselator.integrate(10, 10, krylov)
    assert straight.error < 1e-8 and other.error < 1e-8
    assert np.abs(straight.w - other.w).max() < 1e-6
    assert krylov.iterations > 0


def test_the_method_is_of_first_order(brusselator):
    rows = [brusselator.integrate(6, steps).w for steps in (40, 80, 160)]
    first, second = np.abs(rows[1] - rows[0]).max(), np.abs(rows[2] - rows[1]).max()
    assert 1.6 < first / second < 2.4


def test_the_jacobian_is_the_dense_one(brusselator):
    n, dt = 5, 0.1
    w, disc = brusselator.start(n), np.zeros((n, n))
    args = [ng.tensor(a) for a in (w, w, 1.5, dt, disc)]
    want = ng.func.jacfwd(brusselator.residual)(*args).numpy().reshape(2 * n * n, -1)
    found = ng.sparse_jacobian(brusselator.residual)(w, w, 1.5, dt, disc)
    assert np.allclose(found.toarray(), want, rtol=1e-13)
    assert isinstance(found, sp.csr_array) and found.nnz == 6 * found.shape[0]


def test_the_script_reports_and_draws(brusselator, capsys):
    result = brusselator.main(
        ["--n", "8", "--steps", "8", "--solver", "gmres", "--out", "picture.png"]
    )
    text = capsys.readouterr().out
    assert "128 x 128, 768 entries" in text and "GMRES iterations" in text
    assert np.isfinite(result.w).all()
    assert Path("picture.png").exists() == bool(importlib.util.find_spec("matplotlib"))


def test_too_long_steps_are_said_to_be(brusselator):
    with pytest.raises(RuntimeError, match="take more steps"):
        brusselator.integrate(6, 1, most=2)
