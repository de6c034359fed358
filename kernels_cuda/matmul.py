"""Matrix products: shared-memory tiles, a small block of results per thread, any strides, batches.

A block computes a tile of ``threads * micro`` rows and columns. Each thread keeps ``micro x micro`` results in
registers, so that one load from shared memory serves ``micro`` products.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import scalar
from ._compat import I64, Arg, Kernel, View, grid_for, kernel, pointer, ptr, simulated, val
from .elementwise import collapse


class Shape(NamedTuple):
    """Threads along one edge of a block, results per thread along one edge, depth of a tile."""

    threads: int
    micro: int
    depth: int


def shape_for(dtype: np.dtype) -> Shape:
    """The tile shape of a dtype: as large as registers and 48 KiB of shared memory allow."""
    if simulated():
        return Shape(2, 2, 3)
    return Shape(16, 4, 16) if dtype.itemsize <= 8 else Shape(16, 2, 16)


def source(
    dtype: np.dtype, s: Shape, batch: int, dense: tuple[bool, bool]
) -> tuple[str, list[Arg]]:
    """Source of ``c[b] = a[b] @ b[b]``.

    ``dense`` tells of each operand whether its inner dimension is the last one (k for a, n for b): neighbouring threads
    load along the dense one. ``batch`` is the number of merged batch dimensions.
    """
    t, u, depth = s
    edge = t * u
    name = dtype.name
    params = ["a", "b", "c", "m", "n", "kk", "am", "ak", "bk", "bn"]
    for p in ("a", "b"):
        params += [f"{p}s{d}" for d in range(batch)]
    params += [f"z{d}" for d in range(1, batch)]
    lines = [
        f"def k({', '.join(params)}):",
        f"    sa = cuda.shared.array(({depth}, {edge + 1}), {name})",
        f"    sb = cuda.shared.array(({depth}, {edge + 1}), {name})",
        "    tx = int64(cuda.threadIdx.x)",
        "    ty = int64(cuda.threadIdx.y)",
        f"    t = uint64(ty * {t} + tx)",  # unsigned, so that division by a constant is a shift
        f"    i0 = int64(cuda.blockIdx.y) * {edge}",
        f"    j0 = int64(cuda.blockIdx.x) * {edge}",
        "    z = int64(cuda.blockIdx.z)",
        *_batch_offsets(batch),
        *[f"    c{i}{j} = {name}(0)" for i in range(u) for j in range(u)],
        "    k0 = int64(0)",
        "    while k0 < kk:",
        *_tile_load("sa", "a[oa + {row} * am + {k} * ak]", "i0", "m", s, name, dense[0]),
        *_tile_load("sb", "b[ob + {k} * bk + {row} * bn]", "j0", "n", s, name, not dense[1]),
        "        cuda.syncthreads()",
        f"        for q in range({depth}):",
        *[f"            a{i} = sa[q, ty + {i * t}]" for i in range(u)],
        *[f"            b{j} = sb[q, tx + {j * t}]" for j in range(u)],
        *[
            f"            c{i}{j} = {_multiply_add(f'c{i}{j}', f'a{i}', f'b{j}', dtype)}"
            for i in range(u)
            for j in range(u)
        ],
        "        cuda.syncthreads()",
        f"        k0 += {depth}",
        "    base = z * m * n",
    ]
    for i in range(u):
        for j in range(u):
            row, col = f"i0 + ty + {i * t}", f"j0 + tx + {j * t}"
            lines += [
                f"    if {row} < m and {col} < n:",
                f"        c[base + ({row}) * n + {col}] = c{i}{j}",
            ]
    count = 7 + 2 * batch + max(batch - 1, 0)
    return "\n".join(lines) + "\n", [*[ptr(dtype)] * 3, *[val(I64)] * count]


def _multiply_add(c: str, a: str, b: str, dtype: np.dtype) -> str:
    text = f"{c} + {a} * {b}"
    return f"{dtype.name}({text})" if dtype.kind in "iu" else text


def _batch_offsets(batch: int) -> list[str]:
    lines = ["    oa = int64(0)", "    ob = int64(0)", "    w = z"]
    for d in range(batch - 1, -1, -1):
        index = "w" if d == 0 else f"w % z{d}"
        lines += [f"    oa += ({index}) * as{d}", f"    ob += ({index}) * bs{d}"]
        if d:
            lines.append(f"    w = w // z{d}")
    return lines


def _tile_load(
    sm: str, text: str, start: str, bound: str, s: Shape, name: str, k_dense: bool
) -> list[str]:
    """Fill ``sm[depth, edge]``: consecutive threads go along k where that is the dense direction."""
    t, u, depth = s
    edge = t * u
    inner = f"uint64({depth if k_dense else edge})"
    first, second = f"int64(e % {inner})", f"int64(e // {inner})"
    q, r = (first, second) if k_dense else (second, first)
    return [
        "        e = t",
        f"        while e < uint64({edge * depth}):",
        f"            q = {q}",
        f"            r = {r}",
        f"            v = {name}(0)",
        f"            if {start} + r < {bound} and k0 + q < kk:",
        f"                v = {text.format(row=f'({start} + r)', k='(k0 + q)')}",
        f"            {sm}[q, r] = v",
        f"            e += uint64({t * t})",
    ]


@functools.lru_cache(maxsize=256)
def _compiled(dtype: np.dtype, batch: int, dense: tuple[bool, bool]) -> Kernel:
    s = shape_for(dtype)
    text, args = source(dtype, s, batch, dense)
    return kernel(text, args, scalar.namespace(), s.threads**2)


def run(a: View, b: View, out: View, stream: Any = 0) -> None:
    """``out[...] = a @ b`` over the last two dimensions; batch dimensions are already broadcast (stride 0)."""
    if not out.size:
        return
    m, n = out.shape[-2:]
    depth = a.shape[-1]
    sizes, (a_steps, b_steps) = collapse(out.shape[:-2], [a.strides[:-2], b.strides[:-2]])
    count = 1
    for z in sizes:
        count *= z
    dense = (abs(a.strides[-1]) <= abs(a.strides[-2]), abs(b.strides[-1]) <= abs(b.strides[-2]))
    k = _compiled(out.dtype, len(sizes), dense)
    s = shape_for(out.dtype)
    edge = s.threads * s.micro
    numbers = [m, n, depth, a.strides[-2], a.strides[-1], b.strides[-2], b.strides[-1]]
    numbers += [*a_steps, *b_steps, *sizes[1:]]
    _launch(k, s, edge, (m, n, count), [pointer(a), pointer(b), pointer(out)], numbers, stream)


def _launch(
    k: Kernel, s: Shape, edge: int, size: Sequence[int], pointers: list, numbers: list, stream: Any
) -> None:
    m, n, count = size
    grid = (grid_for(n, edge), grid_for(m, edge), count)
    if grid[1] > 65535 or grid[2] > 65535:
        raise ValueError(f"matmul: {m} rows in {count} products exceed a CUDA grid")
    args = [*pointers, *[np.int64(v) for v in numbers]]
    k(grid, (s.threads, s.threads), stream, args)
