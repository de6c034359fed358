"""softmax and log_softmax along an axis: one pass over each row while it is in the cache."""

from __future__ import annotations

import functools

import numpy as np

from . import build, threads
from .codes import code
from .elementwise import build_ufunc
from .reduce import reduce

_SOURCE = """
def k(args, dims, steps, data):
    n = dims[1]
    acc = tile_f8()
    top = tile_{t}()
    for q in range(dims[0]):
        p = ptr_{t}(args[0] + q * steps[0])
        o = ptr_{t}(args[1] + q * steps[1])
        for i in range({lanes}):
            top[i] = {dtype}(-inf)
            acc[i] = 0.0
        r = 0
        while r + {lanes} <= n:
            for i in range({lanes}):
                x = p[r + i]
                s = top[i]
                top[i] = select((x > s) | (x != x), x, s)
            r += {lanes}
        m = {dtype}(-inf)
        while r < n:
            x = p[r]
            m = select((x > m) | (x != x), x, m)
            r += 1
        for i in range({lanes}):
            x = top[i]
            m = select((x > m) | (x != x), x, m)
        r = 0
        while r + {lanes} <= n:
            for i in range({lanes}):
                e = exp_{dtype}(p[r + i] - m)
                {keep}
                acc[i] = acc[i] + float64(e)
            r += {lanes}
        total = 0.0
        while r < n:
            e = exp_{dtype}(p[r] - m)
            {keep_tail}
            total += float64(e)
            r += 1
        half = {lanes} // 2
        while half:
            for i in range(half):
                acc[i] = acc[i] + acc[i + half]
            half >>= 1
        total += acc[0]
        {finish}
        for i in range(n):
            {write}
    clear_fp_flags()
"""
_LANES = 32


@functools.cache
def ufunc(log: bool, dtype: np.dtype) -> np.ufunc:
    """The gufunc ``(n)->(n)`` over dense rows."""
    t = dtype.name
    source = _SOURCE.format(
        t=code(dtype),
        dtype=t,
        lanes=_LANES,
        keep="" if log else "o[r + i] = e",
        keep_tail="" if log else "o[r] = e",
        finish=f"c = {t}(float64(m) + log_float64(total))" if log else f"c = {t}(1.0 / total)",
        write="o[i] = p[i] - c" if log else "o[i] = o[i] * c",
    )
    address = build.compile_loop(source)
    return build.make_ufunc("softmax", address, [dtype, dtype], 1, "(n)->(n)")


@functools.cache
def _shifted_exp(dtype: np.dtype) -> np.ufunc:
    body = [f"t0 = exp_{dtype.name}(x0 - x1)"]
    return build_ufunc("shifted_exp", [dtype] * 2, [dtype], body, ["t0"], ["x0", "x1"])


def _columns(x: np.ndarray, axis: int, log: bool) -> np.ndarray:
    """Along an axis that is not the dense one: whole-array passes in memory order."""
    top = reduce("max", x, (axis,), True)
    out = np.empty(x.shape, x.dtype)
    threads.run(_shifted_exp(x.dtype), (x, top), (out,))
    total = reduce("sum", out, (axis,), True)
    with np.errstate(all="ignore"):
        if log:
            return np.subtract(x, np.log(total) + top, out=out)
        return np.multiply(out, 1 / total, out=out)


def softmax(x: np.ndarray, axis: int, log: bool = False) -> np.ndarray:
    """softmax (or its logarithm) of a float32 or float64 array along an axis."""
    if not x.size:
        return np.empty(x.shape, x.dtype)
    if not x.ndim:
        return softmax(x[None], 0, log)[0, ...]
    if axis != x.ndim - 1 and x.strides[axis] != x.itemsize:
        return _columns(x, axis, log)
    rows = np.ascontiguousarray(x.swapaxes(axis, -1))
    n = rows.shape[-1]
    flat = rows.reshape(-1, n)
    out = np.empty_like(flat)
    kernel = ufunc(log, x.dtype)

    def piece(lo: int, hi: int) -> None:
        kernel(flat[lo:hi], out=out[lo:hi])

    threads.split(piece, flat.shape[0], 8 * x.size)  # exp costs several additions
    return out.reshape(rows.shape).swapaxes(axis, -1)
