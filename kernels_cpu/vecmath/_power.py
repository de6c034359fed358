"""pow, cbrt, hypot.

``pow``: the logarithm in two doubles (about 2^-65 relative), its product with ``y`` in two
doubles, and the exponential of the sum; then C99's special cases by selection.
"""

import math

import numpy as np

from kernels_cpu.intrinsics import bits_f64, copysign, f64_bits, fabs, fma, lshr, rint, select, sqrt
from kernels_cpu.vecmath._coefficients import LOG_TAIL_F64, RCBRT_F64
from kernels_cpu.vecmath._exp import LN2_HI, LN2_LO, exp_parts, exp_parts32, scale
from kernels_cpu.vecmath._log import SMALLEST_NORMAL, series, split, split_any
from kernels_cpu.vecmath._parts import clamp, fast_two_sum, mad, poly, scalar, two_prod

INF = math.inf
NAN = math.nan
LN2 = math.log(2.0)
TWO_THIRDS_HI = float.fromhex("0x1.5555555555555p-1")
TWO_THIRDS_LO = float.fromhex("0x1.5555555555555p-55")
MANTISSA = 0xFFFFFFFFFFFFF
ONE = 0x3FF0000000000000


@scalar
def log_pair(x):
    """``log(x)`` of a positive ``x`` as ``high + low``.

    ``log(1+f) = s (2 + z (2/3 + z P(z)))``, ``s = f/(2+f)`` and ``z = s^2`` in two parts; only
    ``z P(z)`` is rounded to a double, at most 2^-12 of the result.
    """
    f, k = split_any(x)
    den, den_low = fast_two_sum(2.0, f)
    inverse = 1.0 / den
    s = f * inverse
    s_low = mad(-s, den_low, fma(-s, den, f)) * inverse
    z, z_low = two_prod(s, s)
    z_low = mad(2.0 * s, s_low, z_low)
    a, a_low = fast_two_sum(TWO_THIRDS_HI, z * poly(z, LOG_TAIL_F64))
    b, b_low = two_prod(z, a)
    b_low += mad(z, a_low + TWO_THIRDS_LO, z_low * a)
    c, c_low = fast_two_sum(2.0, b)
    y, y_low = two_prod(s, c)
    y_low += mad(s, c_low + b_low, s_low * c)
    high, low = fast_two_sum(k * LN2_HI, y)
    return high, low + mad(k, LN2_LO, y_low)


@scalar
def power_edges(x, y, magnitude):
    """C99's pow from ``|x|**y``: signs, zeros, infinities, integers, NaN.  float64 only."""
    a = fabs(x)
    half = 0.5 * y
    whole = rint(y) == y
    odd = whole & (rint(half) != half)
    shrinks = (a == 0.0) == (y < 0.0)
    result = select((a == 0.0) | (a == INF), select(shrinks, INF, 0.0), magnitude)
    result = select((x < 0.0) & (a < INF) & (rint(y) != y), NAN, result)
    result = select(a == 1.0, select(x > 0.0, 1.0, select(whole, 1.0, NAN)), result)
    result = select((f64_bits(x) < 0) & odd, -result, result)
    result = select((x != x) | (y != y), x + y, result)
    return select((y == 0.0) | (x == 1.0), 1.0, result)


@scalar
def pow_f64(x, y):
    high, low = log_pair(fabs(x))
    e, e_low = two_prod(y, high)
    e_low = mad(y, low, e_low)
    inside = fabs(e) < 746.0
    r, q, m = exp_parts(clamp(e, -746.0, 710.0), select(inside, e_low, 0.0))
    return power_edges(x, y, scale(1.0 + (r + q), m))


@scalar
def pow_f32(x, y):
    a, b = np.float64(x), np.float64(y)
    f, k = split(fabs(a))[:2]
    half_square, t = series(f)
    logarithm = mad(k, LN2, f - (half_square - t))
    p, s = exp_parts32(clamp(b * logarithm, -110.0, 90.0))
    return np.float32(power_edges(a, b, mad(s, p, s)))


@scalar
def cbrt_parts(a):
    """Positive normal ``a = w 2^(3(q-341))`` as ``(w, r, q)``; ``w`` in [1, 8), ``r ~ w^(-1/3)``.

    The start has 20 bits; one third-order step for the reciprocal root gives 50 and no division.
    """
    bits = f64_bits(a)
    biased = lshr(bits, 52)
    q = lshr(biased * 21846, 16)  # biased // 3
    rest = biased - 3 * q
    m = bits_f64((bits & MANTISSA) | ONE)
    w = m * select(rest == 0, 1.0, select(rest == 1, 2.0, 4.0))
    r = select(rest == 0, 1.0, select(rest == 1, 0.5 ** (1 / 3), 0.25 ** (1 / 3)))
    r *= poly(m, RCBRT_F64)
    e = mad(-w * r, r * r, 1.0)
    return w, mad(r * e, mad(e, 2.0 / 9.0, 1.0 / 3.0), r), q


@scalar
def cbrt_f64(x):
    a = fabs(x)
    subnormal = a < SMALLEST_NORMAL
    w, r, q = cbrt_parts(select(subnormal, a * 2.0**54, a))
    t = w * r * r
    square, square_low = two_prod(t, t)
    rest = fma(-square, t, w) - square_low * t
    t = mad(rest, r * r * (1.0 / 3.0), t)
    y = t * bits_f64((q + (1023 - 341)) << 52) * select(subnormal, 2.0**-18, 1.0)
    return select((a > 0.0) & (a < INF), copysign(y, x), x)


@scalar
def cbrt_f32(x):
    d = np.float64(x)
    a = fabs(d)
    w, r, q = cbrt_parts(a)
    y = w * r * r * bits_f64((q + (1023 - 341)) << 52)
    return select((a > 0.0) & (a < INF), np.float32(copysign(y, d)), x)


@scalar
def hypot_f64(x, y):
    """The sum of squares in two parts, scaled by a power of two; one correction of its root."""
    ax, ay = fabs(x), fabs(y)
    swap = ax < ay
    a, b = select(swap, ay, ax), select(swap, ax, ay)
    down, up = a > 2.0**500, a < 2.0**-500
    factor = select(down, 2.0**-600, select(up, 2.0**600, 1.0))
    back = select(down, 2.0**600, select(up, 2.0**-600, 1.0))
    a *= factor
    b *= factor
    square, square_low = two_prod(a, a)
    s, s_low = fast_two_sum(square, b * b)
    s_low += fma(b, b, -b * b) + square_low
    root = sqrt(s)
    rest = fma(-root, root, s) + s_low
    root = mad(rest, 0.5 / select(root > 0.0, root, 1.0), root)
    return select((ax == INF) | (ay == INF), INF, root * back)


@scalar
def hypot_f32(x, y):
    a, b = np.float64(x), np.float64(y)
    root = sqrt(mad(a, a, b * b))
    return np.float32(select((fabs(a) == INF) | (fabs(b) == INF), INF, root))
