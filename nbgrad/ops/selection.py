"""Choosing between values, and the product that lets a zero win: what every derivative rule stands on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen.expr import m
from ..errors import ArgumentError, message
from ..op import elementwise
from ..op.public import METHODS, PUBLIC, public
from .sampling import BOOL, REAL, SIDES, elements


@elementwise(
    contributions=(lambda ct, g, p, out: zmul(ct, cj(p)), lambda ct, g, p, out: zmul(cj(g), ct)),
    multilinear=(0, 1),
    tests=elements(SIDES, REAL),
    reference=lambda g, p: np.where(g == 0, 0, g * p),
)
def zmul(g, p):
    """Product that is exactly 0 where its first factor is 0, whatever the second one is.

    Every derivative rule multiplies a cotangent with a partial through this bilinear operator, so that a branch that
    was masked out cannot poison the others with ``0 * inf``.
    """
    z = m.const(0, g)
    return m.select(g == 0, z, g * p)


@elementwise(
    "where",
    contributions=(
        None,
        lambda ct, c, a, b, out: keep(c, ct),
        lambda ct, c, a, b, out: drop(c, ct),
    ),
    promotion="select",
    linear=(1, 2),
    hidden=True,
    tests=elements(BOOL, REAL, REAL),
    reference=np.where,
)
def where(c, a, b):
    """``a`` where the condition holds, else ``b``; the side not chosen gets gradient 0."""
    return m.select(c, a, b)


@elementwise(
    contributions=(None, lambda ct, c, a, out: keep(c, ct)),
    promotion="select",
    linear=(1,),
    hidden=True,
    tests=elements(BOOL, REAL),
    reference=lambda c, a: np.where(c, a, 0),
)
def keep(c, a):
    """``a`` where the condition holds, else 0."""
    return m.select(c, a, m.const(0, a))


@elementwise(
    contributions=(None, lambda ct, c, a, out: drop(c, ct)),
    promotion="select",
    linear=(1,),
    hidden=True,
    tests=elements(BOOL, REAL),
    reference=lambda c, a: np.where(c, 0, a),
)
def drop(c, a):
    """0 where the condition holds, else ``a``."""
    return m.select(c, m.const(0, a), a)


@elementwise(
    alias=("conjugate",),
    linear="all",
    wirtinger=(lambda x, out: (0, 1),),
    partials=(lambda x, out: 1,),
    tests=elements(REAL),
    reference=np.conj,
)
def conj(x):
    """Complex conjugate (the identity on real tensors)."""
    return m.conj(x)


@elementwise(
    linear="all",
    wirtinger=(lambda x, out: (0.5, 0.5),),
    partials=(lambda x, out: 1,),
    method=False,
    inplace=False,
    tests=elements(REAL),
    reference=np.real,
)
def real(x):
    """Real part (the identity on real tensors)."""
    return m.real(x)


def cj(x: Any) -> Any:
    """Conjugate of a complex value, else the value itself."""
    return conj(x) if x.dtype.kind == "c" else x


_MISSING = object()


@public(name="where", method=False)
def _where(condition: Any, input: Any = _MISSING, other: Any = _MISSING) -> Any:
    """``input`` where ``condition`` holds, else ``other``; with one argument the indices of its true elements.

    Parameters
    ----------
    condition : bool tensor (other dtypes: nonzero is true), broadcast with the values.
    input, other : tensors or numbers (numbers are weak: they take the tensor's dtype).

    The side that is not chosen gets gradient exactly 0, in both modes, even where its own derivative is infinite or NaN.

    Raises
    ------
    ArgumentError : only one of ``input`` and ``other`` is given.
    """
    if input is _MISSING and other is _MISSING:
        return PUBLIC["nonzero"](condition, as_tuple=True)
    if input is _MISSING or other is _MISSING:
        raise ArgumentError(
            message(
                "where",
                "the number of values",
                "one",
                "both 'input' and 'other', or neither",
                "Pass a number for the missing one, or only the condition to get indices.",
            )
        )
    return where(condition, input, other)


def _where_method(self: Any, condition: Any, other: Any) -> Any:
    """This tensor where ``condition`` holds, else ``other``."""
    return where(condition, self, other)


METHODS["where"] = _where_method
METHODS["real"] = property(real, None, None, "The real part (this tensor's values if it is real).")
