"""Matrix and tensor products: public functions over the matmul primitive and `einsum`."""

from __future__ import annotations

from typing import Any

from .. import dtypes as dt
from ..errors import ShapeError, message
from ..layout import broadcast_shapes, normalize_axis
from ..op import as_tensor, cast
from ..op.public import METHODS, public
from ..tensor import Tensor
from . import basic
from .einsum import einsum
from .view import _reshape


@public
def matmul(input: Any, other: Any) -> Tensor:
    """Matrix product with NumPy's rules: vectors, matrices and broadcast batches of matrices.

    Raises
    ------
    ShapeError : the inner sizes differ, or an operand is 0-d.
    """
    a, b = as_tensor(input, "matmul", "input"), as_tensor(other, "matmul", "other")
    if not a.ndim or not b.ndim:
        raise ShapeError(
            message(
                "matmul", "an operand's shape", (), "at least 1 dimension", "Use * for scalars."
            )
        )
    dtype = dt.promote(a.dtype, b.dtype)
    a, b = cast(a, dtype), cast(b, dtype)
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise ShapeError(
            message(
                "matmul",
                "argument 'other' of shape",
                tuple(b.shape),
                f"{a.shape[-1]} rows, the last size of 'input' {tuple(a.shape)}",
                "Transpose or reshape one of them.",
            )
        )
    one_a, one_b = a.ndim == 1, b.ndim == 1
    if one_a:
        a = _reshape(a, (1, *a.shape))
    if one_b:
        b = _reshape(b, (*b.shape, 1))
    broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]), op="matmul")
    out = basic.matmul(a, b)
    if one_a or one_b:
        shape = list(out.shape)
        if one_b:
            shape.pop()
        if one_a:
            shape.pop(-1 if one_b else -2)
        out = _reshape(out, tuple(shape))
    return out


def _matrix(x: Any, op: str, arg: str, ndim: int) -> Tensor:
    t = as_tensor(x, op, arg)
    if t.ndim != ndim:
        raise ShapeError(
            message(
                op,
                f"argument '{arg}' of shape",
                tuple(t.shape),
                f"{ndim} dimension{'s' * (ndim > 1)}",
                "Use matmul for other ranks.",
            )
        )
    return t


@public
def mm(input: Any, mat2: Any) -> Tensor:
    """Product of two matrices."""
    return matmul(_matrix(input, "mm", "input", 2), _matrix(mat2, "mm", "mat2", 2))


@public
def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of two equally long batches of matrices, ``(b, n, k)`` with ``(b, k, m)``."""
    a, b = _matrix(input, "bmm", "input", 3), _matrix(mat2, "bmm", "mat2", 3)
    if a.shape[0] != b.shape[0]:
        raise ShapeError(
            message(
                "bmm",
                "argument 'mat2' of shape",
                tuple(b.shape),
                f"a batch of {a.shape[0]}, as in 'input'",
                "Use matmul to broadcast.",
            )
        )
    return matmul(a, b)


@public
def mv(input: Any, vec: Any) -> Tensor:
    """Product of a matrix and a vector."""
    return matmul(_matrix(input, "mv", "input", 2), _matrix(vec, "mv", "vec", 1))


def _added(op: str, input: Any, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """``beta * input + alpha * product``; with beta 0 the input is not read (its NaN do not count)."""
    base = as_tensor(input, op)
    shape = tuple(product.shape)
    if broadcast_shapes(tuple(base.shape), shape, op=op) != shape:
        raise ShapeError(
            message(
                op,
                "argument 'input' of shape",
                tuple(base.shape),
                f"one that broadcasts to {shape}",
            )
        )
    out = product if alpha == 1 else product * alpha
    if isinstance(beta, int | float) and beta == 0:
        return out
    return (base if isinstance(beta, int | float) and beta == 1 else base * beta) + out


@public(inplace=True)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` for matrices; input broadcasts."""
    return _added("addmm", input, mm(mat1, mat2), beta, alpha)


