"""Matrix products: which kernel a product of a block calls."""

from __future__ import annotations

from collections.abc import Sequence

from kernels_cpu.llvm import gemm
from kernels_cpu.llvm.text import Value

from .items import Batch, Dot
from .stores import Ref
from .target import Target

Offsets = tuple[Value, Value, Value]


def emit_dot(target: Target, dot: Dot) -> None:
    """Emit one product (all its batch)."""
    form = {"left": _left, "right": _right, "both": _both, "sum": _sum, "flat": _flat}[dot.form]
    fn = target.fn
    start = tuple(Value(str(r.layout.offset), "i64") for r in (dot.a, dot.b, dot.c))

    def loops(batch: Sequence[Batch], at: Offsets) -> None:
        if not batch:
            form(target, dot, at)
            return
        first, *rest = batch

        def inside(i: Value) -> None:
            steps = (first.a, first.b, first.c)
            here = tuple(fn.add(o, fn.mul(i, s)) for o, s in zip(at, steps, strict=True))
            loops(rest, here)  # type: ignore[arg-type]

        fn.loop(0, first.size, 1, inside)

    loops(dot.batch, start)  # type: ignore[arg-type]


def _pointer(target: Target, ref: Ref, offset: Value) -> Value:
    """Address of an element of an operand; features of a tile are a tile apart."""
    kind = target.kind(ref.store)
    if ref.store.kind == "tile":
        offset = target.fn.mul(offset, target.tile)
    elif ref.store.kind == "acc":
        offset = target.fn.mul(offset, ref.store.lanes)
    return target.fn.at(target.base(ref.store), offset, kind)


def _pointers(target: Target, dot: Dot, at: Offsets) -> list[Value]:
    return [_pointer(target, r, o) for r, o in zip((dot.a, dot.b, dot.c), at, strict=True)]


def _rows(target: Target, dot: Dot, x: Value, w: Value, c: Value, xk, wk, wp, cp, p) -> None:
    t = target.tile
    kind = target.kind(dot.c.store)
    name = gemm.rows_kernel(target.fn.module, kind, dot.k, p, xk * t, wk, wp, cp * t)
    gemm.call(target.fn, name, [x, w, c, target.padded])


def _left(target: Target, dot: Dot, at: Offsets) -> None:
    a, b, c = _pointers(target, dot, at)
    _rows(target, dot, a, b, c, dot.a_strides[1], *dot.b_strides, dot.c_strides[1], dot.n)


def _right(target: Target, dot: Dot, at: Offsets) -> None:
    a, b, c = _pointers(target, dot, at)
    am, ak = dot.a_strides
    _rows(target, dot, b, a, c, dot.b_strides[0], ak, am, dot.c_strides[0], dot.m)


def _both(target: Target, dot: Dot, at: Offsets) -> None:
    """Rows are a batch dimension: one product per element of the result, vectors of rows."""
    fn, t = target.fn, target.tile
    kind = target.kind(dot.c.store)

    def stride(ref: Ref, s: int) -> int:
        return s * t if ref.store.kind == "tile" else -s - 1

    strides = (stride(dot.a, dot.a_strides[1]), stride(dot.b, dot.b_strides[0]))
    name = gemm.both_kernel(fn.module, kind, dot.k, strides)

    def element(i: Value) -> None:
        def column(j: Value) -> None:
            a = _pointer(target, dot.a, fn.add(at[0], fn.mul(i, dot.a_strides[0])))
            b = _pointer(target, dot.b, fn.add(at[1], fn.mul(j, dot.b_strides[1])))
            place = fn.add(at[2], fn.mul(i, dot.c_strides[0]))
            c = _pointer(target, dot.c, fn.add(place, fn.mul(j, dot.c_strides[1])))
            gemm.call(fn, name, [a, b, c, target.padded])

        fn.loop(0, dot.n, 1, column)

    fn.loop(0, dot.m, 1, element)


def _sum(target: Target, dot: Dot, at: Offsets) -> None:
    """Rows are contracted: the operand with more features becomes vectors."""
    fn, t = target.fn, target.tile
    kind, acc = target.kind(dot.a.store), target.kind(dot.c.store)
    a, b, c = _pointers(target, dot, at)
    am, bn = dot.a_strides[0], dot.b_strides[1]
    cm, cn = dot.c_strides
    m, n = dot.m, dot.n
    if max(m, n) < 2:
        name = gemm.lane_kernel(fn.module, kind, acc)
        gemm.call(fn, name, [a, b, c, target.rows])
        return
    if m > n:
        a, b, am, bn, cm, cn, m, n = b, a, bn, am, cn, cm, n, m
    turn = gemm.transpose_kernel(fn.module, kind, n, bn * t)
    spare = target.spare()
    gemm.call(fn, turn, [b, spare, target.padded])
    name = gemm.outer_kernel(fn.module, kind, acc, m, n, am * t, cm, cn)
    gemm.call(fn, name, [a, spare, c, target.rows])


def _flat(target: Target, dot: Dot, at: Offsets) -> None:
    """No rows: a small product of arrays."""
    fn, kind = target.fn, target.kind(dot.c.store)
    a, b, c = _pointers(target, dot, at)
    sizes, sa, sb, sc = (dot.m, dot.n, dot.k), dot.a_strides, dot.b_strides, dot.c_strides
    if dot.m > dot.n and sb[1] != 1 and sa[0] == 1:  # vectors along m
        sizes = (dot.n, dot.m, dot.k)
        a, b = b, a
        sa, sb, sc = (sb[1], sb[0]), (sa[1], sa[0]), (sc[1], sc[0])
    name = gemm.flat_kernel(fn.module, kind, sizes, sa, sb, sc)
    gemm.call(fn, name, [a, b, c])
