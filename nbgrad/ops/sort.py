"""Sorting and searching: order indices are computed once, values are picked by them (and so differentiable)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..errors import ArgumentError, OutOfMemoryError, ShapeError, message
from ..op import Spec, as_tensor, cast, operator
from ..op.batching import front, materialize
from ..op.public import public
from ..op.samples import Sample, draw
from ..tensor import Tensor
from .common import (
    ValuesIndices,
    along,
    axis_of,
    integer,
    need_elements,
    need_order,
    numeric,
    numpy_names,
    ordered,
)
from .gather import gather_
from .join import stack, unbind
from .view import _reshape, clone


def pick(x: Tensor, at: Tensor, axis: int) -> Tensor:
    """Elements at indices along one axis (the other sizes agree); differentiable."""
    return gather_(x, at, dim=axis) if x.ndim else clone(x)


def _index_operator(kernel_name: str, size: int, options: tuple, reference: Any) -> Any:
    """An operator that returns indices along an axis of size ``size``; the last arguments make its samples."""

    def forward(x, *, axis, size, options):
        from kernels_cpu import sort

        need_order(x, kernel_name)
        return getattr(sort, kernel_name)(x, axis=axis, **dict(options))

    def samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
        rows = [((3, 4), 1), ((3, 4), 0), ((5,), 0)]
        return [
            Sample(
                (draw(rng, dtype, shape, -2, 2),),
                {"axis": axis, "size": size, "options": options},
            )
            for shape, axis in rows
        ]

    op = operator(kernel_name, differentiable=False, tests=ordered(samples), reference=reference)(
        forward
    )
    op.doc = f"Indices along an axis: see `kernels_cpu.sort.{kernel_name}`."

    @op.batch
    def _(dims, x, *, axis, size, options):
        x = front(x, dims[0])
        flat = x.ndim == 1
        x = _reshape(x, (*x.shape, 1)) if flat else x
        out = op(x, axis=axis + 1, size=size, options=options)
        return (_reshape(out, out.shape[:-1]) if flat else out), 0

    @op.infer
    def _(x, *, axis, size, options):
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :]) if x.shape else ()
        return Spec(shape, dt.int64)

    return op


def _ranked(x: np.ndarray, axis: int, size: int, options: tuple) -> np.ndarray:
    given = dict(options)
    if not x.ndim:
        return np.zeros((), np.int64)
    order = np.argsort(-x if given.get("largest") else x, axis, kind="stable")
    low = given.get("k", 0) if size == 1 else 0
    if "skip_nan" in given:
        low = (x.shape[axis] - 1) // 2
    return np.take(order, range(low, low + size), axis)


smallest = _index_operator("smallest", 1, (("k", 2),), _ranked)
largest_order = _index_operator(
    "largest_order", 2, (("k", 2), ("largest", True), ("ordered", True)), _ranked
)
median_index = _index_operator("median_index", 1, (("skip_nan", False),), _ranked)


def _argsort_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    x = draw(rng, dtype, (3, 4), -2, 2)
    return [Sample((x,), {"axis": a, "descending": d}) for a in (0, 1) for d in (False, True)]


@operator(
    "argsort",
    differentiable=False,
    tests=ordered(_argsort_samples),
    reference=lambda x, axis, descending: np.argsort(-x if descending else x, axis),
)
def argsort_(x, *, axis, descending):
    """Stable order indices along an axis; NaN last (first when descending)."""
    need_order(x, "argsort")
    from kernels_cpu.sort import argsort

    return np.ascontiguousarray(argsort(x, axis, descending)).reshape(x.shape)


along(argsort_, lambda d: dt.int64)


# -- public functions -------------------------------------------------------------------------------


def _dropped(t: Tensor, axis: int, keepdim: bool) -> Tensor:
    if keepdim or not t.ndim:
        return t
    return _reshape(t, (*t.shape[:axis], *t.shape[axis + 1 :]))


def at_index(x: Tensor, at: Tensor, axis: int, keepdim: bool) -> ValuesIndices:
    """Values and indices for indices that keep the axis with size 1."""
    values = pick(x, at, axis)
    return ValuesIndices(_dropped(values, axis, keepdim), _dropped(at, axis, keepdim))


@public
@numpy_names
def argsort(x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices that sort along a dimension; equal elements keep their order, NaN counts as largest."""
    x = numeric(x, "argsort", real=True)
    return argsort_(x, axis=axis_of(dim, x, "argsort"), descending=bool(descending))


@public
@numpy_names
def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesIndices:
    """Sorted values along a dimension and the indices that sort; NaN counts as the largest value."""
    x = numeric(x, "sort", real=True)
    axis = axis_of(dim, x, "sort")
    order = argsort_(x, axis=axis, descending=bool(descending))
    return ValuesIndices(pick(x, order, axis), order)


@public(method=False)
def msort(x: Any) -> Tensor:
    """Values sorted along the first dimension."""
    return sort(x, 0).values


