"""Values of the elementwise operators where random samples do not go: tails, special values, integers, promotion.

What holds for every operator at ordinary points is checked from the registry in ``test_registry.py``.
"""

import math

import mpmath as mp
import numpy as np
import pytest

import nbgrad as ng

F = ng.nn.functional
F64, F32 = np.float64, np.float32
RNG = np.random.default_rng(20240)
INF, NAN = math.inf, math.nan


def spread(*ranges, n=40):
    """Uniform points of several ranges."""
    return np.concatenate([RNG.uniform(lo, hi, n) for lo, hi in ranges])


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def softplus(x):
    return mp.log1p(mp.exp(x))


def gelu_tanh(x):
    with mp.workdps(400):
        return x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3)))


def sinc(x):
    return mp.mpf(1) if x == 0 else mp.sin(mp.pi * x) / (mp.pi * x)


# name -> (function, mpmath's, points, allowed relative error in units of the dtype's epsilon)
UNARY = {
    "cbrt": (ng.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x)), spread((-9, 9), (1e20, 1e30)), 4),
    "rsqrt": (ng.rsqrt, lambda x: 1 / mp.sqrt(x), spread((0, 9), (1e20, 1e30)), 4),
    "expm1": (ng.expm1, mp.expm1, spread((-1e-9, 1e-9), (-50, 50)), 4),
    "log1p": (ng.log1p, mp.log1p, spread((-1e-9, 1e-9), (-0.99, 50)), 4),
    "tanh": (ng.tanh, mp.tanh, spread((-1e-9, 1e-9), (-30, 30)), 4),
    "asinh": (ng.asinh, mp.asinh, spread((-1e-9, 1e-9), (-9, 9), (1e20, 1e30)), 4),
    "acosh": (ng.acosh, mp.acosh, 1 + spread((0, 1e-4), (0, 9), (1e20, 1e30)), 4),
    "atanh": (ng.atanh, mp.atanh, spread((-1e-9, 1e-9), (-0.999, 0.999)), 4),
    "sigmoid": (ng.sigmoid, sigmoid, spread((-80, 80)), 4),
    "softplus": (ng.softplus, softplus, spread((-80, 80)), 4),
    "logsigmoid": (ng.logsigmoid, lambda x: -softplus(-x), spread((-80, 80)), 4),
    "silu": (ng.silu, lambda x: x * sigmoid(x), spread((-80, 80)), 4),
    "gelu": (ng.gelu, lambda x: x * mp.ncdf(x), spread((-6, 6), (-12, -6)), 150),
    "gelu_tanh": (lambda x: ng.gelu(x, "tanh"), gelu_tanh, spread((-6, 6), (-9, -6)), 150),
    "erf": (ng.erf, mp.erf, spread((-1e-9, 1e-9), (-6, 6)), 4),
    "erfc": (ng.erfc, mp.erfc, spread((-6, 6), (6, 9)), 4),
    "erfinv": (ng.erfinv, mp.erfinv, spread((-1e-9, 1e-9), (-0.999, 0.999)), 4),
    "lgamma": (ng.lgamma, lambda x: mp.log(abs(mp.gamma(x))), spread((0.01, 9), (-4, 0)), 40),
    "digamma": (ng.digamma, mp.digamma, spread((0.01, 3), (1.4, 1.5), (3, 1e9)), 30),
    "trigamma": (lambda x: ng.polygamma(1, x), lambda x: mp.polygamma(1, x), spread((0.01, 40)), 6),
    "trigamma_left": (
        lambda x: ng.polygamma(1, x), lambda x: mp.polygamma(1, x), spread((-4, 0)), 8,
    ),
    "polygamma_5": (lambda x: ng.polygamma(5, x), lambda x: mp.polygamma(5, x), spread((0.1, 9)), 9),
    "i0": (ng.i0, lambda x: mp.besseli(0, x), spread((-25, 25), (-80, 80)), 12),
    "i1": (ng.i1, lambda x: mp.besseli(1, x), spread((-25, 25), (-80, 80)), 12),
    "sinc": (ng.sinc, sinc, spread((-1e-9, 1e-9), (-0.9, 0.9)), 4),
}  # fmt: skip


