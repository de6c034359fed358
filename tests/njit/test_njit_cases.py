"""Programs that other tools differentiated wrongly, or not at all, in public reports; the right values.

The reports are named by tool and issue number.
"""

import math

import numpy as np
import pytest
from numba import njit

import nbgrad as ng


def triangle(x):
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(i, x.shape[1]):
            s = s + x[i, j]
    return s


def diagonal_under_a_branch(d):
    n = d.shape[0]
    out = np.zeros((n, n))
    for i in range(n):
        out[i, 2] = 1.0
        if i == 2:
            out[i, i] += d[i] * d[i]
    return out.sum()


def dependent_ranges(x):
    n = x.shape[0]
    total = 0.0
    for i in range(n):
        part = 0.0
        for j in range(i):
            for k in range(j):
                part += x[j] * x[k]
        total += part
    return total


def pair_counts(x):
    """Its gradient: x[j] x[k] with k < j is counted once for every i > j."""
    n = len(x)
    before = [x[:m].sum() * (n - 1 - m) for m in range(n)]
    return [before[m] + sum(x[j] * (n - 1 - j) for j in range(m + 1, n)) for m in range(n)]


def value_across_a_loop(x, n):
    a = x * x
    s = 0.0
    for i in range(n):
        s += i * x
    return a * s


def local_vector(x):
    v = np.zeros(2)
    for _ in range(40):
        for i in range(2):
            v[i] = v[i] + 0.1 * ((i + 1) * x - v[i])
    return v[0] + 2 * v[1]


def inner_accumulation(x, y):
    z = x.copy()
    for i in range(z.shape[0]):
        for j in range(y.shape[0]):
            z[i] += y[j]
    return z.sum()


def carried_scalar(w):
    total = 0.0
    for _ in range(10):
        s = 0.0
        for _ in range(500):
            s = 0.99 * s + w
        total += s
    return total


def square_root(a):
    x = a
    while abs(x * x - a) > 1e-13 * a:
        x = 0.5 * (x + a / x)
    return x


def crossing(x, c):
    s = 0.0
    for i in range(x.shape[0]):
        if s + x[i] > c:
            return i + (c - s) / x[i]
        s += x[i]
    return -1.0


def integer_casts(x):
    k = int(3 * x)
    r = x - math.floor(x)
    return k * x + r * r + (x % 0.4)


def overwritten_product(x):
    p = np.ones(1)
    for i in range(x.shape[0]):
        p[0] = p[0] * x[i]
    return p[0]


def write_after_read(x):
    s = x[0] * x[0]
    x[0] = 0.0
    return s + x[0] * x[1]


X5, STEPS = np.arange(5.0) + 0.5, np.array([1.0, 2.0, 4.0, 8.0])
CASES = {
    "nested loops over a triangle (tangent 31)": (
        triangle, (np.arange(12.0).reshape(3, 4),), 0, np.triu(np.ones((3, 4)))),
    "writes under a branch on the loop index (tangent 28, 56, 69)": (
        diagonal_under_a_branch, (np.array([1.0, 2.0, 3.0, 4.0]),), 0, [0, 0, 6, 0]),
    "inner ranges that depend on the outer index (taichi 7771, warp 1293)": (
        dependent_ranges, (X5,), 0, pair_counts(X5)),
    "a value from before a loop, used after it (warp 140, 1694)": (
        value_across_a_loop, (3.0, 7), 0, 3 * 9 * 21),
    "a small local vector, many steps (warp 248, 1697)": (
        local_vector, (1.7,), 0, 5 * (1 - 0.9**40)),
    "x[i] += y[j] in an inner loop (taichi 8356)": (
        inner_accumulation, (np.zeros(5), np.array([1.0, 2.0, 3.0])), 1, [5, 5, 5]),
    "a long inner loop with a carried scalar (taichi 263, 8027)": (
        carried_scalar, (0.3,), 0, 10 * (1 - 0.99**500) / 0.01),
    "an early return from a loop (taichi 2387, warp 1552)": (
        crossing, (STEPS, 5.0), (0, 1), ([-0.25, -0.25, -0.125, 0], 0.25)),
    "integers made from numbers (jax 12409, torch 3226)": (
        integer_casts, (1.7,), 0, 5 + 2 * 0.7 + 1),
    "a product in place (warp's overwritten arrays)": (
        overwritten_product, (np.array([2.0, 3.0, 0.5]),), 0, [1.5, 1.0, 6.0]),
    "a write after the read": (write_after_read, (np.array([3.0, 2.0]),), 0, [6, 0]),
}  # fmt: skip


