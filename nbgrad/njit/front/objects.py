"""What names stand for while a function is interpreted, besides values of the intermediate form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numba import types

from .. import ir


class Tup(NamedTuple):
    """A tuple; ``cls`` is the class of a named tuple."""

    items: tuple
    cls: Any = None


class Py:
    """A Python object known when the program is transformed: a function, a module, a type, a string, None."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


class Range(NamedTuple):
    """``range(start, stop, step)``; ``parallel`` for prange, ``every`` from ``checkpoint(range(...), every=)``."""

    start: ir.Value
    stop: ir.Value
    step: ir.Value
    parallel: bool = False
    every: ir.Value | None = None


class Zip(NamedTuple):
    """``zip(...)``, and ``enumerate`` as a zip with a range from ``start``."""

    items: tuple
    start: ir.Value | None = None


class Indices(NamedTuple):
    """``np.ndindex(sizes)``; with ``array`` ``np.ndenumerate(array)``."""

    sizes: tuple
    array: Any = None


class SliceOf(NamedTuple):
    """A slice with parts that are values or None."""

    start: Any
    stop: Any
    step: Any


class Lazy(NamedTuple):
    """An array expression not yet computed: ``element(index) -> scalar`` over ``sizes``; ``reads`` are its arrays."""

    element: Callable
    sizes: tuple
    dtype: Any
    reads: tuple


class Record(NamedTuple):
    """One element of a record array, or a row of fields."""

    array: ir.Value
    index: tuple


class Method(NamedTuple):
    """A bound method, or an attribute that takes a call."""

    owner: Any
    name: str


class Closure:
    """A function defined inside another: its text, its defaults as objects, and the frame whose names it sees."""

    def __init__(self, src: Any, defaults: Sequence[Any], frame: Any):
        self.source, self.frame = src, frame
        self.__name__, self.__defaults__, self.__kwdefaults__ = src.name, tuple(defaults), None

    def _nbgrad_front(self, it: Any, args: list, kwargs: dict, node: Any) -> Any:
        """A call of it."""
        return it.inline(self, args, kwargs, node)


class Undefined:
    """A name without a value; ``why`` and ``instead`` complete the message when it is read."""

    __slots__ = ("instead", "why")

    def __init__(
        self,
        why: str = "it is not assigned on every path that leads here",
        instead: str = "Give it a value before.",
    ):
        self.why, self.instead = why, instead


def leaves(obj: Any) -> list[ir.Value] | None:
    """The values an object consists of, or None if it is no value; Python objects in a tuple (None, a text) are passed over."""
    if isinstance(obj, ir.Value):
        return [obj]
    if isinstance(obj, Tup):
        out: list[ir.Value] = []
        for x in obj.items:
            found = [] if isinstance(x, Py) else leaves(x)
            if found is None:
                return None
            out += found
        return out
    if isinstance(obj, Record):
        return [obj.array, *obj.index]
    return None


def rebuild(obj: Any, values: Sequence[ir.Value]) -> Any:
    """An object of the same structure from other values."""
    it = iter(values)

    def make(o: Any) -> Any:
        if isinstance(o, ir.Value):
            return next(it)
        if isinstance(o, Py):
            return o
        if isinstance(o, Record):
            return Record(next(it), tuple(next(it) for _ in o.index))
        return Tup(tuple(make(x) for x in o.items), o.cls)

    return make(obj)


def same_python(a: Any, b: Any) -> bool:
    """Whether two Python objects are one, or equal and of one type."""
    return a is b or (type(a) is type(b) and bool(a == b))


def same_structure(a: Any, b: Any) -> bool:
    """Whether two objects are built alike."""
    if isinstance(a, Tup) and isinstance(b, Tup):
        return len(a.items) == len(b.items) and all(map(same_structure, a.items, b.items))
    if isinstance(a, Record) and isinstance(b, Record):
        return len(a.index) == len(b.index)
    if isinstance(a, Py) and isinstance(b, Py):
        return same_python(a.value, b.value)
    return isinstance(a, ir.Value) and isinstance(b, ir.Value) and ir.is_array(a) == ir.is_array(b)


def unified(a: Any, b: Any) -> Any:
    """The type that holds values of both types, or None."""
    if a == b:
        return a
    if isinstance(a, types.Array) and isinstance(b, types.Array):
        if a.ndim != b.ndim or a.dtype != b.dtype:
            return None
        return types.Array(a.dtype, a.ndim, a.layout if a.layout == b.layout else "A")
    if isinstance(a, types.Array) or isinstance(b, types.Array):
        return None
    from ..scalars import result_type

    if isinstance(a, types.Boolean) or isinstance(b, types.Boolean):
        if a != b and (ir.is_float(a) or ir.is_float(b)):
            return None
    return result_type("add", (a, b))
