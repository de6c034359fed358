"""Reductions: combine and identity give two schedules, each in as many passes as fill the device.

* *Rows*: a block reduces one row; threads stride through it and meet in shared memory.
* *Columns*: the kept axis is the dense one; a thread reduces one column, neighbours read neighbouring elements.

Long rows or columns are cut into pieces, whose partial results (in the accumulator's dtype) are reduced again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import scalar
from ._compat import (
    I64,
    Arg,
    Kernel,
    View,
    block_size,
    grid_for,
    kernel,
    pointer,
    ptr,
    simulated,
    val,
)
from .elementwise import collapse

# combine text (s: accumulator, x: element) and identity, per reduction
RULES = {
    "sum": ("s + x", "0"),
    "prod": ("s * x", "1"),
    "max": ("x if x > s or x != x else s", "-inf"),
    "min": ("x if x < s or x != x else s", "inf"),
    "any": ("s | x", "0"),
    "all": ("s & x", "1"),
}


def accumulator(name: str, dtype: np.dtype) -> np.dtype:
    """float32 sums and products accumulate in float64, integer ones in int64; the rest in the dtype itself."""
    if name in ("any", "all"):
        return np.dtype("bool")
    if name in ("sum", "prod"):
        if dtype.kind in "biu":
            return np.dtype("int64")
        wide = {"float16": "float32", "float32": "float64", "complex64": "complex128"}
        return np.dtype(wide.get(dtype.name, dtype.name))
    return np.dtype({"float16": "float32", "bool": "uint8"}.get(dtype.name, dtype.name))


def result(name: str, dtype: np.dtype) -> np.dtype:
    """The dtype a reduction returns."""
    acc = accumulator(name, dtype)
    return acc if acc.kind == "b" or (name in ("sum", "prod") and dtype.kind in "biu") else dtype


def _identity(name: str, acc: np.dtype) -> str:
    init = RULES[name][1]
    if acc.kind in "iu" and "inf" in init:
        info = np.iinfo(acc)
        return f"{acc.name}({info.min if init == '-inf' else info.max})"
    return f"{_typed(acc)}({init})"


def _typed(dtype: np.dtype) -> str:
    return "uint8" if dtype.kind == "b" else dtype.name


def _element(name: str, acc: np.dtype, text: str) -> str:
    if acc.kind == "b":
        return f"uint8({text} != 0)"
    return f"{_typed(acc)}({text})"


def _combine(name: str, acc: np.dtype) -> str:
    text = RULES[name][0]
    return f"{_typed(acc)}({text})" if acc.kind in "biu" and name not in ("max", "min") else text


def _offset(prefix: str, index: str, ndim: int, target: str, pad: str) -> list[str]:
    """Lines that turn a linear index into an element offset over ``ndim`` dimensions."""
    lines = [f"{pad}q = {index}"]
    terms = []
    for d in range(ndim - 1, 0, -1):
        lines += [f"{pad}{prefix}r{d} = q % {prefix}n{d}", f"{pad}q = q // {prefix}n{d}"]
        terms.append(f"{prefix}r{d} * {prefix}s{d}")
    return [*lines, f"{pad}{target} = " + " + ".join([f"q * {prefix}s0", *terms])]


def _head(kept: int, reduced: int) -> str:
    names = ["a", "o", "nq", "m", "chunk"]
    for prefix, ndim in (("k", kept), ("r", reduced)):
        names += [f"{prefix}n{d}" for d in range(1, ndim)]
        names += [f"{prefix}s{d}" for d in range(ndim)]
    return f"def k({', '.join(names)}):"


def _loop(name: str, acc: np.dtype, reduced: int, start: str, step: str) -> list[str]:
    """Accumulate elements ``start, start + step, ... < hi`` of the row at ``base`` into ``s``."""
    pad = "        "
    lines = [f"        r = {start}", "        while r < hi:"]
    if reduced == 1:
        lines.append(f"{pad}    at = base + r * rs0")
    else:
        lines += _offset("r", "r", reduced, "at", pad + "    ")
        lines.append(f"{pad}    at += base")
    return [
        *lines,
        f"{pad}    x = {_element(name, acc, 'a[at]')}",
        f"{pad}    s = {_combine(name, acc)}",
        f"{pad}    r += {step}",
    ]


def _args(dtype: np.dtype, out: np.dtype, kept: int, reduced: int) -> list[Arg]:
    return [ptr(dtype), ptr(out), *[val(I64)] * (3 + 2 * kept - 1 + 2 * reduced - 1)]


def columns_source(
    name: str, dtype: np.dtype, out: np.dtype, kept: int, reduced: int
) -> tuple[str, list[Arg]]:
    """A thread per result: ``o[piece * nq + result]``."""
    acc = accumulator(name, dtype)
    lines = [
        _head(kept, reduced),
        "    i = int64(cuda.grid(1))",
        "    piece = int64(cuda.blockIdx.y)",
        "    if i < nq:",
        *_offset("k", "i", kept, "base", "        "),
        f"        s = {_identity(name, acc)}",
        "        hi = min((piece + 1) * chunk, m)",
        *_loop(name, acc, reduced, "piece * chunk", "1"),
        f"        o[piece * nq + i] = {_typed(out)}(s)",
    ]
    return "\n".join(lines) + "\n", _args(dtype, out, kept, reduced)


def rows_source(
    name: str, dtype: np.dtype, out: np.dtype, kept: int, reduced: int, threads: int
) -> tuple[str, list[Arg]]:
    """A block per result and piece: ``o[result * pieces + piece]``."""
    acc = accumulator(name, dtype)
    lines = [
        _head(kept, reduced),
        f"    sm = cuda.shared.array({threads}, {_typed(acc)})",
        "    t = int64(cuda.threadIdx.x)",
        "    i = int64(cuda.blockIdx.x)",
        "    piece = int64(cuda.blockIdx.y)",
        f"    s = {_identity(name, acc)}",
        "    if i < nq:",
        *_offset("k", "i", kept, "base", "        "),
        "        hi = min((piece + 1) * chunk, m)",
        *_loop(name, acc, reduced, "piece * chunk + t", str(threads)),
        "    sm[t] = s",
        "    cuda.syncthreads()",
        f"    h = {threads // 2}",
        "    while h > 0:",
        "        if t < h:",
        "            s = sm[t]",
        "            x = sm[t + h]",
        f"            sm[t] = {_combine(name, acc)}",
        "        cuda.syncthreads()",
        "        h = h // 2",
        "    if t == 0 and i < nq:",
        f"        o[i * int64(cuda.gridDim.y) + piece] = {_typed(out)}(sm[0])",
    ]
    return "\n".join(lines) + "\n", _args(dtype, out, kept, reduced)


@functools.lru_cache(maxsize=1024)
def _compiled(
    rows: bool, name: str, dtype: np.dtype, out: np.dtype, kept: int, reduced: int
) -> Kernel:
    if rows:
        source, args = rows_source(name, dtype, out, kept, reduced, block_size())
    else:
        source, args = columns_source(name, dtype, out, kept, reduced)
    return kernel(source, args, namespace())


@functools.cache
def namespace() -> dict[str, Any]:
    """Globals of reduction kernels; shared arrays take NumPy's scalar types on a device too."""
    return scalar.namespace()


