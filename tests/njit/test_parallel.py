"""Derivatives of prange programs equal those of the same programs with range, for any number of threads."""

import numba
import numpy as np
import pytest
from numba import njit, prange, set_num_threads, typeof
from parallel_programs import (
    cases,
    counted,
    elementwise,
    every_other,
    multiplied,
    neighbours,
    parameters,
    plane,
    rng,
    roots,
    row_expressions,
    rows,
    scattered,
    sparse,
    stencil,
    summed,
    window,
)

import nbgrad as ng
from nbgrad.njit.door import program


def notes(g, *args):
    """What was decided about the loops of a derivative."""
    made, _ = program(g._nbgrad_transformation, [typeof(a) for a in args])
    return made.notes


CASES = cases()


@pytest.fixture(autouse=True)
def threads():
    before = numba.get_num_threads()
    yield
    set_num_threads(before)


def same(got, want, rtol=1e-11):
    for g, w in zip(got, want, strict=True):
        scale = float(np.max(np.abs(w), initial=1e-300))
        np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_gradient_equals_that_with_range(f):
    args, argnums = CASES[f]
    value, want = ng.njit.value_and_grad(njit(f.py_func), argnums)(*args)
    g = ng.njit.value_and_grad(f, argnums)
    for count in (1, 2):
        set_num_threads(count)
        got_value, got = g(*args)
        np.testing.assert_allclose(got_value, value, rtol=1e-11)
        same(got, want)


DETERMINED = [elementwise, summed, stencil, window, scattered, parameters, plane, neighbours, roots]


@pytest.mark.parametrize("f", DETERMINED, ids=lambda f: f.__name__)
def test_results_do_not_depend_on_the_number_of_threads(f):
    args, argnums = CASES[f]
    g = ng.njit.value_and_grad(f, argnums)
    set_num_threads(1)
    _, one = g(*args)
    set_num_threads(2)
    for a, b in zip(one, g(*args)[1], strict=True):
        assert np.array_equal(a, b)


SECOND = [summed, stencil, scattered, neighbours, rows]


@pytest.mark.parametrize("f", SECOND, ids=lambda f: f.__name__)
def test_second_derivatives(f):
    args, _ = CASES[f]
    v = rng().standard_normal(args[0].shape)
    want = ng.njit.hvp(njit(f.py_func))(args, v)
    got = ng.njit.hvp(f)(args, v)
    same([got], [want], 1e-10)


def test_reverse_over_reverse():
    @njit
    def squared(x, w):
        g = gradient(x, w)
        return (g * g).sum()

    x, w = CASES[stencil][0]
    gradient = ng.njit.grad(njit(stencil.py_func))
    want = ng.njit.grad(squared)(x, w)
    gradient = ng.njit.grad(stencil)

    @njit
    def squared_again(x, w):
        g = gradient(x, w)
        return (g * g).sum()

    same([ng.njit.grad(squared_again)(x, w)], [want], 1e-10)


def test_called_from_compiled_code():
    g = ng.njit.grad(stencil, (0, 1))

    @njit
    def descend(x, w):
        for _ in range(3):
            dx, dw = g(x, w)
            x = x - 1e-4 * dx
            w = w - 1e-6 * dw
        return x, w

    x, w = CASES[stencil][0]
    serial = ng.njit.grad(njit(stencil.py_func), (0, 1))
    wx, ww = x, w
    for _ in range(3):
        dx, dw = serial(wx, ww)
        wx, ww = wx - 1e-4 * dx, ww - 1e-6 * dw
    same(descend(x, w), (wx, ww), 1e-10)


def test_a_gradient_in_a_parallel_loop():
    g = ng.njit.grad(njit(roots.py_func))

    @njit(parallel=True)
    def many(a, w):
        out = np.empty_like(a)
        for i in prange(a.shape[0]):
            out[i] = g(a[i], w)
        return out

    a = rng().standard_normal((20, 5))
    want = np.stack([g(r, 2.0) for r in a])
    np.testing.assert_allclose(many(a, 2.0), want, rtol=1e-13)


def test_gradients_taken_in_a_parallel_loop_that_is_differentiated():
    def energies(a, w):
        s = 0.0
        for i in prange(a.shape[0]):
            g = inner(a[i], w)
            s += (g * g).sum()
        return s

    inner = ng.njit.grad(njit(roots.py_func))
    a = rng().standard_normal((30, 4))
    f = njit(parallel=True)(energies)
    args, v = (a, 2.0), rng().standard_normal(a.shape)
    same([ng.njit.grad(f)(*args)], [ng.njit.grad(njit(energies))(*args)])
    same(ng.njit.jvp(f)(args, v), ng.njit.jvp(njit(energies))(args, v))
    assert "serially" not in " ".join(notes(ng.njit.jvp(f), args, v))


