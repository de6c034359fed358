"""Shapes and scalars that the texts of this package share.

The helpers are ordinary ``@njit`` functions; the front end inlines them like any callee. ``axis`` is a literal in
derivative code, so every branch on it is decided there when the code is transformed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


def refused(what, instead):
    """The user's line is refused, if this is reached when the code is transformed."""


def _refuse(it: Any, args: list[Any], kwargs: dict, node: Any) -> Any:
    raise it.refuse(node, args[0].value, args[1].value)


refused._nbgrad_front = _refuse  # type: ignore[attr-defined]


@njit
def folded(a, axis):
    """``a`` as an (outer, n, inner) array, ``axis`` in the middle: one loop nest then serves every rank."""
    k = axis % a.ndim
    flat = a.ravel()
    if a.ndim == 1:
        return flat.reshape(1, a.shape[0], 1)
    elif a.ndim == 2:
        if k == 0:
            return flat.reshape(1, a.shape[0], a.shape[1])
        else:
            return flat.reshape(a.shape[0], a.shape[1], 1)
    elif a.ndim == 3:
        if k == 0:
            return flat.reshape(1, a.shape[0], a.shape[1] * a.shape[2])
        elif k == 1:
            return flat.reshape(a.shape[0], a.shape[1], a.shape[2])
        else:
            return flat.reshape(a.shape[0] * a.shape[1], a.shape[2], 1)
    else:
        if k == 0:
            return flat.reshape(1, a.shape[0], a.shape[1] * a.shape[2] * a.shape[3])
        elif k == 1:
            return flat.reshape(a.shape[0], a.shape[1], a.shape[2] * a.shape[3])
        elif k == 2:
            return flat.reshape(a.shape[0] * a.shape[1], a.shape[2], a.shape[3])
        else:
            return flat.reshape(a.shape[0] * a.shape[1] * a.shape[2], a.shape[3], 1)


@njit
def without(a, axis):
    """The shape of ``a`` with ``axis`` left out (rank 2 and more)."""
    k = axis % a.ndim
    if a.ndim == 2:
        if k == 0:
            return (a.shape[1],)
        else:
            return (a.shape[0],)
    elif a.ndim == 3:
        if k == 0:
            return (a.shape[1], a.shape[2])
        elif k == 1:
            return (a.shape[0], a.shape[2])
        else:
            return (a.shape[0], a.shape[1])
    else:
        if k == 0:
            return (a.shape[1], a.shape[2], a.shape[3])
        elif k == 1:
            return (a.shape[0], a.shape[2], a.shape[3])
        elif k == 2:
            return (a.shape[0], a.shape[1], a.shape[3])
        else:
            return (a.shape[0], a.shape[1], a.shape[2])


@njit
def resized(a, axis, n):
    """The shape of ``a`` with length ``n`` along ``axis``."""
    k = axis % a.ndim
    if a.ndim == 1:
        return (n,)
    elif a.ndim == 2:
        if k == 0:
            return (n, a.shape[1])
        else:
            return (a.shape[0], n)
    elif a.ndim == 3:
        if k == 0:
            return (n, a.shape[1], a.shape[2])
        elif k == 1:
            return (a.shape[0], n, a.shape[2])
        else:
            return (a.shape[0], a.shape[1], n)
    else:
        if k == 0:
            return (n, a.shape[1], a.shape[2], a.shape[3])
        elif k == 1:
            return (a.shape[0], n, a.shape[2], a.shape[3])
        elif k == 2:
            return (a.shape[0], a.shape[1], n, a.shape[3])
        else:
            return (a.shape[0], a.shape[1], a.shape[2], n)


@njit
def inserted(a, axis, n):
    """The shape of ``a`` with an axis of length ``n`` put in before ``axis`` (rank 1 to 3)."""
    k = axis % (a.ndim + 1)
    if a.ndim == 1:
        if k == 0:
            return (n, a.shape[0])
        else:
            return (a.shape[0], n)
    elif a.ndim == 2:
        if k == 0:
            return (n, a.shape[0], a.shape[1])
        elif k == 1:
            return (a.shape[0], n, a.shape[1])
        else:
            return (a.shape[0], a.shape[1], n)
    else:
        if k == 0:
            return (n, a.shape[0], a.shape[1], a.shape[2])
        elif k == 1:
            return (a.shape[0], n, a.shape[1], a.shape[2])
        elif k == 2:
            return (a.shape[0], a.shape[1], n, a.shape[2])
        else:
            return (a.shape[0], a.shape[1], a.shape[2], n)


@njit
def equal_sizes(n, m):
    """``n``, after NumPy's complaint if the two lengths differ."""
    if n != m:
        raise ValueError("operands could not be broadcast together: their lengths differ")
    return n


@njit
def squared(x):
    """``|x|**2``, real."""
    return (x * np.conj(x)).real


@njit
def is_complex(a):
    """Whether the entries are complex; decided when the code is transformed."""
    return isinstance(a.dtype.type(0), complex)
