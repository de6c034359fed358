"""Residuals of Burgers' and the Korteweg-de Vries equation for a small perceptron, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Case, Compiled, Thunk, for_jax, for_nbgrad, for_torch, jitted, mlp, mlp_arrays

NU = 0.01 / np.pi


def data(points: int) -> Callable[[], Any]:
    """Parameters and points (t, x)."""

    def make() -> Any:
        x = np.random.default_rng(1).uniform(-1, 1, (points, 2))
        return mlp_arrays([2, 20, 20, 20, 20, 1]), x

    return make


def burgers(u: Any, ut: Any, ux: Any, uxx: Any) -> Any:
    """The mean square of ``u_t + u u_x - nu u_xx``."""
    r = ut + u * ux - NU * uxx
    return (r * r).mean()


def kdv(u: Any, ut: Any, ux: Any, uxxx: Any) -> Any:
    """The mean square of ``u_t + 6 u u_x + u_xxx``."""
    r = ut + 6 * u * ux + uxxx
    return (r * r).mean()


def nbgrad_ways(loss: Callable, order: int) -> Callable[[Any], dict[str, Thunk]]:
    """Operators of `nbgrad.pde`, `jet` by hand, nested gradients as in PyTorch."""

    def ways(arrays: Any) -> dict[str, Thunk]:
        import nbgrad as ng
        from nbgrad import pde

        p, z = for_nbgrad(arrays)
        field = lambda z, p: mlp(ng, p, z)

        def operators(p: Any, z: Any) -> Any:
            wanted = ["t", "x", "x" * order]
            return loss(*pde.derivatives(field, wanted, coords="tx", value=True)(z, p))

        def jet(p: Any, z: Any) -> Any:
            f = lambda z: mlp(ng, p, z)
            zero = ng.zeros_like(z)
            along_x, along_t = zero + ng.tensor([0.0, 1.0]), zero + ng.tensor([1.0, 0.0])
            u, d = ng.func.jet(f, (z,), ((along_x, *[zero] * (order - 1)),))
            return loss(u, ng.func.jvp(f, (z,), (along_t,))[1], d[0], d[-1])

        def nested(p: Any, z: Any) -> Any:
            t, x = z[:, 0], z[:, 1]
            total = lambda fn: lambda *a: fn(*a).sum()
            f = lambda t, x: mlp(ng, p, ng.stack([t, x], -1))
            d = ng.func.grad(total(f), 1)
            ut, ux = ng.func.grad(total(f), (0, 1))(t, x)
            for _ in range(order - 1):
                d = ng.func.grad(total(d), 1)
            return loss(f(t, x), ut, ux, d(t, x))

        made = {"pde": operators, "jet": jet, "nested": nested}
        return {k: Compiled(ng.func.value_and_grad(f), p, z) for k, f in made.items()}

    return ways


def jax_ways(loss: Callable, order: int) -> Callable[[Any], dict[str, Thunk]]:
    """Nested gradients, jvp of jvp, and jet, of one point under vmap."""

    def ways(arrays: Any) -> dict[str, Thunk]:
        import jax
        import jax.numpy as jnp
        from jax.experimental.jet import jet as taylor

        p, z = for_jax(arrays)
        u = lambda p, t, x: mlp(jnp, p, jnp.stack([t, x]))

        def nested(p: Any, t: Any, x: Any) -> tuple:
            d = u
            for _ in range(order):
                d = jax.grad(d, 2)
            return u(p, t, x), jax.grad(u, 1)(p, t, x), jax.grad(u, 2)(p, t, x), d(p, t, x)

        def forward(p: Any, t: Any, x: Any) -> tuple:
            one = (jnp.ones(()),)
            tower = lambda x: (u(p, t, x),)
            for _ in range(order):
                tower = lambda x, f=tower: (lambda v, d: (*v, d[-1]))(*jax.jvp(f, (x,), one))
            got = tower(x)
            ut = jax.jvp(lambda t: u(p, t, x), (t,), one)[1]
            return got[0], ut, got[1], got[-1]

        def jet(p: Any, t: Any, x: Any) -> tuple:
            series = (1.0, *[0.0] * (order - 1))
            v, d = taylor(lambda x: u(p, t, x), (x,), (series,))
            return v, jax.jvp(lambda t: u(p, t, x), (t,), (1.0,))[1], d[0], d[-1]

        def step(terms: Callable) -> Thunk:
            both = lambda p, z: loss(*jax.vmap(lambda q: terms(p, q[0], q[1]))(z))
            return jitted(jax.value_and_grad(both), p, z)

        return {"nested": step(nested), "jvp of jvp": step(forward), "jet": step(jet)}

    return ways


def torch_ways(loss: Callable, order: int) -> Callable[[Any], dict[str, Thunk]]:
    """Nested gradients, eager."""

    def ways(arrays: Any) -> dict[str, Thunk]:
        import torch

        p = for_torch(arrays[0], requires_grad=True)
        z = for_torch(arrays[1])
        weights = [w for layer in p for w in layer]

        def step() -> Any:
            t, x = (z[:, i].clone().requires_grad_() for i in (0, 1))
            u = mlp(torch, p, torch.stack([t, x], 1))
            ut, ux = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
            d = ux
            for _ in range(order - 1):
                (d,) = torch.autograd.grad(d.sum(), x, create_graph=True)
            value = loss(u, ut, ux, d)
            return value, torch.autograd.grad(value, weights)

        return {"nested": step}

    return ways


def residual(name: str, title: str, loss: Callable, order: int, points: int, **goals: Any) -> Case:
    """A case: value and parameter gradient of a mean square residual."""
    makers = {"nbgrad": nbgrad_ways, "jax": jax_ways, "torch": torch_ways}
    peers = {k: make(loss, order) for k, make in makers.items()}
    return Case(name, title, data(points), peers, **goals)


CASES = [
    residual(
        "burgers_1e4",
        "Burgers loss + gradient, 1e4 points",
        burgers,
        2,
        10_000,
        goals={"jax": 3, "torch": 3},
        aims={"jax": 6, "torch": 6},
    ),
    residual(
        "burgers_1e2",
        "Burgers loss + gradient, 1e2 points",
        burgers,
        2,
        100,
        goals={"jax": 5},
        aims={"jax": 10},
    ),
    residual(
        "kdv",
        "KdV loss + gradient (u_xxx), 1e4 points",
        kdv,
        3,
        10_000,
        goals={"jax": 3},
        aims={"jax": 6},
    ),
]
