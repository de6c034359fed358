"""Batched LAPACK through NumPy and SciPy, and the cofactor kernel.

Matrices are the last two axes; leading axes are batches that broadcast. A matrix that cannot be treated raises `FailedError` with
its place in the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray


class FailedError(ArithmeticError):
    """LAPACK gave up: ``entry`` is the place in the batch, ``reason`` what is wrong with the matrix."""

    def __init__(self, entry: tuple[int, ...], reason: str):
        super().__init__(f"matrix {entry}: {reason}")
        self.entry, self.reason = entry, reason


def attempt(fn: Callable[..., Any], a: Array, reason: str, *rest: Array) -> Any:
    """``fn(a, *rest)``; on failure find the first matrix of the batch that fails alone."""
    try:
        with np.errstate(all="ignore"):
            return fn(a, *rest)
    except np.linalg.LinAlgError:
        batch = np.broadcast_shapes(a.shape[:-2], *(r.shape[:-2] for r in rest))
        full = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, *rest)]
        for entry in np.ndindex(*batch):
            try:
                fn(*(x[entry] for x in full))
            except np.linalg.LinAlgError:
                bad = not np.isfinite(full[0][entry]).all()
                raise FailedError(entry, "it contains NaN or inf" if bad else reason) from None
        raise


def transposed(a: Array) -> Array:
    """Conjugate transpose."""
    return np.conj(np.swapaxes(a, -1, -2))


def solve(a: Array, b: Array) -> Array:
    """X with ``a X = b``."""
    if a.ndim == 2 and b.ndim > 2:  # one factorisation for the whole batch
        n, k = b.shape[-2:]
        flat = np.moveaxis(b, -2, 0).reshape(n, b.size // n if n else 0)
        out = attempt(np.linalg.solve, a, "it is singular", flat)
        return np.moveaxis(out.reshape((n, *b.shape[:-2], k)), 0, -2)
    return attempt(np.linalg.solve, a, "it is singular", b)


def inv(a: Array) -> Array:
    """Inverse."""
    return attempt(np.linalg.inv, a, "it is singular")


def cholesky(a: Array) -> Array:
    """Lower factor of the Hermitian part."""

    def run(x: Array) -> tuple[Array]:
        return (attempt(np.linalg.cholesky, x, "it is not positive definite"),)

    return propagate(run, hermitian(a))[0]


def propagate(fn: Callable[[Array], tuple], a: Array) -> tuple[Array, ...]:
    """``fn(a)`` where matrices with NaN or inf give NaN results instead of an exception."""
    good: np.ndarray = np.asarray(np.isfinite(a).all(axis=(-2, -1)))
    if good.all():
        return fn(a)
    outs = fn(np.where(good[..., None, None], a, np.eye(*a.shape[-2:], dtype=a.dtype)))
    return tuple(
        np.where(good.reshape(good.shape + (1,) * (o.ndim - good.ndim)), o, o.dtype.type(np.nan))
        for o in outs
    )


def hermitian(a: Array) -> Array:
    """Hermitian part; a matrix that is far from Hermitian is refused."""
    h = transposed(a)
    with np.errstate(all="ignore"):
        off = np.abs(a - h).max(axis=(-2, -1), initial=0)
        size = np.abs(a).max(axis=(-2, -1), initial=0)
        bad = np.asarray(off > 0.01 * size)
    if bad.any():
        entry = tuple(int(i) for i in np.argwhere(bad)[0])
        raise FailedError(entry, "it is not symmetric (Hermitian)")
    return (a + h) / 2


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues in ascending order and eigenvectors of the Hermitian part."""
    run = lambda x: tuple(attempt(np.linalg.eigh, x, "the iteration did not converge"))
    w, v = propagate(run, hermitian(a))
    return w, v


def eig(a: Array) -> tuple[Array, Array]:
    """Eigenvalues and unit eigenvectors of a general matrix, always complex."""
    run = lambda x: tuple(attempt(np.linalg.eig, x, "the iteration did not converge"))
    w, v = propagate(run, a)
    kind = np.result_type(a.dtype, np.complex64)
    return w.astype(kind), v.astype(kind)


def svd(a: Array, full: bool) -> tuple[Array, Array, Array]:
    """``U, S, Vh``."""
    one = lambda x: np.linalg.svd(x, full_matrices=full)
    u, s, vh = propagate(lambda x: tuple(attempt(one, x, "the iteration did not converge")), a)
    return u, s, vh


def qr(a: Array, mode: str) -> tuple[Array, Array]:
    """``Q, R`` in mode "reduced" or "complete"."""
    q, r = np.linalg.qr(a, mode=mode)  # type: ignore[call-overload]
    return np.asarray(q), np.asarray(r)


