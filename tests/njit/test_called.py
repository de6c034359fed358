"""Derivatives as Python objects: how they are called, copied and sent to other processes."""

import copy
import enum
import multiprocessing
import pickle

import numpy as np
import pytest
from numba import njit

import nbgrad as ng


@ng.njit.custom_vjp
@njit
def squared(x):
    return x * x


@njit
def squared_forward(x):
    return x * x, x


@njit
def squared_backward(x, cotangent):
    return (100.0 * x * cotangent,)


squared.defvjp(squared_forward, squared_backward)


@ng.njit.checkpoint
@njit
def sine(x):
    return np.sin(x)


@njit
def everything(x, y=2.0):
    return squared(x[0]) * y + ng.njit.stop_gradient(x[1]) * x[1] + sine(x[2])


X = np.array([1.0, 2.0, 3.0])
SLOPE = np.array([200.0, 2.0, np.cos(3.0)])
gradient = ng.njit.grad(everything, (0, 1))


def at_the_point(derivative):
    return derivative(X)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_copies(copied):
    again = copied(gradient)
    np.testing.assert_array_equal(again(X)[0], SLOPE)
    assert again(X)[1] == 1.0


def test_copies_of_functions_keep_their_rules():
    again = pickle.loads(pickle.dumps(everything))
    np.testing.assert_array_equal(ng.njit.grad(again)(X), SLOPE)


@pytest.mark.parametrize("maker", [ng.njit.hvp, lambda f: ng.njit.jet(f, 2), ng.njit.jacrev])
def test_every_kind_is_made_again(maker):
    made = maker(njit(lambda x: x * x * x))
    again = pickle.loads(pickle.dumps(made))
    assert again._nbgrad_identity[0] == made._nbgrad_identity[0]
    assert again._nbgrad_identity[2] == made._nbgrad_identity[2]


def test_other_processes():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        ((dx, dy),) = pool.map(at_the_point, [gradient])
    np.testing.assert_array_equal(dx, SLOPE)
    assert dy == 1.0


def total(x, *weights):
    s = 0.0
    for w in weights:
        s = s * x + w
    return s * len(weights)


def test_any_number_of_arguments():
    """2 (w0 x + w1), and 3 (w0 x^2 + w1 x + w2)."""
    first = ng.njit.grad(total)
    both = ng.njit.grad(total, (0, -1))

    @njit
    def compiled(x, *weights):
        return first(x, *weights) + both(x, weights[0], 2.0)[0]

    assert first(1.5, 2.0, 0.5) == 4.0
    assert both(1.5, 2.0, 0.5, 7.0) == (3 * (4.0 * 1.5 + 0.5), 3.0)
    assert compiled(1.5, 2.0, 0.5, 7.0) == 3 * (4.0 * 1.5 + 0.5) + 4.0
    assert ng.njit.vjp(total, (0, 2))((1.5, 2.0, 3.0), 1.0)[1] == (4.0, 2.0)
    assert "def grad_total(x" in ng.njit.show_source(first, 1.5, 2.0, 0.5)


def test_defaults_that_choose_kinds():
    def scaled(x, weights=None, whole=True):
        if weights is None:
            weights = np.ones(x.size)
        y = (x * weights).sum() if whole else x * weights
        return np.sum(y) * 2.0

    derivative = ng.njit.grad(scaled)
    np.testing.assert_array_equal(derivative(X), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(derivative(X, weights=X), 2.0 * X)


def test_positions_from_numpy():
    assert ng.njit.grad(total, np.int64(1))(1.5, 2.0, 3.0) == 3.0


@pytest.mark.parametrize("extra", [None, "text", (None, 3)])
def test_auxiliary_results_that_are_no_numbers(extra):
    f = njit(lambda x: ((x * x).sum(), extra))
    g, aux = ng.njit.grad(f, has_aux=True)(X)
    np.testing.assert_array_equal(g, 2 * X)
    assert aux == extra


class Scheme(enum.IntEnum):
    EXPLICIT = 1
    IMPLICIT = 2


class Kind(enum.Enum):
    LINEAR = "linear"
    SQUARE = "square"


KIND = Kind.SQUARE


def test_enumerations():
    def stepped(x):
        y = x * Scheme.IMPLICIT if Scheme.EXPLICIT == 1 else x
        return y * x if KIND is Kind.SQUARE else y

    assert ng.njit.grad(stepped)(3.0) == 12.0


def test_a_range_in_plain_python():
    assert list(ng.njit.checkpoint(range(5), every=2)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("way", ["vjp", "jvp"])
def test_nothing_returned_and_nothing_written(way):
    def nothing(x):
        x * 2.0

    with pytest.raises(ng.errors.DTypeError, match="None, and it writes to no argument"):
        getattr(ng.njit, way)(nothing)((X,), X)
