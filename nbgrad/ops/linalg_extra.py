"""Linear algebra primitives: matrix exponential, pseudo-inverse, least squares, LU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..op import Spec, cast, operator
from ..op.base import OUT
from ..op.samples import Sample, draw
from ..tensor import Tensor
from .basic import _h, matmul
from .elementwise import neg
from .linalg import batch_native, lapack, leading, square_samples, triangle, triangular_solve
from .view import slice_


def _scaled_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [Sample((a / 3,)) for a in square_samples(rng, dtype)]


@operator(saves=(0,), tests=_scaled_samples)
def matrix_exp(a):
    """Matrix exponential."""
    return lapack("matrix_exp", "expm", a)


@matrix_exp.infer
def _(a):
    return Spec(a.shape, a.dtype)


def toeplitz(blocks: Sequence[Any]) -> Any:
    """The block upper triangular Toeplitz matrix of ``blocks``: a polynomial at a nilpotent shift."""
    n, count = blocks[0].shape[-1], len(blocks)
    total = None
    for shift, block in enumerate(blocks):
        if block is None:
            continue
        for i in range(count - shift):
            left = np.zeros((count * n, n))
            right = np.zeros((n, count * n))
            left[i * n : (i + 1) * n] = right[:, (i + shift) * n : (i + shift + 1) * n] = np.eye(n)
            term = matmul(
                matmul(cast(Tensor(left), block.dtype), block), cast(Tensor(right), block.dtype)
            )
            total = term if total is None else total + term
    return total


def corner(x: Any, n: int) -> Any:
    """The upper right block."""
    rest = tuple((0, m, 1) for m in x.shape[:-2])
    return slice_(x, items=(*rest, (0, n, 1), (x.shape[-1] - n, n, 1)))


@matrix_exp.jvp
def _(tangents, out, a):
    # Frechet derivative: exp of [[a, t], [0, a]] (Higham, Functions of Matrices, 2008, eq. 3.16)
    return corner(matrix_exp(toeplitz([a, tangents[0]])), a.shape[-1])


@matrix_exp.vjp
def _(g, out, a, *, needs):
    return (corner(matrix_exp(toeplitz([_h(a), g])), a.shape[-1]),)


@matrix_exp.taylor
def _(level, series, firsts, first):
    def rule(k: int) -> Any:
        blocks = [firsts[0], *(series[0].term(j) for j in range(1, k + 1))]
        if all(b is None for b in blocks[1:]):
            return None
        return corner(matrix_exp(toeplitz(blocks)), firsts[0].shape[-1])

    return level.interpreter._each(level, first, rule)


batch_native((2,))(matrix_exp)

# -- pseudo-inverse and least squares ---------------------------------------------------------------


def tall_and_wide(rng: np.random.Generator, dtype: np.dtype) -> list[np.ndarray]:
    """Full-rank matrices of every shape kind."""
    return [draw(rng, dtype, s, -1, 1) for s in ((4, 2), (2, 3), (2, 3, 3), (3, 0), (0, 2))]


def _pinv_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [Sample((a,), {"rtol": 1e-7}) for a in tall_and_wide(rng, dtype)]


@operator(
    saves=(0, OUT),
    tests=_pinv_samples,
    reference=lambda a, rtol: np.linalg.pinv(a, rcond=rtol),
)
def pinv(a, *, rtol):
    """Moore-Penrose inverse.

    The derivative holds where the rank does not change: Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973) 413, eq. 4.12.
    """
    return lapack("pinv", "pinv", a, rtol)


@pinv.infer
def _(a, *, rtol):
    return Spec((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)


def _sandwich(p: Any, a: Any, t: Any) -> Any:
    """The derivative of the pseudo-inverse p of a along t."""
    th, ph = _h(t), _h(p)
    left, right = matmul(th, _i_minus(matmul(a, p))), matmul(_i_minus(matmul(p, a)), th)
    return matmul(matmul(p, ph), left) - matmul(matmul(p, t), p) + matmul(right, matmul(ph, p))


def _i_minus(x: Any) -> Any:
    n = x.shape[-1]
    return neg(x) + Tensor(np.eye(n, dtype=dt.to_real(x.dtype)))


@pinv.jvp
def _(tangents, out, a, *, rtol):
    return _sandwich(out, a, tangents[0])


@pinv.vjp
def _(g, out, a, *, needs, rtol):
    p, ph, gh = out, _h(out), _h(g)
    i_ap, i_pa = _i_minus(matmul(a, p)), _i_minus(matmul(p, a))
    first = matmul(i_ap, matmul(gh, matmul(p, ph)))
    third = matmul(matmul(matmul(ph, p), gh), i_pa)
    return (first - matmul(ph, matmul(g, ph)) + third,)


batch_native((2,))(pinv)


def _lstsq_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [
        Sample((a, draw(rng, dtype, (*a.shape[:-1], 2), -1, 1)), {"rtol": 1e-7})
        for a in tall_and_wide(rng, dtype)
    ]


@operator(nin=2, linear=(1,), saves=lambda needs, params: (0, 1, OUT), tests=_lstsq_samples)
def lstsq(a, b, *, rtol):
    """Minimum-norm least-squares solution of ``a X = b``; derivatives hold where the rank does not change."""
    return lapack("lstsq", "lstsq", a, b, rtol)


@lstsq.infer
def _(a, b, *, rtol):
    return Spec((*leading(a, b), a.shape[-1], b.shape[-1]), b.dtype)


@lstsq.jvp
def _(tangents, out, a, b, *, rtol):
    ta, tb = tangents
    if ta is None:
        return lstsq(a, tb, rtol=rtol)
    p, th = pinv(a, rtol=rtol), _h(ta)
    rhs = neg(matmul(ta, out)) if tb is None else tb - matmul(ta, out)
    miss = b - matmul(a, out)
    return (
        matmul(p, rhs)
        + matmul(p, matmul(_h(p), matmul(th, miss)))
        + matmul(_i_minus(matmul(p, a)), matmul(th, matmul(_h(p), out)))
    )


@lstsq.vjp
def _(g, out, a, b, *, needs, rtol):
    p = pinv(a, rtol=rtol)
    ph = _h(p)
    gb = matmul(ph, g)
    if not needs[0]:
        return None, gb
    miss = b - matmul(a, out)
    ga = (
        neg(matmul(gb, _h(out)))
        + matmul(miss, _h(matmul(p, gb)))
        + matmul(matmul(ph, out), _h(matmul(_i_minus(matmul(p, a)), g)))
    )
    return ga, gb


batch_native((2, 2))(lstsq)

# -- LU ------------------------------------------------------------------------------------------------


def _lu_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [Sample((a,)) for a in square_samples(rng, dtype)]


@operator(saves=(OUT,), n_out=2, tests=_lu_samples)
def lu_factor(a):
    """Packed LU factors of square matrices and LAPACK's pivots (counted from 1, no gradient)."""
    return lapack("lu_factor", "lu_factor", a)