def _size(x: Tensor, axis: int) -> int:
    return x.shape[axis] if x.ndim else 1


@public
@numpy_names
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest (or smallest) values along a dimension and their indices, best first.

    Raises
    ------
    ArgumentError : k exceeds the size of the dimension.
    """
    x = numeric(x, "topk", real=True)
    axis = axis_of(dim, x, "topk")
    _check_rank(k, 0, _size(x, axis), "topk")
    options = (("k", int(k)), ("largest", bool(largest)), ("ordered", True))
    at = largest_order(x, axis=axis, size=int(k), options=options)
    return ValuesIndices(pick(x, at, axis), at)


def _check_rank(k: int, low: int, high: int, op: str) -> None:
    if not low <= k <= high:
        raise ArgumentError(message(op, "argument 'k'", k, f"between {low} and {high}"))


@public
@numpy_names
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest value (from 1) along a dimension and its index.

    Raises
    ------
    ArgumentError : k is not between 1 and the size of the dimension.
    """
    x = numeric(x, "kthvalue", real=True)
    axis = axis_of(dim, x, "kthvalue")
    _check_rank(k, 1, _size(x, axis), "kthvalue")
    at = smallest(x, axis=axis, size=1, options=(("k", int(k) - 1),))
    return at_index(x, at, axis, keepdim)


def _median(x: Any, dim: int | None, keepdim: bool, op: str, skip_nan: bool) -> Any:
    x = numeric(x, op, real=True)
    flat = _reshape(x, (x._data.size,)) if dim is None else x
    axis = 0 if dim is None else axis_of(dim, x, op)
    need_elements(flat, (axis,) if flat.ndim else (), op)
    at = median_index(flat, axis=axis, size=1, options=(("skip_nan", skip_nan),))
    found = at_index(flat, at, axis, keepdim)
    if dim is None:
        return _reshape(found.values, (1,) * x.ndim if keepdim else ())
    return found


