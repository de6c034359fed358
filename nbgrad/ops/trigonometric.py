"""Trigonometric and hyperbolic functions and their inverses.

Partials keep their relative accuracy in the tails: ``tanh'`` is ``sech^2`` and not ``1 - tanh^2``, ``asinh'`` divides by
``hypot(x, 1)`` and not by the root of a square that overflows, ``atan2'`` is scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen.expr import m
from ..op import elementwise
from .arithmetic import reciprocal, square
from .sampling import REAL, SIDES, UNIT, elements
from .transcendental import hypot, over_hypot, rsqrt, sqrt, unit


def _is_complex(x: Any) -> bool:
    """Whether a complex branch applies; an input that a partial's real branch does not read is not saved: None."""
    return x is not None and x.dtype.kind == "c"


def _cos(x: Any) -> Any:  # these three: a checker cannot type operators that name each other
    return cos(x)


def _cosh(x: Any) -> Any:
    return cosh(x)


def _sech2(x: Any) -> Any:
    return sech2(x)


# -- trigonometric --------------------------------------------------------------------------------------


@elementwise(
    partials=(lambda x, out: _cos(x),), promotion="float", tests=elements(REAL), reference=np.sin
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
        lambda y, x, out: over_hypot(unit(x, y), x, y),
        lambda y, x, out: -over_hypot(unit(y, x), x, y),
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
    partials=(lambda x, out: _cosh(x),), promotion="float", tests=elements(REAL), reference=np.sinh
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
    partials=(lambda x, out: _sech2(x),),
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
