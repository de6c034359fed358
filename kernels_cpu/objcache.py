"""Machine code of generated loops on disk, loaded with llvmlite alone.

Numba needs ~0.3 s for the first function it compiles *or* loads in a process. A compiled loop is a
self-contained object file, so it is stored as such and linked by llvmlite in about 1 ms. Entries are named by a
content hash of the source, the constants, the versions of Numba and llvmlite and the CPU with its features; a
corrupt entry is recompiled, writing is atomic (rename), the directory is private to the user (0700).
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.metadata
import os
import re
import stat
import sys
import tempfile
import threading
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

_MAGIC = b"NBGO1\n"
_lock = threading.RLock()
_engines: list = []
_target = None


def cache_dir() -> Path | None:
    """The cache directory, or None where it cannot be made private or caching is off.

    ``NBGRAD_CACHE_DIR`` overrides the place; ``NBGRAD_CACHE_DIR=off`` turns the disk cache off.
    """
    chosen = os.environ.get("NBGRAD_CACHE_DIR")
    if chosen == "off":
        return None
    if chosen:
        path = Path(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        path = Path(base) / "nbgrad"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.stat()
        if hasattr(os, "getuid") and (info.st_uid != os.getuid() or info.st_mode & stat.S_IWOTH):
            return None
    except OSError:
        return None
    return path


def digest(*parts: str) -> str:
    """Content hash of a generated kernel together with everything its machine code depends on."""
    h = hashlib.sha256()
    for part in (*parts, *_environment()):
        h.update(part.encode())
        h.update(b"\0")
    return h.hexdigest()[:40]


_env: tuple[str, ...] = ()


def _environment() -> tuple[str, ...]:
    global _env
    if not _env:
        feats = llvm.get_host_cpu_features().flatten()
        _env = (
            importlib.metadata.version("numba"),
            llvmlite.__version__,
            llvm.get_host_cpu_name(),
            feats,
            sys.platform,
        )
    return _env


def target_machine():
    """The code generator for this CPU."""
    global _target
    if _target is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=3,
            jit=True,
        )
    return _target


_NEVER_CALLED = {b"numba_gil_ensure", b"numba_gil_release"}
_resolved = False


def _resolve_symbols(obj: bytes) -> None:
    """Give the linker the Numba helpers an object refers to.

    Numba's callback wrapper refers to two GIL functions on an error path that our loops do not have; so that a
    process whose kernels all come from the cache need not import Numba (0.2 s), any address serves.
    """
    global _resolved
    needed = set(re.findall(rb"\bnumba_\w+", obj)) - _NEVER_CALLED
    if needed or "numba._helperlib" in sys.modules:
        from numba import _helperlib

        for name, address in _helperlib.c_helpers.items():
            llvm.add_symbol("numba_" + name, address)
    elif not _resolved:
        unused = ctypes.cast(ctypes.pythonapi.PyErr_Clear, ctypes.c_void_p).value
        for symbol in _NEVER_CALLED:
            llvm.add_symbol(symbol.decode(), unused)
        _resolved = True


def link(obj: bytes, symbol: str) -> int:
    """Load an object file into the process; the address of one of its functions."""
    _resolve_symbols(obj)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(obj))
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    if not address:
        raise ValueError(f"symbol {symbol} not found in the cached object")
    _engines.append(engine)
    return address


def load(key: str) -> int | None:
    """Address of the function stored under ``key``, or None."""
    root = cache_dir()
    if root is None:
        return None
    path = root / key[:2] / (key + ".o")
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    try:
        if not raw.startswith(_MAGIC):
            raise ValueError("bad magic")
        head, _, obj = raw[len(_MAGIC) :].partition(b"\n")
        symbol, check = head.decode().split(" ")
        if hashlib.sha256(obj).hexdigest() != check:
            raise ValueError("bad checksum")
        with _lock:
            return link(obj, symbol)
    except (ValueError, RuntimeError, UnicodeDecodeError):
        with contextlib.suppress(OSError):
            path.unlink()
        return None


def store(key: str, obj: bytes, symbol: str) -> None:
    """Write an object file atomically; failures to write are not errors."""
    root = cache_dir()
    if root is None:
        return
    folder = root / key[:2]
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        fd, tmp = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(fd, "wb") as f:
            check = hashlib.sha256(obj).hexdigest()
            f.write(_MAGIC + f"{symbol} {check}\n".encode() + obj)
        os.replace(tmp, folder / (key + ".o"))
    except OSError:
        return
