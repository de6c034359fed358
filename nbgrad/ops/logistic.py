"""The logistic function and sums in the logarithm's domain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..codegen.expr import m
from ..op import elementwise
from .sampling import REAL, elements
from .selection import drop
from .transcendental import LN2
from .trigonometric import tanh


@elementwise(
    partials=(lambda x, out: logistic_density(x),),
    promotion="float",
    tests=elements(REAL),
    reference=lambda x: 1 / (1 + np.exp(-x)),
)
def sigmoid(x):
    """1/(1 + exp(-x)), accurate in both tails."""
    return m.sigmoid(x)


@elementwise(
    hidden=True,
    partials=(lambda x, out: -out * tanh(0.5 * x),),
    promotion="float",
    tests=elements(REAL),
    reference=lambda x: 0.25 / np.cosh(x / 2) ** 2,
)
def logistic_density(x):
    """The derivative of the sigmoid, ``s(x) s(-x)``, accurate in both tails."""
    if x.dtype.kind == "c":
        return m.sigmoid(x) * m.sigmoid(-x)
    e = m.exp(-m.fabs(x))
    return e / ((1 + e) * (1 + e))


def _gap(x: Any, y: Any) -> Any:
    """x - y, and 0 where both are the same infinity."""
    return drop((x == y) & ((x == math.inf) | (x == -math.inf)), x - y)


def _log_add(x: Any, y: Any, log_of_one_plus_exp: Any, at_tie: float) -> Any:
    top, bottom = m.select((x > y) | (x != x), x, y), m.select((x > y) | (x != x), y, x)
    gap = m.select(top == bottom, m.const(0, x), bottom - top)
    return m.select(top == bottom, top + at_tie, top + log_of_one_plus_exp(gap))


@elementwise(
    complex_ok=False,
    partials=(
        lambda x, y, out: drop(out == -math.inf, sigmoid(_gap(x, y))),
        lambda x, y, out: drop(out == -math.inf, sigmoid(_gap(y, x))),
    ),
    promotion="float",
    tests=elements(REAL, REAL),
    reference=np.logaddexp,
)
def logaddexp(x, y):
    """log(exp(x) + exp(y)) without overflow; where both are -inf the derivatives are 0."""
    return _log_add(x, y, lambda gap: m.log1p(m.exp(gap)), LN2)


@elementwise(
    complex_ok=False,
    partials=(
        lambda x, y, out: drop(out == -math.inf, sigmoid(_gap(x, y) * LN2)),
        lambda x, y, out: drop(out == -math.inf, sigmoid(_gap(y, x) * LN2)),
    ),
    promotion="float",
    tests=elements(REAL, REAL),
    reference=np.logaddexp2,
)
def logaddexp2(x, y):
    """log2(2**x + 2**y) without overflow; where both are -inf the derivatives are 0."""
    return _log_add(x, y, lambda gap: m.log1p(m.exp2(gap)) * (1 / LN2), 1.0)
