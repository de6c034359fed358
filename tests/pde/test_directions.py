"""Mixed partials from directional derivatives: exact in fractions."""

import itertools
from fractions import Fraction
from math import factorial, prod

import pytest

from nbgrad.pde.directions import (
    exponents,
    interpolated,
    lattice,
    plan,
    polarised,
    primitive,
)

CASES = [(1, 3), (2, 1), (2, 2), (2, 3), (2, 6), (3, 2), (3, 3), (3, 4), (4, 3), (5, 2)]


def power_sum(terms, k, d):
    """``sum_r c_r (v_r . grad)^k`` multiplied out into partials: the inverse of `plan`, exactly."""
    total = {}
    for c, v in terms:
        for alpha in lattice(d, k):
            value = c * Fraction(factorial(k), prod(factorial(a) for a in alpha))
            value *= prod(x**a for x, a in zip(v, alpha, strict=True))
            index = tuple(i for i, a in enumerate(alpha) for _ in range(a))
            total[index] = total.get(index, Fraction(0)) + value
    return {index: c for index, c in total.items() if c}


def all_indices(d, k):
    return list(itertools.combinations_with_replacement(range(d), k))


@pytest.mark.parametrize("rule", [polarised, interpolated])
@pytest.mark.parametrize("d, k", CASES)
def test_both_families_give_every_partial_exactly(rule, d, k):
    for index in all_indices(d, k):
        terms = [(c, w) for w, c in rule(exponents(index, d)).items()]
        assert power_sum(terms, k, d) == {index: 1}


@pytest.mark.parametrize("d, k", CASES)
def test_a_plan_of_all_partials_is_exact_and_small(d, k):
    p = plan(tuple(all_indices(d, k)), d)
    assert len(p.vectors) <= len(lattice(d, k))
    for index, combination in p.combination.items():
        terms = [(c, p.vectors[r]) for r, c in combination.items()]
        assert power_sum(terms, k, d) == {index: 1}


def test_one_mixed_partial_needs_few_directions():
    assert len(plan(((0, 1),), 2).vectors) == 2
    assert len(plan(((0, 1, 1),), 2).vectors) == 3
    assert len(plan(((0, 1, 2),), 3).vectors) == 4
    assert len(plan(((0, 0, 1, 1),), 7).vectors) == 4  # the other coordinates do not matter


def test_the_hessian_takes_the_lattice():
    p = plan(tuple(all_indices(3, 2)), 3)
    assert len(p.vectors) == 6


def test_directions_of_highest_order_stand_first():
    p = plan(((0,), (1,), (1, 1), (2, 2, 2)), 3)
    assert p.orders == (3, 2, 1)
    assert p.vectors == ((0, 0, 1), (0, 1, 0), (1, 0, 0))
    assert p.combination[1, 1] == {1: Fraction(1)}


def test_directions_are_made_primitive():
    assert primitive((-2, 4)) == ((1, -2), -2)
    assert primitive((0, 3)) == ((0, 1), 3)
