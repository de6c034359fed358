"""Addresses of many arrays at once.

``ndarray.ctypes.data`` costs 0.7 us. An array object holds its data pointer at a fixed place (NumPy's ABI); a small
function reads them all. Where a check at first use finds another layout of the object, the slow way is taken.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence

import numpy as np

from ..objcache import keep
from .jit import attributes, compile_text
from .text import Function, Module, Value

_HEADER = object.__basicsize__  # the data pointer follows the object's header


@functools.cache
def _reader() -> Callable | None:
    """``read(objects, n, table)``: copies the data pointers of n array objects into a table; None if that fails."""
    module = Module()
    objects, n, table = Value("%objects", "ptr"), Value("%n", "i64"), Value("%table", "ptr")
    fn = Function(module, "read", [objects, n, table], attributes=attributes())

    def one(i: Value) -> None:
        array = fn.load(fn.at(objects, i, "ptr"), "ptr")
        data = fn.load(fn.at(array, _HEADER, "i8"), "ptr")
        fn.store(data, fn.at(table, i, "ptr"), 8)

    fn.loop(0, n, 1, one)
    fn.finish()
    address = keep(compile_text(module.text(), "read"))
    read = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(address)
    samples = [np.arange(3.0), np.zeros((2, 2))[1:], np.empty(0)]
    out = np.zeros(len(samples), np.int64)
    ids = np.array([id(a) for a in samples])
    read(ids.ctypes.data, len(samples), out.ctypes.data)
    good = [int(p) for p in out] == [a.ctypes.data for a in samples]
    return read if good else None


class Binder:
    """Writes the addresses of ``n`` arrays into a table of pointers."""

    def __init__(self, n: int, table: int):
        self.n, self.table = n, table
        self.ids = (ctypes.c_int64 * max(n, 1))()
        self.address = ctypes.addressof(self.ids)
        self.read = _reader()

    def __call__(self, arrays: Sequence[np.ndarray]) -> None:
        """Bind arrays; the caller keeps them alive."""
        if self.read is None:
            data = [a.ctypes.data for a in arrays]
            ctypes.memmove(self.table, (ctypes.c_int64 * self.n)(*data), 8 * self.n)
            return
        self.ids[: self.n] = [id(a) for a in arrays]
        self.read(self.address, self.n, self.table)
