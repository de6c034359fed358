"""Complex primitives written in real ones.

A complex ``exp``, ``sqrt`` or division in an operator body is expanded here while the body is traced, so that a target needs
only real primitives, ``complex(re, im)`` and ``+ - *``. All are branch-free. complex64 is computed in float64 where an
intermediate could overflow or cancel.

Inverse functions follow W. Kahan, "Branch cuts for complex elementary functions" (1987): the cuts and the signs of zero are
those of C99.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import dtypes as dt
from .expr import LOWERED, Expr, m

Pair = tuple[Expr, Expr]
_HUGE = 1e300  # above this a sum of two parts could overflow


def _wide(z: Expr) -> Pair:
    """Real and imaginary part in float64."""
    return m.cast(m.real(z), dt.float64), m.cast(m.imag(z), dt.float64)


def join(re: Expr, im: Expr, dtype: np.dtype) -> Expr:
    """The complex number of the given dtype with these parts."""
    part = dt.to_real(dtype)
    return Expr("complex", (m.cast(re, part), m.cast(im, part)), dtype)


def _max(a: Expr, b: Expr) -> Expr:
    return m.select((a > b) | (a != a), a, b)


def _mul(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _div(p: Pair, q: Pair) -> Pair:
    """Smith's division without branches: the divisor is first scaled to size one.

    A divisor with an infinite part counts as that infinity (finite / inf is 0); z / 0 is z's parts over the zero.
    """
    c, d = q
    size = _max(m.fabs(c), m.fabs(d))
    zero, infinite = size == 0, size == math.inf
    scale = m.select(zero | infinite, m.const(1, size), size)
    cs = m.select(infinite, m.copysign(m.select(m.fabs(c) == math.inf, 1.0, m.const(0, c)), c), c)
    ds = m.select(infinite, m.copysign(m.select(m.fabs(d) == math.inf, 1.0, m.const(0, d)), d), d)
    cs, ds = cs / scale, ds / scale
    below = c * cs + d * ds
    re = (p[0] * cs + p[1] * ds) / below
    im = (p[1] * cs - p[0] * ds) / below
    return m.select(zero, p[0] / c, re), m.select(zero, p[1] / c, im)


def div(x: Expr, y: Expr) -> Expr:
    """x / y."""
    return join(*_div(_wide(x), _wide(y)), x.dtype)


def cabs(z: Expr) -> Expr:
    """The modulus."""
    return m.hypot(m.real(z), m.imag(z))


def carg(z: Expr) -> Expr:
    """The argument in [-pi, pi]."""
    return m.atan2(m.imag(z), m.real(z))


def exp(z: Expr) -> Expr:
    """e^x (cos y + i sin y); exactly real on the real axis, 0 at real part -inf."""
    x, y = m.real(z), m.imag(z)
    r = m.exp(x)
    zero = m.const(0, r)
    re = m.select(r == 0, zero, m.select(y == 0, r, r * m.cos(y)))
    im = m.select(r == 0, zero, m.select(y == 0, y, r * m.sin(y)))
    return join(re, im, z.dtype)


def _log(x: Expr, y: Expr) -> Pair:
    ax, ay = m.fabs(x), m.fabs(y)
    big, small = _max(ax, ay), m.select(ax > ay, ay, ax)
    near = (big > 0.5) & (big < 2.0)
    close = 0.5 * m.log1p((big - 1) * (big + 1) + small * small)
    scale = m.select(big > _HUGE, m.const(0.5, x), m.const(1, x))
    far = m.log(m.hypot(big * scale, small * scale))
    far = far + m.select(big > _HUGE, math.log(2.0), m.const(0, x))
    return m.select(near, close, far), m.atan2(y, x)


def log(z: Expr) -> Expr:
    """log|z| + i arg z; accurate next to the unit circle."""
    return join(*_log(*_wide(z)), z.dtype)


def _scaled_log(factor: float) -> Callable[[Expr], Expr]:
    def fn(z: Expr) -> Expr:
        re, im = _log(*_wide(z))
        return join(re * factor, im * factor, z.dtype)

    return fn


def log1p(z: Expr) -> Expr:
    """log(1 + z) without forming 1 + z in the modulus."""
    x, y = _wide(z)
    near = (m.fabs(x) < 0.5) & (m.fabs(y) < 0.5)
    re, im = _log(1 + x, y)
    return join(m.select(near, 0.5 * m.log1p(x * (2 + x) + y * y), re), im, z.dtype)


def expm1(z: Expr) -> Expr:
    """e^z - 1 = expm1(x) cos y - 2 sin^2(y/2) + i e^x sin y."""
    x, y = m.real(z), m.imag(z)
    half = m.sin(0.5 * y)
    im = m.select(y == 0, y, m.exp(x) * m.sin(y))
    return join(m.expm1(x) * m.cos(y) - 2 * half * half, im, z.dtype)


def _sqrt(x: Expr, y: Expr) -> Pair:
    ax, ay = m.fabs(x), m.fabs(y)
    big = _max(ax, ay)
    # keep |x| + |z| finite, and out of the subnormal range
    down, up = big > _HUGE, big < 1e-300
    scale = m.select(down, m.const(0.25, x), m.select(up, m.const(2.0**108, x), m.const(1, x)))
    back = m.select(down, m.const(2, x), m.select(up, m.const(2.0**-54, x), m.const(1, x)))
    t = m.sqrt(0.5 * (ax * scale + m.hypot(x * scale, y * scale)))
    other = m.select(t == 0, m.const(0, t), 0.5 * (ay * scale) / t)
    re, im = m.select(x >= 0, t, other) * back, m.select(x >= 0, other, t) * back
    infinite = ay == math.inf
    re, im = m.select(infinite, ay, re), m.select(infinite, ay, im)
    nan = (x != x) & ~infinite
    return m.select(nan, x, re), m.copysign(m.select(nan, x, im), y)


def sqrt(z: Expr) -> Expr:
    """Principal square root, cut along the negative real axis."""
    return join(*_sqrt(*_wide(z)), z.dtype)


def _times(a: Expr, b: Expr) -> Expr:
    """a*b, and 0 where a is 0 although b overflowed."""
    return m.select(a == 0, a, a * b)


def sin(z: Expr) -> Expr:
    """sin x cosh y + i cos x sinh y."""
    x, y = m.real(z), m.imag(z)
    return join(_times(m.sin(x), m.cosh(y)), _times(m.cos(x), m.sinh(y)), z.dtype)


def cos(z: Expr) -> Expr:
    """cos x cosh y - i sin x sinh y."""
    x, y = m.real(z), m.imag(z)
    return join(_times(m.cos(x), m.cosh(y)), -_times(m.sin(x), m.sinh(y)), z.dtype)


def sinh(z: Expr) -> Expr:
    """sinh x cos y + i cosh x sin y."""
    x, y = m.real(z), m.imag(z)
    return join(_times(m.cos(y), m.sinh(x)), _times(m.sin(y), m.cosh(x)), z.dtype)


def cosh(z: Expr) -> Expr:
    """cosh x cos y + i sinh x sin y."""
    x, y = m.real(z), m.imag(z)
    return join(_times(m.cos(y), m.cosh(x)), _times(m.sin(y), m.sinh(x)), z.dtype)


def _tanh(x: Expr, y: Expr) -> Pair:
    """Both parts over cos^2 y sech^2 x + tanh^2 x: positive terms, no overflow."""
    t, inv = m.tanh(x), 1 / m.cosh(x)
    s, c, sech2 = m.sin(y), m.cos(y), inv * inv
    below = c * c * sech2 + t * t
    return t / below, s * c * sech2 / below


def tanh(z: Expr) -> Expr:
    """Hyperbolic tangent."""
    return join(*_tanh(*_wide(z)), z.dtype)


def tan(z: Expr) -> Expr:
    """tan z = -i tanh(i z)."""
    x, y = _wide(z)
    re, im = _tanh(-y, x)
    return join(im, -re, z.dtype)


def _asin(x: Expr, y: Expr) -> Pair:
    a, b = _sqrt(1 - x, -y), _sqrt(1 + x, y)
    return m.atan2(x, a[0] * b[0] - a[1] * b[1]), m.asinh(a[0] * b[1] - a[1] * b[0])


def asin(z: Expr) -> Expr:
    """Inverse sine."""
    return join(*_asin(*_wide(z)), z.dtype)


def acos(z: Expr) -> Expr:
    """Inverse cosine."""
    x, y = _wide(z)
    a, b = _sqrt(1 - x, -y), _sqrt(1 + x, y)
    return join(2 * m.atan2(a[0], b[0]), m.asinh(b[0] * a[1] - b[1] * a[0]), z.dtype)


def asinh(z: Expr) -> Expr:
    """asinh z = i asin(-i z)."""
    x, y = _wide(z)
    re, im = _asin(y, -x)
    return join(-im, re, z.dtype)


def acosh(z: Expr) -> Expr:
    """Inverse hyperbolic cosine."""
    x, y = _wide(z)
    a, b = _sqrt(x - 1, y), _sqrt(x + 1, y)
    return join(m.asinh(a[0] * b[0] + a[1] * b[1]), 2 * m.atan2(a[1], b[0]), z.dtype)


def _atanh(x: Expr, y: Expr) -> Pair:
    sign, ax = m.copysign(m.const(1, x), x), m.fabs(x)
    h = m.hypot(1 - ax, y)
    re = 0.25 * m.log1p(4 * (m.select(h == math.inf, m.const(0, x), ax / h) / h))
    im = 0.5 * m.atan2(2 * y, (1 - ax) * (1 + ax) - y * y)
    return sign * re, im


def atanh(z: Expr) -> Expr:
    """Inverse hyperbolic tangent."""
    return join(*_atanh(*_wide(z)), z.dtype)


def atan(z: Expr) -> Expr:
    """atan z = -i atanh(i z)."""
    x, y = _wide(z)
    re, im = _atanh(-y, x)
    return join(im, -re, z.dtype)


def pow(z: Expr, w: Expr) -> Expr:
    """z^w = exp(w log z); integer exponents up to 15 by multiplication; 0^w is 0 where Re w > 0."""
    x, y = _wide(z)
    u, v = _wide(w)
    logr, angle = _log(x, y)
    size, phase = m.exp(u * logr - v * angle), v * logr + u * angle
    general = size * m.cos(phase), size * m.sin(phase)
    n = m.fabs(u)
    power, one, zero = (x, y), m.const(1, x), m.const(0, x)
    product, left = (one, zero), m.select(n < 16, n, zero)
    for _ in range(4):
        half = m.floor(0.5 * left)
        odd, (re, im) = left != 2 * half, _mul(product, power)
        product = m.select(odd, re, product[0]), m.select(odd, im, product[1])
        power, left = _mul(power, power), half
    inverse = _div((one, zero), product)
    exact = (v == 0) & (n < 16) & (m.floor(n) == n)
    re = m.select(exact, m.select(u < 0, inverse[0], product[0]), general[0])
    im = m.select(exact, m.select(u < 0, inverse[1], product[1]), general[1])
    at_zero = (x == 0) & (y == 0) & (u > 0)
    return join(m.select(at_zero, zero, re), m.select(at_zero, zero, im), z.dtype)


def sigmoid(z: Expr) -> Expr:
    """1 / (1 + e^-z)."""
    e = exp(-z)
    return div(m.const(1, z), 1 + e)


LOWERED.update(
    {
        fn.__name__: fn
        for fn in (div, cabs, carg, exp, log, log1p, expm1, sqrt, sin, cos, tan, sinh, cosh, tanh)
    }
)
LOWERED.update({fn.__name__: fn for fn in (asin, acos, atan, asinh, acosh, atanh, pow, sigmoid)})
LOWERED.update({"exp2": lambda z: exp(z * math.log(2.0))})
LOWERED.update({"log2": _scaled_log(1 / math.log(2.0)), "log10": _scaled_log(1 / math.log(10.0))})
