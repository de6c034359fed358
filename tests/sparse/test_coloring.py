"""Colourings: valid, few, and every entry recovered."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nbgrad.sparse.coloring import (
    color_columns,
    color_rows,
    color_symmetric,
    conflict,
    count,
)
from nbgrad.sparse.compress import choose, forward, mixed, reverse, symmetric


def pattern(a):
    matrix = sp.csr_array(np.asarray(a, bool))
    matrix.sort_indices()
    return matrix


def banded(n, *offsets):
    return pattern(sum(np.eye(n, k=k) for k in offsets) != 0)


def arrow(n, row=True, column=True):
    a = np.eye(n, dtype=bool)
    if row:
        a[0] = True
    if column:
        a[:, 0] = True
    return pattern(a)


def recovered(p, how):
    """A matrix with random entries, compressed and recovered."""
    dense = np.random.default_rng(0).normal(size=p.shape) * p.toarray()
    if how.mode == "symmetric":
        dense = dense + dense.T
    push = [dense[:, how.columns == c].sum(1) for c in range(how.forward)]
    pull = [dense[how.rows == c].sum(0) for c in range(how.reverse)]
    found = np.concatenate([np.zeros(0), *push, *pull])[how.source]
    return np.array_equal(sp.csr_array((found, p.indices, p.indptr), p.shape).toarray(), dense)


patterns = st.tuples(
    st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**16), st.floats(0.05, 0.9)
).map(lambda t: pattern(np.random.default_rng(t[2]).random(t[:2]) < t[3]))


@given(patterns)
@settings(max_examples=100, deadline=None)
def test_every_compression_recovers_every_entry(p):
    for how in (forward(p), reverse(p), mixed(p), choose(p, "auto")):
        assert recovered(p, how)
    assert conflict(p, color_columns(p)) is None
    assert conflict(p.T.tocsr(), color_rows(p)) is None


@given(patterns)
@settings(max_examples=100, deadline=None)
def test_star_colourings_recover_every_entry_of_symmetric_matrices(p):
    both = pattern((p @ p.T).toarray() | np.eye(p.shape[0], dtype=bool))
    assert recovered(both, symmetric(both))
    hollow = pattern(both.toarray() & ~np.eye(p.shape[0], dtype=bool))
    assert recovered(hollow, symmetric(hollow))


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_banded_matrices_need_as_many_colours_as_their_band(n):
    assert count(color_columns(banded(n, -1, 0, 1))) == min(n, 3)
    assert count(color_columns(banded(n, -2, -1, 0, 1, 2))) == min(n, 5)
    assert count(color_rows(banded(n, 0, 1))) == min(n, 2)


def test_an_arrow_needs_three_mixed_sweeps_and_two_symmetric_ones():
    p = arrow(300)
    assert count(color_columns(p)) == 300
    how = choose(p, "auto")
    assert (how.mode, how.forward, how.reverse) == ("mixed", 2, 1)
    assert symmetric(p).forward == 2
    assert recovered(p, how) and recovered(p, symmetric(p))


def test_auto_takes_the_mode_with_fewer_sweeps():
    tall = pattern(np.ones((50, 2)))
    assert choose(tall, "auto").mode == "forward"
    assert choose(pattern(tall.toarray().T), "auto").mode == "reverse"
    assert choose(banded(40, 0, 1), "auto").mode == "forward"
    assert choose(arrow(40, column=False), "auto").mode == "mixed"


def test_symmetric_band_needs_fewer_star_colours_than_column_colours():
    p = banded(100, -2, -1, 0, 1, 2)
    assert symmetric(p).forward <= 5
    grid = sp.kron(sp.eye(20), banded(20, -1, 0, 1)) + sp.kron(banded(20, -1, 0, 1), sp.eye(20))
    grid = pattern(grid.toarray())
    assert symmetric(grid).forward < forward(grid).forward


def test_nothing_to_colour():
    for shape in ((0, 0), (0, 3), (3, 0), (3, 4)):
        empty = pattern(np.zeros(shape))
        for mode in ("auto", "forward", "reverse", "mixed"):
            how = choose(empty, mode)
            assert how.forward == how.reverse == 0 and how.source.size == 0
    assert symmetric(pattern(np.zeros((3, 3)))).forward == 0
    assert count(color_symmetric(pattern(np.zeros((0, 0))))) == 0


def test_columns_without_entries_have_no_colour():
    assert color_columns(pattern([[1, 0, 1], [0, 0, 1]])).tolist() == [0, -1, 1]


def test_conflicts_name_the_row_and_the_columns():
    assert conflict(pattern([[1, 0, 0], [1, 0, 1]]), np.array([0, 0, 0])) == (1, 0, 2)
