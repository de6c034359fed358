"""The function a block is emitted into: addresses of stores, the current tile, accumulators."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kernels_cpu.llvm import jit
from kernels_cpu.llvm.memory import combined, horizontal, load, store
from kernels_cpu.llvm.scalars import Pair
from kernels_cpu.llvm.text import BYTES, SCALARS, Function, Value, const, vector

from .items import Finish
from .stores import Ref, Store, identity

# dtypes that are only moved: as what
_MOVED = {"float16": "i16", "uint8": "i8", "complex128": "double", "complex64": "float"}


@functools.cache
def _kind(dtype: np.dtype) -> str:
    return _MOVED.get(dtype.name) or SCALARS[dtype.name]


class Target:
    """Emission state of uniform code, or of a row region: its block and plan."""

    def __init__(self, schedule: Any, fn: Function, block: Any = None, region: Any = None):
        self.schedule, self.fn, self.block, self.region = schedule, fn, block, region
        self.lanes = jit.lanes()
        self.row0 = self.rows = self.padded = Value("0", "i64")

    @property
    def tile(self) -> int:
        """Rows of a tile: the distance of two features in a tile store."""
        return self.region.tile

    def start_tile(self, t: Value) -> None:
        """Compute the first row, the number of rows and what it is rounded up to."""
        from kernels_cpu.llvm.gemm import row_quantum

        fn, q = self.fn, row_quantum()
        self.row0 = fn.mul(t, self.tile)
        left = fn.emit("i64", f"sub nsw {self.size(2 * self.region.index)}, {self.row0.text}")
        self.rows = fn.call("llvm.smin.i64", "i64", [left, Value(str(self.tile), "i64")])
        up = fn.add(self.rows, q - 1)
        self.padded = fn.emit("i64", f"and {up}, {-q}")

    def spare(self) -> Value:
        """Scratch for an operand transposed on the way into a product."""
        return self.fn.hoist("ptr", f"getelementptr i8, ptr %scratch, i64 {self.region.spare}")

    def kind(self, s: Store) -> str:
        """The scalar type of a store's elements (of their parts, for complex ones)."""
        return _kind(s.dtype)

    def place(self, s: Store, index: Value | int) -> Value:
        """The address of an element."""
        if s.dtype.kind == "c":
            index = self.fn.mul(index, 2)
        return self.fn.at(self.base(s), index, self.kind(s))

    def fetch(self, s: Store, p: Value, lanes: int, stride: int, mask: Value | None = None) -> Any:
        """Load elements ``stride`` apart; complex ones as their parts."""
        kind = vector(self.kind(s), lanes)
        if s.dtype.kind != "c":
            return load(self.fn, p, kind, stride, mask)
        parts = (p, self.fn.at(p, 1, self.kind(s)))
        return Pair(*(load(self.fn, q, kind, 2 * stride, mask) for q in parts))

    def put(self, s: Store, value: Any, p: Value, stride: int, mask: Value | None = None) -> None:
        """Store elements ``stride`` apart."""
        if not isinstance(value, Pair):
            store(self.fn, value, p, stride, mask)
            return
        for part, q in zip(value, (p, self.fn.at(p, 1, self.kind(s))), strict=True):
            store(self.fn, part, q, 2 * stride, mask)

    def base(self, s: Store) -> Value:
        """The address of a store's first element."""
        fn = self.fn
        if s.kind == "tile":
            return fn.hoist("ptr", f"getelementptr i8, ptr %scratch, i64 {s.offset * self.tile}")
        if s.kind == "acc":
            return self._accumulator(s, self.block, Value("%chunk", "i64"))
        if s.kind == "work":
            work = self._buffer(self._slot("work", 0))
            return fn.hoist("ptr", f"getelementptr i8, {work}, i64 {s.offset}")
        return self._buffer(self._slot(s.kind, s.index))

    def size(self, i: int) -> Value:
        """A number of rows or chunks, read where the program keeps them."""
        place = self.fn.hoist("ptr", f"getelementptr i64, {self.constant(0)}, i64 {i}")
        return self.fn.hoist("i64", f"load i64, {place}, align 8, !invariant.load !0")

    def constant(self, index: int) -> Value:
        """The address of a constant array."""
        return self._buffer(self._slot("const", index))

    def address(self, ref: Ref) -> Value:
        """The address of the first element of a view."""
        return self.fn.at(self.base(ref.store), ref.layout.offset, self.kind(ref.store))

    def _slot(self, kind: str, index: int) -> int:
        s = self.schedule
        first = {"input": 0, "const": len(s.inputs)}
        first["output"] = first["const"] + len(s.const_arrays)
        first["work"] = first["output"] + len(s.outputs)
        return first[kind] + index

    def _buffer(self, slot: int) -> Value:
        fn = self.fn
        place = fn.hoist("ptr", f"getelementptr ptr, ptr %buffers, i64 {slot}")
        return fn.hoist("ptr", f"load ptr, {place}, align 8, !invariant.load !0")

    def _accumulator(self, s: Store, block: Any, chunk: Value) -> Value:
        fn = self.fn
        work = self._buffer(self._slot("work", 0))
        first = fn.hoist("ptr", f"getelementptr i8, {work}, i64 {block.acc_offset + s.offset}")
        if chunk.text == "0":
            return first
        step = f"mul i64 {chunk.text}, {block.acc_bytes}"
        shift = fn.hoist("i64", step) if chunk.text == "%chunk" else fn.emit("i64", step)
        text = f"getelementptr i8, {first}, {shift}"
        return fn.hoist("ptr", text) if chunk.text == "%chunk" else fn.emit("ptr", text)

    def finish(self, item: Finish) -> None:
        """Add up an accumulator's chunks and lanes into its array."""
        fn, source = self.fn, item.source
        block = next(b for b in self.schedule.blocks() if source in b.stores)
        chunks = self.size(2 * self.schedule.plan.regions[id(block)].index + 1)
        kind, out_kind = self.kind(source), self.kind(item.target)
        first = self._accumulator(source, block, Value("0", "i64"))
        stride = block.acc_bytes // BYTES[kind]
        target = self.base(item.target)
        per = source.lanes if source.lanes > 1 else 0

        def element(i: Value | int, lanes: int) -> None:
            wide = vector(kind, per or lanes)

            def add(c: Value, total: Value) -> list[Value]:
                place = fn.add(fn.mul(c, stride), fn.mul(i, per or 1))
                one = load(fn, fn.at(first, place, kind), wide)
                return [combined(fn, total, one, source.combine)]

            start = const(identity(source.combine, source.dtype), wide)
            (total,) = fn.loop(0, chunks, 1, add, [start])
            if per:
                total = horizontal(fn, total, source.combine)
            if kind != out_kind:
                narrow = vector(out_kind, 1 if per else lanes)
                total = fn.emit(narrow, f"fptrunc {total} to {narrow}")
            store(fn, total, fn.at(target, i, out_kind))

        n, v = source.size, 1 if per else self.lanes
        fn.loop(0, n - n % v, v, lambda i: element(i, v))
        if n % v:
            element(n - n % v, n % v)
