"""no_grad, enable_grad, set_grad_enabled, inference_mode: context managers and decorators, thread-local."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..state import ON, state


class _GradMode:
    """Sets ``state.off`` inside a ``with`` block or a decorated function (generators included)."""

    off: int = ON
    inference: bool | None = None

    def __init__(self) -> None:
        self._previous: list[tuple[int, bool]] = []

    def __enter__(self) -> Any:
        self._previous.append((state.off, state.inference))
        state.off = self.off
        if self.inference is not None:
            state.inference = self.inference
        state.refresh()
        return self

    def __exit__(self, *exc: object) -> None:
        state.off, state.inference = self._previous.pop()
        state.refresh()

    def _fresh(self) -> _GradMode:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._previous = []
        return new

    def __call__(self, fn: Callable) -> Callable:
        if inspect.isgeneratorfunction(fn):
            return self._wrap_generator(fn)

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._fresh():
                return fn(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, fn: Callable) -> Callable:
        """The mode holds while the generator's code runs, not while it is suspended.

        What the caller sends or throws, and its closing, reach the generator.
        """

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            gen = fn(*args, **kwargs)
            resume: Callable = gen.send
            given: Any = None
            while True:
                try:
                    with self._fresh():
                        item = resume(given)
                except StopIteration as stop:
                    return stop.value
                try:
                    given = yield item
                    resume = gen.send
                except GeneratorExit:
                    with self._fresh():
                        gen.close()
                    raise
                except BaseException as error:
                    resume, given = gen.throw, error

        return wrapped


def _bare(cls: type) -> type:
    """Let ``@no_grad`` work without parentheses, as ``@no_grad()`` does."""

    def new(klass: type, fn: Any = None, *args: Any, **kwargs: Any) -> Any:
        made = object.__new__(klass)
        if callable(fn):
            _GradMode.__init__(made)
            return made(fn)
        return made

    cls.__new__ = staticmethod(new)  # type: ignore[method-assign]
    return cls


@_bare
class no_grad(_GradMode):
    """Nothing inside is recorded for differentiation."""

    off = 0


@_bare
class enable_grad(_GradMode):
    """Recording is on inside, also within ``no_grad``."""

    off = ON


class set_grad_enabled(_GradMode):
    """Switch recording on or off; acts at once, and as a context manager until its end."""

    def __init__(self, mode: bool):
        super().__init__()
        self.off = ON if mode else 0
        self._before = (state.off, state.inference)
        state.set_off(self.off)

    def __enter__(self) -> set_grad_enabled:
        self._previous.append(self._before)
        state.set_off(self.off)
        return self

    def __call__(self, fn: Callable) -> Callable:
        state.off, state.inference = self._before
        state.refresh()
        return super().__call__(fn)

    def _fresh(self) -> _GradMode:
        return set_grad_enabled(self.off != 0)


@_bare
class inference_mode(_GradMode):
    """As ``no_grad``, and tensors made inside can never take part in autograd later."""

    off = 0
    inference = True

    def __init__(self, mode: bool = True):
        super().__init__()
        if not mode:
            self.off, self.inference = ON, False


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread."""
    return state.off > (state.levels[-1].index if state.levels else 0)


def is_inference_mode_enabled() -> bool:
    """Whether ``inference_mode`` is active in this thread."""
    return state.inference
