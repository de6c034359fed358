"""Elementwise operators on complex tensors: values, branch cuts, gradients, parts."""

import math

import mpmath as mp
import numpy as np
import pytest

import nbgrad as ng

F = ng.nn.functional
RNG = np.random.default_rng(20241)
INF = math.inf


# -- complex -------------------------------------------------------------------------------------------------

COMPLEX = [
    "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "abs", "angle", "square",
    "reciprocal", "conj", "exp2",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_values(name, dtype):
    real = RNG.uniform(-3, 3, (2, 60))
    z = (real[0] + 1j * real[1]).astype(dtype)
    got, want = getattr(ng, name)(ng.tensor(z)).numpy(), getattr(np, name)(z.astype(complex))
    assert got.dtype == getattr(np, name)(z).dtype
    np.testing.assert_allclose(got, want, rtol=60 * np.finfo(dtype).eps)


def test_complex_division_and_powers():
    z = ng.tensor([3 + 4j, 1e200 + 1e200j, 1 + 1j, 1 + 0j])
    w = ng.tensor([1 - 2j, 1e200 - 1e200j, 1e-200 + 1e-200j, 0j])
    got = (z / w).numpy()
    np.testing.assert_allclose(got[:3], [-1 + 2j, 1j, 1e200], rtol=1e-15)
    assert got[3].real == INF
    assert (1 / ng.tensor([complex(INF, 0)])).tolist() == [0j]
    base = np.array([0j, 1j, -2 + 1j, 0.5 - 3j])
    for e in (0, 1, 2, 3, 7, -0.5 + 2j, 1.5):
        known = base if complex(e).real >= 0 else base[1:]  # 0 to a negative power is infinite
        want = [complex(mp.power(complex(b), e)) if b or e == 0 else 0j for b in known]
        np.testing.assert_allclose((ng.tensor(known) ** e).numpy(), want, rtol=1e-14, atol=1e-300)


def test_branch_cuts_follow_c99():
    below, above = complex(-4.0, -0.0), complex(-4.0, 0.0)
    for name in ("sqrt", "log", "arcsin", "arccos", "arccosh", "arctanh", "arctan"):
        for z in (below, above, complex(4.0, -0.0), complex(4.0, 0.0), complex(0.0, 3.0)):
            got = complex(getattr(ng, name)(ng.tensor([z])).item())
            want = complex(getattr(np, name)(np.array([z]))[0])
            assert got == pytest.approx(want, rel=1e-14), (name, z)


def test_complex_gradients_at_the_origin_and_far_away():
    z = ng.tensor([0j, 1e-200 + 1e-200j], requires_grad=True)
    g = ng.autograd.grad(ng.angle(z).sum(), z)[0].numpy()
    assert g[0] == 0 and g[1] == pytest.approx(-5e199 + 5e199j, rel=1e-14)
    assert ng.autograd.grad(z.abs().sum(), z)[0].numpy()[0] == 0
    far = ng.tensor([1 + 400j, 2 - 800j], requires_grad=True)
    assert np.isfinite(ng.autograd.grad(ng.tan(far).abs().sum(), far)[0].numpy()).all()


def test_parts_polar_and_complex():
    r, t = ng.tensor([1.0, 2.0], requires_grad=True), ng.tensor([0.3, -2.0], requires_grad=True)
    z = ng.polar(r, t)
    np.testing.assert_allclose(z.abs().detach().numpy(), [1, 2], rtol=1e-15)
    np.testing.assert_allclose(z.angle().detach().numpy(), [0.3, -2.0], rtol=1e-15)
    gr, gt = ng.autograd.grad(z.real.sum(), (r, t))
    np.testing.assert_allclose(gr.numpy(), np.cos([0.3, -2.0]), rtol=1e-15)
    np.testing.assert_allclose(gt.numpy(), -np.array([1, 2]) * np.sin([0.3, -2.0]), rtol=1e-15)
    w = ng.complex(r, t)
    assert w.dtype == ng.complex128 and w.imag.tolist() == [0.3, -2.0]
    assert ng.autograd.grad((w * 1j).real.sum(), t)[0].tolist() == [-1.0, -1.0]
    assert ng.isreal(ng.tensor([1 + 0j, 1j])).tolist() == [True, False]


REAL_ONLY = [
    ng.cbrt, ng.floor, ng.ceil, ng.trunc, ng.round, ng.frac, ng.erf, ng.erfc, ng.erfinv, ng.lgamma,
    ng.digamma, ng.i0, ng.i1, ng.sinc, F.relu, F.gelu, F.silu, F.elu, F.selu, F.softplus, F.relu6,
    F.logsigmoid, F.leaky_relu, ng.signbit, ng.deg2rad, ng.nan_to_num, lambda z: ng.hypot(z, z),
    lambda z: ng.atan2(z, z), lambda z: ng.maximum(z, z), lambda z: z < z, lambda z: ng.fmod(z, z),
    lambda z: z // z, lambda z: z % z, lambda z: ng.clamp(z, 0, 1), lambda z: ng.logaddexp(z, z),
    lambda z: ng.xlogy(z, z), lambda z: ng.polygamma(1, z), lambda z: ng.copysign(z, z),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(REAL_ONLY)))
def test_real_functions_refuse_complex(k):
    with pytest.raises(ng.errors.DTypeError, match="complex128; expected a real dtype"):
        REAL_ONLY[k](ng.tensor([1 + 1j]))
