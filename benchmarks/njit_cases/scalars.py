"""The gradient for three scalars, called a million times from compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .base import Lazy, NjitCase, Thunk


@njit
def function(x: float, y: float, z: float) -> float:
    r = x * x + y * y + 1.0
    return math.exp(-0.5 * z * z) * math.sin(x * y) / r + z * math.sqrt(r)


@njit
def by_hand(x: float, y: float, z: float) -> tuple:
    r = x * x + y * y + 1.0
    e, s, c, q = math.exp(-0.5 * z * z), math.sin(x * y), math.cos(x * y), math.sqrt(r)
    b_r = -e * s / (r * r) + 0.5 * z / q
    b_p = e * c / r
    return 2.0 * x * b_r + y * b_p, 2.0 * y * b_r + x * b_p, q - z * e * s / r


def summed(gradient: Callable) -> Callable:
    """The sum of gradients at many points."""

    @njit
    def total(count: int) -> Any:
        a = b = c = 0.0
        for i in range(count):
            t = i / count
            x, y, z = gradient(1.0 + t, 2.0 - t, 0.5 * t)
            a += x
            b += y
            c += z
        return np.array([a, b, c])

    return total


@njit
def values(count: int) -> float:
    total = 0.0
    for i in range(count):
        t = i / count
        total += function(1.0 + t, 2.0 - t, 0.5 * t)
    return total


def ways(args: tuple) -> dict[str, Thunk]:
    def ours() -> Thunk:
        import nbgrad as ng

        total = summed(ng.njit.grad(function, (0, 1, 2)))
        return lambda: total(*args)

    written = summed(by_hand)
    made = {"primal": lambda: values(*args), "by hand": lambda: written(*args)}
    return {**made, "gradient": Lazy(ours)}


def check(args: tuple, got: list[np.ndarray]) -> float:
    """The error against differences at the same points."""
    (count,) = args
    t, h = np.arange(count) / count, 1e-5
    points = np.stack([1.0 + t, 2.0 - t, 0.5 * t])
    each = np.vectorize(function)
    slope = [
        each(*(points + d)).sum() - each(*(points - d)).sum() for d in h * np.eye(3)[..., None]
    ]
    return float(np.abs(np.array(slope) / (2 * h) - got[0]).max() / np.abs(got[0]).max())


CASES = [
    NjitCase(
        "three_scalars",
        "gradient for 3 scalars, 1e6 calls from compiled code",
        lambda small: (1000 if small else 1_000_000,),
        ways,
        goal=2.0,
        check=check,
        check_tolerance=1e-8,
    )
]
