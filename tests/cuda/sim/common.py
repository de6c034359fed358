"""Helpers of the simulator tests."""

import numpy as np

import nbgrad as ng
from kernels_cuda import _compat

assert _compat.simulated(), "run through tests/cuda/test_simulator.py"


def on_both(fn, *arrays, rtol=1e-12):
    """Run a function on CPU tensors and on CUDA tensors over the same arrays; compare and return the CUDA result."""
    want = fn(*[ng.tensor(a) for a in arrays])
    got = fn(*[ng.tensor(a, device="cuda") for a in arrays])
    same(got, want, rtol)
    return got


def same(got, want, rtol=1e-12):
    """Values, shape and dtype agree, and the result is where it should be."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol)
        return
    assert str(got.device) == "cuda:0"
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    a, b = got.detach().cpu().numpy(), want.detach().numpy()
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def rng():
    """A seeded generator."""
    return np.random.default_rng(0)
