"""Taylor mode leaves nothing for the garbage collector."""

import gc

import pytest

import nbgrad as ng


def one_jet(f):
    x, one, zero = ng.linspace(0.1, 0.9, 100), ng.ones(100), ng.zeros(100)
    value, derivatives = ng.func.jet(f, (x,), ((one, zero, zero),))
    return [value, *derivatives]


@pytest.mark.parametrize(
    "f", [ng.tanh, lambda x: ng.sin(x) * ng.exp(x), lambda x: x**3 / ng.cosh(x)]
)
def test_a_jet_is_freed_by_reference_counting(f):
    one_jet(f)  # compiles what it needs
    gc.collect()
    gc.disable()
    try:
        kept = one_jet(f)
        assert gc.collect() == 0
        assert all(t.isfinite().all() for t in kept)
    finally:
        gc.enable()


def test_a_failing_jet_is_freed_too():
    def fails(x):
        ng.tanh(x)
        raise ZeroDivisionError

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError):
            one_jet(fails)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_the_graph_of_a_jet_outlives_the_transform():
    w = ng.tensor(0.5, requires_grad=True)
    x, one, zero = ng.tensor([0.3]), ng.ones(1), ng.zeros(1)
    _, (_, second) = ng.func.jet(lambda x: ng.sin(w * x), (x,), ((one, zero),))
    gc.collect()
    (g,) = ng.autograd.grad(second.sum(), w)
    want = -2 * 0.5 * ng.sin(ng.tensor(0.15)) - 0.5**2 * 0.3 * ng.cos(ng.tensor(0.15))
    assert abs(g.item() - want.item()) < 1e-14
