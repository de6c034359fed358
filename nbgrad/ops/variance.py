"""Variance and standard deviation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..op import operator
from ..op.base import OUT
from ..op.public import public
from ..tensor import Tensor
from .common import count, numpy_names, reduction, unreduce, wide
from .elementwise import zmul
from .reduce import mean, prepared, reduction_samples
from .roots import centred, ratio0, real_dot, remember, scale


def _spread(x: np.ndarray, axes: tuple, keepdim: bool, correction: float) -> np.ndarray:
    from kernels_cpu.reduce import reduce

    n = count(x.shape, axes)
    with np.errstate(all="ignore"):
        d = x - reduce("sum", x, axes, True) / x.dtype.type(n)
        total = reduce("sumsq", d, axes, keepdim)
        return np.asarray(total / total.dtype.type(max(n - correction, 0)))


def _var_reference(x, axes, keepdim, correction):
    return np.var(x, axis=axes, keepdims=keepdim, ddof=correction)


_VAR = reduction_samples({"correction": 0}, empty=False)


@operator("var", saves=(0,), tests=_VAR, reference=_var_reference)
def var_(x, *, axes, keepdim, correction):
    """Variance over axes: the sum of squared deviations over ``n - correction``; real."""
    return wide(_spread, x, axes, keepdim, correction)


@var_.vjp
def _(g, out, x, *, needs, axes, keepdim, correction):
    d = centred(x, axes) * (2 * scale(x, axes, correction))
    return (zmul(unreduce(g, x.shape, axes, keepdim), d),)


@var_.jvp
def _(tangents, out, x, *, axes, keepdim, correction):
    d = centred(x, axes) * (2 * scale(x, axes, correction))
    return real_dot(d, tangents[0], axes, keepdim)


reduction(var_, dt.to_real)


@operator(
    "std",
    saves=(0, OUT),
    tests=_VAR,
    reference=lambda x, **p: np.sqrt(_var_reference(x, **p)),
)
def std_(x, *, axes, keepdim, correction):
    """Standard deviation over axes; its gradient is 0 where it is 0."""
    return wide(lambda a: np.sqrt(_spread(a, axes, keepdim, correction)), x)


@std_.vjp
def _(g, out, x, *, needs, axes, keepdim, correction):
    back = lambda v: unreduce(v, x.shape, axes, keepdim)
    d = centred(x, axes) * scale(x, axes, correction)
    return (zmul(back(g), ratio0(d, back(out))),)


@std_.jvp
def _(tangents, out, x, *, axes, keepdim, correction):
    d = centred(x, axes) * scale(x, axes, correction)
    return ratio0(real_dot(d, tangents[0], axes, keepdim), out)


reduction(std_, dt.to_real)


def _correction(correction: Any, unbiased: Any, ddof: Any) -> Any:
    if ddof is not None:
        return ddof
    if unbiased is not None:
        return int(bool(unbiased))
    return correction


def _variance(x: Any, dim: Any, keepdim: bool, correction: Any, name: str, op: Any) -> Tensor:
    x, axes = prepared(x, dim, None, name, inexact=True)
    n = op(x, axes=axes, keepdim=bool(keepdim), correction=correction)
    return remember(n, x, axes, bool(keepdim), correction) if op is std_ else n


def _flag(dim: Any, unbiased: Any) -> tuple:
    """``var(x, False)`` is PyTorch's old spelling of ``unbiased=False``."""
    return (None, dim) if isinstance(dim, bool) else (dim, unbiased)


@public
@numpy_names
def var(
    x: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = 1,
    unbiased: bool | None = None,
    ddof: Any = None,
) -> Tensor:
    """Variance over dimensions: squared deviations over ``n - correction``; NaN where that is not positive.

    ``unbiased=False`` and NumPy's ``ddof`` are other spellings of ``correction``.
    """
    dim, unbiased = _flag(dim, unbiased)
    correction = _correction(correction, unbiased, ddof)
    return _variance(x, dim, keepdim, correction, "var", var_)


@public
@numpy_names
def std(
    x: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = 1,
    unbiased: bool | None = None,
    ddof: Any = None,
) -> Tensor:
    """Standard deviation, the root of `var`; its gradient is 0 where it is 0."""
    dim, unbiased = _flag(dim, unbiased)
    correction = _correction(correction, unbiased, ddof)
    return _variance(x, dim, keepdim, correction, "std", std_)


@public(method=False)
@numpy_names
def var_mean(x: Any, dim: Any = None, keepdim: bool = False, *, correction: Any = 1) -> tuple:
    """``(var, mean)`` over dimensions."""
    return var(x, dim, keepdim, correction=correction), mean(x, dim, keepdim)


@public(method=False)
@numpy_names
def std_mean(x: Any, dim: Any = None, keepdim: bool = False, *, correction: Any = 1) -> tuple:
    """``(std, mean)`` over dimensions."""
    return std(x, dim, keepdim, correction=correction), mean(x, dim, keepdim)
