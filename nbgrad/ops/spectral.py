"""Spectral primitives: eigh, eig, svd, qr.

Eigenvectors and singular vectors are defined up to a phase, and where values coincide only up to a rotation of the
whole group. Functions of the *values* have their first derivatives always. A derivative that goes through *vectors of a group*
of exactly coinciding values is a limit 0/0 that the factors do not hold, so it is NaN, never a wrong number: this concerns
``V f(w) V^H`` there, and second derivatives of the values. Vectors outside such groups keep their derivatives. Use
products, ``matrix_exp`` or ``solve`` for functions that must be smooth there. The gradient of a function that depends on the
phase of a complex vector is NaN in reverse mode; forward mode returns the tangent with a fixed phase.

Sources: Giles (2008); Townsend, "Differentiating the singular value decomposition" (2016); Seeger et al.,
"Auto-differentiating linear algebra" (2017); Walter and Lehmann, arXiv 1009.6112, for QR.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import UnsupportedError
from ..op import Spec, cast, operator
from ..op.base import OUT
from ..op.samples import Sample
from ..tensor import Tensor
from .basic import _h, _t, matmul, sum_
from .compare import bitwise_not, eq
from .elementwise import abs as absolute
from .elementwise import div, mul, real, reciprocal, where, zmul
from .linalg import (
    _positive_samples,
    batch_native,
    hermitian_part,
    imaginary,
    lapack,
    solve,
    square_samples,
    triangle,
    triangular_solve,
)
from .linalg_extra import tall_and_wide
from .view import _reshape, diagonal, slice_


def row(x: Any) -> Any:
    """A vector of each batch entry as a row."""
    return _reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def col(x: Any) -> Any:
    """A vector of each batch entry as a column."""
    return _reshape(x, (*x.shape, 1))


def diag_of(x: Any) -> Any:
    """Diagonals of matrices."""
    return diagonal(x, offset=0, dim1=x.ndim - 2, dim2=x.ndim - 1)


def diag_matrix(v: Any) -> Any:
    """Diagonal matrices."""
    return mul(col(v), Tensor(np.eye(v.shape[-1], dtype=dt.to_real(v.dtype))))


# -- coinciding values -----------------------------------------------------------------------------


def _near(w: np.ndarray) -> np.ndarray:
    """Pairs of values that are equal to rounding (the diagonal included)."""
    size = np.abs(w).max(axis=-1, initial=0)[..., None, None]
    eps = np.finfo(w.dtype).eps * 4 * max(w.shape[-1], 1)
    with np.errstate(all="ignore"):
        return np.abs(w[..., None, :] - w[..., :, None]) <= eps * size


@operator(nin=1, differentiable=False)
def coinciding(w):
    """Which pairs of values are equal to rounding."""
    return _near(w)


@coinciding.infer
def _(w):
    return Spec((*w.shape, w.shape[-1]), dt.bool_)


batch_native((1,))(coinciding)


@operator(nin=2, differentiable=False)
def vanishing(m, size):
    """Which entries of m are rounding errors against the largest entry of ``size``."""
    top = np.abs(size).max(axis=(-2, -1), keepdims=True, initial=0)
    return np.abs(m) <= np.sqrt(np.finfo(m.dtype).eps) * top


@vanishing.infer
def _(m, size):
    return Spec(m.shape, dt.bool_)


batch_native((2, 2))(vanishing)


def divided(m: Any, raw: Any, w: Any, sums: Any = None) -> Any:
    """``m_ij / (w_j - w_i)`` (over ``w_j^2 - w_i^2`` with ``sums = w_i + w_j``), 0 on the diagonal.

    A pair of coinciding values gives NaN, but 0 where ``raw``, which m was made from, does not couple the pair at all.
    """
    near = coinciding(w)
    gap = row(w) - col(w)
    if sums is not None:
        gap = gap * sums
    free = eq(raw, 0) & eq(_t(raw), 0) | Tensor(np.eye(w.shape[-1], dtype=bool))
    limit = cast(where(free, 0.0, float("nan")), dt.to_real(m.dtype))
    return where(near, limit, zmul(m, reciprocal(where(near, 1, gap))))


def phase_checked(inner: Any, skew: Any, size: Any) -> Any:
    """NaN on the diagonal where the function depends on a vector's phase (complex only)."""
    if inner.dtype.kind != "c":
        return inner
    bad = bitwise_not(vanishing(skew, size)) & Tensor(np.eye(inner.shape[-1], dtype=bool))
    return where(bad, float("nan"), inner)


# -- Hermitian eigenproblem ---------------------------------------------------------------------------


@operator(saves=(OUT,), n_out=2)
def eigh(a):
    """Ascending eigenvalues and orthonormal eigenvectors of the Hermitian part of a."""
    return lapack("eigh", "eigh", a)


@eigh.infer
def _(a):
    return Spec(a.shape[:-1], dt.to_real(a.dtype)), Spec(a.shape, a.dtype)