def pieces(nq: int, m: int, rows: bool) -> int:
    """Into how many pieces to cut each row so that the device is busy."""
    wanted, least = (4, 16) if simulated() else (1024, 2048 if rows else 64)
    busy = nq if rows else grid_for(nq, block_size())
    return max(min(wanted // max(busy, 1), m // least, 65535), 1)


def run(
    name: str,
    a: View,
    axes: Sequence[int],
    out: View,
    scratch: Callable[[int], Any],
    stream: Any = 0,
) -> None:
    """Reduce ``a`` over ``axes`` into the contiguous ``out`` (kept dimensions in their order).

    ``scratch(nbytes)`` gives a `Memory` for partial results that stays valid until the stream has used it.
    """
    if not out.size:
        return
    kept = [d for d in range(len(a.shape)) if d not in axes]
    kept_shape, (kept_steps,) = collapse([a.shape[d] for d in kept], [[a.strides[d] for d in kept]])
    order = sorted(axes, key=lambda d: -abs(a.strides[d]))
    red_shape, (red_steps,) = collapse([a.shape[d] for d in order], [[a.strides[d] for d in order]])
    m = 1
    for d in axes:
        m *= a.shape[d]
    if not m:
        red_shape, red_steps = (0,), (0,)
    dense = abs(kept_steps[-1]) < abs(red_steps[-1]) if kept_steps and red_steps else False
    rows = m >= (8 if simulated() else 64) and not (dense and out.size >= block_size())
    _pass(name, a, (kept_shape, kept_steps), (red_shape, red_steps), out, rows, scratch, stream)


def _pass(name, a, kept, reduced, out, rows, scratch, stream) -> None:
    nq, m = out.size, 1
    for n in reduced[0]:
        m *= n
    parts = pieces(nq, m, rows)
    acc = accumulator(name, a.dtype)
    target = out
    if parts > 1:
        memory = scratch(nq * parts * acc.itemsize)
        target = View(memory, acc, (nq * parts,), (1,))
    chunk = -(-m // parts)
    k_shape, k_steps = kept if kept[0] else ((1,), (0,))
    r_shape, r_steps = reduced if reduced[0] else ((1,), (0,))
    k = _compiled(rows, name, a.dtype, target.dtype, len(k_shape), len(r_shape))
    args = [pointer(a), pointer(target)]
    args += [np.int64(v) for v in (nq, m, chunk, *k_shape[1:], *k_steps, *r_shape[1:], *r_steps)]
    block = block_size()
    grid = (nq if rows else grid_for(nq, block), parts)
    k(grid, block, stream, args)
    if parts > 1:
        step = (parts, 1) if rows else (1, nq)
        rest = (((nq,), (step[0],)), ((parts,), (step[1],)))
        _pass(name, target, *rest, out, rows and parts >= 64, scratch, stream)
