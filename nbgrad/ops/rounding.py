"""Rounding, remainders and other piecewise operators. Where a function is piecewise constant its derivative is 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..codegen.expr import m
from ..dtypes import finfo
from ..errors import ArgumentError, message
from ..op import as_tensor, elementwise
from ..op.public import METHODS, public
from .arithmetic import refuse_bool
from .sampling import REAL, SIDES, elements
from .selection import keep, zmul

# values and quotients at least 0.1 away from the integers and their halves
_OFF_GRID = [(-1.9, -1.6), (-0.4, -0.1), (0.6, 0.9), (1.1, 1.4)]
_QUOTIENTS = elements([(-5.4, -5.2), (2.6, 2.8), (4.6, 4.8)], [(-2.05, -1.95), (0.98, 1.02)])


def _rounder(name: str, primitive: Any, reference: Any, doc: str, alias: tuple = ()) -> Any:
    def body(x: Any) -> Any:
        return primitive(x) if x.dtype.kind == "f" else x

    body.__doc__ = doc
    return elementwise(
        name,
        alias=alias,
        complex_ok=False,
        partials=(lambda x, out: 0,),
        tests=elements(_OFF_GRID),
        reference=reference,
    )(body)


floor = _rounder("floor", m.floor, np.floor, "The largest integer not above x; derivative 0.")
ceil = _rounder("ceil", m.ceil, np.ceil, "The smallest integer not below x; derivative 0.")
trunc = _rounder("trunc", m.trunc, np.trunc, "x rounded towards zero; derivative 0.", ("fix",))


@elementwise(
    hidden=True,
    complex_ok=False,
    partials=(lambda x, scale, out: 0, None),
    tests=elements([(-1.1, -0.9), (1.9, 2.1)], [(1, 1), (2, 2)]),
    reference=lambda x, scale: np.rint(x * scale) / scale,
)
def round_to(x, scale):
    """x rounded half to even to a multiple of 1/scale."""
    return m.rint(x * scale) / scale if x.dtype.kind == "f" else x


@public(inplace=True)
def round(input: Any, *, decimals: int = 0) -> Any:
    """Round half to even, to ``decimals`` digits after the point (before it if negative); derivative 0."""
    x = as_tensor(input, "round")
    if not isinstance(decimals, int):
        raise ArgumentError(message("round", "argument 'decimals'", decimals, "an integer"))
    if decimals >= 0:
        return round_to(x, 10**decimals)
    scale = 10**-decimals
    return round_to(x / scale, 1) * scale


@elementwise(
    complex_ok=False, partials=(lambda x, out: 1,), tests=elements(_OFF_GRID),
    reference=lambda x: x - np.trunc(x),
)  # fmt: skip
def frac(x):
    """x - trunc(x), with the sign of x."""
    if x.dtype.kind != "f":
        return m.const(0, x)
    finite = m.fabs(x) < math.inf
    return m.select(finite, x - m.trunc(m.select(finite, x, m.const(0, x))), x - x)


# -- remainders -------------------------------------------------------------------------------------------


def _int_parts(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Safe divisor, whether it was 0, whether it was -1 (whose quotient may overflow)."""
    zero = y == 0
    minus = y == -1 if y.dtype.kind == "i" else zero
    return m.select(zero | minus, m.const(1, y), y), zero, minus


def _int_mod(x: Any, y: Any) -> Any:
    safe, zero, minus = _int_parts(x, y)
    return m.select(zero | minus, m.const(0, x), m.imod(x, safe))


def _int_floor(x: Any, y: Any) -> Any:
    safe, zero, minus = _int_parts(x, y)
    q = m.ifloordiv(x, safe)
    if y.dtype.kind == "i":
        q = m.select(minus, -x, q)
    return m.select(zero, m.const(0, x), q)


