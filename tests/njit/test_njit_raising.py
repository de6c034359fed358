"""Errors: where ours end, those that the differentiated function raises, and what it prints."""

import traceback

import numpy as np
import pytest
from numba import njit

import nbgrad as ng

X = np.array([0.5, 1.5, 2.5])

# --- where errors end, and those of the function itself -----------------------------------------------------------


def catches(x):
    try:
        y = x * x
    except Exception:
        y = x
    return y


def test_errors_from_python_are_short():
    try:
        ng.njit.grad(catches)(2.5)
    except ng.errors.UnsupportedError as e:
        text = "".join(traceback.format_exception(e))
    assert text.count("\n") < 15 and "During handling" not in text


class OutOfRangeError(Exception):
    pass


@njit
def raises_errors(x):
    if x < 0.0:
        raise OutOfRangeError("below {zero}")
    if x > 9.0:
        raise np.linalg.LinAlgError
    assert x < 5.0, f"too large: {x}"
    return x * x


@pytest.mark.parametrize(
    "x, error, text",
    [
        (-1.0, OutOfRangeError, "below {zero}"),
        (10.0, np.linalg.LinAlgError, ""),
        (6.0, AssertionError, "too large: {x}"),
    ],
)
def test_errors_of_the_function(x, error, text):
    with pytest.raises(error) as caught:
        ng.njit.value_and_grad(raises_errors)(x)
    assert str(caught.value) == text


def periodic(x, n):
    s = 0.0
    for i in range(n):
        s += x[(i + 7 // n) % x.size] * x[i % n]
    return s


def test_whole_numbers_divided_by_zero():
    gradient = ng.njit.grad(periodic)
    np.testing.assert_array_equal(gradient(X, 0), [0.0, 0.0, 0.0])
    np.testing.assert_allclose(gradient(X, 3), [X[1] + X[2], X[0] + X[2], X[0] + X[1]])
    with pytest.raises(ZeroDivisionError):
        ng.njit.grad(lambda x, n: x * (7 // n))(2.0, 0)
    with pytest.raises(ZeroDivisionError):
        gradient(np.empty(0), 3)


def prints(x):
    print("x is {x}", x, (x, (2, "two")), None, True)
    return x * x


def test_printed_tuples(capfd):
    assert ng.njit.grad(prints)(2.0) == 4.0
    assert capfd.readouterr().out == "x is {x} 2.0 (2.0, (2, 'two')) None True\n"
