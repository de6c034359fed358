"""Joining and splitting: cat, stack and their relatives; split, chunk and unbind give views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..op import Spec, as_tensor, cast, operator
from ..op.batching import materialize
from ..op.public import public
from ..op.samples import Sample, draw
from ..tensor import Tensor
from .common import integer
from .view import _reshape, _reshape_view, alias, slice_


def _cat_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    rows = [((2, 3), (1, 3), 0), ((2, 3), (2, 2), 1), ((0, 3), (2, 3), 0)]
    return [
        Sample((draw(rng, dtype, a, -2, 2), draw(rng, dtype, b, -2, 2)), {"axis": axis})
        for a, b, axis in rows
    ]


@operator(
    "cat",
    nin=None,
    linear="all",
    tests=_cat_samples,
    reference=lambda *xs, axis: np.concatenate(xs, axis),
)
def cat_(*xs, axis):
    """Join tensors of one dtype along an existing axis."""
    from ..memory import host

    shape = _joined([x.shape for x in xs], axis)
    return np.concatenate(xs, axis, out=host.empty(shape, xs[0].dtype))


def _joined(shapes: Sequence[tuple], axis: int) -> tuple:
    first = shapes[0]
    return (*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :])


@cat_.vjp
def _(g, out, *xs, needs, axis):
    grads, start = [], 0
    whole = [(0, n, 1) for n in g.shape]
    for x, need in zip(xs, needs, strict=True):
        n = x.shape[axis]
        cut = (*whole[:axis], (start, n, 1), *whole[axis + 1 :])
        grads.append(slice_(g, items=cut) if need else None)
        start += n
    return tuple(grads)


@cat_.batch
def _(dims, *xs, axis):
    return cat_(*materialize(dims, xs)[1], axis=axis + 1), 0


@cat_.infer
def _(*xs, axis):
    return Spec(_joined([x.shape for x in xs], axis), xs[0].dtype)


def _tensors(tensors: Any, op: str) -> list[Tensor]:
    """A non-empty list of tensors of one (promoted) dtype."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, list | tuple):
        if not isinstance(tensors, Tensor | np.ndarray):
            raise DTypeError(
                message(op, "argument 'tensors'", type(tensors).__name__, "a list of tensors")
            )
        tensors = list(tensors)
    if not tensors:
        raise ArgumentError(message(op, "argument 'tensors'", "empty", "at least one tensor"))
    found = [as_tensor(t, op, f"tensors[{i}]") for i, t in enumerate(tensors)]
    dtype = found[0].dtype
    for t in found[1:]:
        dtype = dt.promote(dtype, t.dtype)
    return [cast(t, dtype) for t in found]


