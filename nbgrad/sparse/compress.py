"""Which sweeps compute a sparse matrix, and where each entry stands in their results.

Forward sweeps push sums of unit vectors of one colour and give one value a row; reverse sweeps pull sums of rows and give
one value a column. Results of all sweeps, flattened and joined, are indexed once by a precomputed map: that is the whole
decompression.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, message
from .coloring import color_columns, color_rows, color_symmetric, conflict, count

# a reverse sweep costs about this many forward sweeps
REVERSE_COST = 1.5


class Compression(NamedTuple):
    """Colours of the columns (forward) and of the rows (reverse; -1: computed forward), and the map.

    ``source[e]`` is the place of entry e (in CSR order) in the forward results of shape (colours, rows), followed by the
    reverse results of shape (colours, columns).
    """

    mode: str
    columns: np.ndarray
    rows: np.ndarray
    source: np.ndarray
    reason: str

    @property
    def forward(self) -> int:
        """Number of forward sweeps."""
        return count(self.columns)

    @property
    def reverse(self) -> int:
        """Number of reverse sweeps."""
        return count(self.rows)

    @property
    def cost(self) -> float:
        """All sweeps, in forward sweeps."""
        return self.forward + REVERSE_COST * self.reverse


def row_numbers(pattern: Any) -> np.ndarray:
    """The row of every entry."""
    return np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))


def _nobody(n: int) -> np.ndarray:
    return np.full(n, -1, np.int64)


def forward(pattern: Any, columns: np.ndarray | None = None, reason: str = "asked for") -> Any:
    """All entries from forward sweeps."""
    columns = color_columns(pattern) if columns is None else columns
    m = pattern.shape[0]
    source = columns[pattern.indices] * m + row_numbers(pattern)
    return Compression("forward", columns, _nobody(m), source, reason)


def reverse(pattern: Any, rows: np.ndarray | None = None, reason: str = "asked for") -> Any:
    """All entries from reverse sweeps."""
    rows = color_rows(pattern) if rows is None else rows
    n = pattern.shape[1]
    source = rows[row_numbers(pattern)] * n + pattern.indices
    return Compression("reverse", _nobody(n), rows, source, reason)


def mixed(pattern: Any, reason: str = "asked for") -> Compression:
    """The few longest rows by reverse sweeps, the others by forward sweeps.

    A dense row costs as many forward sweeps as it is long, but one reverse sweep. The number k of rows taken
    out minimises the bound ``longest remaining row + cost of k reverse sweeps``. (Coleman and Verma 1998 divide rows and
    columns more generally; dense columns need no care here, since a column is one forward sweep.)
    """
    from scipy.sparse import csr_array

    m, n = pattern.shape
    lengths = np.diff(pattern.indptr)
    order = np.argsort(-lengths, kind="stable")
    remaining = np.append(lengths[order], 0)
    taken = order[: int(np.argmin(remaining + REVERSE_COST * np.arange(m + 1)))]
    out = np.zeros(m, bool)
    out[taken] = True
    number = row_numbers(pattern)
    late = out[number]
    shape = (pattern.data[~late], (number[~late], pattern.indices[~late]))
    columns = color_columns(csr_array(shape, shape=(m, n)))
    rows = _nobody(m)
    rows[np.flatnonzero(out)] = color_rows(pattern[np.flatnonzero(out)])
    after = count(columns) * m
    source = np.where(
        late,
        after + rows[number] * n + pattern.indices,
        columns[pattern.indices] * m + number,
    )
    return Compression("mixed", columns, rows, source, reason)


def symmetric(pattern: Any) -> Compression:
    """A symmetric pattern (with its values symmetric) from forward sweeps over a star colouring.

    Entry (i, j) stands in the sweep of j's colour, unless another neighbour of i has that colour; then it
    stands in the sweep of i's colour, at j. Both triangles read the same place.
    """
    n = pattern.shape[0]
    colors = color_symmetric(pattern)
    rows, cols = row_numbers(pattern), pattern.indices.astype(np.int64)
    low, high = np.minimum(rows, cols), np.maximum(rows, cols)
    key = rows * (count(colors) or 1) + colors[cols]
    seen = np.bincount(key, minlength=1)
    alone = seen[low * (count(colors) or 1) + colors[high]] == 1
    source = np.where(alone, colors[high] * n + low, colors[low] * n + high)
    reason = "symmetric: a star colouring lets one entry serve both triangles"
    return Compression("symmetric", colors, _nobody(n), source, reason)


def choose(pattern: Any, mode: str, forward_only: str = "") -> Compression:
    """The cheapest sweeps of a mode; "auto" compares forward, reverse and mixed.

    ``forward_only`` is the reason why reverse sweeps are out of the question, if they are.
    """
    if mode != "auto":
        return {"forward": forward, "reverse": reverse, "mixed": mixed}[mode](pattern)
    if forward_only:
        return forward(pattern, None, forward_only)
    row = int(np.diff(pattern.indptr).max(initial=0))
    column = int(np.bincount(pattern.indices, minlength=1).max())
    best = mixed(pattern)
    if not (best.forward and best.reverse):
        best = best._replace(mode="reverse" if best.reverse else "forward")
    # the longest row (column) is a lower bound: what it rules out is not coloured
    if column * REVERSE_COST < best.cost:
        best = min(best, reverse(pattern), key=lambda c: c.cost)
    if best.mode != "forward" and row <= best.cost:
        best = min(forward(pattern), best, key=lambda c: c.cost)
    reason = (
        f"cheapest: {best.cost:g} forward sweeps' worth (a reverse sweep counts {REVERSE_COST:g}); the longest row "
        f"needs at least {row} forward, the longest column at least {column} reverse sweeps"
    )
    return best._replace(reason=reason)


def given(pattern: Any, colors: Any, mode: str, op: str) -> Compression:
    """Sweeps over the user's own colours: of the rows in mode "reverse", of the columns otherwise.

    Raises
    ------
    ArgumentError : not one colour a column (row), or a colour used twice in a row (column).
    """
    by_rows = mode == "reverse"
    n, what = (pattern.shape[0], "row") if by_rows else (pattern.shape[1], "column")
    colors = np.asarray(colors)
    if colors.shape != (n,) or colors.dtype.kind not in "iu" or (colors < 0).any():
        raise ArgumentError(
            message(
                op,
                "argument 'coloring'",
                f"{colors.dtype.name} of shape {colors.shape}",
                f"{n} non-negative integers, one a {what}",
            )
        )
    colors = colors.astype(np.int64)
    clash = conflict(pattern.T.tocsr() if by_rows else pattern, colors)
    if clash is not None:
        line, a, b = clash
        across = "column" if by_rows else "row"
        raise ArgumentError(
            message(
                op,
                "argument 'coloring'",
                f"{colors[a]} for {what}s {a} and {b}, which meet in {across} {line}",
                "different colours for them",
            )
        )
    return (reverse if by_rows else forward)(pattern, colors, "your colouring")
