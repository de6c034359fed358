"""The two ways a NumPy function gets its derivatives in the Numba door.

A *substitute* is the function written out in the differentiable language (plain Python with loops, array expressions
and other supported functions); the front end inlines it, so values and derivatives of any order and mode follow from
its text. A *rule* keeps the call (BLAS, LAPACK, a user's solver) and states its vjp and its jvp, again as functions in
the differentiable language, so derivatives of derivatives come from differentiating the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """``vjp(args, out, cotangent) -> cotangents of args`` (a tuple) and ``jvp(args, out, tangents) -> tangent of out``.

    ``args`` and ``tangents`` are tuples, one entry an argument of the call. An argument that is an integer or a flag
    gets an entry all the same: the vjp's is ignored, the jvp's is 0.
    """

    function: Callable
    vjp: Any
    jvp: Any


SUBSTITUTES: dict[Any, Callable] = {}
RULES: dict[Any, Rule] = {}


def substitute(*functions: Any) -> Callable[[Callable], Callable]:
    """Decorate the differentiable text of NumPy functions (or array methods, given by name: ``"mean"``)."""

    def register(text: Callable) -> Callable:
        for function in functions:
            SUBSTITUTES[function] = text
        return text

    return register


def rule(function: Callable, *, vjp: Callable, jvp: Callable) -> None:
    """Keep calls of ``function`` and differentiate them by these two."""
    RULES[function] = Rule(function, vjp, jvp)
