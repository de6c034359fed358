"""Adjoint kernels in the simulator, compared with the njit twin's gradients on the CPU."""

import numpy as np
import pytest
from cuda_kernels import cases, expected, newton, pairwise, shadows
from numba import cuda

import nbgrad as ng
from kernels_cuda import _compat

assert _compat.simulated(), "run through tests/njit/test_cuda_njit.py"


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.kernel.__name__)
def test_adjoint(case):
    where, seeds, want = expected(case)
    adj = ng.njit.cuda.vjp(case.kernel, where, **case.options)
    got = shadows(case, where, seeds)
    args = [np.copy(a) if isinstance(a, np.ndarray) else a for a in case.args]
    adj[case.launch](*args, *got)
    for k, g, w in zip(where, got, want, strict=True):
        np.testing.assert_allclose(
            g, np.broadcast_to(w, g.shape), rtol=1e-10, atol=1e-12, err_msg=str(k)
        )


def test_shadows_are_added_to_and_every_array_has_one_by_default():
    case = next(c for c in cases() if c.kernel is pairwise)
    _, seeds, want = expected(case)
    x, w, y, scale = case.args
    dx, dw, dy = np.ones_like(x), np.ones_like(w), seeds[0].copy()
    ng.njit.cuda.vjp(pairwise)[case.launch](x, w, y.copy(), scale, dx, dw, dy)
    np.testing.assert_allclose(dx, 1 + want[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(dw, 1 + want[1], rtol=1e-10, atol=1e-12)
    assert not dy.any()


def test_device_arrays():
    case = cases()[0]
    where, seeds, want = expected(case)
    args = [cuda.to_device(a) for a in case.args]
    got = [cuda.to_device(s) for s in shadows(case, where, seeds)]
    ng.njit.cuda.vjp(case.kernel, where)[case.launch](*args, *got)
    np.testing.assert_allclose(got[0].copy_to_host(), want[0], rtol=1e-10, atol=1e-12)


def test_a_thread_that_needs_more_than_its_share_of_the_stack():
    x = np.linspace(1, 8, 8)
    y, dx, dy = np.zeros(8), np.zeros(8), np.ones(8)
    with pytest.raises(
        ng.errors.OutOfMemoryError, match=r"'newton' keeps more than 2 values .* tape="
    ):
        ng.njit.cuda.vjp(newton, tape=2)[1, 8](x, y, dx, dy)
    dx, dy = np.zeros(8), np.ones(8)
    ng.njit.cuda.vjp(newton, tape=64)[1, 8](x, y, dx, dy)
    np.testing.assert_allclose(dx, x / np.sqrt(x * x + 1), rtol=1e-9)
