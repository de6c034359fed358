"""Public linear algebra: argument checks and compositions over the primitives of `linalg` and `spectral`.

Collected for users in ``ng.linalg``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import dtypes as dt
from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..op import as_tensor, cast
from ..op.public import public
from ..tensor import Tensor
from . import linalg as prim
from . import linalg_extra as extra
from . import spectral
from .basic import _h, _t, matmul, sum_
from .elementwise import abs as absolute
from .elementwise import log, where
from .view import _reshape


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute determinant."""

    sign: Tensor
    logabsdet: Tensor


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors (columns)."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """``A = U diag(S) Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class QRResult(NamedTuple):
    """``A = Q R``."""

    Q: Tensor
    R: Tensor


class LUFactorResult(NamedTuple):
    """Packed factors and pivots (counted from 1)."""

    LU: Tensor
    pivots: Tensor


class LUResult(NamedTuple):
    """``A = P L U``."""

    P: Tensor
    L: Tensor
    U: Tensor


class LstsqResult(NamedTuple):
    """Least-squares solution, residual sums of squares, rank and singular values."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


# -- arguments ------------------------------------------------------------------------------------


def matrix(x: Any, op: str, arg: str = "A", square: bool = False) -> Tensor:
    """A floating matrix (or batch of them), checked.

    Raises
    ------
    ShapeError : fewer than two dimensions, or not square where it must be. DTypeError : float16.
    """
    t = as_tensor(x, op, arg)
    if t.ndim < 2:
        raise ShapeError(
            message(op, f"argument '{arg}' of shape", tuple(t.shape), "at least 2 dimensions")
        )
    if square and t.shape[-1] != t.shape[-2]:
        raise ShapeError(
            message(op, f"argument '{arg}' of shape", tuple(t.shape), "square matrices")
        )
    return floating(t, op, arg)


def floating(t: Tensor, op: str, arg: str) -> Tensor:
    """Integers as the default dtype; half precision is refused (LAPACK has none)."""
    t = cast(t, dt.to_inexact(t.dtype))
    if t.dtype is dt.float16:
        raise DTypeError(
            message(
                op,
                f"argument '{arg}' of dtype",
                "float16",
                "float32 or wider",
                "Use .float() first.",
            )
        )
    return t


def common(*tensors: Tensor) -> list[Tensor]:
    """Operands in their promoted dtype."""
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = dt.promote(dtype, t.dtype)
    return [cast(t, dtype) for t in tensors]


def right_side(a: Tensor, b: Any, op: str, arg: str = "B", rows: int | None = None) -> tuple:
    """``(a, b, vector)`` with b as matrices; a b of shape ``(*, n)`` matching a's batch is a batch of vectors."""
    t = floating(as_tensor(b, op, arg), op, arg)
    rows = a.shape[-1] if rows is None else rows
    vector = t.ndim == 1 or (a.ndim > 2 and tuple(t.shape) == (*a.shape[:-2], rows))
    if vector:
        t = _reshape(t, (*t.shape, 1))
    if t.ndim < 2 or t.shape[-2] != rows:
        shape = tuple(t.shape[:-1]) if vector else tuple(t.shape)
        want = f"{rows} rows, as 'A' {tuple(a.shape)} needs"
        raise ShapeError(message(op, f"argument '{arg}' of shape", shape, want))
    a, t = common(a, t)
    prim.leading(a, t)
    return a, t, vector


def _flat(x: Tensor, vector: bool) -> Tensor:
    return _reshape(x, tuple(x.shape[:-1])) if vector else x


# -- solving ----------------------------------------------------------------------------------------


