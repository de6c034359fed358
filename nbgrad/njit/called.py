"""Dispatchers of derivatives: their errors are those of this library, and they are pickled as what they are made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher

from ..errors import DTypeError, NbgradError, message


class Remade(CPUDispatcher):
    """A function whose copies in other processes are made as it was: ``_nbgrad_recipe()`` is a function and its arguments."""

    _nbgrad_recipe: Callable[[], tuple]

    def __reduce__(self) -> tuple:
        maker, *args = self._nbgrad_recipe()
        return _remake, (maker, args)


class Derivative(Remade):
    """A derivative. Only calls with new types come through Python, so that checks here cost the others nothing."""

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Compile for the types of a call."""
        t = self._nbgrad_transformation  # type: ignore[attr-defined]
        names = [p.name for p in t.parameters]
        names += [names[-1]] * (len(args) - len(names))
        for name, x in [*zip(names, args), *kws.items()]:
            self._check(t.name.removesuffix(f"_{t.function.__name__}"), f"'{name}'", x)
        try:
            return super()._compile_for_args(*args, **kws)
        except NbgradError as e:
            error = e
        raise error.with_traceback(None) from None

    def _check(self, operation: str, name: str, x: Any) -> None:
        """Raise for a Python object that Numba has no type for."""
        if isinstance(x, tuple):
            for k, item in enumerate(x):
                self._check(operation, f"{name}[{k}]", item)
            return
        try:
            known = self.typeof_pyval(x) != types.pyobject
        except NumbaError:
            known = False
        if not known:
            kind = f"a {type(x).__name__}"
            kind += f" of {x.dtype}" if hasattr(x, "dtype") else ""
            raise DTypeError(
                message(
                    f"njit.{operation}",
                    f"argument {name}",
                    kind,
                    "numbers, NumPy arrays and tuples of them, of types that Numba knows",
                    "Decorate it with @njit."
                    if callable(x)
                    else "Convert it with float() or np.asarray(), or use njit.operator for tensors.",
                )
            )


def _remake(maker: Callable, args: list[Any]) -> Any:
    return maker(*args)


def as_kind(dispatcher: Any, kind: type, recipe: Callable[[], tuple]) -> Any:
    """The dispatcher as one of these classes, which add no data of their own."""
    dispatcher.__class__ = kind
    dispatcher._nbgrad_recipe = recipe
    return dispatcher