@public(alias=("concat", "concatenate"), method=False)
def cat(tensors: Any, dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Join tensors along an existing dimension; the dtypes are promoted.

    Empty tensors of shape ``(0,)`` add nothing beside tensors of more dimensions, as in PyTorch.

    Raises
    ------
    ShapeError : sizes differ in another dimension.
    """
    xs = _tensors(tensors, "cat")
    rank = max(x.ndim for x in xs)
    if not rank:
        raise ShapeError(
            message("cat", "a tensor's shape", (), "at least 1 dimension", "Use stack for scalars.")
        )
    d = lay.normalize_axis(dim if axis is None else axis, rank, "cat")
    if rank > 1:
        full = next(x.shape for x in xs if x.ndim == rank)
        nothing = (*full[:d], 0, *full[d + 1 :])
        xs = [_reshape(x, nothing) if tuple(x.shape) == (0,) else x for x in xs]
    first = xs[0].shape
    for i, x in enumerate(xs):
        if x.ndim != rank or any(x.shape[k] != first[k] for k in range(rank) if k != d):
            raise ShapeError(
                message(
                    "cat",
                    f"the shape of tensors[{i}]",
                    tuple(x.shape),
                    f"{tuple(first)} except in dimension {d}",
                    "Reshape or expand it, or use another dim.",
                )
            )
    return cat_(*xs, axis=d)


@public(method=False)
def stack(tensors: Any, dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Join tensors of one shape along a new dimension.

    Raises
    ------
    ShapeError : the shapes differ.
    """
    xs = _tensors(tensors, "stack")
    shape = tuple(xs[0].shape)
    for i, x in enumerate(xs):
        if tuple(x.shape) != shape:
            raise ShapeError(
                message(
                    "stack",
                    f"the shape of tensors[{i}]",
                    tuple(x.shape),
                    f"{shape}, the shape of tensors[0]",
                )
            )
    d = lay.normalize_axis(dim if axis is None else axis, len(shape) + 1, "stack")
    return cat_(*[_reshape(x, (*shape[:d], 1, *shape[d:])) for x in xs], axis=d)


@public(alias=("row_stack",), method=False)
def vstack(tensors: Any) -> Tensor:
    """Join along the first dimension after making everything at least 2-d."""
    return cat([atleast_2d(t) for t in _tensors(tensors, "vstack")], 0)


@public(method=False)
def hstack(tensors: Any) -> Tensor:
    """Join along the second dimension (the first one for 1-d tensors)."""
    xs = [atleast_1d(t) for t in _tensors(tensors, "hstack")]
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


@public(method=False)
def dstack(tensors: Any) -> Tensor:
    """Join along the third dimension after making everything at least 3-d."""
    return cat([atleast_3d(t) for t in _tensors(tensors, "dstack")], 2)


@public(method=False)
def column_stack(tensors: Any) -> Tensor:
    """Join along the second dimension; 0-d and 1-d tensors are columns."""
    xs = _tensors(tensors, "column_stack")
    return cat([_reshape(x, (x._data.size, 1)) if x.ndim < 2 else x for x in xs], 1)


def _at_least(rank: int, place: Any, tensors: tuple, op: str) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
        many = True
    else:
        many = len(tensors) != 1
    out = []
    for t in tensors:
        t = as_tensor(t, op)
        out.append(_reshape_view(t, place(tuple(t.shape))) if t.ndim < rank else t)
    return tuple(out) if many else out[0]


@public(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """0-d tensors with one dimension; others unchanged."""
    return _at_least(1, lambda s: (1,), tensors, "atleast_1d")


@public(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Leading dimensions of size 1 up to two dimensions."""
    return _at_least(2, lambda s: (1, *s) if s else (1, 1), tensors, "atleast_2d")


@public(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Dimensions of size 1 up to three: ``(n,) -> (1, n, 1)``, ``(m, n) -> (m, n, 1)``."""
    place = {0: lambda s: (1, 1, 1), 1: lambda s: (1, *s, 1), 2: lambda s: (*s, 1)}
    return _at_least(3, lambda s: place[len(s)](s), tensors, "atleast_3d")


# -- splitting --------------------------------------------------------------------------------------


def part(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """A view of ``length`` elements from ``start`` along an axis."""
    whole = [(0, n, 1) for n in x.shape]
    return slice_(x, items=(*whole[:axis], (start, length, 1), *whole[axis + 1 :]))


def _pieces(x: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    out, start = [], 0
    for n in sizes:
        out.append(part(x, axis, start, n))
        start += n
    return tuple(out)


def _axis(x: Tensor, dim: int, op: str) -> int:
    if not x.ndim:
        raise ShapeError(message(op, "the tensor's shape", (), "at least 1 dimension"))
    return lay.normalize_axis(dim, x.ndim, op)


@public
def split(
    x: Any, split_size_or_sections: Any, dim: int = 0, *, axis: int | None = None
) -> tuple[Tensor, ...]:
    """Views of ``split_size`` elements each (the last may be shorter), or of the listed sizes.

    Raises
    ------
    ShapeError : listed sizes do not add up, or a size below 1.
    """
    x = as_tensor(x, "split")
    d = _axis(x, dim if axis is None else axis, "split")
    n = x.shape[d]
    if isinstance(split_size_or_sections, list | tuple):
        sizes = [integer(s, "split", "split_size_or_sections") for s in split_size_or_sections]
        if sum(sizes) != n or any(s < 0 for s in sizes):
            raise ShapeError(
                message("split", "argument 'split_size_or_sections'", sizes, f"sizes of sum {n}")
            )
        return _pieces(x, d, sizes)
    size = integer(split_size_or_sections, "split", "split_size_or_sections")
    if size < 1:
        raise ShapeError(message("split", "argument 'split_size'", size, "at least 1"))
    sizes = [min(size, n - s) for s in range(0, n, size)] or [0]
    return _pieces(x, d, sizes)


@public
def chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` views of equal size (the last may be shorter)."""
    x = as_tensor(x, "chunk")
    chunks = integer(chunks, "chunk", "chunks")
    if chunks < 1:
        raise ShapeError(message("chunk", "argument 'chunks'", chunks, "at least 1"))
    d = _axis(x, dim, "chunk")
    n = x.shape[d]
    return split(x, max(-(-n // chunks), 1), d) if n else _pieces(x, d, [0] * chunks)


def _split_at(x: Any, indices_or_sections: Any, dim: int, op: str) -> tuple[Tensor, ...]:
    x = as_tensor(x, op)
    d = _axis(x, dim, op)
    n = x.shape[d]
    if isinstance(indices_or_sections, list | tuple):
        at = [integer(i, op, "indices_or_sections") for i in indices_or_sections]
        cuts = [slice(None, i).indices(n)[1] for i in at]
        starts, ends = [0, *cuts], [*cuts, n]
        return tuple(part(x, d, s, max(e - s, 0)) for s, e in zip(starts, ends, strict=True))
    k = integer(indices_or_sections, op, "indices_or_sections")
    if k < 1:
        raise ShapeError(message(op, "argument 'sections'", k, "at least 1"))
    return _pieces(x, d, [n // k + (i < n % k) for i in range(k)])


@public
def tensor_split(x: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views cut at the given indices, or into the given number of nearly equal sections.

    Raises
    ------
    ArgumentError : an index or a number of sections that is not an integer.
    ShapeError : a 0-d tensor, or fewer than one section.
    """
    return _split_at(x, indices_or_sections, dim, "tensor_split")


@public
def vsplit(x: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the first dimension."""
    return _split_at(x, indices_or_sections, 0, "vsplit")


@public
def hsplit(x: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the second dimension (the first one of a 1-d tensor)."""
    x = as_tensor(x, "hsplit")
    return _split_at(x, indices_or_sections, 0 if x.ndim == 1 else 1, "hsplit")


@public
def dsplit(x: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the third dimension."""
    return _split_at(x, indices_or_sections, 2, "dsplit")


@public
def unbind(x: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dimension, as views without it."""
    x = as_tensor(x, "unbind")
    d = _axis(x, dim, "unbind")
    whole = [(0, n, 1) for n in x.shape]
    return tuple(slice_(x, items=(*whole[:d], i, *whole[d + 1 :])) for i in range(x.shape[d]))


@public
def select(x: Any, dim: int, index: int) -> Tensor:
    """The slice at an index along a dimension; a view.

    Raises
    ------
    IndexingError : the index is out of range.
    """
    from ..errors import IndexingError

    x = as_tensor(x, "select")
    d = _axis(x, dim, "select")
    n = x.shape[d]
    index = integer(index, "select", "index")
    if not -n <= index < n:
        raise IndexingError(
            message("select", "argument 'index'", index, f"between {-n} and {n - 1}")
        )
    whole = [(0, m, 1) for m in x.shape]
    return slice_(x, items=(*whole[:d], int(index) % n, *whole[d + 1 :]))


@public(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of the common broadcast shape."""
    from .view import expand

    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    xs = [as_tensor(t, "broadcast_tensors") for t in tensors]
    shape = lay.broadcast_shapes(*(tuple(x.shape) for x in xs), op="broadcast_tensors")
    return tuple(alias(x) if tuple(x.shape) == shape else expand(x, shape=shape) for x in xs)
