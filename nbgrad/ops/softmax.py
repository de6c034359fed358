"""logsumexp, softmax and log_softmax, without overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..errors import DTypeError, message
from ..op import cast, operator
from ..op.base import OUT
from ..op.public import public
from ..op.samples import Sample, draw
from ..tensor import Tensor
from .basic import sum_
from .common import (
    along,
    axis_of,
    need_order,
    numeric,
    numpy_names,
    ordered,
    reduction,
    unreduce,
    wide,
)
from .elementwise import zmul
from .reduce import reduction_samples
from .scan import expdiff


def _logsumexp(x: np.ndarray, axes: tuple, keepdim: bool) -> np.ndarray:
    from kernels_cpu.softmax import logsumexp

    return logsumexp(x, axes, keepdim)


def _reference(x: np.ndarray, axes: tuple, keepdim: bool) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x), axis=axes, keepdims=keepdim))


@operator(
    "logsumexp", saves=(0, OUT), tests=ordered(reduction_samples(empty=False)), reference=_reference
)
def logsumexp_(x, *, axes, keepdim):
    """``log(sum(exp(x)))`` over axes; -inf for nothing."""
    need_order(x, "logsumexp")
    return wide(_logsumexp, x, axes, keepdim)


@logsumexp_.vjp
def _(g, out, x, *, needs, axes, keepdim):
    weights = expdiff(x, unreduce(out, x.shape, axes, keepdim))
    return (zmul(unreduce(g, x.shape, axes, keepdim), weights),)


@logsumexp_.jvp
def _(tangents, out, x, *, axes, keepdim):
    weights = expdiff(x, unreduce(out, x.shape, axes, keepdim))
    return sum_(zmul(tangents[0], weights), axes=axes, keepdim=keepdim)


reduction(logsumexp_)


def axis_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    """Samples of an operator along an axis."""
    rows = [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 0), 1), ((), 0)]
    return [Sample((draw(rng, dtype, s, -2, 2),), {"axis": a}) for s, a in rows]


def _softmax_reference(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x)
    return e / (e.sum(axis, keepdims=True) if x.ndim else e)


def _softmax(x: np.ndarray, axis: int, log: bool) -> np.ndarray:
    from kernels_cpu.softmax import softmax

    need_order(x, "softmax")
    return softmax(x, axis, log)


@operator("softmax", saves=(OUT,), tests=ordered(axis_samples), reference=_softmax_reference)
def softmax_(x, *, axis):
    """``exp(x) / sum(exp(x))`` along an axis."""
    return wide(_softmax, x, axis, False)


def _axes(x: Any, axis: int) -> tuple:
    return (axis,) if len(x.shape) else ()


@softmax_.vjp
def _(g, out, x, *, needs, axis):
    common = sum_(zmul(g, out), axes=_axes(x, axis), keepdim=True)
    return (zmul(g - common, out),)


@softmax_.jvp
def _(tangents, out, x, *, axis):
    t = tangents[0]
    common = sum_(zmul(t, out), axes=_axes(x, axis), keepdim=True)
    return zmul(t - common, out)


along(softmax_)


@operator(
    "log_softmax",
    saves=(OUT,),
    tests=ordered(axis_samples),
    reference=lambda x, axis: np.log(_softmax_reference(x, axis)),
)
def log_softmax_(x, *, axis):
    """``x - logsumexp(x)`` along an axis."""
    return wide(_softmax, x, axis, True)


@log_softmax_.vjp
def _(g, out, x, *, needs, axis):
    total = sum_(g, axes=_axes(x, axis), keepdim=True)
    return (g - zmul(total, out.exp()),)


@log_softmax_.jvp
def _(tangents, out, x, *, axis):
    t = tangents[0]
    return t - sum_(zmul(t, out.exp()), axes=_axes(x, axis), keepdim=True)


along(log_softmax_)


@public
@numpy_names
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` over dimensions, without overflow; where all are -inf the gradient is 0.

    Raises
    ------
    DTypeError : a complex tensor.
    """
    x = numeric(x, "logsumexp", real=True)
    x = cast(x, dt.to_inexact(x.dtype))
    return logsumexp_(x, axes=lay.reduced_axes(dim, x.ndim, "logsumexp"), keepdim=bool(keepdim))


def normalized(x: Any, dim: int, dtype: Any, name: str, op: Any) -> Tensor:
    """``op`` along a checked dimension in a checked dtype; ``name`` is the function in messages."""
    x = numeric(x, name, real=True)
    target = dt.to_inexact(x.dtype) if dtype is None else dt.as_dtype(dtype, name)
    if target.kind != "f":
        raise DTypeError(
            message(name, "argument 'dtype'", target.name, "a floating dtype", "Leave it out.")
        )
    x = cast(x, target)
    return op(x, axis=axis_of(dim, x, name))


@public
@numpy_names
def softmax(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along a dimension.

    Raises
    ------
    DTypeError : a complex tensor, or a ``dtype`` that is not floating.
    """
    return normalized(x, dim, dtype, "softmax", softmax_)


@public
@numpy_names
def log_softmax(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Logarithm of `softmax`, exact also where that underflows.

    Raises
    ------
    DTypeError : a complex tensor, or a ``dtype`` that is not floating.
    """
    return normalized(x, dim, dtype, "log_softmax", log_softmax_)
