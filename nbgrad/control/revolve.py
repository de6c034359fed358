"""Reversing a sequence of steps while few of its states are kept.

Binomial checkpointing (A. Griewank, A. Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000) 19-45): with ``s``
states and every step advanced at most ``r`` times, ``beta(s, r) = C(s + r, s)`` steps can be reversed, at the least
possible number ``r n - beta(s + 1, r - 1)`` of advanced steps.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any, NamedTuple


class Report(NamedTuple):
    """What a reversal took: the most states kept at one time (the first one included), and the steps advanced."""

    peak: int
    advanced: int


def beta(s: int, r: int) -> int:
    """How many steps can be reversed with ``s`` states and ``r`` repetitions (0 where ``r`` is negative)."""
    return comb(s + r, s) if r >= 0 else 0


def repetitions(n: int, s: int) -> int:
    """The least ``r`` with ``beta(s, r) >= n``."""
    r = 0
    while beta(s, r) < n:
        r += 1
    return r


def split(n: int, s: int) -> int:
    """How far to advance from a kept state, before the next is kept, to reverse ``n`` > 1 steps with ``s`` > 1 states."""
    r = repetitions(n, s)
    return min(beta(s, r - 1), n - beta(s - 1, r - 1))


def revolve(
    n: int,
    s: int,
    state: Any,
    advance: Callable[[Any, int, int], Any],
    reverse: Callable[[int, Any], None],
) -> Report:
    """Call ``reverse(k, state before step k)`` for k = n - 1 ... 0.

    ``advance(state, lo, hi)`` computes the state before step ``hi``. At most ``s`` >= 1 states are kept.
    """
    kept = [(0, state)]
    peak = advanced = 0
    end = n
    while end > 0:
        at, now = kept[-1]
        while at < end - 1:
            free = s - len(kept) + 1
            to = at + split(end - at, free) if free > 1 else end - 1
            now = advance(now, at, to)
            advanced += to - at
            at = to
            if free > 1:
                kept.append((at, now))
        peak = max(peak, len(kept))
        reverse(end - 1, now)
        end -= 1
        if kept[-1][0] == end:
            kept.pop()
    return Report(peak, advanced)
