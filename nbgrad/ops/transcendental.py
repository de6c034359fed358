"""Powers, roots, exponentials and logarithms.

Partials keep their relative accuracy in the tails and are finite wherever the derivative is: ``pow'`` is not ``y out / x``,
``expm1'`` is not ``out + 1``, and hypot's is scaled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..codegen.expr import m
from ..errors import ArgumentError, message
from ..op import as_tensor, cast, elementwise
from ..op.public import public
from ..tensor import Tensor
from .arithmetic import cube, reciprocal, refuse_bool, square
from .sampling import POSITIVE, REAL, SIDES, elements
from .selection import drop, zmul

LN2, LN10 = math.log(2.0), math.log(10.0)


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
        lambda x, y, out: _pow_slope(x, y),
        lambda x, y, out: drop((x == 0) & (y == 0), zmul(out, log(x))),
    ),
    tests=elements(POSITIVE, REAL),
    reference=np.power,
)
def pow(x, y):
    """x to the power y; ``0**0 = 1``; derivatives are finite wherever they exist."""
    refuse_bool("pow", x, "Convert the tensors with .to() first.")
    return m.ipow(x, y) if x.dtype.kind in "iu" else m.pow(x, y)


def _pow_slope(x: Any, y: Any) -> Any:
    return zmul(y, pow(x, y - 1))


@public(name="pow", alias=("power",), inplace=True)
def power(input: Any, exponent: Any) -> Any:
    """``input ** exponent`` with broadcasting; numbers are weak.

    ``0 ** 0`` is 1 and ``x ** 0`` has derivative 0 everywhere. Integer powers wrap on overflow.

    Raises
    ------
    ArgumentError : an integer to a negative integer power (the result would not be an integer).
    """
    fast = _SPECIAL_POWERS.get(exponent) if exponent.__class__ in _NUMBERS else None
    if fast is not None and isinstance(input, Tensor) and input._data.dtype.kind in "fc":
        return fast(input)
    out = pow(input, exponent)
    if out._data.dtype.kind in "iu":
        _check_integer_exponent(exponent)
    return out


_NUMBERS = frozenset({int, float})
_SPECIAL_POWERS = {2: square, 3: cube, -1: reciprocal}  # what a multiplication does better than pow


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
        lambda x, y, out: over_hypot(square(_unit(y, x)), x, y),
        lambda x, y, out: -over_hypot(out * _unit(y, x), x, y),
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


def _unit(x: Any, y: Any) -> Any:
    return unit(x, y)


def over_hypot(a: Any, x: Any, y: Any) -> Any:
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
