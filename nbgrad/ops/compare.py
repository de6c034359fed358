"""Comparisons, classification of floats, logical and bitwise operators. None is differentiable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..codegen.expr import m
from ..op import as_tensor, elementwise
from ..op.public import public
from .sampling import BOOL, REAL, elements

_PAIR = elements(range(0, 3), range(0, 3))
_INTS = elements(range(-9, 9), range(-9, 9))
_SHIFTS = elements(range(-9, 9), range(0, 5))
_BOOLS = elements(BOOL, BOOL)


@elementwise(tests=_PAIR, reference=np.equal)
def eq(x, y):
    """Elementwise equality."""
    return x == y


@elementwise(alias=("not_equal",), tests=_PAIR, reference=np.not_equal)
def ne(x, y):
    """Elementwise inequality."""
    return x != y


@elementwise(alias=("less",), complex_ok=False, tests=_PAIR, reference=np.less)
def lt(x, y):
    """Elementwise x < y."""
    return x < y


@elementwise(alias=("less_equal",), complex_ok=False, tests=_PAIR, reference=np.less_equal)
def le(x, y):
    """Elementwise x <= y."""
    return x <= y


@elementwise(alias=("greater",), complex_ok=False, tests=_PAIR, reference=np.greater)
def gt(x, y):
    """Elementwise x > y."""
    return x > y


@elementwise(alias=("greater_equal",), complex_ok=False, tests=_PAIR, reference=np.greater_equal)
def ge(x, y):
    """Elementwise x >= y."""
    return x >= y


def _classify(name: str, real_test: Any, reference: Any, doc: str, complex_ok: bool) -> Any:
    """A test of floats that is constant on integers and true of a complex number if it is of one part."""

    def body(x: Any) -> Any:
        if x.dtype.kind == "c":
            return real_test(m.real(x)) | real_test(m.imag(x))
        return real_test(x) if x.dtype.kind == "f" else m.cast(m.const(False, x), np.dtype(bool))

    body.__doc__ = doc
    return elementwise(
        name, complex_ok=complex_ok, inplace=False, tests=elements(REAL), reference=reference
    )(body)


isnan = _classify("isnan", lambda x: x != x, np.isnan, "True where NaN.", True)
isinf = _classify(
    "isinf", lambda x: m.fabs(x) == math.inf, np.isinf, "True where infinite (either sign).", True
)
isposinf = _classify(
    "isposinf", lambda x: x == math.inf, np.isposinf, "True where plus infinity.", False
)
isneginf = _classify(
    "isneginf", lambda x: x == -math.inf, np.isneginf, "True where minus infinity.", False
)


@elementwise(inplace=False, tests=elements(REAL), reference=np.isfinite)
def isfinite(x):
    """True where neither infinite nor NaN."""
    if x.dtype.kind == "c":
        return (m.fabs(m.real(x)) < math.inf) & (m.fabs(m.imag(x)) < math.inf)
    if x.dtype.kind == "f":
        return m.fabs(x) < math.inf
    return m.cast(m.const(True, x), np.dtype(bool))


@elementwise(inplace=False, complex_ok=False, tests=elements(REAL), reference=np.signbit)
def signbit(x):
    """True where the sign is negative, -0.0 included."""
    return m.copysign(m.const(1, x), x) < 0 if x.dtype.kind == "f" else x < m.const(0, x)


# -- logical ----------------------------------------------------------------------------------------------


@elementwise(promotion="logical", tests=_BOOLS, reference=np.logical_and)
def logical_and(x, y):
    """True where both are nonzero."""
    return x & y


@elementwise(promotion="logical", tests=_BOOLS, reference=np.logical_or)
def logical_or(x, y):
    """True where one is nonzero."""
    return x | y


@elementwise(promotion="logical", tests=_BOOLS, reference=np.logical_xor)
def logical_xor(x, y):
    """True where exactly one is nonzero."""
    return x != y


@elementwise(promotion="logical", tests=elements(BOOL), reference=np.logical_not)
def logical_not(x):
    """True where zero."""
    return ~x


# -- bitwise ----------------------------------------------------------------------------------------------


@elementwise(promotion="integral", tests=_INTS, reference=np.bitwise_and)
def bitwise_and(x, y):
    """Bitwise (logical for bool) and."""
    return x & y


@elementwise(promotion="integral", tests=_INTS, reference=np.bitwise_or)
def bitwise_or(x, y):
    """Bitwise (logical for bool) or."""
    return x | y


@elementwise(promotion="integral", tests=_INTS, reference=np.bitwise_xor)
def bitwise_xor(x, y):
    """Bitwise (logical for bool) exclusive or."""
    return x != y if x.dtype.kind == "b" else x ^ y


@elementwise(
    alias=("bitwise_invert", "invert"),
    promotion="integral",
    tests=elements(range(-9, 9)),
    reference=np.bitwise_not,
)
def bitwise_not(x):
    """Bitwise (logical for bool) not."""
    return ~x


def _shift(op: str, x: Any, y: Any, beyond: Any) -> Any:
    """A shift by 0 .. bits-1, else ``beyond``: the machine's shift is undefined there."""
    outside = (y < 0) | (y >= 8 * x.dtype.itemsize)
    safe = m.select(outside, m.const(0, y), y)
    return m.select(outside, beyond, m.shl(x, safe) if op == "shl" else m.shr(x, safe))


@elementwise(alias=("left_shift",), promotion="integral", tests=_SHIFTS, reference=np.left_shift)
def bitwise_left_shift(x, y):
    """``x << y``; bits shifted out are lost, and a shift outside 0 .. bits-1 gives 0."""
    return _shift("shl", *_counts(x, y), m.const(0, x))


@elementwise(alias=("right_shift",), promotion="integral", tests=_SHIFTS, reference=np.right_shift)
def bitwise_right_shift(x, y):
    """``x >> y`` with sign extension; a shift outside 0 .. bits-1 gives 0, or -1 for negative x."""
    x, y = _counts(x, y)
    zero = m.const(0, x)
    return _shift(
        "shr", x, y, m.select(x < 0, m.const(-1, x), zero) if x.dtype.kind == "i" else zero
    )


def _counts(x: Any, y: Any) -> tuple[Any, Any]:
    from .arithmetic import refuse_bool

    refuse_bool("shift", x, "Convert the tensors with .to() first.")
    return x, y


# -- closeness --------------------------------------------------------------------------------------------


@public
def isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """True where ``|input - other| <= atol + rtol |other|``; infinities are close to themselves only."""
    x, y = as_tensor(input, "isclose").detach(), as_tensor(other, "isclose", "other").detach()
    x, y = (t.to(int) if t.dtype.kind == "b" else t for t in (x, y))
    near = isfinite(y) & ((x - y).abs() <= atol + rtol * y.abs())
    out = logical_or(x == y, near)
    return logical_or(out, isnan(x) & isnan(y)) if equal_nan else out


@public
def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see `isclose`)."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@public
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and the same elements (NaN differs from NaN)."""
    x, y = as_tensor(input, "equal"), as_tensor(other, "equal", "other")
    return tuple(x.shape) == tuple(y.shape) and bool(eq(x, y).all())
