"""Interpreters: what an operator does at the level of a transform.

An interpreter gets the operator, the argument tensors and the parameters. Arguments of its own level carry its
values; all others are lower tensors, constants to it. It returns a value of its level, a lower tensor where the result
does not depend on the transform, or a tuple of either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ..errors import TraceError
from ..state import state
from ..tensor import Level, Tensor, Value, level_of, new_epoch


class Listener:
    """What hears about concrete operations while it is in ``state.recorders``; does nothing itself."""

    def record(self, op: Any, args: Sequence[Tensor], params: dict, outs: Sequence[Tensor]) -> None:
        """After an operation."""

    def alias(self, new: Tensor, old: Tensor) -> None:
        """``new`` holds the same value as ``old``."""

    def adopt(self, t: Tensor) -> None:
        """The result ``t`` of the last operation has joined the version cell of its base."""

    def before_write(self, t: Tensor) -> None:
        """The memory of ``t`` is about to change."""

    def written(self, t: Tensor, result: Tensor, base: Tensor | None) -> None:
        """``result`` was written into ``t`` (a view of ``base``, if given)."""

    def host_read(self, t: Tensor, data: Any, what: str) -> None:
        """Python read the values of ``t``."""


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
    try:
        with inside(name):
            yield level
    finally:
        level.alive = False
        state.levels, state.tracer = previous, tracer
        state.refresh()


@contextmanager
def inside(name: str) -> Iterator[None]:
    """The body of a transformed function: in-place writes may reach only tensors made in it."""
    previous = state.births
    state.births = (*previous, (new_epoch(), name))
    try:
        yield
    finally:
        state.births = previous


def check_inside(t: Tensor, op: str) -> None:
    """Raise if a tensor about to be written was made before the running transform started."""
    birth, name = state.births[-1]
    if t._ver[0] < birth:
        raise TraceError(
            f"{op}_: a tensor from outside cannot be written in place inside {name}, which must have no side effects; "
            "write to a clone() made inside, and return it."
        )


def promote(level: Level, t: Tensor) -> None:
    """Note that an in-place write is about to give a lower tensor a value of ``level``.

    Every trace that has captured it, at this level or below, keeps its present value.
    """
    for live in state.levels:
        swap = getattr(live.interpreter, "swap_captured", None)
        if swap is not None:
            swap(t)


def own(level: Level, t: Any) -> bool:
    """Whether a tensor carries a value of this level."""
    return isinstance(t, Tensor) and isinstance(t._data, Value) and level_of(t._data) is level
