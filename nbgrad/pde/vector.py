"""Divergence and curl of vector fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ArgumentError, ShapeError, message
from ..tensor import Tensor
from .fields import Field
from .forms import FirstForm
from .nested import last_entry
from .operator import FieldOperator
from .operators import stacked


def check_vector(field: Field, outs: Sequence[Tensor]) -> None:
    """Raise unless the results are the d Cartesian components: ``(..., d)``, or d arrays."""
    shapes = [tuple(o.shape) for o in outs]
    trails = [field.trailing(s) for s in shapes]
    if len(outs) == 1 and trails[0] and trails[0][-1] == field.d:
        return
    if len(outs) == field.d and len(set(shapes)) == 1:
        return
    raise ShapeError(
        message(
            field.op,
            "the shape of the field's result",
            shapes[0] if len(shapes) == 1 else shapes,
            f"{field.d} components, as many as coordinates: on the last axis, or as so many arrays",
        )
    )


def _checked(field: Field, found: list[Tensor]) -> Callable[[int, int], Tensor]:
    """``(i, j) -> d u_i / d x_j`` from the first derivatives of every output."""
    check_vector(field, [last_entry(t, 0) for t in found])

    def du(i: int, j: int) -> Tensor:
        if len(found) > 1:
            return last_entry(found[i], j)
        return last_entry(last_entry(found[0], j), i)

    return du


def _first(field: Field) -> FirstForm:
    return FirstForm(field.d)


def divergence(u: Callable, **options: Any) -> FieldOperator:
    """``sum_i d u_i / d x_i`` of a vector field ``(..., d)`` (or of a tuple of d arrays): ``(...)``.

    Raises
    ------
    ShapeError : another number of components than coordinates.
    """

    def finish(field: Field, found: list) -> Tensor:
        du = _checked(field, found)
        result = du(0, 0)
        for i in range(1, field.d):
            result = result + du(i, i)
        return result

    return FieldOperator("divergence", u, _first, finish, **options)


def curl(u: Callable, **options: Any) -> FieldOperator:
    """The curl of a vector field in three dimensions ``(..., 3)``, or in two the scalar ``d u_1/dx_0 - d u_0/dx_1``.

    A tuple of arrays gives a tuple.

    Raises
    ------
    ShapeError : another number of components than coordinates. ArgumentError : not 2 or 3 coordinates.
    """

    def build(field: Field) -> FirstForm:
        if field.d not in (2, 3):
            raise ArgumentError(message("curl", "the number of coordinates", field.d, "2 or 3"))
        return _first(field)

    def finish(field: Field, found: list) -> Any:
        du = _checked(field, found)
        if field.d == 2:
            return du(1, 0) - du(0, 1)
        parts = [du(k, j) - du(j, k) for j, k in ((1, 2), (2, 0), (0, 1))]
        return stacked(parts) if len(found) == 1 else field.restored(parts)

    return FieldOperator("curl", u, build, finish, **options)
