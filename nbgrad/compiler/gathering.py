"""Gathers and scatters whose indices are known: positions in flat arrays, worked out when the program is compiled.

Where an operator takes its elements from is found by running its own kernel on the numbers 0, 1, 2 ...: one way for
every form of indexing. Negative indices and errors are thereby those of eager code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernels_cpu.llvm.memory import gather, store
from kernels_cpu.llvm.text import Value, vector

from ..layout import contiguous
from ..op import REGISTRY
from ..tape.program import Instruction
from .stores import Ref, Store

OPERATORS = {
    "index": 1,
    "gather_": 1,
    "unindex": 1,
    "scatter_add_": 1,
    "scatter_": 1,
    "index_put": 2,
}


class Gather(NamedTuple):
    """``target[i] = source[table[i]]``."""

    source: Ref
    table: Store
    target: Store


class Scatter(NamedTuple):
    """``target[table[i]] = source[i]`` in order, or ``+=``; with ``source_table`` the source is gathered."""

    source: Ref
    source_table: Store | None
    table: Store
    target: Store
    add: bool
    clear: bool  # the target holds zeros before


def index_inputs(ins: Instruction) -> list[int]:
    """The operands that are indices."""
    if ins.op in ("scatter_add_", "scatter_"):
        return [ins.inputs[1]]
    return list(ins.inputs[OPERATORS[ins.op] :])


def positions(ins: Instruction, shape: tuple, indices: list[np.ndarray]) -> np.ndarray:
    """Which element of an array of ``shape`` each element of the gathered array is."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    if ins.op in ("gather_", "scatter_add_", "scatter_"):
        return REGISTRY["gather_"].forward([numbers, *indices], {"dim": ins.params["dim"]})
    return REGISTRY["index"].forward([numbers, *indices], {"axes": ins.params["axes"]})


def make_move(block: Any, ins: Instruction) -> None:
    """Schedule a gather or scatter in uniform code."""
    from .block import Node

    program = block.program
    (y,) = ins.outputs
    indices = [program.constants.arrays[v] for v in index_inputs(ins)]
    whole = ins.inputs[0] if ins.op in ("index", "gather_") else y
    where = positions(ins, tuple(block.spec(whole).shape), indices)
    table = program.const_store(np.ascontiguousarray(where, np.int64))
    target = block.new_store(y)
    if ins.op in ("index", "gather_"):
        x = ins.inputs[0]
        item: Any = Gather(block.contiguous(x), table, target.store)
        reads = [x]
    else:
        clear = ins.op == "unindex"
        src = ins.inputs[0] if clear else ins.inputs[2 if ins.op.startswith("scatter") else 1]
        reads = [src]
        if not clear:
            block.copy(ins.inputs[0], y, Ref(target.store, contiguous(block.spec(y).shape)))
            reads.append(y)
        from_table = None
        shape = tuple(block.spec(src).shape)
        if shape != where.shape:
            numbers = np.arange(int(np.prod(shape))).reshape(shape)
            spread = np.ascontiguousarray(np.broadcast_to(numbers, where.shape), np.int64)
            from_table = program.const_store(spread)
        add = ins.params.get("accumulate", ins.op in ("unindex", "scatter_add_"))
        item = Scatter(block.contiguous(src), from_table, table, target.store, add, clear)
    node = Node("move", None, [(block.root(v), False) for v in reads], -1)
    node.reads += [(v, False) for v in block.packs(*reads)]
    if y in reads:
        node.reads.append((y, False))
    node.make = lambda: item
    block._append(node, [y])


def emit_gather(target: Any, item: Gather) -> None:
    """Vectors of positions, gathered loads."""
    fn, kind = target.fn, target.kind(item.source.store)
    base, table, out = (
        target.address(item.source),
        target.base(item.table),
        target.base(item.target),
    )
    parts = 2 if item.target.dtype.kind == "c" else 1

    def some(i: Value | int, n: int) -> None:
        at = fn.load(fn.at(table, i, "i64"), vector("i64", n))
        for part in range(parts):
            if parts == 2:
                two = fn.splat(Value("2", "i64"), n)
                at2 = fn.emit(at.type, f"mul {at}, {two.text}")
                at2 = fn.emit(at.type, f"add {at2}, {fn.splat(Value(str(part), 'i64'), n).text}")
            else:
                at2 = at
            value = _gathered(fn, base, at2, kind, n)
            p = fn.at(out, fn.add(fn.mul(i, parts), part), kind)
            store(fn, value, p, parts)

    size, v = item.table.size, target.lanes
    fn.loop(0, size - size % v, v, lambda i: some(i, v))
    if size % v:
        some(size - size % v, size % v)


def _gathered(fn: Any, base: Value, at: Value, kind: str, n: int) -> Value:
    cell = "i8" if kind == "i1" else kind
    if n == 1:
        return fn.load(fn.at(base, at, kind), kind)
    places = fn.emit(f"<{n} x ptr>", f"getelementptr {cell}, {base}, {at}")
    got = gather(fn, places, vector(cell, n))
    return got if cell == kind else fn.emit(vector("i1", n), f"icmp ne {got}, zeroinitializer")


def emit_scatter(target: Any, item: Scatter) -> None:
    """One element after the other: positions may repeat."""
    from .emit_map import fill_store

    fn, kind = target.fn, target.kind(item.target)
    if item.clear:
        fill_store(target, item.target, 0)
    base, table, out = (
        target.address(item.source),
        target.base(item.table),
        target.base(item.target),
    )

    def one(i: Value) -> None:
        at = fn.load(fn.at(table, i, "i64"), "i64")
        j = i
        if item.source_table is not None:
            j = fn.load(fn.at(target.base(item.source_table), i, "i64"), "i64")
        value = fn.load(fn.at(base, j, kind), kind)
        p = fn.at(out, at, kind)
        if item.add:
            op = "fadd" if kind in ("double", "float") else "add"
            value = fn.emit(kind, f"{op} {fn.load(p, kind)}, {value.text}")
        fn.store(value, p)

    fn.loop(0, item.table.size, 1, one)
