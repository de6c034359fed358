"""Reductions as generalised ufuncs ``(n)->()``: element map, combine, identity and two loop orders.

* The reduced axis is dense (or the kept one is not denser): 64 independent accumulators (SIMD) per
  block of 2048 elements, blocks combined by a binary counter, so that a sum of n terms has an error of
  O(log n) like pairwise summation.
* The reduced axis is strided and the kept one dense (a column sum): whole rows are accumulated into a
  tile of columns, 64 rows at a time, and these again 64 at a time.

float32 accumulates in float64 (complex64 in complex128). Large arrays are cut into pieces of
a fixed size, so that a result does not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from . import build, threads
from .codes import code

LANES = 64
SEGMENTS = 32
LEAST = 8  # shorter rows are reduced one element after the other
ROWS = 64
CHUNK = 1 << 15  # elements of a piece when one long reduction is cut up

_HEAD = """
def k(args, dims, steps, data):
    outer = dims[0]
    n = dims[1]
    a = args[0]
    o = args[1]
    sa = steps[0]
    so = steps[1]
    sn = steps[2]
"""

_ROWS = """    levels = tile_{acc}()
    acc = tile_{acc}()
    copy = tile_{kin}()
{check_tile}
    w = min(n, {lanes})
    longest = {segments} * w
    if sn != {size}:
        longest = TILE // w * w
    for q in range(outer):
        count = 0
        r = 0
        while n - r >= {least}:
            m = min(n - r, longest)
            p = ptr_{kin}(a + r * sn)
            if sn != {size}:
                p = copy
                for i in range(m):
                    copy[i] = load_{kin}(a + (r + i) * sn)
            for i in range(w):
                acc[i] = {init}
{check_before}
            j = 0
            while j + 4 * w <= m:
                for i in range(w):
{dense_quad}
                j += 4 * w
{check_after}
            while j < m:
                for i in range(min(w, m - j)):
                    s = acc[i]
{lane}
                    acc[i] = {combine}
                j += w
            h = w
            while h > 1:
                half = (h + 1) // 2
                for i in range(h - half):
                    s = acc[i]
                    x = acc[i + half]
                    acc[i] = {combine}
                h = half
            r += m
            s = acc[0]
            top = 0
            c = count
            while c & 1:
                x = s
                s = levels[top]
                s = {combine}
                c >>= 1
                top += 1
            levels[top] = s
            count += 1
        s = {init}
        while r < n:
{tail}
            s = {combine}
            r += 1
        top = 0
        while count:
            if count & 1:
                x = s
                s = levels[top]
                s = {combine}
            count >>= 1
            top += 1
        store_{kout}(o, {out_type}(s))
        a += sa
        o += so
    clear_fp_flags()
"""

_COLUMNS = """    acc = tile_{acc}()
    mid = tile_{acc}()
    top = tile_{acc}()
    j = 0
    while j < outer:
        m = min(outer - j, TILE)
        for i in range(m):
            acc[i] = {init}
            mid[i] = {init}
            top[i] = {init}
        r = 0
        done = 0
        while r < n:
            e = min(n, r + {rows})
            if sa == {size}:
                while r + 4 <= e:
                    row = a + r * sn
                    p0 = ptr_{kin}(row)
                    p1 = ptr_{kin}(row + sn)
                    p2 = ptr_{kin}(row + 2 * sn)
                    p3 = ptr_{kin}(row + 3 * sn)
                    for i in range(m):
                        s = acc[i]
{quad}
                        acc[i] = s
                    r += 4
            while r < e:
                row = a + r * sn
                for i in range(m):
                    s = acc[i]
{row}
                    acc[i] = {combine}
                r += 1
            for i in range(m):
                s = mid[i]
                x = acc[i]
                mid[i] = {combine}
                acc[i] = {init}
            done += 1
            if done & {mask} == 0:
                for i in range(m):
                    s = top[i]
                    x = mid[i]
                    top[i] = {combine}
                    mid[i] = {init}
        for i in range(m):
            s = top[i]
            x = mid[i]
            s = {combine}
            store_{kout}(o + i * so, {out_type}(s))
        j += m
        a += m * sa
        o += m * so
    clear_fp_flags()
