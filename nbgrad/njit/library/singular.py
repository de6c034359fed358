"""The singular value decomposition, thin and full; conventions at coinciding values as in ``spectra``.

The vectors of a full decomposition beyond the thin one turn against the others only; a function that depends on their choice
inside the space they span has a gradient of NaN.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import rule
from .blas import adjoint_of
from .common import is_complex
from .spectra import (
    add_to_diagonal,
    diagonal,
    divided,
    largest,
    mark_phases,
    quotients,
    rounding,
)


@njit
def add_phases(middle, values, s):
    """Add i Im(values) / (2 s): how far the phases of a left and a right vector turn apart (complex only)."""
    if is_complex(middle):
        for i in range(s.size):
            if values[i].imag != 0:
                middle[i, i] += 0.5j * (values[i].imag / s[i])


@njit
def thin_vjp(u, s, vh, gu, gs, gvh):
    x = np.dot(adjoint_of(u), gu)
    y = np.dot(vh, adjoint_of(gvh))
    middle = divided(x - adjoint_of(x), x, s, True) * s
    middle += s.reshape(s.size, 1) * divided(y - adjoint_of(y), y, s, True)
    add_to_diagonal(middle, gs)
    add_phases(middle, diagonal(x) - diagonal(y), s)
    mark_phases(middle, x + y, largest(x) + largest(y))
    result = np.dot(np.dot(u, middle), vh)
    if u.shape[0] > s.size:
        result += np.dot(quotients(gu - np.dot(u, x), s), vh)
    if vh.shape[1] > s.size:
        outside = adjoint_of(gvh - np.dot(adjoint_of(y), vh))
        result += np.dot(u, adjoint_of(quotients(outside, s)))
    return result


@njit
def chosen(rest, g):
    """0, or NaN if the cotangent g tells apart bases of the space that the columns of ``rest`` span."""
    m = np.dot(adjoint_of(rest), g)
    turn = largest(m - adjoint_of(m))
    result = 0.0
    if turn > np.sqrt(rounding(m)) * largest(m):
        result = np.nan
    return result


@njit
def rest_vjp(u, s, vh, gu, gvh):
    """What the vectors beyond the thin form add."""
    k = s.size
    first_u = np.ascontiguousarray(u[:, :k])
    first_vh = np.ascontiguousarray(vh[:k])
    result = np.zeros((u.shape[0], vh.shape[1]), dtype=u.dtype)
    if u.shape[1] > k:
        rest = np.ascontiguousarray(u[:, k:])
        g = np.ascontiguousarray(gu[:, k:])
        turn = quotients(np.dot(adjoint_of(g), first_u), s)
        result += chosen(rest, g) - np.dot(np.dot(rest, turn), first_vh)
    if vh.shape[0] > k:
        rest_v = adjoint_of(np.ascontiguousarray(vh[k:]))
        g = adjoint_of(np.ascontiguousarray(gvh[k:]))
        turn = quotients(np.dot(adjoint_of(g), adjoint_of(first_vh)), s)
        result += chosen(rest_v, g) - np.dot(first_u, adjoint_of(np.dot(rest_v, turn)))
    return result


def svd_vjp(args, out, cotangent):
    u, s, vh = out
    gu, gs, gvh = cotangent
    k = s.size
    result = thin_vjp(
        np.ascontiguousarray(u[:, :k]),
        s,
        np.ascontiguousarray(vh[:k]),
        np.ascontiguousarray(gu[:, :k]),
        gs,
        np.ascontiguousarray(gvh[:k]),
    )
    if u.shape[1] > k or vh.shape[0] > k:
        result += rest_vjp(u, s, vh, gu, gvh)
    if len(args) == 2:
        return result, 0
    else:
        return (result,)


def svd_jvp(args, out, tangents):
    u, s, vh = out
    da = tangents[0]
    k = s.size
    first_u = np.ascontiguousarray(u[:, :k])
    first_vh = np.ascontiguousarray(vh[:k])
    first_v = adjoint_of(first_vh)
    column = s.reshape(k, 1)
    left = adjoint_of(np.dot(adjoint_of(first_u), da))
    right = np.dot(da, first_v)
    p = np.dot(adjoint_of(first_u), right)
    ph = adjoint_of(p)
    turn_u = divided(p * s + column * ph, p, s, True)
    turn_v = divided(column * p + ph * s, p, s, True)
    add_phases(turn_u, diagonal(p), s)
    add_phases(turn_v, -diagonal(p), s)
    du = np.empty(u.shape, dtype=u.dtype)
    dvh = np.empty(vh.shape, dtype=vh.dtype)
    du[:, :k] = np.dot(first_u, turn_u)
    dvh[:k] = np.dot(adjoint_of(turn_v), first_vh)
    if u.shape[0] > k:
        du[:, :k] += quotients(right - np.dot(first_u, p), s)
    if vh.shape[1] > k:
        dvh[:k] += adjoint_of(quotients(left - np.dot(first_v, ph), s))
    if u.shape[1] > k:
        rest = np.ascontiguousarray(u[:, k:])
        turn = quotients(np.dot(adjoint_of(rest), right), s)
        du[:, k:] = -np.dot(first_u, adjoint_of(turn))
    if vh.shape[0] > k:
        rest_h = np.ascontiguousarray(vh[k:])
        dvh[k:] = -np.dot(quotients(np.dot(rest_h, left), s), first_vh)
    return du, diagonal(p).real.copy(), dvh


rule(np.linalg.svd, vjp=svd_vjp, jvp=svd_jvp)