def assert_close(got, expected, rtol=1e-12):
    if isinstance(expected, tuple):
        for g, e in zip(got, expected, strict=True):
            assert_close(g, e, rtol)
    else:
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_reported_case(name):
    function, args, argnums, expected = CASES[name]
    assert_close(ng.njit.grad(function, argnums)(*args), expected)


@pytest.mark.parametrize("a", [2.0, 1e-6, 3e7])
def test_data_dependent_trip_count(a):
    """Newton's iteration: jax 4106, 16049, 18311 have no reverse mode for it."""
    assert_close(ng.njit.grad(square_root)(a), 0.5 / math.sqrt(a), rtol=1e-5)


def test_closures_with_other_numbers():
    """Numba 1810, 3184, 6251: each closure of a factory has its own captured value."""

    def make(c):
        def f(x):
            return c * x * x

        return f

    for c in (1.0, 2.0, 3.0):
        assert_close(ng.njit.grad(make(c))(5.0), 10 * c)


@njit
def tripled_in_place(u):
    u[0] = u[0] * 3.0
    return u[1]


@njit
def updated_by_a_call_that_writes(x):
    a = x.copy()
    a[0] += tripled_in_place(a)
    a[0] *= tripled_in_place(a)
    return a[0]


def test_an_element_is_read_before_the_value_that_updates_it():
    x = np.array([1.5, 2.0])
    value, gradient = ng.njit.value_and_grad(updated_by_a_call_that_writes)(x)
    assert value == updated_by_a_call_that_writes(x) == 7.0
    np.testing.assert_allclose(gradient, [2.0, 5.5], rtol=1e-14)


@njit
def reshaped_in_fortran_order(a):
    """Numba makes views of both reshaped arrays."""
    v = a.T.reshape(-1)
    v[0] = v[1] * v[2]
    v[2:] *= v[1]
    column = a[:, 1].reshape(1, 2)
    column[0, 1] *= a[0, 0]
    return (a**3).sum() + v[3] ** 2 + np.sum(a.ravel()[1:] * v[1:])


def test_views_of_arrays_in_fortran_order():
    """The shadow of an array has its order: what is a view of one is a view of the other."""
    x = np.asfortranarray([[0.9, -0.4, 1.1], [0.7, 1.3, -0.8]])
    gradient = ng.njit.grad(reshaped_in_fortran_order)(x)
    directions = np.random.default_rng(0).standard_normal((2, 2, 3))
    for t in (directions[0], np.asfortranarray(directions[1])):
        f = lambda h, t=t: reshaped_in_fortran_order(np.array(x + h * t, order="F"))
        quotient = (8 * (f(1e-3) - f(-1e-3)) - (f(2e-3) - f(-2e-3))) / 12e-3
        np.testing.assert_allclose(np.sum(gradient * t), quotient, rtol=1e-9)
        value, tangent = ng.njit.jvp(reshaped_in_fortran_order)((x,), t)
        assert value == f(0.0)
        np.testing.assert_allclose(tangent, quotient, rtol=1e-9)


def rows_of_two(x):
    return (x.reshape(2, -1)[1] ** 2).sum()


@pytest.mark.parametrize("tangent", [np.ones(8)[::2], np.ones(4, np.float32), np.ones(4, int)])
def test_tangents_of_another_layout_or_dtype(tangent):
    """What is a view of the argument is one of the tangent."""
    x = np.arange(4.0)
    assert ng.njit.jvp(rows_of_two)((x,), tangent) == (13.0, 10.0)
    np.testing.assert_array_equal(ng.njit.hvp(rows_of_two)((x,), tangent), [0.0, 0.0, 2.0, 2.0])


def test_writes_to_what_numba_may_or_may_not_copy():
    def writes(a):
        v = a[::-1].reshape(-1)
        v[0] = 2.0
        return a.sum() + v[1]

    with pytest.raises(ng.errors.UnsupportedError, match="does not lie in C order"):
        ng.njit.grad(writes)(np.ones((2, 3)))
