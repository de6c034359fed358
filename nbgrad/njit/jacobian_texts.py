"""Jacobians, written in the differentiable language: ``push`` and ``pull`` are derivative products of one function."""

from __future__ import annotations

import numpy as np


def rows(pull, value, x):
    """The Jacobian of an array with respect to an array, a pullback an element of ``value``."""
    n = value.size
    out = np.empty((n, x.size), x.dtype)
    cotangent = np.zeros(value.shape, value.dtype)
    flat = cotangent.reshape(n)
    for i in range(n):
        flat[i] = 1.0
        g = pull(cotangent)
        out[i, :] = g.reshape(x.size)
        flat[i] = 0.0
    return out.reshape(value.shape + x.shape)


def rows_of_number(pull, value):
    """The Jacobian of an array with respect to a number."""
    n = value.size
    out = np.empty(n, value.dtype)
    cotangent = np.zeros(value.shape, value.dtype)
    flat = cotangent.reshape(n)
    for i in range(n):
        flat[i] = 1.0
        out[i] = pull(cotangent)
        flat[i] = 0.0
    return out.reshape(value.shape)


def columns(push, value, x):
    """The Jacobian of an array with respect to an array, a pushforward an element of ``x``."""
    n = x.size
    out = np.empty((value.size, n), value.dtype)
    tangent = np.zeros(x.shape, x.dtype)
    flat = tangent.reshape(n)
    for j in range(n):
        flat[j] = 1.0
        t = push(tangent)
        out[:, j] = t.reshape(value.size)
        flat[j] = 0.0
    return out.reshape(value.shape + x.shape)


def columns_of_number(push, value, x):
    """The Jacobian of a number with respect to an array, by pushforwards."""
    n = x.size
    out = np.empty(n, x.dtype)
    tangent = np.zeros(x.shape, x.dtype)
    flat = tangent.reshape(n)
    for j in range(n):
        flat[j] = 1.0
        out[j] = push(tangent)
        flat[j] = 0.0
    return out.reshape(x.shape)
