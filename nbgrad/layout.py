"""Shape, stride and offset algebra in pure Python: no arrays, no device.

A `Layout` says where the elements of a view lie inside its base buffer, in *elements*. Every view operator is one
function ``Layout -> Layout``; the CPU, CUDA and tape values all follow it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .errors import IndexingError, ShapeError, message

Ints = tuple[int, ...]


class Layout(NamedTuple):
    """``offset`` + sum(index * stride) addresses an element; strides may be zero or negative."""

    shape: Ints
    strides: Ints
    offset: int = 0


def contiguous_strides(shape: Sequence[int]) -> Ints:
    """Row-major strides in elements."""
    out: list[int] = []
    step = 1
    for n in reversed(shape):
        out.append(step)
        step *= max(n, 1)
    return tuple(reversed(out))


def contiguous(shape: Sequence[int]) -> Layout:
    """The row-major layout of a fresh buffer."""
    shape = tuple(shape)
    return Layout(shape, contiguous_strides(shape), 0)


def is_contiguous(layout: Layout) -> bool:
    """Row-major without gaps (dimensions of size 1 do not matter; empty is contiguous)."""
    step = 1
    for n, s in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        if n == 0:
            return True
        if n != 1:
            if s != step:
                return False
            step *= n
    return True


def extent(layout: Layout) -> tuple[int, int]:
    """Lowest and one past the highest element address touched; ``(0, 0)`` when empty."""
    low = high = layout.offset
    for n, s in zip(layout.shape, layout.strides, strict=True):
        if n == 0:
            return (0, 0)
        low += min(0, (n - 1) * s)
        high += max(0, (n - 1) * s)
    return low, high + 1


def self_overlaps(layout: Layout) -> bool:
    """True where two indices may address one element.

    Exact for stride 0 and for layouts whose dimensions nest (each stride clears the span of the smaller
    ones); conservative (True) for the others.
    """
    dims = sorted((abs(s), n) for n, s in zip(layout.shape, layout.strides, strict=True) if n > 1)
    if 0 in layout.shape:
        return False
    span = 0
    for s, n in dims:
        if s <= span:
            return True
        span += s * (n - 1)
    return False


def broadcast_shapes(*shapes: Ints, op: str = "broadcast") -> Ints:
    """The common broadcast shape.

    Raises
    ------
    ShapeError : sizes differ and none of them is 1.
    """
    ndim = max((len(s) for s in shapes), default=0)
    out = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, ndim - len(shape)):
            if n != 1:
                if out[i] != 1 and out[i] != n:
                    raise ShapeError(
                        message(
                            op,
                            "operands' shapes",
                            " and ".join(map(str, shapes)),
                            f"sizes that agree or are 1 in dimension {i - ndim}",
                            "Insert a dimension with unsqueeze or None, or expand one operand.",
                        )
                    )
                out[i] = n
    return tuple(out)


def expand(layout: Layout, shape: Ints, op: str = "expand") -> Layout:
    """Broadcast a layout to ``shape`` with zero strides."""
    lead = len(shape) - len(layout.shape)
    strides = [0] * len(shape)
    for i, (n, s) in enumerate(zip(layout.shape, layout.strides, strict=True)):
        if lead < 0 or (n != shape[lead + i] and n != 1):
            raise ShapeError(
                message(
                    op, "the input's shape", layout.shape, f"something that broadcasts to {shape}"
                )
            )
        strides[lead + i] = s if n == shape[lead + i] else 0
    return Layout(tuple(shape), tuple(strides), layout.offset)


def normalize_axis(axis: int, ndim: int, op: str, arg: str = "dim") -> int:
    """A non-negative axis; 0-d values accept 0 and -1 as PyTorch does."""
    bound = max(ndim, 1)
    try:
        i = axis.__index__()
    except AttributeError:
        raise IndexingError(
            message(op, f"argument '{arg}'", repr(axis), "an integer dimension")
        ) from None
    if not -bound <= i < bound:
        raise IndexingError(
            message(op, f"argument '{arg}'", axis, f"a dimension between {-bound} and {bound - 1}")
        )
    return i + bound if i < 0 else i


def existing_axis(axis: int, ndim: int, op: str, arg: str = "dim") -> int:
    """A non-negative axis of a value that must have one: 0-d values raise IndexingError."""
    if not ndim:
        raise IndexingError(
            message(
                op,
                f"argument '{arg}'",
                f"{axis} for a tensor of shape ()",
                "a tensor with at least 1 dimension",
                "Make it 1-d with unsqueeze(0) or reshape(1) first.",
            )
        )
    return normalize_axis(axis, ndim, op, arg)


def reduced_axes(axes, ndim: int, op: str) -> Ints:
    """`normalize_axes` of a reduction: no dimension at all (``()`` or ``[]``) means all, as in PyTorch."""
    empty = isinstance(axes, (tuple, list)) and not axes
    return normalize_axes(None if empty else axes, ndim, op)


def normalize_axes(axes, ndim: int, op: str, arg: str = "dim") -> Ints:
    """Sorted non-negative axes; ``None`` means all, an integer one; duplicates are an error."""
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, (tuple, list)):
        axes = (axes,)
    found = sorted(normalize_axis(a, ndim, op, arg) for a in axes)
    if len(set(found)) != len(found):
        raise IndexingError(message(op, f"argument '{arg}'", tuple(axes), "distinct dimensions"))
    return tuple(a for a in found if a < ndim)


def permute(layout: Layout, dims: Ints) -> Layout:
    """Reorder the dimensions."""
    return Layout(
        tuple(layout.shape[d] for d in dims), tuple(layout.strides[d] for d in dims), layout.offset
    )


def resolve_shape(shape: Sequence[int], numel: int, op: str) -> Ints:
    """Replace one ``-1`` and check the number of elements."""
    shape = tuple(int(n) for n in shape)
    unknown = [i for i, n in enumerate(shape) if n == -1]
    known = math.prod(n for n in shape if n != -1)
    if len(unknown) == 1 and known > 0 and numel % known == 0:
        i = unknown[0]
        shape = (*shape[:i], numel // known, *shape[i + 1 :])
    elif len(unknown) == 1 and known == 0 and numel == 0:
        raise ShapeError(
            message(op, "argument 'shape'", shape, "no -1 beside a zero (the size is ambiguous)")
        )
    if any(n < 0 for n in shape) or math.prod(shape) != numel:
        raise ShapeError(message(op, "argument 'shape'", shape, f"a shape of {numel} elements"))
    return shape


def reshape(layout: Layout, shape: Ints) -> Layout | None:
    """The layout of ``shape`` over the same elements without a copy, or None where a copy is needed."""
    numel = math.prod(layout.shape)
    if numel == 0:
        return Layout(shape, contiguous_strides(shape), layout.offset)
    # chunks of old dimensions that are contiguous among themselves
    old = [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1]
    chunks: list[list[int]] = []
    for n, s in old:
        if chunks and chunks[-1][1] == n * s:
            chunks[-1][0] *= n
            chunks[-1][1] = s
        else:
            chunks.append([n, s])
    strides: list[int] = []
    queue = list(reversed(chunks)) or [[1, 1]]
    for n in reversed(shape):
        while queue and queue[0][0] == 1 and len(queue) > 1:
            queue.pop(0)
        size, step = queue[0]
        if size % n:
            return None
        strides.append(step)
        queue[0] = [size // n, step * n]
    return Layout(shape, tuple(reversed(strides)), layout.offset)


def diagonal(layout: Layout, offset: int, axis1: int, axis2: int) -> Layout:
    """The ``offset``-th diagonal of two axes, as a new last dimension."""
    n1, n2 = layout.shape[axis1], layout.shape[axis2]
    s1, s2 = layout.strides[axis1], layout.strides[axis2]
    size = max(min(n1, n2 - offset) if offset >= 0 else min(n1 + offset, n2), 0)
    start = (offset * s2 if offset >= 0 else -offset * s1) if size else 0
    keep = tuple(i for i in range(len(layout.shape)) if i not in (axis1, axis2))
    rest = permute(layout, keep)
    return Layout((*rest.shape, size), (*rest.strides, s1 + s2), layout.offset + start)


def unfold(layout: Layout, axis: int, size: int, step: int) -> Layout:
    """Sliding windows of ``size`` every ``step`` along an axis; windows become the last dimension."""
    n = (layout.shape[axis] - size) // step + 1
    shape, strides = list(layout.shape), list(layout.strides)
    inner = strides[axis]
    shape[axis], strides[axis] = n, inner * step
    return Layout((*shape, size), (*strides, inner), layout.offset)
