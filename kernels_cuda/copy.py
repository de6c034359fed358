"""Copies: conversion, any strides to any strides, fills, and a tiled transpose."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from . import elementwise, scalar
from ._compat import I64, Arg, Kernel, View, grid_for, kernel, pointer, ptr, simulated, val


@functools.cache
def program(src: np.dtype, dst: np.dtype) -> elementwise.Program:
    """The elementwise program of a conversion (complex to real takes the real part)."""
    wide = {"float16": "float32"}
    compute = np.dtype(wide.get(src.name, src.name))
    text, given = "x0", compute
    if compute.kind == "c" and dst.kind != "c":
        text, given = "x0.real", np.dtype("float32" if compute.itemsize == 8 else "float64")
    if dst.kind == "b":
        text = f"{text} != 0" if src.kind != "b" else text
    elif given != dst and dst.name != "float16":
        text = f"{dst.name}({text})"
    return elementwise.Program(("x0",), (f"t0 = {text}",), ("t0",), (src, dst), (compute,))


def convert(src: Any, dst: View, stream: Any = 0) -> None:
    """Copy ``src`` (a view broadcast to the shape of ``dst``, or a NumPy scalar) with conversion."""
    if isinstance(src, View) and _is_transpose(src, dst):
        transpose(src, dst, stream)
        return
    dtype = src.dtype
    elementwise.run(program(dtype, dst.dtype), dst.shape, [src, dst], stream)


def _is_transpose(src: View, dst: View) -> bool:
    """A large matrix whose rows are dense on one side and whose columns are on the other."""
    if src.dtype != dst.dtype or src.dtype.name == "float16":
        return False
    sizes, (a, b) = elementwise.collapse(dst.shape, [src.strides, dst.strides])
    least = 3 if simulated() else 32
    return len(sizes) == 2 and min(sizes) >= least and a[0] == 1 and b[1] == 1 and a[1] != 1


def tile() -> tuple[int, int]:
    """Edge of a transposed tile and the rows of threads that move it."""
    return (4, 2) if simulated() else (32, 8)


def transpose_source(dtype: np.dtype, edge: int, rows: int) -> tuple[str, list[Arg]]:
    """``b[i, j] = a[i, j]`` with a dense in i and b dense in j; the odd pitch avoids bank conflicts."""
    name = "uint8" if dtype.kind == "b" else dtype.name
    source = f"""def k(a, sa, b, sb, n, m):
    sm = cuda.shared.array(({edge}, {edge + 1}), {name})
    tx = int64(cuda.threadIdx.x)
    ty = int64(cuda.threadIdx.y)
    i0 = int64(cuda.blockIdx.y) * {edge}
    j0 = int64(cuda.blockIdx.x) * {edge}
    r = ty
    while r < {edge}:
        if i0 + tx < n and j0 + r < m:
            sm[tx, r] = a[(i0 + tx) + (j0 + r) * sa]
        r += {rows}
    cuda.syncthreads()
    r = ty
    while r < {edge}:
        if i0 + r < n and j0 + tx < m:
            b[(i0 + r) * sb + (j0 + tx)] = sm[r, tx]
        r += {rows}
"""
    return source, [ptr(dtype), val(I64), ptr(dtype), val(I64), val(I64), val(I64)]


@functools.lru_cache(maxsize=64)
def _transposer(dtype: np.dtype) -> Kernel:
    source, args = transpose_source(dtype, *tile())
    return kernel(source, args, scalar.namespace())


def transpose(src: View, dst: View, stream: Any = 0) -> None:
    """Copy a matrix whose layout `_is_transpose` has accepted."""
    (n, m), (a, b) = elementwise.collapse(dst.shape, [src.strides, dst.strides])
    edge, rows = tile()
    down = grid_for(n, edge)
    if down > 65535:  # the grid's limit in y
        elementwise.run(program(src.dtype, dst.dtype), dst.shape, [src, dst], stream)
        return
    args = [pointer(src), np.int64(a[1]), pointer(dst), np.int64(b[0]), np.int64(n), np.int64(m)]
    _transposer(src.dtype)((grid_for(m, edge), down), (edge, rows), stream, args)
