"""Index sets: for every element of a variable, which inputs it depends on.

A family of sets is a boolean SciPy CSR matrix of shape (elements, inputs) with sorted indices; ``None`` stands for
the family of empty sets. Elements are numbered in C order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Sets = Any  # scipy.sparse.csr_array of bool, or None
Labels = np.ndarray  # integers: 0 names nothing, k names element k - 1


def identity(n: int, columns: int, start: int) -> Sets:
    """``n`` elements of which element i is input ``start + i`` of ``columns``."""
    indices = np.arange(start, start + n, dtype=np.int32)
    return from_parts(np.arange(n + 1, dtype=np.int32), indices, (n, columns))


def from_parts(indptr: np.ndarray, indices: np.ndarray, shape: tuple[int, int]) -> Sets:
    """A family from the row starts and the sorted members of its sets."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape)


def labels(shape: Sequence[int], start: int = 1) -> Labels:
    """The labels of all elements of an array of this shape."""
    return np.arange(start, start + math.prod(shape)).reshape(tuple(shape))


def take(sets: Sets, where: Labels) -> Sets:
    """The family whose element k has the set that ``where.flat[k]`` names."""
    if sets is None:
        return None
    where = where.reshape(-1)
    padded = np.concatenate([np.zeros(1, np.int64), np.diff(sets.indptr)])
    counts = padded[where]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    starts = sets.indptr[np.maximum(where, 1) - 1] if len(sets.indptr) > 1 else np.zeros_like(where)
    position = np.repeat(starts - indptr[:-1], counts) + np.arange(indptr[-1])
    indices = sets.indices[position].astype(np.int32, copy=False)
    return from_parts(indptr, indices, (where.size, sets.shape[1]))


def union(families: Sequence[Sets]) -> Sets:
    """Element by element the union of families of one length."""
    total = None
    for sets in families:
        if sets is not None:
            total = sets if total is None else total + sets
    return total


def stack(families: Sequence[Sets], lengths: Sequence[int]) -> Sets:
    """Families one after the other; ``lengths`` says how long the empty ones are."""
    from scipy.sparse import csr_array, vstack

    live = [f for f in families if f is not None]
    if not live:
        return None
    columns = live[0].shape[1]
    blocks = [
        csr_array((n, columns), dtype=bool) if f is None else f
        for f, n in zip(families, lengths, strict=True)
    ]
    return vstack(blocks, format="csr") if len(blocks) > 1 else blocks[0]


def send(sets: Sets, targets: Labels, size: int) -> Sets:
    """A family of ``size`` sets: element k of ``sets`` joins the set that ``targets.flat[k]`` names."""
    if sets is None:
        return None
    targets = targets.reshape(-1)
    live = np.flatnonzero(targets)
    return join(sets, targets[live] - 1, live, size)


def join(sets: Sets, rows: np.ndarray, members: np.ndarray, size: int) -> Sets:
    """A family of ``size`` sets: set ``rows[k]`` takes in element ``members[k]`` of ``sets``."""
    from scipy.sparse import csr_array

    if sets is None:
        return None
    shape = (size, sets.shape[0])
    chosen = csr_array((np.ones(len(rows), bool), (rows, members)), shape=shape)
    out = chosen @ sets
    out.sort_indices()
    return out


def merge_axes(sets: Sets, shape: Sequence[int], axes: Sequence[int]) -> Sets:
    """Unions along axes of an array, which keep size 1 (an axis of size 0 gives empty sets)."""
    if sets is None:
        return None
    kept = merged_shape(shape, axes)
    if tuple(shape) == kept:
        return sets
    if 0 in shape:
        return None
    return send(sets, np.broadcast_to(labels(kept), tuple(shape)), math.prod(kept))


def merged_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The shape after `merge_axes`."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def broadcast(sets: Sets, shape: Sequence[int], to: Sequence[int]) -> Sets:
    """The family of an array broadcast to another shape."""
    if sets is None or tuple(shape) == tuple(to):
        return sets
    return take(sets, np.broadcast_to(labels(shape), tuple(to)))


def everything(families: Sequence[Sets]) -> Sets:
    """One set: the union of all elements of all families."""
    live = [f for f in families if f is not None]
    if not live:
        return None
    members = np.unique(np.concatenate([f.indices for f in live])).astype(np.int32)
    return from_parts(np.array([0, len(members)]), members, (1, live[0].shape[1]))