def slogdet(a: Array) -> tuple[Array, Array]:
    """Sign and logarithm of the absolute determinant."""
    with np.errstate(all="ignore"):
        sign, log = np.linalg.slogdet(a)
    return np.asarray(sign), np.asarray(log)


def det(a: Array) -> Array:
    """Determinant."""
    with np.errstate(all="ignore"):
        return np.asarray(np.linalg.det(a))


def each(fn: Callable[..., Any], *arrays: Array, ranks: Sequence[int] | None = None) -> list[Array]:
    """Run an unbatched function over broadcast batches; results are stacked."""
    ranks = ranks or (2,) * len(arrays)
    leads = [a.shape[: a.ndim - r] for a, r in zip(arrays, ranks, strict=True)]
    batch = np.broadcast_shapes(*leads)
    full = [
        np.broadcast_to(a, (*batch, *a.shape[a.ndim - r :]))
        for a, r in zip(arrays, ranks, strict=True)
    ]
    rows = [fn(entry, *(x[entry] for x in full)) for entry in np.ndindex(*batch)]
    return [np.stack(c).reshape((*batch, *c[0].shape)) for c in zip(*rows, strict=True)]


def solve_triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """X with ``tri(a) X = b``; the other triangle is not read."""
    n = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if not n or not b.shape[-1] or 0 in batch:
        return np.zeros((*batch, *b.shape[-2:]), b.dtype)
    _check_diagonal(a, unit)
    if n <= 32 and int(np.prod(batch)) > 4:
        t = np.triu(a) if upper else np.tril(a)
        if unit:
            t = t - t * np.eye(n, dtype=a.dtype) + np.eye(n, dtype=a.dtype)
        return solve(t, b)
    from scipy.linalg import solve_triangular as one

    def run(_: tuple, x: Array, y: Array) -> tuple[Array]:
        return (one(x, y, lower=not upper, unit_diagonal=unit, check_finite=False),)

    with np.errstate(all="ignore"):
        return each(run, a, b)[0].astype(b.dtype, copy=False)


def _check_diagonal(a: Array, unit: bool) -> None:
    zero = np.diagonal(a, axis1=-2, axis2=-1) == 0
    if not unit and zero.any():
        entry = tuple(int(i) for i in np.argwhere(zero.any(axis=-1))[0])
        raise FailedError(entry, "it is singular (a diagonal element is 0)")


def lu_factor(a: Array) -> tuple[Array, Array]:
    """Packed LU factors and LAPACK's pivots, counted from 1."""
    from scipy.linalg import lapack

    (getrf,) = lapack.get_lapack_funcs(("getrf",), (a,))
    batch, k = a.shape[:-2], min(a.shape[-2:])
    if 0 in a.shape:
        return np.array(a), np.zeros((*batch, k), np.int32)

    def run(_: tuple, x: Array) -> tuple[Array, Array]:
        lu, piv, _info = getrf(x)
        return lu, (piv + 1).astype(np.int32)

    lu, piv = each(run, a)
    return np.ascontiguousarray(lu), piv


def permutation(pivots: Array, n: int) -> Array:
    """Row order ``p`` with ``A[p] = L U`` from LAPACK's pivots."""
    out = np.broadcast_to(np.arange(n), (*pivots.shape[:-1], n)).copy()
    for entry in np.ndindex(*pivots.shape[:-1]):
        row = out[entry]
        for i, p in enumerate(pivots[entry]):
            row[i], row[p - 1] = row[p - 1], row[i]
    return out


def expm(a: Array) -> Array:
    """Matrix exponential (scaling and squaring, SciPy)."""
    if 0 in a.shape:
        return np.array(a)
    from scipy.linalg import expm as one

    with np.errstate(all="ignore"):
        return np.asarray(one(a)).astype(a.dtype, copy=False)


def pinv(a: Array, rtol: float) -> Array:
    """Moore-Penrose inverse; singular values up to ``rtol`` times the largest count as 0."""
    if 0 in a.shape:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    u, s, vh = svd(a, False)
    top = s.max(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        r = np.where(s > rtol * top, 1 / np.where(s > rtol * top, s, 1), 0).astype(s.dtype)
    return np.matmul(transposed(vh) * r[..., None, :], transposed(u))


def lstsq(a: Array, b: Array, rtol: float) -> Array:
    """Minimum-norm least-squares solution."""
    if 0 in a.shape:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*batch, a.shape[-1], b.shape[-1]), b.dtype)
    u, s, vh = svd(a, False)
    top = s.max(axis=-1, keepdims=True)
    r = np.where(s > rtol * top, 1 / np.where(s > rtol * top, s, 1), 0).astype(s.dtype)
    return np.matmul(transposed(vh), r[..., None] * np.matmul(transposed(u), b))


# -- derivatives of the determinant -----------------------------------------------------------------


