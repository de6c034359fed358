"""Indexing: the gather / put primitives, and what ``x[...]`` and ``x[...] = v`` do.

Basic indices (integers, slices, None, Ellipsis, 0-d integer tensors) make views. Integer tensors, arrays and lists gather;
boolean masks are turned into integer indices. As in PyTorch, integers count as basic indices also beside index tensors:
only tensors, arrays and lists that a slice or None separates send their dimensions to the front.
Parsing the brackets is `index_parse`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, IndexingError, ShapeError, message
from ..layout import broadcast_shapes
from ..op import Spec, as_tensor, cast, operator
from ..op.batching import front, materialize
from ..op.inplace import bump, check_writable, snapshot, write
from ..op.public import METHODS
from ..op.samples import Sample, draw
from ..state import state
from ..tensor import Tensor
from .elementwise import keep, where
from .index_parse import Parsed, is_mask, parse
from .view import _reshape, expand, permute, slice_


def adjacent(axes: Sequence[int]) -> bool:
    """Whether indexed axes are neighbours (their result dimensions then stay in place)."""
    return axes[-1] - axes[0] == len(axes) - 1


def place(axes: Sequence[int]) -> int:
    """Where the index dimensions stand among the remaining ones."""
    return axes[0] if adjacent(axes) else 0


def guarded(op: str, kernel: Any, *args: Any) -> Any:
    """Run an indexing kernel; an index out of range becomes our own error."""
    from kernels_cpu.gather import OutOfRangeError

    try:
        return kernel(*args)
    except OutOfRangeError as e:
        raise IndexingError(
            message(
                op,
                f"an index of dimension {e.axis}",
                e.value,
                f"between {-e.size} and {e.size - 1} (its size is {e.size})",
            )
        ) from None


def _samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    x = draw(rng, dtype, (3, 4, 2), -1, 1)
    i, j = np.array([[0, 2, 2], [1, -1, 0]]), np.array([1, 3, 1])
    return [
        Sample((x, j % 3), {"axes": (0,)}),
        Sample((x, i, j), {"axes": (0, 1)}),
        Sample((x, j % 3, j % 2), {"axes": (0, 2)}),
        Sample((x, np.array(2)), {"axes": (1,)}),
        Sample((x, np.zeros(0, np.int64)), {"axes": (1,)}),
    ]


def _reference(x: np.ndarray, *idx: np.ndarray, axes: tuple) -> np.ndarray:
    key: list[Any] = [slice(None)] * x.ndim
    for a, i in zip(axes, idx, strict=True):
        key[a] = i
    return x[tuple(key)]


@operator(nin=None, linear=(0,), tests=_samples, reference=_reference)
def index(x, *idx, axes):
    """Gather along ``axes`` with broadcast integer indices."""
    from kernels_cpu.gather import take

    return guarded("getitem", take, x, idx, axes)


@index.infer
def index_spec(x, *idx, axes):
    """Shape and dtype of `index`."""
    shape = broadcast_shapes(*(i.shape for i in idx), op="getitem")
    rest = [n for a, n in enumerate(x.shape) if a not in axes]
    at = place(axes)
    return Spec((*rest[:at], *shape, *rest[at:]), x.dtype)


@index.vjp
def _(g, out, x, *idx, needs, axes):
    return (unindex(g, *idx, axes=axes, shape=tuple(x.shape)), *(None,) * len(idx))


index.saves = lambda needs, params: tuple(range(1, len(needs)))


@index.batch
def _(dims, x, *idx, axes):
    if all(d is None for d in dims[1:]):
        shifted = tuple(a + 1 for a in axes)
        rank = max(i.ndim for i in idx)
        out = index(front(x, dims[0]), *idx, axes=shifted)
        return out, 0 if adjacent(axes) else rank
    if dims[0] is None:  # the batch is one more index dimension
        return index(x, *batch_first(dims[1:], idx), axes=axes), place(axes)
    n, (x, *idx) = materialize(dims, (x, *idx))
    idx = numbered(n, idx)
    out = index(x, *idx, axes=(0, *(a + 1 for a in axes)))
    return move_block(out, 1, max(i.ndim for i in idx) - 1, place(axes) + 1), 0


def batch_first(dims: Sequence[int | None], idx: Sequence[Any]) -> list[Any]:
    """Index tensors with their batch dimension in front and ranks padded, so that they broadcast."""
    rank = max(i.ndim - (d is not None) for i, d in zip(idx, dims, strict=True))
    out = []
    for i, d in zip(idx, dims, strict=True):
        if d is not None:
            i = front(i, d)
            i = _reshape(i, (i.shape[0], *(1,) * (rank + 1 - i.ndim), *i.shape[1:]))
        out.append(i)
    return out


def numbered(n: int, idx: Sequence[Any]) -> list[Any]:
    """Every batch member indexed by its own number, so that one gather serves all of them."""
    idx = batch_first((0,) * len(idx), idx)
    rank = max(i.ndim for i in idx) - 1
    return [Tensor(np.arange(n).reshape((n, *(1,) * rank))), *idx]


def move_block(x: Any, at: int, width: int, to: int) -> Any:
    """Move ``width`` neighbouring dimensions from ``at`` to ``to`` (places among the others)."""
    if at == to or not width:
        return x
    rest = [d for d in range(x.ndim) if not at <= d < at + width]
    order = [*rest[:to], *range(at, at + width), *rest[to:]]
    return permute(x, dims=tuple(order))


def _unindex_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    out = []
    for s in _samples(rng, dtype):
        x, *idx = s.args
        g = draw(rng, dtype, _reference(x, *idx, **s.params).shape, -1, 1)
        out.append(Sample((g, *idx), {**s.params, "shape": x.shape}))
    return out


@operator(nin=None, linear=(0,), tests=_unindex_samples)
def unindex(g, *idx, axes, shape):
    """Adjoint of `index`: zeros with g added at the indices."""
    from kernels_cpu.gather import add_at

    return guarded("getitem", add_at, np.zeros(shape, g.dtype), idx, axes, g)


unindex.saves = lambda needs, params: tuple(range(1, len(needs)))


@unindex.infer
def _(g, *idx, axes, shape):
    return Spec(shape, g.dtype)


@unindex.vjp
def _(ct, out, g, *idx, needs, axes, shape):
    return (index(ct, *idx, axes=axes), *(None,) * len(idx))


@unindex.batch
def _(dims, g, *idx, axes, shape):
    shifted = tuple(a + 1 for a in axes)
    if all(d is None for d in dims[1:]):
        g = front(g, dims[0])
        n = g.shape[0]
        if not adjacent(axes):
            g = move_block(g, 0, 1, max(i.ndim for i in idx))
        return unindex(g, *idx, axes=shifted, shape=(n, *shape)), 0
    n, (g, *idx) = materialize(dims, (g, *idx))
    idx = numbered(n, idx)
    g = move_block(g, place(axes) + 1, max(i.ndim for i in idx) - 1, 1)
    return unindex(g, *idx, axes=(0, *shifted), shape=(n, *shape)), 0


def _put_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    out = []
    for accumulate in (False, True):
        for s in _samples(rng, dtype):
            x, *idx = s.args
            v = draw(rng, dtype, _reference(x, *idx, **s.params).shape, -1, 1)
            out.append(Sample((x, v, *idx), {**s.params, "accumulate": accumulate}))
    return out


@operator(nin=None, linear=(0, 1), tests=_put_samples)
def index_put(x, v, *idx, axes, accumulate):
    """A copy of x with v written (or added) at the indices; of duplicates the last one wins."""
    from kernels_cpu.gather import add_at, put_at

    if accumulate:
        return guarded("index_put", add_at, np.array(x, order="C"), idx, axes, v)
    return guarded("index_put", put_at, np.array(x, order="C"), idx, axes, v)


index_put.saves = lambda needs, params: tuple(range(2, len(needs)))


@index_put.infer
def _(x, v, *idx, axes, accumulate):
    return Spec(x.shape, x.dtype)


@index_put.vjp
def _(g, out, x, v, *idx, needs, axes, accumulate):
    gx = gv = None
    if needs[0]:
        zero = Tensor(np.zeros((), v.dtype))
        gx = g if accumulate else index_put(g, zero, *idx, axes=axes, accumulate=False)
    if needs[1]:
        gv = index(g, *idx, axes=axes)
        if not accumulate:
            gv = keep(winners(*idx, axes=axes, shape=tuple(x.shape)), gv)
    return (gx, gv, *(None,) * len(idx))


@index_put.batch
def _(dims, x, v, *idx, axes, accumulate):
    bare = [
        Spec(_without(t.shape, d), t.dtype)
        for t, d in zip((x, *idx), (dims[0], *dims[2:]), strict=True)
    ]
    full = index_spec(*bare, axes=axes).shape
    if dims[1] is None:
        v = expand(v, shape=full)
    else:
        v = front(v, dims[1])
        v = _reshape(v, (v.shape[0], *(1,) * (len(full) + 1 - v.ndim), *v.shape[1:]))
        v = expand(v, shape=(v.shape[0], *full))
    vdim = None if dims[1] is None else 0
    shifted = tuple(a + 1 for a in axes)
    if all(d is None for d in dims[2:]):
        _, (x, v) = materialize((dims[0], vdim), (x, v))
        if not adjacent(axes):
            v = move_block(v, 0, 1, max(i.ndim for i in idx))
        return index_put(x, v, *idx, axes=shifted, accumulate=accumulate), 0
    n, (x, v, *idx) = materialize((dims[0], vdim, *dims[2:]), (x, v, *idx))
    idx = numbered(n, idx)
    v = move_block(v, place(axes) + 1, max(i.ndim for i in idx) - 1, 1)
    return index_put(x, v, *idx, axes=(0, *shifted), accumulate=accumulate), 0


def _without(shape: tuple, d: int | None) -> tuple:
    return tuple(shape) if d is None else (*shape[:d], *shape[d + 1 :])


@operator(nin=None, differentiable=False)
def winners(*idx, axes, shape):
    """Which of the written values survive where indices repeat (the last one)."""
    from kernels_cpu.gather import survivors

    return guarded("index_put", survivors, shape, idx, axes)


@winners.infer
def _(*idx, axes, shape):
    full = index_spec(Spec(shape, np.dtype(bool)), *idx, axes=axes)
    return Spec(full.shape, np.dtype(bool))


@winners.batch
def _(dims, *idx, axes, shape):
    n, idx = materialize(dims, idx)
    idx = numbered(n, idx)
    out = winners(*idx, axes=(0, *(a + 1 for a in axes)), shape=(n, *shape))
    return move_block(out, 1, max(i.ndim for i in idx) - 1, place(axes) + 1), 0


# -- brackets -----------------------------------------------------------------------------------------


def getitem(x: Tensor, key: Any) -> Tensor:
    """``x[key]``: a view for basic indices, a gathered copy for index tensors and masks.

    Raises
    ------
    IndexingError : an index out of range, of a wrong kind or dtype, or too many of them.
    TraceError : a mask whose values are not known here (inside vmap or a trace).
    """
    p = parse(x, key, "getitem")
    if not p.idx:
        return slice_(x, items=p.basic)
    out = index(x if p.trivial else slice_(x, items=p.basic), *p.idx, axes=p.axes)
    return move_block(out, place(p.axes), _rank(p), _place_of(p))


def _rank(p: Parsed) -> int:
    return max(t.ndim for t in p.idx)


def _place_of(p: Parsed) -> int:
    """Where the index dimensions belong: index tensors of 0 dimensions count as plain integers."""
    wide = [a for a, t in zip(p.axes, p.idx, strict=True) if t.ndim]
    flat = [a for a, t in zip(p.axes, p.idx, strict=True) if not t.ndim]
    axes = [a - sum(f < a for f in flat) for a in wide]
    return place(axes) if axes else place(p.axes)


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``; the value is broadcast; of repeated indices the last one wins.

    Raises
    ------
    IndexingError : as for reading.
    ShapeError : a value that does not broadcast to the selected elements.
    DTypeError : a value whose dtype the tensor cannot hold (a fraction into integers).
    """
    check_writable(x, "setitem")
    v = fitting(x, value, "setitem")
    if is_mask(key) and not v.ndim and tuple(key.shape) == tuple(x.shape[: key.ndim]):
        mask = as_tensor(key, "setitem", "key")
        mask = _reshape(mask, (*key.shape, *(1,) * (x.ndim - key.ndim)))
        write(x, where(mask, v, snapshot(x)), "setitem")
        return
    p = parse(x, key, "setitem")
    if not p.idx:
        target = slice_(x, items=p.basic)
        check_writable(target, "setitem")
        write(target, _fit(v, tuple(target.shape)), "setitem")
        return
    target = x if p.trivial else slice_(x, items=p.basic)
    shape = index_spec(target, *p.idx, axes=p.axes).shape
    at, rank, to = place(p.axes), _rank(p), _place_of(p)
    if to != at:
        rest = [*shape[:at], *shape[at + rank :]]
        shape = (*rest[:to], *shape[at : at + rank], *rest[to:])
    v = move_block(_fit(v, shape), to, rank, at)
    if _plain(target, v, *p.idx):
        from kernels_cpu.gather import put_at

        idx = [t._data for t in p.idx]
        guarded("setitem", put_at, target._data, idx, p.axes, v._data)
        bump(target, "setitem")
        return
    new = index_put(snapshot(target), v, *p.idx, axes=p.axes, accumulate=False)
    write(target, new, "setitem")


