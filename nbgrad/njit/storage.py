"""Machine code of derivatives on disk, in nbgrad's cache directory.

An entry is looked for when a call's types are first met, under a hash of all that the derivative depends on at that
moment: names may have been bound or bound again since the derivative was made. The hash is also part of the name of the
compiled function, because Numba tells functions apart by their qualified names and a count within one process, and the counts
of two processes, both in the cache, coincide.

A user's ``@njit(cache=True)`` function that calls a derivative holds a copy of its machine code, which Numba would reuse as long
as the file of that function is the same. So each derivative leaves a `Stamp` in its environment, which Numba writes and reads
with the machine code of every caller: writing, it notes the hash of the caller; reading, it compares.
"""

from __future__ import annotations

import base64
import contextlib
import pickle
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from kernels_cpu import objcache

from .fingerprint import fingerprint

# what reading an entry raises that cannot be used here: a module that is not there, a stamp of other code, a torn file
UNREADABLE = (
    ImportError,
    OSError,
    AttributeError,
    KeyError,
    ValueError,
    EOFError,
    pickle.PickleError,
)


class Storage(caching._Cache):
    """What a derivative's dispatcher asks for machine code before it compiles, and gives it to afterwards."""

    def __init__(self, function: Any, identity: Callable[[], tuple], enabled: bool):
        self.function, self.identity, self.enabled = function, identity, enabled
        self.name, self.key, self.suffix = function.__qualname__, None, ""

    @property
    def cache_path(self) -> str | None:
        """The directory, or None where nothing is kept."""
        root = objcache.cache_dir() if self.enabled else None
        return None if root is None else str(root)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature, or None."""
        target_context.refresh()
        self.key = fingerprint(*self.identity())
        self.suffix = self.key or uuid.uuid4().hex
        self.function.__qualname__ = f"{self.name}_{self.suffix}"
        if self.key is None or not self.enabled:
            return None
        found = objcache.load_text(self._entry(sig, target_context.codegen()))
        if found is None:
            return None
        try:
            result = CompileResult._rebuild(target_context, *pickle.loads(base64.b64decode(found)))
        except UNREADABLE:
            return None
        _stamp(result)
        return result

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep new machine code, unless what it was made of has changed meanwhile."""
        unchanged = self.key is not None and fingerprint(*self.identity()) == self.key
        if self.enabled and unchanged and not data.library.has_dynamic_globals:
            text = base64.b64encode(dumps(data._reduce())).decode()
            objcache.store_text(self._entry(sig, data.codegen), text)
        _stamp(data)

    def _entry(self, sig: Any, codegen: Any) -> str:
        return objcache.digest(
            "njit", self.name, str(self.key), str(sig), repr(codegen.magic_tuple()), sys.version
        )

    def enable(self) -> None:
        """Read and write entries."""
        self.enabled = True

    def disable(self) -> None:
        """Leave the disk alone."""
        self.enabled = False

    def flush(self) -> None:
        """Entries of other content are not found; there is nothing to forget."""


class Stamp:
    """Says in another process whether the machine code it was written with is still good."""

    def __reduce__(self) -> tuple:
        return _checked, (_fingerprint_of(_owner()),)


_STAMP = Stamp()


def _stamp(result: Any) -> None:
    consts = result.environment.consts
    if _STAMP not in consts:
        consts.append(_STAMP)


def _checked(key: str | None) -> Stamp:
    """A stamp that is read: Numba takes an OSError for a missing entry, and compiles."""
    cache = _owner()
    if key is None or key != _fingerprint_of(cache):
        if cache is not None:  # wrappers of ufuncs are kept apart, without environments
            for prefix in filter(None, caching._lib_cache_prefixes):
                index = Path(cache._cache_path, f"{prefix}-{cache._cache_file._index_name}")
                with contextlib.suppress(OSError):
                    index.unlink()
        raise FileNotFoundError("nbgrad.njit: machine code made from another derivative")
    return _STAMP


def _owner() -> Any:
    """The cache of the function whose machine code is being written or read; None if it cannot be told."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        cache = frame.f_locals.get("self")
        if isinstance(cache, caching.Cache):
            return cache
        frame = frame.f_back
    return None


def _fingerprint_of(cache: Any) -> str | None:
    return None if cache is None else fingerprint(cache._py_func)
