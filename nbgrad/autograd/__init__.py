"""Eager autograd: graph, engine, modes, hooks, custom functions, gradcheck.

The names are loaded on first use: the graph and engine modules below this package are imported by the operators,
which the public functions in turn need.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "grad": "api",
    "backward": "api",
    "gradcheck": "check",
    "gradgradcheck": "check",
    "GradcheckError": "diagnose",
    "Function": "function",
    "FunctionCtx": "function",
    "detect_anomaly": "anomaly",
    "set_detect_anomaly": "anomaly",
    "is_anomaly_enabled": "anomaly",
    "no_grad": "grad_mode",
    "enable_grad": "grad_mode",
    "set_grad_enabled": "grad_mode",
    "inference_mode": "grad_mode",
}

__all__ = list(_EXPORTS)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        try:
            return importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError:
            raise AttributeError(f"module 'nbgrad.autograd' has no attribute {name!r}") from None
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
