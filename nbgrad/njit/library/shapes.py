"""Joining, moving and repeating entries: every text is a gather or a view."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..rules import substitute
from .common import equal_sizes, folded, inserted, refused, resized


@njit
def common_zero(arrays):
    """Zero of the type that holds all entries."""
    zero = arrays[0].dtype.type(0)
    for a in arrays:
        zero = zero + a.dtype.type(0)
    return zero


@substitute(np.concatenate)
def concatenate(arrays, axis=0):
    n = 0
    for a in arrays:
        n += a.shape[axis]
    out = np.full(resized(arrays[0], axis, n), common_zero(arrays))
    lines = folded(out, axis)
    start = 0
    for a in arrays:
        v = folded(a, axis)
        equal_sizes(v.shape[0], lines.shape[0])
        equal_sizes(v.shape[2], lines.shape[2])
        lines[:, start : start + v.shape[1], :] = v
        start += v.shape[1]
    return out


@substitute(np.stack)
def stack(arrays, axis=0):
    out = np.full(inserted(arrays[0], axis, len(arrays)), common_zero(arrays))
    lines = folded(out, axis)
    for k, a in enumerate(arrays):
        equal_sizes(a.size, lines.shape[0] * lines.shape[2])
        lines[:, k, :] = a.ravel().reshape(lines.shape[0], lines.shape[2])
    return out


@substitute(np.hstack)
def hstack(tup):
    if tup[0].ndim == 1:
        return np.concatenate(tup, 0)
    else:
        return np.concatenate(tup, 1)


@substitute(np.vstack)
def vstack(tup):
    if tup[0].ndim == 1:
        return np.stack(tup, 0)
    else:
        return np.concatenate(tup, 0)


@substitute(np.column_stack)
def column_stack(tup):
    columns = 0
    for a in tup:
        columns += a.size // a.shape[0]
    rows = tup[0].shape[0]
    out = np.full((rows, columns), common_zero(tup))
    start = 0
    for a in tup:
        width = a.size // a.shape[0]
        equal_sizes(a.shape[0], rows)
        out[:, start : start + width] = a.ravel().reshape(rows, width)
        start += width
    return out


@substitute(np.dstack)
def dstack(tup):
    if tup[0].ndim == 1:
        return np.stack(tup, 1).reshape(1, tup[0].size, len(tup))
    elif tup[0].ndim == 2:
        return np.stack(tup, 2)
    else:
        return np.concatenate(tup, 2)


@substitute(np.append)
def append(arr, values, axis=None):
    if axis is not None:
        return np.concatenate((arr, values), axis)
    elif isinstance(values, (int, float, complex)):
        out = np.empty(arr.size + 1, dtype=arr.dtype)
        out[: arr.size] = arr.ravel()
        out[arr.size] = values
        return out
    else:
        return np.concatenate((arr.ravel(), values.ravel()), 0)


@substitute(np.delete)
def delete(arr, obj):
    v = arr.ravel()
    keep = np.ones(v.size, dtype=np.bool_)
    if isinstance(obj, int) and (obj >= v.size or obj < -v.size):
        raise IndexError("np.delete: the index is out of bounds")
    keep[obj] = False
    count = 0
    for i in range(v.size):
        if keep[i]:
            count += 1
    out = np.empty(count, dtype=arr.dtype)
    k = 0
    for i in range(v.size):
        if keep[i]:
            out[k] = v[i]
            k += 1
    return out


@njit
def size_of(values):
    if isinstance(values, (int, float, complex)):
        return 1
    else:
        return values.size


@substitute(np.insert)
def insert(arr, obj, values, axis=None):
    if axis is not None:
        refused(
            "the argument 'axis' of 'insert'", "Leave it out, as for Numba, or use concatenate."
        )
    v = arr.ravel()
    if isinstance(obj, int):
        if obj > v.size or obj < -v.size:
            raise IndexError("np.insert: the index is out of bounds")
        place = obj
        if place < 0:
            place += v.size
        extra = size_of(values)
        out = np.empty(v.size + extra, dtype=arr.dtype)
        out[:place] = v[:place]
        out[place : place + extra] = values
        out[place + extra :] = v[place:]
        return out
    else:
        out = np.empty(v.size + obj.size, dtype=arr.dtype)
        free = np.ones(out.size, dtype=np.bool_)
        places = insertion_places(obj, v.size)
        free[places] = False
        out[places] = values
        k = 0
        for i in range(out.size):
            if free[i]:
                out[i] = v[k]
                k += 1
        return out


@njit
def insertion_places(obj, n):
    """Where the inserted entries come to lie: each place moves on by those inserted before it."""
    places = np.empty(obj.size, dtype=np.int64)
    for i in range(obj.size):
        if obj[i] < -n or obj[i] > n:
            raise IndexError("np.insert: an index is out of bounds")
        before = 0
        place = obj[i] + n if obj[i] < 0 else obj[i]
        for j in range(obj.size):
            other = obj[j] + n if obj[j] < 0 else obj[j]
            if other < place or (other == place and j < i):
                before += 1
        places[i] = place + before
    return places


@substitute(np.roll)
def roll(a, shift):
    v = a.ravel()
    out = np.empty(v.size, dtype=a.dtype)
    if v.size > 0:
        start = shift % v.size
        out[start:] = v[: v.size - start]
        out[:start] = v[v.size - start :]
    return out.reshape(a.shape)


@substitute(np.flip)
def flip(m):
    if m.ndim == 1:
        return m[::-1]
    elif m.ndim == 2:
        return m[::-1, ::-1]
    elif m.ndim == 3:
        return m[::-1, ::-1, ::-1]
    else:
        return m[::-1, ::-1, ::-1, ::-1]


@substitute(np.flipud)
def flipud(m):
    return m[::-1]


@substitute(np.fliplr)
def fliplr(m):
    return m[:, ::-1]


@substitute(np.rot90)
def rot90(m, k=1):
    if k % 4 == 0:
        return m[:]
    elif k % 4 == 1:
        return np.swapaxes(m[:, ::-1], 0, 1)
    elif k % 4 == 2:
        return m[::-1, ::-1]
    else:
        return np.swapaxes(m, 0, 1)[:, ::-1]


@substitute(np.swapaxes)
def swapaxes(a, axis1, axis2):
    i = axis1 % a.ndim
    j = axis2 % a.ndim
    return np.moveaxis(
        np.moveaxis(a, min(i, j), max(i, j)), max(max(i, j) - 1, min(i, j)), min(i, j)
    )


@substitute(np.moveaxis)
def moveaxis(a, source, destination):
    i = source % a.ndim
    j = destination % a.ndim
    if i == j:
        return a
    elif a.ndim == 2:
        return a.T
    elif a.ndim == 3:
        if i + j == 1:
            return np.transpose(a, (1, 0, 2))
        elif i + j == 3:
            return np.transpose(a, (0, 2, 1))
        elif i == 0:
            return np.transpose(a, (1, 2, 0))
        else:
            return np.transpose(a, (2, 0, 1))
    else:
        return moved_of_four(a, i, j)


@njit
def moved_of_four(a, i, j):
    if i + j == 1:
        return np.transpose(a, (1, 0, 2, 3))
    elif i + j == 5:
        return np.transpose(a, (0, 1, 3, 2))
    elif (i == 1 and j == 2) or (i == 2 and j == 1):
        return np.transpose(a, (0, 2, 1, 3))
    elif i == 0 and j == 2:
        return np.transpose(a, (1, 2, 0, 3))
    elif i == 2 and j == 0:
        return np.transpose(a, (2, 0, 1, 3))
    elif i == 1:
        return np.transpose(a, (0, 2, 3, 1))
    elif j == 1:
        return np.transpose(a, (0, 3, 1, 2))
    elif i == 0:
        return np.transpose(a, (1, 2, 3, 0))
    else:
        return np.transpose(a, (3, 0, 1, 2))


@substitute(np.expand_dims)
def expand_dims(a, axis):
    k = axis % (a.ndim + 1)
    if k == 0:
        return a[np.newaxis]
    elif k == 1:
        return a[:, np.newaxis]
    elif k == 2:
        return a[:, :, np.newaxis]
    else:
        return a[:, :, :, np.newaxis]


@substitute(np.atleast_1d)
def atleast_1d(a):
    if a.ndim == 0:
        return a.reshape(1)
    else:
        return a


@substitute(np.atleast_2d)
def atleast_2d(a):
    if a.ndim == 1:
        return a[np.newaxis]
    else:
        return a


@substitute(np.atleast_3d)
def atleast_3d(a):
    if a.ndim == 1:
        return a[np.newaxis, :, np.newaxis]
    elif a.ndim == 2:
        return a[:, :, np.newaxis]
    else:
        return a


@substitute(np.broadcast_to)
def broadcast_to(array, shape):
    if isinstance(array, (int, float, complex)):
        return np.full(shape, array)
    else:
        out = np.empty(shape, dtype=array.dtype)
        out[...] = array
        return out


@substitute(np.repeat)
def repeat(a, repeats):
    v = a.ravel()
    if isinstance(repeats, int):
        out = np.empty(v.size * repeats, dtype=a.dtype)
        for i in range(v.size):
            out[i * repeats : (i + 1) * repeats] = v[i]
        return out
    else:
        equal_sizes(repeats.size, v.size)
        out = np.empty(np.sum(repeats), dtype=a.dtype)
        start = 0
        for i in range(v.size):
            out[start : start + repeats[i]] = v[i]
            start += repeats[i]
        return out


@substitute(np.resize)
def resize(a, new_shape):
    v = a.ravel()
    out = np.zeros(new_shape, dtype=a.dtype)
    flat = out.reshape(out.size)
    if v.size > 0:
        for i in range(flat.size):
            flat[i] = v[i % v.size]
    return out


@njit
def part(a, start, stop, axis):
    k = axis % a.ndim
    if k == 0:
        return a[start:stop]
    elif k == 1:
        return a[:, start:stop]
    elif k == 2:
        return a[:, :, start:stop]
    else:
        return a[:, :, :, start:stop]


@substitute(np.split, np.array_split)
def split(ary, indices_or_sections, axis=0):
    """A tuple of views; the number of parts is known when the code is transformed."""
    n = ary.shape[axis]
    parts = ()
    start = 0
    if isinstance(indices_or_sections, int):
        for k in range(indices_or_sections):
            stop = start + n // indices_or_sections
            if k < n % indices_or_sections:
                stop += 1
            parts = parts + (part(ary, start, stop, axis),)
            start = stop
    else:
        for stop in indices_or_sections:
            parts = parts + (part(ary, start, stop, axis),)
            start = stop
        parts = parts + (part(ary, start, n, axis),)
    return parts


@substitute(np.vsplit)
def vsplit(ary, indices_or_sections):
    return np.split(ary, indices_or_sections, 0)


@substitute(np.hsplit)
def hsplit(ary, indices_or_sections):
    if ary.ndim == 1:
        return np.split(ary, indices_or_sections, 0)
    else:
        return np.split(ary, indices_or_sections, 1)


@substitute(np.dsplit)
def dsplit(ary, indices_or_sections):
    return np.split(ary, indices_or_sections, 2)


@substitute(np.asfortranarray)
def asfortranarray(a):
    return a.T.copy().T


@substitute(np.ascontiguousarray)
def ascontiguousarray(a):
    if isinstance(a, (int, float, complex)):
        return np.array([a])
    else:
        return a.ravel().reshape(a.shape)
