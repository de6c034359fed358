"""Powers, exponentials, logarithms, trigonometric and hyperbolic functions.

Partials are written to keep their relative accuracy in the tails and to be finite wherever the derivative is: ``tanh'`` is
``sech^2`` and not ``1 - tanh^2``, ``asinh'`` divides by ``hypot(x, 1)``, ``atan2'`` is scaled, ``pow'`` is not ``y out / x``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..codegen.expr import m
from ..errors import ArgumentError, message
from ..op import as_tensor, cast, elementwise
from ..op.public import public
from .arithmetic import reciprocal, refuse_bool, square
from .sampling import POSITIVE, REAL, SIDES, UNIT, elements
from .selection import drop, zmul

LN2, LN10 = math.log(2.0), math.log(10.0)


def _is_complex(x: Any) -> bool:
    """Whether a complex branch applies; an input that a partial's real branch does not read is not saved: None."""
    return x is not None and x.dtype.kind == "c"


# -- powers and roots -------------------------------------------------------------------------------


@elementwise(
    partials=(lambda x, out: 0.5 / out,),
    promotion="float",
    tests=elements(POSITIVE),
    reference=np.sqrt,
)
def sqrt(x):
    """Square root."""
    return m.sqrt(x)


@elementwise(
    partials=(lambda x, out: -0.5 * out / x,),
    promotion="float",
    tests=elements(POSITIVE),
    reference=lambda x: 1 / np.sqrt(x),
)
def rsqrt(x):
    """1/sqrt(x)."""
    return 1 / m.sqrt(x)


@elementwise(
    partials=(lambda x, out: (1 / 3) / (out * out),),
    promotion="float",
    complex_ok=False,
    tests=elements(SIDES),
    reference=np.cbrt,
)
def cbrt(x):
    """Real cube root."""
    return m.cbrt(x)


@elementwise(
    hidden=True,
    partials=(
        lambda x, y, out: zmul(y, pow(x, y - 1)),
        lambda x, y, out: drop((x == 0) & (y == 0), zmul(out, log(x))),
    ),
    tests=elements(POSITIVE, REAL),
    reference=np.power,
)
def pow(x, y):
    """x to the power y; ``0**0 = 1``; derivatives are finite wherever they exist."""
    refuse_bool("pow", x, "Convert the tensors with .to() first.")
    return m.ipow(x, y) if x.dtype.kind in "iu" else m.pow(x, y)


@public(name="pow", alias=("power",), inplace=True)
def power(input: Any, exponent: Any) -> Any:
    """``input ** exponent`` with broadcasting; numbers are weak.

    ``0 ** 0`` is 1 and ``x ** 0`` has derivative 0 everywhere. Integer powers wrap on overflow.

    Raises
    ------
    ArgumentError : an integer to a negative integer power (the result would not be an integer).
    """
    kind = exponent.__class__
    if (kind is int or kind is float) and exponent == 2:
        return square(input) if kind is int else pow(input, exponent)
    out = pow(input, exponent)
    if out._data.dtype.kind in "iu":
        _check_integer_exponent(exponent)
    return out


def _check_integer_exponent(exponent: Any) -> None:
    e = as_tensor(exponent, "pow", "exponent")._data
    if type(e) is np.ndarray and e.size and e.min() < 0:
        raise ArgumentError(
            message(
                "pow",
                "the smallest exponent of an integer tensor",
                e.min(),
                "a non-negative integer",
                "Convert the base to a floating dtype first.",
            )
        )


@public(inplace=True)
def float_power(input: Any, exponent: Any) -> Any:
    """``input ** exponent`` computed in float64 (complex128 where one of them is complex)."""
    x, y = (as_tensor(a, "float_power") for a in (input, exponent))
    wide = np.dtype("complex128" if "c" in x.dtype.kind + y.dtype.kind else "float64")
    return pow(cast(x, wide), cast(y, wide))


