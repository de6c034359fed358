"""Partials by nesting: reverse mode again and again, or one reverse pass with forward mode over it.

Reverse mode takes the gradient of the sum over the points, which is right because points do not couple (see `coupling`).
Common prefixes of multi-indices are differentiated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..func.flat import flat_jvp, flat_vjp, flat_vmap
from ..op import REGISTRY
from ..ops.view import _reshape, permute
from ..tensor import Tensor
from .collapsed import constant
from .directions import Index
from .fields import Field

Keys = list[tuple[Index, int]]  # which partial of which output


def prefixes(indices: Sequence[Index], k: int) -> list[Index]:
    """The different beginnings of length k."""
    return sorted({a[:k] for a in indices if len(a) >= k})


def nested_partials(
    field: Field, indices: Sequence[Index], forward: bool
) -> list[dict[Index, Tensor]]:
    """All partials asked for, one dict per output of the field.

    With ``forward`` only the first derivative is by reverse mode and the others are by forward mode over it.
    """
    step: Callable = field
    keys: Keys = []
    order = max(len(a) for a in indices)
    for k in range(1, order + 1):
        wanted = prefixes(indices, k)
        make = _forward_step if forward and k > 1 else _reverse_step
        step = make(field, step, k, wanted, keys)
    outs = step(*field.primals)
    if not order:
        return [{(): o} for o in outs]
    found: dict[int, dict[Index, Tensor]] = {}
    for (a, j), t in zip(keys, outs, strict=True):
        found.setdefault(j, {})[a] = t
    return [{a: found[j][a] for a in indices} for j in sorted(found)]


def _initial(keys: Keys, k: int, outs: Sequence[Tensor]) -> Keys:
    """The keys of the results one order below."""
    return [((), j) for j in range(len(outs))] if k == 1 else list(keys)


def _reverse_step(field: Field, below: Callable, k: int, wanted: list[Index], keys: Keys):
    """The function of order k: everything below, and its gradients."""

    def step(*coordinates: Tensor) -> list[Tensor]:
        outs, pull = flat_vjp(below, coordinates, field.op)
        known = _initial(keys, k, outs)
        made, more = [], []
        for at, (a, j) in enumerate(known):
            children = [b for b in wanted if b[:-1] == a] if len(a) == k - 1 else []
            if children:
                g = _gradient(field, outs, at, pull)
                more += [(b, j) for b in children]
                made += [last_entry(g, b[-1]) for b in children]
        keys[:] = [*known, *more]
        return [*outs, *made]

    return step


def _forward_step(field: Field, below: Callable, k: int, wanted: list[Index], keys: Keys):
    """The function of order k: everything below, and its derivatives along the coordinates needed.

    The tangents of all coordinates go together (vectorised), so that everything below runs once.
    """
    needed = sorted({b[-1] for b in wanted})

    def step(*coordinates: Tensor) -> list[Tensor]:
        units = field.stack(np.eye(field.d)[needed])

        def push(*tangents: Tensor) -> list[Tensor]:
            outs, dots = flat_jvp(below, coordinates, tangents)
            return [*outs, *dots]

        both = flat_vmap(push, units, [0] * len(units), len(needed), randomness="same")
        outs, dots = both[: len(both) // 2], both[len(both) // 2 :]
        known = _initial(keys, k, outs)
        made, more = [], []
        for (a, j), dot in zip(known, dots, strict=True):
            for at, i in enumerate(needed):
                if (*a, i) in wanted:
                    more.append(((*a, i), j))
                    made.append(_entry(dot, at))
        keys[:] = [*known, *more]
        return [*(_entry(o, 0) for o in outs), *made]

    return step


def _entry(stack: Tensor, i: int) -> Tensor:
    return _reshape(stack.narrow(0, i, 1), tuple(stack.shape[1:]))


def last_entry(t: Tensor, i: int) -> Tensor:
    """One entry of the last axis."""
    return _reshape(t.narrow(t.ndim - 1, i, 1), tuple(t.shape[:-1]))


def gradients(field: Field) -> list[Tensor]:
    """All first derivatives of every output, on a new last axis."""
    outs, pull = flat_vjp(field, field.primals, field.op)
    return [_gradient(field, outs, j, pull) for j in range(len(outs))]


def _gradient(field: Field, outs: Sequence[Tensor], at: int, pull: Callable) -> Tensor:
    """Derivatives of one result at every point with respect to the coordinates of that point: ``(*out.shape, d)``."""
    out = outs[at]
    trail = field.trailing(tuple(out.shape))

    def pulled(cotangent: Tensor) -> list[Tensor]:
        return pull([cotangent if j == at else None for j in range(len(outs))])

    rows = _components(out, trail, pulled, 1)
    if out.dtype.kind == "c":  # a cotangent g gives a real coordinate Re(g conj(dy/dx))
        imag = _components(out, trail, pulled, 1j)
        rows = [a + b * 1j for a, b in zip(rows, imag, strict=True)]
    n, points = len(trail), tuple(out.shape)[: out.ndim - len(trail)]
    if not field.packed:
        rows = [_reshape(r, (*trail, *points, 1)) for r in rows]
    joined = rows[0] if len(rows) == 1 else REGISTRY["cat"](*rows, axis=out.ndim)
    joined = _reshape(joined, (*trail, *points, field.d))
    return permute(joined, dims=(*range(n, out.ndim), *range(n), out.ndim)) if n else joined


def _components(out: Tensor, trail: tuple, pulled: Callable, unit: Any) -> list[Tensor]:
    """Pullbacks of every component, stacked in front."""
    if not trail:
        return pulled(out.ones_like_() * unit)
    m = prod(trail)
    points = (1,) * (out.ndim - len(trail))
    basis = np.eye(m, dtype=out.dtype).reshape(m, *points, *trail) * unit
    stack = constant(basis.astype(out.dtype), out).expand((m, *out.shape))
    return flat_vmap(lambda c: pulled(c), [stack], [0], m, randomness="same")
