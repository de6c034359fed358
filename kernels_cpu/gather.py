"""Gather and scatter kernels: along one axis, and at tuples of index arrays.

They are NumPy loops over flattened indices, so nothing has to be compiled. Sums of narrow floats accumulate in a wider
type. An index out of range raises ``OutOfRangeError`` with the numbers a caller needs for its own message.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_WIDE = {
    np.dtype("float16"): np.dtype("float64"),
    np.dtype("float32"): np.dtype("float64"),
    np.dtype("complex64"): np.dtype("complex128"),
}


class OutOfRangeError(IndexError):
    """An index outside its axis: ``value``, ``size`` and ``axis`` tell which."""

    def __init__(self, value: int, size: int, axis: int):
        super().__init__(f"index {value} is out of range for axis {axis} of size {size}")
        self.value, self.size, self.axis = value, size, axis


def wrapped(index: np.ndarray, n: int, axis: int) -> np.ndarray:
    """Negative indices counted from the end; raises for what is out of range."""
    if not index.size:
        return index
    low, high = index.min(), index.max()
    if low < -n or high >= n:
        raise OutOfRangeError(int(low if low < -n else high), n, axis)
    return np.where(index < 0, index + n, index) if low < 0 else index


def _key(ndim: int, axes: Sequence[int], idx: Sequence[np.ndarray]) -> tuple:
    key: list = [slice(None)] * ndim
    for a, i in zip(axes, idx, strict=True):
        key[a] = i
    return tuple(key)


def take(x: np.ndarray, idx: Sequence[np.ndarray], axes: Sequence[int]) -> np.ndarray:
    """``x`` at broadcast index arrays along ``axes`` (a fresh C-ordered array)."""
    idx = [wrapped(i, x.shape[a], a) for i, a in zip(idx, axes, strict=True)]
    if len(idx) == 1 and x.size:
        return np.asarray(np.take(x, idx[0], axis=axes[0]))
    out = x[_key(x.ndim, axes, idx)]
    if all(i.ndim == 0 for i in idx):
        return np.array(out)  # NumPy gives a view for 0-d indices
    return np.asarray(out, order="C")


def add_at(
    out: np.ndarray, idx: Sequence[np.ndarray], axes: Sequence[int], g: np.ndarray
) -> np.ndarray:
    """``out`` (C-ordered, fresh) with ``g`` added at the indices; repeated indices accumulate."""
    rows, order, at = _rows(out.shape, idx, axes)
    if not rows.size or not out.size:
        return out
    full = (*[out.shape[d] for d in order[len(axes) :]],)
    ranks = rows.ndim
    g = np.broadcast_to(g, (*full[:at], *rows.shape, *full[at:]))
    g = np.moveaxis(g, range(at, at + ranks), range(ranks)).reshape(rows.size, -1)
    moved = np.transpose(out, order)
    flat = moved.reshape(-1, g.shape[1]) if g.shape[1] else moved.reshape(0, 0)
    result = _add_rows(flat, rows.reshape(-1), g)
    moved[...] = result.reshape(moved.shape)
    return out


def _rows(shape: tuple, idx: Sequence[np.ndarray], axes: Sequence[int]) -> tuple:
    """Flat row numbers, the axis order that puts indexed axes first, the place of the index dimensions."""
    idx = [wrapped(i, shape[a], a) for i, a in zip(idx, axes, strict=True)]
    arrays = np.broadcast_arrays(*idx)
    rows = np.zeros(arrays[0].shape, np.int64)
    for i, a in zip(arrays, axes, strict=True):
        rows = rows * shape[a] + i
    rest = [d for d in range(len(shape)) if d not in axes]
    near = axes[-1] - axes[0] == len(axes) - 1
    return rows, (*axes, *rest), axes[0] if near else 0


def _add_rows(out: np.ndarray, rows: np.ndarray, g: np.ndarray) -> np.ndarray:
    """``out[rows[k]] += g[k]`` for a two-dimensional ``out``."""
    n, width = out.shape
    kind = out.dtype.kind
    with np.errstate(all="ignore"):
        if width == 1 and kind in "fc":
            parts = (g.real, g.imag) if kind == "c" else (g,)
            sums = [np.bincount(rows, p[:, 0].astype(np.float64), minlength=n) for p in parts]
            total = sums[0] + 1j * sums[1] if kind == "c" else sums[0]
            if kind == "c":
                total = np.empty(n, np.complex128)
                total.real, total.imag = sums
            return (out + total[:, None]).astype(out.dtype)
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        sums = np.add.reduceat(g[order], starts, axis=0, dtype=_WIDE.get(out.dtype, out.dtype))
        out = np.array(out)
        out[ordered[starts]] += sums.astype(out.dtype)
    return out


def put_at(
    out: np.ndarray, idx: Sequence[np.ndarray], axes: Sequence[int], v: np.ndarray
) -> np.ndarray:
    """``out`` (fresh) with ``v`` written at the indices; of repeated indices the last one wins."""
    idx = _in_order([wrapped(i, out.shape[a], a) for i, a in zip(idx, axes, strict=True)])
    out[_key(out.ndim, axes, idx)] = np.asarray(v, order="C")
    return out


def _in_order(idx: Sequence[np.ndarray]) -> list[np.ndarray]:
    """C-ordered index arrays: NumPy writes in memory order, and "the last one" must not depend on strides."""
    if len(idx) > 1:
        idx = np.broadcast_arrays(*idx)
    return [np.asarray(i, order="C") for i in idx]


def survivors(shape: tuple, idx: Sequence[np.ndarray], axes: Sequence[int]) -> np.ndarray:
    """Which of the values written by `put_at` survive (the last one at each place)."""
    idx = _in_order([wrapped(i, shape[a], a) for i, a in zip(idx, axes, strict=True)])
    key = _key(len(shape), axes, idx)
    target = np.full(shape, -1, np.int64)
    probe = target[key]
    order = np.arange(probe.size).reshape(probe.shape)
    target[key] = order
    return np.asarray(target[key] == order)


# -- along one axis ---------------------------------------------------------------------------------


def mesh(index: np.ndarray, dim: int, n: int) -> tuple[np.ndarray, ...]:
    """The open index grid in which ``index`` addresses ``dim`` and every other axis itself."""
    grid = list(np.ogrid[tuple(slice(0, m) for m in index.shape)])
    grid[dim] = wrapped(index, n, dim)
    return tuple(grid)


def gather(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    """``out[i, j, ..] = x[i, index[i, j, ..], ..]`` (``dim`` 1)."""
    return np.asarray(x[mesh(index, dim, x.shape[dim])])


def scatter_add(x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> np.ndarray:
    """A copy of x with ``src`` added at ``index`` along ``dim``."""
    grid = mesh(index, dim, x.shape[dim])
    out = np.array(x, order="C")
    if index.size and out.size:
        flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*grid)), x.shape)
        out = _add_rows(out.reshape(-1, 1), flat.reshape(-1), src.reshape(-1, 1)).reshape(x.shape)
    return out


def scatter(x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> np.ndarray:
    """A copy of x with ``src`` written at ``index`` along ``dim`` (the last one wins)."""
    grid = mesh(index, dim, x.shape[dim])
    return put_at(np.array(x, order="C"), grid, range(x.ndim), src)


def scatter_extreme(
    x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, largest: bool, include: bool
) -> np.ndarray:
    """Largest (smallest) of the values sent to each place; NaN wins; untouched places keep x."""
    grid = mesh(index, dim, x.shape[dim])
    out = np.array(x, order="C")
    if not include:
        out[grid] = src  # any member of the group is a neutral start
    with np.errstate(all="ignore"):
        (np.maximum if largest else np.minimum).at(out, grid, src)
    return out


def scatter_survivors(index: np.ndarray, dim: int, shape: tuple) -> np.ndarray:
    """Which of the values written by `scatter` survive."""
    return survivors(
        shape, np.broadcast_arrays(*mesh(index, dim, shape[dim])), tuple(range(len(shape)))
    )