@public
@numpy_names
def median(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or ``(values, indices)`` along a dimension.

    NaN propagates. The gradient goes to the chosen element alone, with and without ``dim``: of equal elements the
    one that a stable sort puts in the middle (PyTorch shares it among ties without ``dim``).
    """
    return _median(x, dim, keepdim, "median", False)


@public
@numpy_names
def nanmedian(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """As `median`, leaving NaN out (NaN only where there is nothing else)."""
    return _median(x, dim, keepdim, "nanmedian", True)


@public
def unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The sorted distinct values; optionally where each element went, and how many there were.

    Not differentiable. The number of results depends on the values.

    Raises
    ------
    TraceError : inside a trace or transform, where values are unknown.
    IndexingError : ``dim`` of a 0-d tensor.
    """
    x = as_tensor(x, "unique")
    got = np.unique(
        x.detach().numpy(),
        return_inverse=return_inverse,
        return_counts=return_counts,
        axis=None if dim is None else lay.existing_axis(dim, x.ndim, "unique"),
    )
    if not isinstance(got, tuple):
        return Tensor(got)
    return tuple(Tensor(np.asarray(g)) for g in got)


# -- searching and counting -------------------------------------------------------------------------


def _search_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    rows = np.sort(draw(rng, dtype, (3, 5), -2, 2), 1)
    values = draw(rng, dtype, (3, 2), -2, 2)
    return [
        Sample((rows[0], values), {"right": False}),
        Sample((rows[0], values[0, 0]), {"right": True}),
        Sample((rows, values), {"right": False}),
    ]


def _search_reference(rows: np.ndarray, values: np.ndarray, right: bool) -> np.ndarray:
    below = np.less_equal if right else np.less
    rows = rows if rows.ndim == 1 else rows[..., None, :]
    return below(rows, values[..., None]).sum(-1)


@operator(
    "searchsorted",
    nin=2,
    differentiable=False,
    tests=ordered(_search_samples),
    reference=_search_reference,
)
def searchsorted_(rows, values, *, right):
    """Insertion points in sorted rows: one row for all values, or one for each row of them."""
    side = "right" if right else "left"
    if rows.ndim == 1:
        return np.asarray(np.searchsorted(rows, values, side=side), np.int64)
    out = np.empty(values.shape, np.int64)
    for i in np.ndindex(*rows.shape[:-1]):
        out[i] = np.searchsorted(rows[i], values[i], side=side)
    return out


@searchsorted_.infer
def _(rows, values, *, right):
    return Spec(values.shape, dt.int64)


@searchsorted_.batch
def _(dims, rows, values, *, right):
    if dims[0] is None and rows.ndim == 1:
        return searchsorted_(rows, values, right=right), dims[1]
    one_row = rows.ndim - (dims[0] is not None) == 1
    n, (rows, values) = materialize(dims, (rows, values))
    shape = values.shape
    if one_row:
        values = _reshape(values, (n, values._data.size // max(n, 1)))
    return _reshape(searchsorted_(rows, values, right=right), tuple(shape)), 0


@public
def searchsorted(sorted_sequence: Any, values: Any, *, right: bool = False, side: Any = None):
    """Where to insert values so that the last dimension of ``sorted_sequence`` stays sorted (int64).

    Raises
    ------
    ShapeError : a sequence of several rows whose leading sizes differ from those of ``values``.
    """
    rows = numeric(sorted_sequence, "searchsorted", real=True)
    v = numeric(values, "searchsorted", real=True)
    dtype = dt.promote(rows.dtype, v.dtype)
    rows, v = cast(rows, dtype), cast(v, dtype)
    if not rows.ndim or (rows.ndim > 1 and tuple(rows.shape[:-1]) != tuple(v.shape[:-1])):
        raise ShapeError(
            message(
                "searchsorted",
                "argument 'sorted_sequence'",
                tuple(rows.shape),
                f"one row, or the leading sizes {tuple(v.shape[:-1])} of 'values'",
            )
        )
    return searchsorted_(rows, v, right=bool(right) if side is None else side == "right")


@public
def bucketize(x: Any, boundaries: Any, *, right: bool = False) -> Tensor:
    """Index of the bucket of each element between sorted boundaries (int64)."""
    return searchsorted(boundaries, x, right=right)


_FEWER = "Use unique(return_counts=True) for few large values."


@public
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs, or the sum of its weights (differentiable in them).

    Raises
    ------
    TraceError : inside a trace (the length depends on the values).
    ArgumentError : a negative element, or a tensor that is not 1-d and integer.
    ShapeError : weights of another shape than the tensor.
    OutOfMemoryError : an element so large that the counts do not fit in memory.
    """
    from .index import unindex

    x = as_tensor(x, "bincount")
    values = x.detach().numpy()
    if x.ndim != 1 or x.dtype.kind not in "iub" or (values.size and values.min() < 0):
        raise ArgumentError(
            message("bincount", "the input", f"{x.dtype.name}{list(x.shape)}", "1-d, integers >= 0")
        )
    size = max(
        int(values.max()) + 1 if values.size else 0, integer(minlength, "bincount", "minlength")
    )
    at = cast(x, dt.int64)
    w = None if weights is None else as_tensor(weights, "bincount", "weights")
    if w is not None and tuple(w.shape) != tuple(x.shape):
        given, wanted = tuple(w.shape), f"{tuple(x.shape)}, that of the input"
        raise ShapeError(message("bincount", "argument 'weights' of shape", given, wanted))
    try:
        if w is None:
            return Tensor(np.bincount(at._data, minlength=size))
        return unindex(cast(w, dt.to_inexact(w.dtype)), at, axes=(0,), shape=(size,))
    except (MemoryError, OverflowError, ValueError):  # NumPy's three ways to say too large
        raise OutOfMemoryError(
            message("bincount", "the number of bins", size, "one that fits in memory", _FEWER)
        ) from None


@operator(
    "histc",
    differentiable=False,
    tests=ordered(
        lambda rng, dtype: [
            Sample((draw(rng, dtype, (20,), -2, 2),), {"bins": 4, "low": -1.0, "high": 1.5})
        ]
    ),
    reference=lambda x, bins, low, high: np.histogram(x, bins, (low, high))[0] * 1.0,
)
def histc_(x, *, bins, low, high):
    """Counts in equal bins between two bounds."""
    need_order(x, "histc")
    x = x[(x >= low) & (x <= high)]  # NaN is in no bin
    return np.histogram(x, bins, (low, high))[0].astype(x.dtype)


@histc_.infer
def _(x, *, bins, low, high):
    return Spec((bins,), x.dtype)


@histc_.batch
def _(dims, x, *, bins, low, high):
    rows = unbind(x, dims[0])
    return stack([histc_(row, bins=bins, low=low, high=high) for row in rows]), 0


@public
def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts of the elements in equal bins from ``min`` to ``max`` (the data's range if they are equal).

    Not differentiable; elements outside and NaN are not counted.

    Raises
    ------
    ArgumentError : no bins, or bounds (given or the data's) that are not finite or out of order.
    """
    x = numeric(x, "histc", real=True)
    low, high = float(min), float(max)
    if low == high and x._data.size:
        data = x.detach().numpy()
        low, high = float(data.min()), float(data.max())
    bins = integer(bins, "histc", "bins")
    if not (np.isfinite(low) and np.isfinite(high)):
        fix = "Pass finite min and max: NaN is then in no bin."
        raise ArgumentError(message("histc", "the range", (low, high), "finite bounds", fix))
    if bins < 1 or high < low:
        raise ArgumentError(
            message("histc", "the bins", f"{bins} from {low} to {high}", "bins >= 1, max >= min")
        )
    return histc_(x, bins=int(bins), low=low, high=high if high > low else low + 1)
