"""Reductions as generalised ufuncs ``(n)->()``: combine, identity and two loop orders.

* The reduced axis is dense: eight independent accumulators per block of 128 elements (SIMD), blocks
  combined by a binary counter, so that a sum of n terms has an error of O(log n) like pairwise summation.
* The reduced axis is strided and the kept one dense (a column sum): whole rows are accumulated into a tile.
"""

from __future__ import annotations

import functools

import numpy as np

from . import build, scalar
from .pointers import code

BLOCK = 128
LANES = 8

_TEMPLATE = """
def k(args, dims, steps, data):
    outer = dims[0]
    n = dims[1]
    a = args[0]
    o = args[1]
    sa = steps[0]
    so = steps[1]
    sn = steps[2]
    if outer > 1 and n > 1 and abs(sa) < abs(sn):
        acc = tile_{acc}()
        j = 0
        while j < outer:
            m = min(outer - j, TILE)
            for i in range(m):
                acc[i] = {init}
            for r in range(n):
                row = a + r * sn
                if sa == {size}:
                    p = ptr_{kin}(row)
                    for i in range(m):
                        x = {acc_type}(p[i])
                        s = acc[i]
                        acc[i] = {combine}
                else:
                    for i in range(m):
                        x = {acc_type}(load_{kin}(row + i * sa))
                        s = acc[i]
                        acc[i] = {combine}
            for i in range(m):
                store_{kout}(o + i * so, {out_type}(acc[i]))
            j += m
            a += m * sa
            o += m * so
    else:
        levels = tile_{acc}()
        for q in range(outer):
            count = 0
            r = 0
            s = {init}
            while r + {block} <= n:
                b = a + r * sn
{lane_init}
                if sn == {size}:
                    p = ptr_{kin}(b)
                    for i in range(0, {block}, {lanes}):
{lane_body_dense}
                else:
                    for i in range(0, {block}, {lanes}):
{lane_body}
{lane_join}
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
                r += {block}
            s = {init}
            while r < n:
                x = {acc_type}(load_{kin}(a + r * sn))
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

# combine text (s: accumulator, x: element) and identity, per reduction
RULES = {
    "sum": ("s + x", "0"),
    "prod": ("s * x", "1"),
    "max": ("select((x > s) | (x != x), x, s)", "-inf"),
    "min": ("select((x < s) | (x != x), x, s)", "inf"),
    "any": ("s | x", "False"),
    "all": ("s & x", "True"),
}


def accumulator(name: str, dtype: np.dtype) -> np.dtype:
    """float32 sums accumulate in float64, integer sums in int64; the rest in the dtype itself."""
    if name in ("sum", "prod"):
        if dtype.kind in "biu":
            return np.dtype("int64")
        return {"float32": np.dtype("float64"), "complex64": np.dtype("complex128")}.get(
            dtype.name, dtype
        )
    return np.dtype("bool") if name in ("any", "all") else dtype


def _typed(dtype: np.dtype) -> str:
    return "bool" if dtype.kind == "b" else dtype.name


def _identity(name: str, init: str, acc: np.dtype) -> str:
    if acc.kind == "b":
        return init
    if "inf" in init and acc.kind in "iu":
        info = np.iinfo(acc)
        return f"{acc.name}({info.min if init == '-inf' else info.max})"
    return f"{acc.name}({init})"


@functools.cache
def ufunc(name: str, dtype: np.dtype) -> np.ufunc:
    """The gufunc ``(n)->()`` of a reduction for an input dtype."""
    combine, init = RULES[name]
    acc = accumulator(name, dtype)
    out = acc if dtype.kind in "biu" or acc.kind == "b" else dtype
    elem = "x != 0" if acc.kind == "b" and dtype.kind != "b" else None
    acc_type = _typed(acc) if elem is None else "nonzero"
    pad = " " * 16
    lanes = range(LANES)

    def lane(load: str) -> str:
        text = []
        for q in lanes:
            text += [f"x = {acc_type}({load.format(q=q)})", f"s = v{q}", f"v{q} = {combine}"]
        return "\n".join(pad + " " * 8 + t for t in text)

    join = []
    step = 1
    while step < LANES:
        for q in range(0, LANES, 2 * step):
            join += [f"s = v{q}", f"x = v{q + step}", f"v{q} = {combine}"]
        step *= 2
    kin = code(dtype)
    source = _TEMPLATE.format(
        acc=code(acc),
        kin=kin,
        kout=code(out),
        size=dtype.itemsize,
        init=_identity(name, init, acc),
        combine=combine,
        acc_type=acc_type,
        out_type=_typed(out),
        block=BLOCK,
        lanes=LANES,
        lane_init="\n".join(f"{pad}v{q} = {_identity(name, init, acc)}" for q in lanes),
        lane_body_dense=lane("p[i + {q}]"),
        lane_body=lane(f"load_{kin}(b + (i + {{q}}) * sn)"),
        lane_join="\n".join(pad + t for t in [*join, "s = v0"]),
    )
    namespace = dict(scalar.NAMESPACE)
    if acc_type == "nonzero":
        source = source.replace("nonzero(", "(0 != ")
    address = build.compile_loop(source, "k", namespace, scalar.salt())
    return build.make_ufunc(name, address, [dtype, out], 1, "(n)->()")


def merge_last(a: np.ndarray, count: int) -> np.ndarray | None:
    """Merge the last ``count`` axes into one without a copy, or None where that is impossible."""
    shape = a.shape
    lead = shape[: len(shape) - count]
    tail = shape[len(shape) - count :]
    if count == 1:
        return a
    strides = a.strides[len(shape) - count :]
    total, expected = 1, None
    for n, s in zip(reversed(tail), reversed(strides), strict=True):
        if n == 1:
            continue
        if expected is not None and s != expected:
            return None
        expected = s * n
        total *= n
    inner = next(
        (s for n, s in zip(reversed(tail), reversed(strides), strict=True) if n != 1), a.itemsize
    )
    total = 0 if 0 in tail else total
    return np.lib.stride_tricks.as_strided(a, (*lead, total), (*a.strides[: len(lead)], inner))


def reduce(name: str, a: np.ndarray, axes: tuple[int, ...], keepdim: bool = False) -> np.ndarray:
    """Reduce ``a`` over ``axes`` (sorted, non-negative)."""
    kept = tuple(i for i in range(a.ndim) if i not in axes)
    # big strides first: the densest reduced axis is innermost
    order = tuple(sorted(axes, key=lambda i: -abs(a.strides[i])))
    moved = a.transpose(kept + order)
    kernel = ufunc(name, a.dtype)
    if not axes:
        moved, order = moved[..., None], (0,)
    merged = merge_last(moved, len(order))
    if merged is None:
        out = moved
        for _ in order:
            out = (kernel if out is moved else ufunc(name, out.dtype))(out)
            out = np.asarray(out)
    else:
        out = kernel(merged)
    out = np.asarray(out)
    if keepdim:
        out = out.reshape(tuple(1 if i in axes else n for i, n in enumerate(a.shape)))
    return out
