"""sin, cos, tan over the whole range, by one branch-free path (Payne and Hanek, 1983).

The argument is turned into turns, ``x / (2 pi) mod 1``.  For each binary exponent a table row
holds the part of ``1/(2 pi)`` that matters: the bits above it contribute whole turns, the bits
below it nothing visible.  Four gathers cost less than two reductions and a choice between them.
sin and cos reduce to [-pi/2, pi/2] and need one polynomial; tan reduces to [-pi/4, pi/4].
"""

import math

import numpy as np

from kernels_cpu.intrinsics import bits_f64, f64_bits, fabs, lshr, rint, select
from kernels_cpu.vecmath._coefficients import SIN_F32, SIN_F64, TAN_F32, TAN_F64
from kernels_cpu.vecmath._parts import fast_two_sum, mad, poly, scalar, two_prod, two_sum

MAGIC = 1.5 * 2.0**52
TWO_PI_HI = 2.0 * math.pi
TWO_PI_LO = float.fromhex("0x1.1a62633145c07p-52")
SMALL = 2.0**-27
SIGN = 63


def _inverse_two_pi(bits):
    """``floor(2**bits / (2 pi))``, pi by Machin's formula in integers."""
    one = 1 << (bits + 32)

    def arctan_inverse(n):
        term = one // n
        total, k, sign = term, 1, -1
        while term:
            term //= n * n
            k += 2
            total += sign * (term // k)
            sign = -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return (one << bits) // (2 * pi)


def _rows(exponents, precision, head_bits, pieces, scale):
    """Rows of ``pieces`` doubles: ``2^scale / (2 pi)`` less the bits that give whole turns.

    Row ``e`` serves ``x = M 2^(e - precision + 1)`` with ``M < 2^precision``: bits from
    ``2^(precision - 1 - e)`` on are dropped.  The first piece has ``head_bits`` bits below that,
    so that its product with ``x`` is exact or splits exactly; each further piece is the rounded
    remainder of a window of 232 bits.
    """
    window = 232
    bits = exponents + window
    inverse = _inverse_two_pi(bits)
    unit = window - head_bits
    table = np.empty((exponents, pieces))
    for e in range(exponents):
        rest = (inverse >> (bits - window + precision - 1 - e)) & ((1 << window) - 1)
        value = float((rest + (1 << (unit - 1))) >> unit << unit)
        for piece in range(pieces):
            table[e, piece] = value
            rest -= int(value)
            value = float(rest)
    lowest = precision - 1 - window + scale - np.arange(exponents)
    return np.ldexp(table, lowest[:, None]).ravel()


SCALE = 256  # keeps the last pieces of the largest exponents out of the subnormal range
ROWS_F64 = _rows(1024, 53, 52, 4, SCALE)
ROWS_F32 = _rows(128, 24, 29, 2, 0)


@scalar
def row(x, last):
    """The table row of float64 ``x``: its exponent, 0 below 1."""
    e = (lshr(f64_bits(x), 52) & 0x7FF) - 1023
    e = select(e < 0, 0, e)
    return select(e > last, last, e)


@scalar
def reduce(x, per_turn, offset):
    """``x`` as ``(high, low, t)``: ``x = (high + low) + 2 pi (n - offset) / per_turn``.

    The last bits of ``t`` are those of ``n``.  ``head * x`` is exact in two parts whose sum modulo
    one turn is exact again; what follows is accumulated so that complete cancellation of the
    leading terms (``x`` next to a multiple of pi/2) leaves a full double of correct bits.
    """
    k = 4 * row(x, 1023)
    x *= 2.0**-SCALE
    whole, whole_low = two_prod(x, ROWS_F64[k])
    second, second_low = two_prod(x, ROWS_F64[k + 1])
    third, third_low = two_prod(x, ROWS_F64[k + 2])
    turns, e0 = two_sum((whole - rint(whole)) + whole_low, second)
    t = mad(turns, per_turn, offset) + MAGIC
    g, e1 = fast_two_sum((offset - (t - MAGIC)) * (1.0 / per_turn), turns)
    g, e2 = fast_two_sum(g, e0 + e1)  # g is 0 or at least an ulp of turns
    g, e3 = two_sum(g, second_low)
    g, e4 = two_sum(g, third)
    low = (e2 + e3) + (e4 + mad(x, ROWS_F64[k + 3], third_low))
    high, high_low = two_prod(g, TWO_PI_HI)
    return high, mad(low, TWO_PI_HI, mad(g, TWO_PI_LO, high_low)), t


@scalar
def signed_sine(high, low, t):
    """``(-1)^n sin(high + low)`` on [-pi/2, pi/2].

    At pi/2 the correction ``high^3 P`` is as large as the result: its cube is kept in two parts.
    """
    z, z_low = two_prod(high, high)
    cube, cube_low = two_prod(high, z)
    p = poly(z, SIN_F64)
    cosine = mad(z, mad(z, 1.0 / 24.0, -0.5), 1.0)
    y = high + mad(cube, p, mad(mad(high, z_low, cube_low), p, low * cosine))
    return bits_f64(f64_bits(y) ^ (f64_bits(t) << SIGN))


@scalar
def sin_f64(x):
    high, low, t = reduce(x, 2.0, 0.0)
    return select(fabs(x) < SMALL, x, signed_sine(high, low, t))


@scalar
def cos_f64(x):
    high, low, t = reduce(x, 2.0, 0.5)
    return signed_sine(high, low, t)


# For arguments up to NEAR, pi in three parts (Cody and Waite, 1980) replaces the table: no gathers, a third
# of the time. n has at most 18 bits (19 with its half), so n * PI_1 is exact, and so is x - n * PI_1; the
# parts have 139 bits together, 66 more than the closest double to a multiple of pi below NEAR can cancel.
NEAR = 2.0**18


def _pi_parts():
    inverse = _inverse_two_pi(400)
    pi = (1 << 800) // (2 * inverse)  # pi * 2^400
    first = pi >> (400 - 31) << (400 - 31)  # 33 bits
    second = float(pi - first)
    third = float(pi - first - int(second))
    return tuple(math.ldexp(v, -400) for v in (float(first), second, third))


PI_1, PI_2, PI_3 = _pi_parts()


@scalar
def reduce_near(x, offset):
    """``x = (high + low) + pi (n - offset)`` for ``|x| <= NEAR``; the last bits of ``t`` are those of n."""
    t = mad(x, 1.0 / math.pi, offset) + MAGIC
    n = (t - MAGIC) - offset
    product, product_low = two_prod(n, PI_2)
    high, low = two_sum(mad(n, -PI_1, x), -product)
    return high, (low - product_low) - n * PI_3, t


@scalar
def sin_near_f64(x):
    """sin for ``|x| <= NEAR`` (NaN stays NaN)."""
    high, low, t = reduce_near(x, 0.0)
    return select(fabs(x) < SMALL, x, signed_sine(high, low, t))


@scalar
def cos_near_f64(x):
    """cos for ``|x| <= NEAR`` (NaN stays NaN)."""
    high, low, t = reduce_near(x, 0.5)
    return signed_sine(high, low, t)


@scalar
def tan_f64(x):
    high, low, t = reduce(x, 4.0, 0.0)
    z = high * high
    y = high + mad(high * z, poly(z, TAN_F64), low * (1.0 + z))
    odd = (f64_bits(t) & 1) == 1
    y = select(odd, -1.0 / y, y)
    return select(fabs(x) < SMALL, x, y)


@scalar
def reduce32(x, per_turn, offset):
    """float64 ``(r, t)`` for an ``x`` of 24 bits; ``x`` times the first piece is exact."""
    k = 2 * row(x, 127)
    whole = x * ROWS_F32[k]
    second = x * ROWS_F32[k + 1]
    turns = whole - rint(whole)
    t = mad(turns + second, per_turn, offset) + MAGIC
    g = turns + (offset - (t - MAGIC)) * (1.0 / per_turn)
    return (g + second) * TWO_PI_HI, t


@scalar
def signed_sine32(r, t):
    z = r * r
    y = mad(r * z, poly(z, SIN_F32), r)
    return np.float32(bits_f64(f64_bits(y) ^ (f64_bits(t) << SIGN)))


@scalar
def sin_f32(x):
    r, t = reduce32(np.float64(x), 2.0, 0.0)
    return select(x == np.float32(0.0), x, signed_sine32(r, t))


@scalar
def cos_f32(x):
    r, t = reduce32(np.float64(x), 2.0, 0.5)
    return signed_sine32(r, t)


@scalar
def tan_f32(x):
    r, t = reduce32(np.float64(x), 4.0, 0.0)
    z = r * r
    y = mad(r * z, poly(z, TAN_F32), r)
    odd = (f64_bits(t) & 1) == 1
    y = np.float32(select(odd, -1.0 / y, y))
    return select(x == np.float32(0.0), x, y)
