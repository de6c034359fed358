"""log, log2, log10, log1p, softplus, asinh, acosh, atanh.

``x = 2^k m`` with ``m`` in [sqrt(1/2), sqrt(2)), ``f = m - 1``, ``s = f/(2+f)``; then
``log(1+f) = f - (f^2/2 - s (f^2/2 + s^2 P(s^2)))``, Ng and Hardy's arrangement in fdlibm, whose
error near ``x = 1`` is relative to ``f``.  ``k`` is read from the bits without a conversion.
"""

import math

import numpy as np

from kernels_cpu.intrinsics import bits_f64, copysign, f64_bits, fabs, fma, lshr, select, sqrt
from kernels_cpu.vecmath._coefficients import LOG_F32, LOG_F64
from kernels_cpu.vecmath._exp import LN2_HI, LN2_LO, exp_f64, exp_parts32
from kernels_cpu.vecmath._parts import fast_two_sum, mad, poly, scalar, two_prod, two_sum

INF = math.inf
NAN = math.nan
LN2 = math.log(2.0)
SMALLEST_NORMAL = 2.0**-1022
TINY = 2.0**-54
HALF_ROOT = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)
ONE = 0x3FF0000000000000
MANTISSA = 0xFFFFFFFFFFFFF
INT_FIELD = 0x4330000000000000  # bits of 2^52: or-ing a small integer in converts it
INT_BIAS = 2.0**52 + 1023.0

INV_LN2_HI = float.fromhex("0x1.71547652b82fep+0")
INV_LN2_LO = float.fromhex("0x1.777d0ffda0d24p-56")
INV_LN10_HI = float.fromhex("0x1.bcb7b1526e50ep-2")
INV_LN10_LO = float.fromhex("0x1.95355baaafad3p-57")
LOG10_2_HI = float.fromhex("0x1.34413509f78p-2")  # 42 bits: k * LOG10_2_HI is exact
LOG10_2_LO = float.fromhex("0x1.fef311f12b358p-46")


@scalar
def split(x):
    """Positive normal ``x`` as ``(f, k, kb)``: ``x = 2**k (1 + f)``, ``kb = k + 1023``."""
    shifted = f64_bits(x) + (ONE - HALF_ROOT)
    kb = lshr(shifted, 52)
    f = bits_f64((shifted & MANTISSA) + HALF_ROOT) - 1.0
    return f, bits_f64(kb | INT_FIELD) - INT_BIAS, kb


@scalar
def split_any(x):
    """As ``split`` for any positive ``x``, subnormals scaled up first; ``(f, k)``."""
    subnormal = x < SMALLEST_NORMAL
    f, k, _ = split(select(subnormal, x * 2.0**54, x))
    return f, select(subnormal, k - 54.0, k)


@scalar
def series(f):
    """``(f^2/2, t)`` with ``log(1+f) = f - (f^2/2 - t)``."""
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    return half_square, s * mad(z, poly(z, LOG_F64), half_square)


@scalar
def at_the_edges(x, y):
    """``y`` for positive ``x``; -inf at 0, inf at inf, NaN below and at NaN."""
    y = select(x == INF, x, y)
    return select(x > 0.0, y, select(x == 0.0, -INF, NAN))


@scalar
def log_f64(x):
    f, k = split_any(x)
    half_square, t = series(f)
    y = mad(k, LN2_HI, f - (half_square - mad(k, LN2_LO, t)))
    return at_the_edges(x, y)


@scalar
def log_sum(high, low, extra):
    """``log(high + low) + extra ln2``, relative accuracy also next to 1; ``high`` normal."""
    f, k, kb = split(high)
    half_square, t = series(f)
    c = low * (0.5 * bits_f64((2047 - kb) << 52))
    k += extra
    t = mad(k, LN2_LO, t) + c * (1.0 - f * (1.0 - f))
    return mad(k, LN2_HI, f - (half_square - t))


@scalar
def log1p_f64(x):
    high, low = two_sum(1.0, x)
    y = log_sum(high, low, 0.0)
    y = select(x == INF, x, y)
    y = select(x > -1.0, y, select(x == -1.0, -INF, NAN))
    return select(fabs(x) < TINY, x, y)


@scalar
def log_in_base(x, inv_high, inv_low, k_high, k_low):
    """``k (k_high + k_low) + log(1+f) (inv_high + inv_low)`` with the large terms exact."""
    f, k = split_any(x)
    half_square, t = series(f)
    square_low = fma(0.5 * f, f, -half_square)
    high, low = fast_two_sum(f, -half_square)
    low += t - square_low
    y, y_low = two_prod(high, inv_high)
    y_low += mad(high, inv_low, low * inv_high)
    total, total_low = fast_two_sum(k * k_high, y)
    return at_the_edges(x, total + (total_low + mad(k, k_low, y_low)))


