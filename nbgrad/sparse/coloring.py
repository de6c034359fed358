"""Graph colouring for compressed Jacobians and Hessians.

Columns that never meet in a row can be computed by one product with the sum of their unit vectors (Curtis, Powell and
Reid 1974); grouping them is a distance-2 colouring of the bipartite graph of the matrix (Coleman and Moré 1983). For a
symmetric matrix a star colouring suffices, every entry still being read off directly (Coleman and Moré 1984). The greedy
algorithms and orderings are those of Gebremedhin, Manne and Pothen, "What color is your Jacobian? Graph coloring
for computing derivatives", SIAM Review 47 (2005), 629-705.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from . import loops

# the intersection graph is built (for the smallest-last order) up to this many edges
_GRAPH_LIMIT = 1 << 24


def count(colors: np.ndarray) -> int:
    """How many colours 0, 1, ... there are (-1 is none)."""
    return int(colors.max(initial=-1)) + 1


def color_columns(pattern: Any) -> np.ndarray:
    """Colours of the columns of a CSR pattern such that columns with an entry in one row differ.

    Greedy in the natural, the largest-first and the smallest-last order; the best of the three. The longest row is a
    lower bound, so the search ends when it is reached. A column without entries gets -1, no colour.
    """
    bound = int(np.diff(pattern.indptr).max(initial=0))
    columns = pattern.tocsc()
    colors = _best(
        lambda order: loops.partial_coloring(columns, pattern, order),
        _column_orders(pattern),
        max(bound, 1),
    )
    return np.where(np.diff(columns.indptr) > 0, colors, -1)


def color_rows(pattern: Any) -> np.ndarray:
    """Colours of the rows such that rows with an entry in one column differ."""
    return color_columns(pattern.T.tocsr())


def color_symmetric(pattern: Any) -> np.ndarray:
    """Star colours of the vertices of a symmetric CSR pattern: an entry (i, j) can be read off directly.

    Neighbours differ, and every path of four vertices has at least three colours. A vertex without entries gets -1.
    """
    edges = _without_diagonal(pattern)
    colors = _best(
        lambda order: loops.star_coloring(edges, order),
        _vertex_orders(edges),
        2 if edges.nnz else 1,
    )
    return np.where(np.diff(pattern.indptr) > 0, colors, -1)


def _best(color: Callable, orders: Iterable[np.ndarray], bound: int) -> np.ndarray:
    best: Any = None
    for order in orders:
        found = color(order)
        if best is None or count(found) < count(best):
            best = found
        if count(best) <= bound:
            break
    return best


def _column_orders(pattern: Any) -> Iterator[np.ndarray]:
    n = pattern.shape[1]
    yield np.arange(n)
    lengths = np.diff(pattern.indptr).astype(np.int64)
    degrees = np.bincount(pattern.indices, np.repeat(lengths, lengths), n)
    yield np.argsort(-degrees, kind="stable")
    if int(lengths @ lengths) <= _GRAPH_LIMIT:
        yield loops.smallest_last(_without_diagonal(pattern.T.tocsr() @ pattern))


def _vertex_orders(edges: Any) -> Iterator[np.ndarray]:
    yield np.arange(edges.shape[0])
    yield np.argsort(-np.diff(edges.indptr), kind="stable")
    yield loops.smallest_last(edges)


def _without_diagonal(graph: Any) -> Any:
    from scipy.sparse import csr_array

    graph = graph.tocoo()
    off = graph.row != graph.col
    shape = (graph.data[off], (graph.row[off], graph.col[off]))
    return csr_array(shape, shape=graph.shape)


def conflict(pattern: Any, colors: np.ndarray) -> tuple[int, int, int] | None:
    """A row and two of its columns that have one colour, if there are such."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    key = rows * (count(colors) or 1) + colors[pattern.indices]
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[order][1:] == key[order][:-1])
    if not twice.size:
        return None
    a, b = order[twice[0]], order[twice[0] + 1]
    return int(rows[a]), int(pattern.indices[a]), int(pattern.indices[b])