@eigh.vjp
def _(g, out, a, *, needs):
    w, v = out
    gw, gv = g
    inner = None if gw is None else cast(diag_matrix(gw), a.dtype)
    if gv is not None:
        m = matmul(_h(v), gv)
        skew = (m - _h(m)) * 0.5
        part = phase_checked(divided(skew, m, w), skew, m)
        inner = part if inner is None else inner + part
    return (hermitian_part(matmul(matmul(v, inner), _h(v))),)


@eigh.jvp
def _(tangents, out, a):
    w, v = out
    m = matmul(matmul(_h(v), hermitian_part(tangents[0])), v)
    return real(diag_of(m)), matmul(v, divided(m, m, w))


batch_native((2,))(eigh)


def _eig_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    spread = [a * (1 + np.arange(a.shape[-1])) for a in square_samples(rng, dtype)]
    return [Sample((a.astype(dtype),)) for a in spread[:3]]


@operator(differentiable=False)
def leading_component(v):
    """1 at the largest component of every column, else 0."""
    rows = np.argmax(np.abs(v), axis=-2)[..., None, :]
    return (np.arange(v.shape[-2])[:, None] == rows).astype(v.dtype)


@leading_component.infer
def _(v):
    return Spec(v.shape, v.dtype)


batch_native((2,))(leading_component)


@operator(saves=(OUT,), n_out=2, tests=_eig_samples)
def eig(a):
    """Complex eigenvalues and eigenvectors of general square matrices, as LAPACK scales them.

    Columns have length 1 and a real largest component; the tangent keeps both.
    """
    return lapack("eig", "eig", a)


@eig.infer
def _(a):
    kind = dt.to_complex(a.dtype)
    return Spec(a.shape[:-1], kind), Spec(a.shape, kind)


@eig.jvp
def _(tangents, out, a):
    w, v = out[0], out[1]
    m = solve(v, matmul(cast(tangents[0], v.dtype), v))
    gap = row(w) - col(w)
    eye = Tensor(np.eye(a.shape[-1], dtype=bool))
    turn = zmul(where(eye, 0, m), reciprocal(where(eye, 1, gap)))
    dv = matmul(v, turn)
    top, axis = leading_component(v), v.ndim - 2
    ratio = div(
        sum_(mul(top, dv), axes=(axis,), keepdim=True),
        sum_(mul(top, v), axes=(axis,), keepdim=True),
    )
    dv = dv - mul(v, cast(imaginary(ratio), v.dtype) * 1j)
    along = real(diag_of(matmul(_h(v), dv)))
    return diag_of(m), dv - mul(v, cast(row(along), v.dtype))


batch_native((2,))(eig)

# -- singular values ----------------------------------------------------------------------------------


@operator(saves=(OUT,), n_out=3)
def svd(a):
    """``U, S, Vh`` with orthonormal columns of U and V, singular values descending (the thin form)."""
    return lapack("svd", "svd", a, False)


@svd.infer
def _(a):
    m, n = a.shape[-2:]
    k, lead = min(m, n), tuple(a.shape[:-2])
    return (
        Spec((*lead, m, k), a.dtype),
        Spec((*lead, k), dt.to_real(a.dtype)),
        Spec((*lead, k, n), a.dtype),
    )


def _outside(u: Any, x: Any) -> Any:
    """``(I - u u^H) x``."""
    return x - matmul(u, matmul(_h(u), x))


@svd.vjp
def _(g, out, a, *, needs):
    s, u, v = out[1], out[0], _h(out[2])
    gu, gs, gvh = g
    gv = None if gvh is None else _h(gvh)
    inner = None if gs is None else cast(diag_matrix(gs), a.dtype)
    if gu is not None or gv is not None:
        part = _vector_part(
            s, None if gu is None else matmul(_h(u), gu), None if gv is None else matmul(_h(v), gv)
        )
        inner = part if inner is None else inner + part
    total = matmul(matmul(u, inner), _h(v))
    m, n = a.shape[-2:]
    if gu is not None and m > n:
        total = total + matmul(mul(_outside(u, gu), row(reciprocal(s))), _h(v))
    if gv is not None and n > m:
        total = total + matmul(mul(u, row(reciprocal(s))), _h(_outside(v, gv)))
    return (total,)


def _vector_part(s: Any, mu: Any, mv: Any) -> Any:
    """The cotangent of ``U^H A V`` that comes from those of the vectors, ``mu = U^H gU`` and ``mv = V^H gV``."""
    sums, total, skews, size = row(s) + col(s), None, None, None
    if mu is not None:
        skews, size = mu - _h(mu), absolute(mu)
        total = mul(divided(skews, mu, s, sums), row(s))
        if mu.dtype.kind == "c":
            phase = div(imaginary(diag_of(mu)), s)
            total = total + cast(diag_matrix(phase), mu.dtype) * 1j
    if mv is not None:
        skew = mv - _h(mv)
        part = mul(col(s), divided(skew, mv, s, sums))
        total = part if total is None else total + part
        skews = skew if skews is None else skews + skew
        size = absolute(mv) if size is None else size + absolute(mv)
    return phase_checked(total, skews, size)


