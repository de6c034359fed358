"""Selecting whole slices, flat positions and masked elements; nonzero, one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..errors import ArgumentError, DTypeError, IndexingError, ShapeError, TraceError, message
from ..layout import broadcast_shapes
from ..op import Spec, as_tensor, cast, operator
from ..op.batching import materialize
from ..op.public import METHODS, PUBLIC, public
from ..tensor import Tensor, Value
from .compare import eq
from .elementwise import where as select
from .gather import gather_, index_of, like_given
from .index import fitting, index_spec
from .index import index as index_
from .index import index_put as index_put_
from .index_parse import parse
from .view import _reshape, expand

# -- whole slices along a dimension -----------------------------------------------------------------


def _slices(op: str, input: Any, dim: int, index: Any) -> tuple[Tensor, int, Tensor]:
    x, idx = as_tensor(input, op), index_of(index, op)
    if idx.ndim > 1:
        raise ShapeError(message(op, "argument 'index' of shape", tuple(idx.shape), "a vector"))
    d = lay.normalize_axis(dim, x.ndim, op)
    return x if x.ndim else _reshape(x, (1,)), d, _reshape(idx, (idx._data.size,))


@public
def index_select(input: Any, dim: int, index: Any) -> Tensor:
    """The slices ``index`` (a vector) of a dimension, copied.

    Raises
    ------
    IndexingError : an index out of range. ShapeError : an index that is no vector.
    """
    x, d, idx = _slices("index_select", input, dim, index)
    return index_(x, idx, axes=(d,))


def _put_slices(op: str, input: Any, dim: int, idx_: Any, src: Any, accumulate: bool) -> Tensor:
    x, d, idx = _slices(op, input, dim, idx_)
    v = fitting(x, src, op, "source")
    shape = (*x.shape[:d], idx._data.size, *x.shape[d + 1 :])
    if v.ndim and tuple(v.shape) != shape:
        raise ShapeError(message(op, "argument 'source' of shape", tuple(v.shape), f"{shape}"))
    v = expand(v, shape=shape) if not v.ndim else v
    return like_given(index_put_(x, v, idx, axes=(d,), accumulate=accumulate), as_tensor(input))


@public(inplace=True)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """A copy of input with ``alpha * source`` added to the slices ``index``; repeated indices accumulate."""
    source = as_tensor(source, "index_add", "source")
    return _put_slices(
        "index_add", input, dim, index, source if alpha == 1 else source * alpha, True
    )


@public(inplace=True)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Tensor:
    """A copy of input with ``source`` written to the slices ``index``; the last one wins."""
    return _put_slices("index_copy", input, dim, index, source, False)


@public(inplace=True)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Tensor:
    """A copy of input with one number written to the slices ``index``."""
    if np.ndim(value if not isinstance(value, Tensor) else np.empty(value.shape)):
        raise ShapeError(
            message("index_fill", "argument 'value'", "a tensor with dimensions", "one number")
        )
    return _put_slices("index_fill", input, dim, index, value, False)


# -- flat positions -----------------------------------------------------------------------------------


@public
def take(input: Any, index: Any, dim: int | None = None) -> Tensor:
    """Elements at positions of the flattened input, in the shape of ``index``; with ``dim``, slices (as NumPy's axis)."""
    x, idx = as_tensor(input, "take"), index_of(index, "take")
    if dim is None:
        return index_(_reshape(x, (x._data.size,)), idx, axes=(0,))
    return index_(x, idx, axes=(lay.existing_axis(dim, x.ndim, "take"),))


@public
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Tensor:
    """`gather` with broadcasting of the other dimensions (NumPy's take_along_axis); flattened without ``dim``."""
    x, idx = as_tensor(input, "take_along_dim"), index_of(indices, "take_along_dim")
    if dim is None:
        return take(x, _reshape(idx, (idx._data.size,)))
    d = lay.normalize_axis(dim, x.ndim, "take_along_dim")
    if idx.ndim != x.ndim:
        raise ShapeError(
            message(
                "take_along_dim",
                "argument 'indices' of shape",
                tuple(idx.shape),
                f"{x.ndim} dimensions like the input",
            )
        )
    a, b = list(x.shape), list(idx.shape)
    a[d] = b[d] = 1
    common = broadcast_shapes(tuple(a), tuple(b), op="take_along_dim")
    wide = [(*common[:d], t.shape[d], *common[d + 1 :]) for t in (x, idx)]
    return gather_(expand(x, shape=wide[0]), expand(idx, shape=wide[1]), dim=d)


@public(inplace=True)
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """A copy of input with ``source`` written (or added) at positions of the flattened input."""
    x, idx = as_tensor(input, "put"), index_of(index, "put")
    v = fitting(x, source, "put", "source")
    if v._data.size != idx._data.size:
        raise ShapeError(
            message(
                "put",
                "argument 'source' of shape",
                tuple(v.shape),
                f"{idx._data.size} elements like 'index'",
            )
        )
    flat = _reshape(x, (x._data.size,))
    v = _reshape(v, tuple(idx.shape))
    out = index_put_(flat, v, idx, axes=(0,), accumulate=bool(accumulate))
    return _reshape(out, tuple(x.shape))


@public(inplace=True)
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy of input with ``values`` written (or added) at a tuple of index tensors, as ``x[indices] = values``."""
    x = as_tensor(input, "index_put")
    key = tuple(slice(None) if i is None else i for i in indices)
    p = parse(x, key, "index_put")
    if not p.idx or not p.trivial:
        raise IndexingError(
            message(
                "index_put",
                "argument 'indices'",
                key,
                "integer or bool tensors (or None)",
                "Use x[...] = v.",
            )
        )
    shape = index_spec(x, *p.idx, axes=p.axes).shape
    v = fitting(x, values, "index_put", "values")
    broadcast_shapes(shape, tuple(v.shape), op="index_put")
    return index_put_(x, expand(v, shape=shape), *p.idx, axes=p.axes, accumulate=bool(accumulate))


# -- masks --------------------------------------------------------------------------------------------


@operator(differentiable=False)
def mask_rank(mask, *, limit, lead):
    """How many True come before each element (within each of ``lead`` leading dimensions), capped at ``limit - 1``."""
    flat = mask.reshape((*mask.shape[:lead], -1))
    return np.clip(np.cumsum(flat, axis=-1) - 1, 0, max(limit - 1, 0)).reshape(mask.shape)


@mask_rank.infer
def _(mask, *, limit, lead):
    return Spec(mask.shape, dt.int64)


@mask_rank.batch
def _(dims, mask, *, limit, lead):
    _, (mask,) = materialize(dims, (mask,))
    return mask_rank(mask, limit=limit, lead=lead + 1), 0


def _mask(mask: Any, op: str) -> Tensor:
    m = as_tensor(mask, op, "mask")
    if m.dtype.kind != "b":
        raise DTypeError(
            message(
                op, "argument 'mask' of dtype", m.dtype.name, "bool", "Compare, or use .bool()."
            )
        )
    return m


@public(inplace=True)
def masked_fill(input: Any, mask: Any, value: Any) -> Tensor:
    """``value`` (a number or a 0-d tensor) where the mask holds, else the input; filled places get gradient 0."""
    x, m = as_tensor(input, "masked_fill"), _mask(mask, "masked_fill")
    v = as_tensor(value, "masked_fill", "value")
    if v.ndim:
        raise ShapeError(
            message(
                "masked_fill",
                "argument 'value' of shape",
                tuple(v.shape),
                "one number",
                "Use ng.where.",
            )
        )
    return select(m, fitting(x, value, "masked_fill"), x)


@public
def masked_select(input: Any, mask: Any) -> Tensor:
    """The elements where the mask holds, as a vector (both are broadcast).

    Raises
    ------
    TraceError : inside vmap or a trace, where the number of elements is not known.
    """
    x, m = as_tensor(input, "masked_select"), _mask(mask, "masked_select")
    shape = broadcast_shapes(tuple(x.shape), tuple(m.shape), op="masked_select")
    if not shape:
        return _reshape(x, (1,))[_reshape(m, (1,))]
    return expand(x, shape=shape)[expand(m, shape=shape)]


@public(inplace=True)
def masked_scatter(input: Any, mask: Any, source: Any) -> Tensor:
    """Successive elements of ``source`` where the mask holds, else the input.

    Raises
    ------
    ShapeError : fewer elements in source than places in the mask (checked where the mask is known).
    """
    x, m = as_tensor(input, "masked_scatter"), _mask(mask, "masked_scatter")
    s = fitting(x, source, "masked_scatter", "source")
    m = expand(m, shape=tuple(x.shape))
    size = s._data.size
    if not isinstance(m._data, Value) and int(np.count_nonzero(m._data)) > size:
        raise ShapeError(
            message(
                "masked_scatter",
                "argument 'source'",
                f"{size} elements",
                f"at least {np.count_nonzero(m._data)}, one a True in the mask",
            )
        )
    if not size or not x._data.size:
        return x + 0
    order = mask_rank(m, limit=size, lead=0)
    return select(m, index_(_reshape(s, (size,)), order, axes=(0,)), x)


def _known(x: Tensor, op: str) -> np.ndarray:
    if isinstance(x._data, Value):
        raise TraceError(
            f"{op}: the number of nonzero elements depends on values that are not known inside vmap or a "
            "trace; compute it outside, or use ng.where with three arguments."
        )
    return x.detach().numpy()


@public
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Indices of nonzero elements: one row each, or with ``as_tuple`` one index tensor a dimension."""
    x = as_tensor(input, "nonzero")
    data = _known(x, "nonzero")
    if as_tuple:
        return tuple(Tensor(np.asarray(i)) for i in np.nonzero(np.atleast_1d(data)))
    return Tensor(np.argwhere(data))


@public
def argwhere(input: Any) -> Tensor:
    """Indices of nonzero elements, one row each."""
    return Tensor(np.argwhere(_known(as_tensor(input, "argwhere"), "argwhere")))


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; with the condition alone, ``nonzero(as_tuple=True)``.

    The side not chosen gets gradient 0, whatever its value or derivative.
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise ArgumentError(
            message("where", "the call", "one value", "both values, or the condition alone")
        )
    return select(condition, input, other)


def _where_method(self: Tensor, condition: Any, other: Any) -> Tensor:
    """This tensor where the condition holds, else ``other``."""
    return select(condition, self, other)


PUBLIC["where"] = where
METHODS["where"] = _where_method


@public(method=False)
def one_hot(index: Any, num_classes: int = -1) -> Tensor:
    """int64 unit vectors: 1 at the index, 0 elsewhere, in a new last dimension.

    Raises
    ------
    IndexingError : an index that is negative or not below ``num_classes`` (checked where it is known).
    """
    idx = index_of(index, "one_hot")
    known = not isinstance(idx._data, Value)
    if num_classes < 0:
        data = _known(idx, "one_hot")
        num_classes = int(data.max()) + 1 if data.size else 0
    if (
        known
        and idx._data.size
        and not 0 <= int(idx._data.min()) <= int(idx._data.max()) < num_classes
    ):
        raise IndexingError(
            message(
                "one_hot",
                "an index",
                idx._data.max(),
                f"between 0 and {num_classes - 1}, the last class",
            )
        )
    wide = _reshape(idx, (*idx.shape, 1))
    return cast(eq(wide, Tensor(np.arange(num_classes))), dt.int64)
