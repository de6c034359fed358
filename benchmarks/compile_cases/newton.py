"""Hessian-vector products of a regression loss, and a Newton-CG step of twenty iterations."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import (
    Case,
    Compiled,
    Thunk,
    for_jax,
    for_nbgrad,
    for_torch,
    jitted,
    mapped,
    mlp,
    mlp_arrays,
)

SIZES = [16, 64, 64, 1]
ITERATIONS, DAMPING = 20, 1.0


def data() -> Any:
    """Parameters, a direction, 1000 inputs and targets."""
    rng = np.random.default_rng(2)
    p = mlp_arrays(SIZES)
    x = rng.standard_normal((1000, SIZES[0]))
    return p, mapped(lambda a: rng.standard_normal(a.shape), p), x, np.sin(x.sum(1))


def loss(lib: Any, p: Any, x: Any, y: Any) -> Any:
    """Half the mean square error."""
    r = mlp(lib, p, x) - y
    return 0.5 * (r * r).mean()


def leaves(p: Any) -> list:
    """Weights and biases in one list."""
    return [a for layer in p for a in layer]


def layers(flat: list) -> list:
    """The inverse of `leaves`."""
    return list(zip(flat[::2], flat[1::2]))


def conjugate_gradients(loop: Any, product: Any, g: list) -> list:
    """``s`` with ``(H + damping) s = -g`` after twenty iterations; ``loop(n, body, state)`` repeats a body."""
    dot = lambda a, b: sum((u * v).sum() for u, v in zip(a, b))

    def body(state: Any) -> Any:
        s, r, d, rr = state
        hd = [h + DAMPING * v for h, v in zip(product(d), d)]
        alpha = rr / dot(d, hd)
        s = [a + alpha * b for a, b in zip(s, d)]
        r = [a - alpha * b for a, b in zip(r, hd)]
        new = dot(r, r)
        d = [a + new / rr * b for a, b in zip(r, d)]
        return s, r, d, new

    r = [-a for a in g]
    return loop(ITERATIONS, body, ([a * 0.0 for a in g], r, r, dot(r, r)))[0]


def python_loop(n: int, body: Any, state: Any) -> Any:
    """A loop in Python: unrolled where it is traced."""
    for _ in range(n):
        state = body(state)
    return state


def nbgrad_hvp(arrays: Any) -> dict[str, Thunk]:
    """Forward over reverse; reverse over reverse."""
    import nbgrad as ng

    p, v, x, y = for_nbgrad(arrays)
    at = lambda p: loss(ng, p, x, y)

    def reverse(p: Any, v: Any) -> Any:
        slope = lambda p: sum((a * b).sum() for a, b in zip(leaves(ng.func.grad(at)(p)), leaves(v)))
        return ng.func.grad(slope)(p)

    return {
        "hvp": Compiled(lambda p, v: ng.func.hvp(at, (p,), (v,))[1], p, v),
        "grad of grad": Compiled(reverse, p, v),
    }


def jax_hvp(arrays: Any) -> dict[str, Thunk]:
    """Forward over reverse; reverse over reverse."""
    import jax
    import jax.numpy as jnp

    p, v, x, y = for_jax(arrays)
    at = lambda p, x, y: loss(jnp, p, x, y)

    def forward(p: Any, v: Any, x: Any, y: Any) -> Any:
        return jax.jvp(lambda p: jax.grad(at)(p, x, y), (p,), (v,))[1]

    def reverse(p: Any, v: Any, x: Any, y: Any) -> Any:
        slope = lambda p: sum(
            jnp.vdot(a, b) for a, b in zip(leaves(jax.grad(at)(p, x, y)), leaves(v))
        )
        return jax.grad(slope)(p)

    return {"jvp of grad": jitted(forward, p, v, x, y), "grad of grad": jitted(reverse, p, v, x, y)}


def torch_hvp(arrays: Any) -> dict[str, Thunk]:
    """Reverse over reverse."""
    import torch

    p = for_torch(arrays[0], requires_grad=True)
    v, x, y = (for_torch(a) for a in arrays[1:])

    def product() -> Any:
        g = torch.autograd.grad(loss(torch, p, x, y), leaves(p), create_graph=True)
        return torch.autograd.grad(g, leaves(p), leaves(v))

    return {"grad of grad": product}


def nbgrad_newton(arrays: Any) -> dict[str, Thunk]:
    """The whole step compiled, with `fori_loop` or unrolled; compiled products in an eager loop."""
    import nbgrad as ng

    p, _, x, y = for_nbgrad(arrays)
    at = lambda p: loss(ng, p, x, y)
    loop = lambda n, body, state: ng.fori_loop(0, n, lambda i, s: body(s), state)

    def step(loop: Any) -> Any:
        def newton(p: Any) -> Any:
            product = lambda d: leaves(ng.func.hvp(at, (p,), (layers(d),))[1])
            return conjugate_gradients(loop, product, leaves(ng.func.grad(at)(p)))

        return newton

    def linearized(p: Any) -> Any:
        g, push = ng.func.linearize(ng.func.grad(at), p)
        return conjugate_gradients(loop, lambda d: leaves(push(layers(d))), leaves(g))

    gradient = ng.compile(ng.func.grad(at))
    product = ng.compile(lambda p, d: leaves(ng.func.hvp(at, (p,), (layers(d),))[1]))

    def eager_loop() -> Any:
        return conjugate_gradients(python_loop, lambda d: product(p, d), leaves(gradient(p)))

    return {
        "fori_loop": Compiled(step(loop), p),
        "fori_loop, linearize": Compiled(linearized, p),
        "unrolled": Compiled(step(python_loop), p),
        "eager loop": eager_loop,
    }


def jax_newton(arrays: Any) -> dict[str, Thunk]:
    """The whole step under jit, with `fori_loop` or unrolled."""
    import jax
    import jax.numpy as jnp

    p, _, x, y = for_jax(arrays)
    loop = lambda n, body, state: jax.lax.fori_loop(0, n, lambda i, s: body(s), state)

    def step(loop: Any) -> Thunk:
        def newton(p: Any, x: Any, y: Any) -> Any:
            gradient = jax.grad(lambda p: loss(jnp, p, x, y))
            product = lambda d: leaves(jax.jvp(gradient, (p,), (layers(d),))[1])
            return conjugate_gradients(loop, product, leaves(gradient(p)))

        return jitted(newton, p, x, y)

    def linearized(p: Any, x: Any, y: Any) -> Any:
        g, push = jax.linearize(jax.grad(lambda p: loss(jnp, p, x, y)), p)
        return conjugate_gradients(loop, lambda d: leaves(push(layers(d))), leaves(g))

    return {
        "fori_loop": step(loop),
        "fori_loop, linearize": jitted(linearized, p, x, y),
        "unrolled": step(python_loop),
    }


CASES = [
    Case(
        "hvp",
        "HVP of the loss of an MLP 16-64-64-1, 1000 points",
        data,
        {"nbgrad": nbgrad_hvp, "jax": jax_hvp, "torch": torch_hvp},
        goals={"jax": 2},
        aims={"jax": 3},
    ),
    Case(
        "newton_cg",
        "Newton-CG step of 20 iterations, the same loss",
        data,
        {"nbgrad": nbgrad_newton, "jax": jax_newton},
        goals={"jax": 2},
        aims={"jax": 3},
    ),
]
