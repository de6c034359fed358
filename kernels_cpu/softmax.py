"""softmax, log_softmax and logsumexp along an axis: each row is worked on while it is in the cache."""

from __future__ import annotations

import functools
import math

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
        {target}
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
        for i in range(n - r):
            x = p[r + i]
            s = top[i]
            top[i] = select((x > s) | (x != x), x, s)
        m = {dtype}(-inf)
        for i in range({lanes}):
            x = top[i]
            m = select((x > m) | (x != x), x, m)
        {shift}
        r = 0
        while r + {lanes} <= n:
            for i in range({lanes}):
                e = exp_{dtype}(p[r + i] - m)
                {keep}
                acc[i] = acc[i] + float64(e)
            r += {lanes}
        for i in range(n - r):
            e = exp_{dtype}(p[r + i] - m)
            {keep}
            acc[i] = acc[i] + float64(e)
        half = {lanes} // 2
        while half:
            for i in range(half):
                acc[i] = acc[i] + acc[i + half]
            half >>= 1
        total = acc[0]
        {finish}
        {write}
    clear_fp_flags()
"""
_LANES = 32


_LOOP = "for i in range(n):\n            "
_MODES = {
    "softmax": {
        "keep": "o[r + i] = e",
        "finish": "c = {t}(1.0 / total)",
        "write": _LOOP + "o[i] = o[i] * c",
    },
    "log_softmax": {
        "finish": "c = {t}(float64(m) + log_float64(total))",
        "write": _LOOP + "o[i] = p[i] - c",
    },
    "logsumexp": {
        # a row of -inf (or of +inf) must not become NaN
        "shift": "m = select((m == -inf) | (m == inf), {t}(0), m)",
        "finish": "o[0] = {t}(float64(m) + log_float64(total))",
    },
}


@functools.cache
def ufunc(mode: str, dtype: np.dtype) -> np.ufunc:
    """The gufunc over dense rows: ``(n)->(n)``, or ``(n)->()`` for logsumexp."""
    t = dtype.name
    blank = dict.fromkeys(("keep", "shift", "finish", "write"), "")
    parts = {k: v.format(t=t) for k, v in (blank | _MODES[mode]).items()}
    source = _SOURCE.format(
        t=code(dtype),
        dtype=t,
        lanes=_LANES,
        target=f"o = ptr_{code(dtype)}(args[1] + q * steps[1])",
        **parts,
    )
    address = build.compile_loop(source)
    signature = "(n)->()" if mode == "logsumexp" else "(n)->(n)"
    return build.make_ufunc(mode, address, [dtype, dtype], 1, signature)


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
    kernel = ufunc("log_softmax" if log else "softmax", x.dtype)

    def piece(lo: int, hi: int) -> None:
        kernel(flat[lo:hi], out=out[lo:hi])

    threads.split(piece, flat.shape[0], 8 * x.size)  # exp costs several additions
    return out.reshape(rows.shape).swapaxes(axis, -1)


def logsumexp(x: np.ndarray, axes: tuple[int, ...], keepdim: bool = False) -> np.ndarray:
    """``log(sum(exp(x)))`` of a float32 or float64 array over axes; -inf over nothing."""
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdim or i in kept)
    moved = x.transpose(kept + axes)
    if not moved.flags.c_contiguous and x.flags.c_contiguous and len(axes) == 1:
        return _columns_logsumexp(x, axes[0]).reshape(shape)
    lead = moved.shape[: len(kept)]
    rows = np.ascontiguousarray(moved).reshape(math.prod(lead), math.prod(moved.shape[len(kept) :]))
    out = np.empty(rows.shape[0], x.dtype)
    kernel = ufunc("logsumexp", x.dtype)

    def piece(lo: int, hi: int) -> None:
        kernel(rows[lo:hi], out=out[lo:hi])

    threads.split(piece, rows.shape[0], 8 * x.size)
    return out.reshape(shape)


def _columns_logsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    """Along an axis that is not the dense one: whole-array passes in memory order."""
    top = reduce("max", x, (axis,), True)
    shift = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    e = np.empty(x.shape, x.dtype)
    threads.run(_shifted_exp(x.dtype), (x, shift), (e,))
    with np.errstate(all="ignore"):
        return np.asarray(np.log(reduce("sum", e, (axis,), True)) + shift)
