"""The one place that asks Numba about types (private interfaces of Numba stay in here and in ``emit``)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import types
from numba.core import errors
from numba.core.registry import cpu_target

from . import ir


def return_type(function: Any, arg_types: list[Any]) -> Any:
    """The type Numba gives to a call, or None if it does not accept it."""
    return _return_type(function, tuple(arg_types))


@lru_cache(maxsize=1024)
def _return_type(function: Any, arg_types: tuple) -> Any:
    context = cpu_target.typing_context
    context.refresh()
    try:
        sig = context.resolve_function_type(function, arg_types, {})
        if sig is None:
            t = context.resolve_value_type(function)
            sig = t.get_call_type(context, arg_types, {}) if t is not None else None
    except errors.NumbaError:
        return None
    return None if sig is None else sig.return_type


def is_instance(x: Any, cls: Any) -> bool:
    """``isinstance`` on an object of the front end."""
    from .front.objects import Lazy, Py, Tup

    if isinstance(x, Py):
        return isinstance(x.value, cls) if isinstance(cls, type) else False
    if isinstance(x, Tup):
        return cls in (tuple, x.cls)
    if isinstance(x, Lazy) or (isinstance(x, ir.Value) and ir.is_array(x)):
        return cls is np.ndarray
    known: dict[Any, Any] = {
        int: types.Integer,
        float: types.Float,
        complex: types.Complex,
        bool: types.Boolean,
        np.integer: types.Integer,
        np.floating: types.Float,
        np.number: types.Number,
    }
    if isinstance(cls, type) and cls in known:
        return isinstance(x.type, known[cls])
    return isinstance(x, ir.Value) and str(x.type) == getattr(cls, "__name__", str(cls))
