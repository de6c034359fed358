"""``vmap``: map a function over a batch dimension, vectorised by the operators' batching rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ArgumentError, ShapeError, message
from ..op import as_tensor
from ..tensor import Tensor
from ..utils import pytree
from .flat import flat_vmap


def vmap(
    fn: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable:
    """Map ``fn`` over a batch dimension of its arguments, vectorised.

    Parameters
    ----------
    in_dims : the batch dimension of each argument (an integer, None, or a structure of them).
    out_dims : where the batch goes in the outputs: an integer, None (an output that does not depend on the batch
        keeps its shape), or a structure of them.
    chunk_size : batch members processed at a time (None: all).
    randomness : ``"error"``, ``"same"`` or ``"different"`` for random operators inside.

    Raises
    ------
    ShapeError : no batched argument, batch sizes that differ, a dimension out of range.
    ArgumentError : ``in_dims``/``out_dims`` that do not fit, an unknown ``randomness``, a chunk size below 1.
    """
    _check_options(chunk_size, randomness)
    if not callable(fn):
        raise ArgumentError(message("vmap", "the function", repr(fn), "a callable"))

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.flatten(args)
        dims = _spread(in_dims, args, leaves)
        tensors = [
            as_tensor(x, "vmap") if d is not None else x for x, d in zip(leaves, dims, strict=True)
        ]
        size = _batch_size(tensors, dims)
        trees: list[Any] = []
        places: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            out, out_tree = pytree.flatten(fn(*pytree.unflatten(tree, xs), **kwargs))
            trees.append(out_tree)
            places[:] = _out_places(out_dims, out_tree)
            return out

        step = size if chunk_size is None else chunk_size
        parts = []
        for lo in range(0, max(size, 1), max(step, 1)):
            cut, n = _chunk(tensors, dims, lo, min(lo + step, size), size)
            parts.append(flat_vmap(flat, cut, dims, n, places, randomness))
        done = parts[0] if len(parts) == 1 else _join(parts, places)
        return pytree.unflatten(trees[0], done)

    return wrapped


def _check_options(chunk_size: Any, randomness: Any) -> None:
    if randomness not in ("error", "same", "different"):
        raise ArgumentError(
            message("vmap", "argument 'randomness'", randomness, "'error', 'same' or 'different'")
        )
    if chunk_size is not None and chunk_size < 1:
        raise ArgumentError(
            message("vmap", "argument 'chunk_size'", chunk_size, "None or a positive integer")
        )


def _out_places(out_dims: Any, tree: pytree.TreeDef) -> list[int | None]:
    """Where the batch goes in each flat output; ``out_dims`` may be a prefix of the outputs' structure."""
    if out_dims is None or isinstance(out_dims, int):
        return [out_dims] * tree.num_leaves
    entries = list(out_dims.values()) if isinstance(out_dims, dict) else list(out_dims)
    children = tree.children
    if isinstance(out_dims, dict):
        by_key = dict(zip(tree.keys, tree.children, strict=False))
        children = tuple(by_key[k] for k in out_dims if k in by_key)
        entries = [out_dims[k] for k in tree.keys if k in out_dims]
        children = tuple(by_key[k] for k in tree.keys if k in out_dims)
    if len(entries) != len(tree.children) or len(children) != len(tree.children):
        raise ArgumentError(
            message("vmap", "argument 'out_dims'", out_dims, "the structure of the outputs")
        )
    return [p for d, c in zip(entries, children, strict=True) for p in _out_places(d, c)]


def _join(parts: Sequence[Sequence[Tensor]], places: Sequence[int | None]) -> list[Tensor]:
    """The chunks' outputs put together."""
    from .. import cat

    columns = zip(zip(*parts, strict=True), places, strict=True)
    return [c[0] if d is None else cat(list(c), d) for c, d in columns]


def _chunk(
    tensors: Sequence[Any], dims: Sequence[Any], lo: int, hi: int, size: int
) -> tuple[list, int]:
    """Batch members ``lo`` to ``hi`` of every batched argument."""
    if lo == 0 and hi == size:
        return list(tensors), size
    cut = [x if d is None else x.narrow(d, lo, hi - lo) for x, d in zip(tensors, dims, strict=True)]
    return cut, hi - lo


def _spread(in_dims: Any, args: Any, leaves: Sequence[Any]) -> list[int | None]:
    """One batch dimension per leaf from a prefix structure."""
    if in_dims is None or isinstance(in_dims, int):
        return [in_dims] * len(leaves)
    entries = list(in_dims.values()) if isinstance(in_dims, dict) else list(in_dims)
    if len(entries) != len(args):
        raise ArgumentError(message("vmap", "argument 'in_dims'", in_dims, f"{len(args)} entries"))
    if isinstance(in_dims, dict):
        missing = [k for k in args if k not in in_dims]
        if missing:
            raise ArgumentError(
                message("vmap", "argument 'in_dims'", in_dims, f"key {missing[0]!r}")
            )
        pairs = [(in_dims[k], args[k]) for k in args]
    else:
        pairs = list(zip(entries, args, strict=True))
    return [p for d, a in pairs for p in _spread(d, a, pytree.flatten(a)[0])]


def _batch_size(tensors: Sequence[Any], dims: Sequence[int | None]) -> int:
    sizes = set()
    for x, d in zip(tensors, dims, strict=True):
        if d is not None:
            if not -x.ndim <= d < x.ndim:
                raise ShapeError(
                    message(
                        "vmap", "argument 'in_dims'", d, f"a dimension of shape {tuple(x.shape)}"
                    )
                )
            sizes.add(x.shape[d])
    if not sizes:
        raise ShapeError(
            message("vmap", "argument 'in_dims'", "None for every argument", "a batched argument")
        )
    if len(sizes) != 1:
        raise ShapeError(
            message("vmap", "the batch sizes of the arguments", sorted(sizes), "one common size")
        )
    return sizes.pop()