def solve(A: Any, B: Any, *, left: bool = True) -> Tensor:
    """X with ``A X = B`` (``X A = B`` with ``left=False``) for square A; B holds vectors or matrices.

    Raises
    ------
    LinAlgError : A is singular (the message names the batch entry).
    """
    a = matrix(A, "solve", square=True)
    if not left:
        return _t(solve(_t(a), _t(matrix(B, "solve", "B"))))
    a, b, vector = right_side(a, B, "solve")
    return _flat(prim.solve(a, b), vector)


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with ``tri(A) X = B`` (``X tri(A) = B`` with ``left=False``); the other triangle of A is not read.

    Raises
    ------
    LinAlgError : a zero on the diagonal.
    """
    a = matrix(A, "solve_triangular", square=True)
    b = matrix(B, "solve_triangular", "B")
    if not left:
        a, b, upper = _t(a), _t(b), not upper
    a, b, _ = right_side(a, b, "solve_triangular")
    x = prim.triangular_solve(a, b, upper=bool(upper), unit=bool(unitriangular))
    return x if left else _t(x)


@public(alias=("inverse",))
def inv(A: Any) -> Tensor:
    """Inverse of square matrices.

    Raises
    ------
    LinAlgError : a singular matrix.
    """
    return prim.inv(matrix(A, "inv", square=True))


@public(alias=("pinverse",))
def pinv(A: Any, rtol: float | None = None, *, hermitian: bool = False) -> Tensor:
    """Moore-Penrose inverse; singular values up to ``rtol`` (default ``eps * max(m, n)``) of the largest count as 0.

    The derivative holds where the rank does not change.
    """
    a = matrix(A, "pinv")
    return extra.pinv(a, rtol=relative_tolerance(a, rtol))


def relative_tolerance(a: Tensor, rtol: float | None) -> float:
    """``eps * max(m, n)`` unless given."""
    return float(np.finfo(a.dtype).eps) * max(*a.shape[-2:], 1) if rtol is None else float(rtol)


def count_above(s: Tensor, rtol: float) -> Tensor:
    """How many singular values exceed ``rtol`` times the largest."""
    top = s[..., :1]
    return cast(s > top * rtol, dt.int64).sum(-1)


def lstsq(A: Any, B: Any, rcond: float | None = None) -> LstsqResult:
    """Least-squares solution of ``A X = B`` (of minimum norm), for tall, wide and rank-deficient A.

    Only ``solution`` and ``residuals`` carry gradients; they hold where the rank does not change.
    """
    a = matrix(A, "lstsq")
    a, b, vector = right_side(a, B, "lstsq", rows=a.shape[-2])
    rtol = relative_tolerance(a, rcond)
    x = extra.lstsq(a, b, rtol=rtol)
    miss = absolute(matmul(a, x) - b)
    residuals = sum_(miss * miss, axes=(miss.ndim - 2,), keepdim=False)
    s = spectral.svd(a.detach())[1]
    rank = count_above(s, rtol)
    return LstsqResult(_flat(x, vector), residuals, rank, s)


def lu_factor(A: Any) -> LUFactorResult:
    """Packed LU factors with partial pivoting of square matrices."""
    return LUFactorResult(*extra.lu_factor(matrix(A, "lu_factor", square=True)))


def lu_solve(LU: Any, pivots: Any, B: Any) -> Tensor:
    """X with ``A X = B`` from `lu_factor`."""
    packed = matrix(LU, "lu_solve", "LU", square=True)
    packed, b, vector = right_side(packed, B, "lu_solve")
    p = cast(extra.permutation_matrix(as_tensor(pivots), n=packed.shape[-1]), b.dtype)
    y = prim.triangular_solve(packed, matmul(_t(p), b), upper=False, unit=True)
    return _flat(prim.triangular_solve(packed, y, upper=True, unit=False), vector)


def lu(A: Any) -> LUResult:
    """``A = P L U`` of square matrices."""
    packed, pivots = lu_factor(A)
    n = packed.shape[-1]
    p = cast(extra.permutation_matrix(pivots, n=n), packed.dtype)
    low = prim.triangle(packed, False, strict=True) + Tensor(
        np.eye(n, dtype=dt.to_real(packed.dtype))
    )
    return LUResult(p, low, prim.triangle(packed, True))


# -- determinants -----------------------------------------------------------------------------------


@public
def det(A: Any) -> Tensor:
    """Determinant; derivatives of every order are exact at singular matrices too."""
    return prim.det(matrix(A, "det", square=True))


@public
def slogdet(A: Any) -> SlogdetResult:
    """Sign and logarithm of the absolute determinant; the sign of a real matrix has gradient 0.

    At a singular matrix the logarithm is -inf and asking for its gradient raises LinAlgError.
    """
    return SlogdetResult(*prim.slogdet(matrix(A, "slogdet", square=True)))


@public
def logdet(A: Any) -> Tensor:
    """Logarithm of the determinant: NaN for a negative one, complex for complex matrices."""
    sign, value = slogdet(A)
    if sign.dtype.kind == "c":
        return log(sign) + value
    return where(sign < 0, float("nan"), value)


# -- decompositions ---------------------------------------------------------------------------------


@public
def cholesky(A: Any, *, upper: bool = False) -> Tensor:
    """L with ``A = L L^H`` (with ``upper``, ``L^H``); the Hermitian part of A is factored.

    The gradient is Hermitian. Raises LinAlgError for a matrix that is not positive definite or far from Hermitian.
    """
    out = prim.cholesky(matrix(A, "cholesky", square=True))
    return _h(out) if upper else out


@public
def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Tensor:
    """X with ``L L^H X = B`` from a Cholesky factor."""
    low = matrix(L, "cholesky_solve", "L", square=True)
    low = _h(low) if upper else low
    low, b, vector = right_side(low, B, "cholesky_solve")
    y = prim.triangular_solve(low, b, upper=False, unit=False)
    return _flat(prim.triangular_solve(_h(low), y, upper=True, unit=False), vector)


@public
def cholesky_inverse(L: Any, upper: bool = False) -> Tensor:
    """Inverse of ``L L^H`` from a Cholesky factor."""
    low = matrix(L, "cholesky_inverse", "L", square=True)
    return cholesky_solve(Tensor(np.eye(low.shape[-1], dtype=low.dtype)), low, upper)


def _triangle_name(UPLO: str, op: str) -> None:
    if UPLO not in ("L", "U"):
        raise ArgumentError(message(op, "argument 'UPLO'", repr(UPLO), "'L' or 'U'"))


def eigh(A: Any, UPLO: str = "L") -> EigResult:
    """Ascending eigenvalues and orthonormal eigenvectors of Hermitian matrices.

    Both triangles are read (the Hermitian part is decomposed), whatever UPLO. See `nbgrad.ops.spectral` for derivatives
    where eigenvalues coincide. Raises LinAlgError for a matrix far from Hermitian.
    """
    _triangle_name(UPLO, "eigh")
    return EigResult(*spectral.eigh(matrix(A, "eigh", square=True)))


def eigvalsh(A: Any, UPLO: str = "L") -> Tensor:
    """Ascending eigenvalues of Hermitian matrices."""
    return eigh(A, UPLO)[0]


def eig(A: Any) -> EigResult:
    """Complex eigenvalues and unit eigenvectors of square matrices; the derivative needs distinct eigenvalues."""
    return EigResult(*spectral.eig(matrix(A, "eig", square=True)))


def eigvals(A: Any) -> Tensor:
    """Complex eigenvalues of square matrices."""
    return eig(A)[0]


def svd(A: Any, full_matrices: bool = True) -> SVDResult:
    """``A = U diag(S) Vh`` with S descending; ``full_matrices`` makes U and V square.

    Square U and V of a rectangular A have no derivative (except through S): use ``full_matrices=False``.
    """
    a = matrix(A, "svd")
    if not full_matrices or a.shape[-1] == a.shape[-2]:
        return SVDResult(*spectral.svd(a))
    u, _, vh = spectral.svd_full(a)
    return SVDResult(u, spectral.svd(a)[1], vh)


def svdvals(A: Any) -> Tensor:
    """Singular values, descending."""
    return spectral.svd(matrix(A, "svdvals"))[1]


def qr(A: Any, mode: str = "reduced") -> QRResult:
    """``A = Q R`` with orthonormal columns of Q; mode "reduced", "complete" or "r" (Q is then empty).

    The derivative needs the first ``min(m, n)`` columns to be independent, and a reduced Q.
    """
    a = matrix(A, "qr")
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(
            message("qr", "argument 'mode'", repr(mode), "'reduced', 'complete' or 'r'")
        )
    if mode == "complete" and a.shape[-2] > a.shape[-1]:
        return QRResult(*spectral.qr_complete(a))
    q, r = spectral.qr(a)
    return QRResult(Tensor(np.zeros(0, a.dtype)) if mode == "r" else q, r)


# -- functions of a matrix --------------------------------------------------------------------------


@public
def matrix_power(A: Any, n: int) -> Tensor:
    """Integer power of square matrices by repeated squaring; negative powers invert first."""
    a = matrix(A, "matrix_power", square=True)
    if not isinstance(n, int | np.integer):
        raise ArgumentError(message("matrix_power", "argument 'n'", n, "an integer"))
    if n == 0:
        return a * 0 + Tensor(np.eye(a.shape[-1], dtype=a.dtype))
    base, n = (prim.inv(a), -n) if n < 0 else (a, n)
    out = None
    while n:
        if n & 1:
            out = base if out is None else matmul(out, base)
        n >>= 1
        if n:
            base = matmul(base, base)
    assert out is not None
    return out


@public
def matrix_exp(A: Any) -> Tensor:
    """Matrix exponential of square matrices."""
    return extra.matrix_exp(matrix(A, "matrix_exp", square=True))
