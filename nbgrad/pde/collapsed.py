"""Collapsed Taylor mode: many curves at once, and of the highest coefficient only weighted sums over them.

The coefficient of highest order K enters every operation linearly, ``y_K = J x_K + (terms in lower coefficients)``, so its
weighted sum over directions can be propagated instead of one coefficient a direction (arXiv 2505.13644; with K = 2
and unit weights it is the forward Laplacian). A value holds the primal, the coefficients 1 .. K-1 stacked over the
directions along a new leading axis, and G such sums of coefficient K. Directions that are needed to a lower order
only stand last and drop out above it.

Rules: jointly linear operators act coefficient by coefficient through their batching rules, bilinear ones by the Cauchy
product, elementwise ones by Faa di Bruno's formula (`composition`). Everything else runs ordinary Taylor mode for all
directions (vectorised) and sums at the end, which is right but saves nothing for that operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..device import beside
from ..op import REGISTRY, as_tensor
from ..op.batching import align, front
from ..op.dispatch import CONSTANT, tag
from ..op.elementwise import Elementwise
from ..op.interpreter import new_level, own
from ..ops.view import expand
from ..tape.taylor import flat_jet
from ..tensor import Level, Tensor, Value
from .composition import compose, head, stretched, tower

Group = tuple[tuple[int, float], ...]  # (direction, weight) pairs of one sum


class Shape(NamedTuple):
    """What is propagated: ``counts[k-1]`` directions at order k = 1 .. K, and the sums taken at order K.

    ``groups`` None keeps every direction of order K by itself (Taylor mode that is not collapsed).
    """

    counts: tuple[int, ...]
    groups: tuple[Group, ...] | None

    @property
    def order(self) -> int:
        """K."""
        return len(self.counts)

    @property
    def sums(self) -> int:
        """G: how many highest coefficients are carried."""
        return self.counts[-1] if self.groups is None else len(self.groups)


class Coefficients(Value):
    """Primal, stacked lower coefficients, contracted highest one (None is a symbolic zero)."""

    __slots__ = ("coefficients", "primal")

    def __init__(self, level: Level, primal: Tensor, coefficients: Sequence[Any]):
        self.level, self.primal, self.coefficients = level, primal, tuple(coefficients)
        self.shape, self.dtype = primal._data.shape, primal._data.dtype

    @property
    def moves(self) -> bool:
        """Whether any coefficient may differ from zero."""
        return any(c is not None for c in self.coefficients)

    def parts(self) -> tuple[Tensor, ...]:
        """The lower tensors under this value."""
        return (self.primal, *(c for c in self.coefficients if c is not None))


class CollapsedInterpreter:
    """Runs operators on `Coefficients`."""

    def __init__(self, shape: Shape):
        self.shape, self.order, self.counts = shape, shape.order, shape.counts

    def lift(self, level: Level, t: Tensor) -> Coefficients:
        """A constant."""
        return Coefficients(level, t, (None,) * self.order)

    def contract(self, t: Tensor) -> Any:
        """The sums over the directions of order K: ``(R, ...)`` to ``(G, ...)``; None if there is nothing to sum.

        The sum operator accumulates float32 in float64.
        """
        if self.shape.groups is None:
            return t
        parts = [_weighted_sum(t, group) for group in self.shape.groups]
        if all(p is None for p in parts):
            return None
        zero = next(p for p in parts if p is not None)
        full = [zero.zeros_like_() if p is None else p for p in parts]
        return full[0] if len(full) == 1 else REGISTRY["cat"](*full, axis=0)

    def process(self, level: Level, op: Any, args: Sequence[Tensor], params: dict) -> Any:
        """One operator."""
        values = [t._data if own(level, t) else None for t in args]
        primals = [t if v is None else v.primal for t, v in zip(args, values, strict=True)]
        out = op(*primals, **params)
        live = [
            i
            for i, v in enumerate(values)
            if v is not None and v.moves and i not in op.nondiff and v.dtype.kind in "fc"
        ]
        outs = out if isinstance(out, tuple) else (out,)
        if op.differentiable and live:
            stacks = [None if v is None else v.coefficients for v in values]
            rows = self._rule(op, live)(op, stacks, primals, out, params, live)
        else:
            rows = [(None,) * self.order] * len(outs)
        # a gradient inside needs results at this level, even where nothing moves
        keep = any(t._node is not None and own(level, t) for t in args)
        made = tuple(
            Coefficients(level, o, row)
            if o._data.dtype.kind in "fc" and (keep or any(c is not None for c in row))
            else o
            for o, row in zip(outs, rows, strict=True)
        )
        return made if isinstance(out, tuple) else made[0]

    def _rule(self, op: Any, live: Sequence[int]) -> Callable:
        linear = op.linear_args(max(live) + 1)
        if linear and all(i in linear for i in live):
            return self._sum if op.name in SIGNS else self._linear
        if op.multilinear and len(live) <= 2 and all(i in op.multilinear for i in live):
            return self._cauchy
        if isinstance(op, Elementwise):
            return self._quotient if op.name == "div" and len(live) == 2 else self._elementwise
        return self._separate

    def _sum(self, op, stacks, primals, out, params, live) -> list:
        """``add`` and ``sub``: constants contribute nothing, so nothing is added."""
        row = []
        shape = tuple(out._data.shape)
        for k in range(self.order):
            total: Any = None
            for i in live:
                c = stacks[i][k]
                if c is None:
                    continue
                c = stretched(c, shape)
                if total is None:
                    total = c if SIGNS[op.name][i] > 0 else -c
                else:
                    total = total + c if SIGNS[op.name][i] > 0 else total - c
            row.append(total)
        return [row]

    def _linear(self, op, stacks, primals, out, params, live) -> list:
        linear = op.linear_args(len(primals))
        columns = []
        for k in range(self.order):
            terms = [stacks[i][k] if i in live else None for i in range(len(primals))]
            if all(t is None for t in terms):
                columns.append(None)
                continue
            full, dims = [], []
            for i, (t, p) in enumerate(zip(terms, primals, strict=True)):
                full.append(t if t is not None else (p.zeros_like_() if i in linear else p))
                dims.append(None if t is None else 0)
            columns.append(mapped(op, full, dims, params))
        if not isinstance(out, tuple):
            return [columns]
        return [[None if c is None else c[j] for c in columns] for j in range(len(out))]

    def _cauchy(self, op, stacks, primals, out, params, live) -> list:
        """A product in which one or two factors move."""
        row = []
        for k in range(1, self.order + 1):
            rows = self.counts[k - 1]
            total: Any = None  # over directions
            for j in range(1, k) if len(live) == 2 else ():
                a, b = stacks[live[0]][j - 1], stacks[live[1]][k - j - 1]
                if a is None or b is None:
                    continue
                args, dims = list(primals), unbatched(primals)
                args[live[0]], args[live[1]] = head(a, rows), head(b, rows)
                dims[live[0]] = dims[live[1]] = 0
                term = product(op, args, dims, params, out)
                total = term if total is None else total + term
            if total is not None and k == self.order:
                total = self.contract(total)
            for i in live:
                c = stacks[i][k - 1]
                if c is None:
                    continue
                args, dims = list(primals), unbatched(primals)
                args[i], dims[i] = c, 0
                term = product(op, args, dims, params, out)
                total = term if total is None else total + term
            row.append(total)
        return [row]

    def _elementwise(self, op, stacks, primals, out, params, live) -> list:
        i = live[0]
        real = primals[i]._data.dtype.kind == "f" and out._data.dtype.kind == "f"
        if len(live) > 1 or not (real or not op.wirtinger):
            return self._separate(op, stacks, primals, out, params, live)
        found = tower(op, i, primals, out, self.order)
        *lower, top = stacks[i]
        shape = tuple(out._data.shape)
        return [compose(found, lower, top, self.counts, self.contract, shape)]

    def _quotient(self, op, stacks, primals, out, params, live) -> list:
        """``a / b`` with both moving: the product with ``1 / b``."""
        inverse = REGISTRY["reciprocal"]
        r = inverse(primals[1])
        one = self._elementwise(inverse, [stacks[1]], [primals[1]], r, {}, [0])
        pair = [stacks[0], one[0]]
        return self._cauchy(REGISTRY["mul"], pair, [primals[0], r], out, {}, live)

    def _separate(self, op, stacks, primals, out, params, live) -> list:
        """Ordinary Taylor mode for every direction, the sums at the end."""
        from ..func.flat import flat_vmap

        n = self.counts[0]
        given, places = [], []
        for i in live:
            for k, c in enumerate(stacks[i][:-1]):
                if c is not None:
                    given.append(_padded(c, n))
                    places.append((i, k))

        def one(*coefficients: Tensor) -> list:
            series = {i: [None] * self.order for i in live}
            for (i, k), c in zip(places, coefficients, strict=True):
                series[i][k] = c

            def run(*moving: Tensor) -> Sequence[Tensor]:
                args = list(primals)
                for i, t in zip(live, moving, strict=True):
                    args[i] = t
                got = op(*args, **params)
                return got if isinstance(got, tuple) else (got,)

            _, rows = flat_jet(run, [primals[i] for i in live], [series[i] for i in live])
            return [c for row in rows for c in row]

        outs = out if isinstance(out, tuple) else (out,)
        rows: list[list[Any]] = [[None] * self.order for _ in outs]
        if given:
            flat = iter(flat_vmap(one, given, [0] * len(given), n))
            for o, row in zip(outs, rows, strict=True):
                found = [head(next(flat), m) for m in self.counts]
                if o._data.dtype.kind in "fc":
                    row[:] = [*found[:-1], self.contract(found[-1])]
        self._add_top(rows, op, stacks, primals, out, params, live)
        return rows

    def _add_top(self, rows, op, stacks, primals, out, params, live) -> None:
        """The contracted coefficients of the arguments go through the Jacobian."""
        from ..func.flat import flat_vmap

        moving = [i for i in live if stacks[i][-1] is not None]
        if not moving:
            return
        outs = out if isinstance(out, tuple) else (out,)

        def push(*tops: Tensor) -> list:
            tangents: list[Any] = [None] * len(primals)
            for i, t in zip(moving, tops, strict=True):
                tangents[i] = t
            got = op.run_jvp(tangents, out, primals, params)
            got = got if isinstance(got, tuple) else (got,)
            return [o.zeros_like_() if g is None else g for g, o in zip(got, outs, strict=True)]

        tops = [stacks[i][-1] for i in moving]
        pushed = flat_vmap(push, tops, [0] * len(tops), tops[0].shape[0])
        for o, row, c in zip(outs, rows, pushed, strict=True):
            if o._data.dtype.kind in "fc":
                row[-1] = c if row[-1] is None else row[-1] + c


SIGNS = {"add": (1, 1), "sub": (1, -1)}


def unbatched(args: Sequence[Tensor]) -> list[int | None]:
    """No stack among the arguments yet."""
    return [None] * len(args)


def mapped(op: Any, args: Sequence[Tensor], dims: Sequence[int | None], params: dict) -> Any:
    """An operator over the stacked directions, by its batching rule; they come first in the result."""
    out, where = op.run_batch(dims, args, params)
    if not isinstance(out, tuple):
        return front(out, where)
    places = where if isinstance(where, tuple) else (where,) * len(out)
    return tuple(front(o, d) for o, d in zip(out, places, strict=True))


def product(op: Any, args: Sequence[Tensor], dims: Sequence, params: dict, out: Tensor) -> Tensor:
    """A bilinear operator on coefficients; zero wins in elementwise ones."""
    if isinstance(op, Elementwise):
        return stretched(op.in_derivatives(*align(dims, args)), tuple(out._data.shape))
    return mapped(op, args, dims, params)


def _weighted_sum(t: Tensor, group: Group) -> Any:
    """``sum_r w_r t[r]`` with the axis kept (size 1), or None for an empty group."""
    if not group:
        return None
    rows = [r for r, _ in group]
    weights = np.array([w for _, w in group])
    if rows == list(range(rows[0], rows[0] + len(rows))):
        t = t if len(rows) == t._data.shape[0] else t.narrow(0, rows[0], len(rows))
    else:
        t = t.index_select(0, constant(np.array(rows), t))
    if (weights != 1).any():
        real = np.zeros((), t._data.dtype).real.dtype
        t = t * constant(weights.astype(real).reshape((-1, *(1,) * (t._data.ndim - 1))), t)
    return t if len(rows) == 1 else REGISTRY["sum"](t, axes=(0,), keepdim=True)


def constant(array: np.ndarray, like: Tensor) -> Tensor:
    """An array of ours as a tensor on the device of another one."""
    return tag(beside(like, Tensor(array)), CONSTANT)


def _padded(c: Tensor, rows: int) -> Tensor:
    """A stack with zeros for the directions that have dropped out."""
    missing = rows - c._data.shape[0]
    if not missing:
        return c
    zeros = expand(head(c, 1).zeros_like_(), shape=(missing, *c._data.shape[1:]))
    return REGISTRY["cat"](c, zeros, axis=0)


class Jet(NamedTuple):
    """Of one output: its value, lower coefficients per direction, and the sums of the highest (None is zero)."""

    value: Tensor
    coefficients: tuple


def flat_collapsed(
    fn: Callable, primals: Sequence[Tensor], curves: Sequence[Sequence[Any]], shape: Shape
) -> list[Jet]:
    """Taylor coefficients of ``fn`` along curves that share their starting point.

    Parameters
    ----------
    fn : flat tensors to a sequence of tensors.
    curves : per primal, coefficients 1 .. K-1 of shape ``(counts[k-1], *shape)`` and the contracted coefficient K of
        shape ``(G, *shape)``; None is zero.
    shape : numbers of directions and the sums.
    """
    interpreter = CollapsedInterpreter(shape)
    with new_level("a collapsed Taylor transform", interpreter) as level:
        args = []
        for x, c in zip(primals, curves, strict=True):
            x.refresh_()
            args.append(Tensor(Coefficients(level, x, c)))
        jets = []
        for o in fn(*args):
            o = as_tensor(o, "pde")
            o.refresh_()
            if own(level, o):
                jets.append(Jet(o._data.primal, o._data.coefficients))
            else:
                jets.append(Jet(o, (None,) * shape.order))
    return jets
