"""The compiler: tapes become fused, row-tiled machine code."""

from .api import Compiled, RecompilationWarning, compile
from .cache import CacheInfo, cache_info, clear_cache
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
