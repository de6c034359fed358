"""Gather and scatter along a dimension.

Index tensors hold integers; as in ``x[...]``, negative ones count from the end. Entries that no index names get gradient 0
whatever is stored there.
"""

from __future__ import annotations

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
from .compare import eq, ne
from .elementwise import div, keep, mul, where
from .index import fitting, guarded, index
from .view import _reshape, expand, slice_

# -- primitives -------------------------------------------------------------------------------------


def _gather_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    x = draw(rng, dtype, (3, 4), -1, 1)
    return [
        Sample((x, np.array([[1, 1, 0], [3, 3, -1]])), {"dim": 1}),
        Sample((x, np.array([[2, 0], [0, 0], [1, 2], [2, 2]])), {"dim": 0}),
        Sample((x, np.zeros((0, 4), np.int64)), {"dim": 0}),
    ]


@operator(nin=2, linear=(0,), saves=(1,), tests=_gather_samples)
def gather_(x, idx, *, dim):
    """``out[i, j] = x[i, idx[i, j]]`` for ``dim`` 1, and so on."""
    from kernels_cpu.gather import gather as kernel

    return guarded("gather", kernel, x, idx, dim)


@gather_.infer
def _(x, idx, *, dim):
    return Spec(idx.shape, x.dtype)


@gather_.vjp
def _(g, out, x, idx, *, needs, dim):
    return scatter_add_(Tensor(np.zeros(x.shape, x.dtype)), idx, g, dim=dim), None


@gather_.batch
def _(dims, x, idx, *, dim):
    _, (x, idx) = materialize(dims, (x, idx))
    return gather_(x, idx, dim=dim + 1), 0


def _scatter_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [
        Sample((s.args[0], s.args[1], draw(rng, dtype, s.args[1].shape, 2, 3)), s.params)
        for s in _gather_samples(rng, dtype)
    ]


@operator(nin=3, linear=(0, 2), saves=(1,), tests=_scatter_samples)
def scatter_add_(x, idx, src, *, dim):
    """x with ``src`` added at ``idx`` along a dimension; src has the shape of idx."""
    from kernels_cpu.gather import scatter_add as kernel

    return guarded("scatter_add", kernel, x, idx, src, dim)


@scatter_add_.infer
def _(x, idx, src, *, dim):
    return Spec(x.shape, x.dtype)


@scatter_add_.vjp
def _(g, out, x, idx, src, *, needs, dim):
    return g, None, gather_(g, idx, dim=dim) if needs[2] else None


@scatter_add_.batch
def _(dims, x, idx, src, *, dim):
    _, (x, idx, src) = materialize(dims, (x, idx, src))
    return scatter_add_(x, idx, src, dim=dim + 1), 0


@operator(nin=3, linear=(0, 2), saves=(1,), tests=_scatter_samples)
def scatter_(x, idx, src, *, dim):
    """x with ``src`` written at ``idx`` along a dimension; of repeated indices the last one wins."""
    from kernels_cpu.gather import scatter as kernel

    return guarded("scatter", kernel, x, idx, src, dim)


@scatter_.infer
def _(x, idx, src, *, dim):
    return Spec(x.shape, x.dtype)


@scatter_.vjp
def _(g, out, x, idx, src, *, needs, dim):
    gx = scatter_(g, idx, Tensor(np.zeros(src.shape, src.dtype)), dim=dim) if needs[0] else None
    if not needs[2]:
        return gx, None, None
    alive = scatter_winners(idx, dim=dim, shape=tuple(x.shape))
    return gx, None, keep(alive, gather_(g, idx, dim=dim))


@scatter_.batch
def _(dims, x, idx, src, *, dim):
    _, (x, idx, src) = materialize(dims, (x, idx, src))
    return scatter_(x, idx, src, dim=dim + 1), 0


@operator(differentiable=False)
def scatter_winners(idx, *, dim, shape):
    """Which of the values written by `scatter_` survive."""
    from kernels_cpu.gather import scatter_survivors

    return guarded("scatter", scatter_survivors, idx, dim, shape)


