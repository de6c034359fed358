"""Sorting, order statistics and selection: the order is found by integers, the values are gathered along it."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..rules import substitute
from .common import folded, resized, without


@njit
def gathered(v, order):
    out = np.empty(order.size, dtype=v.dtype)
    for i in range(order.size):
        out[i] = v[order[i]]
    return out


@njit
def sorted_lines(a):
    """A sorted copy of ``a`` along its last axis."""
    v = a.ravel().reshape(a.size // a.shape[-1], a.shape[-1])
    out = np.empty(v.shape, dtype=a.dtype)
    for o in range(v.shape[0]):
        order = np.argsort(v[o])
        for i in range(v.shape[1]):
            out[o, i] = v[o, order[i]]
    return out


@substitute(np.sort)
def sort(a):
    if a.ndim == 1:
        return gathered(a, np.argsort(a))
    else:
        return sorted_lines(a).reshape(a.shape)


@substitute("sort")
def sort_in_place(a):
    if a.ndim == 1:
        a[:] = gathered(a, np.argsort(a))
    else:
        a[:] = sorted_lines(a).reshape(a.shape)


@substitute(np.partition)
def partition(a, kth):
    v = a.ravel().reshape(a.size // a.shape[-1], a.shape[-1])
    out = np.empty(v.shape, dtype=a.dtype)
    for o in range(v.shape[0]):
        order = np.argpartition(v[o], kth)
        for i in range(v.shape[1]):
            out[o, i] = v[o, order[i]]
    return out.reshape(a.shape)


@substitute(np.median)
def median(a):
    v = a.ravel()
    n = v.size
    result = np.nan
    if n > 0:
        order = np.argsort(v)
        if np.isnan(v[order[n - 1]]):
            result = v[order[n - 1]] * 1.0
        elif n % 2 == 1:
            result = v[order[n // 2]] * 1.0
        else:
            result = (v[order[n // 2 - 1]] + v[order[n // 2]]) / 2
    return result


@njit
def interpolated(v, order, q):
    """The quantile ``q`` between two neighbours of the sorted entries; its derivative goes to both."""
    if q < 0.0 or q > 1.0:
        raise ValueError("Quantiles must be in the range [0, 1]")
    result = np.nan
    n = order.size
    if n > 0:
        rank = q * (n - 1)
        low = math.floor(rank)
        weight = rank - low
        result = v[order[low]] * 1.0
        if low < n - 1:
            result = v[order[low]] * (1.0 - weight) + v[order[low + 1]] * weight
    return result


@njit
def line_of(v, order, q, scale):
    out = np.empty(q.size, dtype=np.float64)
    for i in range(q.size):
        out[i] = interpolated(v, order, q[i] / scale)
    return out


@njit
def quantiles(a, q, scale):
    v = a.ravel()
    order = np.argsort(v)
    if v.size > 0 and np.isnan(v[order[v.size - 1]]):
        order = order[:0]
    if isinstance(q, (int, float)):
        return interpolated(v, order, q / scale)
    elif isinstance(q, tuple):
        return line_of(v, order, np.array(q), scale)
    else:
        return line_of(v, order, q.ravel(), scale)


@substitute(np.quantile)
def quantile(a, q):
    return quantiles(a, q, 1.0)


@substitute(np.percentile)
def percentile(a, q):
    return quantiles(a, q, 100.0)


@substitute(np.unique)
def unique(ar):
    """The first entry of each run of equal ones in sorted order."""
    v = ar.ravel()
    order = np.argsort(v)
    count = 0
    for i in range(v.size):
        if i == 0 or v[order[i]] != v[order[i - 1]]:
            count += 1
    out = np.empty(count, dtype=ar.dtype)
    k = 0
    for i in range(v.size):
        if i == 0 or v[order[i]] != v[order[i - 1]]:
            out[k] = v[order[i]]
            k += 1
    return out


@substitute(np.union1d)
def union1d(ar1, ar2):
    return np.unique(np.concatenate((ar1.ravel(), ar2.ravel()), 0))


@substitute(np.extract)
def extract(condition, arr):
    c = condition.ravel()
    v = arr.ravel()
    if v.size == 0:
        raise ValueError("Cannot extract from an empty array")
    n = min(c.size, v.size)
    for i in range(n, c.size):
        if c[i]:
            raise ValueError("condition shape inconsistent with arr shape")
    count = 0
    for i in range(n):
        if c[i]:
            count += 1
    out = np.empty(count, dtype=arr.dtype)
    k = 0
    for i in range(n):
        if c[i]:
            out[k] = v[i]
            k += 1
    return out


@substitute(np.select)
def select(condlist, choicelist, default=0):
    first = choicelist[0]
    out = np.empty(first.shape, dtype=first.dtype)
    out[:] = default
    free = np.ones(first.shape, dtype=np.bool_)
    for condition, choice in zip(condlist, choicelist):
        out = np.where(free & condition, choice, out)
        free = free & ~condition
    return out


@substitute(np.take, "take")
def take(a, indices, axis=None):
    if isinstance(indices, int):
        if axis is None or a.ndim == 1:
            return a.ravel()[checked(indices, a.size)]
        else:
            return plane(a, checked(indices, a.shape[axis]), axis)
    elif isinstance(indices, tuple):
        return taken(a, np.array(indices), axis)
    else:
        return taken(a, indices, axis)


@njit
def taken(a, indices, axis):
    if axis is None:
        v = a.ravel()
        flat = indices.ravel()
        out = np.empty(flat.size, dtype=a.dtype)
        for i in range(flat.size):
            out[i] = v[checked(flat[i], v.size)]
        return out.reshape(indices.shape)
    else:
        v = folded(a, axis)
        out = np.empty((v.shape[0], indices.size, v.shape[2]), dtype=a.dtype)
        for o in range(v.shape[0]):
            for k in range(indices.size):
                source = checked(indices[k], v.shape[1])
                for i in range(v.shape[2]):
                    out[o, k, i] = v[o, source, i]
        return out.reshape(resized(a, axis, indices.size))


@njit
def checked(index, n):
    """The index counted from the front."""
    if index >= n or index < -n:
        raise IndexError("index out of bounds")
    return index % n


@njit
def plane(a, index, axis):
    """A copy of the entries at ``index`` along ``axis``."""
    v = folded(a, axis)
    out = np.empty((v.shape[0], v.shape[2]), dtype=a.dtype)
    for o in range(v.shape[0]):
        for i in range(v.shape[2]):
            out[o, i] = v[o, index, i]
    return out.reshape(without(a, axis))


@substitute(np.take_along_axis)
def take_along_axis(arr, indices, axis):
    if axis is None:
        return np.take(arr, indices)
    else:
        v = folded(arr, axis)
        w = folded(indices, axis)
        if v.shape[0] != w.shape[0] or v.shape[2] != w.shape[2]:
            raise ValueError("`arr` and `indices` dimensions don't match")
        out = np.empty(w.shape, dtype=arr.dtype)
        for o in range(w.shape[0]):
            for k in range(w.shape[1]):
                for i in range(w.shape[2]):
                    out[o, k, i] = v[o, checked(w[o, k, i], v.shape[1]), i]
        return out.reshape(indices.shape)
