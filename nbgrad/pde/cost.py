"""What the ways to differentiate cost, in evaluations of the field: the model behind ``method="auto"``.

A reverse pass to the coordinates alone costs as much as its forward pass, for every component of the result. A coefficient
of one direction costs a little more than the field itself: as much for matrix products, more for elementwise functions.
`COEFFICIENT` was measured on networks (value and parameter gradient, eagerly). The model is deterministic and needs no
timing; `explain` puts the counted operations of the traced programs beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from .collapsed import Shape
from .directions import Index

METHODS = ("collapsed", "taylor", "forward_over_reverse", "nested")
COEFFICIENT = 1.3


def jet_cost(shape: Shape) -> float:
    """One evaluation for the primal, and the coefficients carried."""
    if not shape.counts:
        return 1.0
    return 1.0 + COEFFICIENT * (sum(shape.counts[:-1]) + shape.sums)


def nested_cost(indices: Sequence[Index], components: int, forward: bool) -> float:
    """Nested passes. The graph of one partial of order k costs ``2^k``, and so does a reverse pass through it.

    Forward mode pushes a tangent through everything below, once for each coordinate.
    """
    order = max((len(a) for a in indices), default=0)
    cost = 1.0
    for k in range(1, order + 1):
        wanted = {a[:k] for a in indices if len(a) >= k}
        if forward and k > 1:
            cost *= 1 + len({b[-1] for b in wanted})
        else:
            cost += 2 ** (k - 1) * components * len({b[:-1] for b in wanted})
    return cost


def cheapest(costs: dict[str, float]) -> str:
    """The method of least cost; of equals the first of `METHODS`."""
    return min((m for m in METHODS if m in costs), key=lambda m: costs[m])
