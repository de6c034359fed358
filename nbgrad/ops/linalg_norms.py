"""Public matrix norms, ranks and condition numbers."""

from __future__ import annotations

import math
from typing import Any

from ..errors import ArgumentError, message
from ..layout import normalize_axis
from ..op import as_tensor
from ..tensor import Tensor
from . import linalg as prim
from . import norm as norms
from . import spectral
from .elementwise import abs as absolute
from .elementwise import conj, maximum
from .extremum import amax, amin
from .linalg_functions import count_above, matrix, relative_tolerance, svdvals
from .view import _reshape, permute


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """p-norm of the elements over the given dimensions (all by default); its gradient at 0 is 0."""
    return norms.vector_norm(x, ord, dim, keepdim)


def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """Matrix norm over two dimensions: "fro", "nuc", inf, -inf, 1, -1, 2 or -2.

    Raises
    ------
    ArgumentError : another ord, or dimensions that are not two.
    """
    a = matrix(A, "matrix_norm")
    axes = [
        normalize_axis(d, a.ndim, "matrix_norm")
        for d in (dim if isinstance(dim, list | tuple) else (dim,))
    ]
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ArgumentError(
            message("matrix_norm", "argument 'dim'", dim, "two different dimensions")
        )
    rest = [d for d in range(a.ndim) if d not in axes]
    order = (*rest, *axes)
    x = a if order == tuple(range(a.ndim)) else permute(a, dims=order)
    out = _norm_of(x, ord)
    if keepdim:
        shape = [1 if d in axes else n for d, n in enumerate(a.shape)]
        out = _reshape(out, tuple(shape))
    return out


def _norm_of(x: Tensor, ord: Any) -> Tensor:
    if ord == "fro":
        return norms.vector_norm(x, 2, (-2, -1))
    if ord == "nuc":
        return svdvals(x).sum(-1)
    if ord in (2, -2):
        s = svdvals(x)
        return amax(s, -1) if ord == 2 else amin(s, -1)
    if ord in (1, -1, math.inf, -math.inf):
        sums = absolute(x).sum(-2 if ord in (1, -1) else -1)
        return amax(sums, -1) if ord > 0 else amin(sums, -1)
    raise ArgumentError(
        message(
            "matrix_norm", "argument 'ord'", repr(ord), "'fro', 'nuc', inf, -inf, 1, -1, 2 or -2"
        )
    )


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Vector or matrix norm, as NumPy's: without ``ord`` the 2-norm of all elements (of ``dim``).

    With ``ord``, two dimensions (or a matrix without ``dim``) take the matrix norm, else the vector norm.
    """
    a = as_tensor(A, "norm")
    two = isinstance(dim, list | tuple) and len(dim) == 2
    if isinstance(ord, str) or (ord is not None and (two or (dim is None and a.ndim == 2))):
        return matrix_norm(a, ord, (-2, -1) if dim is None else dim, keepdim)
    return vector_norm(a, 2 if ord is None else ord, dim, keepdim)


def matrix_rank(
    A: Any,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """Number of singular values above ``max(atol, rtol * largest)``; no gradient.

    ``tol`` is another name of ``atol``, the absolute tolerance (0 by default). ``rtol`` is relative to the largest
    singular value: ``eps * max(m, n)`` unless one of the two is given, then 0. Each is a number, or a tensor with one
    for each matrix. ``hermitian`` changes nothing here.

    Raises
    ------
    ArgumentError : both ``tol`` and ``atol``.
    """
    a = matrix(A, "matrix_rank")
    if tol is not None and atol is not None:
        raise ArgumentError(
            message("matrix_rank", "argument 'tol'", "given beside 'atol'", "one of them")
        )
    atol = tol if atol is None else atol
    s = spectral.svd(a.detach())[1]
    if atol is None and rtol is None:
        return count_above(s, relative_tolerance(a, None))
    least = _each(0.0 if rtol is None else rtol, "rtol") * s[..., :1]
    return (s > maximum(least, _each(0.0 if atol is None else atol, "atol"))).sum(-1)


def _each(tolerance: Any, arg: str) -> Any:
    """A tolerance for every singular value from one number, or one for every matrix."""
    if isinstance(tolerance, int | float):
        return float(tolerance)
    return as_tensor(tolerance, "matrix_rank", arg).detach().unsqueeze(-1)


def cond(A: Any, p: Any = None) -> Tensor:
    """Condition number in norm p (2 by default): ``norm(A) * norm(inv(A))``; infinite for a singular matrix with p 2."""
    a = matrix(A, "cond", square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(a)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(a, p) * matrix_norm(prim.inv(a), p)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """``sum(conj(x) * y)`` over a dimension."""
    a, b = as_tensor(x, "vecdot", "x"), as_tensor(y, "vecdot", "y")
    return ((conj(a) if a.dtype.kind == "c" else a) * b).sum(dim)
