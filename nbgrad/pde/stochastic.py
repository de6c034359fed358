"""Unbiased estimates of operators in many dimensions: a few random directions a point instead of all coordinates.

Hutchinson's identity ``E (v . grad)^2 u = laplacian u`` for ``E v v^T = I``, and its relatives; each direction is one jet, all
are collapsed into their mean (Shi et al., Stochastic Taylor Derivative Estimator, arXiv 2412.00088). Every point draws
its own directions. The keys of the draws are recorded on tapes: a replay repeats the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from .. import random
from ..device import beside
from ..errors import ArgumentError, message
from ..op import REGISTRY
from ..ops.elementwise import where
from ..ops.view import _reshape, expand
from ..tensor import Tensor
from .collapsed import Shape, constant
from .directions import Index, polarised
from .fields import Field
from .forms import DirectionsForm, Form, LinearForm, times
from .operator import FieldOperator

DISTRIBUTIONS = ("rademacher", "gaussian", "sparse")


class Sampling(NamedTuple):
    """How directions are drawn."""

    name: str
    samples: int
    generator: Any
    distribution: str
    standard_error: bool

    @classmethod
    def of(
        cls, name: str, samples: Any, generator: Any, distribution: str, error: bool, options: dict
    ) -> Sampling | None:
        """Checked options; None if there is nothing to sample.

        Raises
        ------
        ArgumentError : an unknown distribution, a sample number below 1 (2 with an error), a method that cannot sample.
        """
        if distribution not in DISTRIBUTIONS:
            raise ArgumentError(
                message(
                    name, "argument 'distribution'", repr(distribution), f"one of {DISTRIBUTIONS}"
                )
            )
        if samples is None:
            if error:
                raise ArgumentError(
                    message(
                        name,
                        "argument 'standard_error'",
                        True,
                        "False for an exact operator",
                        "Pass samples=... to estimate it.",
                    )
                )
            return None
        least = 2 if error else 1
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < least:
            raise ArgumentError(
                message(name, "argument 'samples'", repr(samples), f"an integer >= {least}")
            )
        if options.get("method", "auto") not in ("auto", "collapsed", "taylor"):
            raise ArgumentError(
                message(
                    name,
                    "argument 'method' with samples",
                    repr(options["method"]),
                    "'auto', 'collapsed' or 'taylor'",
                )
            )
        return cls(name, samples, generator, distribution, error)

    def draw(self, field: Field) -> Tensor:
        """Directions with ``E v v^T = I``: ``(samples, *points, d)``."""
        shape = (self.samples, *field.points, field.d)
        like = field.primals[0]
        if self.distribution == "gaussian":
            return beside(like, random.randn(shape, dtype=field.dtype, generator=self.generator))
        if self.distribution == "rademacher":
            coin = random.rand(shape, dtype=field.dtype, generator=self.generator)
            one = constant(np.ones((), field.dtype), like)
            return where(beside(like, coin) < 0.5, one, -one)
        axis = random.randint(0, field.d, (*shape[:-1], 1), generator=self.generator)
        hit = beside(like, axis) == constant(np.arange(field.d), like)
        size = constant(np.asarray(sqrt(field.d), field.dtype), like)
        return where(hit, size, size.zeros_like_())


class EstimateForm(Form):
    """The mean over samples of ``sum_q w_q (v_q . grad)^K u``, and an exact rest."""

    def __init__(
        self,
        sampling: Sampling,
        kinds: list[tuple[float, Tensor]],
        order: int,
        rest: LinearForm | None = None,
    ):
        self.sampling, self.order, self.rest = sampling, order, rest
        self.kind_weights = [w for w, _ in kinds]
        stack = [v for _, v in kinds]
        vectors = stack[0] if len(stack) == 1 else REGISTRY["cat"](*stack, axis=0)
        n = sampling.samples
        weights = None if sampling.standard_error else [w / n for w, _ in kinds for _ in range(n)]
        self.directions = DirectionsForm(vectors, weights, order)

    def jet_shapes(self, d: int) -> dict[str, Shape]:
        return self.directions.jet_shapes(d)

    def costs(self, d: int, components: int) -> dict[str, float]:
        """Only jets can follow random directions."""
        from .cost import jet_cost

        extra = 0.0 if self.rest is None else min(self.rest.costs(d, components).values())
        return {m: jet_cost(s) + extra for m, s in self.jet_shapes(d).items()}

    def by_jets(self, field: Field, collapse: bool) -> list[Any]:
        """Per output the estimate, or the pair with its standard error."""
        found = self.directions.by_jets(field, collapse)
        if self.sampling.standard_error:
            found = [self._with_error(rows) for rows in found]
        if self.rest is None:
            return found
        exact = self.rest.by_jets(field, True)
        if self.sampling.standard_error:
            return [(a + b, e) for (a, e), b in zip(found, exact, strict=True)]
        return [a + b for a, b in zip(found, exact, strict=True)]

    def _with_error(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        n = self.sampling.samples
        single: Any = None  # every sample's own estimate
        for q, w in enumerate(self.kind_weights):
            term = times(rows.narrow(0, q * n, n), w)
            single = term if single is None else single + term
        return single.mean(0), single.std(0) / sqrt(n)


def _operator(name: str, u: Callable, sampling: Sampling, build: Callable, options: dict):
    def finish(field: Field, results: list) -> Any:
        if not sampling.standard_error:
            return field.restored(results)
        return tuple(field.restored([r[i] for r in results]) for i in range(2))

    return FieldOperator(name, u, build, finish, **options)


def laplacian_estimate(u: Callable, sampling: Sampling, options: dict) -> FieldOperator:
    """``E (v . grad)^2 u``."""

    def build(field: Field) -> EstimateForm:
        return EstimateForm(sampling, [(1.0, sampling.draw(field))], 2)

    return _operator("laplacian", u, sampling, build, options)


def biharmonic_estimate(u: Callable, sampling: Sampling, options: dict) -> FieldOperator:
    """``E (v . grad)^4 u / 3`` for Gaussian v, else ``E (v . grad)^2 (w . grad)^2 u``."""

    def build(field: Field) -> EstimateForm:
        v = sampling.draw(field)
        if sampling.distribution == "gaussian":
            return EstimateForm(sampling, [(1 / 3, v)], 4)
        w = sampling.draw(field)
        kinds = [
            (float(c), times(v, float(a)) + times(w, float(b)))
            for (a, b), c in polarised((2, 2)).items()
        ]
        return EstimateForm(sampling, kinds, 4)

    return _operator("biharmonic", u, sampling, build, options)


def operator_estimate(
    u: Callable, table: Callable[[Field], dict[Index, Any]], sampling: Sampling, options: dict
) -> FieldOperator:
    """The second-order part of a linear operator estimated, lower orders exact."""

    def build(field: Field) -> EstimateForm:
        terms = table(field)
        order = max((len(a) for a in terms), default=0)
        second = {a: c for a, c in terms.items() if len(a) == 2}
        if order != 2:
            raise ArgumentError(
                message(
                    "linear_operator",
                    "argument 'samples' for an operator of order",
                    order,
                    "an operator of second order",
                    "Use biharmonic(u, samples=...), or samples=None.",
                )
            )
        if any(
            c.dtype.kind == "c" if isinstance(c, Tensor) else isinstance(c, complex)
            for c in second.values()
        ):
            raise ArgumentError(
                message(
                    "linear_operator",
                    "a second-order coefficient with samples",
                    "complex",
                    "a real number or array",
                )
            )
        rest = LinearForm({a: c for a, c in terms.items() if len(a) < 2})
        z = sampling.draw(field)
        return EstimateForm(sampling, _kinds(field, second, z), 2, rest if rest.terms else None)

    return _operator("linear_operator", u, sampling, build, options)


def _kinds(field: Field, second: dict[Index, Any], z: Tensor) -> list[tuple[float, Tensor]]:
    """Directions whose weighted squares have the mean ``sum_ij A_ij d_ij``."""
    diagonal = [second.get((i, i)) for i in range(field.d)]
    plain = all(not isinstance(c, Tensor) for c in diagonal)
    if plain and len(set(diagonal)) == 1 and len(second) == field.d:
        return [(float(diagonal[0]), z)]  # type: ignore[arg-type]
    az = _product(field, second, z)
    return [(0.25, az + z), (-0.25, az - z)]


def _product(field: Field, second: dict[Index, Any], z: Tensor) -> Tensor:
    """``A z`` for the symmetric matrix of a second-order operator, one row at a time."""
    rows: list[Any] = [None] * field.d
    last = z.ndim - 1

    def add(i: int, j: int, c: Any) -> None:
        zj = z.narrow(last, j, 1)
        term = zj * field.at_points(c) if isinstance(c, Tensor) else times(zj, c)
        rows[i] = term if rows[i] is None else rows[i] + term

    for (i, j), c in second.items():
        if i == j:
            add(i, i, c)
        else:
            half = c * 0.5 if isinstance(c, Tensor) else float(c) / 2
            add(i, j, half)
            add(j, i, half)
    shape = (*z.shape[:-1], 1)
    full = [
        z.narrow(last, 0, 1).zeros_like_() if r is None else expand(r, shape=shape) for r in rows
    ]
    return _reshape(REGISTRY["cat"](*full, axis=last), tuple(z.shape))
