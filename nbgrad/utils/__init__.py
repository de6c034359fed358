"""Utilities: pytrees, checkpointing, graph pictures."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    # loaded on first use: the modules below need the operators, which need the pytrees here
    if name in ("checkpoint", "picture", "pytree"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
