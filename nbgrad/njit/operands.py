"""What goes into a compiled function called on tensors, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype as numpy_dtype

from .. import dtypes
from ..errors import DTypeError, message


class Results:
    """What a call with arguments of some types returns: the tree of its numbers and arrays, their dtypes and ranks."""

    def __init__(self, name: str, kind: Any, written: Sequence[Any]):
        self.none = isinstance(kind, types.NoneType)
        self.name = name
        self.dtypes: list[np.dtype] = []
        self.ranks: list[int] = []
        items = [t for t in written if numpy_dtype(t.dtype).kind in "fc"] if self.none else []
        tree = (types.Tuple(items) if len(items) != 1 else items[0]) if items else kind
        self.tree = self._walk(tree)

    def _walk(self, t: Any) -> Any:
        if isinstance(t, types.BaseTuple):
            return (
                getattr(t, "instance_class", tuple),
                [self._walk(types.unliteral(i)) for i in t.types],
            )
        if not isinstance(t, types.Array | types.Number | types.Boolean):
            what = (
                "an array or a number, or a tuple of them"
                if t is not types.none
                else ("a result, or arguments of floating dtype that the function writes to")
            )
            raise DTypeError(message("njit.operator", f"the result of '{self.name}'", t, what))
        dtype = numpy_dtype(t.dtype if isinstance(t, types.Array) else t)
        self.dtypes.append(dtypes.as_dtype(dtype, "njit.operator"))
        self.ranks.append(t.ndim if isinstance(t, types.Array) else -1)
        return len(self.dtypes) - 1

    def flat(self, value: Any) -> list[np.ndarray]:
        """The numbers and arrays of a returned value."""
        found: list[Any] = []

        def walk(v: Any) -> None:
            if isinstance(v, tuple):
                for i in v:
                    walk(i)
            else:
                found.append(v)

        walk(value)
        return [np.asarray(v, d) for v, d in zip(found, self.dtypes, strict=True)]

    def rebuilt(self, outs: Sequence[Any], tree: Any = None) -> Any:
        """A returned value from its numbers and arrays."""
        tree = self.tree if tree is None else tree
        if isinstance(tree, int):
            return outs[tree]
        items = [self.rebuilt(outs, t) for t in tree[1]]
        return tree[0](*items) if hasattr(tree[0], "_fields") else tuple(items)


class Constants:
    """Arguments that are no tensors; equal only with equal types, so that a tape merges no calls that differ."""

    def __init__(self, items: tuple):
        self.items, self.key = items, repr(items)

    def __repr__(self) -> str:
        return self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constants) and self.key == other.key


class _Writable:
    """Memory seen as writable, for code that does not write: Numba has other types for read-only arrays."""

    def __init__(self, a: np.ndarray):
        face = a.__array_interface__
        self.__array_interface__ = {**face, "data": (face["data"][0], False)}
        self.owner = a


def argument(a: np.ndarray) -> Any:
    """What a compiled function gets of a tensor's memory: itself, or a number."""
    if a.ndim == 0:
        return a[()]
    return a if a.flags.writeable else np.asarray(_Writable(a))


def owned(arrays: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays, copied where they share memory with others or among themselves."""
    found: list[np.ndarray] = []
    for a in arrays:
        shared = any(np.may_share_memory(a, b) for b in (*others, *found))
        found.append(a.copy() if shared or not a.flags.writeable else a)
    return found
