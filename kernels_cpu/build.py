"""Turn the source text of a loop into a NumPy ufunc or generalised ufunc.

Every CPU kernel is one function with NumPy's loop signature ``(args, dims, steps, data)``: addresses of
the operands, loop lengths, byte strides. NumPy then does broadcasting, allocation, strides and releasing the GIL,
and a call costs about 0.4 us. The loop is compiled by Numba as a C callback (no Python API inside).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
from pathlib import Path
from typing import Any

import numpy as np

from . import objcache

# Bump when the runtime helpers below a generated loop change their meaning.
ABI = "1"

_lock = threading.RLock()
_keep: list = []


@functools.cache
def helpers_digest() -> str:
    """Hash of the sources behind the names in a loop: Numba does not hash callees, so the key must."""
    here = Path(__file__).parent
    files = [here / f"{n}.py" for n in ("codes", "intrinsics", "namespace", "pointers")]
    h = hashlib.sha256()
    for path in (*files, *sorted((here / "vecmath").glob("*.py"))):
        h.update(path.read_bytes())
    return h.hexdigest()


def compile_loop(source: str, entry: str = "k") -> int:
    """Address of the machine code of ``entry`` in ``source``, compiled or from the disk cache.

    The source may use the names of `kernels_cpu.namespace`.
    """
    key = objcache.digest(ABI, helpers_digest(), source, entry)
    with _lock:
        address = objcache.load(key)
        if address is None:
            address = _compile(source, entry, key)
    return address


def _compile(source: str, entry: str, key: str) -> int:
    from numba import cfunc, types

    from .namespace import NAMESPACE

    scope = dict(NAMESPACE)
    scope["__name__"] = __name__
    exec(compile(source, f"<nbgrad kernel {key[:12]}>", "exec"), scope)
    i64p = types.CPointer(types.int64)
    made: Any = cfunc(
        types.void(i64p, i64p, i64p, types.voidptr), error_model="numpy", fastmath={"contract"}
    )(scope[entry])
    _keep.append(made)
    objcache.store(key, made._library._get_compiled_object(), made._wrapper_name)
    return made.address


def _ufunc_factory() -> Any:
    """NumPy's C function that makes a generalised ufunc from loops (slot 31 of its ufunc API table).

    Called through ctypes so that kernels from the disk cache need neither Numba nor a C extension.
    """
    from numpy._core import _multiarray_umath

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = (ctypes.c_void_p * 32).from_address(get(_multiarray_umath._UFUNC_API, None))
    pointers, text, number = ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_int
    arguments = (pointers, pointers, text, number, number, number, number, text, text, number, text)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(table[31])


_factory: Any = None


def make_ufunc(
    name: str,
    address: int,
    dtypes: list[np.dtype],
    nin: int,
    signature: str | None = None,
) -> np.ufunc:
    """Wrap a loop's address as a NumPy (g)ufunc with exactly one type signature."""
    global _factory
    if _factory is None:
        _factory = _ufunc_factory()
    loops = (ctypes.c_void_p * 1)(address)
    data = (ctypes.c_void_p * 1)(None)
    kinds = bytes(np.dtype(d).num for d in dtypes)
    label = name.encode()
    core = None if signature is None else signature.encode()
    _keep.append((loops, data, kinds, label, core))  # NumPy keeps pointers to these
    no_identity = -1
    return _factory(
        loops, data, kinds, 1, nin, len(dtypes) - nin, no_identity, label, label, 0, core
    )
