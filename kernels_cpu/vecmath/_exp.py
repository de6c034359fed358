"""exp, exp2, expm1, sigmoid, tanh, sinh, cosh.

``x = n ln2 + r`` with ``|r| <= ln2/2``, ``exp(r) = 1 + r + r^2 P(r)`` (Cody and Waite).  ``n`` is
rounded by adding ``SHIFT``, whose low bits also make the biased exponents without a conversion.
The float32 functions here run in float64 with a shorter polynomial; the others: ``_float32.py``.
"""

import math

import numpy as np

from kernels_cpu.intrinsics import bits_f64, copysign, f64_bits, fabs, fma, lshr, select
from kernels_cpu.vecmath._coefficients import EXP_F32, EXP_F64, SINH_F32, SINH_F64
from kernels_cpu.vecmath._parts import clamp, fast_two_sum, mad, poly, scalar, two_sum

LOG2E = 1.0 / math.log(2.0)
LN2 = math.log(2.0)
LN2_HI = float.fromhex("0x1.62e42fefa38p-1")  # 42 bits: n * LN2_HI is exact for |n| < 2^11
LN2_LO = float.fromhex("0x1.ef35793c7673p-45")
SHIFT = 1.5 * 2.0**52 + 2046.0  # adding it rounds to an integer n and leaves n + 2046 in the bits
FIELD = 0xFFF
TINY = 2.0**-54


@scalar
def exp_parts(x, xl):
    """``x + xl`` as ``(r, q, m)``: ``exp = (1 + (r + q)) * 2**(m - 2046)``, ``|q| << |r|``.

    Needs ``|x| < 1050``.  ``q`` carries the rounding error of ``r`` as well as ``r^2 P(r)``.
    """
    t = mad(x, LOG2E, SHIFT)
    n = t - SHIFT
    head = mad(n, -LN2_HI, x)
    tail = mad(n, LN2_LO, -xl)
    r = head - tail
    q = mad(r * r, poly(r, EXP_F64), (head - r) - tail)
    return r, q, f64_bits(t) & FIELD


@scalar
def scale(y, m):
    """``y * 2**(m - 2046)`` in two factors, so that underflow is gradual and rounds once."""
    half = lshr(m, 1)
    return y * bits_f64(half << 52) * bits_f64((m - half) << 52)


@scalar
def exp_f64(x):
    r, q, m = exp_parts(clamp(x, -746.0, 710.0), 0.0)
    return scale(1.0 + (r + q), m)


@scalar
def exp2_f64(x):
    x = clamp(x, -1080.0, 1030.0)
    t = x + SHIFT
    r = (x - (t - SHIFT)) * LN2
    return scale(1.0 + mad(r * r, poly(r, EXP_F64), r), f64_bits(t) & FIELD)


@scalar
def half_expm1(x):
    """``(exp(x) - 1) / 2`` as an unevaluated sum, for ``x`` in [-40, 710].

    Halved so that ``2**n`` cannot overflow.  ``s - 0.5`` dominates ``s r`` unless it is zero.
    """
    r, q, m = exp_parts(x, 0.0)
    s = bits_f64((m - 1024) << 52)
    high, low = fast_two_sum(s - 0.5, s * r)
    return high, mad(s, q, low)


@scalar
def expm1_f64(x):
    high, low = half_expm1(clamp(x, -40.0, 710.0))
    return select(fabs(x) < TINY, x, 2.0 * (high + low))


@scalar
def sigmoid_f64(x):
    """``1/(1+e)`` or ``e/(1+e)`` with ``e = exp(-|x|)`` in two parts and a corrected quotient.

    No overflow, and a gradual underflow on the left; the low part is dropped there.
    """
    a = fabs(x)
    r, q, m = exp_parts(-select(a > 746.0, 746.0, a), 0.0)
    e, e_low = fast_two_sum(1.0, r + q)
    e = scale(e, m)
    e_low *= bits_f64(select(m > 1023, m - 1023, 0) << 52)
    negative = x < 0.0
    den, den_low = fast_two_sum(1.0, e)
    num, num_low = select(negative, e, 1.0), select(negative, e_low, 0.0)
    inverse = 1.0 / den
    y = num * inverse
    return mad(fma(-y, den, num) + mad(-y, den_low, num_low), inverse, y)


@scalar
def tanh_f64(x):
    """``h / (h + 1)`` with ``h = expm1(2|x|)/2`` in two parts and a corrected quotient."""
    a = fabs(x)
    high, low = half_expm1(2.0 * select(a > 22.0, 22.0, a))
    num, num_low = fast_two_sum(high, low)
    den, den_low = two_sum(num, 1.0)
    inverse = 1.0 / den
    y = num * inverse
    rest = fma(-y, den, num) + mad(-y, den_low + num_low, num_low)
    return select(a < TINY, x, copysign(mad(rest, inverse, y), x))


@scalar
def half_exp(a):
    """``exp(a)/2`` for ``a >= 0``, finite as long as sinh and cosh are."""
    r, q, m = exp_parts(select(a > 712.0, 712.0, a), 0.0)
    return scale(1.0 + (r + q), m - 1)


@scalar
def sinh_f64(x):
    a = fabs(x)
    h = half_exp(a)
    z = a * a
    small = mad(a * z, poly(z, SINH_F64), a)
    return copysign(select(a < 1.0, small, h - 0.25 / h), x)


@scalar
def cosh_f64(x):
    h = half_exp(fabs(x))
    return h + 0.25 / h


@scalar
def exp_parts32(x):
    """float64 ``x`` as ``(expm1(r), 2**n)``, to float32 accuracy; ``|x| < 700``."""
    t = mad(x, LOG2E, SHIFT)
    r = mad(t - SHIFT, -LN2, x)
    p = mad(r * r, poly(r, EXP_F32), r)
    return p, bits_f64(((f64_bits(t) & FIELD) - 1023) << 52)


@scalar
def sigmoid_f32(x):
    p, s = exp_parts32(clamp(-np.float64(x), -110.0, 110.0))
    return np.float32(1.0 / (1.0 + mad(s, p, s)))


@scalar
def sinh_f32(x):
    a = fabs(np.float64(x))
    p, s = exp_parts32(clamp(a, 0.0, 91.0))
    e = mad(s, p, s)
    z = a * a
    small = mad(a * z, poly(z, SINH_F32), a)
    return copysign(np.float32(select(a < 1.0, small, 0.5 * e - 0.5 / e)), x)


@scalar
def cosh_f32(x):
    p, s = exp_parts32(clamp(fabs(np.float64(x)), 0.0, 91.0))
    e = mad(s, p, s)
    return np.float32(0.5 * e + 0.5 / e)
