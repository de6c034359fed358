"""Structured control flow: loops and branches as single operators with derivatives of every order and mode."""

from . import sweep  # declares its operator, which a saved tape may name
from .choices import cond, switch
from .loops import fori_loop, scan, while_loop

__all__ = ["cond", "fori_loop", "scan", "sweep", "switch", "while_loop"]
