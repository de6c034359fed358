"""Elementwise kernels: any number of inputs and outputs, any strides, one body.

Two schedules. *Dense*: every operand is contiguous, a single element, or a number; threads load and store 16 bytes at a
time where the addresses allow it. *Strided*: the common dimensions are merged as far as they go, and an index is taken
apart with 32-bit divisions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import scalar
from ._compat import (
    I64,
    U32,
    U64,
    Arg,
    Kernel,
    View,
    aligned,
    block_size,
    grid_for,
    kernel,
    pointer,
    ptr,
    simulated,
    storage,
    val,
)

MAX_UNROLLED = 40  # lines of a body above which it is not repeated for a vector of elements


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A scalar body: ``names`` of the inputs, assignment lines, and the texts of the results.

    ``dtypes`` are what the operands are stored in, ``compute`` what the inputs are converted to first (float16 is
    computed in float32). Programs are compared by identity, which is what compiled kernels are found by.
    """

    names: tuple[str, ...]
    body: tuple[str, ...]
    results: tuple[str, ...]
    dtypes: tuple[np.dtype, ...]
    compute: tuple[np.dtype, ...]


# -- merging dimensions -------------------------------------------------------------------------------


def collapse(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Merge neighbouring dimensions that every operand steps through evenly; drop sizes of 1."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(s[-1] == given[d] * n for s, given in zip(steps, strides, strict=True)):
            sizes[-1] *= n
            for s, given in zip(steps, strides, strict=True):
                s[-1] = given[d]
            continue
        sizes.append(n)
        for s, given in zip(steps, strides, strict=True):
            s.append(given[d])
    return tuple(sizes), [tuple(s) for s in steps]


# -- source -------------------------------------------------------------------------------------------


def _load(p: Program, i: int, text: str) -> str:
    """The value of operand i in its compute dtype."""
    if p.compute[i].kind == "b":
        return f"{text} != 0"
    return text if p.compute[i] == p.dtypes[i] else f"{p.compute[i].name}({text})"


def _store(p: Program, j: int, text: str) -> str:
    dtype = p.dtypes[len(p.names) + j]
    if dtype.kind == "b":
        return f"uint8({text})"
    return f"{dtype.name}({text})"


def _params(p: Program, kinds: str) -> tuple[list[str], list[Arg]]:
    names = [f"a{i}" for i in range(len(kinds))]
    args = [val(d) if k == "v" else ptr(d) for k, d in zip(kinds, p.dtypes, strict=True)]
    return names, args


def dense_source(p: Program, kinds: str, width: int) -> tuple[str, list[Arg]]:
    """Source of the dense schedule.

    ``kinds`` has a letter per operand: contiguous (c), one element in memory (1), by value (v). ``width`` elements
    are handled by one thread.
    """
    names, args = _params(p, kinds)
    nin = len(p.names)
    lines = [f"def k({', '.join(names)}, n):"]
    for i in range(nin):
        if kinds[i] != "c":
            source = f"a{i}[0]" if kinds[i] == "1" else f"a{i}"
            lines.append(f"    {p.names[i]} = {_load(p, i, source)}")
    lines.append(
        f"    i = uint64(cuda.grid(1)) * uint64({width})"
        if width > 1
        else "    i = uint32(cuda.grid(1))"
    )
    if width > 1:
        lines.append(f"    if i + uint64({width}) <= uint64(n):")
        for i in range(nin):
            if kinds[i] == "c":
                lines.append(f"        w{i} = vload{width}(a{i}, i)")
        for q in range(width):
            for i in range(nin):
                if kinds[i] == "c":
                    lines.append(f"        {p.names[i]} = {_load(p, i, f'w{i}[{q}]')}")
            lines += ["        " + text for text in p.body]
            for j, r in enumerate(p.results):
                lines.append(f"        r{j}_{q} = {_store(p, j, r)}")
        for j in range(len(p.results)):
            found = ", ".join(f"r{j}_{q}" for q in range(width))
            lines.append(f"        vstore{width}(a{nin + j}, i, {found})")
        lines += ["    else:", "        while i < uint64(n):"]
        pad = "            "
    else:
        lines.append("    if i < n:")
        pad = "        "
    for i in range(nin):
        if kinds[i] == "c":
            lines.append(f"{pad}{p.names[i]} = {_load(p, i, f'a{i}[i]')}")
    lines += [pad + text for text in p.body]
    lines += [f"{pad}a{nin + j}[i] = {_store(p, j, r)}" for j, r in enumerate(p.results)]
    if width > 1:
        lines.append(f"{pad}i += uint64(1)")
    return "\n".join(lines) + "\n", [*args, val(U64 if width > 1 else U32)]


def strided_source(p: Program, kinds: str, ndim: int, wide: bool) -> tuple[str, list[Arg]]:
    """Source of the strided schedule over ``ndim`` merged dimensions; ``wide`` uses 64-bit indices."""
    names, args = _params(p, kinds)
    nin = len(p.names)
    t = "uint64" if wide else "uint32"
    pointers = [i for i, k in enumerate(kinds) if k != "v"]
    params = list(names)
    for i in pointers:
        params += [f"s{i}_{d}" for d in range(ndim)]
        args += [val(I64)] * ndim
    params += [f"n{d}" for d in range(1, ndim)] + ["n"]
    args += [val(U64 if wide else U32)] * ndim
    lines = [f"def k({', '.join(params)}):"]
    for i in range(nin):
        if kinds[i] == "v":
            lines.append(f"    {p.names[i]} = {_load(p, i, f'a{i}')}")
    lines += [f"    i = {t}(cuda.grid(1))", "    if i < n:", "        q0 = i"]
    for d in range(ndim - 1, 0, -1):
        lines += [
            f"        r{d} = int64({t}(q0 % n{d}))",
            f"        q0 = {t}(q0 // n{d})",
        ]
    lines.append("        r0 = int64(q0)")
    for i in pointers:
        terms = " + ".join(f"r{d} * s{i}_{d}" for d in range(ndim))
        lines.append(f"        o{i} = {terms}")
    for i in range(nin):
        if kinds[i] != "v":
            lines.append(f"        {p.names[i]} = {_load(p, i, f'a{i}[o{i}]')}")
    lines += ["        " + text for text in p.body]
    for j, r in enumerate(p.results):
        lines.append(f"        a{nin + j}[o{nin + j}] = {_store(p, j, r)}")
    return "\n".join(lines) + "\n", args


# -- vectors of elements ------------------------------------------------------------------------------


@functools.cache
def vectors() -> dict[str, Any]:
    """``vload2, vload4 ... vstore16``: several consecutive elements by one instruction of up to 16 bytes."""
    widths = (2, 4, 8, 16)
    make = _simulated_vector if simulated() else _device_vector
    found: dict[str, Any] = {}
    for w in widths:
        found[f"vload{w}"], found[f"vstore{w}"] = make(w)
    return found


def _simulated_vector(width: int) -> tuple[Any, Any]:
    def load(p: Any, i: Any) -> tuple:
        return tuple(p[int(i) + q] for q in range(width))

    def store(p: Any, i: Any, *values: Any) -> None:
        for q, v in enumerate(values):
            p[int(i) + q] = v

    return load, store


def _device_vector(width: int) -> tuple[Any, Any]:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    index = ir.IntType(32)

    def vector_pointer(context: Any, builder: Any, dtype: Any, p: Any, i: Any) -> tuple[Any, int]:
        element = context.get_data_type(dtype)
        at = builder.gep(p, [i])
        kind = ir.VectorType(element, width)
        return builder.bitcast(at, kind.as_pointer()), context.get_abi_sizeof(element) * width

    def vload(typingctx, p, i):
        def codegen(context, builder, sig, args):
            where, align = vector_pointer(context, builder, sig.args[0].dtype, *args)
            value = builder.load(where)
            value.align = align
            parts = [builder.extract_element(value, index(q)) for q in range(width)]
            return context.make_tuple(builder, sig.return_type, parts)

        return types.UniTuple(p.dtype, width)(p, i), codegen

    def emit_store(context, builder, sig, args):
        where, align = vector_pointer(context, builder, sig.args[0].dtype, args[0], args[1])
        value = ir.Constant(
            ir.VectorType(context.get_data_type(sig.args[0].dtype), width), ir.Undefined
        )
        for q in range(width):
            value = builder.insert_element(value, args[2 + q], index(q))
        builder.store(value, where).align = align
        return context.get_dummy_value()

    values = [f"v{q}" for q in range(width)]
    text = (
        f"def vstore(typingctx, p, i, {', '.join(values)}):\n"
        f"    return types.void(p, i, {', '.join(['p.dtype'] * width)}), emit_store\n"
    )
    scope = {"types": types, "emit_store": emit_store, "__name__": __name__}
    exec(text, scope)
    return intrinsic(vload), intrinsic(scope["vstore"])


@functools.cache
def namespace() -> dict[str, Any]:
    """Globals of elementwise kernels."""
    return {**scalar.namespace(), **vectors()}


# -- launching ----------------------------------------------------------------------------------------


def vector_width(p: Program, kinds: str, views: Sequence[Any]) -> int:
    """Elements one thread can handle with 16-byte accesses, 1 if there is no such number."""
    dtypes = [storage(d) for d, k in zip(p.dtypes, kinds, strict=True) if k == "c"]
    if len(p.body) > MAX_UNROLLED or any(d.kind == "c" or d.name == "float16" for d in dtypes):
        return 1
    width = 16 // max(d.itemsize for d in dtypes)
    dense = [v for v, k in zip(views, kinds, strict=True) if k == "c"]
    return width if all(aligned(v, width * v.dtype.itemsize) for v in dense) else 1


@functools.lru_cache(maxsize=4096)
def _dense(p: Program, kinds: str, width: int) -> Kernel:
    source, args = dense_source(p, kinds, width)
    return kernel(source, args, namespace())


@functools.lru_cache(maxsize=4096)
def _strided(p: Program, kinds: str, ndim: int, wide: bool) -> Kernel:
    source, args = strided_source(p, kinds, ndim, wide)
    return kernel(source, args, namespace())


def run(p: Program, shape: Sequence[int], operands: Sequence[Any], stream: Any = 0) -> None:
    """Run over ``shape``: inputs then outputs, each a `View` of that shape or (inputs) a NumPy scalar."""
    n = 1
    for s in shape:
        n *= s
    if not n:
        return
    views = [o for o in operands if isinstance(o, View)]
    sizes, steps = collapse(shape, [v.strides for v in views])
    found = iter(steps)
    kinds = ""
    for o in operands:
        if not isinstance(o, View):
            kinds += "v"
            continue
        s = next(found)
        kinds += "c" if s in ((1,), ()) else "1" if not any(s) else "s"
    block = block_size()
    if "s" not in kinds and len(sizes) <= 1 and not kinds.endswith("1") and n < 1 << 32:
        width = vector_width(p, kinds, operands) if n >= 4 * block else 1
        args = [pointer(o) if isinstance(o, View) else o for o in operands]
        count = np.uint64(n) if width > 1 else np.uint32(n)
        k = _dense(p, kinds, width)
        k(grid_for((n + width - 1) // width, block), block, stream, [*args, count])
        return
    _run_strided(p, n, sizes or (1,), [s or (0,) for s in steps], operands, stream)


def _run_strided(
    p: Program, n: int, sizes: tuple, steps: list, operands: Sequence[Any], stream
) -> None:
    kinds = "".join("s" if isinstance(o, View) else "v" for o in operands)
    ndim, block = len(sizes), block_size()
    wide = n >= 1 << 31
    args: list[Any] = [pointer(o) if isinstance(o, View) else o for o in operands]
    args += [np.int64(s) for step in steps for s in step]
    index = np.uint64 if wide else np.uint32
    args += [index(m) for m in sizes[1:]] + [index(n)]
    _strided(p, kinds, ndim, wide)(grid_for(n, block), block, stream, args)