def worst_error(got, xs, exact, dtype):
    """The largest relative error in units of epsilon, where the exact value is a normal number."""
    info = np.finfo(dtype)
    worst = 0.0
    with mp.workdps(60):
        for x, y in zip(xs, got, strict=True):
            want = exact(mp.mpf(float(x)))
            if float(info.tiny) < abs(want) < float(info.max):
                error = abs(mp.mpf(float(y)) - want) / abs(want) / float(info.eps)
                worst = max(worst, float(error) if y == y else INF)
    return worst


@pytest.mark.parametrize("dtype", [F64, F32])
@pytest.mark.parametrize("name", UNARY)
def test_values_against_mpmath(name, dtype):
    fn, exact, xs, limit = UNARY[name]
    if name == "digamma" and dtype is F32:
        xs = xs[np.abs(xs - 1.4616) > 0.02]  # float32 cannot resolve the root
    xs = xs.astype(dtype)
    assert worst_error(fn(ng.tensor(xs)).numpy(), xs, exact, dtype) <= limit


def test_tails_of_float64_only():
    with mp.workdps(60):
        far = spread((-36, -12))
        assert worst_error(ng.gelu(ng.tensor(far)).numpy(), far, UNARY["gelu"][1], F64) < 1500
        near = 1 - 2.0 ** -np.arange(1, 53)
        assert worst_error(ng.erfinv(ng.tensor(near)).numpy(), near, mp.erfinv, F64) < 16
        big = spread((600, 712), (-712, -600))
        assert worst_error(ng.i0(ng.tensor(big)).numpy(), big, UNARY["i0"][1], F64) < 12
        root = 1.4616321449683623 + np.arange(-4, 5) * 1e-9
        assert worst_error(ng.digamma(ng.tensor(root)).numpy(), root, mp.digamma, F64) < 1e3


# -- derivatives at hard points ----------------------------------------------------------------------------


def reverse_orders(fn, x, n):
    """Derivatives 1..n by repeated reverse mode."""
    point = ng.tensor(x, requires_grad=True)
    y, found = fn(point), []
    for _ in range(n):
        (y,) = ng.autograd.grad(y, point, create_graph=True)
        found.append(float(y.detach()))
    return found


def forward_orders(fn, x, n):
    """Derivatives 1..n by nested forward mode."""

    def derivative(f):
        return lambda t: ng.func.jvp(f, (t,), (ng.ones_like(t),))[1]

    found = []
    for _ in range(n):
        fn = derivative(fn)
        found.append(float(fn(ng.tensor(x)).detach()))
    return found


