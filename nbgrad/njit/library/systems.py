"""Linear systems, inverses, determinants and triangular factors."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import rule
from .blas import adjoint_of, column_times_row
from .common import is_complex


def solve_vjp(args, out, cotangent):
    a, b = args
    right = np.linalg.solve(adjoint_of(a), cotangent)
    if b.ndim == 1:
        return -column_times_row(right, np.conj(out)), right
    else:
        return -np.dot(right, adjoint_of(out)), right


def solve_jvp(args, out, tangents):
    da, db = tangents
    return np.linalg.solve(args[0], db - np.dot(da, out))


def inv_vjp(args, out, cotangent):
    h = adjoint_of(out)
    return (-np.dot(np.dot(h, cotangent), h),)


def inv_jvp(args, out, tangents):
    return -np.dot(np.dot(out, tangents[0]), out)


@njit
def cofactors(a, det):
    """The transposed adjugate: the derivative of the determinant, finite at singular matrices too."""
    out = np.empty(a.shape, dtype=a.dtype)
    if det != 0:
        out[:] = det * np.linalg.inv(a).T
    else:
        u, s, vh = np.linalg.svd(a)
        n = s.size
        others = np.ones(n, dtype=s.dtype)
        for i in range(n):
            for j in range(n):
                if j != i:
                    others[i] *= s[j]
        scale = np.linalg.det(u) * np.linalg.det(vh)
        out[:] = scale * np.dot(np.conj(u * others), np.conj(vh))
    return out


def det_vjp(args, out, cotangent):
    return (cotangent * np.conj(cofactors(args[0], out)),)


def det_jvp(args, out, tangents):
    return np.sum(cofactors(args[0], out) * tangents[0])


def slogdet_vjp(args, out, cotangent):
    h = adjoint_of(np.linalg.inv(args[0]))
    if is_complex(args[0]):
        turn = (cotangent[0] * np.conj(out[0])).imag
        return (complex(cotangent[1], turn) * h,)
    else:
        return (cotangent[1] * h,)


def slogdet_jvp(args, out, tangents):
    rate = np.trace(np.linalg.solve(args[0], tangents[0]))
    if is_complex(args[0]):
        return out[0] * 1j * rate.imag, rate.real
    else:
        return 0.0 * out[0], rate


@njit
def halved_lower(a):
    """The lower triangle with half of the diagonal."""
    out = np.zeros(a.shape, dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(i):
            out[i, j] = a[i, j]
        out[i, i] = a[i, i] / 2
    return out


@njit
def hermitian_part(a):
    return (a + adjoint_of(a)) / 2


def cholesky_vjp(args, out, cotangent):
    inverse = np.linalg.inv(out)
    middle = halved_lower(np.dot(adjoint_of(out), cotangent))
    return (hermitian_part(np.dot(np.dot(adjoint_of(inverse), middle), inverse)),)


def cholesky_jvp(args, out, tangents):
    inverse = np.linalg.inv(out)
    middle = np.dot(np.dot(inverse, hermitian_part(tangents[0])), adjoint_of(inverse))
    return np.dot(out, halved_lower(middle))


@njit
def from_upper(a):
    """The Hermitian matrix with the upper triangle of ``a`` and the real part of its diagonal."""
    out = np.empty(a.shape, dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(i):
            out[i, j] = np.conj(a[j, i])
            out[j, i] = a[j, i]
        out[i, i] = a[i, i].real
    return out


@njit
def qr_tall_vjp(q, r, dq, dr):
    g = np.dot(dr, adjoint_of(r)) - np.dot(adjoint_of(q), dq)
    w = dq + np.dot(q, from_upper(g))
    return adjoint_of(np.linalg.solve(r, adjoint_of(w)))


def qr_vjp(args, out, cotangent):
    a = args[0]
    q = np.ascontiguousarray(out[0])
    r = np.ascontiguousarray(out[1])
    gq, gr = cotangent
    m, n = a.shape
    result = np.empty(a.shape, dtype=a.dtype)
    if m >= n:
        result[:] = qr_tall_vjp(q, r, gq, gr)
    else:
        # the last columns only turn with q: R2 = q^H A2
        rest = np.ascontiguousarray(a[:, m:])
        rest_g = np.ascontiguousarray(gr[:, m:])
        turned = gq + np.dot(rest, adjoint_of(rest_g))
        square_r = np.ascontiguousarray(r[:, :m])
        result[:, :m] = qr_tall_vjp(q, square_r, turned, np.ascontiguousarray(gr[:, :m]))
        result[:, m:] = np.dot(q, rest_g)
    return (result,)


@njit
def qr_tall_jvp(q, r, da):
    """Tangents of q and r: with C = q^H da r^-1, dr = X r for the upper part X that makes C - X skew."""
    scaled = adjoint_of(np.linalg.solve(adjoint_of(r), adjoint_of(da)))
    c = np.dot(adjoint_of(q), scaled)
    x = np.zeros(c.shape, dtype=c.dtype)
    for i in range(c.shape[0]):
        x[i, i] = c[i, i].real
        for j in range(i + 1, c.shape[1]):
            x[i, j] = c[i, j] + np.conj(c[j, i])
    return scaled - np.dot(q, x), np.dot(x, r)


def qr_jvp(args, out, tangents):
    q = np.ascontiguousarray(out[0])
    r = np.ascontiguousarray(out[1])
    da = tangents[0]
    m, n = da.shape
    dq = np.empty(q.shape, dtype=q.dtype)
    dr = np.empty(r.shape, dtype=r.dtype)
    if m >= n:
        tq, tr = qr_tall_jvp(q, r, da)
        dq[:] = tq
        dr[:] = tr
    else:
        square_r = np.ascontiguousarray(r[:, :m])
        tq, tr = qr_tall_jvp(q, square_r, np.ascontiguousarray(da[:, :m]))
        dq[:] = tq
        dr[:, :m] = tr
        rest = np.dot(adjoint_of(dq), np.ascontiguousarray(args[0][:, m:]))
        dr[:, m:] = rest + np.dot(adjoint_of(q), np.ascontiguousarray(da[:, m:]))
    return dq, dr


rule(np.linalg.solve, vjp=solve_vjp, jvp=solve_jvp)
rule(np.linalg.inv, vjp=inv_vjp, jvp=inv_jvp)
rule(np.linalg.det, vjp=det_vjp, jvp=det_jvp)
rule(np.linalg.slogdet, vjp=slogdet_vjp, jvp=slogdet_jvp)
rule(np.linalg.cholesky, vjp=cholesky_vjp, jvp=cholesky_jvp)
rule(np.linalg.qr, vjp=qr_vjp, jvp=qr_jvp)