@scatter_winners.infer
def _(idx, *, dim, shape):
    return Spec(idx.shape, dt.bool_)


@scatter_winners.batch
def _(dims, idx, *, dim, shape):
    n, (idx,) = materialize(dims, (idx,))
    return scatter_winners(idx, dim=dim + 1, shape=(n, *shape)), 0


def _extreme_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    if dtype.kind == "c":
        return []
    return [
        Sample(s.args, {**s.params, "largest": largest, "include": include})
        for s in _scatter_samples(rng, dtype)
        for largest, include in ((True, True), (False, False))
    ]


@operator(nin=3, saves=(0, 1, 2, -1), tests=_extreme_samples)
def scatter_extreme(x, idx, src, *, dim, largest, include):
    """The largest (smallest) value sent to each place; ties share the gradient evenly."""
    from kernels_cpu.gather import scatter_extreme as kernel

    return guarded("scatter_reduce", kernel, x, idx, src, dim, largest, include)


@scatter_extreme.infer
def _(x, idx, src, *, dim, largest, include):
    return Spec(x.shape, x.dtype)


def _shares(out: Any, x: Any, idx: Any, src: Any, dim: int, include: bool) -> tuple:
    """Who attains the extreme value (in x, in src) and how many do."""
    mine = eq(src, gather_(out, idx, dim=dim))
    theirs = eq(x, out)
    if not include:  # x counts only where nothing was sent
        sent = scatter_(Tensor(np.zeros(x.shape, bool)), idx, mine.ones_like_(), dim=dim)
        theirs = eq(sent, False)
    count = scatter_add_(cast(theirs, out.dtype), idx, cast(mine, out.dtype), dim=dim)
    return theirs, mine, where(eq(count, 0), 1, count)


@scatter_extreme.jvp
def _(tangents, out, x, idx, src, *, dim, largest, include):
    theirs, mine, count = _shares(out, x, idx, src, dim, include)
    tx = out.zeros_like_() if tangents[0] is None else keep(theirs, tangents[0])
    if tangents[2] is not None:
        tx = scatter_add_(tx, idx, keep(mine, tangents[2]), dim=dim)
    return div(tx, count)


@scatter_extreme.vjp
def _(g, out, x, idx, src, *, needs, dim, largest, include):
    theirs, mine, count = _shares(out, x, idx, src, dim, include)
    g = div(g, count)
    return (
        keep(theirs, g) if needs[0] else None,
        None,
        keep(mine, gather_(g, idx, dim=dim)) if needs[2] else None,
    )


@scatter_extreme.batch
def _(dims, x, idx, src, *, dim, largest, include):
    _, (x, idx, src) = materialize(dims, (x, idx, src))
    return scatter_extreme(x, idx, src, dim=dim + 1, largest=largest, include=include), 0


@operator(differentiable=False)
def index_order(idx, *, dim):
    """The stable order that sorts indices along a dimension."""
    return np.argsort(idx, axis=dim, kind="stable")


@index_order.batch
def _(dims, idx, *, dim):
    _, (idx,) = materialize(dims, (idx,))
    return index_order(idx, dim=dim + 1), 0


# -- arguments ----------------------------------------------------------------------------------------


def index_of(idx: Any, op: str, ndim: int | None = None) -> Tensor:
    """An integer index tensor (an empty list counts as integers)."""
    t = as_tensor(idx, op, "index")
    if t.dtype.kind not in "iu" and not (t._data.size == 0 and not isinstance(idx, Tensor)):
        raise DTypeError(
            message(
                op, "argument 'index' of dtype", t.dtype.name, "an integer dtype", "Use .long()."
            )
        )
    if ndim is not None and t.ndim != ndim:
        raise ShapeError(
            message(op, "argument 'index' of shape", tuple(t.shape), f"{ndim} dimensions")
        )
    return cast(t, dt.int64)


