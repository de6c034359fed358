"""atan, atan2, asin, acos.

``atan`` maps ``a > 1`` to ``1/a``; ``asin`` and ``acos`` map ``a > 1/2`` to ``sqrt((1-a)/2)``.
The result is a base (0, pi/2, pi, in two parts) plus or minus the odd series, so that each
function is one evaluation and one compensated sum.
"""

import math

import numpy as np

from kernels_cpu.intrinsics import copysign, f64_bits, fabs, fma, select, sqrt
from kernels_cpu.vecmath._coefficients import ASIN_F32, ASIN_F64, ATAN_F32, ATAN_F64
from kernels_cpu.vecmath._parts import fast_two_sum, mad, poly, scalar

INF = math.inf
HALF_PI = math.pi / 2
HALF_PI_LO = float.fromhex("0x1.1a62633145c07p-54")
PI_LO = 2.0 * HALF_PI_LO


@scalar
def from_base(base, base_low, main, small):
    """``(base + base_low) + (main + small)`` for ``base == 0`` or ``|base| >= |main|``."""
    high, low = fast_two_sum(base, main)
    return high + (low + (small + base_low))


@scalar
def atan_f64(x):
    a = fabs(x)
    far = a > 1.0
    v = select(far, -1.0, a) / select(far, a, 1.0)
    z = v * v
    base = select(far, HALF_PI, 0.0)
    y = from_base(base, select(far, HALF_PI_LO, 0.0), v, v * z * poly(z, ATAN_F64))
    return copysign(y, x)


@scalar
def ratio(y, x):
    """``(v, steep, left)``: ``v = min/max`` of ``|x|, |y|``, with C99's answers at 0/0, inf/inf."""
    ay, ax = fabs(y), fabs(x)
    steep = ay > ax
    num, den = select(steep, ax, ay), select(steep, ay, ax)
    v = select(num == den, 1.0, num / den)
    v = select(den == 0.0, 0.0, v)
    return v, steep, f64_bits(x) < 0


@scalar
def atan2_f64(y, x):
    v, steep, left = ratio(y, x)
    v = select(steep == left, v, -v)
    base = select(steep, HALF_PI, select(left, math.pi, 0.0))
    base_low = select(steep, HALF_PI_LO, select(left, PI_LO, 0.0))
    z = v * v
    result = from_base(base, base_low, v, v * z * poly(z, ATAN_F64))
    return copysign(select((x != x) | (y != y), x + y, result), y)


@scalar
def asin_parts(a):
    """``(main, small, far)``: ``asin(a)``, or ``acos(a)/2`` where ``far`` (``a > 1/2``)."""
    far = a > 0.5
    z = select(far, 0.5 * (1.0 - a), a * a)
    root = sqrt(z)
    rest = fma(-root, root, z) * (0.5 / select(root > 0.0, root, 1.0))
    s = select(far, root, a)
    return s, mad(s * z, poly(z, ASIN_F64), select(far, rest, 0.0)), far


@scalar
def asin_f64(x):
    s, small, far = asin_parts(fabs(x))
    factor = select(far, -2.0, 1.0)
    base = select(far, HALF_PI, 0.0)
    y = from_base(base, select(far, HALF_PI_LO, 0.0), factor * s, factor * small)
    return copysign(y, x)


@scalar
def acos_f64(x):
    s, small, far = asin_parts(fabs(x))
    negative = x < 0.0
    factor = select(far, 2.0, 1.0)
    factor = select(far == negative, -factor, factor)
    factor = select(far, factor, -copysign(1.0, x))
    base = select(far, select(negative, math.pi, 0.0), HALF_PI)
    base_low = select(far, select(negative, PI_LO, 0.0), HALF_PI_LO)
    return from_base(base, base_low, factor * s, factor * small)


@scalar
def atan_f32(x):
    a = fabs(np.float64(x))
    far = a > 1.0
    v = select(far, -1.0, a) / select(far, a, 1.0)
    z = v * v
    y = select(far, HALF_PI, 0.0) + mad(v * z, poly(z, ATAN_F32), v)
    return copysign(np.float32(y), x)


@scalar
def atan2_f32(y, x):
    v, steep, left = ratio(np.float64(y), np.float64(x))
    v = select(steep == left, v, -v)
    z = v * v
    base = select(steep, HALF_PI, select(left, math.pi, 0.0))
    result = np.float32(base + mad(v * z, poly(z, ATAN_F32), v))
    return copysign(select((x != x) | (y != y), x + y, result), y)


@scalar
def asin_parts32(a):
    far = a > 0.5
    z = select(far, 0.5 * (1.0 - a), a * a)
    s = select(far, sqrt(z), a)
    return mad(s * z, poly(z, ASIN_F32), s), far


@scalar
def asin_f32(x):
    s, far = asin_parts32(fabs(np.float64(x)))
    return copysign(np.float32(select(far, HALF_PI - 2.0 * s, s)), x)


@scalar
def acos_f32(x):
    d = np.float64(x)
    s, far = asin_parts32(fabs(d))
    outer = select(d < 0.0, math.pi - 2.0 * s, 2.0 * s)
    return np.float32(select(far, outer, HALF_PI - copysign(s, d)))
