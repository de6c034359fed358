"""Primitives everything else needs: dtype conversion, sum, matmul."""

from __future__ import annotations

import numpy as np

from .. import dtypes as dt
from ..op import Spec, cast, operator
from ..op.batching import front
from ..op.samples import calls
from .view import _reshape, expand, permute


@operator(
    linear=(0,),
    tests=calls(
        (((2, 3),), {"dtype": dt.float64}),
        (((),), {"dtype": dt.complex128}),
        (((0, 2),), {"dtype": dt.int64}),
    ),
    reference=lambda x, dtype: (x.real if dtype.kind != "c" else x).astype(dtype),
)
def to_dtype(x, *, dtype):
    """Convert the dtype; complex to real takes the real part, to bool tests for nonzero."""
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    with np.errstate(all="ignore"):
        return x.astype(dtype)


@to_dtype.vjp
def _(g, out, x, *, needs, dtype):
    return (cast(g, x.dtype),)


@to_dtype.jvp
def _(tangents, out, x, *, dtype):
    return cast(tangents[0], dtype) if dtype.kind in "fc" else None


@to_dtype.batch
def _(dims, x, *, dtype):
    return to_dtype(x, dtype=dtype), dims[0]


@to_dtype.infer
def _(x, *, dtype):
    return Spec(x.shape, dtype)


@operator(
    "sum",
    linear=(0,),
    tests=calls(
        (((2, 3, 4),), {"axes": (0, 2), "keepdim": False}),
        (((2, 3),), {"axes": (1,), "keepdim": True}),
        (((2, 3),), {"axes": (0, 1), "keepdim": False}),
        (((2, 0, 3),), {"axes": (1,), "keepdim": False}),
        (((),), {"axes": (), "keepdim": False}),
    ),
    reference=lambda x, axes, keepdim: np.sum(x, axis=axes, keepdims=keepdim),
)
def sum_(x, *, axes, keepdim):
    """Sum over axes; float32 accumulates in float64, integers in int64."""
    from kernels_cpu.reduce import reduce

    if x.dtype is dt.float16:
        return reduce("sum", x.astype(dt.float32), axes, keepdim).astype(dt.float16)
    return reduce("sum", x, axes, keepdim)


def restore_axes(g, shape, axes, keepdim):
    """Put reduced axes back as size 1 and expand to the input's shape."""
    if not keepdim:
        g = _reshape(g, tuple(1 if i in axes else n for i, n in enumerate(shape)))
    return expand(g, shape=tuple(shape))


@sum_.vjp
def _(g, out, x, *, needs, axes, keepdim):
    return (restore_axes(g, x.shape, axes, keepdim),)


@sum_.batch
def _(dims, x, *, axes, keepdim):
    return sum_(front(x, dims[0]), axes=tuple(a + 1 for a in axes), keepdim=keepdim), 0


@sum_.infer
def _(x, *, axes, keepdim):
    from ..op.shapes import reduced

    dtype = dt.int64 if x.dtype.kind in "biu" else x.dtype
    return Spec(reduced(x.shape, axes, keepdim), dtype)


@operator(
    nin=2,
    multilinear=(0, 1),
    saves=lambda needs, params: (*((1,) if needs[0] else ()), *((0,) if needs[1] else ())),
    tests=calls(
        (((2, 3), (3, 4)), {}),
        (((2, 1, 2, 3), (4, 3, 2)), {}),
        (((2, 0), (0, 3)), {}),
        (((0, 2), (2, 3)), {}),
    ),
    reference=np.matmul,
)
def matmul(a, b):
    """Matrix product of the last two dimensions with broadcast batch dimensions (BLAS)."""
    with np.errstate(all="ignore"):
        return np.matmul(a, b)


def _t(x):
    n = x.ndim
    return permute(x, dims=(*range(n - 2), n - 1, n - 2))


def _h(x):
    from .elementwise import conj

    x = _t(x)
    return conj(x) if x.dtype.kind == "c" else x


@matmul.vjp
def _(g, out, a, b, *, needs):
    return (
        matmul(g, _h(b)) if needs[0] else None,
        matmul(_h(a), g) if needs[1] else None,
    )


@matmul.batch
def _(dims, a, b):
    rank = max(a.ndim - (dims[0] is not None), b.ndim - (dims[1] is not None)) + 1
    out = []
    for x, d in ((a, dims[0]), (b, dims[1])):
        if d is not None:
            x = front(x, d)
            x = _reshape(x, (x.shape[0], *(1,) * (rank - x.ndim), *x.shape[1:]))
        out.append(x)
    return matmul(*out), 0


@matmul.infer
def _(a, b):
    from ..layout import broadcast_shapes

    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], op="matmul")
    return Spec((*batch, a.shape[-2], b.shape[-1]), a.dtype)
