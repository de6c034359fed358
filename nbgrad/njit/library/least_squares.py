"""The pseudo-inverse and least squares, for matrices whose rank does not change nearby."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import rule
from .blas import adjoint_of


@njit
def minus_identity(a):
    """I - a."""
    out = -a
    for i in range(a.shape[0]):
        out[i, i] += 1
    return out


def pinv_vjp(args, out, cotangent):
    a = args[0]
    h = adjoint_of(out)
    g = adjoint_of(cotangent)
    range_rest = minus_identity(np.dot(a, out))
    kernel = minus_identity(np.dot(out, a))
    result = np.dot(np.dot(range_rest, g), np.dot(out, h))
    result += np.dot(np.dot(h, out), np.dot(g, kernel))
    result -= np.dot(np.dot(h, cotangent), h)
    if len(args) == 2:
        return result, 0.0
    else:
        return (result,)


def pinv_jvp(args, out, tangents):
    a = args[0]
    da = tangents[0]
    h = adjoint_of(out)
    dh = adjoint_of(da)
    range_rest = minus_identity(np.dot(a, out))
    kernel = minus_identity(np.dot(out, a))
    result = np.dot(np.dot(out, h), np.dot(dh, range_rest))
    result += np.dot(np.dot(kernel, dh), np.dot(h, out))
    result -= np.dot(np.dot(out, da), out)
    return result


@njit
def columns(b):
    if b.ndim == 1:
        return b.reshape(b.size, 1)
    else:
        return b


@njit
def like_right_side(x, b):
    if b.ndim == 1:
        return x.reshape(x.size)
    else:
        return x


@njit
def lstsq_matrix_vjp(a, b, x, gx, gres, gs):
    """Cotangents of a and of the right sides, both matrices."""
    u, s, vh = np.linalg.svd(a, False)
    p = np.dot(adjoint_of(vh) / s, adjoint_of(u))
    h = adjoint_of(p)
    r = b - np.dot(a, x)
    g = adjoint_of(gx)
    gb = np.dot(h, gx)
    ga = np.dot(np.dot(r, g), np.dot(p, h))
    ga += np.dot(np.dot(h, x), np.dot(g, minus_identity(np.dot(p, a))))
    ga += np.dot(u * gs, vh)
    if gres.size > 0:
        gb += 2 * (r * gres)
    ga -= np.dot(gb, adjoint_of(x))
    return ga, gb


def lstsq_vjp(args, out, cotangent):
    a = args[0]
    b = args[1]
    gx, gres, _, gs = cotangent
    x = columns(out[0])
    ga, gb = lstsq_matrix_vjp(a, columns(b), x, columns(gx), gres, gs)
    if len(args) == 3:
        return ga, like_right_side(gb, b), 0.0
    else:
        return ga, like_right_side(gb, b)


@njit
def lstsq_matrix_jvp(a, b, x, da, db):
    """Tangents of the solutions, of the squared residuals and of the singular values."""
    u, s, vh = np.linalg.svd(a, False)
    p = np.dot(adjoint_of(vh) / s, adjoint_of(u))
    h = adjoint_of(p)
    dh = adjoint_of(da)
    r = b - np.dot(a, x)
    change = db - np.dot(da, x)
    dx = np.dot(p, change) + np.dot(p, np.dot(h, np.dot(dh, r)))
    dx += np.dot(minus_identity(np.dot(p, a)), np.dot(dh, np.dot(h, x)))
    dres = np.zeros(b.shape[1], dtype=s.dtype)
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            dres[j] += 2 * (np.conj(r[i, j]) * change[i, j]).real
    turned = np.dot(np.dot(adjoint_of(u), da), adjoint_of(vh))
    ds = np.empty(s.size, dtype=s.dtype)
    for i in range(s.size):
        ds[i] = turned[i, i].real
    return dx, dres, ds


def lstsq_jvp(args, out, tangents):
    a = args[0]
    b = args[1]
    da = tangents[0]
    db = tangents[1]
    dx, dres, ds = lstsq_matrix_jvp(a, columns(b), columns(out[0]), da, columns(db))
    return like_right_side(dx, b), dres[: out[1].size].copy(), 0, ds


rule(np.linalg.pinv, vjp=pinv_vjp, jvp=pinv_jvp)
rule(np.linalg.lstsq, vjp=lstsq_vjp, jvp=lstsq_jvp)
