"""Jacobians and Hessians as SciPy linear operators: products only, for Krylov solvers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..func.api import grad
from ..func.flat import flat_jvp, flat_vjp
from ..op import Spec
from ..state import ON, state
from ..tape.record import linear_tape
from ..tensor import Tensor
from ..utils import pytree
from .plan import Arguments, check_results, refuse_complex, refuse_history
from .sweep import size


def jacobian_operator(fn: Callable, *args: Any, argnums: int | Sequence[int] = 0) -> Any:
    """The Jacobian at a point as a ``scipy.sparse.linalg.LinearOperator``; no entry is ever formed.

    ``matvec`` is a jvp of the linearised function (which runs once), ``rmatvec`` (the conjugate transpose) a vjp. Rows and
    columns are numbered as in `sparse_jacobian`.

    Raises
    ------
    TraceError, ArgumentError : inside a transform, or arguments that require grad.
    DTypeError : integer arguments or results.
    """
    return _operator(fn, args, argnums, "jacobian_operator", False)


def hessian_operator(fn: Callable, *args: Any, argnums: int | Sequence[int] = 0) -> Any:
    """The Hessian of a real scalar function as a symmetric ``LinearOperator`` (forward over reverse products).

    Raises
    ------
    ShapeError, DTypeError : a result that is no real scalar; complex arguments.
    """
    return _operator(grad(fn, argnums), args, argnums, "hessian_operator", True)


def _operator(fn: Callable, args: tuple, argnums: Any, op: str, symmetric: bool) -> Any:
    from scipy.sparse.linalg import LinearOperator

    at = Arguments(args, argnums, op)
    refuse_history(at.leaves, op)
    if symmetric:
        refuse_complex((Spec(tuple(at.leaves[i].shape), at.leaves[i].dtype) for i in at.wrt), op)
    products = Products(fn, at, op)
    back = products.forward if symmetric else products.backward
    return LinearOperator(
        products.shape,
        matvec=products.forward,  # type: ignore[call-arg]
        rmatvec=back,  # type: ignore[call-arg]
        dtype=products.dtype,  # type: ignore[call-arg]
    )


class Products:
    """``J v`` and ``J^H w`` of a function at a point."""

    def __init__(self, fn: Callable, at: Arguments, op: str):
        self.primals = [at.leaves[i].detach() for i in at.wrt]
        self.columns = [Spec(tuple(x.shape), x.dtype) for x in self.primals]

        def moved(*leaves: Tensor) -> list[Any]:
            full = list(at.leaves)
            for i, x in zip(at.wrt, leaves, strict=True):
                full[i] = x
            return pytree.flatten(fn(*pytree.unflatten(at.tree, full)))[0]

        box: list[Tensor] = []

        def push(*tangents: Tensor) -> list[Any]:
            outs, dots = flat_jvp(moved, self.primals, tangents)
            box.extend(outs)
            return dots

        self.fn = moved
        previous = state.set_off(ON)
        try:
            self.tangent = linear_tape(push, self.columns)
        finally:
            state.set_off(previous)
        self.rows = [Spec(tuple(o.shape), o.dtype) for o in box]
        check_results(self.rows, op)
        self.shape = (size(self.rows), size(self.columns))
        self.dtype = np.result_type(*(s.dtype for s in (*self.rows, *self.columns)))
        self.pull: Any = None

    def forward(self, v: np.ndarray) -> np.ndarray:
        """``J v``; a complex v along real arguments goes part by part."""
        if np.iscomplexobj(v) and any(s.dtype.kind != "c" for s in self.columns):
            return self.forward(v.real) + 1j * self.forward(v.imag)
        return np.concatenate(_vectors(self.tangent.run(_split(v, self.columns))))

    def backward(self, w: np.ndarray) -> np.ndarray:
        """``J^H w``; pullbacks to real arguments keep the real part, so that the imaginary part is a second one."""
        if np.iscomplexobj(w) and any(s.dtype.kind != "c" for s in self.rows):
            return self.backward(w.real) + 1j * self.backward(w.imag)
        parts = self._pulled(w)
        if any(s.dtype.kind == "c" for s in self.rows) and any(p.dtype.kind != "c" for p in parts):
            turned = self._pulled(-1j * w)
            parts = [p if p.dtype.kind == "c" else p + 1j * q for p, q in zip(parts, turned)]
        return np.concatenate(parts)

    def _pulled(self, w: np.ndarray) -> list[np.ndarray]:
        if self.pull is None:
            _, self.pull = flat_vjp(self.fn, self.primals)
        return _vectors(self.pull(_split(w, self.rows)))


def _split(v: np.ndarray, specs: Sequence[Spec]) -> list[Tensor]:
    """A vector as leaves."""
    parts, start = [], 0
    flat = np.asarray(v).reshape(-1)
    for s in specs:
        n = math.prod(s.shape)
        parts.append(Tensor(flat[start : start + n].astype(s.dtype).reshape(s.shape)))
        start += n
    return parts


def _vectors(leaves: Sequence[Tensor]) -> list[np.ndarray]:
    """Leaves as vectors."""
    return [np.asarray(t.detach().numpy()).reshape(-1) for t in leaves]
