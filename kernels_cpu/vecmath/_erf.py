"""erf and erfc.

``erf``: an odd polynomial below 1; ``1 - exp(polynomial)`` above.  ``erfc``: ``exp(-a^2)``, with
the square in two parts, times ``exp(a^2) erfc(a)``, which Shepherd and Laframboise (1981) make a
polynomial in ``t = (a-4)/(a+4)`` over ``1 + 2a``; ``w = 1 + t`` is computed without cancellation.
"""

import numpy as np

from kernels_cpu.intrinsics import copysign, fabs, fma, select
from kernels_cpu.vecmath._coefficients import (
    ERF_LARGE_F32,
    ERF_LARGE_F64,
    ERF_SMALL_F32,
    ERF_SMALL_F64,
    ERFCX_F32,
    ERFCX_F64,
)
from kernels_cpu.vecmath._exp import exp_parts, exp_parts32, scale
from kernels_cpu.vecmath._parts import fast_two_sum, mad, poly, scalar, two_prod


@scalar
def erf_f64(x):
    a = fabs(x)
    z = a * a
    small = mad(a, poly(z, ERF_SMALL_F64), a)
    u = select(a > 6.0, 6.0, a) - 2.0
    r, q, m = exp_parts(poly(u, ERF_LARGE_F64), 0.0)
    large = 1.0 - scale(1.0 + (r + q), m)
    return copysign(select(a < 1.0, small, large), x)


@scalar
def erfc_f64(x):
    a = fabs(x)
    a = select(a > 28.0, 28.0, a)
    w = 2.0 * a / (a + 4.0)
    num, num_low = fast_two_sum(1.0, w * poly(w - 1.0, ERFCX_F64))
    den, den_low = fast_two_sum(select(a > 0.5, 2.0 * a, 1.0), select(a > 0.5, 1.0, 2.0 * a))
    inverse = 1.0 / den
    y = num * inverse
    y_low = (fma(-y, den, num) + (num_low - y * den_low)) * inverse
    square, square_low = two_prod(a, a)
    r, q, m = exp_parts(-square, -square_low)
    y = scale(y + mad(y, r + q, y_low), m)
    return select(x < 0.0, 2.0 - y, y)


@scalar
def erf_f32(x):
    a = fabs(np.float64(x))
    small = mad(a, poly(a * a, ERF_SMALL_F32), a)
    p, s = exp_parts32(poly(select(a > 4.0, 4.0, a) - 2.0, ERF_LARGE_F32))
    return copysign(np.float32(select(a < 1.0, small, 1.0 - mad(s, p, s))), x)


@scalar
def erfc_f32(x):
    d = np.float64(x)
    a = fabs(d)
    a = select(a > 11.0, 11.0, a)
    w = 2.0 * a / (a + 4.0)
    y = mad(w, poly(w - 1.0, ERFCX_F32), 1.0) / mad(a, 2.0, 1.0)
    p, s = exp_parts32(-a * a)
    y *= mad(s, p, s)
    return np.float32(select(d < 0.0, 2.0 - y, y))
