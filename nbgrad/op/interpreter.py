"""Interpreters: what an operator does at the level of a transform.

An interpreter gets the operator, the argument tensors and the parameters. Arguments of its own level carry its
values; all others are lower tensors, constants to it. It returns a value of its level, a lower tensor where the result
does not depend on the transform, or a tuple of either.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ..errors import TraceError
from ..state import state
from ..tensor import Level, Tensor, Value, level_of


class Interpreter(Protocol):
    """What a transform implements."""

    def process(self, level: Level, op: Any, args: Sequence[Tensor], params: dict) -> Any:
        """Run one operator at ``level``."""
        ...

    def lift(self, level: Level, t: Tensor) -> Any:
        """A lower tensor as a value of ``level``."""
        ...


@contextmanager
def new_level(name: str, interpreter: Any) -> Iterator[Level]:
    """Open a transform level; values made in it die with it."""
    index = (state.levels[-1].index if state.levels else 0) + 1
    level = Level(index, name, interpreter)
    previous, tracer = state.levels, state.tracer
    state.levels = (*previous, level)
    if getattr(interpreter, "records_all", False):
        state.tracer = level
        state.refresh()
    finished = False
    try:
        yield level
        finished = True
    finally:
        level.alive = False
        state.levels, state.tracer = previous, tracer
        state.refresh()
        outside = restore_promoted(level)
    if finished and outside:
        raise TraceError(
            f"{name}: a tensor from outside was written in place inside the transformed function (its value has "
            "been restored); write to a clone() made inside, and return it."
        )


def promote(level: Level, t: Tensor) -> None:
    """Note that an in-place write is about to give a lower tensor a value of ``level``."""
    level.promoted.append((weakref.ref(t), t._data, t._node, t._nr))
    swap = getattr(level.interpreter, "swap_captured", None)
    if swap is not None:
        swap(t)


def restore_promoted(level: Level) -> bool:
    """Give promoted tensors their old values back; True if one of them came from outside the transform.

    Tensors made inside are gone by now, unless they were returned (or are the base of a returned view).
    """
    inside = set()
    for t in level.returned:
        inside.add(id(t))
        if isinstance(t, Tensor) and t._meta is not None:
            inside.add(id(t._meta.base))
    outside = False
    for ref, data, node, nr in reversed(level.promoted):
        t = ref()
        if t is not None:
            t._data, t._node, t._nr = data, node, nr
            outside = outside or id(t) not in inside
    level.promoted.clear()
    level.returned.clear()
    return outside


def own(level: Level, t: Any) -> bool:
    """Whether a tensor carries a value of this level."""
    return isinstance(t, Tensor) and isinstance(t._data, Value) and level_of(t._data) is level
