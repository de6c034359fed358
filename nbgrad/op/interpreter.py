"""Interpreters: what an operator does at the level of a transform.

An interpreter gets the operator, the argument tensors and the parameters. Arguments of its own level carry its
values; all others are lower tensors, constants to it. It returns a value of its level, a lower tensor where the result
does not depend on the transform, or a tuple of either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

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
    previous = state.levels
    state.levels = (*previous, level)
    try:
        yield level
    finally:
        level.alive = False
        state.levels = previous


def own(level: Level, t: Any) -> bool:
    """Whether a tensor carries a value of this level."""
    return isinstance(t, Tensor) and isinstance(t._data, Value) and level_of(t._data) is level
