"""Minimum, maximum, clamp. At a tie each side gets half; on a bound the bound gets everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen.expr import m
from ..errors import ArgumentError, message
from ..op import elementwise
from ..op.public import public
from .sampling import HIGH, LOW, MIDDLE, elements
from .selection import drop, keep


def _share(t: Any, wins: Any, tie: Any) -> Any:
    """t where this side wins, half of it at a tie."""
    return keep(wins, t) + 0.5 * keep(tie, t)


@elementwise(
    complex_ok=False,
    diagonal=(
        lambda t, x, y, out: _share(t, (x > y) | (x != x), x == y),
        lambda t, x, y, out: _share(t, (y > x) | ((y != y) & (x == x)), x == y),
    ),
    tests=elements(LOW, MIDDLE),
    reference=np.maximum,
)
def maximum(x, y):
    """The larger of two; NaN wins; at a tie each gets half the gradient."""
    return m.select((x > y) | (x != x), x, y)


@elementwise(
    complex_ok=False,
    diagonal=(
        lambda t, x, y, out: _share(t, (x < y) | (x != x), x == y),
        lambda t, x, y, out: _share(t, (y < x) | ((y != y) & (x == x)), x == y),
    ),
    tests=elements(LOW, MIDDLE),
    reference=np.minimum,
)
def minimum(x, y):
    """The smaller of two; NaN wins; at a tie each gets half the gradient."""
    return m.select((x < y) | (x != x), x, y)


@elementwise(
    complex_ok=False,
    diagonal=(
        lambda t, x, y, out: _share(t, (x > y) | (y != y), x == y),
        lambda t, x, y, out: _share(t, (y > x) | ((x != x) & (y == y)), x == y),
    ),
    tests=elements(LOW, MIDDLE),
    reference=np.fmax,
)
def fmax(x, y):
    """The larger of two, ignoring NaN where the other is a number; ties share the gradient."""
    return m.select((x >= y) | (y != y), x, y)


@elementwise(
    complex_ok=False,
    diagonal=(
        lambda t, x, y, out: _share(t, (x < y) | (y != y), x == y),
        lambda t, x, y, out: _share(t, (y < x) | ((x != x) & (y == y)), x == y),
    ),
    tests=elements(LOW, MIDDLE),
    reference=np.fmin,
)
def fmin(x, y):
    """The smaller of two, ignoring NaN where the other is a number; ties share the gradient."""
    return m.select((x <= y) | (y != y), x, y)


@elementwise(
    complex_ok=False,
    diagonal=(
        lambda t, x, lo, out: drop(x <= lo, t),
        lambda t, x, lo, out: keep(x <= lo, t),
    ),
    tests=elements(LOW, MIDDLE),
    reference=np.maximum,
)
def clamp_min(x, lo):
    """``max(x, lo)``; where ``x <= lo`` the whole gradient goes to the bound."""
    return m.select((x <= lo) | (lo != lo), lo, x)


@elementwise(
    complex_ok=False,
    diagonal=(
        lambda t, x, hi, out: drop(x >= hi, t),
        lambda t, x, hi, out: keep(x >= hi, t),
    ),
    tests=elements(LOW, MIDDLE),
    reference=np.minimum,
)
def clamp_max(x, hi):
    """``min(x, hi)``; where ``x >= hi`` the whole gradient goes to the bound."""
    return m.select((x >= hi) | (hi != hi), hi, x)


def _over(x: Any, lo: Any, hi: Any) -> Any:
    return (x >= hi) | (lo >= hi)


@elementwise(
    "clamp",
    hidden=True,
    complex_ok=False,
    diagonal=(
        lambda t, x, lo, hi, out: drop((x <= lo) | _over(x, lo, hi), t),
        lambda t, x, lo, hi, out: keep((x <= lo) & ~_over(x, lo, hi), t),
        lambda t, x, lo, hi, out: keep(_over(x, lo, hi), t),
    ),
    tests=elements(LOW, MIDDLE, HIGH),
    reference=np.clip,
)
def clamp_both(x, lo, hi):
    """``min(max(x, lo), hi)``; on a bound the whole gradient goes to the bound."""
    low = m.select((x <= lo) | (lo != lo), lo, x)
    return m.select((low >= hi) | (hi != hi), hi, low)


@public(name="clamp", alias=("clip",), inplace=True)
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Limit the values to ``[min, max]``; each bound is a number, a tensor (broadcast), or None.

    Strictly inside the interval the derivative is 1; on a bound and outside it is 0 and goes to the bound instead
    (as in relu, relu6 and hardtanh). If ``min > max`` the result is ``max``.

    Raises
    ------
    ArgumentError : both bounds are None.
    """
    if min is None and max is None:
        raise ArgumentError(
            message("clamp", "the bounds", "None and None", "a number or tensor for one of them")
        )
    if max is None:
        return clamp_min(input, min)
    if min is None:
        return clamp_max(input, max)
    return clamp_both(input, min, max)
