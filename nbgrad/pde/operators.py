"""Differential operators of fields: partials, directional derivatives, linear operators.

A field is a function ``u(x, *rest)`` of coordinates ``x`` of shape ``(..., d)``, or, with ``argnums=(0, 1, ...)``, of
separate coordinate arrays of one shape. It returns one value a point, ``(...)``, or components behind, ``(..., m)``; tuples
and other pytrees of such arrays are fields too. Every operator takes the field and returns a function of the same
arguments, which can be differentiated further with respect to all of them.

Options of all operators
------------------------
argnums : the coordinate argument (an integer: packed), or a tuple of them (separate coordinates).
method : "auto" (by the cost model, see `explain`), "collapsed", "taylor", "nested" or "forward_over_reverse".
coupled : "error" raises `CouplingError` where u at a point depends on other points; "allow" gives sums over points.

All raise ShapeError, DTypeError or ArgumentError for coordinates, results and multi-indices that do not fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..dtypes import to_complex
from ..errors import ArgumentError, ShapeError, message
from ..op import REGISTRY, as_tensor
from ..ops.view import _reshape
from ..tensor import Tensor
from .collapsed import constant
from .directions import Index
from .fields import Field
from .forms import DirectionsForm, FirstForm, Form, LinearForm, PartialsForm
from .operator import FieldOperator, same_structure
from .stochastic import Sampling, operator_estimate


def partial(
    u: Callable, multi_index: Any, *, coords: Sequence[str] | None = None, **options: Any
) -> FieldOperator:
    """One partial derivative of any order.

    Parameters
    ----------
    multi_index : coordinate numbers, ``(0, 1, 1)`` for ``d^3 u / dx0 dx1 dx1`` (``()`` for u itself), or names.
    coords : the coordinates' names, one a coordinate: ``partial(u, "txx", coords="tx")``.
    """

    def build(field: Field) -> PartialsForm:
        return PartialsForm([field.index(multi_index, coords)])

    def finish(field: Field, found: list) -> Any:
        a = field.index(multi_index, coords)
        return field.restored([by_index[a] for by_index in found])

    return FieldOperator("partial", u, build, finish, **options)


def derivatives(
    u: Callable,
    multi_indices: Sequence[Any],
    *,
    coords: Sequence[str] | None = None,
    value: bool = False,
    **options: Any,
) -> FieldOperator:
    """Several partials in one pass, as a tuple: what a residual needs.

    ``u, u_t, u_x, u_xx = derivatives(u, ["t", "x", "xx"], coords="tx", value=True)(x)`` for Burgers' equation.

    Parameters
    ----------
    multi_indices : as in `partial`; orders may differ.
    value : put the value of u in front.
    """
    wanted = [(), *multi_indices] if value else list(multi_indices)
    if not wanted:
        raise ArgumentError(
            message("derivatives", "argument 'multi_indices'", "empty", "at least one multi-index")
        )

    def indices(field: Field) -> list[Index]:
        return [field.index(a, coords) for a in wanted]

    def finish(field: Field, found: list) -> tuple:
        return tuple(field.restored([by_index[a] for by_index in found]) for a in indices(field))

    return FieldOperator("derivatives", u, lambda f: PartialsForm(indices(f)), finish, **options)


def gradient(u: Callable, **options: Any) -> FieldOperator:
    """All first derivatives, on a new last axis: ``(..., d)``, or ``(..., m, d)`` for m components."""
    return FieldOperator("gradient", u, lambda f: FirstForm(f.d), same_structure, **options)


def jacobian(u: Callable, **options: Any) -> FieldOperator:
    """The Jacobian ``d u_i / d x_j`` of a vector field: ``(..., m, d)``.

    Raises
    ------
    ShapeError : a field without components.
    """

    def finish(field: Field, found: list[Tensor]) -> Any:
        for j in found:
            if not field.trailing(tuple(j.shape[:-1])):
                raise ShapeError(
                    message(
                        "jacobian",
                        "the shape of the field's result",
                        tuple(j.shape[:-1]),
                        "components on the last axis",
                        "Use gradient for a scalar field.",
                    )
                )
        return field.restored(found)

    return FieldOperator("jacobian", u, lambda f: FirstForm(f.d), finish, **options)


def stacked(columns: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape on a new last axis."""
    flat = [_reshape(c, (*c.shape, 1)) for c in columns]
    return REGISTRY["cat"](*flat, axis=columns[0].ndim)


def hessian(u: Callable, **options: Any) -> FieldOperator:
    """All second derivatives: ``(..., d, d)``, or ``(..., m, d, d)``."""

    def upper(d: int) -> list[Index]:
        return list(itertools.combinations_with_replacement(range(d), 2))

    def finish(field: Field, found: list) -> Any:
        d = field.d
        place = {a: k for k, a in enumerate(upper(d))}
        both = np.array([place[min(i, j), max(i, j)] for i in range(d) for j in range(d)])
        results = []
        for by_index in found:
            entries = stacked([by_index[a] for a in place])
            full = entries.index_select(-1, constant(both, entries))
            results.append(_reshape(full, (*entries.shape[:-1], d, d)))
        return field.restored(results)

    def build(field: Field) -> PartialsForm:
        return PartialsForm(upper(field.d))

    return FieldOperator("hessian", u, build, finish, **options)


