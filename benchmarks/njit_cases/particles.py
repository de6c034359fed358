"""The Lennard-Jones energy of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .base import NjitCase, Thunk, gradient_case
from .classics import jax_ways


@njit
def lennard_jones(x: Any, epsilon: float, sigma: float) -> float:
    n = x.shape[0]
    energy = 0.0
    for i in range(n):
        for j in range(i):
            r2 = 0.0
            for k in range(3):
                d = x[i, k] - x[j, k]
                r2 += d * d
            s6 = (sigma * sigma / r2) ** 3
            energy += 4.0 * epsilon * (s6 * s6 - s6)
    return energy


@njit
def lennard_jones_by_hand(x: Any, epsilon: float, sigma: float) -> tuple:
    n = x.shape[0]
    g = np.zeros((n, 3))
    energy, g_sigma = 0.0, 0.0
    for i in range(n):
        fx = fy = fz = 0.0
        for j in range(i):
            dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            inverse = 1.0 / (dx * dx + dy * dy + dz * dz)
            s2 = sigma * sigma * inverse
            s6 = s2 * s2 * s2
            energy += s6 * s6 - s6
            slope = 2.0 * s6 * s6 - s6
            g_sigma += slope
            f = -slope * inverse
            fx += f * dx
            fy += f * dy
            fz += f * dz
            g[j, 0] -= f * dx
            g[j, 1] -= f * dy
            g[j, 2] -= f * dz
        g[i, 0] += fx
        g[i, 1] += fy
        g[i, 2] += fz
    g *= 24.0 * epsilon
    return 4.0 * epsilon * energy, g, 4.0 * energy, 24.0 * epsilon / sigma * g_sigma


def data(atoms: int) -> Callable[[bool], tuple]:
    """A cubic lattice, shaken."""

    def make(small: bool) -> tuple:
        n = 20 if small else atoms
        side = int(np.ceil(n ** (1 / 3)))
        grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
        return 1.1 * grid + np.random.default_rng(4).uniform(-0.05, 0.05, (n, 3)), 1.0, 1.0

    return make


def lennard_jones_jax(args: tuple) -> dict[str, Thunk]:
    import jax.numpy as jnp

    def f(x: Any, epsilon: Any, sigma: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        mask = jnp.tril(jnp.ones((len(x), len(x)), bool), -1)
        r2 = jnp.where(mask, (d * d).sum(-1), 1.0)
        s6 = (sigma * sigma / r2) ** 3
        return jnp.where(mask, 4.0 * epsilon * (s6 * s6 - s6), 0.0).sum()

    return jax_ways(f, (0, 1, 2), args)


def case(atoms: int, peers: dict) -> NjitCase:
    return gradient_case(
        f"lennard_jones_{atoms}",
        f"Lennard-Jones, {atoms} atoms; positions and both parameters",
        lennard_jones,
        (0, 1, 2),
        data(atoms),
        lennard_jones_by_hand,
        goal=2.5,
        peers=peers,
        step=1e-5,
    )


CASES = [case(400, {"jax": lennard_jones_jax}), case(4000, {})]