@elementwise(
    complex_ok=False,
    partials=(lambda x, y, out: unit(x, y), lambda x, y, out: unit(y, x)),
    promotion="float",
    tests=elements(SIDES, SIDES),
    reference=np.hypot,
)
def hypot(x, y):
    """sqrt(x^2 + y^2) without overflow; the derivative at the origin is 0."""
    return m.hypot(x, y)


@elementwise(
    hidden=True,
    complex_ok=False,
    partials=(
        lambda x, y, out: _over(square(unit(y, x)), x, y),
        lambda x, y, out: -_over(out * unit(y, x), x, y),
    ),
    promotion="float",
    tests=elements(SIDES, SIDES),
    reference=lambda x, y: x / np.hypot(x, y),
)
def unit(x, y):
    """x/hypot(x, y), the cosine of the angle; 0 at the origin."""
    h, ax = m.hypot(x, y), m.fabs(x)
    one, zero = m.const(1, h), m.const(0, h)
    far = m.copysign(m.select(ax == math.inf, one, zero), x)
    return m.select(h == 0, zero, m.select(h == math.inf, far, x / h))


def _over(a: Any, x: Any, y: Any) -> Any:
    """a/hypot(x, y), and 0 at the origin and at infinity."""
    h = hypot(x, y)
    return drop((h == 0) | (h == math.inf), a / h)


# -- exponentials and logarithms ----------------------------------------------------------------------


@elementwise(
    partials=(lambda x, out: out,), promotion="float", tests=elements(REAL), reference=np.exp
)
def exp(x):
    """Exponential."""
    return m.exp(x)


@elementwise(
    partials=(lambda x, out: out * LN2,), promotion="float", tests=elements(REAL), reference=np.exp2
)
def exp2(x):
    """2**x."""
    return m.exp2(x)


@elementwise(
    partials=(lambda x, out: exp(x),), promotion="float", tests=elements(REAL), reference=np.expm1
)
def expm1(x):
    """exp(x) - 1, accurate near 0."""
    return m.expm1(x)


@elementwise(
    partials=(lambda x, out: reciprocal(x),),
    promotion="float",
    tests=elements(POSITIVE),
    reference=np.log,
)
def log(x):
    """Natural logarithm."""
    return m.log(x)


@elementwise(
    partials=(lambda x, out: reciprocal(x) * (1 / LN2),),
    promotion="float",
    tests=elements(POSITIVE),
    reference=np.log2,
)
def log2(x):
    """Logarithm to base 2."""
    return m.log2(x)


@elementwise(
    partials=(lambda x, out: reciprocal(x) * (1 / LN10),),
    promotion="float",
    tests=elements(POSITIVE),
    reference=np.log10,
)
def log10(x):
    """Logarithm to base 10."""
    return m.log10(x)


@elementwise(
    partials=(lambda x, out: reciprocal(1 + x),),
    promotion="float",
    tests=elements((-0.6, 2.0)),
    reference=np.log1p,
)
def log1p(x):
    """log(1 + x), accurate near 0."""
    return m.log1p(x)


def _gap(x: Any, y: Any) -> Any:
    """x - y, and 0 where both are the same infinity."""
    return drop((x == y) & ((x == math.inf) | (x == -math.inf)), x - y)


def _log_add(x: Any, y: Any, log_of_one_plus_exp: Any, at_tie: float) -> Any:
    top, bottom = m.select((x > y) | (x != x), x, y), m.select((x > y) | (x != x), y, x)
    gap = m.select(top == bottom, m.const(0, x), bottom - top)
    return m.select(top == bottom, top + at_tie, top + log_of_one_plus_exp(gap))


