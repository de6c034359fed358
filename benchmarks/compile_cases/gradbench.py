"""Objectives of the GradBench suite (github.com/gradbench/gradbench): GMM, k-means, log-sum-exp.

Definitions and inputs follow its evaluations ``gmm``, ``kmeans`` and ``lse``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Case, Compiled, Thunk, for_jax, for_nbgrad, for_torch, jitted
from .programs import program_ways

SEED = 31337
ORDER = ("alpha", "mu", "q", "l")


# -- Gaussian mixture ------------------------------------------------------------------------------------
def gmm_data(d: int, k: int, n: int) -> Callable[[], dict]:
    """Points and parameters of the eval ``gmm`` (m = 0, gamma = 1)."""

    def make() -> dict:
        rng = np.random.default_rng(SEED)
        return {
            "x": rng.normal(size=(n, d)),
            "alpha": rng.normal(size=k),
            "mu": rng.uniform(size=(k, d)),
            "q": rng.normal(size=(k, d)),
            "l": rng.normal(size=(k, d * (d - 1) // 2)),
        }

    return make


def triangle(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries of a strict lower triangle, column by column."""
    cols, rows = np.triu_indices(d, 1)
    return rows, cols


def log_wishart_constant(d: int) -> float:
    """The constant of one component's prior, m = 0 and gamma = 1."""
    n = d + 1
    multigammaln = 0.25 * d * (d - 1) * math.log(math.pi) + sum(
        math.lgamma(0.5 * n - 0.5 * j) for j in range(d)
    )
    return -0.5 * n * d * math.log(2) - multigammaln


def gmm(
    exp: Callable,
    logsumexp: Callable,
    squares: Callable,
    x: Any,
    alpha: Any,
    mu: Any,
    q: Any,
    low: Any,
) -> Any:
    """The log posterior; ``squares(Q diagonals, low, x, mu)`` are the squared norms of Q_k (x_i - mu_k), (n, k)."""
    n, d = x.shape
    k = alpha.shape[0]
    diagonals = exp(q)
    sums = q.sum(1)
    inner = alpha + sums - 0.5 * squares(diagonals, low, x, mu)
    prior = 0.5 * ((diagonals * diagonals).sum() + (low * low).sum())
    constant = -n * d * 0.5 * math.log(2 * math.pi) + k * log_wishart_constant(d)
    return constant + logsumexp(inner, 1).sum() - n * logsumexp(alpha, 0) - prior


def square_norms(lib: Any, lower: Callable) -> dict[str, Callable]:
    """Two ways to the same norms: GradBench's with einsum, and one matrix product for all components."""

    def einsum(diagonals: Any, low: Any, x: Any, mu: Any) -> Any:
        centered = x[:, None, :] - mu[None, :, :]
        q = diagonals * centered + lib.einsum("ijk,mik->mij", lower(low), centered)
        return (q * q).sum(2)

    def product(diagonals: Any, low: Any, x: Any, mu: Any) -> Any:
        k, d = mu.shape
        full = lower(low) + diagonals[:, :, None] * eye(lib, d)  # (k, d, d)
        shift = (full * mu[:, None, :]).sum(2)  # Q_k mu_k
        q = (x @ full.reshape(k * d, d).T).reshape(-1, k, d) - shift
        return (q * q).sum(2)

    return {"einsum": einsum, "one product": product}


def eye(lib: Any, d: int) -> Any:
    """The identity in the library's default float64."""
    return lib.eye(d, dtype=lib.float64)


