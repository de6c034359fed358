"""exp, exp2, expm1, tanh, log, log2, log10, log1p in float32 arithmetic throughout.

For these, float32 lanes beat twice as many float64 lanes by 1.1 (tanh) to 2 times (log); the
other float32 functions are computed in float64, where short polynomials are accurate to 0.6 ulp
and the special cases fall away.  The methods are those of the float64 functions, except that the
logarithm uses a polynomial in ``f`` itself: at this precision it is cheaper than the division.
"""

import numpy as np

from kernels_cpu.intrinsics import bits_f32, copysign, f32_bits, fabs, fma, lshr, select
from kernels_cpu.vecmath._coefficients import EXP_F32, LOG_DIRECT_F32
from kernels_cpu.vecmath._parts import clamp, fast_two_sum, mad, poly, scalar, two_prod, two_sum

ZERO = np.float32(0.0)
HALF = np.float32(0.5)
ONE = np.float32(1.0)
TWO = np.float32(2.0)
INF = np.float32(np.inf)
NAN = np.float32(np.nan)
LN2 = np.float32(np.log(2.0))
LOG2E = np.float32(1.0 / np.log(2.0))
LN2_HI = np.float32(0.693145751953125)  # 15 bits: n * LN2_HI is exact for |n| < 2^9
LN2_LO = np.float32(np.log(2.0) - 0.693145751953125)
SHIFT = np.float32(1.5 * 2.0**23 + 254.0)  # leaves n + 254 in the low bits
FIELD = 0x1FF
TINY = np.float32(2.0**-25)

SMALLEST_NORMAL = np.float32(2.0**-126)
SCALE_UP = np.float32(2.0**25)
HALF_ROOT = 0x3F3504F3  # bits of sqrt(1/2)
BITS_ONE = 0x3F800000
MANTISSA = 0x7FFFFF
INT_FIELD = 0x4B000000  # bits of 2^23
INT_BIAS = np.float32(2.0**23 + 127.0)
INV_LN2_HI = LOG2E
INV_LN2_LO = np.float32(1.0 / np.log(2.0) - float(INV_LN2_HI))
INV_LN10_HI = np.float32(1.0 / np.log(10.0))
INV_LN10_LO = np.float32(1.0 / np.log(10.0) - float(INV_LN10_HI))
LOG10_2_HI = np.float32(0.301025390625)  # 12 bits
LOG10_2_LO = np.float32(np.log10(2.0) - 0.301025390625)


@scalar
def exp_parts(x):
    """``x`` as ``(r, q, m)``: ``exp(x) = (1 + (r + q)) * 2**(m - 254)``."""
    t = mad(x, LOG2E, SHIFT)
    n = t - SHIFT
    head = mad(n, -LN2_HI, x)
    tail = n * LN2_LO
    r = head - tail
    q = mad(r * r, poly(r, EXP_F32), (head - r) - tail)
    return r, q, f32_bits(t) & FIELD


@scalar
def scale(y, m):
    """``y * 2**(m - 254)`` in two factors: gradual underflow, rounded once."""
    half = lshr(m, 1)
    return y * bits_f32(half << 23) * bits_f32((m - half) << 23)


@scalar
def exp_f32(x):
    r, q, m = exp_parts(clamp(x, np.float32(-105.0), np.float32(89.0)))
    return scale(ONE + (r + q), m)


@scalar
def exp2_f32(x):
    x = clamp(x, np.float32(-152.0), np.float32(129.0))
    t = x + SHIFT
    r = (x - (t - SHIFT)) * LN2
    return scale(ONE + mad(r * r, poly(r, EXP_F32), r), f32_bits(t) & FIELD)


@scalar
def half_expm1(x):
    """``(exp(x) - 1) / 2`` as an unevaluated sum, for ``x`` in [-20, 89]."""
    r, q, m = exp_parts(x)
    s = bits_f32((m - 128) << 23)
    high, low = fast_two_sum(s - HALF, s * r)
    return high, mad(s, q, low)


@scalar
def expm1_f32(x):
    high, low = half_expm1(clamp(x, np.float32(-20.0), np.float32(89.0)))
    return select(fabs(x) < TINY, x, TWO * (high + low))


@scalar
def tanh_f32(x):
    a = fabs(x)
    high, low = half_expm1(TWO * select(a > np.float32(10.0), np.float32(10.0), a))
    num, num_low = fast_two_sum(high, low)
    den, den_low = two_sum(num, ONE)
    inverse = ONE / den
    y = num * inverse
    rest = fma(-y, den, num) + mad(-y, den_low + num_low, num_low)
    return select(a < TINY, x, copysign(mad(rest, inverse, y), x))


@scalar
def split(x):
    """Positive normal ``x`` as ``(f, k, kb)``: ``x = 2**k (1 + f)``, ``kb = k + 127``."""
    shifted = f32_bits(x) + (BITS_ONE - HALF_ROOT)
    kb = lshr(shifted, 23) & FIELD
    f = bits_f32((shifted & MANTISSA) + HALF_ROOT) - ONE
    return f, bits_f32(kb | INT_FIELD) - INT_BIAS, kb


@scalar
def split_any(x):
    """As ``split`` for any positive ``x``, subnormals scaled up first; ``(f, k)``."""
    subnormal = x < SMALLEST_NORMAL
    f, k, _ = split(select(subnormal, x * SCALE_UP, x))
    return f, select(subnormal, k - np.float32(25.0), k)


@scalar
def at_the_edges(x, y):
    """``y`` for positive ``x``; -inf at 0, inf at inf, NaN below and at NaN."""
    y = select(x == INF, x, y)
    return select(x > ZERO, y, select(x == ZERO, -INF, NAN))


@scalar
def log_f32(x):
    f, k = split_any(x)
    z = f * f
    t = mad(f * z, poly(f, LOG_DIRECT_F32), k * LN2_LO)
    y = mad(k, LN2_HI, f - mad(HALF, z, -t))
    return at_the_edges(x, y)


@scalar
def log1p_f32(x):
    high, low = two_sum(ONE, x)
    f, k, kb = split(high)
    c = low * (HALF * bits_f32((255 - kb) << 23))
    z = f * f
    t = mad(f * z, poly(f, LOG_DIRECT_F32), k * LN2_LO) + c * (ONE - f * (ONE - f))
    y = mad(k, LN2_HI, f - mad(HALF, z, -t))
    y = select(x == INF, x, y)
    y = select(x > -ONE, y, select(x == -ONE, -INF, NAN))
    return select(fabs(x) < TINY, x, y)


@scalar
def log_in_base(x, inv_high, inv_low, k_high, k_low):
    """``k (k_high + k_low) + log(1+f) (inv_high + inv_low)`` with the large terms exact."""
    f, k = split_any(x)
    square, square_low = two_prod(HALF * f, f)
    high, low = fast_two_sum(f, -square)
    low += mad(f * (f * f), poly(f, LOG_DIRECT_F32), -square_low)
    y, y_low = two_prod(high, inv_high)
    y_low += mad(high, inv_low, low * inv_high)
    total, total_low = fast_two_sum(k * k_high, y)
    return at_the_edges(x, total + (total_low + mad(k, k_low, y_low)))


@scalar
def log2_f32(x):
    return log_in_base(x, INV_LN2_HI, INV_LN2_LO, ONE, ZERO)


@scalar
def log10_f32(x):
    return log_in_base(x, INV_LN10_HI, INV_LN10_LO, LOG10_2_HI, LOG10_2_LO)
