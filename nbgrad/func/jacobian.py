"""Jacobians and Hessians as functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..device import beside
from ..tensor import Tensor
from .flat import check_inexact, flat_jvp, flat_vjp
from .trees import Flat, select
from .vmap import vmap


def jacrev(
    fn: Callable,
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable:
    """The Jacobian by reverse mode: one vectorised pullback over all output elements.

    The result has the structure of the output, with the structure of the differentiated arguments inside; each leaf has
    shape ``output shape + argument shape``. With ``has_aux`` the function returns ``(output, aux)`` and the result is
    ``(Jacobian, aux)``.

    Parameters
    ----------
    chunk_size : output elements processed at a time (None: all).
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat = Flat(fn, args, kwargs, select(args, argnums, "jacrev"), has_aux)
        outs, pull = flat_vjp(flat, flat.leaves, "jacrev")
        rows = []
        for j, o in enumerate(outs):
            check_inexact(o, "jacrev")

            def one(v: Tensor, j: int = j) -> tuple:
                return tuple(pull([v if i == j else None for i in range(len(outs))]))

            got = vmap(one, chunk_size=chunk_size, randomness="same")(basis(o))
            rows.append(
                [g.reshape((*o.shape, *x.shape)) for g, x in zip(got, flat.leaves, strict=True)]
            )
        single = isinstance(argnums, int)
        result = flat.pack_out([flat.pack_in(r, single) for r in rows])
        return (result, flat.stripped_aux()) if has_aux else result

    return wrapped


def jacfwd(
    fn: Callable,
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable:
    """The Jacobian by forward mode: one vectorised jvp over all input elements (result as `jacrev`)."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat = Flat(fn, args, kwargs, select(args, argnums, "jacfwd"), has_aux)
        columns: list[list[Tensor]] = []
        for i, x in enumerate(flat.leaves):
            check_inexact(x, "jacfwd")

            def push(v: Tensor, i: int = i) -> tuple:
                dots = [v if k == i else None for k in range(len(flat.leaves))]
                return tuple(flat_jvp(flat, flat.leaves, dots)[1])

            got = vmap(push, out_dims=-1, chunk_size=chunk_size, randomness=randomness)(basis(x))
            columns.append([g.reshape((*g.shape[:-1], *x.shape)) for g in got])
        single = isinstance(argnums, int)
        n_out = len(columns[0]) if columns else 0
        result = flat.pack_out(
            [flat.pack_in([c[j] for c in columns], single) for j in range(n_out)]
        )
        return (result, flat.primal_aux()) if has_aux else result

    return wrapped


def basis(x: Tensor) -> Tensor:
    """All unit vectors of a tensor's shape, stacked in front."""
    n = x.size_()
    return beside(x, Tensor(np.eye(n, dtype=x.dtype).reshape((n, *x.shape))))


def hessian(fn: Callable, argnums: int | Sequence[int] = 0) -> Callable:
    """Second derivatives, forward over reverse; leaves have shape ``output + argument + argument``."""
    return jacfwd(jacrev(fn, argnums), argnums)
