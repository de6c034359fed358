"""The cost model, and what `explain` says."""

import numpy as np
import pytest
from known_fields import METHODS, mlp, network, points, scalar

import nbgrad as ng
from nbgrad import pde
from nbgrad.pde.collapsed import Shape
from nbgrad.pde.cost import jet_cost, nested_cost
from nbgrad.pde.explanation import count


def test_it_names_the_method_and_prints_a_table():
    e = pde.explain(pde.laplacian(scalar), points(), network())
    assert e.operator == "laplacian" and e.chosen in METHODS
    assert e.chosen == min(e.rows, key=lambda r: r.estimate).method
    text = str(e)
    for word in (*METHODS, "estimate", "instructions", "flops", "least estimated cost"):
        assert word in text


def test_the_choice_depends_on_dimensions_and_components():
    x, p = points(), network()
    assert pde.explain(pde.gradient(scalar), x, p).chosen == "forward_over_reverse"
    assert pde.explain(pde.laplacian(scalar), x, p).chosen == "collapsed"
    many = network(m=12)
    assert pde.explain(pde.gradient(mlp), x, many).chosen == "collapsed"


def test_a_given_method_is_said_to_be_given():
    e = pde.explain(pde.laplacian(scalar, method="nested"), points(), network())
    assert e.chosen == "nested" and "as asked for" in str(e)


def test_sampling_leaves_only_jets():
    e = pde.explain(pde.laplacian(scalar, samples=2), points(), network())
    assert [r.method for r in e.rows] == ["collapsed", "taylor"]


def test_a_plain_function_is_counted():
    e = pde.explain(scalar, points(), network())
    assert len(e.rows) == 1 and e.rows[0].estimate is None and "as it is" in str(e)


def test_collapsing_saves_operations_and_the_estimate_follows_the_count():
    x, p = points(7, 6), network(d=6, width=20)
    e = pde.explain(pde.laplacian(scalar), x, p)
    flops = {r.method: r.count.flops for r in e.rows}
    assert flops["collapsed"] < 0.7 * flops["taylor"]
    for r in e.rows:
        assert 0.4 < r.estimate * e.field.flops / r.count.flops < 2.5, r


def test_operations_are_counted():
    tape = ng.trace(lambda a, b: (a @ b).sum(0).reshape(2, 2) + 1)(np.ones((3, 5)), np.ones((5, 4)))
    assert count(tape).flops == 2 * 12 * 5 + 12 + 4


@pytest.mark.parametrize(
    "counts, groups, units",
    [((), None, 0), ((3, 3), None, 6), ((3, 3), ((),), 4), ((2, 1, 1), None, 4)],
)
def test_jets_cost_what_they_carry(counts, groups, units):
    assert jet_cost(Shape(counts, groups)) == pytest.approx(1 + 1.3 * units)


def test_nested_passes():
    assert nested_cost([()], 1, False) == 1
    assert nested_cost([(0,), (1,)], 1, False) == 2
    assert nested_cost([(0, 0), (1, 1)], 1, False) == 1 + 1 + 2 * 2
    assert nested_cost([(0, 0), (1, 1)], 3, False) == 1 + 3 + 3 * 2 * 2
    assert nested_cost([(0, 0), (1, 1)], 1, True) == 2 * 3


def test_explaining_draws_nothing():
    op = pde.laplacian(scalar, samples=2, distribution="gaussian")
    ng.manual_seed(0)
    want = op(points(), network()).numpy()
    ng.manual_seed(0)
    pde.explain(op, points(), network())
    assert np.array_equal(op(points(), network()).numpy(), want)
