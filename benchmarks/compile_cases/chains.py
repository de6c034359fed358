"""Chains of thirty elementwise operations on 1e7 elements: bound by memory if they are fused, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Case, Compiled, Thunk, for_jax, for_nbgrad, for_torch, jitted

N = 10_000_000


def data() -> Any:
    """Two vectors."""
    return tuple(np.random.default_rng(0).uniform(0.5, 1.5, (2, N)))


def arithmetic(lib: Any, x: Any, w: Any) -> Any:
    """Thirty products, sums and differences."""
    y = x
    for k in range(10):
        y = (y * w - x) * (0.5 + 0.01 * k)
    return y


def transcendental(lib: Any, x: Any, w: Any) -> Any:
    """Thirty operations, nine of them exp, tanh and sin."""
    y = x
    for k in range(3):
        y = lib.tanh(y * w + 0.1 * k)
        y = lib.sin(y * x - w)
        y = lib.exp(-(y * y)) * w + x
    return y * 0.5 + w


def ways(chain: Callable, peer: str) -> Callable[[Any], dict[str, Thunk]]:
    """Mean of the chain, and the gradient with respect to both vectors."""

    def nbgrad(arrays: Any) -> dict[str, Thunk]:
        import nbgrad as ng

        step = ng.func.value_and_grad(lambda x, w: chain(ng, x, w).mean(), (0, 1))
        return {"compiled": Compiled(step, *for_nbgrad(arrays))}

    def jax(arrays: Any) -> dict[str, Thunk]:
        import jax
        import jax.numpy as jnp

        step = jax.value_and_grad(lambda x, w: chain(jnp, x, w).mean(), (0, 1))
        return {"jit": jitted(step, *for_jax(arrays))}

    def torch(arrays: Any) -> dict[str, Thunk]:
        import torch

        x, w = for_torch(arrays, requires_grad=True)

        def step() -> Any:
            value = chain(torch, x, w).mean()
            return value, torch.autograd.grad(value, (x, w))

        return {"eager": step}

    return {"nbgrad": nbgrad, "jax": jax, "torch": torch}[peer]


CASES = [
    Case(
        name,
        f"{what}, value + gradient, 1e7 elements",
        data,
        {peer: ways(chain, peer) for peer in ("nbgrad", "jax", "torch")},
        goals={"jax": 1.5},
        traffic=4 * 8 * N,  # two vectors are read, two gradients written
    )
    for name, what, chain in (
        ("chain30", "30 arithmetic operations", arithmetic),
        ("chain30_exp", "30 operations with exp, tanh, sin", transcendental),
    )
]
