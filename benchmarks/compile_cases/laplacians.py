"""Laplacian and biharmonic operator of perceptrons in many dimensions: values, and gradients of the mean square."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Case, Compiled, Thunk, for_jax, for_nbgrad, for_torch, jitted, mlp, mlp_arrays


def data(d: int, width: int, layers: int, points: int) -> Callable[[], Any]:
    """Parameters and points."""

    def make() -> Any:
        x = np.random.default_rng(1).uniform(-1, 1, (points, d))
        return mlp_arrays([d, *[width] * layers, 1]), x

    return make


def nbgrad_ways(operator: str, gradient: bool) -> Callable[[Any], dict[str, Thunk]]:
    """`nbgrad.pde` with the methods that make sense."""

    def ways(arrays: Any) -> dict[str, Thunk]:
        import nbgrad as ng
        from nbgrad import pde

        p, x = for_nbgrad(arrays)
        field = lambda x, p: mlp(ng, p, x)

        def way(method: str) -> Thunk:
            op = getattr(pde, operator)(field, method=method)
            if not gradient:
                return Compiled(lambda p, x: op(x, p), p, x)
            return Compiled(ng.func.value_and_grad(lambda p, x: ng.square(op(x, p)).mean()), p, x)

        return {m: way(m) for m in ("auto", "collapsed")}

    return ways


def folx_laplacian(u: Callable) -> Callable:
    """The forward Laplacian of folx."""
    import folx

    return lambda x: folx.forward_laplacian(u)(x).laplacian


def jax_laplacians() -> dict[str, Callable]:
    """``u -> laplacian of u`` at one point: Hessian's trace, jvp of the gradient, jet along the axes."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    def hessian(u: Callable) -> Callable:
        return lambda x: jnp.trace(jax.hessian(u)(x))

    def forward_over_reverse(u: Callable) -> Callable:
        g = jax.grad(u)
        along = lambda x, v: jnp.vdot(jax.jvp(g, (x,), (v,))[1], v)
        return lambda x: jnp.sum(jax.vmap(along, (None, 0))(x, jnp.eye(x.size)))

    def taylor(u: Callable) -> Callable:
        second = lambda x, v: jet(u, (x,), ((v, jnp.zeros_like(v)),))[1][1]
        return lambda x: jnp.sum(jax.vmap(second, (None, 0))(x, jnp.eye(x.size)))

    return {"hessian": hessian, "jvp of grad": forward_over_reverse, "jet": taylor}


def jax_biharmonics() -> dict[str, Callable]:
    """``u -> biharmonic of u`` at one point: nested Laplacians, and jets of order four.

    With ``D_v`` the fourth derivative along v, ``12 u_iijj = D_{i+j} + D_{i-j} - 2 D_i - 2 D_j``.
    """
    import jax
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    def taylor(u: Callable) -> Callable:
        def biharmonic(x: Any) -> Any:
            d, eye = x.size, np.eye(x.size)
            pairs = [
                s
                for i, j in itertools.combinations(range(d), 2)
                for s in (eye[i] + eye[j], eye[i] - eye[j])
            ]
            axes = 1 - (d - 1) / 3  # from u_iiii and from the pairs that contain i
            vectors = jnp.asarray(np.stack([*eye, *pairs]))
            weights = jnp.asarray([axes] * d + [1 / 6] * len(pairs))
            zero = jnp.zeros(d)
            fourth = lambda v: jet(u, (x,), ((v, zero, zero, zero),))[1][3]
            return jnp.vdot(weights, jax.vmap(fourth)(vectors))

        return biharmonic

    laplacians = jax_laplacians()
    nested = {
        f"{k} twice": lambda u, lap=lap: lap(lap(u)) for k, lap in laplacians.items() if k != "jet"
    }
    return {**nested, "jet": taylor}


def jax_side(operators: Callable[[], dict[str, Callable]], gradient: bool) -> Callable:
    """Formulations of operators at one point, under vmap."""

    def ways(arrays: Any) -> dict[str, Thunk]:
        import jax
        import jax.numpy as jnp

        p, x = for_jax(arrays)

        def way(operator: Callable) -> Thunk:
            at = lambda p, x: jax.vmap(operator(lambda q: mlp(jnp, p, q)))(x)
            if not gradient:
                return jitted(at, p, x)
            return jitted(jax.value_and_grad(lambda p, x: (at(p, x) ** 2).mean()), p, x)

        return {k: way(op) for k, op in operators().items()}

    return ways


def torch_ways(gradient: bool) -> Callable[[Any], dict[str, Thunk]]:
    """The trace of `torch.func`'s Hessian, and jvps of the gradient, vmapped."""

    def ways(arrays: Any) -> dict[str, Thunk]:
        import torch
        from torch.func import grad, hessian, jvp, vmap

        p, x = for_torch(arrays[0], requires_grad=gradient), for_torch(arrays[1])
        u = lambda q: mlp(torch, p, q)
        eye = torch.eye(x.shape[1])
        along = lambda q, v: (jvp(grad(u), (q,), (v,))[1] * v).sum()
        forward = lambda q: vmap(along, (None, 0))(q, eye).sum()
        operators = {"hessian": lambda q: hessian(u)(q).trace(), "jvp of grad": forward}

        def way(operator: Callable) -> Thunk:
            def step() -> Any:
                lap = vmap(operator)(x)
                if not gradient:
                    return lap
                value = (lap**2).mean()
                return value, torch.autograd.grad(
                    value, [w for layer in p for w in layer], materialize_grads=True
                )

            return step

        return {k: way(op) for k, op in operators.items()}

    return ways


def laplacian(d: int, points: int, gradient: bool, **goals: Any) -> Case:
    """A case of the Laplacian of an MLP of width 128, 4 layers."""
    what = "value and gradient" if gradient else "value"
    return Case(
        f"laplacian_{d}" + ("_grad" if gradient else ""),
        f"Laplacian, d={d}, width 128x4, {points} points: {what}",
        data(d, 128, 4, points),
        {
            "nbgrad": nbgrad_ways("laplacian", gradient),
            "jax": jax_side(jax_laplacians, gradient),
            "folx": jax_side(lambda: {"forward laplacian": folx_laplacian}, gradient),
            "torch": torch_ways(gradient),
        },
        **goals,
    )


def biharmonic(gradient: bool) -> Case:
    """A case of the biharmonic operator of an MLP of width 64, 3 layers."""
    what = "value and gradient" if gradient else "value"
    twice = lambda u: folx_laplacian(folx_laplacian(u))
    return Case(
        "biharmonic" + ("_grad" if gradient else ""),
        f"biharmonic, d=5, width 64x3, 200 points: {what}",
        data(5, 64, 3, 200),
        {
            "nbgrad": nbgrad_ways("biharmonic", gradient),
            "jax": jax_side(jax_biharmonics, gradient),
            "folx": jax_side(lambda: {"forward laplacian twice": twice}, gradient),
        },
        goals={"jax": 3},
        aims={"jax": 6},
    )


CASES = [
    *(
        laplacian(10, 1000, g, goals={"jax": 1.4, "folx": 2}, aims={"jax": 2, "folx": 3})
        for g in (False, True)
    ),
    *(
        laplacian(100, 200, g, goals={"jax": 1.2, "folx": 1.5}, aims={"jax": 1.8, "folx": 2.5})
        for g in (False, True)
    ),
    biharmonic(False),
    biharmonic(True),
]
