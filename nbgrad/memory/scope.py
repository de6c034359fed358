"""Memory scopes: at the end, everything created inside goes, except what is kept.

::

    with ng.memory.scope() as s:
        for step in range(100):
            state = advance(state)
        s.keep(state)

A scope does not hold what it records alive: what the program drops goes at once, as without a
scope. Memory that a NumPy array (or another export) still shows is never taken away; the export
owns it, and an invalidated tensor only loses its own access.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from nbgrad.errors import NbgradError, message

T = TypeVar("T")


class Registrable(Protocol):
    """What can be registered in a scope.

    An object may also have `_scope_members()`: the objects it needs to stay usable (a tensor's
    storage, what its graph saved). `keep` keeps these too.
    """

    def _invalidate(self) -> None:
        """Give the memory up; any later access raises."""
        ...


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[scope] = []


_stack = _Stack()
_watchers: list[Callable[[int], None]] = []


def current_scopes() -> list[scope]:
    """The scopes this thread is in, innermost last. Register new objects in the last one."""
    return _stack.scopes


def register(obj: Registrable) -> None:
    """Record an object in the innermost scope of this thread, if there is one."""
    if _stack.scopes:
        _stack.scopes[-1].register(obj)


def watch(callback: Callable[[int], None]) -> None:
    """Have `callback(depth)` called when a scope opens or closes, in the thread that does it.

    For layers above that keep a flag of their own where they cannot afford to ask.
    """
    _watchers.append(callback)


class scope:
    """A context manager that records what is created inside and frees it at the end.

    Nested scopes hand what they keep to the scope around them. An exception in the body frees too.
    One object serves one `with` statement; entering it twice raises `NbgradError`.
    """

    def __init__(self) -> None:
        self._refs: list[Callable[[], Any]] = []
        self._prune_at = 64
        self._kept: list[Any] = []
        self._stack: list[scope] | None = None
        self._outer: scope | None = None
        self._open = False

    def __enter__(self) -> Self:
        if self._stack is not None:
            raise NbgradError(
                message("scope", "this scope", "used before", "a new one", "Call scope() again.")
            )
        self._stack = current_scopes()
        self._outer = self._stack[-1] if self._stack else None
        self._stack.append(self)
        self._open = True
        _tell_watchers()
        return self

    def register(self, obj: Registrable) -> None:
        """Record an object that was created inside; its `_invalidate()` is called at the end."""
        try:
            self._refs.append(weakref.ref(obj))
        except TypeError:  # no weak references to it: hold it, it goes with the scope
            self._refs.append(lambda: obj)
        if len(self._refs) >= self._prune_at:
            self._refs = [ref for ref in self._refs if ref() is not None]
            self._prune_at = 2 * len(self._refs) + 64

    def keep(self, obj: T) -> T:
        """Let an object, and what it needs, outlive the scope. Returns the object.

        In a nested scope it then belongs to the scope around. Keeping an object that was created
        outside changes nothing. Raises `NbgradError` outside the `with` statement.
        """
        if not self._open:
            raise NbgradError(
                message("keep", "the scope", "not open", "a call inside its `with` statement")
            )
        self._kept.append(obj)
        return obj

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False
        if self._stack is not None:
            self._stack.remove(self)  # not pop: generators can close scopes out of order
            _tell_watchers()
        kept = _with_members(self._kept)
        # The stack calls every callback, the newest object's first, whatever the others raise.
        stack = ExitStack()
        for ref in self._refs:
            obj = ref()
            if obj is None:
                continue
            if id(obj) in kept:
                self._hand_on(obj)
            else:
                stack.callback(obj._invalidate)
        self._refs, self._kept = [], []
        stack.__exit__(kind, error, trace)  # told of the body's error, it chains theirs to it

    def _hand_on(self, obj: Registrable) -> None:
        outer = self._outer
        while outer is not None and not outer._open:
            outer = outer._outer
        if outer is not None:
            outer.register(obj)


def _tell_watchers() -> None:
    for callback in _watchers:
        callback(len(_stack.scopes))


def _with_members(objects: Iterable[Any]) -> dict[int, Any]:
    """Objects and all they need, by identity."""
    found: dict[int, Any] = {}
    todo = list(objects)
    while todo:  # a loop: the graph behind a tensor can be a million nodes deep
        obj = todo.pop()
        if id(obj) not in found:
            found[id(obj)] = obj
            members = getattr(obj, "_scope_members", None)
            if members is not None:
                todo.extend(members())
    return found