def _plain(*tensors: Tensor) -> bool:
    """Arrays without history and nobody listening: the write needs no out-of-place copy."""
    return state.fast >= 0 and all(t._node is None and type(t._data) is np.ndarray for t in tensors)


def fitting(x: Tensor, value: Any, op: str, arg: str = "value") -> Tensor:
    """A value to write into x, in x's dtype; what would lose information is an error."""
    v = as_tensor(value, op, arg)
    order = "buifc"
    number = isinstance(value, bool | int | float | complex)
    narrow = order.index(v.dtype.kind) > max(order.index(x.dtype.kind), 2)
    if narrow and number and not isinstance(value, complex):
        narrow = not float(value).is_integer()
    if narrow or (x.dtype.kind == "b" and v.dtype.kind in "iu" and not number):
        raise DTypeError(
            message(
                op,
                f"argument '{arg}'",
                f"{value} ({v.dtype.name})" if number else f"of dtype {v.dtype.name}",
                f"a dtype that fits the tensor's {x.dtype.name}",
                "Convert the tensor or the value with .to() first.",
            )
        )
    return cast(v, x.dtype)


def _fit(v: Tensor, shape: tuple) -> Tensor:
    """Broadcast a value to the shape it is written to (leading ones may be dropped)."""
    have = tuple(v.shape)
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    pairs = zip(reversed(have), reversed(shape), strict=False)
    if len(have) > len(shape) or any(n not in (1, m) for n, m in pairs):
        raise ShapeError(
            message(
                "setitem",
                "argument 'value' of shape",
                tuple(v.shape),
                f"one that broadcasts to the selected elements {shape}",
            )
        )
    v = _reshape(v, have)
    return v if have == shape else expand(v, shape=shape)


METHODS["__getitem__"] = getitem
METHODS["__setitem__"] = setitem
