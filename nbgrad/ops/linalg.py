"""Linear algebra primitives: solves, inverses, determinants, Cholesky, the matrix exponential, least squares.

Matrices are the last two dimensions; leading ones are batches that broadcast. NaN and inf propagate; a matrix that cannot be
treated raises `LinAlgError`, which names its place in the batch. Formulas without another source: Giles, "An extended
collection of matrix derivative results" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import LinAlgError, message
from ..layout import broadcast_shapes
from ..op import Spec, cast, operator
from ..op.base import OUT
from ..op.batching import front
from ..op.samples import Sample, draw
from ..tensor import Tensor
from .basic import _h, _t, matmul, sum_
from .elementwise import cj, conj, keep, mul, neg, real
from .view import _reshape


def lapack(op: str, name: str, *args: Any) -> Any:
    """Call ``kernels_cpu.linalg.name``; a matrix that cannot be treated becomes our own error."""
    from kernels_cpu import linalg

    try:
        with np.errstate(all="ignore"):
            return getattr(linalg, name)(*args)
    except linalg.FailedError as e:
        which = f"matrix {list(e.entry)} of the batch" if e.entry else "the matrix"
        raise LinAlgError(
            message(op, which, f"not usable: {e.reason}", "a matrix the routine can treat")
        ) from None


def batch_native(core: Sequence[int]) -> Callable:
    """Batching rule of an operator that broadcasts leading dimensions; ``core`` lists the ranks of one member.

    The last entry serves all further operands.
    """

    def make(op: Any) -> None:
        @op.batch
        def _(dims, *inputs, **params):
            ranks = [core[min(i, len(core) - 1)] for i in range(len(inputs))]
            lead = max(
                x.ndim - (d is not None) - r for x, d, r in zip(inputs, dims, ranks, strict=True)
            )
            moved = []
            for x, d, r in zip(inputs, dims, ranks, strict=True):
                if d is not None:
                    x = front(x, d)
                    pad = lead - (x.ndim - 1 - r)
                    x = _reshape(x, (x.shape[0], *(1,) * pad, *x.shape[1:]))
                moved.append(x)
            return op(*moved, **params), 0

    return make


def leading(*specs: Any) -> tuple[int, ...]:
    """The common batch shape of matrices."""
    return broadcast_shapes(*(tuple(s.shape[:-2]) for s in specs), op="linalg")


def column(x: Any) -> Any:
    """A trailing pair of size-1 dimensions: one number a matrix."""
    return _reshape(x, (*x.shape, 1, 1))


def hermitian_part(x: Any) -> Any:
    """``(x + x^H) / 2``."""
    return (x + _h(x)) * 0.5


def triangle(x: Any, upper: bool, strict: bool = False) -> Any:
    """The upper or lower triangle, 0 elsewhere."""
    ones = np.ones(tuple(x.shape[-2:]), bool)
    mask = np.triu(ones, int(strict)) if upper else np.tril(ones, -int(strict))
    return keep(Tensor(mask), x)


def square_samples(rng: np.random.Generator, dtype: np.dtype) -> list[np.ndarray]:
    """Well-conditioned square matrices, single and batched, and an empty one."""
    shapes = ((3, 3), (2, 2, 2), (1, 1), (0, 0))
    return [draw(rng, dtype, s, -1, 1) + 3 * np.eye(s[-1], dtype=dtype) for s in shapes]


def _unary_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [Sample((a,)) for a in square_samples(rng, dtype)]


def _solve_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    out = []
    for a in square_samples(rng, dtype):
        out.append(Sample((a, draw(rng, dtype, (*a.shape[:-1], 2), -1, 1))))
    out.append(Sample((out[0].args[0], draw(rng, dtype, (2, 3, 1), -1, 1))))
    out.append(
        Sample(
            (
                draw(rng, dtype, (2, 1, 2, 2), 0, 1) + 3 * np.eye(2, dtype=dtype),
                draw(rng, dtype, (3, 2, 2), -1, 1),
            )
        )
    )
    return out


# -- solve and inverse ------------------------------------------------------------------------------


def _needs_solution(needs: Sequence[bool], params: dict) -> tuple[int, ...]:
    return (0, OUT) if needs[0] else (0,)


@operator(
    nin=2, linear=(1,), saves=_needs_solution, tests=_solve_samples, reference=np.linalg.solve
)
def solve(a, b):
    """X with ``a X = b``; b is a matrix (its columns are right-hand sides)."""
    return lapack("solve", "solve", a, b)


@solve.infer
def _(a, b):
    return Spec((*leading(a, b), *b.shape[-2:]), b.dtype)


@solve.vjp
def _(g, out, a, b, *, needs):
    gb = solve(_h(a), g)
    return neg(matmul(gb, _h(out))) if needs[0] else None, gb


@solve.jvp
def _(tangents, out, a, b):
    return solve(a, _residual_tangent(tangents, out, lambda x: x))


def _residual_tangent(tangents: Sequence[Any], out: Any, part: Callable) -> Any:
    """``b' - a' x``."""
    ta, tb = tangents
    if ta is None:
        return tb
    moved = neg(matmul(part(ta), out))
    return moved if tb is None else tb + moved


def _solve_taylor(
    level: Any, series: Sequence[Any], first: Any, run: Callable, part: Callable
) -> Any:
    """``a_0 x_k = b_k - sum_j a_j x_(k-j)``: one solve an order."""

    def rule(k: int) -> Any:
        total = None if series[1] is None else series[1].term(k)
        for j in range(1, k + 1):
            a, x = None if series[0] is None else series[0].term(j), out.term(k - j)
            if a is not None and x is not None:
                moved = neg(matmul(part(a), x))
                total = moved if total is None else total + moved
        return None if total is None else run(total)

    out = level.interpreter._each(level, first, rule)
    return out


@solve.taylor
def _(level, series, firsts, first):
    return _solve_taylor(level, series, first, lambda b: solve(firsts[0], b), lambda a: a)


batch_native((2, 2))(solve)


@operator(saves=(OUT,), tests=_unary_samples, reference=np.linalg.inv)
def inv(a):
    """Inverse of square matrices."""
    return lapack("inv", "inv", a)


@inv.infer
def _(a):
    return Spec(a.shape, a.dtype)


@inv.vjp
def _(g, out, a, *, needs):
    h = _h(out)
    return (neg(matmul(matmul(h, g), h)),)


@inv.jvp
def _(tangents, out, a):
    return neg(matmul(matmul(out, tangents[0]), out))


batch_native((2,))(inv)


def _triangular_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [
        Sample(s.args, {"upper": upper, "unit": unit})
        for s in _solve_samples(rng, dtype)
        for upper, unit in ((True, False), (False, True), (False, False))
    ]


def _triangular_reference(a: np.ndarray, b: np.ndarray, *, upper: bool, unit: bool) -> np.ndarray:
    t = np.triu(a) if upper else np.tril(a)
    if unit:
        t = t - t * np.eye(t.shape[-1]) + np.eye(t.shape[-1])
    return np.linalg.solve(t, b)


@operator(
    nin=2,
    linear=(1,),
    saves=_needs_solution,
    tests=_triangular_samples,
    reference=_triangular_reference,
)
def triangular_solve(a, b, *, upper, unit):
    """X with ``tri(a) X = b``; only that triangle of a is read (not its diagonal with ``unit``)."""
    return lapack("solve_triangular", "solve_triangular", a, b, upper, unit)


@triangular_solve.infer
def _(a, b, *, upper, unit):
    return Spec((*leading(a, b), *b.shape[-2:]), b.dtype)


@triangular_solve.vjp
def _(g, out, a, b, *, needs, upper, unit):
    gb = triangular_solve(_h(a), g, upper=not upper, unit=unit)
    ga = triangle(neg(matmul(gb, _h(out))), upper, unit) if needs[0] else None
    return ga, gb


@triangular_solve.jvp
def _(tangents, out, a, b, *, upper, unit):
    rhs = _residual_tangent(tangents, out, lambda x: triangle(x, upper, unit))
    return triangular_solve(a, rhs, upper=upper, unit=unit)


@triangular_solve.taylor
def _(level, series, firsts, first, *, upper, unit):
    run = lambda b: triangular_solve(firsts[0], b, upper=upper, unit=unit)
    return _solve_taylor(level, series, first, run, lambda a: triangle(a, upper, unit))


batch_native((2, 2))(triangular_solve)

# -- determinants -------------------------------------------------------------------------------------


def _det_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    row = draw(rng, dtype, (4, 1), 0.5, 1)
    singular = [
        row @ row.T,
        draw(rng, dtype, (3, 2), -1, 1) @ draw(rng, dtype, (2, 3), -1, 1),
        np.zeros((3, 3), dtype),
    ]
    return [*_unary_samples(rng, dtype), *(Sample((a,)) for a in singular)]


@operator(saves=(0,), tests=_det_samples, reference=np.linalg.det)
def det(a):
    """Determinant; its derivatives of every order are exact at singular matrices too."""
    return lapack("det", "det", a)


@det.infer
def _(a):
    return Spec(a.shape[:-2], a.dtype)


@det.vjp
def _(g, out, a, *, needs):
    return (mul(column(g), cj(cofactor(a))),)


@det.jvp
def _(tangents, out, a):
    n = a.ndim
    return sum_(mul(cofactor(a), tangents[0]), axes=(n - 2, n - 1), keepdim=False)


batch_native((2,))(det)


def _cofactor_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    out = []
    for s in _det_samples(rng, dtype):
        (a,) = s.args
        out.append(Sample((a,)))
        out.append(Sample((a, draw(rng, dtype, a.shape, -1, 1))))
    return out


@operator(nin=None, saves=lambda needs, params: tuple(range(len(needs))), tests=_cofactor_samples)
def cofactor(a, *e):
    """``D^k cof(a)[e_1 .. e_k]``, the directional derivatives of the cofactor matrix (gradient of det).

    By the symmetry of higher derivatives of det, every derivative of this operator is the operator itself with one
    more direction: it is self-adjoint in its directions.
    """
    return lapack("det", "cofactor", a, *e)


@cofactor.infer
def _(a, *e):
    return Spec((*leading(a, *e), *a.shape[-2:]), a.dtype)


@cofactor.vjp
def _(g, out, a, *e, needs):
    g = cj(g)
    found = [cj(cofactor(a, *e, g)) if needs[0] else None]
    for i, need in enumerate(needs[1:]):
        found.append(cj(cofactor(a, *e[:i], g, *e[i + 1 :])) if need else None)
    return tuple(found)


@cofactor.jvp
def _(tangents, out, a, *e):
    terms = [cofactor(a, *e, tangents[0])] if tangents[0] is not None else []
    for i, t in enumerate(tangents[1:]):
        if t is not None:
            terms.append(cofactor(a, *e[:i], t, *e[i + 1 :]))
    total = terms[0]
    for t in terms[1:]:
        total = total + t
    return total


batch_native((2,))(cofactor)


@operator(
    saves=(0, OUT),
    n_out=2,
    tests=_unary_samples,
    reference=lambda a: tuple(np.asarray(v) for v in np.linalg.slogdet(a)),
)
def slogdet(a):
    """Sign (a unit complex number) and logarithm of the absolute determinant; the real sign has gradient 0."""
    return lapack("slogdet", "slogdet", a)


@slogdet.infer
def _(a):
    return Spec(a.shape[:-2], a.dtype), Spec(a.shape[:-2], dt.to_real(a.dtype))


def imaginary(x: Any) -> Any:
    """Imaginary part of a complex tensor."""
    return real(x * -1j)


@slogdet.vjp
def _(g, out, a, *, needs):
    gs, gl = g
    total = None if gl is None else cast(gl, a.dtype)
    if gs is not None and a.dtype.kind == "c":
        turn = cast(neg(imaginary(conj(gs) * out[0])), a.dtype) * 1j
        total = turn if total is None else total + turn
    if total is None:
        return (a.zeros_like_(),)
    return (mul(column(total), _h(inv(a))),)


@slogdet.jvp
def _(tangents, out, a):
    n = a.ndim
    trace = sum_(mul(_t(inv(a)), tangents[0]), axes=(n - 2, n - 1), keepdim=False)
    if a.dtype.kind != "c":
        return None, trace
    return out[0] * (cast(imaginary(trace), a.dtype) * 1j), real(trace)


batch_native((2,))(slogdet)

# -- Cholesky -----------------------------------------------------------------------------------------


def _positive_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [Sample((a @ np.conj(np.swapaxes(a, -1, -2)),)) for a in square_samples(rng, dtype)]


@operator(saves=(OUT,), tests=_positive_samples, reference=np.linalg.cholesky)
def cholesky(a):
    """Lower Cholesky factor of the Hermitian part of a.

    Derivative: Murray, "Differentiation of the Cholesky decomposition" (2016), eqs. 8 and 10.
    """
    return lapack("cholesky", "cholesky", a)


@cholesky.infer
def _(a):
    return Spec(a.shape, a.dtype)


def half_triangle(x: Any) -> Any:
    """Lower triangle with the diagonal halved."""
    n = x.shape[-1]
    weights = np.tril(np.ones((n, n))) - 0.5 * np.eye(n)
    return mul(triangle(x, False), Tensor(weights.astype(dt.to_real(x.dtype))))


def _between(lower: Any, x: Any) -> Any:
    """``L^-1 x L^-H`` of a matrix x."""
    y = triangular_solve(lower, x, upper=False, unit=False)
    return _h(triangular_solve(lower, _h(y), upper=False, unit=False))


@cholesky.vjp
def _(g, out, a, *, needs):
    up = _h(out)
    x = triangular_solve(up, half_triangle(matmul(up, g)), upper=True, unit=False)
    s = _h(triangular_solve(up, _h(x), upper=True, unit=False))
    return (hermitian_part(s),)


@cholesky.jvp
def _(tangents, out, a):
    return matmul(out, half_triangle(_between(out, hermitian_part(tangents[0]))))


batch_native((2,))(cholesky)