def gmm_nbgrad(data: dict) -> dict[str, Thunk]:
    import nbgrad as ng

    t = for_nbgrad(data)
    k, d = data["mu"].shape
    rows, cols = triangle(d)
    place = np.full((d, d), d * (d - 1) // 2)
    place[rows, cols] = np.arange(len(rows))

    def assigned(low: Any) -> Any:
        full = ng.zeros((k, d, d))
        full[:, rows, cols] = low
        return full

    def gathered(low: Any) -> Any:
        return ng.cat([low, ng.zeros((k, 1))], 1)[:, place.reshape(-1)].reshape(k, d, d)

    def way(squares: Callable) -> Thunk:
        f = lambda x, *p: gmm(ng.exp, ng.logsumexp, squares, x, *p)
        return Compiled(ng.func.grad(f, (1, 2, 3, 4)), t["x"], *(t[o] for o in ORDER))

    made = {f"{n}, assigned": s for n, s in square_norms(ng, assigned).items()}
    made |= {f"{n}, gathered": s for n, s in square_norms(ng, gathered).items()}
    return {name: way(s) for name, s in made.items()}


def gmm_jax(data: dict) -> dict[str, Thunk]:
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    t = for_jax(data)
    k, d = data["mu"].shape
    rows, cols = triangle(d)
    lower = lambda low: jnp.zeros((k, d, d)).at[:, rows, cols].set(low)

    def way(squares: Callable) -> Thunk:
        f = lambda x, *p: gmm(jnp.exp, lambda a, i: logsumexp(a, axis=i), squares, x, *p)
        return jitted(jax.grad(f, (1, 2, 3, 4)), t["x"], *(t[o] for o in ORDER))

    return {name: way(s) for name, s in square_norms(jnp, lower).items()}


def gmm_torch(data: dict) -> dict[str, Thunk]:
    import torch

    x = for_torch(data["x"])
    p = [for_torch(data[o], requires_grad=True) for o in ORDER]
    k, d = data["mu"].shape
    rows, cols = (torch.tensor(i) for i in triangle(d))

    def lower(low: Any) -> Any:
        full = torch.zeros((k, d, d))
        full[:, rows, cols] = low
        return full

    def way(squares: Callable) -> Thunk:
        return lambda: torch.autograd.grad(gmm(torch.exp, torch.logsumexp, squares, x, *p), p)

    return {name: way(s) for name, s in square_norms(torch, lower).items()}


def gmm_input(data: dict) -> dict:
    """The input of the C++ programs."""
    n, d = data["x"].shape
    return {"d": d, "k": len(data["alpha"]), "n": n, "m": 0, "gamma": 1.0, **data}


# -- k-means ---------------------------------------------------------------------------------------------
def kmeans_data() -> tuple:
    """Points and centroids of the eval ``kmeans``, k = 100, n = 1e4, d = 16."""
    points = np.random.RandomState(SEED).rand(10_000, 16)
    return points, points[-100:].copy()


def distances(points: Any, centers: Any) -> Any:
    """Squared distances, (k, n)."""
    a, b = (points * points).sum(1)[None, :], (centers * centers).sum(1)[:, None]
    return a + b - 2 * (centers @ points.T)


def kmeans_nbgrad(data: tuple) -> dict[str, Thunk]:
    import nbgrad as ng

    points, centers = for_nbgrad(data)
    ones = ng.ones_like(centers)
    by_cluster = lambda p, c: ng.amin(distances(p, c), 0).sum()
    by_point = lambda p, c: ng.amin(distances(c, p), 1).sum()  # the same, points first

    def way(cost: Callable) -> Thunk:
        def direction(points: Any, centers: Any) -> Any:
            g, h = ng.func.hvp(lambda c: cost(points, c), (centers,), (ones,))
            return g / h

        return Compiled(direction, points, centers)

    return {"clusters first": way(by_cluster), "points first": way(by_point)}


def kmeans_jax(data: tuple) -> dict[str, Thunk]:
    import jax
    import jax.numpy as jnp

    points, centers = for_jax(data)
    by_cluster = lambda p, c: jnp.min(distances(p, c), 0).sum()
    by_point = lambda p, c: jnp.min(distances(c, p), 1).sum()

    def way(cost: Callable) -> Thunk:
        def direction(points: Any, centers: Any) -> Any:
            g, h = jax.jvp(
                jax.grad(lambda c: cost(points, c)), (centers,), (jnp.ones_like(centers),)
            )
            return g / h

        return jitted(direction, points, centers)

    return {"clusters first": way(by_cluster), "points first": way(by_point)}


def kmeans_torch(data: tuple) -> dict[str, Thunk]:
    import torch
    from torch.autograd.functional import vhp, vjp

    points, centers = for_torch(data)
    cost = lambda c: torch.min(distances(points, c), dim=0)[0].sum()

    def direction() -> Any:
        g = vjp(cost, centers, v=torch.tensor(1.0))[1]
        return g / vhp(cost, centers, v=torch.ones_like(centers))[1]

    return {"vjp and vhp": direction}


# -- log-sum-exp -----------------------------------------------------------------------------------------
def lse_data() -> np.ndarray:
    """1.28e6 numbers."""
    return np.random.RandomState(SEED).rand(1_280_000)


def lse(lib: Any, x: Any) -> Any:
    """GradBench's definition."""
    top = x.max()
    return lib.log(lib.exp(x - top).sum()) + top


def lse_nbgrad(data: Any) -> dict[str, Thunk]:
    import nbgrad as ng

    x = for_nbgrad(data)
    made = {"max, exp, log": lambda x: lse(ng, x), "logsumexp": lambda x: ng.logsumexp(x, 0)}
    return {name: Compiled(ng.func.grad(f), x) for name, f in made.items()}


def lse_jax(data: Any) -> dict[str, Thunk]:
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    made = {"max, exp, log": lambda x: lse(jnp, x), "logsumexp": logsumexp}
    return {name: jitted(jax.grad(f), for_jax(data)) for name, f in made.items()}


def lse_torch(data: Any) -> dict[str, Thunk]:
    import torch

    x = for_torch(data, requires_grad=True)
    made = {"max, exp, log": lambda x: lse(torch, x), "logsumexp": lambda x: torch.logsumexp(x, 0)}
    return {name: lambda f=f: torch.autograd.grad(f(x), x) for name, f in made.items()}


GOALS: dict[str, Any] = {"goals": {"jax": 1, "torch": 1}, "aims": {"manual": 1}}


def gmm_case(d: int, k: int) -> Case:
    """The gradient of the log posterior of a mixture."""
    outputs = lambda found: [found[o] for o in ORDER]
    return Case(
        f"gmm_{d}_{k}",
        f"GMM gradient, d={d}, k={k}, n=1000",
        gmm_data(d, k, 1000),
        {
            "nbgrad": gmm_nbgrad,
            "jax": gmm_jax,
            "torch": gmm_torch,
            **program_ways("gmm", "jacobian", gmm_input, outputs),
        },
        **GOALS,
    )


def only_manual(*args: Any) -> dict:
    """`program_ways` of evals that tapenade has not."""
    return {"manual": program_ways(*args)["manual"]}


CASES = [
    gmm_case(10, 25),
    gmm_case(32, 50),
    Case(
        "kmeans",
        "k-means gradient / Hessian diagonal, k=100, n=1e4, d=16",
        kmeans_data,
        {
            "nbgrad": kmeans_nbgrad,
            "jax": kmeans_jax,
            "torch": kmeans_torch,
            **only_manual(
                "kmeans", "dir", lambda a: {"points": a[0], "centroids": a[1]}, lambda out: [out]
            ),
        },
        **GOALS,
    ),
    Case(
        "lse",
        "log-sum-exp gradient, 1.28e6",
        lse_data,
        {
            "nbgrad": lse_nbgrad,
            "jax": lse_jax,
            "torch": lse_torch,
            **only_manual("lse", "gradient", lambda x: {"x": x}, lambda out: [out]),
        },
        **GOALS,
    ),
]
