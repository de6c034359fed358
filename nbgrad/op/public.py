"""The public surface: which functions appear as ``ng.name``, as tensor methods, and in place.

`PUBLIC` and `METHODS` are filled by the declarations; ``nbgrad/__init__.py`` installs them once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

PUBLIC: dict[str, Any] = {}
METHODS: dict[str, Any] = {}


def public(
    fn: Callable | None = None,
    *,
    name: str | None = None,
    alias: Sequence[str] = (),
    method: bool = True,
    inplace: bool = False,
    function: bool = True,
) -> Any:
    """Register a function as ``ng.name`` and as the tensor method of that name.

    ``inplace`` also makes the method ``name_``, which writes the result into the tensor.
    """
    if fn is None:
        return functools.partial(
            public, name=name, alias=alias, method=method, inplace=inplace, function=function
        )
    base = name or fn.__name__.rstrip("_")
    if fn.__name__.startswith(
        "_"
    ):  # the public form of a primitive that has the name in its module
        fn.__name__ = fn.__qualname__ = base
    for n in (base, *alias):
        if function:
            PUBLIC[n] = fn
        if method:
            METHODS[n] = fn
        if inplace:
            METHODS[n + "_"] = make_inplace(fn, n)
    return fn


def make_inplace(fn: Callable, name: str) -> Callable:
    """The in-place method of an out-of-place function of the same shape."""
    from .inplace import inplace

    def method_(self: Any, *args: Any, **kwargs: Any) -> Any:
        return inplace(fn, name, self, *args, **kwargs)

    method_.__name__ = method_.__qualname__ = name + "_"
    method_.__doc__ = f"In-place `{name}`: writes the result into this tensor and returns it."
    return method_


def operators(table: dict[str, tuple[Callable, bool, bool]]) -> None:
    """Register Python's operators: ``{'add': (fn, reflected too, in place too)}``."""
    from .inplace import inplace

    for name, (fn, reflected, augmented) in table.items():
        METHODS[f"__{name}__"] = fn
        if reflected:
            METHODS[f"__r{name}__"] = _reflect(fn)
        if augmented:
            METHODS[f"__i{name}__"] = functools.partialmethod(
                lambda self, other, fn, name: inplace(fn, name, self, other), fn=fn, name=name
            )


def _reflect(fn: Callable) -> Callable:
    def reflected(self: Any, other: Any) -> Any:
        return fn(other, self)

    return reflected
