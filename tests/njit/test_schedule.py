"""How reverse loops are scheduled: stencils gathered, rows of tapes on their own, zeros that need not win."""

import numpy as np
import oracle
import pytest
import python_mode
from comparing import assert_trees_close
from numba import njit

import nbgrad as ng
from nbgrad.njit import regions


@njit
def stencil(u, w, lo, hi):
    """Three points in a row, and two in the row above."""
    total = 0.0
    out = np.zeros(u.shape[1] + 3)
    for i in range(lo, hi):
        out[i] = w * u[1, i + 1] - 2.0 * u[1, i] + u[1, i + 2] * w + u[0, i] + 3.0 * u[0, i + 2]
    for i in range(out.shape[0]):
        total += out[i] * out[i]
    return total


@pytest.mark.parametrize("hi", range(6))
@pytest.mark.parametrize("lo", [0, 1, 2])
def test_a_gathered_stencil_adds_every_element_once(lo, hi):
    u = np.random.default_rng(hi).standard_normal((2, 8))
    args = (u, 0.7, lo, hi)
    want = oracle.value_and_gradient(stencil, args, (0, 1))
    got = python_mode.call(ng.njit.value_and_grad(stencil, (0, 1)), *args)
    assert_trees_close(got, want, 1e-12, "gradient")


def test_a_stencil_is_written_once_an_element():
    text = ng.njit.show_source(ng.njit.grad(stencil), np.zeros((2, 8)), 0.7, 0, 6)
    whole = [k for k in text.splitlines() if "d_u[" in k and "radd(" in k]
    assert len(whole) == 2, text  # one addition a row, besides those at the ends


@njit
def diffuse(u0, a, steps):
    u, new = u0.copy(), u0.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            new[i] = u[i] + a * u[i] * (u[i + 1] - 2.0 * u[i] + u[i - 1])
        u, new = new, u
    total = 0.0
    for i in range(u.shape[0]):
        total += u[i] ** 3
    return total


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("cells", [1, 2, 3, 4, 9])
def test_rows_of_a_stretchs_tape_are_written_on_their_own(steps, cells):
    args = (np.linspace(0.2, 1.0, cells), 0.1, steps)
    want = oracle.value_and_gradient(diffuse, args, (0, 1))
    got = python_mode.call(ng.njit.value_and_grad(diffuse, (0, 1)), *args)
    assert_trees_close(got, want, 1e-12, "gradient")


def test_a_tape_is_not_written_together_with_the_state():
    text = ng.njit.show_source(ng.njit.grad(diffuse), np.zeros(9), 0.1, 7)
    loops = ["".join(b) for b in innermost(text)]
    assert any("put(t_" in b for b in loops), text
    assert not any("put(t_" in b and "put(new" in b for b in loops), text


def innermost(text):
    """The bodies of the innermost loops, as lines."""
    lines = text.splitlines()
    depth = [len(k) - len(k.lstrip()) for k in lines]
    found = []
    for n, line in enumerate(lines):
        if line.lstrip().startswith("for "):
            end = next((k for k in range(n + 1, len(lines)) if depth[k] <= depth[n]), len(lines))
            if not any(k.lstrip().startswith("for ") for k in lines[n + 1 : end]):
                found.append(lines[n + 1 : end])
    return found


@njit
def masked(x, y):
    total = 0.0
    for i in range(x.shape[0]):
        total += np.where(x[i] > 0, y[i] / x[i] + np.log(x[i]) + np.sqrt(x[i]), 0.0)
        if x[i] > 0:
            total += y[i] / x[i]
    return total


@njit
def never_added(x, n):
    """The quotient is there, but no iteration adds it."""
    total, q = 0.0, 1.0 / x
    for _ in range(n):
        total += q
    return total


@njit
def overwritten(x, n):
    """Only the last quotient counts."""
    last = 0.0
    for i in range(n):
        last = 1.0 / (x - i)
    return last


