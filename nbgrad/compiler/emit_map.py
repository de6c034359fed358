"""Loop nests: the steps of an item over its index space, vectors along rows or along the last axis."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kernels_cpu.llvm import scalars
from kernels_cpu.llvm.memory import combined, horizontal, load, row_mask
from kernels_cpu.llvm.text import Value, const, scalar_of, vector

from .axes import ROW
from .evaluate import evaluate
from .items import Access, Map, Step
from .stores import Store, identity
from .target import Target

SPREAD = 1 << 15  # elements of a nest over arrays that is worth several threads
MOST_PARTS = 16


def emit_map(target: Target, item: Map) -> None:
    """Emit one loop nest."""
    fill_targets(target, item)
    (RowNest if target.region is not None else FlatNest)(target, item).emit()


def parts(target: Target, item: Map) -> int:
    """Into how many parts a nest over arrays can be cut for threads (0: it cannot, or is too small)."""
    if math.prod(item.space) < SPREAD:
        return 0
    nest = FlatNest(target, item)
    first = nest.dims[0]
    for step in item.steps:
        if step.combine and step.target and first.strides[nest.known[step.target]] == 0:
            return 0
    count = first.size if len(nest.dims) > 1 else first.size // target.lanes
    return min(count, MOST_PARTS)


def emit_part(target: Target, item: Map, count: int) -> None:
    """Emit a nest over arrays for the part ``%chunk`` of ``count`` (targets are filled already)."""
    FlatNest(target, item).emit(count)


def fill_targets(target: Target, item: Map) -> None:
    """Set what the steps of a nest add to."""
    for step in item.steps:
        if step.fill and step.target is not None and step.target.store.kind != "acc":
            s = step.target.store
            fill_store(target, s, identity(step.combine, s.dtype))


def fill_store(target: Target, s: Store, value: float) -> None:
    """Set a whole store to a value."""
    fn, kind = target.fn, target.kind(s)
    base = target.base(s)
    n = s.size * (target.tile if s.kind == "tile" else s.lanes if s.kind == "acc" else 1)
    v = target.lanes
    fn.loop(
        0, n - n % v, v, lambda i: fn.store(const(value, vector(kind, v)), fn.at(base, i, kind))
    )
    if n % v:
        fn.store(const(value, vector(kind, n % v)), fn.at(base, n - n % v, kind))


class Dim(NamedTuple):
    """A loop: its extent, and per access the stride."""

    size: int
    strides: tuple[int, ...]


class Nest:
    """What both kinds of nests share: collapsed loops, operands, evaluation, stores."""

    def __init__(self, target: Target, item: Map):
        self.target, self.item, self.fn = target, item, target.fn
        self.accesses: list[Access] = []
        self.known: dict[Access, int] = {}
        for step in item.steps:
            for o in step.operands:
                if not o.forwarded:
                    self._register(o.access)
            if step.target is not None:
                self._register(step.target)
        self.dims = self._collapse()

    def _register(self, access: Access) -> None:
        if access not in self.known:
            self.known[access] = len(self.accesses)
            self.accesses.append(access)

    def _collapse(self) -> list[Dim]:
        """Merge neighbouring loops that every access passes as one."""
        dims: list[Dim] = []
        for i, n in enumerate(self.item.space):
            strides = tuple(a.strides[i] for a in self.accesses)
            if dims and all(s == t * n for s, t in zip(dims[-1].strides, strides, strict=True)):
                dims[-1] = Dim(dims[-1].size * n, strides)
            else:
                dims.append(Dim(n, strides))
        return dims

    def _loops(self, dims: list[Dim], offsets: list[Value], body: Any) -> None:
        """Nested loops; ``offsets`` are the element offsets of the accesses so far."""
        if not dims:
            body(offsets)
            return
        dim, *rest = dims

        def inside(i: Value) -> None:
            here = [
                self.fn.add(o, self.fn.mul(i, s)) if s else o
                for o, s in zip(offsets, dim.strides, strict=True)
            ]
            self._loops(rest, here, body)

        self.fn.loop(0, dim.size, 1, inside)

    def _starts(self) -> list[Value]:
        return [Value(str(a.offset), "i64") for a in self.accesses]

    def _values(self, step: Step, env: dict[int, Any], read: Any) -> Any:
        """The value of a step from its operands."""
        args = [env[o.var] if o.forwarded else read(o.access) for o in step.operands]
        if step.op == "copy":
            same = step.operands[0].access.store.dtype == step.dtype
            return args[0] if same else scalars.cast(self.fn, args[0], step.dtype)
        dtypes = [self._dtype(step, i) for i in range(len(args))]
        return evaluate(self.fn, step.op, dtypes, step.dtype, args)

    def _dtype(self, step: Step, i: int) -> Any:
        assert step.ins is not None
        return self.target.schedule.tape.specs[step.ins.inputs[i]].dtype

    def _constant(self, access: Access, lanes: int) -> Any:
        value, dtype = access.store.value, access.store.dtype
        if dtype == np.float16:  # only moved: its bits
            value, dtype = int(np.float16(value).view(np.int16)), np.dtype("int16")
        elif dtype == np.uint8:
            value, dtype = int(np.uint8(value).view(np.int8)), np.dtype("int8")
        return scalars.constant(value, dtype, lanes)


class RowNest(Nest):
    """Loops over features, inside them vectors of rows."""

    def emit(self) -> None:
        """Emit the nest."""
        self._loops(self.dims, self._starts(), self._features)

    def _features(self, offsets: list[Value]) -> None:
        fn, target = self.fn, self.target
        fixed = {}
        for access, offset in zip(self.accesses, offsets, strict=True):
            if access.row == 0 and access.store.kind not in ("fill", "acc"):
                if any(not o.forwarded and o.access == access for o in self._operands()):
                    p = target.place(access.store, offset)
                    fixed[access] = target.fetch(access.store, p, target.lanes, 0)
        sums = [s for s in self.item.steps if s.row_sum]
        starts = [self._zero(s) for s in sums]

        def rows(r: Value, *carried: Value) -> list[Value]:
            return self._rows(r, offsets, fixed, list(carried), sums)

        totals = fn.loop(0, target.padded, target.lanes, rows, starts)
        for step, total in zip(sums, totals, strict=True):
            self._add_up(step, total, offsets)

    def _operands(self) -> list:
        return [o for s in self.item.steps for o in s.operands]

    def _zero(self, step: Step) -> Value:
        assert step.target is not None
        kind = vector(self.target.kind(step.target.store), self.target.lanes)
        return const(identity(step.combine, step.target.store.dtype), kind)

    def _add_up(self, step: Step, total: Value, offsets: list[Value]) -> None:
        fn, target, access = self.fn, self.target, step.target
        assert access is not None
        kind = scalar_of(total.type)
        place = fn.mul(offsets[self.known[access]], access.store.lanes)
        p = fn.at(target.base(access.store), place, kind)
        fn.store(combined(fn, fn.load(p, total.type), total, step.combine), p)

    def _rows(self, r: Value, offsets, fixed: dict, carried: list, sums: list) -> list[Value]:
        fn, target = self.fn, self.target
        lanes = target.lanes
        loaded: dict[Access, Any] = {}
        env: dict[int, Any] = {}
        masks: list[Value] = []

        def mask() -> Value:
            if not masks:
                masks.append(row_mask(fn, r, target.rows, lanes))
            return masks[0]

        def read(access: Access) -> Any:
            if access.store.kind == "fill":
                return self._constant(access, lanes)
            if access in fixed:
                return fixed[access]
            if access not in loaded:
                p, stride = self._place(access, offsets[self.known[access]], r)
                outside = None if access.store.kind == "tile" else mask()
                loaded[access] = target.fetch(access.store, p, lanes, stride, outside)
            return loaded[access]

        out = list(carried)
        for step in self.item.steps:
            value = self._values(step, env, read)
            env[step.out] = value
            access = step.target
            if access is None:
                continue
            if step.row_sum:
                i = sums.index(step)
                kind = vector(target.kind(access.store), lanes)
                value = scalars.cast(fn, value, access.store.dtype)
                nothing = const(identity(step.combine, access.store.dtype), kind)
                kept = fn.emit(kind, f"select {mask()}, {value}, {nothing}")
                out[i] = combined(fn, out[i], kept, step.combine)
                continue
            p, stride = self._place(access, offsets[self.known[access]], r)
            tiled = access.store.kind == "tile"
            if step.combine:
                kind = vector(target.kind(access.store), lanes)
                old = load(fn, p, kind, stride, None if tiled else mask())
                value = combined(fn, old, value, step.combine)
            target.put(access.store, value, p, stride, None if tiled else mask())
            loaded.pop(access, None)
        return out

    def _place(self, access: Access, offset: Value, r: Value) -> tuple[Value, int]:
        """Address of rows ``r ...`` and the distance of two rows."""
        fn, target = self.fn, self.target
        if access.store.kind == "tile":
            at = fn.add(fn.mul(offset, target.tile), r) if access.row == ROW else offset
            return target.place(access.store, at), 1
        row = fn.mul(fn.add(target.row0, r), access.row)
        return target.place(access.store, fn.add(offset, row)), access.row


class FlatNest(Nest):
    """Loops over all axes; the last one in vectors, its rest in a shorter vector."""

    def emit(self, count: int = 1) -> None:
        """Emit the nest, or part ``%chunk`` of ``count`` of it."""
        if not self.dims:
            self._body(self._starts(), 1, Dim(1, (0,) * len(self.accesses)), {})
            return
        *outer, inner = self.dims
        if count == 1:
            self._loops(outer, self._starts(), lambda offsets: self._inner(offsets, inner))
        elif outer:
            self._some(outer, inner, count)
        else:
            self._inner(self._starts(), inner, count)

    def _part(self, n: int, count: int) -> tuple[Value, Value]:
        """The range of part ``%chunk`` of ``n``."""
        fn, chunk = self.fn, Value("%chunk", "i64")
        cuts = [fn.emit("i64", f"udiv {fn.mul(c, n)}, {count}") for c in (chunk, fn.add(chunk, 1))]
        return cuts[0], cuts[1]

    def _some(self, outer: list[Dim], inner: Dim, count: int) -> None:
        first, *rest = outer
        lo, hi = self._part(first.size, count)

        def inside(i: Value) -> None:
            here = [
                self.fn.add(o, self.fn.mul(i, s)) if s else o
                for o, s in zip(self._starts(), first.strides, strict=True)
            ]
            self._loops(rest, here, lambda offsets: self._inner(offsets, inner))

        self.fn.loop(lo, hi, 1, inside)

    def _shifted(self, offsets: list[Value], i: Value | int, dim: Dim) -> list[Value]:
        fn = self.fn
        return [
            fn.add(o, fn.mul(i, s)) if s else o for o, s in zip(offsets, dim.strides, strict=True)
        ]

    def _reduced(self, dim: Dim) -> list[Step]:
        """Steps that reduce along the vector axis."""
        return [
            s
            for s in self.item.steps
            if s.combine and s.target is not None and dim.strides[self.known[s.target]] == 0
        ]

    def _inner(self, offsets: list[Value], dim: Dim, count: int = 1) -> None:
        fn, v = self.fn, self.target.lanes
        whole, rest = dim.size - dim.size % v, dim.size % v
        if count > 1:
            lo, hi = self._part(whole // v, count)

            def one(i: Value) -> None:
                self._body(self._shifted(offsets, i, dim), v, dim, {})

            fn.loop(fn.mul(lo, v), fn.mul(hi, v), v, one)
            if rest:
                with fn.when(fn.emit("i1", f"icmp eq i64 %chunk, {count - 1}")):
                    self._body(self._shifted(offsets, whole, dim), rest, dim, {})
            return
        reduced = self._reduced(dim)
        parts: dict[int, list[Value]] = {id(s): [] for s in reduced}

        def at(i: Value | int) -> list[Value]:
            return self._shifted(offsets, i, dim)

        if whole:
            starts = [
                const(
                    identity(s.combine, s.target.store.dtype),  # type: ignore[union-attr]
                    vector(self.target.kind(s.target.store), v),  # type: ignore[union-attr]
                )
                for s in reduced
            ]

            def body(i: Value, *carried: Value) -> list[Value]:
                got = self._body(at(i), v, dim, {})
                return [
                    combined(fn, c, got[id(s)], s.combine)
                    for s, c in zip(reduced, carried, strict=True)
                ]

            for s, total in zip(reduced, fn.loop(0, whole, v, body, starts), strict=True):
                parts[id(s)].append(horizontal(fn, total, s.combine))
        if rest:
            got = self._body(at(whole), rest, dim, {})
            for s in reduced:
                parts[id(s)].append(horizontal(fn, got[id(s)], s.combine))
        for s in reduced:
            assert s.target is not None
            kind = self.target.kind(s.target.store)
            p = fn.at(self.target.base(s.target.store), offsets[self.known[s.target]], kind)
            value = fn.load(p, kind)
            for part in parts[id(s)]:
                value = combined(fn, value, part, s.combine)
            fn.store(value, p)

    def _body(self, offsets: list[Value], lanes: int, dim: Dim, loaded: dict) -> dict[int, Value]:
        """All steps for one vector; returns the values of steps reduced along it."""
        fn, target = self.fn, self.target
        env: dict[int, Any] = {}
        results: dict[int, Value] = {}

        def place(access: Access) -> tuple[Value, int]:
            i = self.known[access]
            return target.place(access.store, offsets[i]), dim.strides[i]

        def read(access: Access) -> Any:
            if access.store.kind == "fill":
                return self._constant(access, lanes)
            if access not in loaded:
                p, stride = place(access)
                loaded[access] = target.fetch(access.store, p, lanes, stride)
            return loaded[access]

        for step in self.item.steps:
            value = self._values(step, env, read)
            env[step.out] = value
            access = step.target
            if access is None:
                continue
            p, stride = place(access)
            if step.combine and stride == 0 and dim.size > 1:
                results[id(step)] = value
                continue
            if step.combine:
                kind = vector(target.kind(access.store), lanes)
                value = combined(fn, load(fn, p, kind, stride), value, step.combine)
            target.put(access.store, value, p, stride)
            loaded.pop(access, None)
        return results
