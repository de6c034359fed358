"""Sorting along an axis: order indices with NaN last, ties in their given order."""

from __future__ import annotations

import numpy as np


def argsort(a: np.ndarray, axis: int, descending: bool = False) -> np.ndarray:
    """Stable order indices; NaN counts as the largest value in either direction."""
    if not a.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(a, axis=axis, kind="stable")
    order = np.argsort(np.flip(a, axis), axis=axis, kind="stable")
    return a.shape[axis] - 1 - np.flip(order, axis)


def smallest(a: np.ndarray, k: int, axis: int) -> np.ndarray:
    """Index of the k-th smallest element (from 0) along an axis; the axis is kept with size 1."""
    if not a.ndim:
        return np.zeros((), np.int64)
    found = np.argpartition(a, k, axis=axis)
    return np.take(found, [k], axis=axis)


def largest_order(a: np.ndarray, k: int, axis: int, largest: bool, ordered: bool) -> np.ndarray:
    """Indices of the k largest (or smallest) elements along an axis, best first if ``ordered``."""
    if not a.ndim:
        return np.zeros((), np.int64)
    n = a.shape[axis]
    if 0 < k < n // 8 and not largest:
        found = np.take(np.argpartition(a, k - 1, axis=axis), range(k), axis=axis)
    elif 0 < k < n // 8:
        found = np.take(np.argpartition(a, n - k, axis=axis), range(n - k, n), axis=axis)
    else:
        return np.take(argsort(a, axis, largest), range(k), axis=axis)
    if ordered:
        chosen = np.take_along_axis(a, found, axis)
        found = np.take_along_axis(found, argsort(chosen, axis, largest), axis)
    return found


def median_index(a: np.ndarray, axis: int, skip_nan: bool) -> np.ndarray:
    """Index of the lower median along an axis (kept with size 1).

    NaN: the first one is the median; with ``skip_nan`` NaNs do not count.
    """
    if not a.ndim:
        return np.zeros((), np.int64)
    n = a.shape[axis]
    nan = np.isnan(a) if a.dtype.kind == "f" else np.zeros(a.shape, bool)
    if skip_nan:
        order = argsort(a, axis)
        count = n - nan.sum(axis=axis, keepdims=True)
        return np.take_along_axis(order, np.maximum(count - 1, 0) // 2, axis)
    found = smallest(a, (n - 1) // 2, axis)
    first = np.argmax(nan, axis=axis, keepdims=True)
    return np.where(nan.any(axis=axis, keepdims=True), first, found)