def _along(x: Tensor, dim: int, idx: Tensor, op: str, skip: bool = True) -> Tensor:
    """x cut to the sizes of idx in the other dimensions; raises where idx is larger."""
    for d, (n, k) in enumerate(zip(x.shape, idx.shape, strict=True)):
        if k > n and not (skip and d == dim) and 0 not in idx.shape:
            raise ShapeError(
                message(
                    op,
                    "argument 'index' of shape",
                    tuple(idx.shape),
                    f"at most the sizes {tuple(x.shape)}"
                    + (f" outside dimension {dim}" if skip else ""),
                )
            )
    items = tuple(
        (0, n if skip and d == dim else min(n, k), 1)
        for d, (n, k) in enumerate(zip(x.shape, idx.shape, strict=True))
    )
    cut = tuple(i[1] for i in items) != tuple(x.shape)
    return slice_(x, items=items) if cut else x


def _promote_1d(x: Tensor, *others: Tensor) -> tuple[bool, list[Tensor]]:
    """0-d operands as vectors of one element."""
    scalar = x.ndim == 0
    return scalar, [_reshape(t, (1,)) if t.ndim == 0 else t for t in (x, *others)]


@public
def gather(input: Any, dim: int, index: Any) -> Tensor:
    """``out[i, j, ..] = input[i, index[i, j, ..], ..]`` (for ``dim`` 1): values picked along a dimension.

    ``index`` has as many dimensions as input and is nowhere larger, except along ``dim``; the result has its shape.

    Raises
    ------
    IndexingError : an index out of range. ShapeError : shapes that do not fit.
    """
    x, idx = as_tensor(input, "gather"), index_of(index, "gather")
    d = lay.normalize_axis(dim, x.ndim, "gather")
    scalar, (x, idx2) = _promote_1d(x, idx)
    if idx2.ndim != x.ndim:
        raise ShapeError(
            message("gather", "argument 'index' of shape", tuple(idx.shape), f"{x.ndim} dimensions")
        )
    out = gather_(_along(x, d, idx2, "gather"), idx2, dim=d)
    return _reshape(out, tuple(idx.shape)) if scalar else out


def _scatter_args(op: str, input: Any, dim: int, index: Any, src: Any) -> tuple:
    """Checked ``x, dim, idx, src`` with src cut to idx's shape, and the part of x that idx can reach."""
    x, idx = as_tensor(input, op), index_of(index, op)
    d = lay.normalize_axis(dim, x.ndim, op)
    s = as_tensor(src, op, "src")
    if not isinstance(src, Tensor | np.ndarray):
        s = fitting(x, src, op, "src")
    if s.dtype != x.dtype:
        raise DTypeError(
            message(
                op,
                "argument 'src' of dtype",
                s.dtype.name,
                f"{x.dtype.name}, that of the input",
                "Use .to().",
            )
        )
    _, (x, idx) = _promote_1d(x, idx)
    if s.ndim == 0:
        s = expand(s, shape=tuple(idx.shape))
    if idx._data.size == 0:
        return x, d, None, s
    if idx.ndim != x.ndim or s.ndim != x.ndim:
        raise ShapeError(
            message(
                op,
                "shapes of 'index' and 'src'",
                f"{tuple(idx.shape)} and {tuple(s.shape)}",
                f"{x.ndim} dimensions like the input",
            )
        )
    _along(x, d, idx, op)
    return x, d, idx, _along(s, d, idx, op, skip=False)


def like_given(out: Tensor, given: Tensor) -> Tensor:
    """A vector of one element back to 0-d where the input was 0-d."""
    return out if given.ndim else _reshape(out, ())


