"""Shape functions that reorder, repeat or mask elements, built from views, joins and `where`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..op import as_tensor, cast
from ..op.public import public
from ..tensor import Tensor
from . import view as prim
from .common import axis_of, integer
from .elementwise import keep
from .index import index
from .join import broadcast_tensors, cat, cat_, part, stack
from .shape import _sizes
from .view import _reshape, expand, permute, slice_, unview

# -- order ------------------------------------------------------------------------------------------


@public
def flip(x: Any, *axes: Any, dims: Any = None) -> Tensor:
    """A copy with the order of elements reversed along the dimensions (all by default)."""
    x = as_tensor(x, "flip")
    if dims is not None:
        axes = (dims,)
    given = _sizes(axes, "flip") if axes and axes[0] is not None else None
    axes = lay.normalize_axes(given, x.ndim, "flip", "dims")
    items = tuple((n - 1, n, -1) if i in axes else (0, n, 1) for i, n in enumerate(x.shape))
    return prim.clone(slice_(x, items=items))


@public
def fliplr(x: Any) -> Tensor:
    """A copy reversed along the second dimension."""
    return flip(x, 1)


@public
def flipud(x: Any) -> Tensor:
    """A copy reversed along the first dimension."""
    return flip(x, 0)


@public
def roll(x: Any, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved cyclically along dimensions (of the flat tensor by default).

    Raises
    ------
    ArgumentError : as many shifts as dims are needed.
    """
    x = as_tensor(x, "roll")
    if dims is None:
        flat = _reshape(x, (x._data.size,))
        return _reshape(roll(flat, shifts, 0), x.shape)
    by = tuple(shifts) if isinstance(shifts, list | tuple) else (shifts,)
    along = tuple(dims) if isinstance(dims, list | tuple) else (dims,)
    if len(by) != len(along):
        raise ArgumentError(
            message("roll", "argument 'shifts'", shifts, f"one shift for each of dims {dims}")
        )
    out = x
    for shift, dim in zip(by, along, strict=True):
        axis = axis_of(dim, x, "roll")
        n = x.shape[axis] if x.ndim else 0
        k = integer(shift, "roll", "shifts") % n if n else 0
        if k:
            out = cat_(part(out, axis, n - k, k), part(out, axis, 0, n - k), axis=axis)
    return prim.clone(out) if out is x else out


