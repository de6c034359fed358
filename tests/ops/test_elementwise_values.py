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
