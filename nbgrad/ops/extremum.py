"""Maxima and minima: shared evenly by ties over whole reductions, or chosen with their index along one dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..op import Spec, cast, operator
from ..op.base import OUT
from ..op.batching import front
from ..op.public import PUBLIC, public
from ..op.samples import Sample, draw
from ..op.shapes import reduced
from ..tensor import Tensor
from .basic import sum_
from .common import (
    MinMax,
    ValuesIndices,
    axis_of,
    need_elements,
    need_order,
    numeric,
    numpy_names,
    ordered,
    reduce_array,
    reduction,
    unreduce,
)
from .elementwise import zmul
from .gather import gather_, scatter_add_
from .reduce import numpy_reduction, reduction_samples
from .view import _reshape


def _share(x: Any, out: Any, axes: tuple, keepdim: bool) -> Any:
    """How the elements that attain an extremum share its gradient: evenly."""
    o = unreduce(out, x.shape, axes, keepdim)
    hit = cast((x == o) | ((x != x) & (o != o)), x.dtype)
    return hit / sum_(hit, axes=axes, keepdim=True)


def _extremum(name: str, kernel: str, reference: Any) -> Any:
    @operator(
        name,
        saves=(0, OUT),
        tests=ordered(reduction_samples(empty=False)),
        reference=numpy_reduction(reference),
    )
    def op(x, *, axes, keepdim):
        need_order(x, name)
        return reduce_array(kernel, x, axes, keepdim)

    op.doc = f"The {kernel}imum over axes; NaN propagates; ties share the gradient evenly."

    @op.vjp
    def _(g, out, x, *, needs, axes, keepdim):
        share = _share(x, out, axes, keepdim)
        return (zmul(unreduce(g, x.shape, axes, keepdim), share),)

    @op.jvp
    def _(tangents, out, x, *, axes, keepdim):
        share = _share(x, out, axes, keepdim)
        return sum_(zmul(tangents[0], share), axes=axes, keepdim=keepdim)

    return reduction(op)


amax_ = _extremum("amax", "max", np.max)
amin_ = _extremum("amin", "min", np.min)


def _located(x: np.ndarray, fn: Any, axis: int, keepdim: bool) -> np.ndarray:
    """Indices of an extremum along an axis."""
    if not x.ndim:
        return np.zeros((), np.int64)
    return np.asarray(fn(x, axis=axis, keepdims=keepdim), np.int64)


def _kept(t: Any, axis: int, keepdim: bool, ndim: int) -> Any:
    """A result along an axis with that axis as size 1."""
    return t if keepdim or not ndim else _reshape(t, (*t.shape[:axis], 1, *t.shape[axis:]))


def _along_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [
        Sample((draw(rng, dtype, shape, -2, 2),), {"axis": axis, "keepdim": keep})
        for shape, axis, keep in (((3, 4), 0, False), ((3, 4), 1, True), ((), 0, False))
    ]


def _along_rules(op: Any, dtypes: Any) -> Any:
    """Batching and inference of an operator that reduces one axis to an index (and a value)."""

    @op.batch
    def _(dims, x, *, axis, keepdim):
        x = front(x, dims[0])
        if x.ndim == 1:  # 0-d members
            return op(_reshape(x, (*x.shape, 1)), axis=1, keepdim=False), 0
        return op(x, axis=axis + 1, keepdim=keepdim), 0

    @op.infer
    def _(x, *, axis, keepdim):
        shape = reduced(x.shape, (axis,), keepdim) if x.shape else ()
        got = [Spec(shape, d) for d in dtypes(x.dtype)]
        return tuple(got) if len(got) > 1 else got[0]

    return op


def _arg_extremum(name: str, fn: Any) -> Any:
    @operator(
        name,
        differentiable=False,
        tests=ordered(_along_samples),
        reference=lambda x, axis, keepdim: _located(x, fn, axis, keepdim),
    )
    def op(x, *, axis, keepdim):
        need_order(x, name)
        return _located(x, fn, axis, keepdim)

    op.doc = f"Index of the {name[3:]}imum along an axis (the first of equals)."
    return _along_rules(op, lambda d: (dt.int64,))


def _extremum_and_index(name: str, fn: Any) -> Any:
    def forward(x, *, axis, keepdim):
        at = _located(x, fn, axis, True)
        if not x.ndim:
            return x.copy(), at
        values = np.take_along_axis(x, at, axis)
        return (values, at) if keepdim else (values.squeeze(axis), at.squeeze(axis))

    @operator(
        name,
        n_out=2,
        saves=(OUT,),
        tests=ordered(_along_samples),
        reference=forward,
    )
    def op(x, *, axis, keepdim):
        need_order(x, name[:3])
        return forward(x, axis=axis, keepdim=keepdim)

    op.doc = f"The {name[:3]}imum along an axis and its index, which alone gets the gradient."

    @op.vjp
    def _(g, out, x, *, needs, axis, keepdim):
        if g[0] is None:
            return (None,)
        if not x.shape:
            return (g[0],)
        at = _kept(out[1], axis, keepdim, x.ndim)
        zeros = Tensor(np.zeros(x.shape, x.dtype))
        return (scatter_add_(zeros, at, _kept(g[0], axis, keepdim, x.ndim), dim=axis),)

    @op.jvp
    def _(tangents, out, x, *, axis, keepdim):
        if not x.shape:
            return tangents[0], None
        moved = gather_(tangents[0], _kept(out[1], axis, keepdim, x.ndim), dim=axis)
        return (moved if keepdim else _reshape(moved, out[1].shape)), None

    return _along_rules(op, lambda d: (d, dt.int64))


argmax_ = _arg_extremum("argmax", np.argmax)
argmin_ = _arg_extremum("argmin", np.argmin)
max_along = _extremum_and_index("max_along", np.argmax)
min_along = _extremum_and_index("min_along", np.argmin)


# -- public functions -------------------------------------------------------------------------------


def _reduce_extremum(x: Any, dim: Any, keepdim: bool, name: str, op: Any) -> Tensor:
    x = numeric(x, name, real=True)
    axes = lay.reduced_axes(dim, x.ndim, name)
    need_elements(x, axes, name)
    return op(x, axes=axes, keepdim=bool(keepdim))


@public
@numpy_names
def amax(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Maximum over the given dimensions; NaN propagates; ties share the gradient evenly.

    Raises
    ------
    ShapeError : nothing to reduce over.
    """
    return _reduce_extremum(x, dim, keepdim, "amax", amax_)