HARD = [
    ("tanh", ng.tanh, mp.tanh, (0.0, 1e-8, 10.0, -18.0, 300.0)),
    ("sigmoid", ng.sigmoid, sigmoid, (0.0, 37.0, -37.0, 500.0, -500.0)),
    ("softplus", F.softplus, softplus, (0.0, 21.0, 37.42994775023705, -40.0)),
    ("logsigmoid", F.logsigmoid, lambda x: -softplus(-x), (0.0, 21.0, -40.0)),
    ("silu", F.silu, lambda x: x * sigmoid(x), (0.0, 30.0, -30.0)),
    ("gelu", F.gelu, lambda x: x * mp.ncdf(x), (0.0, 5.0, -5.0, -20.0)),
    ("gelu_tanh", lambda x: F.gelu(x, "tanh"), gelu_tanh, (0.0, 2.0, -4.0)),
    ("erf", ng.erf, mp.erf, (0.0, 1e-9, 5.0, -20.0)),
    ("erfc", ng.erfc, mp.erfc, (0.0, 10.0, 25.0)),
    ("erfinv", ng.erfinv, mp.erfinv, (0.0, 0.5, -0.999)),
    ("expm1", ng.expm1, mp.expm1, (0.0, -50.0)),
    ("log1p", ng.log1p, mp.log1p, (0.0, 1e-12, 1e9)),
    ("asinh", ng.asinh, mp.asinh, (0.0, 3.0, 1e60)),
    ("acosh", ng.acosh, mp.acosh, (1.0 + 1e-6, 1e60)),
    ("atanh", ng.atanh, mp.atanh, (0.0, 0.999999)),
    ("asin", ng.asin, mp.asin, (0.0, 0.999999)),
    ("atan", ng.atan, mp.atan, (0.0, 2.0)),
    ("lgamma", ng.lgamma, lambda x: mp.log(abs(mp.gamma(x))), (0.1, 2.0, 30.0, -1.3)),
    ("digamma", ng.digamma, mp.digamma, (0.1, 1.4616321449683622, 30.0, -2.6)),
    ("i0", ng.i0, lambda x: mp.besseli(0, x), (0.0, 1e-6, 3.0, 25.0)),
    ("i1", ng.i1, lambda x: mp.besseli(1, x), (0.0, 1e-6, 3.0, -25.0)),
    ("sinc", ng.sinc, sinc, (0.0, 1e-6, 0.3, 1.0, 4.2)),
    ("rsqrt", ng.rsqrt, lambda x: 1 / mp.sqrt(x), (1e-10, 1e10)),
    ("cbrt", ng.cbrt, mp.cbrt, (1e-6, 8.0)),
    ("logaddexp", lambda x: ng.logaddexp(x, 1.5), lambda x: mp.log(mp.exp(x) + mp.exp(1.5)),
     (1.5, 40.0, -40.0)),
    ("pow", lambda x: x**3.0, lambda x: x**3, (0.0, -2.0, 5.0)),
    ("exponent", lambda x: 2.0**x, lambda x: 2**x, (0.0, -3.0)),
    ("hypot", lambda x: ng.hypot(x, 1e-10), lambda x: mp.sqrt(x * x + mp.mpf(1e-10) ** 2), (1.0,)),
    ("atan2", lambda x: ng.atan2(x, -1.0), lambda x: mp.pi + mp.atan(-x), (0.5, 1e-9)),
]  # fmt: skip