"""

# combine text (s: accumulator, x: element) and identity, per reduction
RULES = {
    "sum": ("s + x", "0"),
    "sumsq": ("s + x", "0"),
    "prod": ("s * x", "1"),
    "max": ("select((x > s) | (x != x), x, s)", "-inf"),
    "min": ("select((x < s) | (x != x), x, s)", "inf"),
}
# what joins partial results of a reduction whose elements were mapped
_JOIN = {"sumsq": "sum"}
_WIDE = {"float32": np.dtype("float64"), "complex64": np.dtype("complex128")}


def accumulator(name: str, dtype: np.dtype) -> np.dtype:
    """What a reduction of a floating or complex dtype accumulates in."""
    if name == "sumsq":
        return np.dtype("float64")
    return _WIDE.get(dtype.name, dtype) if name in ("sum", "prod") else dtype


def result_dtype(name: str, dtype: np.dtype) -> np.dtype:
    """The dtype of the result of a reduction of an array of a floating or complex dtype."""
    return np.empty(0, dtype).real.dtype if name == "sumsq" else dtype


def _element(name: str, dtype: np.dtype, acc: np.dtype, load: str) -> list[str]:
    """Lines that set ``x`` to the mapped element read by ``load``."""
    kind = acc.name
    if name != "sumsq":
        return [f"x = {kind}({load})"]
    if dtype.kind == "c":
        return [f"z = {load}", f"u = {kind}(z.real)", f"v = {kind}(z.imag)", "x = u * u + v * v"]
    return [f"u = {kind}({load})", "x = u * u"]


def _indent(lines: list[str], depth: int) -> str:
    return "\n".join(" " * 4 * depth + line for line in lines)


def _source(name: str, dtype: np.dtype, out: np.dtype, columns: bool) -> str:
    combine, init = RULES[name]
    acc = accumulator(name, dtype)
    kin = code(dtype)
    identity = f"{acc.name}({init})"

    def element(load: str) -> list[str]:
        return _element(name, dtype, acc, load)

    names = {
        "acc": code(acc),
        "kin": kin,
        "kout": code(out),
        "size": dtype.itemsize,
        "init": identity,
        "combine": combine,
        "out_type": out.name,
    }
    if columns:
        quad = [t for q in range(4) for t in (*element(f"p{q}[i]"), f"s = {combine}")]
        body = _COLUMNS.format(
            rows=ROWS,
            mask=ROWS - 1,
            quad=_indent(quad, 6),
            row=_indent(element(f"load_{kin}(row + i * sa)"), 5),
            **names,
        )
    else:
        body = _ROWS.format(
            lanes=LANES,
            segments=SEGMENTS,
            least=LEAST,
            tail=_indent(element(f"load_{kin}(a + r * sn)"), 3),
            lane=_indent(element("p[j + i]"), 5),
            **_dense(name, dtype, identity, element, combine),
            **names,
        )
    return _HEAD + body


# Maximum and minimum of dense floating rows: one instruction an element ignores NaN, and a running sum tells whether
# a block may hold one (it does, or infinities of both signs): then the block is done again with care.
_CHECK_BEFORE = ["for i in range(w):", "    chk[i] = {kind}(0)"]
_CHECK_AFTER = [
    "flag = {kind}(0)",
    "for i in range(w):",
    "    flag += chk[i]",
    "if flag != flag:",
    "    for i in range(w):",
    "        acc[i] = {init}",
    "    j = 0",
]


def _dense(name: str, dtype: np.dtype, identity: str, element: Any, combine: str) -> dict[str, str]:
    """The parts of the template that take four segments of a row at once."""
    loads = ["p[j + i]", "p[j + w + i]", "p[j + 2 * w + i]", "p[j + 3 * w + i]"]
    if name not in ("max", "min"):
        quad = [t for load in loads for t in (*element(load), f"s = {combine}")]
        empty = {"check_tile": "", "check_before": "", "check_after": ""}
        return {"dense_quad": _indent(["s = acc[i]", *quad, "acc[i] = s"], 5), **empty}
    op = ">" if name == "max" else "<"
    body = [f"x{q} = {load}" for q, load in enumerate(loads)]
    body += ["chk[i] = chk[i] + ((x0 + x1) + (x2 + x3))"]
    body += [f"y0 = select(x0 {op} x1, x0, x1)", f"y1 = select(x2 {op} x3, x2, x3)"]
    body += [f"y0 = select(y0 {op} y1, y0, y1)", "s = acc[i]", f"acc[i] = select(y0 {op} s, y0, s)"]
    names = {"kind": dtype.name, "init": identity}
    return {
        "dense_quad": _indent(body, 5),
        "check_tile": _indent([f"chk = tile_{code(dtype)}()"], 1),
        "check_before": _indent([t.format(**names) for t in _CHECK_BEFORE], 3),
        "check_after": _indent([t.format(**names) for t in _CHECK_AFTER], 3),
    }


@functools.cache
def ufunc(name: str, dtype: np.dtype, out: np.dtype, columns: bool = False) -> np.ufunc:
    """The gufunc ``(n)->()`` of a reduction for an input and an output dtype, for rows or for columns."""
    address = build.compile_loop(_source(name, dtype, out, columns))
    return build.make_ufunc(name, address, [dtype, out], 1, "(n)->()")


def _kernel(name: str, a: np.ndarray, out: np.dtype) -> np.ufunc:
    """The kernel that reduces the last axis of ``a`` in the order of its memory."""
    step = abs(a.strides[-1])
    columns = a.shape[-1] > 1 and any(
        n > 3 and abs(s) < step for n, s in zip(a.shape[:-1], a.strides, strict=False)
    )
    return ufunc(name, a.dtype, out, columns)


def merge_last(a: np.ndarray, count: int) -> np.ndarray | None:
    """Merge the last ``count`` axes into one without a copy, or None where that is impossible."""
    if count == 1:
        return a
    lead = a.shape[: a.ndim - count]
    tail = a.shape[a.ndim - count :]
    expected = None
    if 0 not in a.shape:
        for n, s in zip(reversed(tail), reversed(a.strides), strict=False):
            if n == 1:
                continue
            if expected is not None and s != expected:
                return None
            expected = s * n
    return a.reshape((*lead, math.prod(tail)))


_NUMPY = {
    "any": np.any,
    "all": np.all,
    "count": np.count_nonzero,
    "sum": functools.partial(np.sum, dtype=np.int64),
    "prod": functools.partial(np.prod, dtype=np.int64),
    "max": np.max,
    "min": np.min,
}


def _by_numpy(name: str, a: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> np.ndarray:
    """Reductions that are the same in any order."""
    if axes:
        out = np.asarray(_NUMPY[name](a, axis=axes, keepdims=keepdim))
    else:  # count_nonzero would take an empty tuple for all axes
        out = np.asarray(_NUMPY[name](a[None], axis=0))
    return out if out.flags.c_contiguous else out.copy(order="C")


@functools.cache
def _own(name: str, dtype: np.dtype) -> tuple[np.dtype, np.ufunc]:
    """The result's dtype, and the kernel that gives it at once."""
    out = result_dtype(name, dtype)
    return out, ufunc(name, dtype, out)


