"""Dual numbers: exact first derivatives of anything Python computes, and second ones by nesting.

``Dual(v, d)`` stands for ``v + d*eps``. Both parts may be floats, complex numbers, or duals again; ``d`` may be a
vector, then one run carries all directions. The functions below take plain numbers as well as duals.
"""

from __future__ import annotations

import cmath
import math

import numpy as np

INCIDENTS: list[
    str
] = []  # kinks and poles hit exactly: there a derivative is a matter of convention


class Dual:
    __slots__ = ("d", "v")
    __hash__ = None

    def __init__(self, v, d):
        self.v, self.d = v, d

    def __repr__(self):
        return f"Dual({self.v!r}, {self.d!r})"

    def __add__(self, b):
        if isinstance(b, np.ndarray):
            return NotImplemented
        return Dual(self.v + b.v, self.d + b.d) if isinstance(b, Dual) else Dual(self.v + b, self.d)

    __radd__ = __add__

    def __sub__(self, b):
        if isinstance(b, np.ndarray):
            return NotImplemented
        return Dual(self.v - b.v, self.d - b.d) if isinstance(b, Dual) else Dual(self.v - b, self.d)

    def __rsub__(self, b):
        return Dual(b - self.v, -self.d)

    def __mul__(self, b):
        if isinstance(b, np.ndarray):
            return NotImplemented
        if isinstance(b, Dual):
            return Dual(self.v * b.v, times(self.d, b.v) + times(b.d, self.v))
        return Dual(self.v * b, times(self.d, b))

    __rmul__ = __mul__

    def __truediv__(self, b):
        if isinstance(b, np.ndarray):
            return NotImplemented
        if isinstance(b, Dual):
            q = self.v / b.v
            return Dual(q, times(self.d - times(b.d, q), 1.0 / b.v))
        return Dual(self.v / b, times(self.d, 1.0 / b))

    def __rtruediv__(self, b):
        q = b / self.v
        return Dual(q, times(self.d, -q / self.v))

    def __pow__(self, b):
        return NotImplemented if isinstance(b, np.ndarray) else power(self, b)

    def __rpow__(self, b):
        return power(b, self)

    def __neg__(self):
        return Dual(-self.v, -self.d)

    def __pos__(self):
        return self

    def __abs__(self):
        return absolute(self)

    def __mod__(self, b):
        return NotImplemented if isinstance(b, np.ndarray) else self - b * floor_quotient(self, b)

    def __rmod__(self, b):
        return b - self * floor_quotient(b, self)

    def __floordiv__(self, b):
        return NotImplemented if isinstance(b, np.ndarray) else floor_quotient(self, b)

    def __rfloordiv__(self, b):
        return floor_quotient(b, self)

    def __divmod__(self, b):
        return self // b, self % b

    def __lt__(self, b):
        return plain(self) < plain(b)

    def __le__(self, b):
        return plain(self) <= plain(b)

    def __gt__(self, b):
        return plain(self) > plain(b)

    def __ge__(self, b):
        return plain(self) >= plain(b)

    def __eq__(self, b):
        return plain(self) == plain(b)

    def __ne__(self, b):
        return plain(self) != plain(b)

    def __bool__(self):
        return bool(plain(self))

    def __int__(self):
        return int(plain(self))

    def __round__(self, digits=None):
        return round(plain(self)) if digits is None else float(round(plain(self), digits))

    def __floor__(self):
        return math.floor(plain(self))

    def __ceil__(self):
        return math.ceil(plain(self))

    def __trunc__(self):
        return math.trunc(plain(self))

    @property
    def real(self):
        return Dual(self.v.real, self.d.real)

    @property
    def imag(self):
        return Dual(self.v.imag, self.d.imag)

    def conjugate(self):
        return Dual(self.v.conjugate(), self.d.conjugate())

    conj = conjugate


def times(d, factor):
    """A tangent times a factor; a tangent that is zero stays zero beside an infinite factor."""
    return d if isinstance(d, float) and d == 0.0 else d * factor


def plain(x):
    """The value without any derivative."""
    while isinstance(x, Dual):
        x = x.v
    return x


