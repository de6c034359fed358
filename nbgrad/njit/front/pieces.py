"""Parts of the language that are written in the language: the front end inlines them."""

from __future__ import annotations

import numpy as np


def nonzero(mask):
    """Positions of the true elements of a 1-D array."""
    n = 0
    for k in range(mask.shape[0]):
        if mask[k]:
            n += 1
    out = np.empty(n, np.int64)
    at = 0
    for k in range(mask.shape[0]):
        if mask[k]:
            out[at] = k
            at += 1
    return out


def arange_float(start, stop, step):
    """Numbers from ``start`` below ``stop``."""
    n = max(int(np.ceil((stop - start) / step)), 0)
    out = np.empty(n, np.float64)
    for k in range(n):
        out[k] = start + k * step
    return out


def arange_int(start, stop, step):
    """Integers from ``start`` below ``stop``."""
    n = len(range(start, stop, step))
    out = np.empty(n, np.int64)
    for k in range(n):
        out[k] = start + k * step
    return out


def flat_copy(a):
    """The elements of an array in row-major order, copied."""
    out = np.empty(a.size, a.dtype)
    at = 0
    if a.ndim == 1:
        for i in range(a.shape[0]):
            out[i] = a[i]
    elif a.ndim == 2:
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                out[i * a.shape[1] + j] = a[i, j]
    elif a.ndim == 3:
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                for k in range(a.shape[2]):
                    out[at] = a[i, j, k]
                    at += 1
    else:
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                for k in range(a.shape[2]):
                    for m in range(a.shape[3]):
                        out[at] = a[i, j, k, m]
                        at += 1
    return out
