"""The Tensor: autograd state over a value.

The value (``_data``) is a NumPy array, a device array, or a transform's value (tape, batched, dual, series). The
methods are installed from the operator registry by ``nbgrad/__init__.py``; this module holds only the state.

Slots
-----
``_data``  the value.
``_node``  the graph edge: None without gradient, an ``AccumulateGrad`` for a leaf, else the node that made it.
``_nr``    which output of the node this is.
``_ver``   version cell ``[birth + count, last in-place operation]``, shared by all tensors over one storage;
           ``birth`` (a multiple of ``EPOCH``) tells in which transform call the storage was made.
``_meta``  None, or a `Meta` with the rare things: view relation, retained gradient, name.
"""

from __future__ import annotations

from _thread import allocate_lock
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import AutogradError, TraceError
from .layout import Layout

if TYPE_CHECKING:
    from .autograd.graph import Node

EPOCH = 1 << 32
_birth = 0
_birth_lock = allocate_lock()


def new_epoch() -> int:
    """Tensors made from now on are younger than the returned birth mark.

    A transform calls this when it starts, so that an in-place write can tell the function's own tensors from those
    that came from outside.
    """
    global _birth
    with _birth_lock:  # marks must never go back
        _birth += EPOCH
        return _birth


class Level:
    """A live transform (vmap, jvp, Taylor, trace): values made by it belong to it until it ends."""

    __slots__ = ("alive", "index", "interpreter", "name")

    def __init__(self, index: int, name: str, interpreter: Any):
        self.index, self.name, self.interpreter, self.alive = index, name, interpreter, True

    def __repr__(self) -> str:
        return f"<level {self.index} {self.name}{'' if self.alive else ' (ended)'}>"


class Value:
    """Base of the values transforms put under a Tensor; subclasses set ``level, shape, dtype``."""

    __slots__ = ("dtype", "level", "shape")
    level: Level
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for s in self.shape:
            n *= s
        return n


class Meta:
    """Rare per-tensor state: a view's base and layout, a retained gradient, a manual gradient.

    The class attributes are the defaults: most records (those of views) set three fields.
    """

    base: Tensor | None = None
    layout: Layout | None = None
    seen: int = 0
    grad: Tensor | None = None
    retain: bool = False
    inference: bool = False
    detached: bool = False
    no_grad: bool = False
    history: int = 0
    frozen: str = ""
    name: str | None = None
    root: Any = None  # what a norm was taken of: see ops/norm.py

    def ordinary(self, version: int) -> bool:
        """Whether the general path would treat the tensor like one without a record (a fresh view, say)."""
        if self.inference or self.root is not None:
            return False
        return self.base is None or self.seen == version


class Tensor:
    """A multi-dimensional array that can take part in automatic differentiation.

    Make one with ``ng.tensor``, ``ng.from_numpy`` or a factory such as ``ng.zeros``.
    """

    __slots__ = ("__weakref__", "_data", "_meta", "_node", "_nr", "_ver")

    def __init__(
        self, data: Any, node: Node | None = None, nr: int = 0, ver: list | None = None, meta=None
    ):
        self._data = data
        self._node = node
        self._nr = nr
        self._ver: list[Any] = [_birth] if ver is None else ver
        self._meta: Meta | None = meta

    if TYPE_CHECKING:  # installed from the registry, see nbgrad/methods.py

        def __getattr__(self, name: str) -> Any: ...
        def _invalidate(self) -> None: ...
        def __iter__(self) -> Any: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions, a tuple."""
        return Size(self._data.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype (a NumPy dtype)."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._data.shape)


class Freed:
    """What a tensor holds after the memory scope it was made in has ended: any use raises."""

    def __getattr__(self, name: str) -> Any:
        raise AutogradError(
            "this tensor was made inside a memory scope that has ended; keep it with "
            "`s.keep(tensor)` inside the with block, or clone() what you need outside."
        )


def shallow(t: Tensor) -> Tensor:
    """Another Tensor object with the same value, edge and version cell."""
    return Tensor(t._data, t._node, t._nr, t._ver)


class Size(tuple):
    """A shape: a tuple with ``numel()`` that prints as ``Size([2, 3])``."""

    __slots__ = ()

    def numel(self) -> int:
        """Number of elements."""
        n = 1
        for s in self:
            n *= s
        return n

    def __repr__(self) -> str:
        return f"Size({list(self)})"


def level_of(data: Any) -> Level | None:
    """The live level a value belongs to, or None for arrays.

    Raises
    ------
    TraceError : the transform that made the value has ended.
    """
    if isinstance(data, Value):
        level = data.level
        if not level.alive:
            raise TraceError(
                f"a tensor made inside {level.name} was used after {level.name} returned; return it "
                "from the transformed function instead of keeping a reference to it"
            )
        return level
    return None
