"""Shape functions built from the view primitives."""

from __future__ import annotations

import math
from typing import Any

from .. import layout as lay
from ..dtypes import as_dtype
from ..errors import DTypeError, ShapeError, message
from ..op import as_tensor
from ..op.public import METHODS, public
from ..op.view import layout_of
from ..tensor import Tensor, Value, shallow
from . import view as prim
from .common import integer
from .creation import shape_of


def current_layout(x: Tensor) -> lay.Layout:
    """The layout of a tensor's own memory."""
    from ..op.view import array_layout

    data = x._data
    if isinstance(data, Value):
        return lay.contiguous(data.shape)
    return data.layout if hasattr(data, "layout") else array_layout(data)


@public
def reshape(x: Any, *shape: Any) -> Tensor:
    """The same elements in a new shape; a view where possible, else a copy.

    One size may be -1. Raises ShapeError when the number of elements does not fit.
    """
    x = as_tensor(x, "reshape")
    return prim._reshape(x, lay.resolve_shape(_sizes(shape, "reshape"), x._data.size, "reshape"))


def _sizes(shape: tuple, op: str) -> tuple:
    if len(shape) == 1 and isinstance(shape[0], list | tuple):
        shape = tuple(shape[0])
    try:
        return tuple(n.__index__() for n in shape)
    except AttributeError:
        raise ShapeError(message(op, "argument 'shape'", shape, "integers")) from None


def _view_as(x: Tensor, dtype: Any) -> Tensor:
    """``view(dtype)``: only the tensor's own dtype, because other bits would have no derivative."""
    if as_dtype(dtype, "view") is not x.dtype:
        raise DTypeError(
            message(
                "view",
                "argument 'dtype'",
                dtype,
                f"{x.dtype.name}, the tensor's own dtype",
                "Use .to(dtype) to convert, or ng.from_numpy(x.numpy().view(dtype)) to see the same bits.",
            )
        )
    return prim.reshape(x, shape=tuple(x.shape))


@public(function=False)
def view(x: Tensor, *shape: Any) -> Tensor:
    """A view in a new shape; raises where only a copy could do it (use ``reshape``)."""
    if len(shape) == 1 and not isinstance(shape[0], int | list | tuple):
        return _view_as(x, shape[0])
    new = lay.resolve_shape(_sizes(shape, "view"), x._data.size, "view")
    if lay.reshape(current_layout(x), new) is None:
        raise ShapeError(
            message(
                "view",
                "the tensor's memory layout",
                f"{current_layout(x).strides} (strides)",
                f"one that can be seen as {new} without a copy",
                "Use reshape(), which copies where it must.",
            )
        )
    return prim.reshape(x, shape=new)


@public(alias=("broadcast_to",))
def expand(x: Any, *shape: Any) -> Tensor:
    """Broadcast to a shape without a copy; -1 keeps a size."""
    x = as_tensor(x, "expand")
    sizes = _sizes(shape, "expand")
    lead = len(sizes) - x.ndim
    sizes = tuple(x.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(sizes))
    if any(n < 0 for n in sizes):
        raise ShapeError(message("expand", "argument 'shape'", sizes, "no -1 for a new dimension"))
    lay.expand(lay.contiguous(x._data.shape), sizes)
    return prim.expand(x, shape=sizes)


@public
def permute(x: Any, *dims: Any) -> Tensor:
    """Reorder the dimensions; a view."""
    x = as_tensor(x, "permute")
    order = tuple(lay.normalize_axis(d, x.ndim, "permute", "dims") for d in _sizes(dims, "permute"))
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(
            message("permute", "argument 'dims'", dims, f"each of {x.ndim} dimensions once")
        )
    return prim.permute(x, dims=order)


