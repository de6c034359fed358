"""Turn the source text of a loop into a NumPy ufunc or generalised ufunc.

Every CPU kernel is one function with NumPy's loop signature ``(args, dims, steps, data)``: addresses of
the operands, loop lengths, byte strides. NumPy then does broadcasting, allocation, strides and releasing the GIL,
and a call costs about 0.4 us. The loop is compiled by Numba as a C callback (no Python API inside).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from . import objcache, pointers

# Bump when the runtime helpers below a generated loop change their meaning.
ABI = "1"

_lock = threading.RLock()
_keep: list = []


def compile_loop(source: str, entry: str, namespace: dict[str, Any], salt: str = "") -> int:
    """Compile (or load from disk) ``entry`` of ``source`` and return its address.

    ``namespace`` holds the globals of the source; their identity must be fixed by ``salt``, because
    the disk cache sees only text.
    """
    key = objcache.digest(ABI, pointers.source_digest(), salt, source, entry)
    with _lock:
        address = objcache.load(key)
        if address is None:
            address = _compile(source, entry, namespace, key)
    return address


def _compile(source: str, entry: str, namespace: dict[str, Any], key: str) -> int:
    from numba import cfunc, types

    scope = dict(pointers.NAMESPACE)
    scope.update(namespace)
    scope["__name__"] = __name__
    exec(compile(source, f"<nbgrad kernel {key[:12]}>", "exec"), scope)
    i64p = types.CPointer(types.int64)
    made = cfunc(
        types.void(i64p, i64p, i64p, types.voidptr), error_model="numpy", fastmath={"contract"}
    )(scope[entry])
    _keep.append(made)
    objcache.store(key, made._library._get_compiled_object(), made._wrapper_name)
    return made.address


def make_ufunc(
    name: str,
    address: int,
    dtypes: list[np.dtype],
    nin: int,
    signature: str | None = None,
) -> np.ufunc:
    """Wrap a loop's address as a NumPy (g)ufunc with exactly one type signature."""
    from numba.np.ufunc import _internal

    nums = [np.dtype(d).num for d in dtypes]
    args: list[Any] = [name, name, [address], [nums], nin, len(nums) - nin, [None], None]
    args.append(_internal.PyUFunc_None)
    if signature is not None:
        args.append(signature)
    return _internal.fromfunc(*args)