@scalar
def log2_f64(x):
    return log_in_base(x, INV_LN2_HI, INV_LN2_LO, 1.0, 0.0)


@scalar
def log10_f64(x):
    return log_in_base(x, INV_LN10_HI, INV_LN10_LO, LOG10_2_HI, LOG10_2_LO)


@scalar
def softplus_f64(x):
    """``log(1+exp(x)) = max(x,0) + log1p(exp(-|x|))``; ``-softplus(-x)`` is the log-sigmoid."""
    return select(x < 0.0, 0.0, x) + log1p_f64(exp_f64(-fabs(x)))


@scalar
def asinh_f64(x):
    """``log(a + sqrt(a^2+1))`` with the argument in two parts; ``2a`` above 2^30."""
    a = fabs(x)
    square, square_low = two_prod(a, a)
    s, s_low = two_sum(square, 1.0)
    root = sqrt(s)
    root_low = (fma(-root, root, s) + (s_low + square_low)) * (0.5 / root)
    high, low = fast_two_sum(root, a)
    far = a > 2.0**30
    y = log_sum(select(far, a, high), select(far, 0.0, low + root_low), select(far, 1.0, 0.0))
    y = select(a < 2.0**-20, mad(a * a, a * (-1.0 / 6.0), a), y)
    return copysign(select(a < INF, y, a), x)


@scalar
def acosh_f64(x):
    """``log(x + sqrt(x^2-1))``, the difference of squares and the root in two parts."""
    square, square_low = two_prod(x, x)
    s, s_low = fast_two_sum(square, -1.0)
    s, s_low = fast_two_sum(s, s_low + square_low)
    root = sqrt(s)
    rest = fma(-root, root, s) + s_low
    root_low = rest * (0.5 / select(root > 0.0, root, 1.0))
    high, low = fast_two_sum(x, root)
    far = x > 2.0**30
    y = log_sum(select(far, x, high), select(far, 0.0, low + root_low), select(far, 1.0, 0.0))
    return select(x >= 1.0, select(x < INF, y, x), NAN)


@scalar
def atanh_f64(x):
    """``log(1 + 2a/(1-a)) / 2`` with the quotient in two parts."""
    a = fabs(x)
    den, den_low = two_sum(1.0, -a)
    inverse = 1.0 / den
    q = 2.0 * a * inverse
    q_low = (fma(-q, den, 2.0 * a) - q * den_low) * inverse
    high, low = two_sum(1.0, q)
    y = 0.5 * log_sum(high, low + q_low, 0.0)
    y = select(a < 2.0**-20, mad(a * a, a * (1.0 / 3.0), a), y)
    y = select(a < 1.0, y, select(a == 1.0, INF, NAN))
    return copysign(y, x)


@scalar
def log_parts32(x, c):
    """float64 ``(k, log(1+f))`` with ``log(x+c) = k ln2 + log(1+f)``, to float32 accuracy."""
    f, k, kb = split(x)
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    c *= 0.5 * bits_f64((2047 - kb) << 52)
    t = mad(s, mad(z, poly(z, LOG_F32), half_square), c * (1.0 - f * (1.0 - f)))
    return k, f - (half_square - t)


@scalar
def log1p_parts32(x):
    """float64 ``log1p(x)`` for finite ``x > -1``, relative accuracy also next to 0."""
    u = 1.0 + x
    k, y = log_parts32(u, x - (u - 1.0))
    return mad(k, LN2, y)


@scalar
def softplus_f32(x):
    d = np.float64(x)
    a = fabs(d)
    p, s = exp_parts32(select(a > 110.0, -110.0, -a))
    return np.float32(select(d < 0.0, 0.0, d) + log1p_parts32(mad(s, p, s)))


@scalar
def asinh_f32(x):
    a = fabs(np.float64(x))
    square = a * a
    y = log1p_parts32(a + square / (1.0 + sqrt(1.0 + square)))
    return copysign(np.float32(select(a < INF, y, a)), x)


@scalar
def acosh_f32(x):
    d = np.float64(x)
    t = d - 1.0
    y = log1p_parts32(t + sqrt(t * (d + 1.0)))
    return np.float32(select(d >= 1.0, select(d < INF, y, d), NAN))


@scalar
def atanh_f32(x):
    a = fabs(np.float64(x))
    y = 0.5 * log1p_parts32(2.0 * a / (1.0 - a))
    y = select(a < 1.0, y, select(a == 1.0, INF, NAN))
    return copysign(np.float32(y), x)
