"""The 1-D heat equation, 1000 cells: buffers that swap, a function of a step, slices; start and diffusivity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .base import NjitCase, Thunk, gradient_case

CELLS = 1000


@njit
def energy(u: Any) -> float:
    total = 0.0
    for i in range(u.shape[0]):
        total += 0.5 * u[i] * u[i]
    return total


@njit
def heat_swap(start: Any, a: float, steps: int) -> float:
    u = start.copy()
    un = start.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            un[i] = u[i] + a * (u[i + 1] - 2.0 * u[i] + u[i - 1])
        u, un = un, u
    return energy(u)


@njit
def step(u: Any, a: float) -> Any:
    n = u.shape[0]
    new = np.empty(n)
    new[0] = u[0]
    new[n - 1] = u[n - 1]
    for i in range(1, n - 1):
        new[i] = u[i] + a * (u[i + 1] - 2.0 * u[i] + u[i - 1])
    return new


@njit
def heat_function(start: Any, a: float, steps: int) -> float:
    u = start
    for _ in range(steps):
        u = step(u, a)
    return energy(u)


@njit
def heat_slices(start: Any, a: float, steps: int) -> float:
    u = start.copy()
    for _ in range(steps):
        u[1:-1] += a * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return 0.5 * np.sum(u * u)


# -- by hand: states of a stretch of steps are kept, those between stretches at every 50th step -----------
STRETCH = 50


@njit
def advance(u: Any, new: Any, a: float) -> None:
    n = u.shape[0]
    for k in range(
        n - 2
    ):  # from zero: no index can be negative, which Numba would have to ask otherwise
        new[k + 1] = u[k + 1] + a * (u[k + 2] - 2.0 * u[k + 1] + u[k])
    new[0] = u[0]
    new[n - 1] = u[n - 1]


@njit(fastmath={"reassoc", "contract"})
def retreat(u: Any, b: Any, new: Any, a: float) -> float:
    """The adjoint of a step: the new cotangent of the state; returns that of ``a``."""
    n = u.shape[0]
    slope = b[1] * (u[2] - 2.0 * u[1] + u[0]) + b[n - 2] * (u[n - 1] - 2.0 * u[n - 2] + u[n - 3])
    for k in range(n - 4):
        slope += b[k + 2] * (u[k + 3] - 2.0 * u[k + 2] + u[k + 1])
        new[k + 2] = b[k + 2] + a * (b[k + 3] - 2.0 * b[k + 2] + b[k + 1])
    new[0] = b[0] + a * b[1]
    new[1] = b[1] + a * (b[2] - 2.0 * b[1])
    new[n - 2] = b[n - 2] + a * (b[n - 3] - 2.0 * b[n - 2])
    new[n - 1] = b[n - 1] + a * b[n - 2]
    return slope


@njit
def heat_by_hand(start: Any, a: float, steps: int) -> tuple:
    n, stretches = start.shape[0], (steps + STRETCH - 1) // STRETCH
    marks, kept = np.empty((stretches, n)), np.empty((STRETCH + 1, n))
    kept[0] = start
    for s in range(stretches):
        marks[s] = kept[0]
        length = min(STRETCH, steps - s * STRETCH)
        for t in range(length):
            advance(kept[t], kept[t + 1], a)
        kept[0] = kept[length]
    value, b, new, g = energy(kept[0]), kept[0].copy(), np.empty(n), 0.0
    for s in range(stretches - 1, -1, -1):
        kept[0] = marks[s]
        length = min(STRETCH, steps - s * STRETCH)
        for t in range(length - 1):
            advance(kept[t], kept[t + 1], a)
        for t in range(length - 1, -1, -1):
            g += retreat(kept[t], b, new, a)
            b, new = new, b
    return value, b, g


def data(steps: int) -> Callable[[bool], tuple]:
    def make(small: bool) -> tuple:
        n = 30 if small else CELLS
        return np.sin(np.linspace(0, 3, n)) + 0.2, 0.2, 40 if small else steps

    return make


# -- peers -----------------------------------------------------------------------------------------------
def jax_ways(args: tuple) -> dict[str, Thunk]:
    """Scan, also in stretches of 40 steps that are computed again."""
    import jax
    import jax.numpy as jnp
    from compile_cases.base import jitted

    start, a, steps = args
    inner = max(k for k in range(1, 41) if steps % k == 0)
    joined = lambda u, a: jnp.concatenate([u[:1], u[1:-1] + a * bend(u), u[-1:]])
    added = lambda u, a: u.at[1:-1].add(a * bend(u))
    bend = lambda u: u[2:] - 2 * u[1:-1] + u[:-2]

    def repeat(f: Callable, u: Any, n: int) -> Any:
        return jax.lax.scan(lambda u, _: (f(u), None), u, None, length=n)[0]

    def way(step: Callable, again: bool) -> Callable:
        def f(u: Any, a: Any) -> Any:
            if again:
                stretch = jax.checkpoint(lambda u: repeat(lambda u: step(u, a), u, inner))
                u = repeat(stretch, u, steps // inner)
            else:
                u = repeat(lambda u: step(u, a), u, steps)
            return 0.5 * (u * u).sum()

        return f

    u, both = jnp.asarray(start), lambda f: jax.value_and_grad(f, (0, 1))
    made = {"primal": jitted(way(joined, False), u, a)}
    for title, form in {"concatenate": joined, "at.add": added}.items():
        if steps <= 1000:
            made[f"scan, {title}"] = jitted(both(way(form, False)), u, a)
        made[f"scan, checkpoint, {title}"] = jitted(both(way(form, True)), u, a)
    return made


def torch_ways(args: tuple) -> dict[str, Thunk]:
    """A loop; above 1000 steps the first 1000, scaled."""
    import torch

    start, a, steps = args
    u0 = torch.tensor(start, requires_grad=True)
    a0 = torch.tensor(a, requires_grad=True)

    def loss(steps: int) -> Any:
        u = u0
        for _ in range(steps):
            u = torch.cat([u[:1], u[1:-1] + a0 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])
        return 0.5 * (u * u).sum()

    def gradient() -> list:
        value = loss(min(steps, 1000))
        return [value, *torch.autograd.grad(value, (u0, a0))]

    def primal() -> Any:
        with torch.no_grad():
            return loss(min(steps, 1000))

    return {"primal": primal, "gradient": gradient}


def case(name: str, title: str, program: Callable, steps: int, **more: Any) -> NjitCase:
    peers: dict = {"jax": jax_ways, "torch": torch_ways}
    if steps > 1000:
        more["scale"] = {("torch", way): steps / 1000 for way in ("primal", "gradient")}
    make = data(steps)
    title = f"heat, {title}, {CELLS} cells x {steps} steps"
    return gradient_case(
        name, title, program, (0, 1), make, heat_by_hand, peers=peers, goals={"jax": 2}, **more
    )


CASES = [
    case("heat_swap", "buffers swap", heat_swap, 1000, goal=8),
    case("heat_function", "u = step(u)", heat_function, 1000, goal=8),
    case("heat_slices", "slices", heat_slices, 1000, goal=5),
    case("heat_long", "buffers swap", heat_swap, 100_000, goal=12),
]