@elementwise(
    complex_ok=False,
    partials=(
        lambda x, y, out: drop(out == -math.inf, sigmoid(_gap(x, y))),
        lambda x, y, out: drop(out == -math.inf, sigmoid(_gap(y, x))),
    ),
    promotion="float",
    tests=elements(REAL, REAL),
    reference=np.logaddexp,
)
def logaddexp(x, y):
    """log(exp(x) + exp(y)) without overflow; where both are -inf the derivatives are 0."""
    return _log_add(x, y, lambda gap: m.log1p(m.exp(gap)), LN2)


@elementwise(
    complex_ok=False,
    partials=(
        lambda x, y, out: drop(out == -math.inf, sigmoid(_gap(x, y) * LN2)),
        lambda x, y, out: drop(out == -math.inf, sigmoid(_gap(y, x) * LN2)),
    ),
    promotion="float",
    tests=elements(REAL, REAL),
    reference=np.logaddexp2,
)
def logaddexp2(x, y):
    """log2(2**x + 2**y) without overflow; where both are -inf the derivatives are 0."""
    return _log_add(x, y, lambda gap: m.log1p(m.exp2(gap)) * (1 / LN2), 1.0)


@elementwise(
    complex_ok=False,
    partials=(
        lambda x, y, out: drop((x == 0) & (y <= 0), log(y)),
        lambda x, y, out: zmul(x, reciprocal(y)),
    ),
    promotion="float",
    tests=elements(REAL, POSITIVE),
    reference=lambda x, y: x * np.log(y),
)
def xlogy(x, y):
    """x log(y), and 0 where x is 0 (unless y is NaN)."""
    return m.select((x == 0) & (y == y), m.const(0, x), x * m.log(y))


@elementwise(
    complex_ok=False,
    partials=(
        lambda x, y, out: drop((x == 0) & (y <= -1), log1p(y)),
        lambda x, y, out: zmul(x, reciprocal(1 + y)),
    ),
    promotion="float",
    tests=elements(REAL, (-0.6, 2.0)),
    reference=lambda x, y: x * np.log1p(y),
)
def xlog1py(x, y):
    """x log(1 + y), and 0 where x is 0 (unless y is NaN)."""
    return m.select((x == 0) & (y == y), m.const(0, x), x * m.log1p(y))


@elementwise(
    partials=(lambda x, out: logistic_density(x),),
    promotion="float",
    tests=elements(REAL),
    reference=lambda x: 1 / (1 + np.exp(-x)),
)
def sigmoid(x):
    """1/(1 + exp(-x)), accurate in both tails."""
    return m.sigmoid(x)


@elementwise(
    hidden=True,
    partials=(lambda x, out: -out * tanh(0.5 * x),),
    promotion="float",
    tests=elements(REAL),
    reference=lambda x: 0.25 / np.cosh(x / 2) ** 2,
)
def logistic_density(x):
    """The derivative of the sigmoid, ``s(x) s(-x)``, accurate in both tails."""
    if x.dtype.kind == "c":
        return m.sigmoid(x) * m.sigmoid(-x)
    e = m.exp(-m.fabs(x))
    return e / ((1 + e) * (1 + e))


# -- trigonometric --------------------------------------------------------------------------------------


@elementwise(
    partials=(lambda x, out: cos(x),), promotion="float", tests=elements(REAL), reference=np.sin
)
def sin(x):
    """Sine."""
    return m.sin(x)


@elementwise(
    partials=(lambda x, out: -sin(x),), promotion="float", tests=elements(REAL), reference=np.cos
)
def cos(x):
    """Cosine."""
    return m.cos(x)


@elementwise(
    partials=(lambda x, out: square(reciprocal(cos(x))) if _is_complex(x) else 1 + out * out,),
    promotion="float",
    tests=elements((-1.2, 1.2)),
    reference=np.tan,
)
def tan(x):
    """Tangent."""
    return m.tan(x)


def _inverse_root(x: Any) -> Any:
    """1/sqrt(1 - x^2) on the branch of asin."""
    if _is_complex(x):
        return reciprocal(sqrt(1 - x) * sqrt(1 + x))
    return rsqrt((1 - x) * (1 + x))


