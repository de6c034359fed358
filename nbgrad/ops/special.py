"""Special functions: straight-line bodies of real primitives, so that they vectorise and can be inlined on CUDA.

Each derivative is again an operator with an accurate body of its own, so that any order keeps its accuracy: the Gauss
density for erf, Hurwitz zeta for digamma, and for sinc and the Bessel functions a family (``sinc_1``, ``sinc_2`` ...) whose
member n+1 is the derivative of member n.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen.expr import m
from ..errors import ArgumentError, message
from ..op import elementwise
from ..op.base import REGISTRY
from ..op.public import public
from .sampling import POSITIVE, REAL, elements
from .special_coefficients import (
    DIGAMMA_TAIL,
    EULER_MACLAURIN,
    ROOT_HIGH,
    ROOT_LOW,
    ROOT_TAYLOR,
)
from .transcendental import reciprocal

PI = math.pi
SHIFT = 10  # digamma and zeta use their asymptotic series from here on


def _scipy(name: str) -> Callable[..., np.ndarray]:
    """A function of scipy.special, imported when first called."""

    def call(*args: Any) -> np.ndarray:
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return call


# -- the error function --------------------------------------------------------------------------------


def _exp_of_minus_square(x: Any) -> Any:
    """exp(-x^2) without the error of rounding x^2: x is split into a short number and a rest."""
    limited = m.select(x > 40, m.const(40, x), m.select(x < -40, m.const(-40, x), x))
    short = m.rint(limited * 32) * (1 / 32)
    return m.exp(-short * short) * m.exp((short - limited) * (short + limited))


@elementwise(
    hidden=True,
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: -2 * x * out,),
    tests=elements(REAL),
    reference=lambda x: np.exp(-x * x),
)
def gauss(x):
    """exp(-x^2)."""
    return _exp_of_minus_square(x)


@elementwise(
    hidden=True,
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: -x * out,),
    tests=elements(REAL),
    reference=lambda x: np.exp(-0.5 * x * x) / np.sqrt(2 * PI),
)
def normal_density(x):
    """exp(-x^2/2)/sqrt(2 pi)."""
    short = m.rint(x * 32) * (1 / 32)
    short = m.select(m.fabs(x) < 60, short, m.const(0, x))
    rest = m.select(m.fabs(x) < 60, (short - x) * (short + x), -x * x)
    return m.exp(-0.5 * (short * short)) * m.exp(0.5 * rest) * (1 / math.sqrt(2 * PI))


@elementwise(
    hidden=True,
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: normal_density(x),),
    tests=elements(REAL),
    reference=_scipy("ndtr"),
)
def normal_cdf(x):
    """The standard normal distribution function."""
    return 0.5 * m.erfc(x * -math.sqrt(0.5))


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: gauss(x) * (2 / math.sqrt(PI)),),
    tests=elements(REAL),
    reference=_scipy("erf"),
)
def erf(x):
    """The error function 2/sqrt(pi) * integral of exp(-t^2) from 0 to x."""
    return m.erf(x)


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: gauss(x) * (-2 / math.sqrt(PI)),),
    tests=elements(REAL),
    reference=_scipy("erfc"),
)
def erfc(x):
    """1 - erf(x), accurate for large x."""
    return m.erfc(x)


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: reciprocal(gauss(out)) * (math.sqrt(PI) / 2),),
    tests=elements((-0.9, 0.9)),
    reference=_scipy("erfinv"),
)
def erfinv(x):
    """The inverse of erf on (-1, 1); +-inf at +-1 and NaN outside.

    S. Winitzki's approximation (2008) as start, then two Halley steps, on erfc where |x| > 1/2.
    """
    ax = m.fabs(x)
    inside = ax < 1
    a = m.select(inside, ax, m.const(0, x))
    half_log = 0.5 * m.log1p(-a * a)
    k = 0.147
    b = 2 / (PI * k) + half_log
    w = m.sqrt(-2 * half_log / k / (m.sqrt(b * b - 2 * half_log / k) + b))
    for _ in range(2):
        residual = m.select(a < 0.5, m.erf(w) - a, (1 - a) - m.erfc(w))
        step = residual * m.exp(w * w) * (math.sqrt(PI) / 2)
        w = w - step / (1 + w * step)
    edge = m.select(ax == 1, m.const(math.inf, x), m.const(math.nan, x))
    return m.copysign(m.select(inside, w, edge), x)


# -- the gamma function's relatives ----------------------------------------------------------------------


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: digamma(x),),
    tests=elements(POSITIVE),
    reference=_scipy("gammaln"),
)
def lgamma(x):
    """log|Gamma(x)|."""
    return m.lgamma(x)


def _digamma_positive(x: Any) -> Any:
    """digamma for x > 0: recurrence to 10 and up, then the asymptotic series; Taylor near the root."""
    w = x + SHIFT
    total = m.log(w) - 0.5 / w
    inv = 1 / (w * w)
    total = total - inv * m.polyval(inv, DIGAMMA_TAIL[::-1])
    head = 1 / x
    for k in range(1, SHIFT):
        head = head + 1 / (x + k)
    high = float(np.asarray(ROOT_HIGH, x.dtype))  # a float of x's dtype, so that x - high is exact
    d = (x - high) - (ROOT_HIGH - high + ROOT_LOW)
    return m.select(m.fabs(d) < 0.35, d * m.polyval(d, ROOT_TAYLOR[::-1]), total - head)


@elementwise(
    alias=("psi",),
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: zeta(2.0, x),),
    tests=elements(POSITIVE),
    reference=_scipy("digamma"),
)
def digamma(x):
    """The derivative of lgamma; NaN at the negative integers, -+inf at +-0.

    Abramowitz & Stegun 6.3.5, 6.3.7, 6.3.18. Relative accuracy is lost next to the zeros on the negative axis only.
    """
    reflect = x < 0
    value = _digamma_positive(m.select(reflect, 1 - x, x))
    part = x - m.rint(x)
    cot = PI / m.tan(PI * m.select(reflect, part, m.const(0.25, x)))
    at_pole = reflect & ((part == 0) | (x == -math.inf))
    value = m.select(reflect, value - cot, value)
    value = m.select(x == math.inf, x, value)
    value = m.select(x == 0, -1 / x, value)
    return m.select(at_pole, m.const(math.nan, x), value)


def _inverse_power(x: Any, s: Any) -> Any:
    """x**-s; by multiplication where the exponent is a small number known while tracing."""
    if isinstance(s, float) and s in (1.0, 2.0, 3.0, 4.0):
        inv = 1 / x
        out = inv
        for _ in range(int(s) - 1):
            out = out * inv
        return out
    return m.pow(x, -s)


def _zeta_positive(s: Any, x: Any) -> Any:
    """Hurwitz zeta for x > 0 by Euler-Maclaurin summation from x + 10 on."""
    head = _inverse_power(x, s)
    for k in range(1, SHIFT):
        head = head + _inverse_power(x + k, s)
    w = x + SHIFT
    inv = 1 / (w * w)
    tail, factor = 1 / (s - 1) + 0.5 / w, s * inv
    for j, b in enumerate(EULER_MACLAURIN):
        tail = tail + factor * b
        factor = factor * ((s + (2 * j + 1)) * (s + (2 * j + 2))) * inv
    return head + tail * _inverse_power(w, s - 1)


@elementwise(
    hidden=True,
    complex_ok=False,
    promotion="float",
    partials=(None, lambda s, x, out: _zeta_slope(s, x)),
    nin=2,
    tests=elements((2.0, 4.0), POSITIVE),
    reference=_scipy("zeta"),
)
def zeta(s, x):
    """Hurwitz zeta, the sum of (x + k)**-s over k >= 0, for s > 1; x <= 0 needs an integer s.

    For x <= 0 the sum is split into both directions from the fractional part of x. Differentiable in x.
    """
    negative = x <= 0
    fraction = x - m.floor(x)
    first = _zeta_positive(s, m.select(negative, fraction, x))
    other = m.select(negative, m.ceil(x) - x, m.const(1, x))  # 1 - fraction, exactly
    mirror = m.select(negative, 1 - x, m.const(1, x))
    back = _zeta_positive(s, other) - _zeta_positive(s, mirror)
    if isinstance(s, float):
        even, bad = s % 2 == 0, not s > 1
        total = m.select(negative, first + back if even else first - back, first)
        return m.const(math.nan, x) if bad else _at_poles(total, negative, fraction)
    total = m.select(negative, first + m.select(0.5 * s == m.floor(0.5 * s), back, -back), first)
    total = m.select(negative & (m.floor(s) != s), m.const(math.nan, x), total)
    total = m.select(s > 1, _at_poles(total, negative, fraction), m.const(math.nan, x))
    return m.select(s == 1, m.const(math.inf, x), total)


def _zeta_slope(s: Any, x: Any) -> Any:
    return -s * zeta(s + 1, x)


def _at_poles(total: Any, negative: Any, fraction: Any) -> Any:
    return m.select(negative & (fraction == 0), m.const(math.inf, total), total)


@public
def polygamma(n: int, input: Any) -> Any:
    """Derivative ``n`` of digamma; infinite at the non-positive integers (for ``n >= 1``).

    Raises
    ------
    ArgumentError : ``n`` is not a non-negative integer.
    """
    if not isinstance(n, int):
        n, input = input, n  # the method form x.polygamma(n)
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ArgumentError(message("polygamma", "argument 'n'", n, "an integer >= 0"))
    if n == 0:
        return digamma(input)
    return zeta(float(n + 1), input) * float((-1) ** (n + 1) * math.factorial(n))


# -- families: member n + 1 gives the derivative of member n ---------------------------------------------


def family(prefix: str) -> Callable[[Callable], Callable]:
    """Decorator: ``declare(n)`` makes operator ``prefix_n``; members are declared when first asked for."""

    def make(declare: Callable[[int], Callable]) -> Callable:
        member = functools.cache(declare)
        REGISTRY.families[prefix] = member
        return member

    return make


def _half_turns(x: Any) -> tuple[Any, Any]:
    """sin(pi x) and cos(pi x), exact zeros included."""
    r = x - 2 * m.rint(0.5 * x)
    size = m.fabs(r)
    folded = m.select(size > 0.5, m.copysign(1 - size, r), r)
    return m.sin(PI * folded), m.sin(PI * (0.5 - size))


@family("sinc")
def sinc_member(n: int) -> Callable:
    """``j_n(pi x)/(pi x)^n`` with the spherical Bessel function j_n (DLMF 10.49, 10.51.2); n = 0 is sinc."""

    def body(x: Any) -> Any:
        sine, cosine = _half_turns(x)
        z = PI * x
        edge = max(1.5, float(n))
        small = m.fabs(z) < edge
        far = m.select(small, m.const(1, z), z)
        before, value, inv = cosine, sine / far, 1 / (far * far)
        for k in range(n):
            before, value = value, ((2 * k + 1) * value - before) * inv
        square, near = 0.5 * (z * z), m.const(1, z)
        for k in range(16 + 2 * n, 0, -1):
            near = 1 - square * (1 / (k * (2 * n + 2 * k + 1))) * near
        near = near * (1 / math.prod(range(1, 2 * n + 2, 2)))
        return m.select(small, near, m.select(m.fabs(x) == math.inf, m.const(0, x), value))

    body.__doc__ = (
        "sin(pi x)/(pi x), and 1 at 0 (the normalised sinc)."
        if n == 0
        else f"j_{n}(pi x)/(pi x)^{n}, a derivative of sinc."
    )

    def reference(x: np.ndarray) -> np.ndarray:
        from scipy.special import spherical_jn

        return spherical_jn(n, PI * x) / (PI * x) ** n

    return elementwise(
        f"sinc_{n}" if n else "sinc",
        hidden=n > 0,
        complex_ok=False,
        promotion="float",
        partials=(lambda x, out: (x * -(PI * PI)) * sinc_member(n + 1)(x),),
        tests=elements(REAL),
        reference=reference,
    )(body)


sinc = sinc_member(0)


def _bessel_parts(n: int, x: Any) -> tuple[Any, Any, Any]:
    """For ``I_n(x)/x^n``: |x| is small?, the power series, and ``sqrt(2 pi |x|) exp(-|x|) I_n`` by Hankel's expansion.

    The power series has positive terms only; the expansion serves from ``20 + 2n`` on.
    """
    edge = 20.0 + 2 * n
    ax = m.fabs(x)
    small = ax < edge
    q = m.select(small, 0.25 * (x * x), m.const(0, x))
    series = m.const(1, x)
    for j in range(45 + 3 * n, 0, -1):
        series = 1 + (q * (1 / (j * (j + n)))) * series
    inv = 1 / m.select(small, m.const(edge, x), ax)
    hankel = m.const(1, x)
    for j in range(30, 0, -1):
        hankel = 1 - (inv * ((4 * n * n - (2 * j - 1) ** 2) / (8 * j))) * hankel
    return small, series * (1 / (2**n * math.factorial(n))), hankel * m.sqrt(inv * (1 / (2 * PI)))


def _bessel_ratio(n: int, x: Any) -> Any:
    small, series, hankel = _bessel_parts(n, x)
    ax = m.fabs(x)
    root = m.exp(
        0.5 * m.select(small, m.const(0, x), ax)
    )  # the root: exp itself overflows too early
    large = hankel * root
    for _ in range(n):
        large = large / ax
    value = m.select(small, series, large * root)
    return m.select(ax == math.inf, m.const(math.inf, x), value)


@family("bessel_ratio")
def bessel_member(n: int) -> Callable:
    """``I_n(x)/x^n`` for n >= 1, whose derivative is x times member n + 1 (DLMF 10.29.4)."""

    def body(x: Any) -> Any:
        return _bessel_ratio(n, x)

    def reference(x: np.ndarray) -> np.ndarray:
        from scipy.special import iv

        return iv(n, x) / x**n

    body.__doc__ = f"I_{n}(x)/x^{n} with the modified Bessel function I_{n}."
    return elementwise(
        f"bessel_ratio_{n}",
        hidden=True,
        complex_ok=False,
        promotion="float",
        partials=(lambda x, out: x * bessel_member(n + 1)(x),),
        tests=elements(REAL),
        reference=reference,
    )(body)


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: _i0_slope(x),),
    tests=elements(REAL),
    reference=_scipy("i0"),
)
def i0(x):
    """Modified Bessel function of the first kind, order 0."""
    return _bessel_ratio(0, x)


def _i0_slope(x: Any) -> Any:
    return i1(x)


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: i0(x) - bessel_member(1)(x),),
    tests=elements(REAL),
    reference=_scipy("i1"),
)
def i1(x):
    """Modified Bessel function of the first kind, order 1."""
    return x * _bessel_ratio(1, x)
