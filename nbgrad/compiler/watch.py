"""What a traced function read from outside its arguments, so that a change is noticed before the next call.

A trace bakes in everything it did not get as an argument: numbers and containers in closures and globals, attributes of
objects, contents of NumPy arrays. `Watch` looks at what the function's code can reach, through its helpers
too, and compares it with what was there; a difference means that the function must be traced again.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..tensor import Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OWN = ("nbgrad", "numpy", "scipy", "numba", "builtins", "math", "functools", "itertools", "typing")
_DEPTH = 4  # containers and objects inside each other
_MOST = 5000  # places watched at most


class Watch:
    """The places a function reads and what was there."""

    def __init__(self, fn: Callable):
        self.places: list[tuple[Any, Any, Any, str]] = []  # holder, key, value, what
        self.arrays: list[tuple[np.ndarray, np.ndarray, str]] = []
        self._seen: set[Any] = set()
        self._function(fn, 0)
        self._seen.clear()

    def changed(self, captured: list[Tensor]) -> str:
        """What has changed, or an empty string.

        A tensor replaced by another one of its kind (``w = w - rate * g``) is no change: the new one takes its
        position in ``captured``, provided that all places that held the old one hold the new one.
        """
        moved: dict[int, tuple[Tensor, str]] = {}
        kept: dict[int, str] = {}
        for holder, key, value, what in self.places:
            now = _get(holder, key)
            if now is value or _same_number(now, value):
                if isinstance(value, Tensor):
                    kept[id(value)] = what
            elif not (isinstance(now, Tensor) and isinstance(value, Tensor)):
                return f"{what} has changed"
            else:
                first, _ = moved.setdefault(id(value), (now, what))
                if first is not now or not _alike(now, value):
                    return f"{what} has changed"
        for old, (_, what) in moved.items():
            if old in kept:
                return f"{what} has changed"
        if moved:
            self._move(moved, captured)
        for array, before, what in self.arrays:
            if not np.array_equal(array, before, equal_nan=array.dtype.kind in "fc"):
                return f"{what}, a NumPy array, has changed"
        return ""

    def _move(self, moved: dict[int, tuple[Tensor, str]], captured: list[Tensor]) -> None:
        captured[:] = [moved[id(t)][0] if id(t) in moved else t for t in captured]
        self.places = [
            (h, k, moved[id(v)][0] if id(v) in moved else v, what) for h, k, v, what in self.places
        ]

    # -- collecting -------------------------------------------------------------------------------
    def _function(self, fn: Any, depth: int) -> None:
        """Closure, globals, defaults and object of a function."""
        while isinstance(fn, functools.partial):
            self._value(fn.args, "an argument of a partial", set(), depth)
            self._value(fn.keywords, "an argument of a partial", set(), depth)
            fn = fn.func
        names: set[str] = set()
        if isinstance(fn, types.MethodType):
            names = set(_names(fn.__func__.__code__)) if _python(fn.__func__) else set()
            self._value(fn.__self__, "the method's object", names, depth)
            fn = fn.__func__
        elif not _python(fn) and _python(vars(type(fn)).get("__call__")):
            call = vars(type(fn))["__call__"]
            names = set(_names(call.__code__))
            self._value(fn, "the callable", names, depth)
            fn = call
        fn = getattr(fn, "fn", fn) if not _python(fn) else fn  # a compiled function
        if not _python(fn) or id(fn) in self._seen or _foreign(fn):
            return
        self._seen.add(id(fn))
        names = set(_names(fn.__code__))
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            self._place(cell, "cell_contents", f"the closure variable '{name}'", names, depth)
        for name in names:
            if name in fn.__globals__:
                self._place(fn.__globals__, name, f"the global '{name}'", names, depth)
        for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
            self._value(value, "a default value", names, depth)

    def _place(self, holder: Any, key: Any, what: str, names: set[str], depth: int) -> None:
        value = _get(holder, key)
        if value is _MISSING or len(self.places) > _MOST:
            return
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in _OWN:
            return
        self.places.append((holder, key, value, what))
        self._value(value, what, names, depth)

    def _value(self, value: Any, what: str, names: set[str], depth: int) -> None:
        """Look into a value."""
        if isinstance(value, type):
            for name in sorted(names & set(vars(value))):
                if isinstance(vars(value)[name], (*_PLAIN[:-1], Tensor, np.ndarray)):
                    self._place(
                        vars(value), name, f"attribute '{name}' of {what}", names, depth + 1
                    )
            return
        if isinstance(value, (*_PLAIN, Tensor)) or id(value) in self._seen or depth > _DEPTH:
            return
        if isinstance(value, np.ndarray):
            self._seen.add(id(value))
            self.arrays.append((value, value.copy(), what))
        elif callable(value) and (_python(value) or hasattr(value, "__func__")):
            self._function(value, depth + 1)
        elif isinstance(value, (list, tuple, dict)):
            self._seen.add(id(value))
            items = value.items() if isinstance(value, dict) else enumerate(value)
            self.places.append((len, value, len(value), f"the size of {what}"))
            for k, _ in list(items):
                self._place(value, k, f"item {k!r} of {what}", names, depth + 1)
        else:
            self._object(value, what, names, depth)

    def _object(self, value: Any, what: str, names: set[str], depth: int) -> None:
        key = (id(value), frozenset(names))
        if key in self._seen:
            return
        self._seen.add(key)
        space = getattr(value, "__dict__", None)
        if type(value).__module__.partition(".")[0] in _OWN:
            if callable(value):
                self._function(value, depth + 1)
            return
        for name in list(names):
            found = _class_attribute(value, name)
            if isinstance(found, property) and _python(found.fget):
                names = names | set(_names(found.fget.__code__))  # type: ignore[union-attr]
            elif found is not None:
                owner = next(c for c in type(value).__mro__ if name in vars(c))
                self._place(
                    vars(owner), name, f"class attribute '{name}' of {what}", names, depth + 1
                )
        wide = names & {"getattr", "vars", "__dict__"}  # attributes by names we cannot see
        for name in sorted(set(space or ()) if wide else names & set(space or ())):
            self._place(space, name, f"attribute '{name}' of {what}", names, depth + 1)
        for name in names:
            method = getattr(type(value), name, None)
            if isinstance(method, types.FunctionType):
                inner = names | set(_names(method.__code__))
                for extra in sorted((inner - names) & set(space or ())):
                    self._place(space, extra, f"attribute '{extra}' of {what}", inner, depth + 1)
                self._function(method, depth + 1)
        if callable(value):
            self._function(value, depth + 1)


def _class_attribute(value: Any, name: str) -> Any:
    """Data or a property that an object's class defines under a name, or None."""
    for owner in type(value).__mro__:
        if name in vars(owner):
            found = vars(owner)[name]
            data = isinstance(
                found, (*_PLAIN[:-1], Tensor, np.ndarray, list, tuple, dict, property)
            )
            return found if data else None
    return None


class _Missing:
    pass


_MISSING = _Missing()


def _get(holder: Any, key: Any) -> Any:
    """The value in a place now."""
    if holder is len:
        return len(key)
    try:
        return holder.cell_contents if isinstance(holder, types.CellType) else holder[key]
    except (ValueError, KeyError, IndexError, TypeError):
        return _MISSING


def _same_number(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, _PLAIN) and bool(a == b or (a != a and b != b))


def _alike(a: Tensor, b: Tensor) -> bool:
    """Whether one tensor can stand for another in a trace."""
    return a.shape == b.shape and a.dtype == b.dtype and (a._node is None) == (b._node is None)


def _python(fn: Any) -> bool:
    return isinstance(fn, types.FunctionType)


def _foreign(fn: Any) -> bool:
    """Whether a function belongs to a library whose globals do not change."""
    return str(getattr(fn, "__module__", "")).partition(".")[0] in _OWN


def _names(code: types.CodeType) -> Iterator[str]:
    """Names a code object and the functions inside it refer to."""
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _names(c)
