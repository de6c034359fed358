"""A content hash of a function: its code, the constants and the functions it refers to, all the way down.

Numba's disk cache does not look at callees; machine code of generated functions is kept under this hash, so a change
anywhere below gives another entry and never stale machine code. What cannot be hashed by content is not cached.
"""

from __future__ import annotations

import enum
import hashlib
import types as pytypes
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.types.abstract import Type

_LIBRARIES = ("numpy", "numba", "math", "scipy", "builtins", "operator", "cmath")
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(Ellipsis),
    np.generic,
    np.dtype,
    Type,
)


class OpaqueError(Exception):
    """Something whose content is not known, so that a change of it would not be noticed."""


def fingerprint(*parts: Any) -> str | None:
    """A hash of functions and options; None if they depend on objects that have no content to hash."""
    h = hashlib.sha256(own_sources().encode())
    seen: dict[int, int] = {}
    try:
        for p in parts:
            _feed(h, p, seen)
    except OpaqueError:
        return None
    return h.hexdigest()[:24]


@lru_cache(maxsize=1)
def own_sources() -> str:
    """A hash of this package and of Numba and NumPy: other versions give other code."""
    h = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    root = Path(__file__).parent
    for path in sorted([*root.rglob("*.py"), *(root.parent / "ops").glob("*.py")]):
        h.update(path.name.encode())
        s = path.stat()
        h.update(f"{s.st_size},{s.st_mtime_ns}".encode())
    return h.hexdigest()


def _feed(h: Any, x: Any, seen: dict[int, int]) -> None:
    """Add an object."""
    options = getattr(x, "targetoptions", {})
    while hasattr(x, "_nbgrad_identity"):
        x = x._nbgrad_identity
    if isinstance(x, enum.Enum):
        x = (type(x).__qualname__, x.name, x.value)
    if isinstance(x, tuple | list | frozenset | set):
        items = sorted(x, key=repr) if isinstance(x, frozenset | set) else x
        h.update(f"{type(x).__module__}.{type(x).__qualname__}({len(x)}".encode())
        _feed_names(h, x)
        for i in items:
            _feed(h, i, seen)
    elif isinstance(x, np.ndarray):
        if x.dtype.hasobject:
            raise OpaqueError
        h.update(f"{x.dtype}{x.shape}".encode() + x.tobytes())
    elif isinstance(x, pytypes.CodeType):
        h.update(x.co_code)
        for c in (*x.co_consts, *x.co_names, *x.co_varnames):
            _feed(h, c, seen)
    elif isinstance(x, _PLAIN):
        h.update(f"{type(x).__qualname__}:{x!r};".encode())
    else:
        _feed_object(h, x, seen)
    h.update(repr(sorted((k, str(v)) for k, v in options.items() if k != "cache")).encode())


def _feed_object(h: Any, x: Any, seen: dict[int, int]) -> None:
    """Functions, dispatchers, classes; whatever else there is belongs to a library or is opaque."""
    f = getattr(x, "py_func", x)
    f = getattr(getattr(f, "_dispatcher", None), "py_func", f)
    home = (getattr(f, "__module__", None) or "").split(".")[0]
    if id(f) in seen:
        h.update(f"seen{seen[id(f)]}".encode())
        return
    seen[id(f)] = len(seen)
    if home in _LIBRARIES or isinstance(f, np.ufunc | pytypes.BuiltinFunctionType):
        h.update(f"{home}.{getattr(f, '__qualname__', None) or f!r}".encode())
    elif isinstance(f, pytypes.FunctionType):
        _feed_function(h, f, seen)
    elif isinstance(f, type):
        h.update(f"{f.__module__}.{f.__qualname__}".encode())
        _feed_names(h, f)
        for name, value in sorted(vars(f).items()):
            if not name.startswith("__") and isinstance(
                value, (*_PLAIN, enum.Enum, pytypes.FunctionType)
            ):
                h.update(name.encode())
                _feed(h, value, seen)
    elif isinstance(f, pytypes.ModuleType):
        h.update(f.__name__.encode())  # what is used of it, its user feeds
    else:
        raise OpaqueError


def _feed_names(h: Any, x: Any) -> None:
    """The names of a named tuple's fields."""
    h.update(repr(getattr(x, "_fields", ())).encode())


def _feed_function(h: Any, f: pytypes.FunctionType, seen: dict[int, int]) -> None:
    """A function: code, defaults, closure, and the globals it names."""
    h.update(f"{f.__module__}.{f.__qualname__}".encode())
    _feed(h, f.__code__, seen)
    _feed(h, f.__defaults__ or (), seen)
    names = set(_names(f.__code__))
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            _feed_named(h, name, cell.cell_contents, names, seen)
        except ValueError:
            h.update(b"empty")
    for name in sorted(names):
        if name in f.__globals__:
            _feed_named(h, name, f.__globals__[name], names, seen)


def _feed_named(h: Any, name: str, value: Any, names: set[str], seen: dict[int, int]) -> None:
    """What a name stands for; of a user's module, what may be used of it."""
    h.update(name.encode())
    if not isinstance(value, pytypes.ModuleType):
        _feed(h, value, seen)
    elif value.__name__.split(".")[0] not in (*_LIBRARIES, "nbgrad") and id(value) not in seen:
        seen[id(value)] = len(seen)
        for inner in sorted(names & vars(value).keys()):
            _feed_named(h, f"{name}.{inner}", vars(value)[inner], names, seen)


def _names(code: pytypes.CodeType) -> Iterator[str]:
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, pytypes.CodeType):
            yield from _names(c)
