"""The function a differential operator returns: it checks its arguments and picks the way to differentiate."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import ArgumentError, message
from .cost import METHODS, cheapest
from .coupling import check
from .fields import Field
from .forms import Form


class Choice(NamedTuple):
    """How an operator is evaluated at some arguments: the method and the estimates behind it."""

    method: str
    costs: dict[str, float]


class FieldOperator:
    """A differential operator applied to a field: call it with the field's arguments.

    ``build(field)`` makes the form to evaluate; ``finish(field, results)`` the value returned from one result per output
    of the field.
    """

    def __init__(
        self,
        name: str,
        u: Callable,
        build: Callable[[Field], Form],
        finish: Callable[[Field, list], Any],
        argnums: Any = 0,
        method: str = "auto",
        coupled: str = "error",
    ):
        if not callable(u):
            raise ArgumentError(message(name, "argument 'u'", repr(u), "a callable, the field"))
        if method not in ("auto", *METHODS):
            raise ArgumentError(
                message(name, "argument 'method'", repr(method), f"'auto' or one of {METHODS}")
            )
        if coupled not in ("error", "allow"):
            raise ArgumentError(
                message(name, "argument 'coupled'", repr(coupled), "'error' or 'allow'")
            )
        self.name, self.u, self.build, self.finish = name, u, build, finish
        self.argnums, self.method, self.coupled = argnums, method, coupled
        functools.update_wrapper(self, u, updated=())

    def __repr__(self) -> str:
        return f"<{self.name} of {getattr(self.u, '__name__', repr(self.u))}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        field = Field(self.name, self.u, self.argnums, args, kwargs)
        form, choice = self.chosen(field)
        return self.finish(field, form.evaluate(field, choice.method))

    def chosen(self, field: Field) -> tuple[Form, Choice]:
        """The form and the method at a field's arguments."""
        components = check(field, self.coupled).components
        form = self.build(field)
        costs = form.costs(field.d, components)
        method = cheapest(costs) if self.method == "auto" else self.method
        return form, Choice(method, costs)

    def using(self, method: str) -> FieldOperator:
        """The same operator with another method."""
        return FieldOperator(
            self.name, self.u, self.build, self.finish, self.argnums, method, self.coupled
        )


def same_structure(field: Field, results: list) -> Any:
    """Results one a component array, as the field returns them."""
    return field.restored(results)
