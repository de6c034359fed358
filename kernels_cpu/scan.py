"""Scans as generalised ufuncs ``(n)->(n)``: running sums, products, extrema and linear recurrences.

One state per row; where the scanned axis is strided and another one dense, a tile of states is carried over whole rows.
float32 states are kept in float64 (complex64 in complex128). A reversed scan is the same kernel on reversed views.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from . import build, threads
from .codes import code

_TEMPLATE = """
def k(args, dims, steps, data):
    outer = dims[0]
    n = dims[1]
{unpack}
    if outer > 3 and abs(s0) < abs(c0):
        acc = tile_{acc}()
        j = 0
        while j < outer:
            m = min(outer - j, TILE)
            for i in range(m):
                acc[i] = {init}
            for r in range(n):
{rows}
                for i in range(m):
                    s = acc[i]
{tile_load}
{tile_body}
                    acc[i] = s
{tile_store}
            j += m
{tile_step}
    else:
        for q in range(outer):
            s = {init}
            for r in range(n):
{load}
{body}
{store}
{step}
    clear_fp_flags()
"""

# lines that update the state s with x (and the coefficient a) and set the output y
RULES = {
    "cumsum": (["s = s + x", "y = s"], "0"),
    "cumprod": (["s = s * x", "y = s"], "1"),
    "cumprod_before": (["y = s", "s = s * x"], "1"),
    "logcumsumexp": (
        [
            "hi = select((x > s) | (x != x), x, s)",
            "lo = select((x > s) | (x != x), s, x)",
            "d = select((lo == hi), zero, lo - hi)",
            "s = select(lo == -inf, hi, hi + log1p_float64(exp_float64(d)))",
            "y = s",
        ],
        "-inf",
    ),
    # s*a is 0 where s is: a coefficient met by nothing cannot poison the rest
    "linear": (["s = select(s == 0, zero, s * a) + x", "y = s"], "0"),
    "linear_before": (["y = s", "s = select(s == 0, zero, s * a) + x"], "0"),
    "linear_after": (["s = s + x", "y = s", "s = select(s == 0, zero, s * a)"], "0"),
}
_WIDE = {"float32": np.dtype("float64"), "complex64": np.dtype("complex128")}


def _source(name: str, dtype: np.dtype, acc: np.dtype) -> str:
    body, init = RULES[name]
    names = ["a", "x"] if name.startswith("linear") else ["x"]
    kinds = [code(dtype)] * len(names)
    ops = len(names) + 1
    conv, ind = acc.name, lambda lines, depth: "\n".join(" " * 4 * depth + t for t in lines)
    typed = [line.replace("zero", f"{conv}(0)") for line in body]
    unpack = [f"b{i} = args[{i}]" for i in range(ops)]
    unpack += [f"s{i} = steps[{i}]" for i in range(ops)]
    unpack += [f"c{i} = steps[{ops + i}]" for i in range(ops)]
    last = ops - 1
    return _TEMPLATE.format(
        unpack=ind(unpack, 1),
        acc=code(acc),
        init=f"{conv}({init})",
        rows=ind([f"r{i} = b{i} + r * c{i}" for i in range(ops)], 4),
        tile_load=ind(
            [
                f"{v} = {conv}(load_{k}(r{i} + i * s{i}))"
                for i, (v, k) in enumerate(zip(names, kinds, strict=True))
            ],
            5,
        ),
        tile_body=ind(typed, 5),
        tile_store=ind([f"store_{code(dtype)}(r{last} + i * s{last}, {dtype.name}(y))"], 5),
        tile_step=ind([f"b{i} += m * s{i}" for i in range(ops)], 3),
        load=ind(
            [
                f"{v} = {conv}(load_{k}(b{i} + r * c{i}))"
                for i, (v, k) in enumerate(zip(names, kinds, strict=True))
            ],
            4,
        ),
        body=ind(typed, 4),
        store=ind([f"store_{code(dtype)}(b{last} + r * c{last}, {dtype.name}(y))"], 4),
        step=ind([f"b{i} += s{i}" for i in range(ops)], 3),
    )


@functools.cache
def ufunc(name: str, dtype: np.dtype) -> np.ufunc:
    """The gufunc of a scan for a floating or complex dtype."""
    address = build.compile_loop(_source(name, dtype, _WIDE.get(dtype.name, dtype)))
    nin = 2 if name.startswith("linear") else 1
    signature = "(n),(n)->(n)" if nin == 2 else "(n)->(n)"
    return build.make_ufunc(name, address, [dtype] * (nin + 1), nin, signature)


def scan(name: str, *arrays: np.ndarray, axis: int, reverse: bool = False) -> np.ndarray:
    """Scan along ``axis`` (of operands of one shape and dtype), from the end if ``reverse``."""
    a = arrays[0]
    if a.dtype.kind in "biu":
        return _integral(name, a, axis, reverse)
    kernel = ufunc(name, a.dtype)
    out = np.empty(a.shape, a.dtype)
    if not a.ndim:
        kernel(*[x[None] for x in arrays], out=out[None])
        return out
    views = [*arrays, out]
    if axis != out.ndim - 1:
        views = [x.swapaxes(axis, -1) for x in views]
    if reverse:
        views = [v[..., ::-1] for v in views]
    _run(kernel, views, math.prod(a.shape))
    return out


def _integral(name: str, a: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """Running sums and products of integers, in int64 (NumPy's)."""
    accumulate = {"cumsum": np.cumsum, "cumprod": np.cumprod}[name]
    if not a.ndim:
        return a.astype(np.int64)
    a = np.flip(a, axis) if reverse else a
    out = accumulate(a, axis=axis, dtype=np.int64)
    return np.flip(out, axis) if reverse else out


def _run(kernel: np.ufunc, views: list[np.ndarray], size: int) -> None:
    target = views[-1]
    lead = target.shape[:-1]
    if size < 2 * threads.GRAIN or max(lead, default=0) < 64:
        kernel(*views[:-1], out=target)
        return
    axis = int(np.argmax(lead))
    front = [np.moveaxis(v, axis, 0) for v in views]

    def piece(lo: int, hi: int) -> None:
        kernel(*[v[lo:hi] for v in front[:-1]], out=front[-1][lo:hi])

    threads.split(piece, lead[axis], size)


_EXTREME = """
def k(args, dims, steps, data):
    outer = dims[0]
    n = dims[1]
    a = args[0]
    o = args[1]
    for q in range(outer):
        at = 0
        for r in range(n):
            x = load_{kin}(a + r * steps[2])
            if r == 0:
                s = x
            if (x != x) | (x {op} s):
                s = x
                at = r
            store_i8(o + r * steps[3], int64(at))
        a += steps[0]
        o += steps[1]
    clear_fp_flags()
"""


@functools.cache
def extreme_ufunc(name: str, dtype: np.dtype) -> np.ufunc:
    """The gufunc of `extreme` for a dtype."""
    source = _EXTREME.format(kin=code(dtype), op=">=" if name == "max" else "<=")
    address = build.compile_loop(source)
    return build.make_ufunc("cum" + name, address, [dtype, np.dtype("int64")], 1, "(n)->(n)")


def extreme(name: str, a: np.ndarray, axis: int) -> np.ndarray:
    """Index of the running maximum or minimum (of equals the latest; NaN wins and stays)."""
    kernel = extreme_ufunc(name, a.dtype)
    out = np.empty(a.shape, np.int64)
    if not a.ndim:
        kernel(a[None], out=out[None])
        return out
    _run(kernel, [a.swapaxes(axis, -1), out.swapaxes(axis, -1)], a.size)
    return out