@svd.jvp
def _(tangents, out, a):
    s, t = out[1], tangents[0]
    u, v = out[0], _h(out[2])
    p = matmul(matmul(_h(u), t), v)
    ph, sums = _h(p), row(s) + col(s)
    du = matmul(u, divided(mul(p, row(s)) + mul(col(s), ph), p, s, sums))
    dv = matmul(v, divided(mul(col(s), p) + mul(ph, row(s)), p, s, sums))
    if a.dtype.kind == "c":
        phase = row(cast(div(imaginary(diag_of(p)), s * 2), a.dtype) * 1j)
        du, dv = du + mul(u, phase), dv - mul(v, phase)
    m, n = a.shape[-2:]
    if m > n:
        du = du + mul(_outside(u, matmul(t, v)), row(reciprocal(s)))
    if n > m:
        dv = dv + mul(_outside(v, matmul(_h(t), u)), row(reciprocal(s)))
    return du, real(diag_of(p)), _h(dv)


batch_native((2,))(svd)


@operator(saves=(), n_out=3)
def svd_full(a):
    """``U, S, Vh`` with square U and V; no derivative (the extra vectors are not determined)."""
    return lapack("svd", "svd", a, True)


def _no_rule(what: str, instead: str) -> Any:
    def rule(*_: Any, **__: Any) -> Any:
        raise UnsupportedError(
            f"{what} has no derivative: the vectors beyond the thin form are not determined by the matrix; use {instead}."
        )

    return rule


svd_full.vjp_rule = svd_full.jvp_rule = _no_rule(
    "svd with full_matrices=True", "full_matrices=False"
)


@svd_full.infer
def _(a):
    m, n = a.shape[-2:]
    lead = tuple(a.shape[:-2])
    return (
        Spec((*lead, m, m), a.dtype),
        Spec((*lead, min(m, n)), dt.to_real(a.dtype)),
        Spec((*lead, n, n), a.dtype),
    )


batch_native((2,))(svd_full)

# -- QR --------------------------------------------------------------------------------------------------


def _qr_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [Sample((a,)) for a in tall_and_wide(rng, dtype)[:3]]


@operator(saves=(OUT,), n_out=2, tests=_qr_samples)
def qr(a):
    """Reduced QR factors; the derivative needs the first ``min(m, n)`` columns to be independent."""
    return lapack("qr", "qr", a, "reduced")


@qr.infer
def _(a):
    m, n = a.shape[-2:]
    k, lead = min(m, n), tuple(a.shape[:-2])
    return Spec((*lead, m, k), a.dtype), Spec((*lead, k, n), a.dtype)


def _first_columns(x: Any, k: int) -> Any:
    if x.shape[-1] == k:
        return x
    items = (*((0, n, 1) for n in x.shape[:-1]), (0, k, 1))
    return slice_(x, items=items)


def _right_solve(x: Any, r: Any) -> Any:
    """``x r^-1`` of an upper triangular r."""
    return _h(triangular_solve(_h(r), _h(x), upper=False, unit=False))


@qr.jvp
def _(tangents, out, a):
    q, r = out
    t, k = tangents[0], out[0].shape[-1]
    c = _right_solve(_first_columns(t, k), _first_columns(r, k))
    qh = _h(q)
    w = matmul(qh, c)
    low = triangle(w, False, strict=True)
    turn = low - _h(low)  # q^H q', skew-Hermitian
    if a.dtype.kind == "c":
        turn = turn + cast(diag_matrix(imaginary(diag_of(w))), a.dtype) * 1j
    return c - matmul(q, w - turn), matmul(qh, t) - matmul(turn, r)


batch_native((2,))(qr)


@operator(saves=(), n_out=2)
def qr_complete(a):
    """QR factors with a square Q; no derivative (the extra columns are not determined)."""
    return lapack("qr", "qr", a, "complete")


qr_complete.vjp_rule = qr_complete.jvp_rule = _no_rule("qr with mode='complete'", "mode='reduced'")


@qr_complete.infer
def _(a):
    m = a.shape[-2]
    return Spec((*a.shape[:-2], m, m), a.dtype), Spec(tuple(a.shape), a.dtype)


batch_native((2,))(qr_complete)


# -- samples of gauge-invariant use ------------------------------------------------------------------


def _eigh_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    if dtype.kind == "c":  # the phase of an eigenvector is free; tested on invariant functions
        return []
    shift = [s.args[0] for s in _positive_samples(rng, dtype)[:2]]
    return [Sample((a + np.diag(np.arange(a.shape[-1])).astype(dtype),)) for a in shift]


def _plain_svd_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    if dtype.kind == "c":
        return []
    spread = [a * (1 + np.arange(a.shape[-1])) for a in square_samples(rng, dtype)[:2]]
    return [Sample((a.astype(dtype),)) for a in (*spread, *tall_and_wide(rng, dtype)[:2])]


eigh.tests, svd.tests = _eigh_samples, _plain_svd_samples