@public(inplace=True)
def scatter(
    input: Any,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """A copy of input with ``src`` (a tensor or a number) written at ``index`` along ``dim``.

    Of values sent to one place the last one wins, and it alone gets the gradient. ``reduce`` is "add" or "multiply".
    ``value`` is another name of ``src``, for a number.

    Raises
    ------
    ArgumentError : neither or both of ``src`` and ``value``, or an unknown ``reduce``.
    """
    if (src is None) == (value is None):
        given = "neither 'src' nor 'value'" if src is None else "'src' and 'value'"
        raise ArgumentError(message("scatter", "the source", given, "one of them"))
    src = value if src is None else src
    if reduce is not None:
        names = {"add": "sum", "multiply": "prod"}
        if reduce not in names:
            raise ArgumentError(
                message("scatter", "argument 'reduce'", repr(reduce), "'add' or 'multiply'")
            )
        return scatter_reduce(input, dim, index, src, names[reduce])
    x, d, idx, s = _scatter_args("scatter", input, dim, index, src)
    return like_given(x + 0 if idx is None else scatter_(x, idx, s, dim=d), as_tensor(input))


@public(inplace=True)
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Tensor:
    """A copy of input with ``src`` added at ``index`` along ``dim``; src may be larger than index (the rest is not read)."""
    x, d, idx, s = _scatter_args("scatter_add", input, dim, index, src)
    return like_given(x + 0 if idx is None else scatter_add_(x, idx, s, dim=d), as_tensor(input))


@public(inplace=True)
def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Combine the values of ``src`` sent to each place: "sum", "prod", "mean", "amax" or "amin".

    Without ``include_self`` the input's own value counts only where nothing is sent. Tied extremes share the gradient.
    """
    op = "scatter_reduce"
    known = ("sum", "prod", "mean", "amax", "amin")
    if reduce not in known:
        raise ArgumentError(
            message(op, "argument 'reduce'", repr(reduce), f"one of {', '.join(known)}")
        )
    x, d, idx, s = _scatter_args(op, input, dim, index, src)
    if idx is None:
        return like_given(x + 0, as_tensor(input))
    if reduce in ("amax", "amin"):
        if x.dtype.kind == "c":
            raise DTypeError(
                message(
                    op, "the input's dtype", x.dtype.name, "a real dtype (complex has no order)"
                )
            )
        out = scatter_extreme(x, idx, s, dim=d, largest=reduce == "amax", include=include_self)
        return like_given(out, as_tensor(input))
    ones = Tensor(np.ones(idx.shape, np.int64))
    sent = scatter_add_(Tensor(np.zeros(x.shape, np.int64)), idx, ones, dim=d)
    if reduce == "prod":
        out = _scatter_prod(x, idx, s, d)
        own = x if include_self else where(eq(sent, 0), x, 1)
        return like_given(mul(own, out), as_tensor(input))
    own = x if include_self else keep(eq(sent, 0), x)
    out = scatter_add_(own, idx, s, dim=d)
    if reduce == "mean":
        count = sent + 1 if include_self else where(eq(sent, 0), 1, sent)
        out = div(out, cast(count, x.dtype)) if x.dtype.kind in "fc" else _floor_divide(out, count)
    return like_given(out, as_tensor(input))


def _floor_divide(a: Tensor, b: Tensor) -> Tensor:
    return cast(div(cast(a, dt.float64), cast(b, dt.float64)).floor(), a.dtype)


def _scatter_prod(x: Tensor, idx: Tensor, src: Tensor, d: int) -> Tensor:
    """Products of the values sent to each place, without division: exact derivatives of any order at zeros.

    Values are sorted by place and combined by a segmented scan of doubling steps.
    """
    n = idx.shape[d]
    idx = where(idx < 0, idx + x.shape[d], idx)
    order = index_order(idx, dim=d)
    idx, a = gather_(idx, order, dim=d), gather_(src, order, dim=d)
    position = np.arange(n).reshape(tuple(n if k == d else 1 for k in range(idx.ndim)))
    step = 1
    while step < n:
        back = Tensor(np.maximum(np.arange(n) - step, 0))
        same = eq(idx, index(idx, back, axes=(d,))) & Tensor(position >= step)
        a = mul(a, where(same, index(a, back, axes=(d,)), 1))
        step *= 2
    after = Tensor(np.minimum(np.arange(n) + 1, n - 1))
    last = ne(idx, index(idx, after, axes=(d,))) | Tensor(position == n - 1)
    zero = Tensor(np.zeros(x.shape, x.dtype))
    total = scatter_add_(zero, idx, keep(last, a), dim=d)
    ones = Tensor(np.ones(idx.shape, np.int64))
    sent = scatter_add_(Tensor(np.zeros(x.shape, np.int64)), idx, ones, dim=d)
    return where(eq(sent, 0), 1, total)
