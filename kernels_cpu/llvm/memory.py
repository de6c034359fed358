"""Strided and masked access to vectors of elements."""

from __future__ import annotations

from .text import BYTES, Function, Value, const, lanes_of, scalar_of, suffix, vector


def iota(lanes: int) -> Value:
    """The lane numbers."""
    return Value("<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">", f"<{lanes} x i64>")


def row_mask(fn: Function, r: Value, m: Value, lanes: int) -> Value:
    """Which of the rows ``r, r + 1, ...`` are below ``m``."""
    kind = f"<{lanes} x i64>"
    at = fn.emit(kind, f"add {fn.splat(r, lanes)}, {iota(lanes).text}")
    return fn.emit(f"<{lanes} x i1>", f"icmp slt {at}, {fn.splat(m, lanes).text}")


def _addresses(fn: Function, p: Value, kind: str, stride: int) -> Value:
    n = lanes_of(kind)
    steps = ", ".join(f"i64 {i * stride}" for i in range(n))
    return fn.emit(f"<{n} x ptr>", f"getelementptr {scalar_of(kind)}, {p}, <{n} x i64> <{steps}>")


def _stored(kind: str) -> str:
    """The type in memory: bools are bytes."""
    return vector("i8", lanes_of(kind)) if scalar_of(kind) == "i1" else kind


def load(fn: Function, p: Value, kind: str, stride: int = 1, mask: Value | None = None) -> Value:
    """Load lanes ``stride`` elements apart; masked lanes are 0."""
    n = lanes_of(kind)
    if stride == 0:
        return fn.splat(fn.load(p, scalar_of(kind)), n)
    if n == 1 or (stride == 1 and mask is None):
        return fn.load(p, kind)
    cell = _stored(kind)
    size = Value(str(BYTES[scalar_of(cell)]), "i32")
    zero = const(0, cell)
    if stride == 1:
        assert mask is not None
        name = f"llvm.masked.load.{suffix(cell)}.p0"
        got = fn.call(name, cell, [p, size, mask, zero])
    else:
        got = gather(fn, _addresses(fn, p, cell, stride), cell, mask)
    return got if cell == kind else fn.emit(kind, f"icmp ne {got}, {const(0, cell).text}")


def gather(fn: Function, places: Value, kind: str, mask: Value | None = None) -> Value:
    """Load one element from each of a vector of addresses; masked lanes are 0."""
    n = lanes_of(kind)
    size = Value(str(BYTES[scalar_of(kind)]), "i32")
    on = mask or Value("splat (i1 true)", f"<{n} x i1>")
    name = f"llvm.masked.gather.{suffix(kind)}.v{n}p0"
    return fn.call(name, kind, [places, size, on, const(0, kind)])


def store(fn: Function, value: Value, p: Value, stride: int = 1, mask: Value | None = None) -> None:
    """Store lanes ``stride`` elements apart; masked lanes are left alone."""
    kind, n = value.type, lanes_of(value.type)
    if n == 1 or (stride == 1 and mask is None):
        fn.store(value, p)
        return
    cell = _stored(kind)
    if cell != kind:
        value = fn.emit(cell, f"zext {value} to {cell}")
    size = Value(str(BYTES[scalar_of(cell)]), "i32")
    if stride == 1:
        assert mask is not None
        _void(fn, f"llvm.masked.store.{suffix(cell)}.p0", [value, p, size, mask])
    else:
        on = mask or Value("splat (i1 true)", f"<{n} x i1>")
        places = _addresses(fn, p, cell, stride)
        _void(fn, f"llvm.masked.scatter.{suffix(cell)}.v{n}p0", [value, places, size, on])


def _void(fn: Function, name: str, args: list[Value]) -> None:
    fn.module.declare(name, "void", [a.type for a in args])
    fn.do(f"call void @{name}({', '.join(map(str, args))})")


def horizontal(fn: Function, value: Value, combine: str) -> Value:
    """Reduce the lanes of a vector to a scalar: sum, largest or smallest (NaN wins)."""
    n = lanes_of(value.type)
    while n > 1:
        half = (n + 1) // 2
        low = _part(fn, value, 0, n - half)
        high = _part(fn, value, half, n)
        both = combined(fn, low, high, combine)
        if n - half < half:  # an odd lane is left over
            both = _joined(fn, both, _part(fn, value, n - half, half))
        value, n = both, half
    return value


def _part(fn: Function, value: Value, lo: int, hi: int) -> Value:
    kind = vector(scalar_of(value.type), hi - lo)
    if hi - lo == 1:
        return fn.emit(kind, f"extractelement {value}, i64 {lo}")
    picks = ", ".join(f"i32 {i}" for i in range(lo, hi))
    mask = f"<{hi - lo} x i32> <{picks}>"
    return fn.emit(kind, f"shufflevector {value}, {value.type} poison, {mask}")


def _joined(fn: Function, a: Value, b: Value) -> Value:
    na, nb = lanes_of(a.type), lanes_of(b.type)
    kind = vector(scalar_of(a.type), na + nb)
    out = Value("poison", kind)
    for i in range(na + nb):
        source, j, n = (a, i, na) if i < na else (b, i - na, nb)
        one = source if n == 1 else fn.emit(scalar_of(kind), f"extractelement {source}, i64 {j}")
        out = fn.emit(kind, f"insertelement {out}, {one}, i64 {i}")
    return out


def combined(fn: Function, a: Value, b: Value, combine: str) -> Value:
    """``a`` and ``b`` added, or the larger or smaller of them (NaN wins)."""
    kind = a.type
    floating = scalar_of(kind) in ("double", "float")
    if combine == "add":
        return fn.emit(kind, f"{'fadd' if floating else 'add'} {a}, {b.text}")
    flag = vector("i1", lanes_of(kind))
    if not floating:
        better = fn.emit(flag, f"icmp {'sgt' if combine == 'max' else 'slt'} {b}, {a.text}")
    else:
        wins = fn.emit(flag, f"fcmp {'ogt' if combine == 'max' else 'olt'} {b}, {a.text}")
        nan = fn.emit(flag, f"fcmp uno {b}, {b.text}")
        better = fn.emit(flag, f"or {wins}, {nan.text}")
    return fn.emit(kind, f"select {better}, {b}, {a}")
