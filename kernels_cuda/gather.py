"""Gather and scatter by index arrays, and the adjoint of overlapping views.

One loop: result element ``(j, kept)`` belongs to the element of ``x`` that the index arrays name at ``j``. Adding
scatters use atomics: floating-point sums over repeated indices may differ in the last digits from run to run.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import scalar
from ._compat import (
    I64,
    Arg,
    Kernel,
    View,
    arr,
    array_argument,
    block_size,
    grid_for,
    kernel,
    pointer,
    ptr,
    val,
)
from .elementwise import collapse

ATOMIC = ("float64", "float32", "int64", "int32", "complex128", "complex64")


def part(dtype: np.dtype) -> np.dtype:
    """What an atomic addition works on: complex numbers are added part by part."""
    return np.dtype({"complex128": "float64", "complex64": "float32"}.get(dtype.name, dtype.name))


def source(mode: str, dtype: np.dtype, indices: int, kept: int) -> tuple[str, list[Arg]]:
    """Source of one direction.

    ``mode``: 'get' (``o = x``), 'put' (``x = o`` where the flag of j is set) or 'add' (``x += o``).
    """
    params = ["x", "x0", "o"] + [f"p{m}" for m in range(indices)]
    args = [arr(part(dtype)) if mode == "add" else ptr(dtype), val(I64), ptr(dtype)]
    args += [ptr(I64)] * indices
    if mode == "put":
        params.append("flag")
        args.append(ptr(np.dtype("uint8")))
    numbers = ["total", "kk", "oj"]
    for d in range(kept):
        numbers += [f"n{d}", f"x{d}s", f"o{d}s"]
    for m in range(indices):
        numbers += [f"size{m}", f"step{m}"]
    lines = [
        f"def k({', '.join(params + numbers)}):",
        "    i = int64(cuda.grid(1))",
        "    if i < total:",
        "        j = i // kk",
        "        q = i % kk",
        "        xo = x0",
        "        oo = j * oj",
    ]
    for d in range(kept - 1, -1, -1):
        lines += [f"        r = q % n{d}", f"        q = q // n{d}"]
        lines += [f"        xo += r * x{d}s", f"        oo += r * o{d}s"]
    for m in range(indices):
        lines += [f"        v = p{m}[j]", "        if v < 0:", f"            v += size{m}"]
        lines.append(f"        xo += v * step{m}")
    lines += ["        " + text for text in _action(mode, dtype)]
    return "\n".join(lines) + "\n", [*args, *[val(I64)] * len(numbers)]


def _action(mode: str, dtype: np.dtype) -> list[str]:
    if mode == "get":
        return ["o[oo] = x[xo]"]
    if mode == "put":
        return ["if flag[j] != 0:", "    x[xo] = o[oo]"]
    if dtype.kind == "c":
        return [
            "w = o[oo]",
            "cuda.atomic.add(x, 2 * xo, w.real)",
            "cuda.atomic.add(x, 2 * xo + 1, w.imag)",
        ]
    return ["cuda.atomic.add(x, xo, o[oo])"]


@functools.lru_cache(maxsize=512)
def _compiled(mode: str, dtype: np.dtype, indices: int, kept: int) -> Kernel:
    text, args = source(mode, dtype, indices, kept)
    return kernel(text, args, scalar.namespace())


class AtomicsError(NotImplementedError):
    """A dtype that devices cannot add atomically."""


def run(
    mode: str,
    x: View,
    axes: Sequence[int],
    indices: Sequence[View],
    o: View,
    at: int,
    flags: View | None = None,
    stream: Any = 0,
) -> None:
    """Move between ``x`` and ``o``.

    ``o`` has the dimensions of ``x`` that are not in ``axes``, with one dimension for the (contiguous, one-dimensional)
    index arrays inserted at ``at``.

    Raises
    ------
    AtomicsError : mode 'add' for a dtype without atomic additions.
    """
    if mode == "add" and x.dtype.name not in ATOMIC:
        raise AtomicsError(x.dtype.name)
    if not o.size:
        return
    kept = [d for d in range(len(x.shape)) if d not in axes]
    rest = [s for d, s in enumerate(o.strides) if d != at] if indices else list(o.strides)
    sizes, (xs, os) = collapse([x.shape[d] for d in kept], [[x.strides[d] for d in kept], rest])
    count = 1
    for n in sizes:
        count *= n
    k = _compiled(mode, x.dtype, len(indices), len(sizes))
    if mode == "add":
        head: list[Any] = [array_argument(x.memory, part(x.dtype)), np.int64(x.offset)]
    else:
        head = [pointer(x), np.int64(0)]
    head += [pointer(o), *map(pointer, indices)]
    if flags is not None:
        head.append(pointer(flags))
    numbers = [o.size, count, o.strides[at] if indices else 0]
    for n, a, b in zip(sizes, xs, os, strict=True):
        numbers += [n, a, b]
    for d in axes:
        numbers += [x.shape[d], x.strides[d]]
    block = block_size()
    k(grid_for(o.size, block), block, stream, [*head, *[np.int64(v) for v in numbers]])


# -- which of several writes to one place survives: the last ------------------------------------------


def winners_source(indices: int, first: bool) -> tuple[str, list[Arg]]:
    """Two passes: the last j of every place (an atomic maximum), then ``flag[j] = (that is j)``."""
    params = ["mark"] + [f"p{m}" for m in range(indices)] + (["n"] if first else ["flag", "n"])
    params += [f"size{m}" for m in range(indices)]
    args = [arr(I64) if first else ptr(I64), *[ptr(I64)] * indices]
    args += [] if first else [ptr(np.dtype("uint8"))]
    lines = [
        f"def k({', '.join(params)}):",
        "    j = int64(cuda.grid(1))",
        "    if j < n:",
        "        at = int64(0)",
    ]
    for m in range(indices):
        lines += [f"        v = p{m}[j]", "        if v < 0:", f"            v += size{m}"]
        lines.append(f"        at = at * size{m} + v")
    lines.append(
        "        cuda.atomic.max(mark, at, j)"
        if first
        else "        flag[j] = uint8(mark[at] == j)"
    )
    return "\n".join(lines) + "\n", [*args, *[val(I64)] * (1 + indices)]


@functools.lru_cache(maxsize=32)
def _winners(indices: int, first: bool) -> Kernel:
    text, args = winners_source(indices, first)
    return kernel(text, args, scalar.namespace())


def winners(
    indices: Sequence[View], sizes: Sequence[int], mark: View, flags: View, stream: Any = 0
) -> None:
    """Set ``flags[j]`` where no later index names the same place; ``mark`` (filled with -1) has one int64 a place."""
    n = flags.size
    if not n:
        return
    block = block_size()
    tail = [np.int64(n), *map(np.int64, sizes)]
    pointers = [*map(pointer, indices)]
    grid = grid_for(n, block)
    _winners(len(indices), True)(
        grid, block, stream, [array_argument(mark.memory, I64), *pointers, *tail]
    )
    _winners(len(indices), False)(
        grid, block, stream, [pointer(mark), *pointers, pointer(flags), *tail]
    )
