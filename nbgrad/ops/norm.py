"""Norms, variance and standard deviation.

The gradient of a norm (and of a standard deviation) where it is 0 is 0. The square of one is smooth there, and its
second derivative is given back to it: see `smooth_square`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..codegen.expr import m
from ..errors import ArgumentError, DTypeError, message
from ..op import REGISTRY, Spec, cast, elementwise, operator
from ..op.base import OUT
from ..op.batching import materialize
from ..op.public import public
from ..op.samples import Sample, draw, uniform
from ..op.shapes import reduced
from ..state import state
from ..tensor import Meta, Tensor, Value
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
from .elementwise import cj, drop, keep, real, zmul
from .elementwise import pow as pow_
from .reduce import amax_, amin_, prepared, reduction_samples
from .view import expand


@elementwise(
    partials=(lambda a, b, out: one_over0(b), lambda a, b, out: -out * one_over0(b)),
    hidden=True,
    tests=uniform((-2, 2), (0.5, 2)),
    reference=np.divide,
)
def ratio0(a, b):
    """``a / b``, and 0 (with all its derivatives) where b is 0."""
    return m.select(b == 0, m.const(0, a), a / b)


@elementwise(
    partials=(lambda x, out: -out * out,),
    hidden=True,
    tests=uniform((0.5, 2)),
    reference=np.reciprocal,
)
def one_over0(x):
    """``1 / x``, and 0 where x is 0."""
    return m.select(x == 0, m.const(0, x), 1 / x)


def _dot(x: Any, t: Any, axes: tuple, keepdim: bool) -> Any:
    """``sum(real(conj(x) t))`` over axes."""
    term = zmul(t, cj(x))
    return sum_(real(term) if x.dtype.kind == "c" else term, axes=axes, keepdim=keepdim)


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
    return ratio0(_dot(x, tangents[0], axes, keepdim), out)


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


# -- variance and standard deviation ----------------------------------------------------------------


def _centred(x: Any, axes: tuple) -> Any:
    n = count(x.shape, axes)
    return x - sum_(x, axes=axes, keepdim=True) / n if n else x


def _spread(x: np.ndarray, axes: tuple, keepdim: bool, correction: float) -> np.ndarray:
    from kernels_cpu.reduce import reduce

    n = count(x.shape, axes)
    with np.errstate(all="ignore"):
        d = x - reduce("sum", x, axes, True) / x.dtype.type(n)
        total = reduce("sumsq", d, axes, keepdim)
        return np.asarray(total / total.dtype.type(max(n - correction, 0)))


def _scale(x: Any, axes: tuple, correction: float) -> float:
    free = count(x.shape, axes) - correction
    return 1.0 / free if free > 0 else math.nan


def _var_reference(x, axes, keepdim, correction):
    return np.var(x, axis=axes, keepdims=keepdim, ddof=correction)


_VAR = reduction_samples({"correction": 0}, empty=False)


@operator("var", saves=(0,), tests=_VAR, reference=_var_reference)
def var_(x, *, axes, keepdim, correction):
    """Variance over axes: the sum of squared deviations over ``n - correction``; real."""
    return wide(_spread, x, axes, keepdim, correction)


@var_.vjp
def _(g, out, x, *, needs, axes, keepdim, correction):
    d = _centred(x, axes) * (2 * _scale(x, axes, correction))
    return (zmul(unreduce(g, x.shape, axes, keepdim), d),)


@var_.jvp
def _(tangents, out, x, *, axes, keepdim, correction):
    d = _centred(x, axes) * (2 * _scale(x, axes, correction))
    return _dot(d, tangents[0], axes, keepdim)


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
    d = _centred(x, axes) * _scale(x, axes, correction)
    return (zmul(back(g), ratio0(d, back(out))),)


@std_.jvp
def _(tangents, out, x, *, axes, keepdim, correction):
    d = _centred(x, axes) * _scale(x, axes, correction)
    return ratio0(_dot(d, tangents[0], axes, keepdim), out)


reduction(std_, dt.to_real)


# -- the square of a norm at 0 ----------------------------------------------------------------------


def _root_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    x = draw(rng, dtype, (2, 3), -2, 2)
    n = np.sqrt((np.abs(x) ** 2).sum(1)).astype(dt.to_real(dtype))
    return [Sample((x, n), {"axes": (1,), "keepdim": False})]


@operator(
    "square_at_zero",
    nin=2,
    nondiff=(1,),
    saves=(0, 1),
    tests=_root_samples,
    reference=lambda x, n, axes, keepdim: np.zeros_like(n),
)
def square_at_zero(x, n, *, axes, keepdim):
    """0, with the derivatives of ``sum(|x|**2)`` where the norm n is 0, and none elsewhere.

    A norm's gradient at 0 is 0 by convention, so the chain rule finds no curvature in its square there, although
    that is ``sum(|x|**2)`` with Hessian 2I. Added to the square, this operator supplies it.
    """
    return np.zeros(n.shape, n.dtype)


@square_at_zero.vjp
def _(g, out, x, n, *, needs, axes, keepdim):
    back = lambda v: unreduce(v, x.shape, axes, keepdim)
    return keep(expand(back(n == 0), shape=tuple(x.shape)), zmul(back(g), 2 * x)), None


@square_at_zero.jvp
def _(tangents, out, x, n, *, axes, keepdim):
    return keep(n == 0, 2 * _dot(x, tangents[0], axes, keepdim))


@square_at_zero.infer
def _(x, n, *, axes, keepdim):
    return Spec(n.shape, n.dtype)


@square_at_zero.batch
def _(dims, x, n, *, axes, keepdim):
    _, (x, n) = materialize(dims, (x, n))
    return square_at_zero(x, n, axes=tuple(a + 1 for a in axes), keepdim=keepdim), 0


class Root:
    """Remembers what a norm was taken of, so that its square can be differentiated twice at 0."""

    __slots__ = ("axes", "correction", "keepdim", "versions", "x")

    def __init__(self, x: Tensor, n: Tensor, axes: tuple, keepdim: bool, correction: Any = None):
        self.x, self.axes, self.keepdim, self.correction = x, axes, keepdim, correction
        self.versions = (x._ver[0], n._ver[0])

    def fits(self, n: Tensor) -> bool:
        """Whether neither the norm nor its argument has been written since."""
        return self.versions == (self.x._ver[0], n._ver[0])

    def curvature(self, n: Tensor) -> Tensor:
        """The term that gives the square its second derivative at 0."""
        x = self.x if self.correction is None else _centred(self.x, self.axes)
        out = square_at_zero(x, n, axes=self.axes, keepdim=self.keepdim)
        return out if self.correction is None else out * _scale(x, self.axes, self.correction)


def remember(n: Tensor, x: Tensor, axes: tuple, keepdim: bool, correction: Any = None) -> Tensor:
    """Attach a `Root` to a norm that may be differentiated."""
    if x._node is not None or isinstance(x._data, Value):
        n._meta = n._meta or Meta()
        n._meta.root = Root(x, n, axes, keepdim, correction)
    return n


def smooth_square(n: Any, squared: Any) -> Any:
    """``squared()``, completed by the curvature at 0 where n is the norm or deviation of something.

    Where a plain eager norm is nowhere 0 there is nothing to complete.
    """
    root = n._meta.root
    out = squared()
    if not root.fits(n):
        return out
    plain = type(n._data) is np.ndarray and not state.recorders
    if plain and n._data.all():
        return out
    return out + root.curvature(n)


def _rooted(n: Any) -> bool:
    return isinstance(n, Tensor) and n._meta is not None and n._meta.root is not None


def _square_rule(name: str, is_square: Any) -> None:
    """Make operator ``name`` complete the squares that ``is_square`` recognises."""
    op = REGISTRY[name]

    def rule(args: tuple) -> Any:
        if not (args and _rooted(args[0]) and is_square(*args)):
            return None
        return smooth_square(args[0], lambda: op.apply(op.coerce(args)))

    op.rewrite = rule


_square_rule("pow", lambda n, p: isinstance(p, int | float) and p == 2)
_square_rule("square", lambda n: True)
_square_rule("mul", lambda n, other: other is n)


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
        return sum_(cast(x != 0, dt.to_real(x.dtype)), **params)
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
    from .reduce import mean

    return var(x, dim, keepdim, correction=correction), mean(x, dim, keepdim)


@public(method=False)
@numpy_names
def std_mean(x: Any, dim: Any = None, keepdim: bool = False, *, correction: Any = 1) -> tuple:
    """``(std, mean)`` over dimensions."""
    from .reduce import mean

    return std(x, dim, keepdim, correction=correction), mean(x, dim, keepdim)
