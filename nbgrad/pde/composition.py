"""Faa di Bruno's formula on stacked Taylor coefficients: what an elementwise function does to many curves at once.

For ``y = f(x)`` and curves ``x + x_1 s + x_2 s^2 + ...`` the coefficients are sums over the partitions of k,
``y_k = sum f^(m)(x)/m! * m!/prod(n_i!) * prod x_i^{n_i}`` with ``m`` parts, part i occurring n_i times. The derivatives of
f are taken at the primal, which all directions share; so they are computed once, not once a direction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import closing
from math import factorial, prod
from typing import Any

from ..op.interpreter import new_level, own
from ..op.kernels import scaled
from ..ops.elementwise import zmul
from ..ops.view import _reshape, expand
from ..tape.taylor import Series, TaylorInterpreter
from ..tensor import Tensor


@functools.cache
def partitions(k: int, largest: int | None = None) -> tuple[tuple[int, ...], ...]:
    """The partitions of k into descending parts."""
    if k == 0:
        return ((),)
    top = k if largest is None else min(k, largest)
    return tuple((p, *rest) for p in range(top, 0, -1) for rest in partitions(k - p, p))


def multiplicity(parts: tuple[int, ...]) -> int:
    """``m! / prod(n_i!)``: in how many orders the parts can stand."""
    return factorial(len(parts)) // prod(factorial(parts.count(p)) for p in set(parts))


def tower(op: Any, i: int, primals: Sequence[Tensor], out: Tensor, order: int) -> list[Any]:
    """``f^(m)/m!`` for m = 1 .. order of an elementwise operator in its argument i, at the primals.

    Entries are tensors that broadcast to the output, numbers, or None for zero.
    """
    interpreter = TaylorInterpreter()
    with closing(interpreter), new_level("a Taylor transform", interpreter) as level:
        # the curve x + s; its derivative is 1, so the operator's partial is the derivative of the result
        one = primals[i].ones_like_()
        args = list(primals)
        args[i] = Tensor(Series(level, primals[i], lambda k: one if k == 1 else None))
        box: list[Any] = []
        result = Tensor(Series(level, out, lambda k: _divided(_term(level, box[0], k - 1), k)))
        if op.partials[i] is not None and not op.diagonal:
            box.append(op.partial(i, args, result))
        else:
            tangents = [one if j == i else None for j in range(len(args))]
            box.append(op.run_jvp(tangents, result, args, {}))
        return [result._data.term(k) for k in range(1, order + 1)]


def _term(level: Any, p: Any, k: int) -> Any:
    """Coefficient k of a partial: a series of the level, or something constant."""
    if isinstance(p, Tensor) and own(level, p):
        return p._data.term(k)
    return p if k == 0 else None


def _divided(c: Any, k: int) -> Any:
    return c if c is None or k == 1 else c / k


class Monomials:
    """Products of coefficients over the first ``rows`` directions, each computed once."""

    def __init__(self, coefficients: Sequence[Any]):
        self.coefficients = coefficients  # x_1 .. x_{K-1}; None is zero
        self.known: dict[tuple, Any] = {}

    def get(self, parts: tuple[int, ...], rows: int) -> Any:
        """``prod x_p`` over the parts, or None for zero."""
        key = (parts, rows)
        if key not in self.known:
            last = self.coefficients[parts[-1] - 1]
            value = None if last is None else head(last, rows)
            if value is not None and len(parts) > 1:
                rest = self.get(parts[:-1], rows)
                value = None if rest is None else zmul(rest, value)
            self.known[key] = value
        return self.known[key]


def head(t: Tensor, rows: int) -> Tensor:
    """The first directions of a stack."""
    return t if t._data.shape[0] == rows else t.narrow(0, 0, rows)


def compose(
    derivatives: Sequence[Any],
    coefficients: Sequence[Any],
    top: Any,
    counts: Sequence[int],
    contract: Callable,
    shape: tuple[int, ...],
) -> list[Any]:
    """Coefficients of ``f(x)``: the lower ones per direction, the highest contracted before f's derivatives enter.

    Parameters
    ----------
    derivatives : ``f^(m)/m!``, see `tower`.
    coefficients, top : x_1 .. x_{K-1}, of shapes ``(counts[k-1], ...)``, and the contracted x_K; None is zero.
    counts : directions at order 1 .. K.
    contract : the weighted sums over the directions of order K.
    shape : of the result.
    """
    order = len(counts)
    given = [None if c is None else _aligned(c, shape) for c in (*coefficients, top)]
    monomials = Monomials(given[:-1])
    found = []
    for k in range(1, order + 1):
        total: Any = None
        for parts in partitions(k):
            c = derivatives[len(parts) - 1]
            if c is None or (isinstance(c, int | float) and c == 0):
                continue
            if k == order and len(parts) == 1:
                product = given[-1]
            else:
                product = monomials.get(parts, counts[k - 1])
                if product is not None and k == order:
                    product = contract(product)
            if product is not None:
                n = multiplicity(parts)
                term = scaled(product, c if n == 1 else c * n)
                total = term if total is None else total + term
        found.append(None if total is None else stretched(total, shape))
    return found


def _aligned(c: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A stack padded to the rank of the result."""
    pad = len(shape) + 1 - c._data.ndim
    rows, *rest = c._data.shape
    return c if pad == 0 else _reshape(c, (rows, *(1,) * pad, *rest))


def stretched(c: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A stack broadcast to the shape of the result."""
    c = _aligned(c, shape)
    full = (c._data.shape[0], *shape)
    return c if c._data.shape == full else expand(c, shape=full)
