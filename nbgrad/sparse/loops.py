"""The inner loops of the colourings, compiled when first used and kept on disk.

Graphs are CSR: the neighbours of v are ``adj[ptr[v]:ptr[v + 1]]``. All arrays are contiguous int64. ``mark`` is scratch:
``mark[c] == v`` says that colour c is forbidden for v, so that it never has to be cleared.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_HEAD = """
def k(args, dims, steps, data):
"""

# columns that meet in a row get different colours
_PARTIAL = """
    colptr, rowidx, rowptr, colidx = ptr_i8(args[0]), ptr_i8(args[1]), ptr_i8(args[2]), ptr_i8(args[3])
    order, color, mark = ptr_i8(args[4]), ptr_i8(args[5]), ptr_i8(args[6])
    n = dims[5]
    for t in range(n):
        color[t] = -1
        mark[t] = -1
    for t in range(n):
        v = order[t]
        for a in range(colptr[v], colptr[v + 1]):
            r = rowidx[a]
            for b in range(rowptr[r], rowptr[r + 1]):
                other = color[colidx[b]]
                if other >= 0:
                    mark[other] = v
        free = 0
        while mark[free] == v:
            free += 1
        color[v] = free
"""

# no edge and no path of four vertices has fewer than two, three colours
_STAR = """
    ptr, adj = ptr_i8(args[0]), ptr_i8(args[1])
    order, color, mark = ptr_i8(args[2]), ptr_i8(args[3]), ptr_i8(args[4])
    n = dims[3]
    for t in range(n):
        color[t] = -1
        mark[t] = -1
    for t in range(n):
        v = order[t]
        for a in range(ptr[v], ptr[v + 1]):
            w = adj[a]
            if w == v:
                continue
            cw = color[w]
            if cw >= 0:
                mark[cw] = v
            for b in range(ptr[w], ptr[w + 1]):
                x = adj[b]
                cx = color[x]
                if x == w or cx < 0 or mark[cx] == v:
                    continue
                if cw < 0:
                    mark[cx] = v
                    continue
                for d in range(ptr[x], ptr[x + 1]):
                    y = adj[d]
                    if y != w and color[y] == cw:
                        mark[cx] = v
                        break
        free = 0
        while mark[free] == v:
            free += 1
        color[v] = free
"""

# vertices in the order in which the one of least degree is taken away (bucket queue, linear time)
_PEEL = """
    ptr, adj = ptr_i8(args[0]), ptr_i8(args[1])
    vert, pos, deg, bucket = ptr_i8(args[2]), ptr_i8(args[3]), ptr_i8(args[4]), ptr_i8(args[5])
    n = dims[1] - 1
    for d in range(n + 1):
        bucket[d] = 0
    for v in range(n):
        deg[v] = ptr[v + 1] - ptr[v]
        bucket[deg[v]] += 1
    start = 0
    for d in range(n + 1):
        count = bucket[d]
        bucket[d] = start
        start += count
    for v in range(n):
        pos[v] = bucket[deg[v]]
        vert[pos[v]] = v
        bucket[deg[v]] += 1
    for d in range(n, 0, -1):
        bucket[d] = bucket[d - 1]
    bucket[0] = 0
    for t in range(n):
        v = vert[t]
        for a in range(ptr[v], ptr[v + 1]):
            w = adj[a]
            if deg[w] > deg[v]:
                first = bucket[deg[w]]
                u = vert[first]
                if u != w:
                    vert[pos[w]] = u
                    pos[u] = pos[w]
                    vert[first] = w
                    pos[w] = first
                bucket[deg[w]] += 1
                deg[w] -= 1
"""


@functools.cache
def _loop(name: str, body: str, signature: str) -> np.ufunc:
    from kernels_cpu import build

    inputs, outputs = signature.split("->")
    nin, nout = inputs.count("("), outputs.count("(")
    address = build.compile_loop(_HEAD + body)
    return build.make_ufunc(name, address, [np.dtype(np.int64)] * (nin + nout), nin, signature)


def _ints(*arrays: Any) -> list[np.ndarray]:
    return [np.ascontiguousarray(a, np.int64) for a in arrays]


def partial_coloring(columns: Any, rows: Any, order: np.ndarray) -> np.ndarray:
    """Greedy colours of the columns of a matrix (CSC and CSR given) in an order."""
    n = len(order)
    run = _loop("partial_coloring", _PARTIAL, "(p),(e),(q),(f),(n)->(n),(n)")
    parts = _ints(columns.indptr, columns.indices, rows.indptr, rows.indices, order)
    return run(*parts)[0] if n else np.zeros(0, np.int64)


def star_coloring(graph: Any, order: np.ndarray) -> np.ndarray:
    """Greedy star colours of a symmetric CSR graph in an order."""
    run = _loop("star_coloring", _STAR, "(p),(e),(n)->(n),(n)")
    return (
        run(*_ints(graph.indptr, graph.indices, order))[0] if len(order) else np.zeros(0, np.int64)
    )


def smallest_last(graph: Any) -> np.ndarray:
    """The smallest-last order of a symmetric CSR graph without loops."""
    n = graph.shape[0]
    if not n:
        return np.zeros(0, np.int64)
    ptr, adj = _ints(graph.indptr, graph.indices)
    run = _loop("smallest_last", _PEEL, "(p),(e)->(n),(n),(n),(p)")
    scratch = [np.empty(n, np.int64) for _ in range(3)]
    run(ptr, adj, out=(*scratch, np.empty(n + 1, np.int64)))
    return scratch[0][::-1].copy()
