"""Matrix products on tiles whose rows are vector lanes, and on small arrays: register-tiled, sizes known.

Every kernel is an internal function made once per shape, so equal layers of a network share code. ``rows`` kernels keep a
block of outputs by two vectors of rows in registers and broadcast the uniform operand; the ``outer`` kernel accumulates
products summed over rows, one transposed operand as vectors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .jit import attributes, lanes
from .memory import horizontal, load, row_mask, store
from .text import Function, Module, Value, const, vector


@functools.cache
def registers() -> int:
    """How many vectors of `lanes` doubles the register file holds, less what addressing needs."""
    return 28 if lanes() == 8 else 12


def _blocks(n: int, most: int) -> tuple[int, int, int]:
    """``n`` cut into equal blocks of at most ``most``: (block, how many, remainder)."""
    count = -(-n // most)
    size = -(-n // count)
    return size, n // size, n % size


def _each_block(fn: Function, n: int, most: int, body: Callable[[Value | int, int], None]) -> None:
    """``body(start, size)`` over blocks of a static extent: a loop over the full ones and the rest."""
    size, count, rest = _blocks(n, most)

    def full(i: Value) -> None:
        body(i, size)

    fn.loop(0, count * size, size, full)
    if rest:
        body(count * size, rest)


def _function(
    module: Module, name: str, params: list[str], extra: list[str]
) -> tuple[Function | None, list[Value]]:
    """The named internal function, or None if the module has it."""
    values = [Value(f"%{p}", "ptr") for p in params] + [Value(f"%{p}", "i64") for p in extra]
    if name in module.functions:
        return None, values
    return Function(module, name, values, "void", "internal", f"{attributes()} noinline"), values


def _fma(fn: Function, a: Value, b: Value, c: Value) -> Value:
    product = fn.emit(a.type, f"fmul contract {a}, {b.text}")
    return fn.emit(a.type, f"fadd contract {product}, {c.text}")


def call(fn: Function, name: str, args: list[Value]) -> None:
    """Call a kernel."""
    fn.do(f"call void @{name}({', '.join(map(str, args))})")


def row_quantum() -> int:
    """Rows are processed in multiples of this (two vectors where registers allow)."""
    return 2 * lanes() if lanes() == 8 else lanes()


def rows_kernel(
    module: Module, kind: str, k: int, p: int, xk: int, wk: int, wp: int, cp: int
) -> str:
    """``C[p][r] = sum_k X[k][r] W[k, p]`` for ``r < rows``; strides in elements. Arguments (X, W, C, rows)."""
    name = f"rows.{kind}.{k}.{p}.{xk}.{wk}.{wp}.{cp}".replace("-", "m")
    fn, (x, w, c, rows) = _function(module, name, ["x", "w", "c"], ["rows"])
    if fn is None:
        return name
    n = lanes()
    vectors = row_quantum() // n
    vec = vector(kind, n)

    def block(p0: Value | int, size: int) -> None:
        wbase = fn.at(w, fn.mul(p0, wp), kind)
        cbase = fn.at(c, fn.mul(p0, cp), kind)

        def row_block(r: Value) -> None:
            xr = fn.at(x, r, kind)

            def step(i: Value, *acc: Value) -> list[Value]:
                xi = fn.at(xr, fn.mul(i, xk), kind)
                xs = [fn.load(fn.at(xi, v * n, kind), vec) for v in range(vectors)]
                wi = fn.at(wbase, fn.mul(i, wk), kind)
                out = []
                for j in range(size):
                    one = fn.splat(fn.load(fn.at(wi, j * wp, kind), kind), n)
                    for v in range(vectors):
                        out.append(_fma(fn, one, xs[v], acc[j * vectors + v]))
                return out

            zero = [const(0, vec)] * (size * vectors)
            sums = fn.loop(0, k, 1, step, zero)
            for j in range(size):
                for v in range(vectors):
                    place = fn.add(r, v * n)
                    place = fn.add(place, j * cp)
                    fn.store(sums[j * vectors + v], fn.at(cbase, place, kind))

        fn.loop(0, rows, n * vectors, row_block)

    _each_block(fn, p, max(1, (registers() - vectors) // vectors), block)
    fn.finish()
    return name


def both_kernel(module: Module, kind: str, k: int, strides: tuple[int, int]) -> str:
    """``C[r] = sum_k A[k][r] B[k][r]``; a stride given as negative means that operand is uniform. (A, B, C, rows)."""
    ak, bk = strides
    name = f"both.{kind}.{k}.{ak}.{bk}".replace("-", "m")
    fn, (a, b, c, rows) = _function(module, name, ["a", "b", "c"], ["rows"])
    if fn is None:
        return name
    vec = vector(kind, lanes())

    def read(base: Value, i: Value, stride: int, r: Value) -> Value:
        if stride < 0:
            one = fn.load(fn.at(base, fn.mul(i, -stride - 1), kind), kind)
            return fn.splat(one, lanes())
        return fn.load(fn.at(base, fn.add(fn.mul(i, stride), r), kind), vec)

    def row_block(r: Value) -> None:
        (total,) = fn.loop(
            0,
            k,
            1,
            lambda i, acc: [_fma(fn, read(a, i, ak, r), read(b, i, bk, r), acc)],
            [const(0, vec)],
        )
        fn.store(total, fn.at(c, r, kind))

    fn.loop(0, rows, lanes(), row_block)
    fn.finish()
    return name


def _widths(n: int) -> list[tuple[int, int]]:
    """``n`` as vectors: (start, lanes)."""
    v = lanes()
    full = [(i, v) for i in range(0, n - n % v, v)]
    return full + ([(n - n % v, n % v)] if n % v else [])


def outer_kernel(
    module: Module, kind: str, acc: str, m: int, n: int, am: int, cm: int, cn: int
) -> str:
    """``C[i, j] += sum_r A[i][r] G[r, j]`` for ``r < rows``, G row-major by ``n``. Arguments (A, G, C, rows)."""
    name = f"outer.{kind}.{acc}.{m}.{n}.{am}.{cm}.{cn}".replace("-", "m")
    fn, (a, g, c, rows) = _function(module, name, ["a", "g", "c"], ["rows"])
    if fn is None:
        return name
    widths = _widths(n)
    group = 3
    for lo in range(0, len(widths), group):
        part = widths[lo : lo + group]

        def block(i0: Value | int, size: int, part: list = part) -> None:
            abase = fn.at(a, fn.mul(i0, am), kind)

            def step(r: Value, *acc_in: Value) -> list[Value]:
                gr = fn.at(g, fn.mul(r, n), kind)
                gs = [fn.load(fn.at(gr, s, kind), vector(kind, w)) for s, w in part]
                ar = fn.at(abase, r, kind)
                out = []
                for i in range(size):
                    one = fn.load(fn.at(ar, i * am, kind), kind)
                    for j, (_, w) in enumerate(part):
                        out.append(_fma(fn, fn.splat(one, w), gs[j], acc_in[i * len(part) + j]))
                return out

            zero = [const(0, vector(kind, w)) for _ in range(size) for _, w in part]
            sums = fn.loop(0, rows, 1, step, zero)
            cbase = fn.at(c, fn.mul(i0, cm), acc)
            for i in range(size):
                for j, (s, w) in enumerate(part):
                    place = fn.at(cbase, i * cm + s * cn, acc)
                    _accumulate(fn, sums[i * len(part) + j], place, vector(acc, w), cn)

        _each_block(fn, m, max(1, registers() // group - 1), block)
    fn.finish()
    return name


def _accumulate(fn: Function, value: Value, p: Value, kind: str, stride: int) -> None:
    if value.type != kind:
        value = fn.emit(kind, f"fpext {value} to {kind}")
    old = load(fn, p, kind, stride)
    store(fn, fn.emit(kind, f"fadd {old}, {value.text}"), p, stride)


def lane_kernel(module: Module, kind: str, acc: str) -> str:
    """``C += sum_r A[r] B[r]`` for ``r < rows``. Arguments (A, B, C, rows)."""
    name = f"lane.{kind}.{acc}"
    fn, (a, b, c, rows) = _function(module, name, ["a", "b", "c"], ["rows"])
    if fn is None:
        return name
    n, vec = lanes(), vector(kind, lanes())

    def step(r: Value, total: Value) -> list[Value]:
        mask = row_mask(fn, r, rows, n)
        x, y = fn.load(fn.at(a, r, kind), vec), fn.load(fn.at(b, r, kind), vec)
        product = fn.emit(vec, f"fmul {x}, {y.text}")
        kept = fn.emit(vec, f"select {mask}, {product}, {const(0, vec)}")
        return [fn.emit(vec, f"fadd {total}, {kept.text}")]

    (total,) = fn.loop(0, rows, n, step, [const(0, vec)])
    _accumulate(fn, horizontal(fn, total, "add"), c, acc, 1)
    fn.finish()
    return name


def transpose_kernel(module: Module, kind: str, n: int, gn: int) -> str:
    """``Gt[r, j] = G[j][r]`` (row-major by ``n``) for whole vectors of rows. Arguments (G, Gt, rows)."""
    name = f"transpose.{kind}.{n}.{gn}"
    fn, (g, gt, rows) = _function(module, name, ["g", "gt"], ["rows"])
    if fn is None:
        return name
    v = lanes()

    def row_block(r: Value) -> None:
        for start, width in _widths(n):
            tile = [
                fn.load(fn.at(g, fn.add(r, (start + j) * gn), kind), vector(kind, v))
                for j in range(width)
            ]
            for i, line in enumerate(_transposed(fn, tile, kind, v)):
                place = fn.add(fn.mul(r, n), i * n + start)
                fn.store(line, fn.at(gt, place, kind))

    fn.loop(0, rows, v, row_block)
    fn.finish()
    return name


def _transposed(fn: Function, tile: list[Value], kind: str, v: int) -> list[Value]:
    """The columns of ``tile`` (rows of ``v`` lanes) as vectors of ``len(tile)`` lanes, by butterflies."""
    width = len(tile)
    if width == 1:
        return [fn.emit(kind, f"extractelement {tile[0]}, i64 {i}") for i in range(v)]
    rows = tile + [Value("poison", vector(kind, v))] * (v - width)
    size = 1
    while size < v:
        low = [i if not i & size else v + i - size for i in range(v)]
        high = [i + size if not i & size else v + i for i in range(v)]
        out = list(rows)
        for i in range(v):
            if not i & size:
                out[i] = _shuffle(fn, rows[i], rows[i + size], low, kind)
                out[i + size] = _shuffle(fn, rows[i], rows[i + size], high, kind)
        rows = out
        size *= 2
    if width == v:
        return rows
    return [_shuffle(fn, r, Value("poison", r.type), list(range(width)), kind) for r in rows]


def _shuffle(fn: Function, a: Value, b: Value, picks: list[int], kind: str) -> Value:
    mask = ", ".join(f"i32 {i}" for i in picks)
    out = vector(kind, len(picks))
    return fn.emit(out, f"shufflevector {a}, {b}, <{len(picks)} x i32> <{mask}>")


def flat_kernel(
    module: Module,
    kind: str,
    sizes: tuple[int, int, int],
    a: tuple[int, int],
    b: tuple[int, int],
    c: tuple[int, int],
) -> str:
    """``C[i, j] = sum_k A[i, k] B[k, j]`` on arrays; strides (m, k), (k, n), (m, n). Arguments (A, B, C)."""
    _, n, k = sizes
    name = f"flat.{kind}.{sizes}.{a}.{b}.{c}".translate(_PLAIN)
    fn, (pa, pb, pc) = _function(module, name, ["a", "b", "c"], [])
    if fn is None:
        return name
    if n < 4 and k >= lanes() and a[1] == 1 and b[0] == 1:
        _inner_products(fn, kind, sizes, a, b, c, (pa, pb, pc))
    else:
        _panels(fn, kind, sizes, a, b, c, (pa, pb, pc))
    fn.finish()
    return name


_PLAIN = str.maketrans({"(": "", ")": "", ",": ".", " ": "", "-": "m"})


def _panels(fn, kind, sizes, a, b, c, pointers) -> None:
    """Vectors along n, a block of rows of A broadcast."""
    m, n, k = sizes
    pa, pb, pc = pointers

    def columns(j0: Value | int, part: list[tuple[int, int]]) -> None:
        bbase = fn.at(pb, fn.mul(j0, b[1]), kind)

        def block(i0: Value | int, size: int) -> None:
            abase = fn.at(pa, fn.mul(i0, a[0]), kind)

            def step(i: Value, *acc: Value) -> list[Value]:
                bi = fn.at(bbase, fn.mul(i, b[0]), kind)
                bs = [load(fn, fn.at(bi, s * b[1], kind), vector(kind, w), b[1]) for s, w in part]
                ai = fn.at(abase, fn.mul(i, a[1]), kind)
                out = []
                for row in range(size):
                    one = fn.load(fn.at(ai, row * a[0], kind), kind)
                    for q, (_, w) in enumerate(part):
                        out.append(_fma(fn, fn.splat(one, w), bs[q], acc[row * len(part) + q]))
                return out

            zero = [const(0, vector(kind, w)) for _ in range(size) for _, w in part]
            sums = fn.loop(0, k, 1, step, zero)
            cbase = fn.at(fn.at(pc, fn.mul(i0, c[0]), kind), fn.mul(j0, c[1]), kind)
            for row in range(size):
                for q, (s, _) in enumerate(part):
                    place = fn.at(cbase, row * c[0] + s * c[1], kind)
                    store(fn, sums[row * len(part) + q], place, c[1])

        _each_block(fn, m, max(1, registers() // len(part) - 1), block)

    step_size = 3 * lanes()
    whole = n // step_size * step_size
    fn.loop(0, whole, step_size, lambda j: columns(j, _widths(step_size)))
    if whole < n:
        columns(whole, _widths(n - whole))


def _inner_products(fn, kind, sizes, a, b, c, pointers) -> None:
    """Vectors along k, for products with few columns."""
    m, n, k = sizes
    pa, pb, pc = pointers
    v = lanes()
    whole = k // v * v

    def row(i: Value) -> None:
        abase = fn.at(pa, fn.mul(i, a[0]), kind)
        for j in range(n):
            bbase = fn.at(pb, j * b[1], kind)

            def step(q: Value, acc: Value, bbase: Value = bbase) -> list[Value]:
                x = fn.load(fn.at(abase, q, kind), vector(kind, v))
                y = fn.load(fn.at(bbase, q, kind), vector(kind, v))
                return [_fma(fn, x, y, acc)]

            (total,) = fn.loop(0, whole, v, step, [const(0, vector(kind, v))])
            out = horizontal(fn, total, "add")
            for q in range(whole, k):
                x = fn.load(fn.at(abase, q, kind), kind)
                y = fn.load(fn.at(bbase, q, kind), kind)
                out = _fma(fn, x, y, out)
            place = fn.add(fn.mul(i, c[0]), j * c[1])
            fn.store(out, fn.at(pc, place, kind))

    fn.loop(0, m, 1, row)