@public(alias=("swapdims",))
def transpose(x: Any, dim0: int, dim1: int) -> Tensor:
    """Swap two dimensions; a view."""
    x = as_tensor(x, "transpose")
    a = lay.normalize_axis(dim0, x.ndim, "transpose", "dim0")
    b = lay.normalize_axis(dim1, x.ndim, "transpose", "dim1")
    order = list(range(x.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return prim.permute(x, dims=tuple(order))


@public
def swapaxes(x: Any, axis0: int, axis1: int) -> Tensor:
    """Swap two dimensions; a view: `transpose` under NumPy's name."""
    return transpose(x, axis0, axis1)


@public
def t(x: Any) -> Tensor:
    """Transpose of a matrix (vectors and scalars unchanged)."""
    x = as_tensor(x, "t")
    if x.ndim > 2:
        raise ShapeError(
            message("t", "the number of dimensions", x.ndim, "at most 2", "Use .mT or transpose.")
        )
    return prim.permute(x, dims=tuple(reversed(range(x.ndim))))


@public
def unsqueeze(x: Any, dim: int) -> Tensor:
    """Insert a dimension of size 1; a view."""
    x = as_tensor(x, "unsqueeze")
    d = lay.normalize_axis(dim, x.ndim + 1, "unsqueeze")
    return prim._reshape_view(x, (*x.shape[:d], 1, *x.shape[d:]))


@public
def squeeze(x: Any, dim: Any = None) -> Tensor:
    """Drop dimensions of size 1 (all, or the given ones); a view."""
    x = as_tensor(x, "squeeze")
    axes = lay.normalize_axes(dim, x.ndim, "squeeze")
    shape = tuple(n for i, n in enumerate(x.shape) if not (i in axes and n == 1))
    return prim._reshape_view(x, shape)


@public(function=False)
def as_strided_method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """See `as_strided`."""
    return as_strided(x, *args, **kwargs)


@public(method=False)
def as_strided(x: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the storage with any sizes, strides and offset (in elements).

    Raises
    ------
    ShapeError : the view would reach outside the storage.
    """
    x = as_tensor(x, "as_strided")
    base = x._meta.base if x._meta is not None and x._meta.base is not None else x
    own = layout_of(x)
    offset = own.offset if storage_offset is None else storage_offset
    if base is not x and base._node is None and x._node is not None:
        # a leaf that is a view of something without history: its own memory is the base
        base = shallow(x)
        offset -= own.offset
    base_layout = layout_of(base)
    shape, stride = shape_of((tuple(size),), "as_strided"), tuple(stride)
    if len(stride) != len(shape):
        given = f"{stride} for {len(shape)} dimensions"
        raise ShapeError(
            message("as_strided", "argument 'stride'", given, "one stride a dimension")
        )
    layout = lay.Layout(shape, stride, offset)
    low, high = lay.extent(layout)
    bottom, top = lay.extent(base_layout)
    if math.prod(shape) * x.dtype.itemsize >= 2**63:
        raise ShapeError(
            message("as_strided", "argument 'size'", shape, "fewer than 2**63 bytes of elements")
        )
    if low < bottom or high > top:
        raise ShapeError(
            message(
                "as_strided", "the view", layout, f"elements {bottom} to {top - 1} of the storage"
            )
        )
    out = prim.strided_view(base, layout=layout, base_layout=base_layout)
    return out


METHODS["as_strided"] = METHODS.pop("as_strided_method")


@public
def clone(x: Any) -> Tensor:
    """A contiguous copy; differentiable."""
    return prim.clone(as_tensor(x, "clone"))


@public(function=False)
def contiguous(x: Tensor) -> Tensor:
    """The tensor itself if it is contiguous, else a contiguous copy."""
    return x if lay.is_contiguous(current_layout(x)) else prim.clone(x)


@public
def narrow(x: Any, dim: int, start: int, length: int) -> Tensor:
    """``length`` elements from ``start`` along a dimension; a view."""
    x = as_tensor(x, "narrow")
    d = lay.existing_axis(dim, x.ndim, "narrow")
    start, length = integer(start, "narrow", "start"), integer(length, "narrow", "length")
    n = x.shape[d]
    start = start + n if start < 0 else start
    if not 0 <= start <= start + length <= n:
        raise ShapeError(
            message("narrow", "the range", f"{start}:{start + length}", f"inside 0:{n}")
        )
    items = tuple((0, m, 1) if i != d else (start, length, 1) for i, m in enumerate(x.shape))
    return prim.slice_(x, items=items)


def _adjoint(x: Tensor) -> Tensor:
    from .elementwise import conj

    y = transpose(x, -2, -1)
    return conj(y) if x.dtype.kind == "c" else y


METHODS["T"] = property(lambda x: prim.permute(x, dims=tuple(reversed(range(x.ndim)))))
METHODS["mT"] = property(lambda x: transpose(x, -2, -1))
METHODS["H"] = METHODS["mH"] = property(_adjoint)
