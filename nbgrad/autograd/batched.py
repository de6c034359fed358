"""Batching: values with a hidden batch dimension, for ``vmap`` and batched cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, ShapeError, message
from ..op import as_tensor
from ..op.interpreter import new_level, own
from ..ops.view import expand, permute
from ..tensor import Level, Tensor, Value


class Batched(Value):
    """A lower tensor with one dimension hidden; ``dim`` None means the same for every batch member."""

    __slots__ = ("dim", "tensor")

    def __init__(self, level: Level, tensor: Tensor, dim: int | None):
        self.level, self.tensor, self.dim = level, tensor, dim
        shape = tuple(tensor._data.shape)
        self.shape = shape if dim is None else shape[:dim] + shape[dim + 1 :]
        self.dtype = tensor._data.dtype

    def parts(self) -> tuple[Tensor, ...]:
        """The lower tensors under this value."""
        return (self.tensor,)


class BatchInterpreter:
    """Runs the batching rule of an operator."""

    def __init__(self, size: int, randomness: str = "error"):
        self.size, self.randomness = size, randomness

    def lift(self, level: Level, t: Tensor) -> Batched:
        """The same tensor for every member of the batch."""
        return Batched(level, t, None)

    def process(self, level: Level, op: Any, args: Sequence[Tensor], params: dict) -> Any:
        """One operator on the whole batch."""
        tensors = [t._data.tensor if own(level, t) else t for t in args]
        dims = [t._data.dim if own(level, t) else None for t in args]
        if all(d is None for d in dims):
            out = op(*tensors, **params)
            if isinstance(out, tuple):
                return tuple(Batched(level, o, None) for o in out)
            return Batched(level, out, None)
        out, where = op.run_batch(dims, tensors, params)
        if isinstance(out, tuple):
            where = where if isinstance(where, tuple) else (where,) * len(out)
            return tuple(Batched(level, o, d) for o, d in zip(out, where, strict=True))
        return Batched(level, out, where)


def wrap(level: Level, t: Tensor, dim: int) -> Tensor:
    """A tensor whose dimension ``dim`` is the batch."""
    return Tensor(Batched(level, t, dim % max(t.ndim, 1)))


def unwrap(level: Level, t: Tensor, size: int, dim: int | None = 0) -> Tensor:
    """The lower tensor with the batch at ``dim``; results that do not depend on it are expanded.

    With ``dim`` None the result must not depend on the batch, and is returned as it is.
    """
    if not own(level, t):
        inner, at = t, None
    else:
        inner, at = t._data.tensor, t._data.dim
    if dim is None:
        if at is not None:
            raise ArgumentError(
                message("vmap", "argument 'out_dims' None for an output", "batched", "an integer")
            )
        return inner
    if at is None:
        inner = expand(inner, shape=(size, *inner._data.shape))
        at = 0
    rank = inner.ndim
    if not -rank <= dim < rank:
        raise ShapeError(
            message("vmap", "argument 'out_dims'", dim, f"a dimension of a {rank}-d output")
        )
    place = dim % rank
    if place != at:
        order = [i for i in range(rank) if i != at]
        order.insert(place, int(at or 0))
        inner = permute(inner, dims=tuple(order))
    return inner


def batched_grad(
    outs: Sequence[Tensor], ins: Sequence[Tensor], cots: Sequence[Any], options: dict
) -> list:
    """``autograd.grad`` with a batch of cotangents in front: one sweep for all of them."""
    from .api import edge, run_backward

    cots = [None if c is None else as_tensor(c, "grad", "grad_outputs") for c in cots]
    sizes = {c.shape[0] if c is not None and c.ndim else None for c in cots}
    if len(sizes) != 1 or None in sizes:
        raise ShapeError(
            message(
                "grad",
                "argument 'grad_outputs' with is_grads_batched",
                [None if c is None else tuple(c.shape) for c in cots],
                "cotangents with one leading batch size, one for every output",
            )
        )
    (size,) = (s for s in sizes if s is not None)
    with new_level("a batched backward", BatchInterpreter(size, "same")) as level:
        roots = []
        for o, c in zip(outs, cots, strict=True):
            node, nr = edge(o, "grad")
            if tuple(c.shape[1:]) != tuple(o.shape):
                raise ShapeError(
                    message(
                        "grad", "a batched cotangent's shape", tuple(c.shape), f"{(size, *o.shape)}"
                    )
                )
            roots.append((node, nr, wrap(level, c.to(o.dtype), 0)))
        got = run_backward(
            roots, inputs=[edge(t, "grad") for t in ins], accumulate=False, **options
        )
        return [None if g is None else unwrap(level, g, size) for g in got]
