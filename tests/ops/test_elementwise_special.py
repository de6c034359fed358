"""Elementwise operators at NaN, infinities, signed zeros, huge and subnormal numbers, and on integers and bools."""

import math

import numpy as np
import pytest

import nbgrad as ng

F = ng.nn.functional
F64, F32 = np.float64, np.float32
INF, NAN = math.inf, math.nan


# -- special values -----------------------------------------------------------------------------------------

SPECIAL = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    1e300,
    -1e300,
    5e-324,
    -5e-324,
]
NUMPY_UNARY = [
    "abs", "sqrt", "square", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
    "arctanh", "floor", "ceil", "trunc", "sign", "isnan", "isinf", "isfinite", "isposinf",
    "isneginf", "signbit", "cbrt", "negative", "deg2rad", "rad2deg", "nan_to_num", "logical_not",
]  # fmt: skip
NUMPY_BINARY = [
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "fmax", "fmin",
    "arctan2", "hypot", "logaddexp", "logaddexp2", "copysign", "remainder", "fmod", "floor_divide",
    "heaviside", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor",
]  # fmt: skip


def same_specials(got, want, dtype, where):
    """Equal NaNs, infinities, signs of zero; finite values within 4 ulp."""
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype == bool:
        np.testing.assert_array_equal(got, want, err_msg=where)
        return
    tol = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, want, rtol=tol, atol=0, equal_nan=True, err_msg=where)
    zero = (want == 0) & (got == 0) & (where not in ("fmax", "fmin"))  # C leaves that sign open
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), err_msg=where)


def huge_trigonometric(name, x):
    """sin(1e300) is right or wrong by its argument reduction alone, which the kernels document."""
    return (np.abs(x) > 1e200) if name in ("sin", "cos", "tan") else np.zeros(x.shape, bool)


@pytest.mark.parametrize("dtype", [F64, F32])
@pytest.mark.parametrize("name", NUMPY_UNARY)
def test_special_values_unary(name, dtype):
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL, dtype)
        x = x[~huge_trigonometric(name, x)]
        want = getattr(np, name)(x)
        fn = getattr(ng, "abs" if name == "abs" else name)
    same_specials(fn(ng.tensor(x)).numpy(), want, dtype, name)


@pytest.mark.parametrize("dtype", [F64, F32])
@pytest.mark.parametrize("name", NUMPY_BINARY)
def test_special_values_binary(name, dtype):
    with np.errstate(all="ignore"):
        values = np.array([v for v in SPECIAL if abs(v) != 1e300 and abs(v) != 5e-324], dtype)
        x, y = (a.ravel() for a in np.meshgrid(values, values))
        want = getattr(np, name)(x, y)
    fn = getattr(ng, {"equal": "eq"}.get(name, name))
    same_specials(fn(ng.tensor(x), ng.tensor(y)).numpy(), want, dtype, name)


def test_special_values_of_special_functions():
    from scipy import special as sp

    x = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, 2.0, 0.5])
    for fn, ref in (
        (ng.erf, sp.erf), (ng.erfc, sp.erfc), (ng.digamma, sp.digamma),
        (ng.sigmoid, sp.expit), (ng.sinc, np.sinc), (ng.lgamma, sp.gammaln),
    ):  # fmt: skip
        with np.errstate(all="ignore"):
            want = ref(x)
        if fn is ng.sinc:
            want[np.isinf(x)] = 0.0  # the limit; NumPy's sin(inf)/inf is NaN
        if fn is ng.lgamma:
            want[2] = INF  # C's lgamma(-inf)
        np.testing.assert_allclose(fn(ng.tensor(x)).numpy(), want, rtol=1e-14, atol=1e-16)
    edge = ng.erfinv(ng.tensor([-1.0, 1.0, 1.5, NAN, -0.0])).numpy()
    assert edge[0] == -INF and edge[1] == INF and np.isnan(edge[2:4]).all()
    assert edge[4] == 0 and np.signbit(edge[4])
    poles = ng.tensor([0.0, -1.0, -7.0])
    assert np.isposinf(ng.polygamma(1, poles).numpy()).all()
    assert np.isnan(ng.digamma(poles[1:]).numpy()).all()


def test_saturating_activations_at_infinity():
    x = ng.tensor([-INF, INF])
    assert F.silu(x).tolist() == [0.0, INF]
    assert F.gelu(x).tolist() == [0.0, INF]
    assert F.gelu(x, "tanh").tolist() == [0.0, INF]
    assert F.softplus(x).tolist() == [0.0, INF]
    assert F.elu(x).tolist() == [-1.0, INF]


# -- integers, bools ------------------------------------------------------------------------------------------

INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8]


@pytest.mark.parametrize("dtype", INTS)
def test_integer_arithmetic_is_numpys(dtype):
    info = np.iinfo(dtype)
    values = np.array([info.min, info.min + 1, 0, 1, 2, 5, info.max - 1, info.max], dtype)
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    x, y = ng.tensor(a), ng.tensor(b)
    with np.errstate(all="ignore"):
        for name in ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_and",
                     "bitwise_or", "bitwise_xor", "less", "greater_equal"):  # fmt: skip
            got = getattr(ng, name)(x, y).numpy()
            want = getattr(np, name)(a, b)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want, err_msg=name)
        nz = b != 0
        for name in ("floor_divide", "remainder", "fmod"):
            got = getattr(ng, name)(ng.tensor(a[nz]), ng.tensor(b[nz])).numpy()
            np.testing.assert_array_equal(got, getattr(np, name)(a[nz], b[nz]), err_msg=name)
        for name in ("negative", "abs", "square", "sign", "bitwise_not", "floor", "isnan"):
            got, want = getattr(ng, name)(ng.tensor(values)).numpy(), getattr(np, name)(values)
            np.testing.assert_array_equal(got, want, err_msg=name)
        e = np.array([0, 1, 2, 3, 7, 40], dtype)
        np.testing.assert_array_equal(
            ng.power(ng.tensor(values)[:, None], ng.tensor(e)).numpy(), values[:, None] ** e
        )


@pytest.mark.parametrize("dtype", INTS)
def test_shifts(dtype):
    bits = 8 * np.dtype(dtype).itemsize
    x = np.array([1, 3, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    for k in range(bits):
        np.testing.assert_array_equal((ng.tensor(x) << k).numpy(), x << dtype(k))
        np.testing.assert_array_equal((ng.tensor(x) >> k).numpy(), x >> dtype(k))
    assert (ng.tensor(x) << bits).tolist() == [0, 0, 0, 0]
    assert (ng.tensor(x) >> bits).tolist() == [0, 0, 0, -1 if np.iinfo(dtype).min else 0]


def test_bools():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    x, y = ng.tensor(a), ng.tensor(b)
    for name in ("add", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or",
                 "bitwise_xor", "logical_and", "logical_or", "logical_xor", "equal", "less"):  # fmt: skip
        got, want = (
            getattr(ng, {"equal": "eq"}.get(name, name))(x, y).numpy(),
            getattr(np, name)(a, b),
        )
        assert got.dtype == bool
        np.testing.assert_array_equal(got, want, err_msg=name)
    np.testing.assert_array_equal((~x).numpy(), ~a)
    assert (x + 1).dtype == ng.int64 and (x * 0.5).dtype == ng.float64
    assert ng.logical_not(ng.tensor([0j, 1j, NAN])).tolist() == [True, False, False]
