"""Corners that were wrong once: each test is the smallest program that showed it."""

import math

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.errors import ArgumentError, DTypeError

func = ng.func


def test_float32_with_a_sum_that_has_no_batch_serves_other_batch_sizes():
    loss = lambda w, x: (ng.tanh(x @ w) ** 2).mean() + 1e-3 * (w * w).sum()
    step = ng.compile(func.grad(loss))
    w = np.ones((3, 2), "float32")
    for n in (17, 18, 5, 1):
        x = np.linspace(-1, 1, 3 * n, dtype="float32").reshape(n, 3)
        got, want = step(w, x), func.grad(loss)(ng.tensor(w), ng.tensor(x))
        assert got.dtype == want.dtype == np.float32
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5)


@pytest.mark.parametrize("shape", [(64, 64), (50, 64), (64, 50), (128, 128)])
def test_a_feature_axis_as_long_as_the_batch_is_not_taken_for_it(shape):
    f = lambda x: (ng.tanh(x) * 2).sum(1)
    c = ng.compile(f)
    for s in [(100, 64), (64, 64), shape]:
        x = np.sin(np.arange(float(math.prod(s)))).reshape(s)
        np.testing.assert_allclose(c(x).numpy(), f(ng.tensor(x)).numpy(), atol=1e-13)


def test_a_loop_that_needs_more_steps_raises_in_a_compiled_gradient_too():
    root = lambda a: ng.while_loop(
        lambda x: abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, ng.ones_like(a), max_steps=2
    )
    a = ng.tensor(1e6)
    for f in (
        func.grad(root),
        ng.compile(func.grad(root)),
        ng.trace(func.grad(root))(a).simplify(),
    ):
        with pytest.raises(ArgumentError, match="max_steps"):
            f(a)


class Model:
    k = 1.0

    def __init__(self):
        self._w = 2.0

    @property
    def w(self):
        return self._w

    def through_property(self, x):
        return x * self.w

    def through_class(self, x):
        return x * self.k * Model.k

    def by_name(self, x):
        return x * getattr(self, "_" + "w")


@pytest.mark.parametrize("name", ["through_property", "through_class", "by_name"])
def test_attributes_are_watched_however_they_are_reached(name, monkeypatch):
    m = Model()
    f = getattr(m, name)
    c = ng.compile(f)
    c(np.ones(1))
    m._w = 5.0
    monkeypatch.setattr(Model, "k", 7.0)
    assert c(np.ones(1)).item() == f(ng.ones(1)).item()


@pytest.mark.parametrize("f", [ng.softmax, ng.log_softmax, ng.logsumexp])
@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
def test_rows_that_hold_infinities(f, special):
    x = np.array([[1.0, special, 2.0], [special] * 3, [0.0, -1.0, 1.0]])
    got = ng.compile(lambda x: f(x, -1))(x).numpy()
    np.testing.assert_allclose(got, f(ng.tensor(x), -1).numpy(), rtol=1e-14)


def test_a_python_number_widens_no_array():
    x = np.ones(3, "float32")
    assert ng.compile(lambda x, s: x * s)(x, 0.5).dtype == np.float32
    assert ng.compile(lambda x, s: x * s)(x, 2j).dtype == np.complex64


def test_tensors_that_change_places_between_calls():
    p, q = ng.ones(3), 2 * ng.ones(3)
    f = ng.compile(lambda x: x * p + 10 * q)
    x = np.arange(3.0)
    for _ in range(3):
        np.testing.assert_array_equal(f(x).numpy(), x * p.numpy() + 10 * q.numpy())
        p, q = q, 7 * p


def test_results_and_arguments_of_other_kinds_are_named():
    with pytest.raises(DTypeError, match="dtype"):
        ng.compile(lambda x: x)(np.array([1, None], dtype=object))
    with pytest.raises(ArgumentError, match="a result is a generator"):
        ng.compile(lambda x: (x * i for i in range(3)))(np.ones(3))


def test_machine_code_is_freed_with_its_program():
    import gc
    import weakref

    f = ng.compile(lambda x: ng.sin(x) + 1)
    f(np.ones(3))
    code = weakref.ref(f.program(np.ones(3)).runner)
    del f
    gc.collect()
    assert code() is None
