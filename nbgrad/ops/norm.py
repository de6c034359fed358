"""Vector norms of any order; the gradient of a norm where it is 0 is 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import ArgumentError, DTypeError, message
from ..op import cast, operator
from ..op.base import OUT
from ..op.public import public
from ..op.shapes import reduced
from ..tensor import Tensor
from .basic import sum_
from .common import (
    count,
    need_elements,
    need_order,
    numpy_names,
    ordered,
    reduction,
    unreduce,
    wide,
)
from .elementwise import abs as abs_
from .elementwise import drop, real, zmul
from .elementwise import pow as pow_
from .extremum import amax_, amin_
from .reduce import prepared, reduction_samples
from .roots import ratio0, real_dot, remember

# -- Euclidean norm ---------------------------------------------------------------------------------


def _norm2(x: np.ndarray, axes: tuple, keepdim: bool) -> np.ndarray:
    from kernels_cpu.reduce import reduce

    total = reduce("sumsq", x, axes, keepdim)
    low, high = (1e-280, 1e300) if total.dtype == np.float64 else (1e-30, 1e30)
    if total.size and not ((total > low) & (total < high)).all():
        return _norm2_scaled(x, axes, keepdim)
    return np.sqrt(total)


def _norm2_scaled(x: np.ndarray, axes: tuple, keepdim: bool) -> np.ndarray:
    """Squares could over- or underflow: divide by the largest element first."""
    from kernels_cpu.reduce import reduce

    size = np.maximum(np.abs(x.real), np.abs(x.imag)) if x.dtype.kind == "c" else np.abs(x)
    top = reduce("max", size, axes, True)
    scale = np.where(np.isfinite(top) & (top > 0), top, 1).astype(top.dtype)
    # a power of two, so that dividing is exact
    scale = np.exp2(np.floor(np.log2(scale))).astype(top.dtype)
    with np.errstate(all="ignore"):
        out = np.sqrt(reduce("sumsq", x / scale, axes, True)) * scale
    return out if keepdim else out.reshape(reduced(x.shape, axes, False))


@operator(
    "norm",
    saves=(0, OUT),
    tests=reduction_samples(),
    reference=lambda x, axes, keepdim: np.sqrt(np.sum(np.abs(x) ** 2, axis=axes, keepdims=keepdim)),
)
def norm2(x, *, axes, keepdim):
    """Euclidean norm over axes, without overflow; real."""
    return wide(_norm2, x, axes, keepdim)


@norm2.vjp
def _(g, out, x, *, needs, axes, keepdim):
    back = lambda v: unreduce(v, x.shape, axes, keepdim)
    return (zmul(back(g), ratio0(x, back(out))),)


@norm2.jvp
def _(tangents, out, x, *, axes, keepdim):
    return ratio0(real_dot(x, tangents[0], axes, keepdim), out)


reduction(norm2, dt.to_real)


# -- p-norm of non-negative numbers -----------------------------------------------------------------


def _norm_p(a: np.ndarray, axes: tuple, keepdim: bool, p: float) -> np.ndarray:
    from kernels_cpu.reduce import reduce

    top = reduce("max" if p > 0 else "min", a, axes, True)
    scale = np.where(np.isfinite(top) & (top > 0), top, 1).astype(a.dtype)
    with np.errstate(all="ignore"):
        total = reduce("sum", (a / scale) ** a.dtype.type(p), axes, True)
        out = (scale * total ** a.dtype.type(1 / p)).astype(a.dtype)
    return out if keepdim else out.reshape(reduced(a.shape, axes, False))


@operator(
    saves=(0, OUT),
    tests=ordered(reduction_samples({"p": 3.0}, {"p": 1.5}, {"p": -2.0}, low=0.3, empty=False)),
    reference=lambda x, axes, keepdim, p: np.sum(x**p, axis=axes, keepdims=keepdim) ** (1 / p),
)
def norm_p(a, *, axes, keepdim, p):
    """``sum(a**p)**(1/p)`` of non-negative numbers over axes."""
    need_order(a, "norm_p")
    return wide(_norm_p, a, axes, keepdim, p)


def _weights(a: Any, out: Any, axes: tuple, keepdim: bool, p: float) -> Any:
    """d norm / d a = (a / norm)**(p-1), taken as 0 where a is 0."""
    share = ratio0(a, unreduce(out, a.shape, axes, keepdim))
    return drop(a == 0, pow_(share, p - 1))


@norm_p.vjp
def _(g, out, a, *, needs, axes, keepdim, p):
    return (zmul(unreduce(g, a.shape, axes, keepdim), _weights(a, out, axes, keepdim, p)),)


@norm_p.jvp
def _(tangents, out, a, *, axes, keepdim, p):
    return sum_(zmul(tangents[0], _weights(a, out, axes, keepdim, p)), axes=axes, keepdim=keepdim)


reduction(norm_p)


# -- public functions -------------------------------------------------------------------------------


def _order(p: Any) -> float:
    if p in (None, "fro"):
        return 2.0
    if isinstance(p, int | float):
        return float(p)
    raise ArgumentError(
        message("norm", "argument 'p'", repr(p), "a number, 'fro', inf or -inf", "Use linalg.norm.")
    )


def _vector_norm(x: Any, p: Any, dim: Any, keepdim: bool, dtype: Any, op: str) -> Tensor:
    x, axes = prepared(x, dim, dtype, op)
    if x.dtype.kind not in "fc":
        raise DTypeError(
            message(op, "the tensor's dtype", x.dtype.name, "floating or complex", "Use .double().")
        )
    order, params = _order(p), {"axes": axes, "keepdim": bool(keepdim)}
    if order == 2:
        return remember(norm2(x, **params), x, **params)
    if math.isinf(order):
        need_elements(x, axes, op)
        return (amax_ if order > 0 else amin_)(abs_(x), **params)
    if order == 0:
        flat = zmul(0.0, x)  # 0 with derivative 0: the count stays in the graph
        flat = real(flat) if x.dtype.kind == "c" else flat
        return sum_(cast(x != 0, dt.to_real(x.dtype)) + flat, **params)
    if order == 1:
        return sum_(abs_(x), **params)
    if order < 0:
        need_elements(x, axes, op)
    elif count(x.shape, axes) == 0:
        return sum_(abs_(x), **params)
    return norm_p(abs_(x), p=order, **params)


@public
@numpy_names
def norm(
    x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """``sum(|x|**p)**(1/p)`` over dimensions (all by default); p may be any number, inf, -inf or 0.

    The gradient where the norm is 0 is 0; elements that are 0 get 0; the maximum of p=inf is shared by ties. The
    square (``norm(x)**2``) has its true second derivative at 0. Real also for complex tensors.

    Raises
    ------
    DTypeError : an integer or bool tensor.
    ArgumentError : p is not a number.
    """
    return _vector_norm(x, p, dim, keepdim, dtype, "norm")


@public(method=False)
@numpy_names
def vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The vector norm of order ``ord``: see `norm`."""
    return _vector_norm(x, ord, dim, keepdim, dtype, "vector_norm")
