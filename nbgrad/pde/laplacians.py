"""Laplacians: plain, weighted, of vectors, and of themselves; exact or estimated (see `operators` for the options)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError, message
from ..op import REGISTRY, as_tensor
from ..ops.view import permute
from ..tensor import Tensor
from .fields import Field
from .forms import DirectionsForm, LinearForm
from .operator import FieldOperator, same_structure
from .operators import given_by
from .stochastic import Sampling, biharmonic_estimate, laplacian_estimate
from .vector import check_vector


def laplacian(
    u: Callable,
    *,
    samples: int | None = None,
    generator: Any = None,
    distribution: str = "rademacher",
    standard_error: bool = False,
    **options: Any,
) -> FieldOperator:
    """The sum of the second derivatives over all coordinates, of every component.

    With ``samples`` it is estimated, without bias, from so many random directions a point (Hutchinson's trace
    estimator; STDE, arXiv 2412.00088): for dimensions in the hundreds.

    Parameters
    ----------
    samples : how many directions a point; None computes it exactly.
    generator : an `nbgrad.Generator` (None: the default one).
    distribution : "rademacher", "gaussian" or "sparse" (coordinate axes, with replacement).
    standard_error : return ``(estimate, standard error over the samples)``; needs at least 2 samples.
    """
    sampling = Sampling.of("laplacian", samples, generator, distribution, standard_error, options)
    if sampling is not None:
        return laplacian_estimate(u, sampling, options)

    def build(field: Field) -> LinearForm:
        return LinearForm({(i, i): 1 for i in range(field.d)})

    return FieldOperator("laplacian", u, build, same_structure, **options)


def weighted_laplacian(
    u: Callable, sigma: Any = None, *, matrix: Any = None, **options: Any
) -> FieldOperator:
    """``sum_ij S_ij d^2 u / dx_i dx_j`` (S is not differentiated), with S given by a factor or in full.

    Parameters
    ----------
    sigma : a factor of ``S = sigma sigma^T``: ``(d, r)``, one a point ``(..., d, r)``, or a function of the field's
        arguments. Costs r directions: low rank is cheap.
    matrix : S itself instead, ``(d, d)``, ``(..., d, d)`` or a function; any real matrix. Costs 2 d directions.
    """
    if (sigma is None) == (matrix is None):
        given = "both given" if sigma is not None else "both None"
        raise ArgumentError(
            message("weighted_laplacian", "arguments 'sigma' and 'matrix'", given, "one of the two")
        )

    def build(field: Field) -> DirectionsForm:
        if sigma is not None:
            v = columns(field, given_by(field, sigma), "sigma")
            return DirectionsForm(v, (1.0,) * int(v.shape[0]), 2)
        s = columns(field, given_by(field, matrix), "matrix")
        return polarised_matrix(field, s)

    return FieldOperator("weighted_laplacian", u, build, same_structure, **options)


def columns(field: Field, m: Any, what: str) -> Tensor:
    """The columns of a matrix, constant or one a point, as directions ``(r, *points, d)``."""
    t = as_tensor(m, field.op, what)
    shape = tuple(t.shape)
    *points, rows, r = shape if len(shape) > 1 else (0, 0)
    fits = rows == field.d and tuple(points) in ((), field.points)
    if not fits or (what == "matrix" and r != field.d):
        last = "d" if what == "matrix" else "r"
        raise ShapeError(
            message(
                field.op,
                f"the shape of '{what}'",
                shape,
                f"(d, {last}) or {(*field.points, 'd', last)} with d = {field.d}",
            )
        )
    return field.vectors(permute(t, dims=(t.ndim - 1, *range(t.ndim - 1))), what, 1)


def polarised_matrix(field: Field, s: Tensor) -> DirectionsForm:
    """``sum_j d_{e_j} d_{S e_j} = sum_j (d_{e_j + S e_j}^2 - d_{e_j - S e_j}^2) / 4``: works for any matrix."""
    unit = field.vectors(as_tensor(np.eye(field.d)), "matrix", 1)
    both = REGISTRY["cat"](unit + s, unit - s, axis=0)
    return DirectionsForm(both, (0.25,) * field.d + (-0.25,) * field.d, 2)


def biharmonic(
    u: Callable,
    *,
    samples: int | None = None,
    generator: Any = None,
    distribution: str = "gaussian",
    standard_error: bool = False,
    **options: Any,
) -> FieldOperator:
    """The Laplacian of the Laplacian, ``sum_ij d^4 u / dx_i^2 dx_j^2``, of every component.

    Collapsed, it is either d^2 jets of order four or a forward Laplacian of a forward Laplacian, whichever carries less.
    Sampling as in `laplacian`: "gaussian" takes one jet a sample (``E (v . grad)^4 u = 3 biharmonic``), the others four
    (``E (v . grad)^2 (w . grad)^2 u`` for independent v and w).
    """
    sampling = Sampling.of("biharmonic", samples, generator, distribution, standard_error, options)
    if sampling is not None:
        return biharmonic_estimate(u, sampling, options)
    return FieldOperator("biharmonic", u, lambda f: BiharmonicForm(f.d), same_structure, **options)


class BiharmonicForm(LinearForm):
    """Fourth-order jets, or a Laplacian of a Laplacian."""

    def __init__(self, d: int):
        square = {(i, i, i, i): 1 for i in range(d)}
        mixed = {(i, i, j, j): 2 for i in range(d) for j in range(i + 1, d)}
        super().__init__({**square, **mixed})
        self.inner = LinearForm({(i, i): 1 for i in range(d)})

    def costs(self, d: int, components: int) -> dict[str, float]:
        found = super().costs(d, components)
        found["collapsed"] = min(found["collapsed"], self._twice(d, components))
        return found

    def _twice(self, d: int, components: int) -> float:
        return self.inner.costs(d, components)["collapsed"] ** 2

    def by_jets(self, field: Field, collapse: bool) -> list[Any]:
        if not collapse or super().costs(field.d, 1)["collapsed"] <= self._twice(field.d, 1):
            return super().by_jets(field, collapse)
        return self.inner.by_jets(field.of(lambda f: self.inner.by_jets(f, True)), True)


def vector_laplacian(u: Callable, **options: Any) -> FieldOperator:
    """The Laplacian of each Cartesian component of a vector field ``(..., d)``.

    Raises
    ------
    ShapeError : the last axis of the result has another size than the number of coordinates.
    """

    def build(field: Field) -> LinearForm:
        return LinearForm({(i, i): 1 for i in range(field.d)})

    def finish(field: Field, results: list) -> Any:
        check_vector(field, results)
        return field.restored(results)

    return FieldOperator("vector_laplacian", u, build, finish, **options)
