"""Functions of pytrees seen as functions of flat tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ArgumentError, message
from ..op import as_tensor
from ..tensor import Tensor, Value
from ..utils import pytree
from .flat import strip


def select(args: tuple, argnums: int | Sequence[int], op: str) -> tuple[int, ...]:
    """The differentiated positions as non-negative integers."""
    which = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in which:
        if not isinstance(i, int) or not -len(args) <= i < len(args):
            raise ArgumentError(
                message(
                    op,
                    "argument 'argnums'",
                    argnums,
                    f"positions of the {len(args)} positional arguments",
                )
            )
    found = tuple(i % len(args) for i in which)
    if len(set(found)) != len(found):
        raise ArgumentError(message(op, "argument 'argnums'", argnums, "every position once"))
    return found


class Flat:
    """A function of pytrees seen as one of flat tensors: the arguments ``which`` vary."""

    def __init__(
        self, fn: Callable, args: tuple, kwargs: dict, which: Sequence[int], has_aux: bool = False
    ):
        if not callable(fn):
            raise ArgumentError(message("func", "the function", repr(fn), "a callable"))
        self.fn, self.args, self.kwargs, self.which, self.has_aux = fn, args, kwargs, which, has_aux
        leaves, self.in_tree = pytree.flatten(tuple(args[i] for i in which))
        self.leaves = [as_tensor(x, "func") for x in leaves]
        self.out_tree: Any = None
        self.aux: Any = None

    def __call__(self, *leaves: Tensor) -> list[Any]:
        args = list(self.args)
        for i, value in zip(self.which, pytree.unflatten(self.in_tree, leaves), strict=True):
            args[i] = value
        out = self.fn(*args, **self.kwargs)
        if self.has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise ArgumentError(
                    message(
                        "func",
                        "the function's result with has_aux=True",
                        type(out).__name__,
                        "a pair (output, aux)",
                    )
                )
            out, self.aux = out
        flat, self.out_tree = pytree.flatten(out)
        return flat

    def stripped_aux(self) -> Any:
        """The auxiliary output without the graph of the transform."""
        return pytree.tree_map(lambda x: strip(x) if isinstance(x, Tensor) else x, self.aux)

    def primal_aux(self) -> Any:
        """The auxiliary output without the tangents (and batches) of transforms that have ended."""
        return pytree.tree_map(_primal, self.aux)

    def pack_in(self, flat: Sequence[Any], single: bool) -> Any:
        """Values like the varying arguments (unpacked if there is one)."""
        tree = pytree.unflatten(self.in_tree, flat)
        return tree[0] if single else tree

    def pack_out(self, flat: Sequence[Any]) -> Any:
        """Values like the result."""
        return pytree.unflatten(self.out_tree, flat)


def _primal(x: Any) -> Any:
    """The live tensor under values of ended forward-mode levels."""
    while isinstance(x, Tensor) and isinstance(x._data, Value) and not x._data.level.alive:
        inner = getattr(x._data, "primal", None)
        if inner is None and getattr(x._data, "dim", 0) is None:
            inner = x._data.tensor
        if inner is None:
            raise ArgumentError(
                message(
                    "jacfwd",
                    "an auxiliary output",
                    "a value that depends on the tangents' batch",
                    "one that depends on the arguments only",
                )
            )
        x = inner
    return x