def exact_derivatives(exact, x, n):
    """mpmath's derivatives 1..n, by differences at high precision."""
    digits = 120 if abs(x) < 100 else 900  # saturated functions: 1 - 1e-260
    with mp.workdps(digits):
        point, h = mp.mpf(x), mp.mpf(10) ** (-digits // 4)
        return [float(mp.diff(exact, point, k, h=h)) for k in range(1, n + 1)]


@pytest.mark.parametrize("name, fn, exact, points", HARD, ids=[h[0] for h in HARD])
def test_three_derivatives_in_both_modes(name, fn, exact, points):
    for x in points:
        want = exact_derivatives(exact, x, 3)
        for mode in (reverse_orders, forward_orders):
            got = mode(fn, x, 3)
            for k, (g, w) in enumerate(zip(got, want, strict=True), 1):
                smallest = 1e-14 * max(abs(v) for v in want) if abs(x) < 0.5 else 1e-300
                assert g == pytest.approx(w, rel=2e-11, abs=max(smallest, 1e-300)), (x, k, mode)


def test_atan2_and_hypot_far_from_one():
    for size in (1e-200, 1.0, 1e200):
        y, x = (ng.tensor(size, requires_grad=True) for _ in range(2))
        gy, gx = ng.autograd.grad(ng.atan2(y, x), (y, x))
        assert float(gy) == pytest.approx(0.5 / size, rel=1e-14)
        assert float(gx) == pytest.approx(-0.5 / size, rel=1e-14)
        gy, gx = ng.autograd.grad(ng.hypot(y, x), (y, x))
        assert float(gy) == float(gx) == pytest.approx(math.sqrt(0.5), rel=1e-14)


# -- conventions at kinks and singular points ---------------------------------------------------------------


def both_modes(fn, *values):
    """First derivatives in every argument, by reverse and by forward mode (they must agree)."""
    leaves = [ng.tensor(float(v), requires_grad=True) for v in values]
    rev = ng.autograd.grad(fn(*leaves), leaves, allow_unused=True, materialize_grads=True)
    rev = [float(g) for g in rev]
    fwd = []
    for i in range(len(values)):
        ts = [ng.tensor(1.0 if i == j else 0.0) for j in range(len(values))]
        fwd.append(float(ng.func.jvp(fn, tuple(ng.tensor(float(v)) for v in values), tuple(ts))[1]))
    assert rev == fwd, f"reverse {rev}, forward {fwd}"
    return rev


CONVENTIONS = [
    (ng.abs, (0,), [0]),
    (ng.relu, (0,), [0]),
    (ng.sgn, (0,), [0]),
    (ng.floor, (2,), [0]),
    (ng.round, (2.5,), [0]),
    (lambda x: ng.clamp(x, 0, 6), (0,), [0]),
    (lambda x: ng.clamp(x, 0, 6), (6,), [0]),
    (lambda x: ng.clamp(x, 0, 6), (3,), [1]),
    (ng.clamp, (0, 0, 6), [0, 1, 0]),
    (ng.clamp, (6, 0, 6), [0, 0, 1]),
    (ng.clamp, (1, 5, 2), [0, 0, 1]),
    (lambda x: ng.clamp(x, min=0), (0,), [0]),
    (lambda x: ng.clamp(x, max=0), (0,), [0]),
    (F.relu6, (0,), [0]),
    (F.relu6, (6,), [0]),
    (F.hardtanh, (1,), [0]),
    (ng.maximum, (1, 1), [0.5, 0.5]),
    (ng.minimum, (1, 1), [0.5, 0.5]),
    (ng.fmax, (1, 1), [0.5, 0.5]),
    (ng.fmax, (NAN, 1), [0, 1]),
    (ng.fmin, (1, NAN), [1, 0]),
    (ng.hypot, (0, 0), [0, 0]),
    (ng.atan2, (0, 0), [0, 0]),
    (ng.logaddexp, (-INF, -INF), [0, 0]),
    (ng.logaddexp, (INF, INF), [0.5, 0.5]),
    (ng.logaddexp, (-INF, 1), [0, 1]),
    (lambda x: x**0, (0,), [0]),
    (lambda x: x**1.0, (0,), [1]),
    (lambda x: x**2.0, (0,), [0]),
    (lambda x, y: x**y, (0, 2), [0, 0]),
    (lambda x, y: x**y, (0, 0), [0, 0]),
    (lambda x: ng.xlogy(x, 0.0), (0,), [0]),
    (lambda y: ng.xlogy(0.0, y), (0,), [0]),
    (lambda x: ng.sqrt(ng.relu(x)), (-10,), [0]),
    (lambda x: ng.sqrt(ng.clamp(x, min=0)), (-10,), [0]),
    (lambda x: ng.sqrt(ng.maximum(x, ng.tensor(0.0))), (-10,), [0]),
    (lambda x: ng.where(x > 2, ng.log2(x), 2 * x), (0,), [2]),
    (lambda x: ng.where(x > 0, ng.sqrt(x), 0.0), (-1,), [0]),
    (lambda x: ng.nan_to_num(x, 3.0), (NAN,), [0]),
    (lambda x: ng.leaky_relu(x, 0.1), (0,), [0.1]),
    (lambda x: F.elu(x), (0,), [1]),
    (lambda x: F.elu(x), (800,), [1]),
    (lambda x, v: ng.heaviside(x, v), (0, 3), [0, 1]),
    (lambda x: ng.copysign(x, ng.tensor(-0.0)), (2,), [-1]),
    (lambda x, y: ng.remainder(x, y), (-7, 3), [1, 3]),
    (lambda x, y: ng.fmod(x, y), (-7, 3), [1, 2]),
    (lambda x, y: x // y, (-7, 3), [0, 0]),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(CONVENTIONS)))
def test_convention(k):
    fn, at, want = CONVENTIONS[k]
    assert both_modes(fn, *at) == want


def test_zero_wins_survives_to_second_order():
    s0 = math.sin(0.7)

    def f(x):
        return ng.where(x > 0, (ng.sin(x) - s0) ** 2, ng.log(x))

    assert reverse_orders(f, 0.7, 2)[1] == pytest.approx(2 * math.cos(0.7) ** 2, rel=1e-12)
    assert forward_orders(f, 0.7, 2)[1] == pytest.approx(2 * math.cos(0.7) ** 2, rel=1e-12)


def test_mixed_second_derivative_of_pow_where_the_exponent_is_zero():
    x, y = ng.tensor(2.0, requires_grad=True), ng.tensor(0.0, requires_grad=True)
    (gx,) = ng.autograd.grad(x**y, x, create_graph=True)
    assert float(ng.autograd.grad(gx, y)[0]) == pytest.approx(0.5)
    (gy,) = ng.autograd.grad(x**y, y, create_graph=True)
    assert float(ng.autograd.grad(gy, x)[0]) == pytest.approx(0.5)


def test_taylor_of_every_order_at_the_centre():
    with mp.workdps(40):
        for fn, exact in ((ng.sinc, sinc), (ng.i0, lambda x: mp.besseli(0, x)), (ng.tanh, mp.tanh)):
            want = [float(c * mp.factorial(k)) for k, c in enumerate(mp.taylor(exact, 0, 6))]
            got = forward_orders(fn, 0.0, 6)
            assert got == pytest.approx(want[1:], rel=1e-11, abs=1e-11)


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


# -- promotion, weak scalars, names ---------------------------------------------------------------------------


def test_python_scalars_are_weak():
    x = ng.tensor([0.5, 1.5], dtype=ng.float32)
    for got in (
        x + 1, 2.5 * x, x**2, x**0.5, 2**x, x / 3, 1 / x, x // 0.2, x % 0.7, -x, ng.maximum(x, 0.1),
        ng.clamp(x, 0.0, 1.0), ng.where(x > 1, x, 0.0), ng.where(x > 1, 1.0, x), F.leaky_relu(x, 0.1),
        F.softplus(x, 2.0), F.elu(x, 0.3), ng.lerp(x, x, 0.3), ng.hypot(x, 2.0), ng.xlogy(x, 2.0),
        ng.addcmul(x, x, x, value=0.5), ng.polygamma(2, x), ng.round(x, decimals=1), ng.sinc(x),
        ng.nan_to_num(x), x.add(x, alpha=0.5), F.gelu(x), ng.logaddexp(x, 0.1), ng.digamma(x),
    ):  # fmt: skip
        assert got.dtype == ng.float32
    assert (x + 1j).dtype == ng.complex64
    n = ng.tensor([1, 2], dtype=ng.int32)
    assert (n + 1).dtype == ng.int32 and (n + 0.5).dtype == ng.float64
    assert (n / 2).dtype == ng.float64 and (n // 2).dtype == ng.int32
    assert ng.exp(n).dtype == ng.float64 and ng.clamp(n, 0, 1).dtype == ng.int32
    assert (n + x).dtype == ng.float32


def test_float32_gradients_stay_float32():
    x = ng.tensor([0.5, 1.5], dtype=ng.float32, requires_grad=True)
    for fn in (F.gelu, ng.digamma, ng.maximum, F.leaky_relu, ng.tanh, F.hardtanh, ng.atan2):
        y = fn(x, x.detach() * 2) if fn in (ng.maximum, ng.atan2) else fn(x)
        assert ng.autograd.grad(y.sum(), x)[0].dtype == ng.float32


def test_scalar_parameters_do_not_recompile():
    from nbgrad.op import REGISTRY

    x = ng.tensor([0.5, -1.5])
    F.leaky_relu(x, 0.1)
    before = len(REGISTRY["leaky_relu"].kernels)
    for slope in (0.2, 0.3, 0.4):
        np.testing.assert_allclose(F.leaky_relu(x, slope).numpy(), [0.5, -1.5 * slope])
    assert len(REGISTRY["leaky_relu"].kernels) == before


ALIASES = {
    "multiply": "mul", "subtract": "sub", "divide": "div", "negative": "neg", "absolute": "abs",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "clip": "clamp", "fix": "trunc", "sign": "sgn",
    "power": "pow", "mod": "remainder", "conjugate": "conj", "degrees": "rad2deg",
    "radians": "deg2rad", "invert": "bitwise_not", "left_shift": "bitwise_left_shift",
    "greater": "gt", "not_equal": "ne",
}  # fmt: skip


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias):
    assert getattr(ng, alias) is getattr(ng, ALIASES[alias])
    assert getattr(ng.Tensor, alias) is getattr(ng.Tensor, ALIASES[alias])


def test_python_operators():
    a = np.array([-7.5, 2.0, 3.25])
    x = ng.tensor(a)
    pairs = [
        (x // 2, a // 2), (2 // x, 2 // a), (x % 2, a % 2), (5 % x, 5 % a), (x**2, a**2),
        (2**x, 2**a), (1 - x, 1 - a), (1 / x, 1 / a), (+x, a), (-x, -a), (abs(x), np.abs(a)),
        (round(x), np.round(a)), (round(x, 1), np.round(a, 1)), (x > 0, a > 0), (x == 2, a == 2),
        (divmod(x, 2)[0], a // 2), (divmod(x, 2)[1], a % 2), (divmod(9, x)[1], 9 % a),
        (math.floor(x), np.floor(a)), (math.ceil(x), np.ceil(a)), (math.trunc(x), np.trunc(a)),
    ]  # fmt: skip
    for got, want in pairs:
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-15)
    n = ng.tensor([6, 3])
    assert (n & 2).tolist() == [2, 2] and (1 | n).tolist() == [7, 3] and (n ^ 1).tolist() == [7, 2]
    assert (~n).tolist() == [-7, -4] and (2**n).tolist() == [64, 8] and (1 << n).tolist() == [64, 8]
    assert (x == None) is False and (x != "a") is True  # noqa: E711 - Python's own rule for foreign types


def test_in_place_variants():
    x = ng.tensor([4.0, 9.0])
    y = x
    x += 1
    x -= 1
    x *= 2
    x /= 2
    x **= 2
    x //= 3
    x %= 4
    assert y is x and x.tolist() == [1.0, 3.0]
    x.add_(ng.tensor([1.0, 1.0]), alpha=-0.5).clamp_(min=1).sqrt_().neg_().abs_()
    assert x.tolist() == pytest.approx([1.0, math.sqrt(2.5)])
    assert x.addcmul_(x, x, value=0.0).mul_(0).cos_().tolist() == [1.0, 1.0]
    assert x.relu_().sigmoid_().round_().tolist() == [1.0, 1.0]
    n = ng.tensor([1, 2])
    n <<= 2
    n |= 1
    assert n.tolist() == [5, 9]
    with pytest.raises(ng.errors.DTypeError):
        n.div_(2)
    assert n.tolist() == [5, 9]
    leaf = ng.tensor([1.0, -2.0], requires_grad=True)
    z = leaf * 1
    z.exp_().mul_(3.0).clamp_(max=5.0)
    assert ng.autograd.grad(z.sum(), leaf)[0].tolist() == pytest.approx([0.0, 3 * math.exp(-2)])


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


# -- where, errors, the functional facade -------------------------------------------------------------------


def test_where_with_numbers_and_with_one_argument():
    c = ng.tensor([True, False, True])
    x = ng.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert ng.where(c, 0.5, x).tolist() == [0.5, 2.0, 0.5]
    assert ng.where(c, x, -1).tolist() == [1.0, -1.0, 3.0]
    assert x.where(c, 7.0).tolist() == [1.0, 7.0, 3.0]
    assert ng.where(c, 1, 2).dtype == ng.int64
    (index,) = ng.where(c)
    assert index.tolist() == [0, 2]
    assert ng.autograd.grad(ng.where(c, x, 0.0).sum(), x)[0].tolist() == [1.0, 0.0, 1.0]


WRONG = [
    (lambda: ng.clamp(ng.tensor([1.0])), "clamp: the bounds is None and None"),
    (lambda: ng.div(1.0, ng.tensor([2.0]), rounding_mode="up"), "div: argument 'rounding_mode'"),
    (lambda: ng.tensor([1]) // 0, "floor_divide: an integer divisor is 0"),
    (lambda: ng.tensor([1]) % ng.tensor([0]), "remainder: an integer divisor is 0"),
    (lambda: ng.tensor([2]) ** -1, "pow: the smallest exponent"),
    (lambda: ng.tensor([True]) - ng.tensor([True]), "sub: the operands' dtype is bool"),
    (lambda: -ng.tensor([True]), "neg: the operands' dtype is bool"),
    (lambda: ng.tensor([1], dtype=ng.int8) + 300, "add: argument 1 is 300; expected a number that"),
    (lambda: ng.tensor([1.0]) & 1, "bitwise_and: the operands' dtype"),
    (lambda: ng.tensor([1.0]) << 1, "bitwise_left_shift: the operands' dtype"),
    (lambda: ng.polygamma(-1, ng.tensor([1.0])), "polygamma: argument 'n' is -1"),
    (lambda: ng.gelu(ng.tensor([1.0]), "fast"), "gelu: argument 'approximate'"),
    (lambda: ng.round(ng.tensor([1.0]), decimals=0.5), "round: argument 'decimals'"),
    (lambda: ng.tensor([1.0]) + "a", "add: argument 1 is a str"),
    (lambda: ng.tensor([1.0, 2.0]) + ng.tensor([1.0, 2.0, 3.0]), "add"),
    (lambda: F.mse_loss(ng.zeros(2), ng.zeros(2, 1)), "mse_loss: the target's shape"),
    (lambda: F.l1_loss(ng.zeros(2), ng.zeros(2), "avg"), "l1_loss: argument 'reduction'"),
    (lambda: F.prelu(ng.zeros(2, 3), ng.zeros(2)), "prelu: the number of slopes"),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(WRONG)))
def test_wrong_calls_say_what_is_wrong(k):
    call, text = WRONG[k]
    with pytest.raises(ng.errors.NbgradError) as caught:
        call()
    assert text in str(caught.value)


def test_functional_facade():
    x = ng.tensor([[-1.0, 0.5], [2.0, -0.25]], requires_grad=True)
    y = ng.tensor([[0.0, 1.0], [2.0, 2.0]])
    assert float(F.mse_loss(x, y)) == pytest.approx(6.3125 / 4)
    assert float(F.mse_loss(x, y, "sum")) == pytest.approx(6.3125)
    assert float(F.l1_loss(x, y)) == pytest.approx(3.75 / 4)
    np.testing.assert_allclose(
        F.linear(x, y, y[0]).detach().numpy(), x.detach().numpy() @ y.numpy().T + y.numpy()[0]
    )
    z = x * 1
    assert F.relu(z, inplace=True) is z and z.tolist() == [[0.0, 0.5], [2.0, 0.0]]
    assert F.prelu(x, ng.tensor([0.1, 0.2])).tolist() == [[-0.1, 0.5], [2.0, -0.05]]
    doubled = np.log1p(np.exp(2 * x.detach().numpy())) / 2
    np.testing.assert_allclose(F.softplus(x, 2.0).tolist(), doubled, rtol=1e-14)
    assert F.softplus(x, 1, 1).tolist()[1][0] == 2.0
    p = F.softmax(x, dim=1)
    np.testing.assert_allclose(p.sum(1).tolist(), [1, 1])
    np.testing.assert_allclose(ng.log(p).tolist(), F.log_softmax(x, dim=1).tolist())
    unit = F.normalize(x, dim=1)
    np.testing.assert_allclose((unit * unit).sum(1).tolist(), [1, 1])


def test_closeness():
    x = ng.tensor([1.0, NAN, INF])
    assert ng.isclose(x, x).tolist() == [True, False, True]
    assert ng.isclose(x, x, equal_nan=True).tolist() == [True, True, True]
    assert ng.allclose(x[:1], x[:1] + 1e-9) and not ng.allclose(x[:1], x[:1] + 1e-3)
    assert ng.equal(x[2:], x[2:]) and not ng.equal(x, x) and not ng.equal(x, x[:1])


def test_derived_operators_are_declared_when_their_name_is_asked_for():
    from nbgrad.op import REGISTRY

    assert "sinc_9" in REGISTRY and REGISTRY["sinc_9"].name == "sinc_9"
    assert REGISTRY.get("bessel_ratio_8").name == "bessel_ratio_8"
    assert "sinc_x" not in REGISTRY and REGISTRY.get("nothing_3") is None


def test_special_coefficients_are_what_the_script_derives():
    import importlib.util
    from pathlib import Path

    from nbgrad.ops import special_coefficients as table

    path = Path(__file__).parents[2] / "tools" / "special_coefficients.py"
    spec = importlib.util.spec_from_file_location("special_coefficients_script", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    high, low, taylor = script.digamma_root()
    assert (high, low) == (table.ROOT_HIGH, table.ROOT_LOW)
    assert list(table.ROOT_TAYLOR) == taylor
    assert list(table.EULER_MACLAURIN) == script.bernoulli_over_factorial()
    assert list(table.DIGAMMA_TAIL) == script.digamma_tail()
