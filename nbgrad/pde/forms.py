"""What operators compute: several partials, a linear form of partials, or a sum of powers of directional derivatives.

Every form can be evaluated in four ways (collapsed Taylor, Taylor, nested reverse, forward over reverse) with equal
results, and knows what each costs in units of one evaluation of the field (see `cost`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import factorial, prod
from typing import Any

import numpy as np

from ..ops.view import _reshape, expand, permute
from ..tensor import Tensor
from .collapsed import Jet, Shape, flat_collapsed
from .cost import jet_cost, nested_cost
from .directions import Index, Plan, exponents, plan
from .fields import Field
from .nested import gradients, nested_partials

Partials = list[dict[Index, Tensor]]  # per output of the field


class Form:
    """Base: ``evaluate(field, method)`` gives one result per output of the field."""

    order: int

    def jet_shapes(self, d: int) -> dict[str, Shape]:
        """What the jets propagate, by method."""
        raise NotImplementedError

    def indices(self, d: int) -> list[Index]:
        """The partials that the nested ways compute."""
        raise NotImplementedError

    def costs(self, d: int, components: int) -> dict[str, float]:
        """Estimates in evaluations of the field, by method."""
        found = {name: jet_cost(shape) for name, shape in self.jet_shapes(d).items()}
        found["nested"] = nested_cost(self.indices(d), components, False)
        found["forward_over_reverse"] = nested_cost(self.indices(d), components, True)
        return found

    def evaluate(self, field: Field, method: str) -> list[Any]:
        """The results, one an output."""
        if method in ("collapsed", "taylor"):
            return self.by_jets(field, method == "collapsed")
        found = nested_partials(field, self.indices(field.d), method == "forward_over_reverse")
        return self.combined(field, found)

    def by_jets(self, field: Field, collapse: bool) -> list[Any]:
        """Taylor mode, collapsed or not."""
        raise NotImplementedError

    def combined(self, field: Field, found: Partials) -> list[Any]:
        """The results from all partials in `indices`."""
        raise NotImplementedError


def _counts(p: Plan) -> tuple[int, ...]:
    return tuple(sum(o >= k for o in p.orders) for k in range(1, p.orders[0] + 1))


def first_order_curves(field: Field, vectors: Any, shape: Shape) -> list[list[Any]]:
    """Straight lines along the directions, for orders above the first."""
    return [[s, *[None] * (shape.order - 1)] for s in field.stack(vectors)]


def row(stack: Any, r: int, out: Tensor) -> Tensor:
    """One entry of a stack of coefficients; None is zero."""
    if stack is None:
        return out.zeros_like_()
    return _reshape(stack.narrow(0, r, 1), tuple(out.shape))


def times(x: Tensor, factor: Any) -> Tensor:
    """A product with an exact or floating number."""
    return x if factor == 1 else x * (float(factor) if isinstance(factor, Fraction) else factor)


def total(terms: Sequence[Tensor], like: Tensor) -> Tensor:
    """The sum of some tensors of one shape."""
    if not terms:
        return like.zeros_like_()
    result = terms[0]
    for t in terms[1:]:
        result = result + t
    return result


class PartialsForm(Form):
    """Several partials; the result per output is a dict by multi-index."""

    def __init__(self, indices: Sequence[Index]):
        self.wanted = tuple(dict.fromkeys(indices))
        self.order = max((len(a) for a in self.wanted), default=0)

    def indices(self, d: int) -> list[Index]:
        return list(self.wanted)

    def _plan(self, d: int) -> Plan:
        return plan(tuple(a for a in self.wanted if a), d)

    def jet_shapes(self, d: int) -> dict[str, Shape]:
        if not self.order:
            return {"collapsed": Shape((), None), "taylor": Shape((), None)}
        p = self._plan(d)
        return {"collapsed": self._shape(p, True), "taylor": self._shape(p, False)}

    def _tops(self) -> list[Index]:
        return [a for a in self.wanted if len(a) == self.order]

    def _shape(self, p: Plan, collapse: bool) -> Shape:
        counts = _counts(p)
        tops = self._tops()
        if not collapse or len(tops) >= counts[-1]:
            return Shape(counts, None)
        return Shape(counts, tuple(as_group(p.combination[a])[0] for a in tops))

    def by_jets(self, field: Field, collapse: bool) -> list[Any]:
        if not self.order:
            return [{(): o} for o in field(*field.primals)]
        p = self._plan(field.d)
        shape = self._shape(p, collapse)
        jets = flat_collapsed(
            field, field.primals, first_order_curves(field, p.matrix, shape), shape
        )
        return [self._read(jet, p, shape) for jet in jets]

    def _read(self, jet: Jet, p: Plan, shape: Shape) -> dict[Index, Tensor]:
        found = {}
        tops = self._tops()
        for a in self.wanted:
            k = len(a)
            if not k:
                found[a] = jet.value
                continue
            if k == self.order and shape.groups is not None:
                scale = factorial(k) * as_group(p.combination[a])[1]
                found[a] = times(row(jet.coefficients[-1], tops.index(a), jet.value), scale)
                continue
            found[a] = from_directions(jet, p.combination[a], k)
        return found

    def combined(self, field: Field, found: Partials) -> list[Any]:
        return list(found)


class FirstForm(PartialsForm):
    """All first derivatives; the result per output has them on a new last axis."""

    def __init__(self, d: int):
        super().__init__([(i,) for i in range(d)])

    def jet_shapes(self, d: int) -> dict[str, Shape]:
        return dict.fromkeys(("collapsed", "taylor"), Shape((d,), None))

    def evaluate(self, field: Field, method: str) -> list[Any]:
        if method not in ("collapsed", "taylor"):
            return gradients(field)
        curves = [[s] for s in field.stack(np.eye(field.d))]
        jets = flat_collapsed(field, field.primals, curves, Shape((field.d,), None))
        return [_behind(jet.coefficients[0], jet.value, field.d) for jet in jets]


def _behind(stack: Any, out: Tensor, d: int) -> Tensor:
    """A stack of first derivatives with its axis at the end; None is zero."""
    if stack is None:
        zero = _reshape(out.zeros_like_(), (*out.shape, 1))
        return expand(zero, shape=(*out.shape, d))
    return permute(stack, dims=(*range(1, out.ndim + 1), 0))


def from_directions(jet: Jet, combination: dict[int, Fraction], k: int) -> Tensor:
    """A partial of order k from the coefficients of its directions."""
    stack = jet.coefficients[k - 1]
    if stack is None:
        return jet.value.zeros_like_()
    scale = factorial(k)
    return total(
        [times(row(stack, r, jet.value), c * scale) for r, c in combination.items()], jet.value
    )


def as_group(combination: dict[int, Any]) -> tuple[tuple[tuple[int, float], ...], Any]:
    """A combination as a group of unit weights and a common factor, if its weights agree."""
    weights = set(combination.values())
    if len(weights) == 1:
        return tuple((r, 1.0) for r in sorted(combination)), weights.pop()
    return tuple((r, float(c)) for r, c in sorted(combination.items())), Fraction(1)


class LinearForm(Form):
    """``sum_a c_a d^a u``; coefficients are numbers (fractions) or tensors that broadcast to the points.

    Collapsed, all terms of highest order with constant coefficients are one sum, those that share a coefficient tensor
    another; the first-order terms ride on the highest coefficient of the curve (``J b``) and cost nothing.
    """

    def __init__(self, terms: dict[Index, Any]):
        self.terms = {a: c for a, c in terms.items() if isinstance(c, Tensor) or c != 0}
        self.order = max((len(a) for a in self.terms), default=0)
        self._found: Any = None

    def indices(self, d: int) -> list[Index]:
        return list(self.terms) or [()]

    def combined(self, field: Field, found: Partials) -> list[Any]:
        return [
            total(
                [_scaled(field, by_index[a], c) for a, c in self.terms.items()],
                next(iter(by_index.values())),
            )
            for by_index in found
        ]

    @property
    def _separate(self) -> bool:
        """Complex coefficients, or nothing to differentiate: no sum can be taken inside."""
        return self.order == 0 or any(
            c.dtype.kind == "c" if isinstance(c, Tensor) else isinstance(c, complex)
            for c in self.terms.values()
        )

    def jet_shapes(self, d: int) -> dict[str, Shape]:
        shapes = PartialsForm(self.indices(d)).jet_shapes(d)
        return shapes if self._separate else {**shapes, "collapsed": self._layout(d)[1]}

    def _layout(self, d: int) -> tuple[Plan, Shape, list[tuple[Any, Any]]]:
        """The directions, what is summed, and the factor and coefficient of every sum (found once)."""
        if self._found is None:
            self._found = self._laid_out(d)
        return self._found

    def _laid_out(self, d: int) -> tuple[Plan, Shape, list[tuple[Any, Any]]]:
        classes: dict[Any, dict[Index, Any]] = {}
        coefficient: dict[Any, Any] = {}
        for a, c in self.terms.items():
            if len(a) == self.order and self.order > 1:
                key = id(c) if isinstance(c, Tensor) else "constant"
                coefficient[key] = c if isinstance(c, Tensor) else None
                classes.setdefault(key, {})[a] = 1 if isinstance(c, Tensor) else c
        directed = tuple(a for a in self.terms if len(a) > 1)
        if not directed:
            nothing = Plan((), (), {}, np.zeros((0, d)))
            return nothing, Shape((0,), ((),)), [(Fraction(1), None)]
        p = plan(directed, d)
        sums = [(_merged(p, c), coefficient[key]) for key, c in classes.items()]
        pairs = [as_group(merged) for merged, _ in sums]
        factors = [(f, c) for (_, f), (_, c) in zip(pairs, sums, strict=True)]
        groups = [g for g, _ in pairs]
        if any(
            len(a) == 1 for a in self.terms
        ):  # the curve's own sum carries the first-order terms
            if None not in coefficient.values():
                groups, factors = [(), *groups], [(Fraction(1), None), *factors]
            else:
                at = list(coefficient.values()).index(None)
                groups.insert(0, groups.pop(at))
                factors.insert(0, factors.pop(at))
        return p, Shape(_counts(p), tuple(groups)), factors

    def by_jets(self, field: Field, collapse: bool) -> list[Any]:
        if not collapse or self._separate:
            found = PartialsForm(self.indices(field.d)).by_jets(field, collapse)
            return self.combined(field, found)
        p, shape, factors = self._layout(field.d)
        scale = factorial(self.order)
        curves = self._curves(field, p, shape, scale * factors[0][0])
        jets = flat_collapsed(field, field.primals, curves, shape)
        results = []
        for jet in jets:
            top = jet.coefficients[-1]
            terms = []
            for g, (factor, c) in enumerate(factors):
                t = times(row(top, g, jet.value), factor * scale)
                terms.append(t if c is None else _scaled(field, t, c))
            for a, c in self.terms.items():
                if len(a) == 0:
                    terms.append(_scaled(field, jet.value, c))
                elif 1 < len(a) < self.order:
                    terms.append(_scaled(field, from_directions(jet, p.combination[a], len(a)), c))
            results.append(total(terms, jet.value))
        return results

    def _curves(self, field: Field, p: Plan, shape: Shape, scale: Any) -> list[list[Any]]:
        """Straight lines along the directions, bent at order K by the first-order terms."""
        first = {a[0]: c for a, c in self.terms.items() if len(a) == 1}
        tops: list[Any] = [None] * len(field.primals)
        if first:
            tops = [_in_front(t, shape.sums) for t in self._bend(field, first, scale)]
        if shape.order == 1:
            return [[t] for t in tops]
        straight = field.stack(p.matrix)
        middle = [None] * (shape.order - 2)
        return [[s, *middle, t] for s, t in zip(straight, tops, strict=True)]

    def _bend(self, field: Field, first: dict[int, Any], scale: Any) -> list[Tensor]:
        """The vector of first-order coefficients over ``scale``, as a stack of one."""
        if not any(isinstance(c, Tensor) for c in first.values()):
            return field.stack(np.array([[float(first.get(i, 0) / scale) for i in range(field.d)]]))
        parts = []
        for i in range(field.d):
            c = first.get(i, 0)
            if isinstance(c, Tensor):
                t = expand(field.at_points(c), shape=(1, *field.points, 1))
                parts.append(times(t, 1 / scale))
            else:
                like = field.stack(np.full((1, field.d), float(c / scale)))[0]
                one = like.narrow(like.ndim - 1, 0, 1) if field.packed else like
                parts.append(_reshape(one, (1, *field.points, 1)))
        from ..op import REGISTRY

        return field.stack(REGISTRY["cat"](*parts, axis=len(field.points) + 1))


def _merged(p: Plan, terms: dict[Index, Any]) -> dict[int, Any]:
    """The weights of directions for a sum of partials; those that cancel go."""
    weights: dict[int, Any] = {}
    for a, c in terms.items():
        for r, w in p.combination[a].items():
            weights[r] = weights.get(r, 0) + w * c
    return {r: w for r, w in weights.items() if w != 0}


def _in_front(t: Tensor, sums: int) -> Tensor:
    """A stack of one followed by zeros for the other sums."""
    from ..op import REGISTRY

    if sums == 1:
        return t
    zeros = expand(t.zeros_like_(), shape=(sums - 1, *t.shape[1:]))
    return REGISTRY["cat"](t, zeros, axis=0)


def _scaled(field: Field, x: Tensor, c: Any) -> Tensor:
    return x * field.beside_points(c, x) if isinstance(c, Tensor) else times(x, c)


class DirectionsForm(Form):
    """``sum_r w_r (v_r . grad)^K u`` with directions that may differ from point to point.

    ``vectors`` is an array ``(R, d)`` or a tensor ``(R, *points, d)``; with ``weights`` None the R derivatives are kept
    apart, on a new leading axis of the result.
    """

    def __init__(self, vectors: Any, weights: Sequence[float] | None, order: int):
        self.vectors, self.weights, self.order = vectors, weights, order
        self.rows = int(vectors.shape[0])

    def indices(self, d: int) -> list[Index]:
        return list(itertools.combinations_with_replacement(range(d), self.order))

    def jet_shapes(self, d: int) -> dict[str, Shape]:
        counts = (self.rows,) * self.order
        apart = Shape(counts, None)
        if self.weights is None:
            return {"collapsed": apart, "taylor": apart}
        return {"collapsed": Shape(counts, (self._group()[0],)), "taylor": apart}

    def _group(self) -> tuple[Any, Any]:
        assert self.weights is not None
        return as_group(dict(enumerate(self.weights)))

    def by_jets(self, field: Field, collapse: bool) -> list[Any]:
        shape = self.jet_shapes(field.d)["collapsed" if collapse else "taylor"]
        jets = flat_collapsed(
            field, field.primals, first_order_curves(field, self.vectors, shape), shape
        )
        return [self._read(jet, shape) for jet in jets]

    def _read(self, jet: Jet, shape: Shape) -> Tensor:
        top, scale = jet.coefficients[-1], factorial(self.order)
        if self.weights is None:
            full = (self.rows, *jet.value.shape)
            if top is None:
                return expand(jet.value.zeros_like_(), shape=full)
            return times(top, scale)
        if shape.groups is not None:
            return times(row(top, 0, jet.value), scale * self._group()[1])
        return total(
            [times(row(top, r, jet.value), w * scale) for r, w in enumerate(self.weights)],
            jet.value,
        )

    def combined(self, field: Field, found: Partials) -> list[Any]:
        """Multiplied out: ``(v . grad)^K = sum_{|a|=K} K!/a! v^a d^a``."""
        results = []
        for by_index in found:
            rows = [
                total(
                    [
                        _scaled(field, by_index[a], self._factor(field, r, a))
                        for a in self.indices(field.d)
                    ],
                    by_index[self.indices(field.d)[0]],
                )
                for r in range(self.rows)
            ]
            like = rows[0]
            if self.weights is None:
                from ..op import REGISTRY

                flat = [_reshape(t, (1, *t.shape)) for t in rows]
                results.append(REGISTRY["cat"](*flat, axis=0))
            else:
                results.append(
                    total([times(t, w) for t, w in zip(rows, self.weights, strict=True)], like)
                )
        return results

    def _factor(self, field: Field, r: int, a: Index) -> Any:
        count = factorial(self.order) // prod(factorial(n) for n in exponents(a, field.d))
        if not isinstance(self.vectors, Tensor):
            return count * float(prod(self.vectors[r][i] for i in a))
        product: Any = None
        v = _reshape(self.vectors.narrow(0, r, 1), tuple(self.vectors.shape[1:]))
        for i in a:
            one = _reshape(v.narrow(v.ndim - 1, i, 1), tuple(v.shape[:-1]))
            product = one if product is None else product * one
        return times(product, count)
