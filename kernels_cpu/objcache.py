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
from typing import Any

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


def _new_target_machine():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )


def target_machine():
    """The code generator for this CPU."""
    global _target
    if _target is None:
        _target = _new_target_machine()
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


def link(obj: bytes, symbol: str) -> tuple[int, Any]:
    """Load an object file into the process: the address of one of its functions, and what keeps the code alive."""
    _resolve_symbols(obj)
    # an engine owns its target machine and takes it along when it dies
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _new_target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(obj))
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    if not address:
        raise ValueError(f"symbol {symbol} not found in the cached object")
    return address, engine


class Counters:
    """What the cache did in this process."""

    hits = misses = evicted = 0


def _path(key: str, suffix: str) -> Path | None:
    root = cache_dir()
    return None if root is None else root / key[:2] / (key + suffix)


def _read(path: Path | None) -> tuple[str, bytes] | None:
    """Head and content of an entry, or None; a corrupt one is removed."""
    if path is None:
        return None
    try:
        raw = path.read_bytes()
    except OSError:
        Counters.misses += 1
        return None
    try:
        if not raw.startswith(_MAGIC):
            raise ValueError("bad magic")
        head, _, content = raw[len(_MAGIC) :].partition(b"\n")
        name, check = head.decode().split(" ")
        if _checksum(path, content) != check:
            raise ValueError("bad checksum")
    except (ValueError, UnicodeDecodeError):
        _forget(path)
        return None
    Counters.hits += 1
    with contextlib.suppress(OSError):
        os.utime(path)  # the least recently used entries go first
    return name, content


def _checksum(path: Path, content: bytes) -> str:
    """Of the content and its name: an entry in another one's place is corrupt, too."""
    return hashlib.sha256(path.name.encode() + b"\0" + content).hexdigest()


def _forget(path: Path) -> None:
    Counters.misses += 1
    with contextlib.suppress(OSError):
        path.unlink()


def _write(path: Path | None, name: str, content: bytes) -> None:
    """Write an entry atomically; failures to write are not errors."""
    if path is None:
        return
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fd, tmp = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(fd, "wb") as f:
            f.write(_MAGIC + f"{name} {_checksum(path, content)}\n".encode() + content)
        os.replace(tmp, path)
    except OSError:
        return
    _bound(path, len(content))


_written = 0
_SWEEP = 64 << 20  # bytes written between two looks at the size of the directory


def limit() -> int:
    """Bytes the directory may hold: ``NBGRAD_CACHE_LIMIT`` in MiB, 1024 by default."""
    text = os.environ.get("NBGRAD_CACHE_LIMIT", "")
    return (int(text) if text.isdecimal() else 1024) << 20


def _bound(path: Path, size: int) -> None:
    global _written
    _written += size
    if _written > min(_SWEEP, limit() // 4):
        _written = 0
        evict(limit(), keep=path)


def entries() -> list[tuple[float, int, Path]]:
    """Last use, size and path of all entries, the least recently used first."""
    root = cache_dir()
    found = []
    for path in root.glob("??/*.[ot]") if root is not None else ():
        with contextlib.suppress(OSError):
            info = path.stat()
            found.append((info.st_mtime, info.st_size, path))
    return sorted(found, key=lambda e: e[0])


def evict(bound: int, keep: Path | None = None) -> int:
    """Remove the least recently used entries until at most ``bound`` bytes are left; returns how many went."""
    found = entries()
    total, gone = sum(size for _, size, _ in found), 0
    for _, size, path in found:
        if total <= bound:
            break
        if path != keep:
            with contextlib.suppress(OSError):
                path.unlink()
                gone += 1
            total -= size
    Counters.evicted += gone
    return gone


def keep(loaded: tuple[int, Any]) -> int:
    """The address of code that stays loaded until the process ends."""
    _engines.append(loaded[1])
    return loaded[0]


def load(key: str) -> int | None:
    """Address of the function stored under ``key``, which stays loaded, or None."""
    found = load_code(key)
    return None if found is None else keep(found)


def load_code(key: str) -> tuple[int, Any] | None:
    """Address of the function stored under ``key`` and what keeps its code alive, or None."""
    path = _path(key, ".o")
    found = _read(path)
    if found is None or path is None:
        return None
    try:
        with _lock:
            return link(found[1], found[0])
    except (ValueError, RuntimeError):
        _forget(path)
        return None


def store(key: str, obj: bytes, symbol: str) -> None:
    """Keep an object file and the name of its function."""
    _write(_path(key, ".o"), symbol, obj)


def load_text(key: str) -> str | None:
    """The text stored under ``key``, or None."""
    found = _read(_path(key, ".t"))
    return None if found is None else found[1].decode()


def store_text(key: str, text: str) -> None:
    """Keep a text."""
    _write(_path(key, ".t"), "text", text.encode())