@public
def rot90(x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated by k times 90 degrees in the plane of two dimensions, from the first to the second."""
    x = as_tensor(x, "rot90")
    a, b = (lay.normalize_axis(d, x.ndim, "rot90", "dims") for d in dims)
    if a == b:
        raise ArgumentError(message("rot90", "argument 'dims'", dims, "two different dimensions"))
    k = integer(k, "rot90", "k") % 4
    if k == 0:
        return prim.clone(x)
    if k == 2:
        return flip(x, a, b)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return (
        permute(flip(x, b), dims=tuple(order)) if k == 1 else flip(permute(x, dims=tuple(order)), b)
    )


@public(alias=("moveaxis",))
def movedim(x: Any, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to new places, the others keeping their order; a view."""
    x = as_tensor(x, "movedim")
    src = tuple(source) if isinstance(source, list | tuple) else (source,)
    dst = tuple(destination) if isinstance(destination, list | tuple) else (destination,)
    src = tuple(lay.normalize_axis(d, x.ndim, "movedim", "source") for d in src)
    dst = tuple(lay.normalize_axis(d, x.ndim, "movedim", "destination") for d in dst)
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise ArgumentError(
            message(
                "movedim", "the dimensions", f"{source} to {destination}", "as many distinct ones"
            )
        )
    if not x.ndim:
        return prim.alias(x)
    order = [i for i in range(x.ndim) if i not in src]
    for d, s in sorted(zip(dst, src, strict=True)):
        order.insert(d, s)
    return permute(x, dims=tuple(order))


# -- shape ------------------------------------------------------------------------------------------


@public
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from ``start_dim`` to ``end_dim`` merged into one; a view where possible."""
    x = as_tensor(x, "flatten")
    if not x.ndim:
        return _reshape(x, (1,))
    a = lay.normalize_axis(start_dim, x.ndim, "flatten", "start_dim")
    b = lay.normalize_axis(end_dim, x.ndim, "flatten", "end_dim")
    if a > b:
        raise ShapeError(message("flatten", "start_dim", a, f"at most end_dim, which is {b}"))
    size = 1
    for n in x.shape[a : b + 1]:
        size *= n
    return _reshape(x, (*x.shape[:a], size, *x.shape[b + 1 :]))


@public
def ravel(x: Any) -> Tensor:
    """All elements in one dimension; a view where possible."""
    return flatten(x)


@public
def unflatten(x: Any, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension split into several; one of the sizes may be -1."""
    x = as_tensor(x, "unflatten")
    d = lay.existing_axis(dim, x.ndim, "unflatten")
    new = lay.resolve_shape(_sizes((sizes,), "unflatten"), x.shape[d], "unflatten")
    return _reshape(x, (*x.shape[:d], *new, *x.shape[d + 1 :]))


def _shape_like(other: Any, op: str) -> tuple:
    """The shape of another tensor, checked to be one."""
    if not isinstance(other, Tensor | np.ndarray):
        raise DTypeError(
            message(
                op,
                "argument 'other'",
                f"a {type(other).__name__}",
                "a tensor",
                f"Use {op[:-3]}() for a shape.",
            )
        )
    return tuple(other.shape)


@public(function=False)
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """Broadcast to the shape of another tensor; a view."""
    return x.expand(_shape_like(other, "expand_as"))


@public(function=False)
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """A view in the shape of another tensor."""
    return x.view(_shape_like(other, "view_as"))


@public(function=False)
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of another tensor."""
    return x.reshape(_shape_like(other, "reshape_as"))


@public(function=False)
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` elements every ``step`` along a dimension, as a new last dimension; a view.

    Raises
    ------
    ShapeError : a window longer than the dimension, or a step below 1.
    """
    d = lay.normalize_axis(dimension, x.ndim, "unfold", "dimension")
    n = x.shape[d] if x.ndim else 1
    if not 0 <= size <= n or step < 1:
        raise ShapeError(
            message("unfold", "the window", f"size {size}, step {step}", f"size <= {n}, step >= 1")
        )
    if not x.ndim:
        return _reshape(x, (size,)) if size else _reshape(x, (1,))[:0]
    return prim.unfold(x, dim=d, size=int(size), step=int(step))


# -- repetition -------------------------------------------------------------------------------------


def _tiled(x: Tensor, counts: tuple) -> Tensor:
    """x repeated along its dimensions; ``counts`` has one entry for each."""
    lead = len(counts) - x.ndim
    shape = (1,) * lead + tuple(x.shape)
    pairs = [s for n in shape for s in (1, n)]
    wide = [s for c, n in zip(counts, shape, strict=True) for s in (c, n)]
    out = expand(_reshape(x, tuple(pairs)), shape=tuple(wide))
    return _reshape(out, tuple(c * n for c, n in zip(counts, shape, strict=True)))


def _counts(repeats: tuple, op: str) -> tuple:
    counts = _sizes(repeats, op)
    if any(c < 0 for c in counts):
        raise ShapeError(message(op, "argument 'repeats'", counts, "no negative number"))
    return counts


@public(function=False)
def repeat(x: Tensor, *repeats: Any) -> Tensor:
    """Copies of the tensor side by side: ``repeats[i]`` along dimension i (new ones come first).

    Raises
    ------
    ShapeError : fewer numbers than dimensions.
    """
    counts = _counts(repeats, "repeat")
    if len(counts) < x.ndim:
        raise ShapeError(
            message(
                "repeat", "argument 'repeats'", counts, f"at least {x.ndim} numbers", "Or use tile."
            )
        )
    return _tiled(x, counts)


@public
def tile(x: Any, *dims: Any) -> Tensor:
    """Copies side by side; missing leading numbers are 1."""
    x = as_tensor(x, "tile")
    counts = _counts(dims, "tile")
    return _tiled(x, (1,) * (x.ndim - len(counts)) + counts)


@public
def repeat_interleave(
    x: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every element repeated in place: the same number of times each, or as often as ``repeats`` says.

    Raises
    ------
    ShapeError : ``repeats`` is a vector of another length than the dimension.
    TraceError : ``repeats`` is a traced tensor.
    """
    x = as_tensor(x, "repeat_interleave")
    if dim is None:
        x, dim = flatten(x), 0
    d = lay.existing_axis(dim, x.ndim, "repeat_interleave")
    counts = np.asarray(repeats.detach().numpy() if isinstance(repeats, Tensor) else repeats)
    if counts.ndim > 1 or (counts.ndim == 1 and counts.size not in (1, x.shape[d])):
        raise ShapeError(
            message(
                "repeat_interleave", "argument 'repeats'", counts.shape, f"a number or {x.shape[d]}"
            )
        )
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ArgumentError(
            message("repeat_interleave", "argument 'repeats'", repeats, "integers >= 0")
        )
    if counts.size == 1:
        k = int(counts.reshape(()))
        y = _reshape(x, (*x.shape[: d + 1], 1, *x.shape[d + 1 :]))
        y = expand(y, shape=(*x.shape[: d + 1], k, *x.shape[d + 1 :]))
        return _reshape(y, (*x.shape[:d], x.shape[d] * k, *x.shape[d + 1 :]))
    return index(x, Tensor(np.repeat(np.arange(x.shape[d]), counts)), axes=(d,))


# -- triangles and diagonals ------------------------------------------------------------------------


def _triangle(x: Any, diagonal: int, op: str, lower: bool) -> Tensor:
    x = as_tensor(x, op)
    if x.ndim < 2:
        raise ShapeError(message(op, "the number of dimensions", x.ndim, "at least 2"))
    rows = np.arange(x.shape[-2])[:, None] + integer(diagonal, op, "diagonal")
    cols = np.arange(x.shape[-1])
    return keep(Tensor(cols <= rows if lower else cols >= rows), x)


@public(inplace=True)
def tril(x: Any, diagonal: int = 0) -> Tensor:
    """Zeros above a diagonal of the last two dimensions."""
    return _triangle(x, diagonal, "tril", True)


@public(inplace=True)
def triu(x: Any, diagonal: int = 0) -> Tensor:
    """Zeros below a diagonal of the last two dimensions."""
    return _triangle(x, diagonal, "triu", False)


@public(method=False)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Tensor:
    """Row and column indices (2, n) of the lower triangle."""
    found = np.stack(np.tril_indices(row, offset, col))
    return Tensor(found.astype(dt.int64 if dtype is None else dt.as_dtype(dtype)))


@public(method=False)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Tensor:
    """Row and column indices (2, n) of the upper triangle."""
    found = np.stack(np.triu_indices(row, offset, col))
    return Tensor(found.astype(dt.int64 if dtype is None else dt.as_dtype(dtype)))


@public
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dimensions as the last dimension; a view.

    Raises
    ------
    ShapeError : fewer than two dimensions, or twice the same.
    """
    x = as_tensor(x, "diagonal")
    if x.ndim < 2:
        raise ShapeError(message("diagonal", "the number of dimensions", x.ndim, "at least 2"))
    a = lay.normalize_axis(dim1, x.ndim, "diagonal", "dim1")
    b = lay.normalize_axis(dim2, x.ndim, "diagonal", "dim2")
    if a == b:
        raise ShapeError(message("diagonal", "dim1 and dim2", (dim1, dim2), "two dimensions"))
    return prim.diagonal(x, offset=integer(offset, "diagonal", "offset"), dim1=a, dim2=b)


@public
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension on a diagonal of two new dimensions."""
    x = as_tensor(x, "diag_embed")
    if not x.ndim:
        raise ShapeError(message("diag_embed", "the tensor's shape", (), "at least 1 dimension"))
    rank = x.ndim + 1
    a = lay.normalize_axis(dim1, rank, "diag_embed", "dim1")
    b = lay.normalize_axis(dim2, rank, "diag_embed", "dim2")
    if a == b:
        raise ShapeError(message("diag_embed", "dim1 and dim2", (dim1, dim2), "two dimensions"))
    offset = integer(offset, "diag_embed", "offset")
    n = x.shape[-1] + abs(offset)
    shape = list(x.shape[:-1])
    for place in sorted((a, b)):
        shape.insert(place, n)
    base = lay.contiguous(tuple(shape))
    return unview(x, layout=lay.diagonal(base, offset, a, b), base_layout=base)


@public
def diag(x: Any, diagonal: int = 0) -> Tensor:
    """A vector as a diagonal matrix, or a copy of the diagonal of a matrix.

    Raises
    ------
    ShapeError : neither a vector nor a matrix.
    """
    x = as_tensor(x, "diag")
    if x.ndim == 1:
        return diag_embed(x, diagonal)
    if x.ndim != 2:
        raise ShapeError(message("diag", "the number of dimensions", x.ndim, "1 or 2"))
    offset = integer(diagonal, "diag", "diagonal")
    return prim.clone(prim.diagonal(x, offset=offset, dim1=0, dim2=1))


@public
def diagflat(x: Any, offset: int = 0) -> Tensor:
    """All elements on a diagonal of a matrix."""
    return diag_embed(flatten(x), offset)


@public(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of a larger one; 0-d and 1-d tensors count as rows."""
    from .join import _tensors, atleast_2d
    from .pad import pad

    blocks = [atleast_2d(t) for t in _tensors(list(tensors), "block_diag")]
    width = sum(b.shape[1] for b in blocks)
    rows, start = [], 0
    for b in blocks:
        if b.ndim != 2:
            raise ShapeError(message("block_diag", "a block's dimensions", b.ndim, "at most 2"))
        rows.append(pad(b, (start, width - start - b.shape[1])))
        start += b.shape[1]
    return cat(rows, 0)


# -- grids ------------------------------------------------------------------------------------------


@public(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of the grid spanned by vectors, as views; ``indexing='xy'`` swaps the first two dimensions.

    Raises
    ------
    ShapeError : a tensor of more than one dimension.
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise ArgumentError(message("meshgrid", "argument 'indexing'", indexing, "'ij' or 'xy'"))
    xs = [as_tensor(t, "meshgrid") for t in tensors]
    for x in xs:
        if x.ndim > 1:
            raise ShapeError(message("meshgrid", "a tensor's shape", tuple(x.shape), "a vector"))
    n = len(xs)
    places = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shaped = []
    for x, place in zip(xs, places, strict=True):
        shape = [1] * n
        shape[place] = x._data.size
        shaped.append(_reshape(x, tuple(shape)))
    return broadcast_tensors(*shaped)


@public(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of the elements of vectors, one a row (the vector itself for a single one)."""
    if len(tensors) == 1:
        return prim.alias(as_tensor(tensors[0], "cartesian_prod"))
    dtype = as_tensor(tensors[0], "cartesian_prod").dtype
    for t in tensors[1:]:
        dtype = dt.promote(dtype, as_tensor(t, "cartesian_prod").dtype)
    grid = meshgrid(*[cast(as_tensor(t), dtype) for t in tensors])
    return stack([flatten(g) for g in grid], -1)