def cofactor(a: Array, *e: Array) -> Array:
    """``D^k cof(a)[e_1 .. e_k]``: the k-th directional derivative of the cofactor matrix (gradient of det).

    With the singular value decomposition ``a = U diag(s) Vh`` and fixed U, V, ``det(a) = c det(U^H a V)``, so the derivatives are
    those at the diagonal matrix ``diag(s)``, where they are finite sums of products of all but k+1 of the singular values
    (Leibniz' formula). Nothing is divided by a vanishing number: singular matrices of any rank are exact.
    """
    n, k = a.shape[-1], len(e)
    batch = np.broadcast_shapes(a.shape[:-2], *(x.shape[:-2] for x in e))
    if k + 1 > n or 0 in batch:
        return np.zeros((*batch, n, n), a.dtype)
    if k == 0 and (fast := _regular_cofactor(a)) is not None:
        return fast
    u, s, vh = svd(a, False)
    c = det(u) * det(vh)
    e = tuple(np.matmul(np.matmul(transposed(u), x), transposed(vh)) for x in e)
    inner = _diagonal_cofactor(s, e, batch)
    out = np.matmul(np.matmul(np.conj(u), inner.astype(a.dtype)), np.conj(vh))
    return np.broadcast_to(c[..., None, None] * out, (*batch, n, n)).astype(a.dtype)


def _regular_cofactor(a: Array) -> Array | None:
    """``det(a) inv(a)^T`` where every matrix is far from singular, else None."""
    with np.errstate(all="ignore"):
        try:
            inverse = np.linalg.inv(a)
        except np.linalg.LinAlgError:
            return None
        d = det(a)
        norm = np.abs(a).sum(-1).max(-1, initial=0) * np.abs(inverse).sum(-1).max(-1, initial=0)
        safe = norm < np.finfo(a.dtype).eps ** -0.5 / 100
        tiny = np.finfo(a.dtype).tiny ** 0.5
        if not (safe & (np.abs(d) > tiny) & (np.abs(d) < 1 / tiny)).all():
            return None
        return d[..., None, None] * np.swapaxes(inverse, -1, -2)


def _diagonal_cofactor(s: Array, e: Sequence[Array], batch: tuple) -> Array:
    """``D^k cof(diag(s))[e]`` by Leibniz' formula over ordered index tuples and their permutations."""
    n, k = s.shape[-1], len(e)
    q = _exclusive_products(s, k + 1)
    letters = "abcdefghij"[: k + 1]
    kind = np.result_type(s.dtype, *(x.dtype for x in e))
    out = np.zeros((*batch, n, n), kind)
    diagonal = np.arange(n)
    for sigma in itertools.permutations(range(k + 1)):
        factors = [f"...{letters[m]}{letters[sigma[m]]}" for m in range(1, k + 1)]
        target = letters[0] if sigma[0] == 0 else letters[0] + letters[sigma[0]]
        spec = ",".join([f"...{letters}", *factors]) + "->..." + target
        term = _sign(sigma) * np.einsum(spec, q, *e, optimize=k > 1)
        if sigma[0] == 0:
            out[..., diagonal, diagonal] += term
        else:
            out += term
    return out


def _sign(sigma: Sequence[int]) -> int:
    swaps = sum(sigma[i] > sigma[j] for i in range(len(sigma)) for j in range(i + 1, len(sigma)))
    return -1 if swaps % 2 else 1


def _exclusive_products(s: Array, k: int) -> Array:
    """``q[.., i1 .. ik]``: product of all s except those at k distinct indices (0 where indices repeat).

    Nonzero factors are multiplied as mantissa and exponent, so that nothing overflows on the way.
    """
    n = s.shape[-1]
    zero = s == 0
    mantissa, exponent = np.frexp(np.where(zero, 1, s))
    total = np.ones(s.shape[:-1], s.dtype)
    power = np.zeros(s.shape[:-1], np.int64)
    for i in range(n):
        total, extra = np.frexp(total * mantissa[..., i])
        power = power + exponent[..., i] + extra
    zeros = zero.sum(axis=-1)
    lead = (slice(None),) * (s.ndim - 1)

    def along(x: Array, m: int) -> Array:
        return x[(*lead, *(slice(None) if j == m else None for j in range(k)))]

    grow = (*lead, *(None,) * k)
    total, power, zeros = total[grow], power[grow], zeros[grow]
    for m in range(k):
        total = total / along(mantissa, m)
        power = power - along(exponent, m)
        zeros = zeros - along(zero, m)
    index = np.indices((n,) * k)
    apart = np.ones((n,) * k, bool)
    for i, j in itertools.combinations(range(k), 2):
        apart &= index[i] != index[j]
    with np.errstate(all="ignore"):
        return np.where(apart & (zeros == 0), np.ldexp(total, power), 0).astype(s.dtype)
