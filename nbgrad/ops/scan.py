"""Scans: running sums, products, extrema, log-sum-exp and the linear recurrence their derivatives are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..codegen.expr import m
from ..errors import ShapeError, message
from ..op import as_tensor, cast, elementwise, operator
from ..op.base import OUT
from ..op.public import public
from ..op.samples import Sample, draw, uniform
from ..tensor import Tensor
from .common import ValuesIndices, along, axis_of, need_order, numeric, numpy_names, ordered, wide
from .elementwise import cj, zmul
from .join import cat_
from .sort import pick
from .view import clone, slice_


def scanned(name: str, *arrays: np.ndarray, axis: int, reverse: bool = False) -> np.ndarray:
    """The scan kernel on arrays of any dtype."""
    from kernels_cpu.scan import scan

    if arrays[0].dtype is dt.float16:
        arrays = tuple(a.astype(dt.float32) for a in arrays)
        return scan(name, *arrays, axis=axis, reverse=reverse).astype(dt.float16)
    return scan(name, *arrays, axis=axis, reverse=reverse)


def integral_to_int64(dtype: np.dtype) -> np.dtype:
    """Sums and products of integers are int64."""
    return dt.int64 if dtype.kind in "biu" else dtype


def scan_samples(*extra: dict, count: int = 1, low: float = -2.0, high: float = 2.0) -> Any:
    """Samples of an operator along an axis, one for each set of further parameters."""

    def make(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
        out = []
        for shape, axis in (((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 0), 1), ((), 0)):
            for params in extra or ({},):
                args = tuple(draw(rng, dtype, shape, low, high) for _ in range(count))
                out.append(Sample(args, {"axis": axis, **params}))
        return out

    return make


def flipped(fn: Any, x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """A NumPy scan from the end (reference values)."""
    if not x.ndim:
        return x
    return np.flip(fn(np.flip(x, axis), axis), axis) if reverse else fn(x, axis)


@operator(
    "cumsum",
    linear=(0,),
    tests=scan_samples({"reverse": False}, {"reverse": True}),
    reference=lambda x, axis, reverse: flipped(np.cumsum, x, axis, reverse),
)
def cumsum_(x, *, axis, reverse):
    """Running sum along an axis; float32 accumulates in float64."""
    return scanned("cumsum", x, axis=axis, reverse=reverse)


@cumsum_.vjp
def _(g, out, x, *, needs, axis, reverse):
    return (cumsum_(g, axis=axis, reverse=not reverse),)


along(cumsum_, integral_to_int64)


# -- the linear recurrence ------------------------------------------------------------------------
#
# s[k] = a[k] s[k-1] + b[k] is what cumprod and logcumsumexp are when differentiated, in both modes and to every
# order, without a division (so zeros are no exception). Three outputs of the same recurrence are each
# other's adjoints: "at" gives s[k]; "before" gives s[k-1]; "after" multiplies after it has
# given its output, s[k] = a[k-1] s[k-1] + b[k].

_KERNEL = {"at": "linear", "before": "linear_before", "after": "linear_after"}


def _linear_saves(needs, params):
    if not needs[0]:
        return (0,)
    return (0, 1) if params["mode"] == "at" else (0, OUT)


def _linear_reference(a, b, axis, mode, reverse):
    a, b = (np.moveaxis(np.atleast_1d(v), axis, 0) for v in (a, b))
    if reverse:
        a, b = a[::-1], b[::-1]
    s, out = np.zeros_like(b[:1].sum(0)), []
    for x, y in zip(a, b, strict=True):
        before, s = s, (s + y if mode == "after" else x * s + y)
        out.append(before if mode == "before" else s)
        s = x * s if mode == "after" else s
    got = np.stack(out) if out else b
    return np.moveaxis(got[::-1] if reverse else got, 0, axis)


@operator(
    nin=2,
    saves=_linear_saves,
    tests=scan_samples(
        *({"mode": k, "reverse": r} for k in _KERNEL for r in (False, True)), count=2
    ),
    reference=lambda a, b, **p: _linear_reference(a, b, **p).reshape(a.shape),
)
def linear_scan(a, b, *, axis, mode, reverse):
    """First-order linear recurrence along an axis; linear in b."""
    return scanned(_KERNEL[mode], a, b, axis=axis, reverse=reverse)


@linear_scan.vjp
def _(g, out, a, b, *, needs, axis, mode, reverse):
    def back(mode):
        return linear_scan(cj(a), g, axis=axis, mode=mode, reverse=not reverse)

    gb = back({"at": "after", "before": "before", "after": "at"}[mode])
    if not needs[0]:
        return None, gb
    if mode == "at":
        past = linear_scan(a, b, axis=axis, mode="before", reverse=reverse)
        return zmul(gb, cj(past)), gb
    return zmul(gb if mode == "before" else back("before"), cj(out)), gb


@linear_scan.jvp
def _(tangents, out, a, b, *, axis, mode, reverse):
    da, db = tangents

    def run(mode, source):
        return linear_scan(a, source, axis=axis, mode=mode, reverse=reverse)

    if da is None:
        return run(mode, db)
    past = run("before", b) if mode == "at" else out
    source = zmul(da, past)
    if mode != "after":
        return run(mode, source if db is None else source + db)
    moved = run("before", source)
    return moved if db is None else run("after", db) + moved


along(linear_scan)


# -- products ---------------------------------------------------------------------------------------


def _cumprod_reference(x, axis, before, reverse):
    if before:
        ones = np.ones_like(np.take(np.atleast_1d(x), [0][: x.size], axis))
        if not x.ndim:
            return np.ones_like(x)

        def fn(v, k):
            return np.cumprod(np.delete(np.concatenate([ones, v], k), -1, k), k)

        return flipped(fn, x, axis, reverse) if x.size else x
    return flipped(np.cumprod, x, axis, reverse)


@operator(
    "cumprod",
    saves=lambda needs, params: (0, OUT) if params["before"] else (0,),
    tests=scan_samples(
        *({"before": b, "reverse": r} for b in (False, True) for r in (False, True))
    ),
    reference=_cumprod_reference,
)
def cumprod_(x, *, axis, before, reverse):
    """Running product along an axis; with ``before``, of the elements before each one."""
    name = "cumprod_before" if before else "cumprod"
    return scanned(name, x, axis=axis, reverse=reverse)


@cumprod_.vjp
def _(g, out, x, *, needs, axis, before, reverse):
    mode = "before" if before else "after"
    down = linear_scan(cj(x), g, axis=axis, mode=mode, reverse=not reverse)
    past = out if before else cumprod_(x, axis=axis, before=True, reverse=reverse)
    return (zmul(down, cj(past)),)


@cumprod_.jvp
def _(tangents, out, x, *, axis, before, reverse):
    past = out if before else cumprod_(x, axis=axis, before=True, reverse=reverse)
    source = zmul(tangents[0], past)
    return linear_scan(x, source, axis=axis, mode="before" if before else "at", reverse=reverse)


along(cumprod_, integral_to_int64)


# -- log-sum-exp ------------------------------------------------------------------------------------


@elementwise(
    partials=(lambda x, y, out: out, lambda x, y, out: -out),
    hidden=True,
    tests=uniform((-2, 2), (-1, 3)),
    reference=lambda x, y: np.exp(x - y),
)
def expdiff(x, y):
    """``exp(x - y)``, and 0 where y is -inf: the weight of x in a log-sum-exp of value y."""
    return m.select(y == float("-inf"), m.const(0, x), m.exp(x - y))


@operator(
    "logcumsumexp",
    saves=(0, OUT),
    tests=ordered(scan_samples()),
    reference=lambda x, axis: np.logaddexp.accumulate(x, axis) if x.ndim else x,
)
def logcumsumexp_(x, *, axis):
    """Running log-sum-exp along an axis."""
    need_order(x, "logcumsumexp")
    return scanned("logcumsumexp", x, axis=axis)


def _decay(out: Any, axis: int) -> Any:
    """``exp(out[k-1] - out[k])``, how the weights of the past shrink at step k (1 at the first one)."""
    n = out.shape[axis] if out.ndim else 1
    if n < 2:
        return out.ones_like_()
    whole = [(0, size, 1) for size in out.shape]

    def part(start, length):
        return slice_(out, items=(*whole[:axis], (start, length, 1), *whole[axis + 1 :]))

    return expdiff(cat_(part(0, 1), part(0, n - 1), axis=axis), out)


@logcumsumexp_.vjp
def _(g, out, x, *, needs, axis):
    down = linear_scan(_decay(out, axis), g, axis=axis, mode="after", reverse=True)
    return (zmul(down, expdiff(x, out)),)


@logcumsumexp_.jvp
def _(tangents, out, x, *, axis):
    source = zmul(tangents[0], expdiff(x, out))
    return linear_scan(_decay(out, axis), source, axis=axis, mode="at", reverse=False)


along(logcumsumexp_)


@operator(
    differentiable=False,
    tests=ordered(
        lambda rng, dtype: [
            Sample((draw(rng, dtype, (3, 4), -2, 2),), {"axis": a, "kind": k})
            for a in (0, 1)
            for k in ("max", "min")
        ]
    ),
)
def cumulative_index(x, *, axis, kind):
    """Index of the running maximum or minimum (of equals the latest; NaN wins)."""
    from kernels_cpu.scan import extreme

    need_order(x, "cum" + kind)
    return wide(lambda a: extreme(kind, a, axis), x)


along(cumulative_index, lambda d: dt.int64)


# -- public functions -------------------------------------------------------------------------------


def _prepared(x: Any, dim: int, dtype: Any, op: str) -> tuple[Tensor, int]:
    x = as_tensor(x, op)
    if dtype is not None:
        x = cast(x, dt.as_dtype(dtype, op))
    return x, axis_of(dim, x, op)


@public(inplace=True)
@numpy_names
def cumsum(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Running sum along a dimension; integers give int64.

    Raises
    ------
    IndexingError : ``dim`` is out of range.
    """
    x, axis = _prepared(x, dim, dtype, "cumsum")
    return cumsum_(x, axis=axis, reverse=False)


