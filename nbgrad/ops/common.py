"""Shared by reductions, scans and sorting: argument spellings, checks, and rules that differ only in the axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..op import Operator, Spec, as_tensor
from ..op.batching import front, materialize
from ..op.samples import Maker
from ..op.shapes import reduced
from ..tensor import Tensor
from .view import _reshape

_SPELLINGS = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "input": "x", "a": "x"}


class ValuesIndices(NamedTuple):
    """What ``max(dim)``, ``sort``, ``topk`` and their like return."""

    values: Tensor
    indices: Tensor


class MinMax(NamedTuple):
    """What ``aminmax`` returns."""

    min: Tensor
    max: Tensor


def numpy_names(fn: Callable) -> Callable:
    """Accept NumPy's ``axis`` and ``keepdims`` (and ``input``) beside PyTorch's names."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {_SPELLINGS.get(k, k): v for k, v in kwargs.items()}
        return fn(*args, **kwargs)

    return call


def numeric(x: Any, op: str, real: bool = False) -> Tensor:
    """``x`` as a tensor; with ``real``, complex dtypes (which have no order) are refused."""
    x = as_tensor(x, op)
    if real:
        need_order(x, op)
    return x


def need_order(x: Any, op: str) -> None:
    """Raise for a complex tensor, array or spec, which has no order."""
    if x.dtype.kind == "c":
        raise DTypeError(
            message(
                op,
                "the tensor's dtype",
                x.dtype.name,
                "a real dtype",
                "Complex numbers have no order; take .real, .imag or .abs() first.",
            )
        )


def ordered(make: Maker) -> Maker:
    """Samples of an operator that takes no complex dtype."""
    return lambda rng, dtype: [] if dtype.kind == "c" else make(rng, dtype)


def count(shape: tuple, axes: tuple) -> int:
    """How many elements one result of a reduction over ``axes`` is made of."""
    return math.prod(shape[a] for a in axes)


def need_elements(x: Tensor, axes: tuple, op: str) -> None:
    """Raise where a reduction without identity would run over nothing."""
    if x._data.size == 0 and count(x.shape, axes) == 0:
        raise ShapeError(
            message(
                op,
                "the reduced part of the shape",
                tuple(x.shape),
                "at least one element to reduce over",
                f"{op} of nothing has no value; check the shape, or the mask it came from.",
            )
        )


def unreduce(g: Any, shape: tuple, axes: tuple, keepdim: bool) -> Any:
    """Reduced axes put back with size 1, so that broadcasting against the input works."""
    if keepdim:
        return g
    return _reshape(g, tuple(1 if i in axes else n for i, n in enumerate(shape)))


def integer(value: Any, op: str, arg: str) -> int:
    """A Python integer from anything that is one (also a 0-d integer array or tensor), checked."""
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        raise ArgumentError(message(op, f"argument '{arg}'", repr(value), "an integer")) from None


def axis_of(dim: int, x: Tensor, op: str) -> int:
    """A non-negative axis (0 for 0-d tensors)."""
    return lay.normalize_axis(dim, x.ndim, op)


def wide(kernel: Callable, x: np.ndarray, *args: Any) -> np.ndarray:
    """Run an array function in float32 where the array is float16."""
    if x.dtype is dt.float16:
        out = np.asarray(kernel(x.astype(dt.float32), *args))
        return out.astype(dt.float16) if out.dtype == dt.float32 else out
    return np.asarray(kernel(x, *args))


def reduce_array(name: str, x: np.ndarray, axes: tuple, keepdim: bool) -> np.ndarray:
    """The reduction kernel on an array of any dtype."""
    from kernels_cpu.reduce import reduce

    return wide(lambda a: reduce(name, a, axes, keepdim), x)


def reduction(op: Operator, dtype: Callable[[np.dtype], np.dtype] = lambda d: d) -> Operator:
    """Give an operator with parameters ``axes, keepdim`` its batching and inference rules."""

    @op.batch
    def _(dims, x, *, axes, keepdim, **params):
        shifted = tuple(a + 1 for a in axes)
        return op(front(x, dims[0]), axes=shifted, keepdim=keepdim, **params), 0

    @op.infer
    def _(x, *, axes, keepdim, **params):
        return Spec(reduced(x.shape, axes, keepdim), dtype(x.dtype))

    return op


def along(op: Operator, dtype: Callable[[np.dtype], np.dtype] = lambda d: d) -> Operator:
    """Give an operator with parameter ``axis`` and results of the inputs' shape the same rules."""

    @op.batch
    def _(dims, *inputs, axis, **params):
        flat = all(x.ndim == (d is not None) for x, d in zip(inputs, dims, strict=True))
        _, moved = materialize(dims, inputs)
        if flat:  # 0-d members: an axis of size 1 stands for the one they lack
            moved = [_reshape(x, (*x.shape, 1)) for x in moved]
        out = op(*moved, axis=axis + 1, **params)
        return (_reshape(out, out.shape[:-1]) if flat else out), 0

    @op.infer
    def _(x, *others, axis, **params):
        return Spec(x.shape, dtype(x.dtype))

    return op
