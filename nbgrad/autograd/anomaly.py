"""Anomaly mode: the first non-finite value of a backward pass (and NaN born forward) is an error that names its origin."""

from __future__ import annotations

import os
import traceback
from typing import Any

import numpy as np

from ..errors import AutogradError
from ..state import state
from .graph import Node

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class detect_anomaly:
    """Context manager: forward operations remember their Python stack; a NaN or inf raises.

    In the forward pass a NaN that an operation creates from NaN-free inputs raises at once; in the backward pass any
    NaN or inf in a computed gradient does, naming the forward operation and where it was called.

    Parameters
    ----------
    check_nan : set False to only record stacks.

    Attributes
    ----------
    zero_wins : places where a zero cotangent met a non-finite derivative and the rule "zero wins" decided that
        nothing is passed on (each a text with the Python stack of the operation).
    """

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        self.zero_wins: list[str] = []
        self.node: Node | None = None
        self.previous: list[Any] = []

    def __enter__(self) -> detect_anomaly:
        self.previous.append(state.anomaly)
        state.anomaly = self
        state.refresh()
        return self

    def __exit__(self, *exc: object) -> None:
        state.anomaly = self.previous.pop()
        state.refresh()


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly mode on or off; as a function or a context manager."""

    def __init__(self, mode: bool, check_nan: bool = True):
        super().__init__(check_nan)
        self.previous = [state.anomaly]
        state.anomaly = self if mode else None
        state.refresh()

    def __enter__(self) -> set_detect_anomaly:
        return self


def is_anomaly_enabled() -> bool:
    """True inside ``detect_anomaly``."""
    return state.anomaly is not None


def user_stack() -> list[str]:
    """The current Python stack without nbgrad's own frames."""
    frames = [
        f
        for f in traceback.extract_stack()
        if not f.filename.startswith((_PACKAGE, "<nbgrad fast path"))
    ]
    return traceback.format_list(frames[-8:])


def _has(data: Any, test: Any) -> bool:
    return (
        isinstance(data, np.ndarray | np.generic)
        and data.dtype.kind in "fc"
        and bool(test(data).any())
    )


def check_forward(name: str, inputs: tuple, outputs: tuple) -> None:
    """Raise where an operation makes a NaN from NaN-free inputs; note where zero wins."""
    if state.anomaly is None:
        return
    if name == "zmul":
        _note_zero_wins(*(t._data for t in inputs))
    if not state.anomaly.check_nan or state.anomaly.node is not None:
        return
    if any(_has(t._data, np.isnan) for t in inputs):
        return
    if any(_has(t._data, np.isnan) for t in outputs):
        raise AutogradError(
            f"detect_anomaly: the forward of '{name}' returned NaN although no input was NaN. Called at:\n"
            + "".join(user_stack())
        )


def _note_zero_wins(g: Any, partial: Any) -> None:
    if _has(partial, _not_finite) and isinstance(g, np.ndarray):
        decided = (g == 0) & ~np.isfinite(partial)
        if decided.any():
            state.anomaly.zero_wins.append(
                f"{int(decided.sum())} of {decided.size} cotangents are 0 where the derivative is not finite"
                f"{_running(state.anomaly)}"
            )


def _running(mode: Any) -> str:
    node = mode.node
    if node is None:
        return ""
    stack = node.meta.stack if node.meta is not None and node.meta.stack else []
    return f", in {node.name()} of the operation called at:\n" + "".join(stack)


def _not_finite(a: Any) -> Any:
    return ~np.isfinite(a)


def watched_vjp(node: Node, g: Any) -> tuple:
    """Run a node's backward rule, checked, with its name at hand for reports."""
    mode = state.anomaly
    previous, mode.node = mode.node, node
    try:
        out = node.vjp(g)
    finally:
        mode.node = previous
    check_backward(node, g, out)
    return out


def check_backward(node: Node, g: Any, out: tuple) -> None:
    """Raise where a backward rule makes a non-finite gradient from a finite one."""
    if state.anomaly is None or not state.anomaly.check_nan:
        return
    if any(_has(getattr(x, "_data", x), _not_finite) for x in out if x is not None):
        stack = node.meta.stack if node.meta is not None and node.meta.stack else []
        where = "".join(stack) or "  (the forward ran outside detect_anomaly: no stack recorded)\n"
        raise AutogradError(
            f"detect_anomaly: {node.name()} returned NaN or inf in its gradient. "
            f"The forward operation was called at:\n{where}"
        )