@njit
def last_branch(x, n):
    """A branch that is not taken any more forgets the sum."""
    total = 0.0
    for i in range(n):
        if i == 1:
            total = x
        else:
            total += 1.0 / (x + i)
    return total


GRAD = ng.njit.grad


@pytest.mark.parametrize("order", [1, 2, 3])
def test_zero_wins_where_a_pole_is_masked(order):
    x, y = np.array([1.0, 0.0, 2.0]), np.array([3.0, 1.0, 0.5])

    def nth(i):
        @njit
        def along(t):
            z = x.copy()
            z[i] += t
            return masked(z, y)

        g = along
        for _ in range(order):
            g = GRAD(g)
        return g

    assert python_mode.call(nth(1), 0.0) == 0.0
    assert np.isfinite(python_mode.call(nth(0), 0.0))
    assert python_mode.call(nth(2), 0.0) != 0.0


@pytest.mark.parametrize(
    ("f", "args", "want"),
    [(never_added, (0.0, 0), 0.0), (overwritten, (0.0, 2), -1.0), (last_branch, (0.0, 2), 1.0)],
)
def test_zero_wins_where_a_pole_does_not_reach_the_result(f, args, want):
    assert GRAD(f)(*args) == want


def test_zero_need_not_win_where_the_pole_is_in_the_result():
    @njit
    def total(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += 2.0 / x[i] + np.log(x[i])
        return s

    text = ng.njit.show_source(GRAD(total), np.ones(3))
    assert "zmul" not in text and "zdiv" not in text, text
    text = ng.njit.show_source(GRAD(masked), np.ones(3), np.ones(3))
    assert "zmul" in text and "zdiv" in text, text


@njit
def before_each(x, n):
    """An index that is 0 where nothing was stored, minus one: the last element."""
    t_at = np.zeros(n, np.int64)
    for i in range(n // 2):
        t_at[i] = i + 1
    total = 0.0
    for i in range(n):
        total += (i + 1.0) * x[t_at[i] - 1] ** 2
    return total


def test_an_array_of_the_users_is_no_tape_whatever_its_name():
    x = np.linspace(1.0, 2.0, 12)
    want = oracle.value_and_gradient(before_each, (x, 20), (0,))
    got = python_mode.call(ng.njit.value_and_grad(before_each, (0,)), x, 20)
    assert_trees_close(got, want, 1e-12, "gradient")


@njit
def old_name(a, b):
    """A swapped array is used after its loop under the name it had before."""
    p = a
    for _ in range(5):
        for i in range(a.size):
            b[i] = np.sin(a[i] * b[i])
        a, b = b, a
    return (p * p).sum()


@njit
def sweep_in_place(a):
    for t in range(5):
        for i in range(1, a.size):
            a[i] = np.sin(a[i] * a[i - 1] + t)
    return (a * a).sum()


def test_arrays_of_a_cut_loop_have_one_shadow_under_all_names():
    args = (np.linspace(0.3, 1.0, 5), np.linspace(1.0, 0.2, 5))
    want = oracle.value_and_gradient(old_name, args, (0, 1))
    got = python_mode.call(ng.njit.value_and_grad(old_name, (0, 1)), *args)
    assert_trees_close(got, want, 1e-12, "gradient")


def test_reversed_time_loops_are_cut_from_their_end(monkeypatch):
    monkeypatch.setattr(regions, "STRETCH_BYTES", 1)
    a, v = np.linspace(0.3, 1.0, 5), np.linspace(-1.0, 1.0, 5)
    gradient = ng.njit.grad(sweep_in_place)

    @njit
    def slope(a, v):
        return (gradient(a) * v).sum()

    want = oracle.hvp(sweep_in_place, (a,), (v,), (0,))
    got = python_mode.call(ng.njit.grad(slope), a, v)
    assert_trees_close((got,), want, 1e-10, "second derivative")
