"""Choosing between values, and the product that lets a zero win: what every derivative rule stands on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen.expr import m
from ..op import elementwise
from .sampling import BOOL, REAL, SIDES, elements

# a static checker cannot type an operator whose own rule names it, so rules name these


def _product(a: Any, b: Any) -> Any:
    return zmul(a, b)


def _kept(c: Any, a: Any) -> Any:
    return keep(c, a)


def _dropped(c: Any, a: Any) -> Any:
    return drop(c, a)


@elementwise(
    contributions=(
        lambda ct, g, p, out: _product(ct, cj(p)),
        lambda ct, g, p, out: _product(cj(g), ct),
    ),
    multilinear=(0, 1),
    tests=elements(SIDES, REAL),
    reference=lambda g, p: np.where((g == 0) | (p == 0), 0, g * p),
)
def zmul(g, p):
    """Product that is exactly 0 where a factor is 0, whatever the other one is.

    Every derivative rule multiplies a cotangent or tangent with a partial through this bilinear operator, so that a
    branch that was masked out, or has weight zero, cannot poison the others with ``0 * inf``. It must be so in either
    factor: reverse mode meets the factors of a path from the other end than forward mode does.
    """
    # asked this way round (NaN is not 0) LLVM folds the test into masked instructions
    return m.select((g != 0) & (p != 0), g * p, m.const(0, g))


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
    contributions=(None, lambda ct, c, a, out: _kept(c, ct)),
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
    contributions=(None, lambda ct, c, a, out: _dropped(c, ct)),
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
