"""BLAS and LAPACK in the Numba door: every rule, for real and complex matrices, first and second order."""

from __future__ import annotations

import operator

import numba
import numpy as np
import pytest
from python_mode import call
from test_library import FUNCTIONS, check, complex_of

import nbgrad as ng
from nbgrad.njit import rules

rng = np.random.default_rng(11)
SQUARE = rng.normal(size=(4, 4)) + np.diag([3.0, 4.5, 6.0, 8.0])
TALL = rng.normal(size=(5, 3))
B = rng.normal(size=4)
C = rng.normal(size=5)
ARGS = (SQUARE, TALL, B, C)
DIRECTIONS = [tuple(0.5 * rng.normal(size=x.shape) for x in ARGS) for _ in range(2)]
OPTIONS = {"args": ARGS, "directions": DIRECTIONS, "names": "s a b c"}


@numba.njit
def symmetric(s):
    return s + s.T


@numba.njit
def positive(s):
    return np.dot(s, s.T) + np.eye(s.shape[0])


@numba.njit
def unsymmetric_complex(s):
    """Complex, with distinct eigenvalues and no symmetry."""
    return s * (1.0 + 0.2j) + 0.5j * s.T * s


@numba.njit
def positive_complex(s):
    z = unsymmetric_complex(s)
    return np.dot(z, np.conj(z.T)) + np.eye(s.shape[0])


@numba.njit
def hermitian(s):
    z = unsymmetric_complex(s)
    return z + np.conj(z.T)


FUNCTIONS.update(
    symmetric=symmetric,
    positive=positive,
    unsymmetric_complex=unsymmetric_complex,
    positive_complex=positive_complex,
    hermitian=hermitian,
)

PRODUCTS = {
    "np.dot": [
        "np.dot(b, b[::-1].copy())",
        "[np.dot(s, b)]",
        "[np.dot(c, a)]",
        "[0.1 * np.dot(s.T, s)]",
    ],
    "operator.matmul": ["b @ b", "[a.T @ c]", "[b @ s]", "[0.01 * (s @ s @ s)]"],
    "np.vdot": ["np.vdot(b, s[0].copy())"],
    "complex": [
        "z = complex_of(s); y = complex_of(b); <np.dot(z, y)>",
        "<np.dot(y, np.conj(z))>",
        "<z @ np.conj(z.T)>",
        "np.vdot(y, z[0].copy()).imag",
        "np.dot(y, y).imag",
    ],
    "np.linalg.matrix_power": [
        "[np.linalg.matrix_power(s * 0.2, 3)]",
        "[np.linalg.matrix_power(s, -2)]",
    ],
}
SYSTEMS = {
    "np.linalg.solve": ["[np.linalg.solve(s, b)]", "[np.linalg.solve(s, a[:4].copy())]"],
    "np.linalg.inv": ["[np.linalg.inv(s)]"],
    "np.linalg.det": ["np.linalg.det(s * 0.3)"],
    "np.linalg.slogdet": ["np.linalg.slogdet(s)[1]", "np.linalg.slogdet(s)[0] * b[0]"],
    "np.linalg.cholesky": ["[np.linalg.cholesky(positive(s))]"],
    "np.linalg.qr": [
        "q, r = np.linalg.qr(s); [q]",
        "[r]",
        "q1, r1 = np.linalg.qr(a); [q1]",
        "[r1]",
        "q2, r2 = np.linalg.qr(a.T); [q2]",
        "[r2]",
    ],
}
SPECTRA = {
    "np.linalg.eigh": ["w, v = np.linalg.eigh(symmetric(s)); [w]", "[v]"],
    "np.linalg.eigvalsh": ["[np.linalg.eigvalsh(symmetric(s))]"],
    "np.linalg.eig": ["w1, v1 = np.linalg.eig(s + 2 * s.T); [w1]", "[v1]"],
    "np.linalg.eigvals": ["[np.linalg.eigvals(s + 2 * s.T)]"],
    "np.roots": ["[np.roots(np.array((1.0, -6.0 + 0.1 * b[0], 11.0, -6.0)))]"],
}
SINGULAR_VALUES = {
    "np.linalg.svd": [
        "u, d, h = np.linalg.svd(s); [u]",
        "[d]",
        "[h]",
        "u1, d1, h1 = np.linalg.svd(a, False); [u1]",
        "[h1]",
        "u2, d2, h2 = np.linalg.svd(a); [np.abs(np.dot(u2[:, 3:].copy(), u2[:, 3:].T.copy()))]",
    ],
    "np.linalg.pinv": ["[np.linalg.pinv(a)]", "[np.linalg.pinv(a.T)]"],
    "np.linalg.lstsq": [
        "x, r, k, d3 = np.linalg.lstsq(a, c); [x]",
        "[r]",
        "[d3]",
        "[np.linalg.lstsq(a.T, b[:3].copy())[0]]",
    ],
}
NORMS = {
    "vector": [
        "np.linalg.norm(b)",
        "np.linalg.norm(b, 2)",
        "np.linalg.norm(b, 1)",
        "np.linalg.norm(b, 3)",
        "np.linalg.norm(b, np.inf)",
        "np.linalg.norm(b, -np.inf)",
    ],
    "matrix": [
        "np.linalg.norm(a)",
        "np.linalg.norm(a, 1)",
        "np.linalg.norm(a, -1)",
        "np.linalg.norm(a, np.inf)",
        "np.linalg.norm(a, -np.inf)",
        "np.linalg.norm(a, 2)",
        "np.linalg.norm(a, -2)",
    ],
    "np.linalg.cond": ["np.linalg.cond(s)", "np.linalg.cond(s, 1)", "np.linalg.cond(s, -2)"],
    "np.linalg.matrix_rank": ["np.linalg.matrix_rank(s) * b[0]"],
}
COMPLEX_SYSTEMS = {
    "np.linalg.solve": ["z = complex_of(s); y = complex_of(b); <np.linalg.solve(z, y)>"],
    "np.linalg.inv": ["<np.linalg.inv(complex_of(s))>"],
    "np.linalg.det": ["np.linalg.det(complex_of(s) * 0.3).imag"],
    "np.linalg.slogdet": ["g, e = np.linalg.slogdet(complex_of(s)); g.imag", "e"],
    "np.linalg.cholesky": ["<np.linalg.cholesky(positive_complex(s * 0.3))>"],
    "np.linalg.qr": ["q, r = np.linalg.qr(unsymmetric_complex(s)); <q>", "<r>"],
    "np.linalg.norm": [
        "y = complex_of(b); np.linalg.norm(y)",
        "np.linalg.norm(y, 3)",
        "np.linalg.norm(complex_of(s), 1)",
    ],
}
COMPLEX_SPECTRA = {
    "np.linalg.eigh": ["w, v = np.linalg.eigh(hermitian(s)); [w]", "[np.abs(v)]"],
    "np.linalg.eigvalsh": ["[np.linalg.eigvalsh(hermitian(s))]"],
    "np.linalg.eig": ["w1, v1 = np.linalg.eig(unsymmetric_complex(s)); <w1>", "[np.abs(v1)]"],
    "np.linalg.eigvals": ["<np.linalg.eigvals(unsymmetric_complex(s))>"],
    "np.linalg.svd": [
        "u, d, h = np.linalg.svd(unsymmetric_complex(s)); [np.abs(u)]",
        "[d]",
        "[np.abs(h)]",
    ],
    "np.linalg.pinv": ["<np.linalg.pinv(complex_of(a))>"],
    "np.linalg.lstsq": ["x, r, k, d3 = np.linalg.lstsq(complex_of(a), complex_of(c)); <x>", "[r]"],
}
TABLES = {
    "products": PRODUCTS,
    "systems": SYSTEMS,
    "spectra": SPECTRA,
    "singular values": SINGULAR_VALUES,
    "norms": NORMS,
    "complex systems": COMPLEX_SYSTEMS,
    "complex spectra": COMPLEX_SPECTRA,
}


