"""Sums, products, quotients and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen.expr import m
from ..errors import ArgumentError, DTypeError, message
from ..op import as_tensor, elementwise
from ..op.public import public
from .sampling import REAL, SIDES, elements


def refuse_bool(op: str, x: Any, instead: str) -> None:
    """Raise if a body meets bool operands."""
    if x.dtype.kind == "b":
        raise DTypeError(message(op, "the operands' dtype", "bool", "a numeric dtype", instead))


@elementwise(
    hidden=True,
    partials=(lambda x, y, out: 1, lambda x, y, out: 1),
    linear="all",
    tests=elements(REAL, REAL),
    reference=np.add,
)
def add(x, y):
    """Sum of two tensors with broadcasting (logical or for bool)."""
    return x | y if x.dtype.kind == "b" else x + y


@elementwise(
    hidden=True,
    partials=(lambda x, y, out: 1, lambda x, y, out: -1),
    linear="all",
    tests=elements(REAL, REAL),
    reference=np.subtract,
)
def sub(x, y):
    """Difference of two tensors with broadcasting."""
    refuse_bool("sub", x, "Use logical_xor (^) for a difference of truth values.")
    return x - y


@elementwise(
    alias=("multiply",),
    partials=(lambda x, y, out: y, lambda x, y, out: x),
    multilinear=(0, 1),
    tests=elements(REAL, REAL),
    reference=np.multiply,
)
def mul(x, y):
    """Product of two tensors with broadcasting (logical and for bool)."""
    return x & y if x.dtype.kind == "b" else x * y


@elementwise(
    hidden=True,
    partials=(lambda x, y, out: reciprocal(y), lambda x, y, out: -(x / y) / y),
    promotion="float",
    tests=elements(REAL, SIDES),
    reference=np.true_divide,
)
def div(x, y):
    """Quotient (true division; integers give the default dtype)."""
    return x / y


@elementwise(
    alias=("negative",),
    partials=(lambda x, out: -1,),
    linear="all",
    tests=elements(REAL),
    reference=np.negative,
)
def neg(x):
    """Negation."""
    refuse_bool("neg", x, "Use logical_not (~) instead.")
    return -x


@elementwise(
    partials=(lambda x, out: -out * out,),
    promotion="float",
    tests=elements(SIDES),
    reference=np.reciprocal,
)
def reciprocal(x):
    """1/x."""
    return 1 / x


@elementwise(partials=(lambda x, out: 2 * x,), tests=elements(REAL), reference=np.square)
def square(x):
    """x*x."""
    return x if x.dtype.kind == "b" else x * x


@elementwise(
    hidden=True,
    partials=(lambda x, out: 3 * square(x),),
    tests=elements(REAL),
    reference=lambda x: x * x * x,
)
def cube(x):
    """x*x*x."""
    return x * x * x


@elementwise(
    hidden=True,
    partials=(
        lambda a, b, w, out: 1 - w,
        lambda a, b, w, out: w,
        lambda a, b, w, out: b - a,
    ),
    promotion="float",
    tests=elements(REAL, REAL, (0.1, 0.9)),
    reference=lambda a, b, w: a + w * (b - a),
)
def lerp(a, b, w):
    """``a + w (b - a)``, exactly ``b`` at ``w = 1``."""
    near_a = a + w * (b - a)
    return near_a if a.dtype.kind == "c" else m.select(w < 0.5, near_a, b - (b - a) * (1 - w))


@elementwise(
    hidden=True,
    partials=(
        lambda x, a, b, v, out: 1,
        lambda x, a, b, v, out: v * b,
        lambda x, a, b, v, out: v * a,
        lambda x, a, b, v, out: a * b,
    ),
    tests=elements(REAL, REAL, REAL, REAL),
    reference=lambda x, a, b, v: x + v * a * b,
)
def addcmul(x, a, b, v):
    """``x + v a b``."""
    refuse_bool("addcmul", x, "Convert the tensors with .to() first.")
    return x + v * (a * b)


@elementwise(
    hidden=True,
    partials=(
        lambda x, a, b, v, out: 1,
        lambda x, a, b, v, out: v / b,
        lambda x, a, b, v, out: -(v * (a / b)) / b,
        lambda x, a, b, v, out: a / b,
    ),
    promotion="float",
    tests=elements(REAL, REAL, SIDES, REAL),
    reference=lambda x, a, b, v: x + v * a / b,
)
def addcdiv(x, a, b, v):
    """``x + v a / b``."""
    return x + v * (a / b)


@elementwise(
    alias=("radians",),
    partials=(lambda x, out: _DEGREE,),
    linear="all",
    promotion="float",
    complex_ok=False,
    tests=elements((-200, 200)),
    reference=np.deg2rad,
)
def deg2rad(x):
    """Degrees to radians."""
    return x * _DEGREE


@elementwise(
    alias=("degrees",),
    partials=(lambda x, out: 1 / _DEGREE,),
    linear="all",
    promotion="float",
    complex_ok=False,
    tests=elements(REAL),
    reference=np.rad2deg,
)
def rad2deg(x):
    """Radians to degrees."""
    return x * (1 / _DEGREE)


_DEGREE = np.pi / 180


def _number(x: Any) -> bool:
    """Whether x is a Python number, which never widens a tensor's dtype (NumPy's scalars do)."""
    return isinstance(x, int | float | complex) and not isinstance(x, np.generic)


def _times(other: Any, alpha: Any) -> Any:
    """``alpha * other``; of two Python numbers a Python number."""
    if alpha.__class__ is int and alpha == 1:
        return other
    return other * alpha if _number(other) and _number(alpha) else mul(other, alpha)


@public(name="add", inplace=True)
def _add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input + alpha * other`` with broadcasting."""
    return add(input, _times(other, alpha))


@public(name="sub", alias=("subtract",), inplace=True)
def _sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input - alpha * other`` with broadcasting."""
    return sub(input, _times(other, alpha))


@public(inplace=True)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``other - alpha * input``."""
    other = other if _number(other) else as_tensor(other, "rsub", "other")
    return sub(other, _times(as_tensor(input, "rsub"), alpha))


@public(name="div", alias=("divide",), inplace=True)
def _div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Quotient, optionally rounded towards minus infinity (``'floor'``) or zero (``'trunc'``).

    Raises
    ------
    ArgumentError : an unknown ``rounding_mode``; an integer division by zero.
    """
    if rounding_mode is None:
        return div(input, other)
    from .rounding import floor_divide, trunc_divide

    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        return trunc_divide(input, other)
    raise ArgumentError(
        message("div", "argument 'rounding_mode'", repr(rounding_mode), "None, 'floor' or 'trunc'")
    )


public(div, name="true_divide", inplace=True)


@public(name="lerp", inplace=True)
def _lerp(input: Any, end: Any, weight: Any) -> Any:
    """``input + weight * (end - input)``, exactly ``end`` at ``weight = 1``, with broadcasting."""
    return lerp(input, end, weight)


@public(name="addcmul", inplace=True)
def _addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``input + value * tensor1 * tensor2``, elementwise with broadcasting."""
    return addcmul(input, tensor1, tensor2, value)


@public(name="addcdiv", inplace=True)
def _addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``input + value * tensor1 / tensor2``, elementwise with broadcasting."""
    return addcdiv(input, tensor1, tensor2, value)


@public
def positive(input: Any) -> Any:
    """``+input``: the tensor itself.

    Raises
    ------
    DTypeError : a bool tensor.
    """
    x = as_tensor(input, "positive")
    refuse_bool("positive", x, "Convert it with .to() first.")
    return x
