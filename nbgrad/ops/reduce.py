"""Reductions: sums, products, extrema, counts; public functions take any dimensions and NumPy's spellings.

``dim`` is None (all dimensions), one dimension, or several. One rule for every reduction here and in `extremum`,
`variance`, `norm` and `softmax.logsumexp`: ``dim=()`` and ``dim=[]`` mean all dimensions, as in PyTorch (in NumPy,
``axis=()`` reduces over nothing).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..op import as_tensor, cast, operator
from ..op.public import public
from ..op.samples import Sample, draw
from ..tensor import Tensor
from .basic import sum_
from .common import (
    count,
    numpy_names,
    reduce_array,
    reduction,
    unreduce,
)
from .elementwise import cj, drop, zmul
from .scan import cumprod_
from .view import _reshape, permute


def reduction_samples(
    *extra: dict, low: float = -2.0, high: float = 2.0, empty: bool = True
) -> Any:
    """Samples over several axes, with and without keepdim, one for each set of further parameters."""

    def make(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
        rows = [((2, 3), (0, 1), False), ((2, 3), (1,), True), ((2, 3, 2), (0, 2), False)]
        rows += [((), (), False)]
        if empty:
            rows += [((0, 3), (0,), False)]
        return [
            Sample((draw(rng, dtype, shape, low, high),), {"axes": axes, "keepdim": keep, **params})
            for shape, axes, keep in rows
            for params in extra or ({},)
        ]

    return make


def numpy_reduction(fn: Any) -> Any:
    """A NumPy reduction as a reference for an operator with ``axes, keepdim``."""
    return lambda x, axes, keepdim: fn(x, axis=axes, keepdims=keepdim) if axes else fn(x[None], 0)


# -- product ----------------------------------------------------------------------------------------


@operator("prod", saves=(0,), tests=reduction_samples(), reference=numpy_reduction(np.prod))
def prod_(x, *, axes, keepdim):
    """Product over axes."""
    return reduce_array("prod", x, axes, keepdim)


def _others(x: Any, axes: tuple) -> Any:
    """For each element the product of all the others it is reduced with (no division: zeros are fine)."""
    if len(axes) < 2:
        axis = axes[0] if axes else 0
        left = cumprod_(x, axis=axis, before=True, reverse=False)
        return left * cumprod_(x, axis=axis, before=True, reverse=True)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    moved = permute(x, dims=kept + axes)
    flat = _reshape(moved, (*(x.shape[i] for i in kept), count(x.shape, axes)))
    out = _reshape(_others(flat, (flat.ndim - 1,)), moved.shape)
    back = [0] * x.ndim
    for place, axis in enumerate(kept + axes):
        back[axis] = place
    return permute(out, dims=tuple(back))


@prod_.vjp
def _(g, out, x, *, needs, axes, keepdim):
    return (zmul(unreduce(g, x.shape, axes, keepdim), cj(_others(x, axes))),)


@prod_.jvp
def _(tangents, out, x, *, axes, keepdim):
    return sum_(zmul(tangents[0], _others(x, axes)), axes=axes, keepdim=keepdim)


reduction(prod_, lambda d: dt.int64 if d.kind in "biu" else d)


# -- truth and counts -------------------------------------------------------------------------------


def _predicate(name: str, kernel: str, reference: Any, dtype: np.dtype) -> Any:
    @operator(
        name,
        differentiable=False,
        tests=reduction_samples(),
        reference=numpy_reduction(reference),
    )
    def op(x, *, axes, keepdim):
        return reduce_array(kernel, x, axes, keepdim)

    op.doc = f"`{name}` over axes; a {dtype.name}."
    return reduction(op, lambda _: dtype)


any_op = _predicate("any", "any", np.any, dt.bool_)
all_op = _predicate("all", "all", np.all, dt.bool_)
count_op = _predicate("count_nonzero", "count", np.count_nonzero, dt.int64)


# -- public functions -------------------------------------------------------------------------------


def prepared(x: Any, dim: Any, dtype: Any, op: str, inexact: bool = False) -> tuple[Tensor, tuple]:
    """The tensor in the dtype asked for (or a floating one), and the axes as a sorted tuple."""
    x = as_tensor(x, op)
    if dtype is not None:
        x = cast(x, dt.as_dtype(dtype, op))
    elif inexact:
        x = cast(x, dt.to_inexact(x.dtype))
    return x, lay.reduced_axes(dim, x.ndim, op)


@public(name="sum")
@numpy_names
def sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over the given dimensions (all by default); integers and bools give int64 unless ``dtype`` is given.

    Pairwise summation; float32 accumulates in float64.
    """
    x, axes = prepared(x, dim, dtype, "sum")
    return _in(sum_(x, axes=axes, keepdim=bool(keepdim)), dtype)


@public
@numpy_names
def mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Arithmetic mean over the given dimensions (all by default); NaN for an empty one."""
    x, axes = prepared(x, dim, dtype, "mean", inexact=True)
    half = x.dtype is dt.float16
    if half:
        x = cast(x, dt.float32)  # the sum may be out of range where the mean is not
    total = sum_(x, axes=axes, keepdim=bool(keepdim))
    n = count(x.shape, axes)
    out = total / n if n else total * float("nan")
    return cast(out, dt.float16) if half else out


@public
@numpy_names
def prod(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product over the given dimensions (all by default); 1 for an empty one.

    Derivatives of every order are right at zeros too.
    """
    x, axes = prepared(x, dim, dtype, "prod")
    return _in(prod_(x, axes=axes, keepdim=bool(keepdim)), dtype)


def _in(out: Tensor, dtype: Any) -> Tensor:
    """A result in the dtype asked for (integers and bools are summed in int64)."""
    return out if dtype is None else cast(out, dt.as_dtype(dtype))


def _truth(x: Any, dim: Any, keepdim: bool, name: str, op: Any) -> Tensor:
    x = as_tensor(x, name)
    return op(x, axes=lay.reduced_axes(dim, x.ndim, name), keepdim=bool(keepdim))


@public
@numpy_names
def any_(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element is not zero (NaN is not zero); False for none."""
    return _truth(x, dim, keepdim, "any", any_op)


@public
@numpy_names
def all_(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are not zero; True for none."""
    return _truth(x, dim, keepdim, "all", all_op)


@public
@numpy_names
def count_nonzero(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """How many elements are not zero (int64)."""
    return _truth(x, dim, keepdim, "count_nonzero", count_op)


def _without_nan(x: Any, dim: Any, dtype: Any, op: str) -> tuple[Tensor, Tensor, tuple]:
    x, axes = prepared(x, dim, dtype, op, inexact=True)
    missing = x != x
    return drop(missing, x), missing, axes


@public
@numpy_names
def nansum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum that leaves NaN out; the gradient at NaN is 0."""
    if as_tensor(x, "nansum").dtype.kind in "biu" and dtype is None:
        return sum(x, dim, keepdim)
    kept, _, axes = _without_nan(x, dim, dtype, "nansum")
    return sum_(kept, axes=axes, keepdim=bool(keepdim))


@public
@numpy_names
def nanmean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean that leaves NaN out (NaN where nothing is left); the gradient at NaN is 0."""
    kept, missing, axes = _without_nan(x, dim, dtype, "nanmean")
    total = sum_(kept, axes=axes, keepdim=bool(keepdim))
    n = count_op(missing == False, axes=axes, keepdim=bool(keepdim))  # noqa: E712
    return total / cast(n, total.dtype)
