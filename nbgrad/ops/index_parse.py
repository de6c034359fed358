"""Parsing what stands between the brackets of ``x[...]``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import dtypes as dt
from ..device import beside
from ..errors import DTypeError, IndexingError, TraceError, message
from ..op import as_tensor, cast
from ..tensor import Tensor, Value

Key = tuple[Any, ...]


class Parsed(NamedTuple):
    """A key split in two: ``basic`` items for the view, then index tensors at ``axes`` of that view."""

    basic: tuple
    idx: list[Tensor]
    axes: tuple[int, ...]
    trivial: bool


def is_mask(item: Any) -> bool:
    """A boolean tensor or array (of at least one dimension)."""
    return isinstance(item, Tensor | np.ndarray) and item.dtype.kind == "b" and item.ndim > 0


def parse(x: Tensor, key: Any, op: str) -> Parsed:
    """Split a key into a basic part and index tensors.

    Raises
    ------
    IndexingError : an index out of range, of a wrong kind or dtype, or too many of them.
    """
    items = [_plain(i, op) for i in (key if isinstance(key, tuple) else (key,))]
    items = _expand_ellipsis(x, items, op)
    basic: list[Any] = []
    found: list[tuple[int, Tensor]] = []
    axis = out_axis = 0
    for item in items:
        if item is None or isinstance(item, bool):
            basic.append(None)
            if item is not None:
                found.append((out_axis, Tensor(np.zeros(int(item), np.int64))))
            out_axis += 1
        elif isinstance(item, slice):
            basic.append(_slice(item, x.shape[axis], op))
            axis, out_axis = axis + 1, out_axis + 1
        elif isinstance(item, int):
            basic.append(_integer(item, x.shape[axis], axis, op))
            axis += 1
        else:
            for t in _index_tensors(item, x, axis, op):
                basic.append((0, x.shape[axis], 1))
                found.append((out_axis, t))
                axis, out_axis = axis + 1, out_axis + 1
    _check_broadcast([t for _, t in found], op)
    full = tuple((0, n, 1) for n in x.shape)
    return Parsed(
        tuple(basic),
        [beside(x, t) for _, t in found],
        tuple(a for a, _ in found),
        full == tuple(basic),
    )


def _plain(item: Any, op: str) -> Any:
    """One item as None, Ellipsis, slice, bool, int, or a Tensor of index values."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, bool | np.bool_):
        return bool(item)
    if isinstance(item, int | np.integer):
        return int(item)
    t = _as_index(item, op)
    if t.ndim == 0 and not isinstance(t._data, Value):
        return bool(t.item()) if t.dtype.kind == "b" else int(t.item())
    if t.ndim == 0 and t.dtype.kind == "b":
        raise _unknown(op)
    return t


def _as_index(item: Any, op: str) -> Tensor:
    try:
        if isinstance(item, list | tuple | range):
            item = _sequence(list(item))
        t = as_tensor(item, op, "index")
    except (DTypeError, ValueError, TypeError):
        raise IndexingError(
            message(
                op,
                "an index",
                type(item).__name__ if not isinstance(item, list) else repr(item),
                "integers, slices, None, ... or integer/bool tensors",
            )
        ) from None
    if t.dtype.kind not in "iub":
        raise IndexingError(
            message(
                op,
                "an index tensor's dtype",
                t.dtype.name,
                "an integer or bool dtype",
                "Use .long() or .bool().",
            )
        )
    return t


def _sequence(item: list) -> Any:
    """A (nested) list as an array; an empty one holds integers."""
    if any(isinstance(v, Tensor) for v in item):
        return list(item)
    array = np.asarray(item)
    return array.astype(np.int64) if array.size == 0 else array


def _consumes(item: Any) -> int:
    """How many dimensions of x an item uses up."""
    if item is None or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype.kind == "b" else 1


def _expand_ellipsis(x: Tensor, key: list, op: str) -> list[Any]:
    dots = [k for k, i in enumerate(key) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexingError(message(op, "the index", "two Ellipsis (...)", "at most one"))
    used = sum(_consumes(i) for i in key if i is not Ellipsis)
    if used > x.ndim:
        raise IndexingError(
            message(
                op,
                "the number of indexed dimensions",
                used,
                f"at most {x.ndim}, the number of dimensions",
            )
        )
    fill = [slice(None)] * (x.ndim - used)
    at = dots[0] if dots else len(key)
    return [*key[:at], *fill, *key[at + 1 :]]


def _slice(s: slice, n: int, op: str) -> tuple[int, int, int]:
    try:
        parts = [None if v is None else v.__index__() for v in (s.start, s.stop, s.step)]
    except (AttributeError, TypeError, DTypeError):
        raise IndexingError(message(op, "a slice", s, "integers or None")) from None
    if parts[2] == 0:
        raise IndexingError(message(op, "a slice's step", 0, "a step other than zero"))
    start, stop, step = slice(*parts).indices(n)
    return start, len(range(start, stop, step)), step


def _integer(i: int, n: int, axis: int, op: str) -> int:
    if not -n <= i < n:
        raise _out_of_range(op, i, n, axis)
    return i + n if i < 0 else i


def _out_of_range(op: str, i: int, n: int, axis: int) -> IndexingError:
    span = f"between {-n} and {n - 1} (its size is {n})" if n else "nothing: its size is 0"
    return IndexingError(message(op, f"the index of dimension {axis}", i, span))


def _unknown(op: str) -> TraceError:
    return TraceError(
        f"{op}: a boolean mask selects as many elements as its values say, and they are not known inside "
        "vmap or a trace; use ng.where(mask, x, 0), or compute the mask outside."
    )


def _index_tensors(t: Tensor, x: Tensor, axis: int, op: str) -> list[Tensor]:
    """A mask as one index tensor per dimension it covers; an integer tensor checked against its dimension."""
    if t.dtype.kind == "b":
        want = tuple(x.shape[axis : axis + t.ndim])
        if tuple(t.shape) != want:
            raise IndexingError(
                message(
                    op,
                    f"the boolean index's shape at dimension {axis}",
                    tuple(t.shape),
                    f"{want}, the sizes it covers",
                )
            )
        if isinstance(t._data, Value):
            raise _unknown(op)
        return [Tensor(np.asarray(i)) for i in np.nonzero(t.numpy())]
    t = cast(t, dt.int64)
    n, data = x.shape[axis], t._data
    if type(data) is np.ndarray and data.size and (data.min() < -n or data.max() >= n):
        bad = data[(data < -n) | (data >= n)].flat[0]
        raise _out_of_range(op, int(bad), n, axis)
    return [t]


def _check_broadcast(idx: list[Tensor], op: str) -> None:
    try:
        np.broadcast_shapes(*(tuple(t.shape) for t in idx))
    except ValueError:
        raise IndexingError(
            message(
                op,
                "the index tensors' shapes",
                " and ".join(str(tuple(t.shape)) for t in idx),
                "shapes that broadcast together",
            )
        ) from None
