"""Gradients that automatic differentiation tools got wrong in public reports, with the right values.

Each row is a scalar function, its arguments, and the gradients that mathematics (or nbgrad's table of conventions)
gives. The sources of the reports are named by the tools' issue numbers.
"""

import math

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad
from nbgrad.testing import assert_close

INF, NAN, E = math.inf, math.nan, math.e
POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])


def pair_energy(p):
    """Sum of 1/distance over pairs, self-pairs masked out (jax 654, 347, 3058)."""
    d = (p[:, None] - p[None]).square().sum(-1).sqrt()
    other = ng.tensor(~np.eye(3, dtype=bool))
    return ng.where(other, 1 / ng.where(other, d, 1.0), 0.0).sum()


def pair_gradient():
    out = np.zeros_like(POINTS)
    for i, j in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]:
        r = POINTS[i] - POINTS[j]
        out[i] -= 2 * r / np.linalg.norm(r) ** 3
    return out


def late(t):
    """exp(logsumexp) of entries that are all -inf at t = 1."""
    return ng.exp(ng.logsumexp(ng.stack([t * 0 - INF, t - INF]), 0))


CASES = {
    # a branch that was not chosen is singular (torch 108618, 156212, 68425; jax 5798, 2630)
    "where beside log": (
        lambda x: ng.where(x > 2, ng.log2(x), 2 * x).sum(),
        [[0.0, 2.0, 3.0]],
        [[2, 2, 1 / (3 * math.log(2))]],
    ),
    "where beside cos of inf": (
        lambda x: ng.where(x < 1, ng.cos(x), ng.zeros(2)).sum(),
        [[0.0, INF]],
        [[0, 0]],
    ),
    "masked self-distances": (pair_energy, [POINTS], [pair_gradient()]),
    "where beside atan2 at the origin": (
        lambda y, x: ng.where(ng.tensor(False), ng.atan2(y, x), y + x),
        [0.0, 0.0],
        [1, 1],
    ),
    # powers of zero (jax 14397, 12409; drake 23862)
    "constant term of a polynomial, float powers": (
        lambda x: (x ** ng.arange(3.0)).sum(),
        [0.0],
        [1],
    ),
    "constant term of a polynomial, integer powers": (
        lambda x: (x ** ng.arange(3)).sum(),
        [0.0],
        [1],
    ),
    # underflow in the adjoint (torch 98276)
    "atan2 of tiny arguments": (
        lambda y, x: ng.atan2(y, x) * 2e-200,
        [1e-200, 1e-200],
        [1, -1],
    ),
    # log-sum-exp of nothing (torch 31829, 49724; jax 6811)
    "logsumexp with one -inf": (lambda x: ng.logsumexp(x, 0), [[-INF, 1.0]], [[0, 1]]),
    "logsumexp of -inf": (lambda x: ng.logsumexp(x, 0), [[-INF, -INF]], [[0, 0]]),
    "logaddexp of -inf": (lambda a, b: ng.logaddexp(a, b), [-INF, -INF], [0, 0]),
    "exp of logsumexp of -inf": (late, [1.0], [0]),
    # products with zeros (torch 106789, 82644)
    "prod with two zeros": (lambda x: x.prod(), [[2.0, 3.0, 0.0, 0.0]], [[0, 0, 0, 0]]),
    "prod with one zero": (lambda x: x.prod(), [[2.0, 0.0, 4.0]], [[0, 8, 0]]),
    "prod of one zero": (lambda x: x.prod(0), [[0.0]], [[1]]),
    # ties (torch 56734, 155071, 41779, 43519; theano 4568)
    "maximum at a tie": (lambda a, b: ng.maximum(a, b), [1.0, 1.0], [0.5, 0.5]),
    "amax at a tie": (lambda x: x.amax(0), [[1.0, 3.0, 3.0]], [[0, 0.5, 0.5]]),
    "max at a tie": (lambda x: x.max(), [[1.0, 3.0, 3.0]], [[0, 0.5, 0.5]]),
    "infinity norm at a tie": (
        lambda x: ng.linalg.vector_norm(x, INF),
        [[1.0, -3.0, 3.0]],
        [[0, -0.5, 0.5]],
    ),
    # a chain of two singular functions (jax 6636)
    "sqrt of relu": (lambda x: ng.sqrt(ng.relu(x)), [-10.0], [0]),
    # NaN data
    "nanmean": (lambda x: (x**2).nanmean(), [[NAN, 1.0, 2.0, 3.0]], [[0, 2 / 3, 4 / 3, 2]]),
    # repeated and short indices, empty ones
    "gather with repeats": (
        lambda x: (
            x.gather(1, ng.tensor([[2, 2, 0], [1, 1, 1]])) * ng.arange(6.0).view(2, 3)
        ).sum(),
        [np.arange(6.0).reshape(2, 3)],
        [[[2, 0, 1], [0, 12, 0]]],
    ),
    "repeated index": (
        lambda x: (x[ng.tensor([2, 0, 2])] ** 2).sum(),
        [[1.5, 2.5, 0.5]],
        [[3, 0, 2]],
    ),
    "empty index beside a sum": (lambda x: x[[]].sum() + x.sum(), [np.ones(3)], [[1, 1, 1]]),
    "empty scatter": (
        lambda s: ng.ones(3).scatter(0, ng.zeros(0, dtype=ng.int64), s).sum() + s.sum(),
        [[1.0, 2.0]],
        [[1, 1]],
    ),
    # einsum (torch and HIPS: repeated letters, sizes of 1)
    "einsum broadcasting a size of 1": (
        lambda x, y: ng.einsum("i,i", x, y),
        [[2.0, 2.0], [2.0]],
        [[2, 2], [4]],
    ),
    "einsum of a diagonal": (
        lambda a: (ng.einsum("ii->i", a) * ng.tensor([1.0, 2.0, 3.0])).sum(),
        [np.arange(9.0).reshape(3, 3)],
        [np.diag([1.0, 2.0, 3.0])],
    ),
    # determinants of singular matrices have the adjugate as gradient (jax 2380; HIPS 549; torch 79487)
    "det of rank 1": (lambda a: ng.linalg.det(a), [[[1.0, 2.0], [2.0, 4.0]]], [[[4, -2], [-2, 1]]]),
    "det of zero": (lambda a: ng.linalg.det(a), [np.zeros((3, 3))], [np.zeros((3, 3))]),
    # scans (torch 53711, 37487; tinygrad 17088)
    "cumsum": (
        lambda x: (x.cumsum(0) * ng.tensor([1.0, 10.0, 100.0])).sum(),
        [[1.0, 2.0, 3.0]],
        [[111, 110, 100]],
    ),
    "logcumsumexp far apart": (
        lambda x: ng.logcumsumexp(x, 0)[2],
        [[1000.0, 1001.0, -1000.0]],
        [[1 / (1 + E), E / (1 + E), 0]],
    ),
    # strides and windows
    "flip": (lambda x: (x.flip(0) * ng.arange(4.0)).sum(), [np.ones(4)], [[3, 2, 1, 0]]),
    "overlapping windows": (
        lambda x: (x.as_strided((3, 3), (1, 1)) ** 2).sum(),
        [np.arange(5.0)],
        [2 * np.arange(5.0) * [1, 2, 3, 2, 1]],
    ),
    # booleans and integers in the graph keep the gradient's dtype
    "masks and counts": (
        lambda x: (x * ng.tensor([True, False, True]) * ng.tensor([2, 3, 4])).sum(),
        [[1.5, 2.5, 0.5]],
        [[2, 0, 4]],
    ),
    "copy_ beside a use": (
        lambda s: (s * 5).sum() + ng.zeros(2).copy_(s).sum(),
        [[1.0, 2.0]],
        [[6, 6]],
    ),
    # complex: df/dRe + i df/dIm (jax 15872, 979; torch 92811)
    "modulus squared": (lambda z: z.abs() ** 2, [1 + 0.5j], [2 + 1j]),
    "imaginary part squared": (lambda z: z.imag**2, [2j], [4j]),
    "real weights in a complex sum": (
        lambda w: (w * ng.tensor([1j, 2 + 1j])).abs().sum(),
        [[1.0, 2.0]],
        [[1, math.sqrt(5)]],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    f, values, expected = CASES[name]
    args = [ng.tensor(v, requires_grad=True) for v in values]
    got = grad(f(*args), args)
    for g, a, want in zip(got, args, expected, strict=True):
        assert g.dtype == a.dtype
        assert_close(g, np.asarray(want, a.dtype), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_forward_mode_gives_the_same(name):
    f, values, expected = CASES[name]
    args = [ng.tensor(v) for v in values]
    rng = np.random.default_rng(0)
    dirs = [
        rng.uniform(0.5, 1, tuple(a.shape)) * (1 + 0.5j if a.dtype.kind == "c" else 1) for a in args
    ]
    _, dot = ng.func.jvp(f, tuple(args), tuple(ng.tensor(d) for d in dirs))
    want = sum(
        np.real(np.sum(np.conj(np.asarray(e)) * d)) for e, d in zip(expected, dirs, strict=True)
    )
    assert_close(dot, want, rtol=1e-9, atol=1e-9)