@lu_factor.infer
def _(a):
    shape = (*a.shape[:-2], min(a.shape[-2:]))
    return Spec(a.shape, a.dtype), Spec(shape, np.dtype("int32"))


@operator(differentiable=False)
def permutation_matrix(pivots, *, n):
    """Float64 matrices P with ``A = P L U``."""
    order = lapack("lu", "permutation", pivots, n)
    return np.swapaxes(np.eye(n)[order], -1, -2).copy()


@permutation_matrix.infer
def _(pivots, *, n):
    return Spec((*pivots.shape[:-1], n, n), dt.float64)


batch_native((1,))(permutation_matrix)


@lu_factor.jvp
def _(tangents, out, a):
    # with P^T a' = L' U + L U':  L^-1 P^T a' U^-1 = L^-1 L' + U' U^-1
    packed, pivots = out
    n = packed.shape[-1]
    p = cast(permutation_matrix(pivots, n=n), packed.dtype)
    y = triangular_solve(packed, matmul(_h(p), tangents[0]), upper=False, unit=True)
    x = _h(triangular_solve(_h(triangle(packed, True)), _h(y), upper=False, unit=False))
    low, up = triangle(packed, False, strict=True), triangle(packed, True)
    strict = triangle(x, False, strict=True)
    change = matmul(low, strict) + strict + matmul(triangle(x, True), up)
    return change, None


@lu_factor.vjp
def _(g, out, a, *, needs):
    packed, pivots = out
    p = cast(permutation_matrix(pivots, n=packed.shape[-1]), packed.dtype)
    low, up = triangle(packed, False, strict=True), triangle(packed, True)
    gl = triangle(g[0], False, strict=True)
    gx = triangle(matmul(_h(low), gl) + gl, False, strict=True)
    gx = gx + triangle(matmul(triangle(g[0], True), _h(up)), True)
    y = triangular_solve(_h(packed), gx, upper=True, unit=True)
    y = _h(triangular_solve(up, _h(y), upper=True, unit=False))
    return (matmul(p, y),)


batch_native((2,))(lu_factor)