@public(inplace=True)
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``; input broadcasts."""
    return _added("addmv", input, mv(mat, vec), beta, alpha)


@public(inplace=True)
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)`` for batches of matrices; input broadcasts."""
    return _added("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@public(inplace=True)
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * sum(batch1 @ batch2)`` with the products summed over the batch."""
    total = basic.sum_(bmm(batch1, batch2), axes=(0,), keepdim=False)
    return _added("addbmm", input, total, beta, alpha)


@public(inplace=True)
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``."""
    a, b = _matrix(vec1, "addr", "vec1", 1), _matrix(vec2, "addr", "vec2", 1)
    product = _reshape(a, (*a.shape, 1)) * b
    return _added("addr", input, product, beta, alpha)


@public
def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Sum of products over ``dims``: a number (the last of a with the first of b) or two lists of dimensions.

    Raises
    ------
    ShapeError : paired dimensions of different size. IndexingError : a dimension that does not exist.
    """
    x, y = as_tensor(a, "tensordot", "a"), as_tensor(b, "tensordot", "b")
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(x.ndim, y.ndim):
            raise ShapeError(
                message(
                    "tensordot",
                    "argument 'dims'",
                    dims,
                    f"a number from 0 to {min(x.ndim, y.ndim)}",
                )
            )
        dims = (range(x.ndim - dims, x.ndim), range(dims))
    first, second = (([d] if isinstance(d, int) else list(d)) for d in dims)
    first = [normalize_axis(d, x.ndim, "tensordot", "dims") for d in first]
    second = [normalize_axis(d, y.ndim, "tensordot", "dims") for d in second]
    if len(first) != len(second) or [x.shape[i] for i in first] != [y.shape[j] for j in second]:
        raise ShapeError(
            message(
                "tensordot",
                "argument 'dims'",
                dims,
                f"pairs of dimensions of equal size in {tuple(x.shape)} and {tuple(y.shape)}",
            )
        )
    names = list(range(x.ndim))
    others = [x.ndim + j for j in range(y.ndim)]
    for i, j in zip(first, second, strict=True):
        others[j] = names[i]
    out = [i for i in names if i not in first] + [j for j in others if j >= x.ndim]
    return einsum(x, names, y, others, out)


@public
def kron(input: Any, other: Any) -> Tensor:
    """Kronecker product: blocks of ``other`` scaled by the elements of ``input``, in any rank."""
    a, b = as_tensor(input, "kron"), as_tensor(other, "kron", "other")
    rank = max(a.ndim, b.ndim)
    p = (*(1,) * (rank - a.ndim), *a.shape)
    q = (*(1,) * (rank - b.ndim), *b.shape)
    wide_a = tuple(v for n in p for v in (n, 1))
    wide_b = tuple(v for n in q for v in (1, n))
    out = _reshape(a, wide_a) * _reshape(b, wide_b)
    return _reshape(out, tuple(n * m for n, m in zip(p, q, strict=True)))


@public(method=False, alias=("chain_matmul",))
def multi_dot(*tensors: Any) -> Tensor:
    """Product of several matrices in the order of fewest multiplications; the outer two may be vectors.

    The order is found by dynamic programming (Cormen et al., section 15.2).
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    parts = [as_tensor(t, "multi_dot") for t in given]
    if not parts:
        raise ShapeError(message("multi_dot", "the number of matrices", 0, "at least one"))
    for i, t in enumerate(parts):
        if t.ndim != 2 and not (t.ndim == 1 and i in (0, len(parts) - 1)):
            raise ShapeError(
                message(
                    "multi_dot",
                    f"operand {i} of shape",
                    tuple(t.shape),
                    "a matrix (the outer two may be vectors)",
                )
            )
    if len(parts) == 1:
        return parts[0]
    rows = [
        t.shape[0] if t.ndim == 2 else (1 if i == 0 else t.shape[0]) for i, t in enumerate(parts)
    ]
    sizes = [*rows, parts[-1].shape[1] if parts[-1].ndim == 2 else 1]
    return _chain(parts, _splits(sizes), 0, len(parts) - 1)


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split the product of matrices i..j for the fewest multiplications."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split = {}
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _chain(parts: list[Tensor], split: dict, i: int, j: int) -> Tensor:
    if i == j:
        return parts[i]
    k = split[i, j]
    return matmul(_chain(parts, split, i, k), _chain(parts, split, k + 1, j))


@public(method=False)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """``out[.., o] = input1[.., i] weight[o, i, j] input2[.., j] + bias[o]``."""
    w = _matrix(weight, "bilinear", "weight", 3)
    out = einsum("...i,oij,...j->...o", input1, w, input2)
    return out if bias is None else out + bias


METHODS["__matmul__"] = matmul
METHODS["__rmatmul__"] = lambda self, other: matmul(other, self)