@public(inplace=True)
@numpy_names
def cumprod(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Running product along a dimension; derivatives of every order are right at zeros too.

    Raises
    ------
    IndexingError : ``dim`` is out of range.
    """
    x, axis = _prepared(x, dim, dtype, "cumprod")
    return cumprod_(x, axis=axis, before=False, reverse=False)


@public
@numpy_names
def logcumsumexp(x: Any, dim: int) -> Tensor:
    """Running ``log(sum(exp(x)))`` along a dimension, without overflow; -inf counts as nothing."""
    x = numeric(x, "logcumsumexp", real=True)
    x = cast(x, dt.to_inexact(x.dtype))
    return logcumsumexp_(x, axis=axis_of(dim, x, "logcumsumexp"))


def _cumulative(x: Any, dim: int, kind: str) -> ValuesIndices:
    x = numeric(x, "cum" + kind, real=True)
    axis = axis_of(dim, x, "cum" + kind)
    at = cumulative_index(x, axis=axis, kind=kind)
    return ValuesIndices(pick(x, at, axis), at)


@public
@numpy_names
def cummax(x: Any, dim: int) -> ValuesIndices:
    """Running maximum along a dimension and its index (of equals the latest); NaN propagates.

    The gradient goes to the returned index.
    """
    return _cumulative(x, dim, "max")


@public
@numpy_names
def cummin(x: Any, dim: int) -> ValuesIndices:
    """Running minimum along a dimension and its index (of equals the latest); NaN propagates.

    The gradient goes to the returned index.
    """
    return _cumulative(x, dim, "min")


@public
@numpy_names
def diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The n-th forward difference along a dimension, after joining ``prepend`` and ``append``; with n = 0 the tensor alone.

    Raises
    ------
    ShapeError : a 0-d tensor, or a negative n.
    """
    from .join import cat

    x = as_tensor(x, "diff")
    if not x.ndim or n < 0:
        what, given = ("the tensor's shape", ()) if not x.ndim else ("argument 'n'", n)
        raise ShapeError(message("diff", what, given, "at least one dimension and n >= 0"))
    axis = axis_of(dim, x, "diff")
    if n == 0:
        return clone(x)
    parts = [p for p in (prepend, x, append) if p is not None]
    x = cat(parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        size = max(x.shape[axis] - 1, 0)
        low, high = x.narrow(axis, 0, size), x.narrow(axis, x.shape[axis] - size, size)
        x = high ^ low if x.dtype.kind == "b" else high - low
    return x
