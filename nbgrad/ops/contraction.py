"""Matrix products: public functions over the matmul primitive."""

from __future__ import annotations

from typing import Any

from .. import dtypes as dt
from ..errors import ShapeError, message
from ..layout import broadcast_shapes
from ..op import as_tensor, cast
from ..op.public import METHODS, public
from ..tensor import Tensor
from . import basic
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


METHODS["__matmul__"] = matmul
METHODS["__rmatmul__"] = lambda self, other: matmul(other, self)
