"""Small local arrays whose elements are only named by constants become numbers."""

from __future__ import annotations

import itertools
from typing import Any

from numba import types

from . import ir, scalars

LIMIT = 16  # elements


def scalarize(f: ir.Function) -> None:
    """Replace such arrays by their elements, in place."""
    chosen = _candidates(f)
    if chosen:
        _Elements(f, chosen).block(f.body, {})


def _candidates(f: ir.Function) -> set[ir.Value]:
    """Arrays of constant size that are only loaded from and stored to at constant places."""
    found: dict[ir.Value, tuple] = {}
    for op in ir.walk(f.body):
        if op.kind == "alloc" and all(isinstance(a, ir.Const) for a in op.args) and op.args:
            sizes = tuple(int(a.value) for a in op.args)  # type: ignore[attr-defined]
            total = 1
            for n in sizes:
                total *= n
            if 0 < total <= LIMIT and not isinstance(op.result.type.dtype, types.Record):
                found[op.result] = sizes
    for op in ir.walk(f.body):
        for v in ir.uses(op):
            if v in found and not _named(op, v, found[v]):
                del found[v]
    for v in f.results:
        found.pop(v, None)
    return set(found)


def _named(op: ir.Op, v: ir.Value, sizes: tuple) -> bool:
    """Whether an operation uses an array only through an element with a constant index."""
    if op.kind == "shape":
        return True
    if op.kind not in ("load", "store", "accum") or op.args[0] is not v or v in op.args[1:]:
        return False
    index = op.args[1:] if op.kind == "load" else op.args[1:-1]
    return len(index) == len(sizes) and all(
        isinstance(i, ir.Const) and 0 <= i.value < n for i, n in zip(index, sizes)
    )


class _Elements:
    """Walks the program with the current value of every element."""

    def __init__(self, f: ir.Function, chosen: set[ir.Value]):
        self.chosen = chosen
        self.renamed: dict[ir.Value, ir.Value] = {}
        self.f = f

    def value(self, v: ir.Value) -> ir.Value:
        """A value after renaming."""
        while v in self.renamed:
            v = self.renamed[v]
        return v

    def key(self, op: ir.Op) -> Any:
        """The element an operation touches, or None."""
        if op.kind not in ("load", "store", "accum") or op.args[0] not in self.chosen:
            return None
        index = op.args[1:] if op.kind == "load" else op.args[1:-1]
        return (op.args[0], *[i.value for i in index])  # type: ignore[attr-defined]

    def block(self, block: ir.Block, now: dict) -> dict:
        """Rewrite a block; returns the elements' values at its end."""
        new: list[ir.Op] = []
        for op in block.ops:
            key = self.key(op)
            if key is not None:
                self.access(op, key, now, new, block)
            elif op.kind == "alloc" and op.result in self.chosen:
                zero = scalars.zero(op.result.type.dtype)
                for index in itertools.product(*[range(int(a.value)) for a in op.args]):  # type: ignore[attr-defined]
                    now[(op.result, *index)] = zero
            elif op.kind == "shape" and op.args[0] in self.chosen:
                alloc = op.args[0].op
                assert alloc is not None
                self.renamed[op.result] = alloc.args[op.attrs["axis"]]
            else:
                op.args = [self.value(a) for a in op.args]
                if op.kind == "if":
                    self.branch(op, now)
                elif op.kind in ir.LOOPS:
                    self.loop(op, now)
                new.append(op)
        block.ops = new
        block.yields = [self.value(v) for v in block.yields]
        return now

    def access(self, op: ir.Op, key: Any, now: dict, new: list[ir.Op], block: ir.Block) -> None:
        """A load is the current value, a store sets it."""
        if op.kind == "load":
            self.renamed[op.result] = now[key]
            return
        v = self.value(op.args[-1])
        if op.kind == "accum":
            made = ir.Block()
            v = scalars.apply(ir.Builder(made, op.line), "add", now[key], v)
            for o in made.ops:
                o.block = block
            new += made.ops
        now[key] = v

    def touched(self, op: ir.Op, now: dict) -> list:
        """The elements that blocks of an operation write to."""
        found: dict = {}
        for b in op.blocks:
            for o in ir.walk(b):
                key = self.key(o)
                if key is not None and o.kind != "load" and key in now:
                    found[key] = None
        return list(found)

    def branch(self, op: ir.Op, now: dict) -> None:
        """Elements written in a branch become results."""
        keys = self.touched(op, now)
        for b in op.blocks:
            after = self.block(b, dict(now))
            b.yields += [after[k] for k in keys]
        for k in keys:
            r = ir.Value(k[0].type.dtype, k[0].name, op)
            op.results.append(r)
            now[k] = r

    def loop(self, op: ir.Op, now: dict) -> None:
        """Elements written in a loop are carried round it."""
        keys = self.touched(op, now)
        count = len(op.phis)
        inside = dict(now)
        for k in keys:
            p = ir.Value(k[0].type.dtype, k[0].name, block=op.blocks[0])
            op.blocks[0].params.append(p)
            op.args.append(now[k])
            inside[k] = p
        for b in op.blocks:
            inside = self.block(b, inside)
        op.blocks[-1].yields[count:count] = [inside[k] for k in keys]
        for k in keys:
            r = ir.Value(k[0].type.dtype, k[0].name, op)
            op.results.append(r)
            now[k] = r
