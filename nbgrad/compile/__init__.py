"""The compiler: tapes become fused, row-tiled machine code."""

from .api import Compiled, RecompilationWarning, compile
from .program import Program

__all__ = ["Compiled", "Program", "RecompilationWarning", "compile"]