@pytest.mark.parametrize("name", TABLES)
def test_linear_algebra(name):
    for lines in TABLES[name].values():
        check_lines(lines)


def check_lines(lines):
    check(lines, **OPTIONS)


def test_every_rule_stands_in_a_table():
    written = " ".join(
        line for table in TABLES.values() for lines in table.values() for line in lines
    )
    keys = [*rules.RULES, *(f for f in rules.SUBSTITUTES if not isinstance(f, str))]
    known = [f for f in keys if f.__module__ == "numpy.linalg"]
    assert known
    assert not [f.__name__ for f in known if f"{f.__name__}(" not in written]
    assert operator.matmul in rules.RULES and "@" in written


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_determinant_of_a_singular_matrix(rank):
    """The derivative is the adjugate, which exists at every matrix; rank 2 of 4 makes it zero."""
    a = np.zeros((4, 4))
    a[np.arange(rank), np.arange(rank)] = np.arange(2.0, 2 + rank)

    @numba.njit
    def f(a):
        return np.linalg.det(a)

    expected = np.zeros((4, 4))
    if rank == 3:
        expected[3, 3] = 2.0 * 3.0 * 4.0
    np.testing.assert_allclose(call(ng.njit.grad(f), a), expected, atol=1e-13)


def test_norm_at_zero_has_derivative_zero():
    @numba.njit
    def f(v):
        return np.linalg.norm(v)

    assert np.array_equal(call(ng.njit.grad(f), np.zeros(3)), np.zeros(3))
    tiny = np.array([3e-200, 4e-200])
    np.testing.assert_allclose(call(ng.njit.grad(f), tiny), [0.6, 0.8], rtol=1e-14)


def test_gradients_of_complex_matrices_are_conjugate():
    """d(a b) with cotangent g gives g b^H: the convention of PyTorch."""
    z, y = complex_of(SQUARE), complex_of(B)

    @numba.njit
    def f(z, y):
        return np.dot(z, y)

    g = rng.normal(size=4) + 1j * rng.normal(size=4)
    _, (gz, gy) = ng.njit.vjp(f, (0, 1))((z, y), g)
    np.testing.assert_allclose(gz, np.outer(g, y.conj()), rtol=1e-13)
    np.testing.assert_allclose(gy, z.conj().T @ g, rtol=1e-13)


def test_equal_eigenvalues():
    """Functions of the values keep their gradient; through the vectors of the group it is NaN, never a wrong number."""

    @numba.njit
    def of_values(a):
        return np.sum(np.linalg.eigh(a)[0] ** 3)

    @numba.njit
    def of_vectors(a):
        w, v = np.linalg.eigh(a)
        return np.dot(v * (w * w), v.T)[0, 1]

    a = np.eye(3) * 2.0
    np.testing.assert_allclose(call(ng.njit.grad(of_values), a), 12.0 * np.eye(3), atol=1e-12)
    assert np.isnan(call(ng.njit.grad(of_vectors), a)).any()
