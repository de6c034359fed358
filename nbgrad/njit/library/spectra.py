"""Eigenvalues and singular values.

Functions of the values have their first derivatives always. A derivative that goes through the vectors of a group of
coinciding values is a limit 0/0 that the factors do not hold: it is NaN, never a wrong number, and so is the gradient of a
function that depends on the phase of a complex vector. Vectors outside such groups keep their derivatives.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import rule
from .blas import adjoint_of
from .common import is_complex
from .systems import hermitian_part


@njit
def rounding(a):
    return 1.2e-7 if a.dtype == np.float32 or a.dtype == np.complex64 else 2.3e-16


@njit
def largest(a):
    """The largest absolute value."""
    flat = a.ravel()
    top = 0.0
    for i in range(flat.size):
        if abs(flat[i]) > top:
            top = abs(flat[i])
    return top


@njit
def divided(m, raw, w, squares):
    """m_ij / (w_j - w_i), with ``squares`` over the distance of the squares; 0 on the diagonal.

    A pair of values equal to rounding gives NaN, but 0 where ``raw``, which m was made from, does not couple the pair.
    """
    near = 4.0 * w.size * rounding(w) * largest(w)
    out = np.zeros(m.shape, dtype=m.dtype)
    for i in range(w.size):
        for j in range(w.size):
            gap = w[j] - w[i]
            if abs(gap) > near:
                if squares:
                    gap *= w[j] + w[i]
                out[i, j] = m[i, j] / gap
            elif i != j and (raw[i, j] != 0 or raw[j, i] != 0):
                out[i, j] = np.nan
    return out


@njit
def quotients(m, s):
    """Columns of m over the entries of s; what is 0 stays 0."""
    out = np.zeros(m.shape, dtype=m.dtype)
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            if s[j] != 0:
                out[i, j] = m[i, j] / s[j]
            elif m[i, j] != 0:
                out[i, j] = np.nan
    return out


@njit
def mark_phases(middle, turns, size):
    """NaN on the diagonal where a function depends on a vector's phase (complex only)."""
    if is_complex(middle):
        small = np.sqrt(rounding(middle)) * size
        for i in range(middle.shape[0]):
            if abs(turns[i, i].imag) > small:
                middle[i, i] = np.nan


@njit
def add_to_diagonal(a, d):
    for i in range(d.size):
        a[i, i] += d[i]


@njit
def diagonal(a):
    out = np.empty(a.shape[0], dtype=a.dtype)
    for i in range(a.shape[0]):
        out[i] = a[i, i]
    return out


def eigh_vjp(args, out, cotangent):
    w, v = out
    gw, gv = cotangent
    h = adjoint_of(v)
    m = np.dot(h, gv)
    middle = divided((m - adjoint_of(m)) * 0.5, m, w, False)
    mark_phases(middle, m, largest(m))
    add_to_diagonal(middle, gw)
    return (hermitian_part(np.dot(np.dot(v, middle), h)),)


def eigh_jvp(args, out, tangents):
    w, v = out
    p = np.dot(np.dot(adjoint_of(v), hermitian_part(tangents[0])), v)
    return diagonal(p).real.copy(), np.dot(v, divided(p, p, w, False))


def eigvalsh_vjp(args, out, cotangent):
    v = np.linalg.eigh(args[0])[1]
    return (np.dot(v * cotangent, adjoint_of(v)),)


def eigvalsh_jvp(args, out, tangents):
    v = np.linalg.eigh(args[0])[1]
    p = np.dot(np.dot(adjoint_of(v), hermitian_part(tangents[0])), v)
    return diagonal(p).real.copy()


@njit
def like(a, gradient):
    """The real part where ``a`` is real: a real matrix may have complex eigenvalues."""
    if is_complex(a):
        return gradient
    else:
        return gradient.real.copy()


@njit
def leading(v, j):
    """The row of the largest component of a column, which LAPACK makes real."""
    top = 0
    for i in range(v.shape[0]):
        if abs(v[i, j]) > abs(v[top, j]):
            top = i
    return top


@njit
def kept_scale_vjp(v, gv):
    """The adjoint of ``kept_scale_jvp``."""
    out = np.empty(v.shape, dtype=v.dtype)
    for j in range(v.shape[1]):
        along = 0.0
        for i in range(v.shape[0]):
            along += (np.conj(v[i, j]) * gv[i, j]).real
        for i in range(v.shape[0]):
            out[i, j] = gv[i, j] - v[i, j] * along
        if is_complex(v):
            turn = 0.0
            for i in range(v.shape[0]):
                turn += (np.conj(out[i, j]) * v[i, j]).imag
            k = leading(v, j)
            out[k, j] += 1j * (turn / v[k, j].real)
    return out


@njit
def kept_scale_jvp(v, dv):
    """Tangents of columns that keep length 1 and, if complex, a real largest component."""
    out = np.empty(v.shape, dtype=v.dtype)
    for j in range(v.shape[1]):
        for i in range(v.shape[0]):
            out[i, j] = dv[i, j]
        if is_complex(v):
            k = leading(v, j)
            turn = dv[k, j].imag / v[k, j].real
            for i in range(v.shape[0]):
                out[i, j] -= 1j * v[i, j] * turn
        along = 0.0
        for i in range(v.shape[0]):
            along += (np.conj(v[i, j]) * out[i, j]).real
        for i in range(v.shape[0]):
            out[i, j] -= v[i, j] * along
    return out


def eig_vjp(args, out, cotangent):
    w, v = out
    gw, gv = cotangent
    h = adjoint_of(v)
    p = np.dot(h, kept_scale_vjp(v, gv))
    middle = divided(p, p, np.conj(w), False)
    add_to_diagonal(middle, gw)
    return (like(args[0], np.dot(np.linalg.solve(h, middle), h)),)


def eig_jvp(args, out, tangents):
    w, v = out
    p = np.linalg.solve(v, np.dot(tangents[0] * v.dtype.type(1), v))
    return diagonal(p), kept_scale_jvp(v, np.dot(v, divided(p, p, w, False)))


def eigvals_vjp(args, out, cotangent):
    v = np.linalg.eig(args[0])[1]
    h = adjoint_of(v)
    middle = np.zeros(v.shape, dtype=v.dtype)
    add_to_diagonal(middle, cotangent)
    return (like(args[0], np.dot(np.linalg.solve(h, middle), h)),)


def eigvals_jvp(args, out, tangents):
    v = np.linalg.eig(args[0])[1]
    return diagonal(np.linalg.solve(v, np.dot(tangents[0] * v.dtype.type(1), v)))


rule(np.linalg.eigh, vjp=eigh_vjp, jvp=eigh_jvp)
rule(np.linalg.eigvalsh, vjp=eigvalsh_vjp, jvp=eigvalsh_jvp)
rule(np.linalg.eig, vjp=eig_vjp, jvp=eig_jvp)
rule(np.linalg.eigvals, vjp=eigvals_vjp, jvp=eigvals_jvp)