def _float_mod(x: Any, y: Any) -> Any:
    """Python's modulo: the sign of the divisor, exact."""
    r = m.fmod(x, y)
    zero = m.const(0, x)
    return m.select(r == 0, m.copysign(zero, y), m.select((r < 0) != (y < 0), r + y, r))


@elementwise(
    hidden=True,
    complex_ok=False,
    partials=(lambda x, y, out: 1, lambda x, y, out: -floor_div(x, y)),
    tests=_QUOTIENTS,
    reference=np.mod,
)
def remainder(x, y):
    """x modulo y with the sign of y (Python's and NumPy's ``%``)."""
    refuse_bool("remainder", x, "Convert the tensors with .to() first.")
    return _float_mod(x, y) if x.dtype.kind == "f" else _int_mod(x, y)


@elementwise(
    hidden=True,
    complex_ok=False,
    partials=(lambda x, y, out: 0, lambda x, y, out: 0),
    tests=_QUOTIENTS,
    reference=np.floor_divide,
)
def floor_div(x, y):
    """The integer part of x/y towards minus infinity (Python's ``//``)."""
    refuse_bool("floor_divide", x, "Convert the tensors with .to() first.")
    if x.dtype.kind != "f":
        return _int_floor(x, y)
    mod = m.fmod(x, y)
    q = (x - mod) / y
    q = m.select((mod != 0) & ((mod < 0) != (y < 0)), q - 1, q)
    whole = m.floor(q)
    whole = m.select(q - whole > 0.5, whole + 1, whole)
    whole = m.select(q == 0, m.copysign(m.const(0, x), x / y), whole)
    return m.select(y == 0, x / y, whole)


@elementwise(
    hidden=True,
    complex_ok=False,
    partials=(lambda x, y, out: 1, lambda x, y, out: -trunc_div(x, y)),
    tests=_QUOTIENTS,
    reference=np.fmod,
)
def fmod(x, y):
    """x modulo y with the sign of x (C's fmod)."""
    refuse_bool("fmod", x, "Convert the tensors with .to() first.")
    if x.dtype.kind == "f":
        return m.fmod(x, y)
    r = _int_mod(x, y)
    return m.select((r != 0) & ((r < 0) != (x < 0)), r - y, r) if x.dtype.kind == "i" else r


@elementwise(
    hidden=True,
    complex_ok=False,
    partials=(lambda x, y, out: 0, lambda x, y, out: 0),
    tests=_QUOTIENTS,
    reference=lambda x, y: np.trunc(x / y),
)
def trunc_div(x, y):
    """The integer part of x/y towards zero."""
    refuse_bool("div", x, "Convert the tensors with .to() first.")
    if x.dtype.kind == "f":
        q = m.rint((x - m.fmod(x, y)) / y)
        return m.select(y == 0, x / y, q)
    q, r = _int_floor(x, y), _int_mod(x, y)
    return m.select((r != 0) & ((x < 0) != (y < 0)), q + 1, q) if x.dtype.kind == "i" else q


def _checked(op: str, fn: Any, x: Any, y: Any) -> Any:
    """Run, refusing an integer division by zero that can be seen (traced values give 0)."""
    out = fn(x, y)
    if out._data.dtype.kind in "iu":
        divisor = as_tensor(y, op, "other")._data
        if type(divisor) is np.ndarray and not divisor.all():
            raise ArgumentError(
                message(
                    op,
                    "an integer divisor",
                    0,
                    "nonzero divisors",
                    "Convert to a floating dtype to get inf and nan instead.",
                )
            )
    return out


@public(name="floor_divide", inplace=True)
def floor_divide(input: Any, other: Any) -> Any:
    """``input // other``: the quotient rounded towards minus infinity; derivative 0.

    Raises
    ------
    ArgumentError : an integer division by zero.
    """
    return _checked("floor_divide", floor_div, input, other)


def trunc_divide(input: Any, other: Any) -> Any:
    """The quotient rounded towards zero."""
    return _checked("div", trunc_div, input, other)