def directional(u: Callable, v: Any, order: int = 1, **options: Any) -> FieldOperator:
    """The derivative of some order along the straight line through each point in direction v, ``(v . grad)^k u``.

    Parameters
    ----------
    v : ``(d,)``, one direction a point ``(..., d)``, or a function of the field's arguments that gives one. A
        direction that varies is held fixed: its own derivatives do not enter.
    """
    if not isinstance(order, int) or order < 1:
        raise ArgumentError(
            message("directional", "argument 'order'", repr(order), "an integer >= 1")
        )

    def build(field: Field) -> DirectionsForm:
        return DirectionsForm(_stack_one(field, given_by(field, v), "v"), (1.0,), order)

    return FieldOperator("directional", u, build, same_structure, **options)


def given_by(field: Field, value: Any) -> Any:
    """A value, or what a function of the field's arguments gives."""
    return value(*field.args, **field.kwargs) if callable(value) else value


def _stack_one(field: Field, v: Any, what: str) -> Tensor:
    t = field.vectors(v, what)
    return _reshape(t, (1, *t.shape))


def linear_operator(
    u: Callable,
    terms: Mapping[Any, Any],
    *,
    coords: Sequence[str] | None = None,
    samples: int | None = None,
    generator: Any = None,
    distribution: str = "rademacher",
    standard_error: bool = False,
    **options: Any,
) -> FieldOperator:
    """``sum_a c_a d^a u`` for a table ``{multi-index: coefficient}``.

    Coefficients are numbers, arrays that broadcast to the points, or functions of the field's arguments that give one
    (converted to the precision of the coordinates).
    Terms of highest order with constant coefficients are propagated as one sum; first-order terms come along free.
    With ``samples`` the second-order part is estimated without bias (``E d_{A z} d_z = sum A_ij d_ij``), all else is
    exact.

    Raises
    ------
    ArgumentError : no table, a term twice, or ``samples`` for an operator above second order.
    """
    if not isinstance(terms, Mapping):
        raise ArgumentError(
            message(
                "linear_operator", "argument 'terms'", repr(terms), "{multi-index: coefficient}"
            )
        )
    sampling = Sampling.of(
        "linear_operator", samples, generator, distribution, standard_error, options
    )

    def table(field: Field) -> dict[Index, Any]:
        found: dict[Index, Any] = {}
        for given, c in terms.items():
            a = field.index(given, coords)
            if a in found:
                raise ArgumentError(
                    message(
                        "linear_operator",
                        f"the multi-index {given!r}",
                        "in the table twice (partials commute)",
                        "every partial once",
                    )
                )
            found[a] = _coefficient(field, c)
        return found

    if sampling is not None:
        return operator_estimate(u, table, sampling, options)
    return FieldOperator(
        "linear_operator", u, lambda f: LinearForm(table(f)), same_structure, **options
    )


def _coefficient(field: Field, c: Any) -> Any:
    c = given_by(field, c)
    if isinstance(c, bool | int | float | complex | Fraction) and not isinstance(c, np.generic):
        return c
    t = as_tensor(c, field.op, "a coefficient")
    return t.to(to_complex(field.dtype) if t.dtype.kind == "c" else field.dtype)


def time_derivative(
    u: Callable,
    order: int = 1,
    *,
    time: Any = 0,
    coords: Sequence[str] | None = None,
    **options: Any,
) -> FieldOperator:
    """The derivative of some order in time; ``time`` is its coordinate's number (or name, with ``coords``)."""
    if not isinstance(order, int) or order < 1:
        raise ArgumentError(
            message("time_derivative", "argument 'order'", repr(order), "an integer >= 1")
        )

    def build(field: Field) -> PartialsForm:
        return PartialsForm([field.index((time,), coords) * order])

    def finish(field: Field, found: list) -> Any:
        a = field.index((time,), coords) * order
        return field.restored([by_index[a] for by_index in found])

    return FieldOperator("time_derivative", u, build, finish, **options)


def material_derivative(
    u: Callable,
    velocity: Any,
    *,
    time: Any = 0,
    coords: Sequence[str] | None = None,
    **options: Any,
) -> FieldOperator:
    """``du/dt + velocity . grad u``: one derivative along the path of a particle.

    Parameters
    ----------
    velocity : ``(d - 1,)``, one a point ``(..., d - 1)``, or a function of the field's arguments; in the order of the
        coordinates without time.
    """

    def build(field: Field) -> Form:
        (t,) = field.index((time,), coords)
        w = as_tensor(given_by(field, velocity), field.op, "velocity").to(field.dtype)
        if not w.ndim or w.shape[-1] != field.d - 1:
            raise ShapeError(
                message(
                    field.op,
                    "the shape of 'velocity'",
                    tuple(w.shape),
                    f"({field.d - 1},) or {(*field.points, field.d - 1)}",
                )
            )
        one = w.narrow(w.ndim - 1, 0, 1).ones_like_()
        before, after = w.narrow(w.ndim - 1, 0, t), w.narrow(w.ndim - 1, t, field.d - 1 - t)
        path = REGISTRY["cat"](before, one, after, axis=w.ndim - 1)
        return DirectionsForm(_stack_one(field, path, "velocity"), (1.0,), 1)

    return FieldOperator("material_derivative", u, build, same_structure, **options)
