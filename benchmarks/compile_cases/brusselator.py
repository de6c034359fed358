"""The sparse Jacobian of the Brusselator with diffusion on a periodic 128 x 128 grid: 32768 unknowns, six entries a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Case, Compiled, Thunk, for_jax, jitted

N = 128
A, B, DIFFUSION = 3.4, 1.0, 0.1
DENSE = 256  # columns of the dense Jacobian that are computed; all 32768 are 8.6 GB, and more on the way
DENSE_WAY = f"jacfwd, extrapolated from {DENSE} of {2 * N * N} columns"


def data() -> dict:
    """Fields (u, v) and a colouring by hand.

    Columns of u at (i, j) have colour ``(i + 3 j) mod 8``, those of v four more: no two of one colour meet in a row
    (differences within a five-point stencil's reach are never 0 mod 8, and 8 divides 128).
    """
    i, j = np.meshgrid(np.arange(N), np.arange(N), indexing="ij")
    colors = np.stack([(i + 3 * j) % 8, (i + 3 * j + 4) % 8])
    x, y = i / N, j / N
    w = np.stack([22 * y * (1 - y) ** 1.5, 27 * x * (1 - x) ** 1.5])
    return {"w": w + 0.1, "colors": colors}


def rate(lib: Any, w: Any) -> Any:
    """The right-hand side of the semi-discrete system (Hairer and Wanner II, section IV.10)."""
    u, v = w[0], w[1]
    uuv = u * u * v

    def laplacian(a: Any) -> Any:
        around = lib.roll(a, 1, 0) + lib.roll(a, -1, 0) + lib.roll(a, 1, 1) + lib.roll(a, -1, 1)
        return (around - 4 * a) * N**2

    return lib.stack(
        [
            B + uuv - (A + 1) * u + DIFFUSION * laplacian(u),
            A * u - uuv + DIFFUSION * laplacian(v),
        ]
    )


def pattern() -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries in CSR order with sorted indices."""
    k = np.arange(N * N).reshape(N, N)
    around = [k, *(np.roll(k, s, a) for s in (1, -1) for a in (0, 1))]
    rows, cols = [], []
    for field in (0, 1):
        for c in [*(a + field * N * N for a in around), k + (1 - field) * N * N]:
            rows.append((k + field * N * N).ravel())
            cols.append(c.ravel())
    r, c = np.concatenate(rows), np.concatenate(cols)
    order = np.lexsort((c, r))
    return r[order], c[order]


def nbgrad_ways(data: dict) -> dict[str, Thunk]:
    """The matrix as SciPy's, and its entries alone from a compiled function; colours found or given."""
    import nbgrad as ng

    w, colors = ng.tensor(data["w"]), data["colors"].ravel()
    found = ng.sparse_jacobian(lambda w: rate(ng, w))
    given = ng.sparse_jacobian(lambda w: rate(ng, w), coloring=colors, mode="forward")
    return {
        "CSR matrix": lambda: found(w).data,
        "CSR matrix, colours given": lambda: given(w).data,
        "compiled entries": Compiled(found.data, w),
        "compiled entries, colours given": Compiled(given.data, w),
    }


def jax_coloured(data: dict) -> dict[str, Thunk]:
    """Compressed jvps with the colouring and the decompression by hand.

    Where the seeds are constants of the program, XLA folds the stencil of the seeds, the linear part of the Jacobian.
    """
    import jax
    import jax.numpy as jnp

    w, colors = for_jax(data["w"]), data["colors"]
    rows, cols = pattern()
    seeds = jnp.asarray(np.stack([colors == c for c in range(8)]).astype(float))
    source = jnp.asarray(colors.ravel()[cols] * 2 * N * N + rows)
    f = lambda w: rate(jnp, w)

    def forward(w: Any, seeds: Any = seeds) -> Any:
        products = jax.vmap(lambda v: jax.jvp(f, (w,), (v,))[1])(seeds)
        return products.ravel()[source]

    def linearized(w: Any) -> Any:
        products = jax.vmap(jax.linearize(f, w)[1])(seeds)
        return products.ravel()[source]

    return {
        "jvp, seeds constant": jitted(forward, w),
        "jvp, seeds an argument": jitted(forward, w, seeds),
        "linearize, seeds constant": jitted(linearized, w),
    }


def jax_dense(data: dict) -> dict[str, Thunk]:
    """Some columns of ``jacfwd``, as jacfwd computes them."""
    import jax
    import jax.numpy as jnp

    w = for_jax(data["w"])
    units = jnp.asarray(np.eye(DENSE, 2 * N * N).reshape(-1, *data["w"].shape))
    push = lambda w, v: jax.jvp(lambda w: rate(jnp, w), (w,), (v,))[1]
    columns = lambda w, units: jax.vmap(push, (None, 0), -1)(w, units)
    return {DENSE_WAY: jitted(columns, w, units)}


CASES = [
    Case(
        "brusselator",
        "sparse Jacobian of the 128x128 Brusselator",
        data,
        {"nbgrad": nbgrad_ways, "jax": jax_coloured, "jax dense": jax_dense},
        goals={"jax": 3, "jax dense": 20},
        scale={("jax dense", DENSE_WAY): 2 * N * N / DENSE},
    )
]