@public(name="remainder", alias=("mod",), inplace=True)
def mod(input: Any, other: Any) -> Any:
    """``input % other`` with the sign of ``other``; the derivative in ``other`` is ``-(input // other)``.

    Raises
    ------
    ArgumentError : an integer division by zero.
    """
    return _checked("remainder", remainder, input, other)


@public(name="fmod", inplace=True)
def _fmod(input: Any, other: Any) -> Any:
    """The remainder with the sign of ``input`` (C's ``fmod``).

    Raises
    ------
    ArgumentError : an integer division by zero.
    """
    return _checked("fmod", fmod, input, other)


@public
def divmod(input: Any, other: Any) -> tuple[Any, Any]:
    """``(input // other, input % other)``."""
    return floor_divide(input, other), mod(input, other)


# -- others -------------------------------------------------------------------------------------------------


@elementwise(
    complex_ok=False,
    diagonal=(lambda t, x, v, out: zmul(_zero_like(x), t), lambda t, x, v, out: keep(x == 0, t)),
    tests=elements(SIDES, REAL),
    reference=np.heaviside,
)
def heaviside(x, values):
    """0 for negative, 1 for positive x, ``values`` at 0; its derivative goes to ``values`` at 0."""
    one, zero = m.const(1, x), m.const(0, x)
    step = m.select(x == 0, values, m.select(x > 0, one, zero))
    return m.select(x == x, step, x) if x.dtype.kind == "f" else step


def _zero_like(x: Any) -> Any:
    return x.zeros_like_() if hasattr(x, "zeros_like_") else m.const(0, x)


@elementwise(
    complex_ok=False,
    partials=(lambda x, y, out: _sign_ratio(x, y), lambda x, y, out: 0),
    promotion="float",
    tests=elements(SIDES, SIDES),
    reference=np.copysign,
)
def copysign(x, y):
    """The magnitude of x with the sign of y; the derivative at x = 0 is 0."""
    return m.copysign(x, y)


def _sign_ratio(x: Any, y: Any) -> Any:
    from .complex import sgn

    return sgn(x) * copysign(1.0, y)


@elementwise(
    "nan_to_num",
    hidden=True,
    complex_ok=False,
    diagonal=(
        lambda t, x, nan, high, low, out: keep((x == x) & (x != math.inf) & (x != -math.inf), t),
        lambda t, x, nan, high, low, out: keep(x != x, t),
        lambda t, x, nan, high, low, out: keep(x == math.inf, t),
        lambda t, x, nan, high, low, out: keep(x == -math.inf, t),
    ),
    tests=elements(REAL, REAL, REAL, REAL),
    reference=lambda x, nan, high, low: x + 0 * (nan + high + low),
)
def replace_nonfinite(x, nan, high, low):
    """x with NaN, inf and -inf replaced."""
    if x.dtype.kind != "f":
        return x
    finite = m.select(x == math.inf, high, m.select(x == -math.inf, low, x))
    return m.select(x == x, finite, nan)


@public(inplace=True)
def nan_to_num(input: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaN, inf and -inf (by 0 and the dtype's largest and smallest numbers); derivative 0 there."""
    x = as_tensor(input, "nan_to_num")
    if x.dtype.kind in "biu":
        return x.clone()
    top = finfo(x.dtype)
    high, low = top.max if posinf is None else posinf, top.min if neginf is None else neginf
    return replace_nonfinite(x, nan, high, low)


def _round_dunder(self: Any, digits: int | None = None) -> Any:
    return round(self, decimals=digits or 0)


METHODS["__round__"] = _round_dunder
METHODS["__floor__"], METHODS["__ceil__"], METHODS["__trunc__"] = floor, ceil, trunc
METHODS["__divmod__"] = divmod
METHODS["__rdivmod__"] = lambda self, other: divmod(other, self)
METHODS["__pos__"] = lambda self: self