@public
@numpy_names
def amin(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Minimum over the given dimensions; NaN propagates; ties share the gradient evenly.

    Raises
    ------
    ShapeError : nothing to reduce over.
    """
    return _reduce_extremum(x, dim, keepdim, "amin", amin_)


@public
@numpy_names
def aminmax(x: Any, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """``(min, max)`` over one dimension or all."""
    return MinMax(amin(x, dim, keepdim), amax(x, dim, keepdim))


def _extremum_along(x: Any, dim: Any, keepdim: bool, name: str, pairwise: str) -> Any:
    whole, located = (amax_, max_along) if name == "max" else (amin_, min_along)
    if isinstance(dim, Tensor | np.ndarray):
        return PUBLIC[pairwise](x, dim)
    if dim is None or isinstance(dim, tuple | list):
        return _reduce_extremum(x, dim, keepdim, name, whole)
    x = numeric(x, name, real=True)
    axis = axis_of(dim, x, name)
    need_elements(x, (axis,) if x.ndim else (), name)
    return ValuesIndices(*located(x, axis=axis, keepdim=bool(keepdim)))


@public
@numpy_names
def max(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The maximum of all elements, or ``(values, indices)`` along a dimension.

    NaN propagates. Without ``dim`` ties share the gradient evenly; with it the gradient goes to
    the returned index (the first of equals). ``max(x, other)`` is `maximum`.

    Raises
    ------
    ShapeError : nothing to reduce over.
    """
    return _extremum_along(x, dim, keepdim, "max", "maximum")


@public
@numpy_names
def min(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The minimum of all elements, or ``(values, indices)`` along a dimension.

    NaN propagates. Without ``dim`` ties share the gradient evenly; with it the gradient goes to
    the returned index (the first of equals). ``min(x, other)`` is `minimum`.

    Raises
    ------
    ShapeError : nothing to reduce over.
    """
    return _extremum_along(x, dim, keepdim, "min", "minimum")


def _arg(x: Any, dim: int | None, keepdim: bool, name: str, op: Any) -> Tensor:
    x = numeric(x, name, real=True)
    flat = _reshape(x, (x._data.size,)) if dim is None else x
    axis = 0 if dim is None else axis_of(dim, x, name)
    need_elements(flat, (axis,) if flat.ndim else (), name)
    at = op(flat, axis=axis, keepdim=bool(keepdim))
    return _reshape(at, (1,) * x.ndim) if dim is None and keepdim else at


@public
@numpy_names
def argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the maximum (of equals the first; the first NaN if there is one), in the flat tensor or along dim."""
    return _arg(x, dim, keepdim, "argmax", argmax_)


@public
@numpy_names
def argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the minimum (of equals the first; the first NaN if there is one), in the flat tensor or along dim."""
    return _arg(x, dim, keepdim, "argmin", argmin_)