def floor_quotient(a, b):
    return float(plain(a) // plain(b))


def analytic(real, derivative, complex_=None):
    """A function of numbers and duals from its real form, its complex form, and its derivative."""

    def function(x):
        if isinstance(x, Dual):
            return Dual(function(x.v), times(x.d, derivative(x.v)))
        if isinstance(x, complex):
            return complex_(x)
        try:
            return real(x)
        except (ValueError, ZeroDivisionError, OverflowError):
            INCIDENTS.append("pole")
            return math.nan

    return function


sin = analytic(math.sin, lambda x: cos(x), cmath.sin)
cos = analytic(math.cos, lambda x: -sin(x), cmath.cos)
tan = analytic(math.tan, lambda x: 1 + tan(x) ** 2, cmath.tan)
asin = analytic(math.asin, lambda x: 1 / sqrt(1 - x * x), cmath.asin)
acos = analytic(math.acos, lambda x: -1 / sqrt(1 - x * x), cmath.acos)
atan = analytic(math.atan, lambda x: 1 / (1 + x * x), cmath.atan)
sinh = analytic(math.sinh, lambda x: cosh(x), cmath.sinh)
cosh = analytic(math.cosh, lambda x: sinh(x), cmath.cosh)
tanh = analytic(math.tanh, lambda x: 1 - tanh(x) ** 2, cmath.tanh)
asinh = analytic(math.asinh, lambda x: 1 / sqrt(x * x + 1), cmath.asinh)
acosh = analytic(math.acosh, lambda x: 1 / sqrt(x * x - 1), cmath.acosh)
atanh = analytic(math.atanh, lambda x: 1 / (1 - x * x), cmath.atanh)
exp = analytic(math.exp, lambda x: exp(x), cmath.exp)
exp2 = analytic(lambda x: 2.0**x, lambda x: exp2(x) * math.log(2.0))
expm1 = analytic(math.expm1, lambda x: exp(x))
log = analytic(math.log, lambda x: 1 / x, cmath.log)
log2 = analytic(math.log2, lambda x: 1 / (x * math.log(2.0)))
log10 = analytic(math.log10, lambda x: 1 / (x * math.log(10.0)), cmath.log10)
log1p = analytic(math.log1p, lambda x: 1 / (1 + x))
sqrt = analytic(math.sqrt, lambda x: 0.5 / sqrt(x), cmath.sqrt)
cbrt = analytic(np.cbrt, lambda x: 1 / (3 * cbrt(x) ** 2))
erf = analytic(math.erf, lambda x: 2 / math.sqrt(math.pi) * exp(-x * x))
erfc = analytic(math.erfc, lambda x: -2 / math.sqrt(math.pi) * exp(-x * x))


def digamma(x):
    """The derivative of lgamma, by recurrence and the asymptotic series; its own derivatives are not needed."""
    shift = 0.0
    while x < 10:
        shift, x = shift - 1 / x, x + 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))
    return shift + log(x) - 0.5 / x - series


lgamma = analytic(math.lgamma, digamma)
gamma = analytic(math.gamma, lambda x: gamma(x) * digamma(x))


def power(x, y):
    px, py = plain(x), plain(y)
    if not isinstance(y, Dual):
        if not isinstance(x, Dual):
            return x**y
        value = power(x.v, y)
        if py == 0:
            return Dual(value, times(x.d, 0.0))
        return Dual(value, times(x.d, y * power(x.v, y - 1)))
    if px == 0:
        INCIDENTS.append("power of zero")
    x = x if isinstance(x, Dual) else Dual(x, 0.0)
    value = power(x.v, y.v)
    base = times(x.d, y.v * power(x.v, y.v - 1))
    return Dual(value, base + times(y.d, value * log(x.v)))


def absolute(x):
    if isinstance(plain(x), complex):
        return hypot(x.real, x.imag) if isinstance(x, Dual) else abs(x)
    if not isinstance(x, Dual):
        return abs(x)
    return Dual(absolute(x.v), times(x.d, sign(x.v)))


def sign(x):
    if plain(x) == 0:
        INCIDENTS.append("kink of abs")
    return float(np.sign(plain(x)))


def hypot(x, y):
    if not (isinstance(x, Dual) or isinstance(y, Dual)):
        return math.hypot(x, y)
    if plain(x) == 0 and plain(y) == 0:
        INCIDENTS.append("kink of hypot")
        return Dual(0.0, 0.0)
    return sqrt(x * x + y * y)


def atan2(y, x):
    if not (isinstance(x, Dual) or isinstance(y, Dual)):
        return math.atan2(y, x)
    y, x = (z if isinstance(z, Dual) else Dual(z, 0.0) for z in (y, x))
    r = 1 / (x.v * x.v + y.v * y.v)
    return Dual(atan2(y.v, x.v), times(y.d, x.v * r) - times(x.d, y.v * r))


def copysign(x, y):
    magnitude = math.copysign(1.0, plain(x))
    return x * (magnitude * math.copysign(1.0, plain(y)))


def fmod(x, y):
    return x - y * float(math.trunc(plain(x) / plain(y)))


def maximum(x, y):
    return chosen(x, y, plain(x) >= plain(y))


def minimum(x, y):
    return chosen(x, y, plain(x) <= plain(y))


def chosen(x, y, first):
    """One of the two; at a tie of active values each gets half."""
    if plain(x) == plain(y) and (isinstance(x, Dual) or isinstance(y, Dual)):
        if x is not y:
            INCIDENTS.append("tie of max or min")
        return 0.5 * x + 0.5 * y
    return x if first else y


def logaddexp(x, y):
    top = max(plain(x), plain(y))
    return top + log(exp(x - top) + exp(y - top))


def angle(z):
    return atan2(z.imag, z.real) if isinstance(z, Dual) else float(np.angle(z))


def make_complex(re, im=0.0):
    return re + 1j * im if isinstance(re, Dual) or isinstance(im, Dual) else complex(re, im)