@elementwise(
    alias=("arcsin",),
    partials=(lambda x, out: _inverse_root(x),),
    promotion="float",
    tests=elements(UNIT),
    reference=np.arcsin,
)
def asin(x):
    """Inverse sine."""
    return m.asin(x)


@elementwise(
    alias=("arccos",),
    partials=(lambda x, out: -_inverse_root(x),),
    promotion="float",
    tests=elements(UNIT),
    reference=np.arccos,
)
def acos(x):
    """Inverse cosine."""
    return m.acos(x)


@elementwise(
    alias=("arctan",),
    partials=(lambda x, out: reciprocal((x - 1j) * (x + 1j) if _is_complex(x) else 1 + x * x),),
    promotion="float",
    tests=elements((0.2, 2.0)),
    reference=np.arctan,
)
def atan(x):
    """Inverse tangent."""
    return m.atan(x)


@elementwise(
    alias=("arctan2",),
    complex_ok=False,
    partials=(
        lambda y, x, out: _over(unit(x, y), x, y),
        lambda y, x, out: -_over(unit(y, x), x, y),
    ),
    promotion="float",
    tests=elements(SIDES, SIDES),
    reference=np.arctan2,
)
def atan2(y, x):
    """Angle of the point (x, y) in [-pi, pi]; the derivatives at the origin are 0."""
    return m.atan2(y, x)


# -- hyperbolic -----------------------------------------------------------------------------------------


@elementwise(
    partials=(lambda x, out: cosh(x),), promotion="float", tests=elements(REAL), reference=np.sinh
)
def sinh(x):
    """Hyperbolic sine."""
    return m.sinh(x)


@elementwise(
    partials=(lambda x, out: sinh(x),), promotion="float", tests=elements(REAL), reference=np.cosh
)
def cosh(x):
    """Hyperbolic cosine."""
    return m.cosh(x)


@elementwise(
    partials=(lambda x, out: sech2(x),),
    promotion="float",
    tests=elements((-1.2, 1.2)),
    reference=np.tanh,
)
def tanh(x):
    """Hyperbolic tangent."""
    return m.tanh(x)


@elementwise(
    hidden=True,
    partials=(lambda x, out: -2 * tanh(x) * out,),
    promotion="float",
    tests=elements((-1.2, 1.2)),
    reference=lambda x: np.cosh(x) ** -2,
)
def sech2(x):
    """1/cosh(x)^2: the derivative of tanh, accurate in the tails."""
    if x.dtype.kind == "c":
        inverse = 1 / m.cosh(x)
        return inverse * inverse
    e = m.exp(-2 * m.fabs(x))
    return 4 * e / ((1 + e) * (1 + e))


def _asinh_slope(x: Any) -> Any:
    if _is_complex(x):
        return reciprocal(sqrt(1 + 1j * x) * sqrt(1 - 1j * x))
    return reciprocal(hypot(x, 1.0))


@elementwise(
    alias=("arcsinh",),
    partials=(lambda x, out: _asinh_slope(x),),
    promotion="float",
    tests=elements((0.2, 2.0)),
    reference=np.arcsinh,
)
def asinh(x):
    """Inverse hyperbolic sine."""
    return m.asinh(x)


@elementwise(
    alias=("arccosh",),
    partials=(lambda x, out: rsqrt(x - 1) * rsqrt(x + 1),),
    promotion="float",
    tests=elements((1.3, 3.0)),
    reference=np.arccosh,
)
def acosh(x):
    """Inverse hyperbolic cosine."""
    return m.acosh(x)


@elementwise(
    alias=("arctanh",),
    partials=(lambda x, out: reciprocal((1 - x) * (1 + x)),),
    promotion="float",
    tests=elements((-0.8, 0.8)),
    reference=np.arctanh,
)
def atanh(x):
    """Inverse hyperbolic tangent."""
    return m.atanh(x)