def reduce(name: str, a: np.ndarray, axes: tuple[int, ...], keepdim: bool = False) -> np.ndarray:
    """Reduce ``a`` over ``axes`` (sorted, non-negative); over no axes it maps every element.

    ``any``, ``all`` and ``count``, and everything on integers and bools, is NumPy's (sums and products in int64).
    """
    if name in ("any", "all", "count") or a.dtype.kind in "biu":
        return _by_numpy(name, a, axes, keepdim)
    out_dtype, kernel = _own(name, a.dtype)
    if len(axes) == a.ndim and a.flags.c_contiguous:
        flat = a if a.ndim == 1 else a.reshape(-1)
        out = np.asarray(kernel(flat)) if a.size < CHUNK else _run(name, flat, out_dtype)
    elif not axes:
        out = _run(name, a[..., None], out_dtype)
    else:
        out = _reduce_some(name, a, axes, out_dtype)
    if keepdim:
        return out.reshape(tuple(1 if i in axes else n for i, n in enumerate(a.shape)))
    return out


def _reduce_some(name: str, a: np.ndarray, axes: tuple[int, ...], out: np.dtype) -> np.ndarray:
    kept = tuple(i for i in range(a.ndim) if i not in axes)
    # big strides first: the densest reduced axis is innermost
    order = tuple(sorted(axes, key=lambda i: -abs(a.strides[i])))
    moved = a.transpose(kept + order)
    merged = merge_last(moved, len(order))
    if merged is not None:
        return _run(name, merged, out)
    acc = accumulator(name, a.dtype)
    join = _JOIN.get(name, name)
    part = _run(name, moved, acc)
    for _ in order[2:]:
        part = _run(join, part, acc)
    return _run(join, part, out)


def _run(name: str, a: np.ndarray, out_dtype: np.dtype) -> np.ndarray:
    """Reduce the last axis, in threads where it is worth it; the result is row-major."""
    if a.size >= 2 * threads.GRAIN:
        if max(a.shape[:-1], default=0) >= 64:
            return _split_kept(_kernel(name, a, out_dtype), a, out_dtype)
        if a.shape[-1] >= 2 * CHUNK:
            return _split_reduced(name, a, out_dtype)
    out = np.asarray(_kernel(name, a, out_dtype)(a))
    return out if out.flags.c_contiguous else out.copy(order="C")


def _split_kept(kernel: np.ufunc, a: np.ndarray, out_dtype: np.dtype) -> np.ndarray:
    out = np.empty(a.shape[:-1], out_dtype)
    axis = int(np.argmax(out.shape))
    source, target = np.moveaxis(a, axis, 0), np.moveaxis(out, axis, 0)

    def piece(lo: int, hi: int) -> None:
        kernel(source[lo:hi], out=target[lo:hi])

    threads.split(piece, out.shape[axis], a.size)
    return out


def _split_reduced(name: str, a: np.ndarray, out_dtype: np.dtype) -> np.ndarray:
    """Cut a long reduced axis into pieces of `CHUNK`, reduce them in threads, and join the results."""
    lead, count = a.shape[:-1], a.shape[-1] // CHUNK
    acc = accumulator(name, a.dtype)
    whole = a[..., : count * CHUNK].reshape((*lead, count, CHUNK))
    parts = np.empty((count + 1, *lead), acc)
    pieces = np.moveaxis(whole, -2, 0)
    kernel = _kernel(name, pieces, acc)

    def piece(lo: int, hi: int) -> None:
        kernel(pieces[lo:hi], out=parts[lo:hi])

    threads.split(piece, count, a.size)
    kernel(a[..., count * CHUNK :], out=parts[count, ...])
    stacked = np.moveaxis(parts, 0, -1)
    join = _kernel(_JOIN.get(name, name), stacked, out_dtype)
    out = np.asarray(join(stacked))
    return out if out.flags.c_contiguous else out.copy(order="C")
