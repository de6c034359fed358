"""k-means by Lloyd's iterations, which stop when no label changes."""

import numpy as np
from numba import njit


@njit
def nearest(point, centres):
    """The index of the nearest centre and its squared distance."""
    best = np.inf
    label = -1
    for k in range(centres.shape[0]):
        d = 0.0
        for c in range(point.shape[0]):
            d += (point[c] - centres[k, c]) ** 2
            if d >= best:
                break
        else:
            best = d
            label = k
    return label, best


@njit
def assign(points, centres, labels):
    """Fill in the labels; returns how many changed and the sum of squared distances."""
    changed = 0
    inertia = 0.0
    for i in range(len(points)):
        k, d = nearest(points[i], centres)
        inertia += d
        if labels[i] != k:
            labels[i] = k
            changed += 1
    return changed, inertia


@njit
def kmeans(points, start, max_iter=50):
    """Centres and inertia; an empty cluster keeps its centre."""
    n, dim = points.shape
    centres = start.copy()
    labels = np.full(n, -1, dtype=np.int64)
    inertia = 0.0
    for it in range(max_iter):
        changed, inertia = assign(points, centres, labels)
        if changed == 0 and it > 0:
            break
        sums = np.zeros((centres.shape[0], dim))
        counts = np.zeros(centres.shape[0], dtype=np.int64)
        for i in range(n):
            sums[labels[i]] += points[i]
            counts[labels[i]] += 1
        for k in range(centres.shape[0]):
            if counts[k] > 0:
                centres[k] = sums[k] / counts[k]
    return centres, inertia


@njit
def separation(points, start):
    """Inertia over the smallest squared distance of two centres: small is well clustered."""
    centres, inertia = kmeans(points, start)
    closest = np.inf
    for a in range(len(centres)):
        for b in range(a):
            closest = min(closest, np.sum((centres[a] - centres[b]) ** 2))
    return inertia / closest
