"""Products that BLAS computes: the calls stay, these rules state their derivatives.

Cotangents of complex values follow the rule of the rest of the package (PyTorch's): <a, b> = Re(sum(conj(a) b)).
"""

from __future__ import annotations

import operator

import numpy as np
from numba import njit

from ..rules import rule


@njit
def adjoint_of(a):
    """The conjugate transpose."""
    return np.conj(a.T)


@njit
def column_times_row(a, b):
    return a.reshape(a.size, 1) * b.reshape(1, b.size)


def dot_vjp(args, out, cotangent):
    a, b = args
    if a.ndim == 1 and b.ndim == 1:
        return cotangent * np.conj(b), cotangent * np.conj(a)
    elif a.ndim == 2 and b.ndim == 1:
        return column_times_row(cotangent, np.conj(b)), np.dot(adjoint_of(a), cotangent)
    elif a.ndim == 1 and b.ndim == 2:
        return np.dot(cotangent, adjoint_of(b)), column_times_row(np.conj(a), cotangent)
    else:
        return np.dot(cotangent, adjoint_of(b)), np.dot(adjoint_of(a), cotangent)


def dot_jvp(args, out, tangents):
    a, b = args
    da, db = tangents
    return np.dot(da, b) + np.dot(a, db)


def vdot_vjp(args, out, cotangent):
    a, b = args
    return np.conj(cotangent) * b, cotangent * a


def vdot_jvp(args, out, tangents):
    a, b = args
    da, db = tangents
    return np.vdot(da, b) + np.vdot(a, db)


rule(np.dot, vjp=dot_vjp, jvp=dot_jvp)
rule(operator.matmul, vjp=dot_vjp, jvp=dot_jvp)
rule(np.vdot, vjp=vdot_vjp, jvp=vdot_jvp)
