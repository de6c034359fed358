"""Indexing: ``x[...]``, ``x[...] = v`` and the gather / put primitives below them.

Basic indices (integers, slices, None, Ellipsis) make views. Integer tensors, arrays and lists gather; boolean masks are
turned into integer indices. As in PyTorch, integers count as basic indices also beside index tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import DTypeError, IndexingError, message
from ..layout import broadcast_shapes
from ..op import Spec, as_tensor, cast, operator
from ..op.batching import front, materialize
from ..op.inplace import check_writable, write
from ..op.public import METHODS
from ..tensor import Tensor
from .elementwise import keep
from .view import _reshape, expand, permute, slice_


def _full(ndim: int, axes: Sequence[int], idx: Sequence[Any]) -> tuple:
    """A NumPy index: the arrays at ``axes``, full slices elsewhere."""
    key: list[Any] = [slice(None)] * ndim
    for a, i in zip(axes, idx, strict=True):
        key[a] = i
    return tuple(key)


def adjacent(axes: Sequence[int]) -> bool:
    """Whether indexed axes are neighbours (their result dimensions then stay in place)."""
    return axes[-1] - axes[0] == len(axes) - 1


@operator(nin=None, linear=(0,))
def index(x, *idx, axes):
    """Gather along ``axes`` with broadcast integer indices."""
    return np.ascontiguousarray(x[_full(x.ndim, axes, idx)])


@index.infer
def _(x, *idx, axes):
    shape = broadcast_shapes(*(i.shape for i in idx))
    rest = [n for a, n in enumerate(x.shape) if a not in axes]
    at = axes[0] if adjacent(axes) else 0
    return Spec((*rest[:at], *shape, *rest[at:]), x.dtype)


@index.vjp
def _(g, out, x, *idx, needs, axes):
    return (unindex(g, *idx, axes=axes, shape=tuple(x.shape)), *(None,) * len(idx))


index.saves = lambda needs, params: tuple(range(1, len(needs)))


@index.batch
def _(dims, x, *idx, axes):
    if all(d is None for d in dims[1:]):
        x = front(x, dims[0])
        shifted = tuple(a + 1 for a in axes)
        rank = max(i.ndim for i in idx)
        return index(x, *idx, axes=shifted), 0 if adjacent(axes) else rank
    n, x, idx = _with_batch_index(dims, x, idx)
    out = index(x, *idx, axes=(0, *(a + 1 for a in axes)))
    at = axes[0] if adjacent(axes) else 0
    if at:
        rank = max(i.ndim for i in idx[1:]) - 1
        order = [
            0,
            *range(1 + rank, 1 + rank + at),
            *range(1, 1 + rank),
            *range(1 + rank + at, out.ndim),
        ]
        out = permute(out, dims=tuple(order))
    return out, 0


def _with_batch_index(dims: Sequence[int | None], x: Any, idx: Sequence[Any]) -> tuple:
    """Materialise the batch and index it with its own number, so that one gather serves all members."""
    rank = max(i.ndim - (d is not None) for i, d in zip(idx, dims[1:], strict=True))
    n, (x, *moved) = materialize(dims, (x, *idx))
    moved = [_reshape(i, (n, *(1,) * (rank + 1 - i.ndim), *i.shape[1:])) for i in moved]
    number = Tensor(np.arange(n).reshape((n, *(1,) * rank)))
    return n, x, [number, *moved]


@operator(nin=None, linear=(0,))
def unindex(g, *idx, axes, shape):
    """Adjoint of `index`: zeros with g added at the indices."""
    out = np.zeros(shape, g.dtype)
    np.add.at(out, _full(len(shape), axes, idx), g)
    return out


unindex.saves = lambda needs, params: tuple(range(1, len(needs)))


@unindex.infer
def _(g, *idx, axes, shape):
    return Spec(shape, g.dtype)


@unindex.vjp
def _(ct, out, g, *idx, needs, axes, shape):
    return (index(ct, *idx, axes=axes), *(None,) * len(idx))


@unindex.batch
def _(dims, g, *idx, axes, shape):
    rank = max(i.ndim - (d is not None) for i, d in zip(idx, dims[1:], strict=True))
    n, (g, *moved) = materialize(dims, (g, *idx))
    moved = [_reshape(i, (n, *(1,) * (rank + 1 - i.ndim), *i.shape[1:])) for i in moved]
    number = Tensor(np.arange(n).reshape((n, *(1,) * rank)))
    at = axes[0] if adjacent(axes) else 0
    if at:
        order = [0, *range(1 + at, 1 + at + rank), *range(1, 1 + at), *range(1 + at + rank, g.ndim)]
        g = permute(g, dims=tuple(order))
    shifted = (0, *(a + 1 for a in axes))
    return unindex(g, number, *moved, axes=shifted, shape=(n, *shape)), 0


@operator(nin=None, linear=(0, 1))
def index_put(x, v, *idx, axes, accumulate):
    """A copy of x with v written (or added) at the indices; of duplicates the last one wins."""
    out = np.array(x)
    key = _full(x.ndim, axes, idx)
    if accumulate:
        np.add.at(out, key, v)
    else:
        out[key] = v
    return out


index_put.saves = lambda needs, params: tuple(range(2, len(needs)))


@index_put.infer
def _(x, v, *idx, axes, accumulate):
    return Spec(x.shape, x.dtype)


@index_put.vjp
def _(g, out, x, v, *idx, needs, axes, accumulate):
    gx = gv = None
    if needs[0]:
        zero = Tensor(np.zeros((1,) * len(v.shape), v.dtype))
        gx = g if accumulate else index_put(g, zero, *idx, axes=axes, accumulate=False)
    if needs[1]:
        gv = index(g, *idx, axes=axes)
        if not accumulate:
            gv = keep(winners(*idx, axes=axes, shape=tuple(x.shape)), gv)
    return (gx, gv, *(None,) * len(idx))


@index_put.batch
def _(dims, x, v, *idx, axes, accumulate):
    rank = max(i.ndim - (d is not None) for i, d in zip(idx, dims[2:], strict=True))
    at = axes[0] if adjacent(axes) else 0
    full = index.infer_rule(
        *(
            Spec(_without(t.shape, d), t.dtype)
            for t, d in zip((x, *idx), (dims[0], *dims[2:]), strict=True)
        ),
        axes=axes,
    ).shape
    if dims[1] is None:
        v = expand(v, shape=full)
    else:
        v = front(v, dims[1])
        v = _reshape(v, (v.shape[0], *(1,) * (len(full) + 1 - v.ndim), *v.shape[1:]))
        v = expand(v, shape=(v.shape[0], *full))
    n, (x, v, *moved) = materialize(
        (dims[0], None if dims[1] is None else 0, *dims[2:]), (x, v, *idx)
    )
    moved = [_reshape(i, (n, *(1,) * (rank + 1 - i.ndim), *i.shape[1:])) for i in moved]
    number = Tensor(np.arange(n).reshape((n, *(1,) * rank)))
    if at:
        order = [0, *range(1 + at, 1 + at + rank), *range(1, 1 + at), *range(1 + at + rank, v.ndim)]
        v = permute(v, dims=tuple(order))
    shifted = (0, *(a + 1 for a in axes))
    return index_put(x, v, number, *moved, axes=shifted, accumulate=accumulate), 0


def _without(shape: tuple, d: int | None) -> tuple:
    return tuple(shape) if d is None else (*shape[:d], *shape[d + 1 :])


@operator(nin=None, differentiable=False)
def winners(*idx, axes, shape):
    """Which of the written values survive where indices repeat (the last one)."""
    target = np.full(shape, -1, np.int64)
    probe = target[_full(len(shape), axes, idx)]
    order = np.arange(probe.size).reshape(probe.shape)
    target[_full(len(shape), axes, idx)] = order
    return target[_full(len(shape), axes, idx)] == order


@winners.batch
def _(dims, *idx, axes, shape):
    rank = max(i.ndim - (d is not None) for i, d in zip(idx, dims, strict=True))
    n, moved = materialize(dims, idx)
    moved = [_reshape(i, (n, *(1,) * (rank + 1 - i.ndim), *i.shape[1:])) for i in moved]
    number = Tensor(np.arange(n).reshape((n, *(1,) * rank)))
    out = winners(number, *moved, axes=(0, *(a + 1 for a in axes)), shape=(n, *shape))
    at = axes[0] if adjacent(axes) else 0
    if at:
        order = [
            0,
            *range(1 + rank, 1 + rank + at),
            *range(1, 1 + rank),
            *range(1 + rank + at, out.ndim),
        ]
        out = permute(out, dims=tuple(order))
    return out, 0


# -- parsing what stands between the brackets ------------------------------------------------------


def parse(x: Tensor, key: Any, op: str) -> tuple[tuple, list[tuple[int, Tensor]]]:
    """Basic items for the view, and ``(result axis, index tensor)`` pairs for the gather."""
    items = _expand_ellipsis(x, key if isinstance(key, tuple) else (key,), op)
    basic: list[Any] = []
    advanced: list[tuple[int, Tensor]] = []
    axis = out_axis = 0
    for item in items:
        if item is None:
            basic.append(None)
            out_axis += 1
            continue
        if isinstance(item, bool | np.bool_):
            basic.append(None)
            where = Tensor(np.zeros(1 if item else 0, np.int64))
            advanced.append((out_axis, where))
            out_axis += 1
            continue
        n = x.shape[axis] if axis < x.ndim else 0
        if isinstance(item, slice):
            basic.append(_slice(item, n, op))
        elif _is_integer(item):
            basic.append(_integer(item, n, axis, op))
            axis += 1
            continue
        else:
            found = _index_tensors(item, x, axis, op)
            for k, t in enumerate(found):
                basic.append((0, x.shape[axis + k], 1))
                advanced.append((out_axis + k, t))
            axis += len(found)
            out_axis += len(found)
            continue
        axis += 1
        out_axis += 1
    return tuple(basic), advanced


def _consumes(item: Any) -> int:
    if item is None or isinstance(item, bool | np.bool_):
        return 0
    if isinstance(item, Tensor | np.ndarray) and item.dtype.kind == "b":
        return item.ndim
    if isinstance(item, list) and np.asarray(item).dtype.kind == "b":
        return np.asarray(item).ndim
    return 1


def _expand_ellipsis(x: Tensor, key: tuple, op: str) -> list[Any]:
    used = sum(_consumes(i) for i in key if i is not Ellipsis)
    if used > x.ndim:
        raise IndexingError(
            message(
                op, "the number of indices", used, f"at most {x.ndim}, the number of dimensions"
            )
        )
    if sum(i is Ellipsis for i in key) > 1:
        raise IndexingError(message(op, "the index", "two Ellipsis (...)", "at most one"))
    fill = [slice(None)] * (x.ndim - used)
    if not any(i is Ellipsis for i in key):
        return [*key, *fill]
    at = next(k for k, i in enumerate(key) if i is Ellipsis)
    return [*key[:at], *fill, *key[at + 1 :]]


def _is_integer(item: Any) -> bool:
    if isinstance(item, Tensor | np.ndarray):
        return False
    return isinstance(item, int | np.integer)


def _slice(s: slice, n: int, op: str) -> tuple[int, int, int]:
    try:
        parts = [None if v is None else v.__index__() for v in (s.start, s.stop, s.step)]
    except (AttributeError, TypeError):
        raise IndexingError(message(op, "a slice", s, "integers or None")) from None
    if parts[2] == 0:
        raise IndexingError(message(op, "a slice's step", 0, "a step other than zero"))
    start, stop, step = slice(*parts).indices(n)
    return start, len(range(start, stop, step)), step


def _integer(i: Any, n: int, axis: int, op: str) -> int:
    i = int(i)
    if not -n <= i < n:
        raise IndexingError(
            message(
                op,
                f"the index of dimension {axis}",
                i,
                f"between {-n} and {n - 1} (its size is {n})",
            )
        )
    return i + n if i < 0 else i


def _index_tensors(item: Any, x: Tensor, axis: int, op: str) -> list[Tensor]:
    if isinstance(item, list | tuple | range):
        item = np.asarray(list(item), dtype=np.int64 if len(item) == 0 else None)
    try:
        t = as_tensor(item, op, "index")
    except DTypeError:
        raise IndexingError(
            message(
                op,
                "an index",
                type(item).__name__,
                "integers, slices, None, ... or integer/bool tensors",
            )
        ) from None
    if t.dtype.kind == "b":
        if tuple(t.shape) != tuple(x.shape[axis : axis + t.ndim]):
            raise IndexingError(
                message(
                    op,
                    "the boolean index's shape",
                    tuple(t.shape),
                    f"{tuple(x.shape[axis : axis + t.ndim])}",
                )
            )
        return [Tensor(np.asarray(i)) for i in np.nonzero(t.numpy())]
    if t.dtype.kind not in "iu":
        raise IndexingError(
            message(
                op,
                "an index tensor's dtype",
                t.dtype.name,
                "an integer or bool dtype",
                "Use .long().",
            )
        )
    t = cast(t, dt.int64)
    if type(t._data) is np.ndarray:
        n = x.shape[axis]
        data = t._data
        if data.size and (data.min() < -n or data.max() >= n):
            bad = data[(data < -n) | (data >= n)].flat[0]
            raise IndexingError(
                message(
                    op,
                    f"an index of dimension {axis}",
                    bad,
                    f"between {-n} and {n - 1} (its size is {n})",
                )
            )
        if data.size and data.min() < 0:
            t = Tensor(np.where(data < 0, data + n, data))
    return [t]


def _view(x: Tensor, basic: tuple) -> Tensor:
    return slice_(x, items=basic)


def getitem(x: Tensor, key: Any) -> Tensor:
    """``x[key]``: a view for basic indices, a gathered copy for index tensors and masks."""
    basic, advanced = parse(x, key, "getitem")
    if not advanced:
        return _view(x, basic)
    trivial = all(
        isinstance(b, tuple) and b == (0, n, 1) for b, n in zip(basic, x.shape, strict=False)
    )
    seen = x if trivial and len(basic) == x.ndim else _view(x, basic)
    return index(seen, *[t for _, t in advanced], axes=tuple(a for a, _ in advanced))


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``; the value is broadcast; of repeated indices the last one wins."""
    check_writable(x, "setitem")
    basic, advanced = parse(x, key, "setitem")
    target = _view(x, basic)
    v = as_tensor(value, "setitem", "value")
    if not isinstance(value, Tensor | np.ndarray):
        v = cast(v, dt.promote(v.dtype, target.dtype)) if v.dtype.kind in "biu" else v
    check_writable(target, "setitem", None if not isinstance(value, Tensor) else v)
    v = cast(v, target.dtype)
    if not advanced:
        write(target, _fit(v, tuple(target.shape)), "setitem")
        return
    axes = tuple(a for a, _ in advanced)
    idx = [t for _, t in advanced]
    shape = index.infer_rule(target, *idx, axes=axes).shape
    v = _fit(v, shape)
    from ..op.inplace import snapshot

    write(target, index_put(snapshot(target), v, *idx, axes=axes, accumulate=False), "setitem")


def _fit(v: Tensor, shape: tuple) -> Tensor:
    """Broadcast a value to the shape it is written to (leading ones may be dropped)."""
    have = tuple(v.shape)
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    if have != tuple(v.shape):
        v = _reshape(v, have)
    return v if have == shape else expand(v, shape=shape)


METHODS["__getitem__"] = getitem
METHODS["__setitem__"] = setitem
