"""Small products of vectors and matrices: dot, outer, cross, inner, trace; quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..errors import ArgumentError, ShapeError, message
from ..op import as_tensor, cast
from ..op.public import public
from ..tensor import Tensor
from .basic import sum_
from .common import axis_of, need_elements, numeric, numpy_names
from .contraction import matmul
from .elementwise import ceil, cj, floor, keep, where, zmul
from .index import index
from .sort import argsort_, pick
from .view import _reshape, diagonal, permute


def _pair(a: Any, b: Any, op: str) -> tuple[Tensor, Tensor]:
    a, b = as_tensor(a, op, "input"), as_tensor(b, op, "other")
    dtype = dt.promote(a.dtype, b.dtype)
    return cast(a, dtype), cast(b, dtype)


def _vectors(a: Any, b: Any, op: str) -> tuple[Tensor, Tensor]:
    a, b = _pair(a, b, op)
    if a.ndim != 1 or tuple(a.shape) != tuple(b.shape):
        raise ShapeError(
            message(
                op,
                "the operands' shapes",
                f"{tuple(a.shape)} and {tuple(b.shape)}",
                "two vectors of one length",
                "Use matmul for matrices.",
            )
        )
    return a, b


@public
def dot(x: Any, other: Any) -> Tensor:
    """``sum(x * other)`` of two vectors (without conjugation).

    Raises
    ------
    ShapeError : an operand is no vector, or their lengths differ.
    """
    return matmul(*_vectors(x, other, "dot"))


@public
def vdot(x: Any, other: Any) -> Tensor:
    """``sum(conj(x) * other)`` of two vectors.

    Raises
    ------
    ShapeError : an operand is no vector, or their lengths differ.
    """
    a, b = _vectors(x, other, "vdot")
    return matmul(cj(a), b)


@public
def inner(x: Any, other: Any) -> Tensor:
    """Sums of products over the last dimensions; a plain product where an operand is 0-d.

    Raises
    ------
    ShapeError : the last sizes differ.
    """
    a, b = _pair(x, other, "inner")
    if not a.ndim or not b.ndim:
        return a * b
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            message("inner", "the last size of 'other'", b.shape[-1], f"{a.shape[-1]}")
        )
    n = a.shape[-1]
    rows = [_reshape(t, (t._data.size // n if n else _outer_size(t), n)) for t in (a, b)]
    out = matmul(rows[0], permute(rows[1], dims=(1, 0)))
    return _reshape(out, (*a.shape[:-1], *b.shape[:-1]))


def _outer_size(t: Tensor) -> int:
    size = 1
    for n in t.shape[:-1]:
        size *= n
    return size


@public(alias=("ger",))
def outer(input: Any, vec2: Any) -> Tensor:
    """All products of the elements of two vectors.

    Raises
    ------
    ShapeError : an operand is no vector.
    """
    a, b = _pair(input, vec2, "outer")
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(
            message("outer", "the operands' dimensions", f"{a.ndim} and {b.ndim}", "two vectors")
        )
    return _reshape(a, (a.shape[0], 1)) * b


@public
@numpy_names
def cross(x: Any, other: Any, dim: int | None = None) -> Tensor:
    """Vector product along a dimension of size 3 (default: the first one of that size), with broadcasting.

    Raises
    ------
    ShapeError : the dimension is not of size 3 in both.
    """
    a, b = _pair(x, other, "cross")
    shape = lay.broadcast_shapes(tuple(a.shape), tuple(b.shape), op="cross")
    a, b = a.expand(shape), b.expand(shape)
    if dim is None:
        dim = next((i for i, n in enumerate(shape) if n == 3), -1)
    axis = axis_of(dim, a, "cross")
    if not shape or shape[axis] != 3:
        raise ShapeError(message("cross", f"the size of dimension {dim}", shape, "3", "Pass dim=."))

    def turned(t: Tensor, by: int) -> Tensor:
        order = Tensor((np.arange(3) + by) % 3)
        return index(t, order, axes=(axis,))

    return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1)


@public
def trace(x: Any) -> Tensor:
    """Sum of the main diagonal of a matrix.

    Raises
    ------
    ShapeError : no matrix.
    """
    x = as_tensor(x, "trace")
    if x.ndim != 2:
        raise ShapeError(
            message(
                "trace",
                "the number of dimensions",
                x.ndim,
                "2",
                "Use diagonal().sum(-1) for batches.",
            )
        )
    return sum_(diagonal(x, offset=0, dim1=0, dim2=1), axes=(0,), keepdim=False)


_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _positions(q: Tensor, n: int, interpolation: str) -> tuple[Tensor, Tensor, Tensor]:
    """Lower and upper ranks and the weight of the upper one, which is a function of q (constant unless "linear")."""
    at = q * (n - 1)
    low, high = floor(at), ceil(at)
    if interpolation == "linear":
        return low, high, at - low
    flat = zmul(0.0, at)
    if interpolation == "midpoint":
        return low, high, where(high > low, 0.5, 0.0) + flat
    chosen = {"lower": low, "higher": high}.get(interpolation)
    chosen = at.round() if chosen is None else chosen
    return chosen, chosen, flat


def _fractions(q: Any) -> Tensor:
    """q as a float64 tensor, checked where its values are known."""
    t = as_tensor(q, "quantile", "q")
    data = t._data
    known = isinstance(data, np.ndarray)
    wrong = t.dtype.kind == "c" or (known and not ((data >= 0) & (data <= 1)).all())
    if wrong or t.ndim > 1:
        raise ArgumentError(
            message("quantile", "argument 'q'", q, "a number or a vector in [0, 1]")
        )
    t = cast(t, dt.float64)
    return t if known else where((t >= 0) & (t <= 1), t, float("nan"))


@public
@numpy_names
def quantile(
    x: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The q-quantiles (0 <= q <= 1; a number or a vector, whose dimension comes first) along a dimension or of all.

    NaN propagates. Differentiable in x: the gradient goes to the one or two elements that make up the result. Also in
    a tensor q, piecewise: ``(n - 1)`` times the difference of the two neighbours for "linear", 0 where the result is one
    element or their mean.

    Raises
    ------
    ArgumentError : q outside [0, 1] (inside a transform, where q is unknown, that gives NaN), or an unknown interpolation.
    ShapeError : nothing to reduce over.
    """
    x = numeric(x, "quantile", real=True)
    x = cast(x, dt.to_inexact(x.dtype))
    given = _fractions(q)
    if interpolation not in _INTERPOLATIONS:
        raise ArgumentError(
            message(
                "quantile", "argument 'interpolation'", interpolation, f"one of {_INTERPOLATIONS}"
            )
        )
    rank = x.ndim
    flat = _reshape(x, (x._data.size,)) if dim is None or not rank else x
    axis = 0 if dim is None else axis_of(dim, x, "quantile")
    need_elements(flat, (axis,), "quantile")
    out = _quantile(flat, given, axis, interpolation)
    lead = tuple(out.shape[:1]) if given.ndim else ()
    if dim is None or not rank:
        return _reshape(out, (*lead, *((1,) * rank if keepdim else ())))
    kept = tuple(x.shape[:axis]) + ((1,) if keepdim else ()) + tuple(x.shape[axis + 1 :])
    return _reshape(out, (*lead, *kept))


def _quantile(x: Tensor, q: Tensor, axis: int, interpolation: str) -> Tensor:
    """Quantiles with the dimension of q in front; NaN where q is NaN."""
    n = x.shape[axis]
    order = argsort_(x, axis=axis, descending=False)
    q = _reshape(q, (q._data.size,))
    low, high, weight = _positions(q, n, interpolation)

    def ranked(rank: Any) -> Tensor:
        return pick(x, index(order, cast(rank, dt.int64), axes=(axis,)), axis)

    shape = [1] * x.ndim
    shape[axis] = q.shape[0]
    upper = _reshape(weight, tuple(shape))
    exact, upper = upper == 0, cast(upper, x.dtype)
    a, b = ranked(keep(low == low, low)), ranked(keep(high == high, high))
    mixed = where(exact, a, a + upper * (b - a))
    mixed = where(upper != upper, upper, mixed)
    last = ranked(Tensor(np.full(q.shape, n - 1)))  # NaN is sorted last: it makes the whole row NaN
    mixed = where(last != last, last, mixed)
    return permute(mixed, dims=(axis, *(i for i in range(x.ndim) if i != axis)))