def test_prange_without_parallel_is_a_plain_range():
    @njit
    def prefix(x):
        y = x.copy()
        for i in prange(1, x.shape[0]):
            y[i] = y[i - 1] * 0.5 + x[i]
        return (y * y).sum()

    @njit
    def plain(x):
        y = x.copy()
        for i in range(1, x.shape[0]):
            y[i] = y[i - 1] * 0.5 + x[i]
        return (y * y).sum()

    x = rng().standard_normal(50)
    assert notes(ng.njit.grad(prefix), x) == []
    same([ng.njit.grad(prefix)(x)], [ng.njit.grad(plain)(x)])


# -- what is decided ---------------------------------------------------------------------------------------------


def decisions(f, argnums=0):
    args, _ = CASES[f]
    return " ".join(notes(ng.njit.grad(f, argnums), *args))


def test_owned_elements_need_nothing():
    assert decisions(elementwise).count("each iteration has its elements to itself") >= 1
    assert "serially" not in decisions(every_other)
    assert "copy" not in decisions(every_other)


def test_neighbours_are_kept_apart_in_two_rounds():
    assert "iterations within 4 of a part's first run afterwards" in decisions(stencil)
    assert "iterations within 16 of a part's first run afterwards" in decisions(window)
    assert "iterations within 2 of a part's first run afterwards" in decisions(plane)


def test_scattered_additions_go_to_copies():
    assert "each part has its own copy of 'd_x'" in decisions(scattered)
    assert "each part has its own copy of 'd_v'" in decisions(rows, 1)
    assert "atomic additions where copies cost more" in decisions(sparse)


def test_sums_are_kept_part_by_part():
    assert "1 numbers are summed up part by part" in decisions(elementwise, 1)
    assert "3 numbers are summed up part by part" in decisions(parameters, 1)


def test_checks_and_conditions_do_not_stand_in_the_way():
    assert "serially" not in decisions(row_expressions)
    assert "serially" not in decisions(counted)


def test_sizes_that_do_not_fit_raise():
    with pytest.raises(ValueError, match="broadcast"):
        ng.njit.grad(row_expressions)(np.ones((3, 4)), np.ones(5))


def test_stacks_are_divided_among_iterations():
    assert "serially" not in decisions(roots)
    assert "serially" not in decisions(neighbours)


def test_reasons_to_run_serially():
    assert "'p' of one iteration is used in the next" in decisions(multiplied)

    @njit(parallel=True)
    def checked(x):
        s = 0.0
        for i in prange(x.shape[0]):
            if x[i] < 0:
                raise ValueError("negative")
            s += np.sqrt(x[i])
        return s

    assert "because an iteration may raise an error" in " ".join(
        notes(ng.njit.grad(checked), np.ones(4))
    )

    @njit(parallel=True)
    def search(x):
        s = 0.0
        for i in prange(x.shape[0]):
            s = s * x[i] + 1.0
        return s

    text = " ".join(notes(ng.njit.grad(search), np.ones(4)))
    assert "runs serially, because 's' of one iteration is used in the next" in text


@njit(parallel=True)
def around(x):
    """The index -1 is the last element."""
    s = 0.0
    for i in prange(x.shape[0]):
        s += x[i - 1] * x[i - 1] * x[i - 1]
    return s


@njit(parallel=True)
def around_wide(x):
    s = 0.0
    for i in prange(x.shape[0]):
        s += x[i - 1] * x[i] * x[i - 2]
    return s


@njit(parallel=True)
def twice_around(x, first):
    """From a negative start: elements are reached twice."""
    s = 0.0
    for i in prange(first, x.shape[0]):
        s += x[i] * x[i] * x[i]
    return s


@pytest.mark.parametrize("n", [3, 2000])
def test_indices_that_count_from_the_end(n):
    x = rng().standard_normal(n)
    for f, args in (
        (around, (x,)),
        (around_wide, (x,)),
        (twice_around, (x, -n)),
        (twice_around, (x, 1)),
    ):
        g, want = ng.njit.grad(f), ng.njit.grad(njit(f.py_func))(*args)
        for _ in range(5):
            same([g(*args)], [want])


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_short_loops(n):
    x = rng().standard_normal(n)
    for f in (elementwise, summed, parameters):
        args = (x, CASES[f][0][1])
        same([ng.njit.grad(f)(*args)], [ng.njit.grad(njit(f.py_func))(*args)])


def test_complex_copies_and_atomics():
    @njit(parallel=True)
    def f(z, where):
        s = 0.0
        for i in prange(where.shape[0]):
            c = z[where[i]]
            s += np.abs(np.exp(c * c)) + c.real * c.imag
        return s

    r = rng()
    for size, count in ((50, 4000), (100_000, 40)):
        z = 0.3 * (r.standard_normal(size) + 1j * r.standard_normal(size))
        where = r.integers(0, size, count)
        same([ng.njit.grad(f)(z, where)], [ng.njit.grad(njit(f.py_func))(z, where)])
