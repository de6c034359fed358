"""The compiler: tapes become fused, row-tiled machine code.

Only this module is loaded with nbgrad; the rest when something is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, UnsupportedError, message

if TYPE_CHECKING:
    from .api import Compiled, RecompilationWarning
    from .cache import CacheInfo
    from .program import Program

__all__ = [
    "CacheInfo",
    "Compiled",
    "Program",
    "RecompilationWarning",
    "cache_info",
    "clear_cache",
    "compile",
]

_HOME = {
    "CacheInfo": "cache",
    "Compiled": "api",
    "Program": "program",
    "RecompilationWarning": "api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nbgrad.compiler' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def cache_info() -> CacheInfo:
    """State of the disk cache of kernels and compiled programs.

    ``NBGRAD_CACHE_DIR`` chooses the directory ("off" turns it off), ``NBGRAD_CACHE_LIMIT`` its size in MiB.
    """
    from . import cache

    return cache.cache_info()


def clear_cache() -> int:
    """Remove every entry of the disk cache; returns how many went. Code in use stays loaded."""
    from . import cache

    return cache.clear_cache()


def compile(
    fn: Callable | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    device: Any = None,
    deterministic: bool = True,
    verbose: bool = False,
) -> Any:
    """Compile a function of tensors, arrays and pytrees of them; also as a decorator.

    The function is traced once per signature (shapes, dtypes, structure, values of static arguments), simplified,
    scheduled and turned into machine code, which is kept on disk. Results equal the uncompiled function's to
    rounding and take part in autograd: their backward pass is a compiled program too, to any order.

    Parameters
    ----------
    static_argnums : positions of arguments the trace may branch on; their values must be hashable. Integers, bools and
        strings are static wherever they appear; floats are 0-d tensors of the default dtype.
    device : None or "cpu"; code for other devices is not made yet.
    deterministic : results are the same, bit for bit, from run to run and for any number of threads; there is no
        other mode.
    verbose : print `Program.explain` whenever a signature is compiled.

    Raises
    ------
    TraceError : (at the first call) Python code reads a traced value.
    ArgumentError : the function is not callable, draws random numbers or writes its arguments; an unhashable static argument.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    if fn is None:
        return functools.partial(compile, static_argnums=static, device=device, verbose=verbose)
    if device is not None and str(device) != "cpu":
        fix = "Leave it out, and call the function uncompiled on tensors of that device."
        raise UnsupportedError(message("compile", "argument 'device'", device, "'cpu'", fix))
    if not callable(fn):
        raise ArgumentError(message("compile", "argument 'fn'", repr(fn), "a callable"))
    if any(not isinstance(i, int) or i < 0 for i in static):
        raise ArgumentError(
            message("compile", "argument 'static_argnums'", static_argnums, "positions >= 0")
        )
    from .api import Compiled

    return Compiled(fn, static, verbose)
