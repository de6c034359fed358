"""Reverse rules of opaque calls: the rule's vjp is interpreted into the reverse sweep."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types

from . import ir, scalars
from .alias import written


class Fixed(NamedTuple):
    """An argument of a call that is a Python constant: a flag, a string, None."""

    value: Any


class CallRules:
    """Part of the adjoint: calls."""

    f: ir.Function
    aliases: Any
    activity: Any
    b: ir.Builder
    order: dict[ir.Op, int]
    shadow_of: Any
    size_of: Any
    add: Any
    take: Any
    reverse_iv: dict[ir.Op, ir.Value]

    def rev_call(self, op: ir.Op, adj: dict) -> None:
        """Interpret ``vjp(args, out, cotangent)`` and add what it returns."""
        if not any(self.activity.active(r) for r in op.results):
            return
        from .front.build import Interpreter
        from .front.calls import of_type
        from .front.objects import Tup

        kept = {
            a: self.kept(op, a) for a in dict.fromkeys([*op.args, *op.results]) if ir.is_array(a)
        }
        cts = [self.result_cotangent(r, adj) for r in op.results]
        args = _objects(op.attrs["structure"], iter([kept.get(a, a) for a in op.args]))
        outs = of_type(op.attrs["type"], iter([kept.get(r, r) for r in op.results]))
        it = Interpreter.inside_block(self.f, self.b)
        it.active_results = [self.activity.active(r) for r in op.results]
        got = it.call_rule(
            op.attrs["rule"].vjp, [Tup(tuple(args)), outs, of_type(op.attrs["type"], iter(cts))]
        )
        for a, c in zip(op.args, _flat(op.attrs["structure"], got), strict=True):
            if not self.activity.active(a):
                continue
            if ir.is_array(a):
                self.b.op("add", [self.shadow_of(a), it.fitted(c, a)])
            else:
                self.add(adj, a, it.number(c))

    def result_cotangent(self, r: ir.Value, adj: dict) -> ir.Value:
        """The cotangent of a result: its shadow, or its adjoint."""
        if ir.is_array(r):
            if self.activity.active(r):
                return self.shadow_of(r)
            sizes = [self.size_of(r, k) for k in range(r.type.ndim)]
            return self.b.alloc(sizes, r.type.dtype, 0)
        return self.take(adj, r) or scalars.zero(r.type)

    def stable(self, op: ir.Op, a: ir.Value) -> bool:
        """Whether an array still holds the same contents in the reverse sweep."""
        memory = self.aliases.of(a)
        origin = memory.origin
        if origin is None:
            return False
        if not self.at_top(origin):
            return False
        if not self.visible(a):
            return False
        assert op.block is not None
        loops = {
            b.parent for b in op.block.chain() if b.parent is not None and b.parent.kind in ir.LOOPS
        }
        for o, k in self.order.items():
            target = written(o)
            if target is None or self.aliases.of(target) is not memory:
                continue
            if k > self.order[op] or any(b.parent in loops for b in o.block.chain()):  # type: ignore[union-attr]
                return False
        return True

    def at_top(self, v: ir.Value) -> bool:
        """Whether a value is defined once, at the top level."""
        return v.home is self.f.body

    def visible(self, a: ir.Value) -> bool:
        """Whether a handle can be had in the reverse sweep."""
        if self.at_top(a):
            return True
        return a.op is not None and a.op.kind == "view" and self.visible(a.op.args[0])

    def kept(self, op: ir.Op, a: ir.Value) -> ir.Value:
        """An array with the contents it had at a call: itself, or a copy kept for the reverse sweep."""
        if self.stable(op, a):
            return a
        sizes = [self.size_of(a, k) for k in range(a.type.ndim)]
        block = op.block
        assert block is not None
        after = a in op.results
        new = ir.Block()
        b = ir.Builder(new, op.line)
        place = self.kept_in_array(op, sizes)
        if place is not None:
            return self.keep_in_array(op, a, sizes, place, after)
        if block is self.f.body:
            saved = b.alloc(sizes, a.type.dtype, None, "kept")
            b.op("copy", [saved, a])
            _splice(block, new, op, after)
            return saved
        tape, total = self.new_tape(a.type.dtype), self.product(b, sizes)
        at = b.op("push", [tape, total], [types.intp]).result
        t = types.Array(a.type.dtype, len(sizes), "C")
        spec = {"spec": ir.View("tape")}
        saved = b.op("view", [tape, at, *sizes], [t], attrs=spec, name="kept").result
        b.op("copy", [saved, a])
        _splice(block, new, op, after)
        at2 = self.b.op("pop", [tape, self.product(self.b, sizes)], [types.intp]).result
        return self.b.op("view", [tape, at2, *sizes], [t], attrs=spec, name="kept").result

    def kept_in_array(self, op: ir.Op, sizes: list[ir.Value]) -> Any:
        """The loop at the top level around an operation, if copies of arrays of these sizes fit an array with its length."""
        block = op.block
        loop = block.parent if block is not None else None
        if (
            loop is None
            or loop.kind != "for"
            or loop.attrs.get("exit")
            or loop.block is not self.f.body
        ):
            return None
        top = all(
            isinstance(s, ir.Const) or s.home is self.f.body for s in (*sizes, *loop.args[:2])
        )
        return loop if top and len(sizes) < 4 else None

    def keep_in_array(
        self, op: ir.Op, a: ir.Value, sizes: list[ir.Value], loop: ir.Op, after: bool
    ) -> ir.Value:
        """Copies of an array in every iteration of a loop, in one array of known size."""
        first = ir.Builder(ir.Block())
        n = scalars.trips(first, *loop.args[:2])
        every = first.alloc([n, *sizes], a.type.dtype, None, "kept")
        at = max(
            [
                self.f.body.ops.index(s.op) + 1
                for s in (*sizes, *loop.args[:2])
                if s.op in self.f.body.ops
            ]
            or [0]
        )
        ir.insert(self.f.body, first.block.ops, at)
        t = types.Array(a.type.dtype, len(sizes), "C")
        spec = {
            "spec": ir.View("index", parts=(("i",), *[("s", False, False, False)] * len(sizes)))
        }
        new = ir.Builder(ir.Block(), op.line)
        k = scalars.apply(new, "sub", loop.blocks[0].params[0], loop.args[0])
        saved = new.op("view", [every, k], [t], attrs=dict(spec), name="kept").result
        new.op("copy", [saved, a])
        assert op.block is not None
        _splice(op.block, new.block, op, after)
        k = scalars.apply(self.b, "sub", self.reverse_iv[loop], loop.args[0])
        return self.b.op("view", [every, k], [t], attrs=dict(spec), name="kept").result

    @staticmethod
    def product(b: ir.Builder, sizes: list[ir.Value]) -> ir.Value:
        """The number of elements."""
        n: ir.Value = ir.Const(1, types.intp)
        for s in sizes:
            n = scalars.apply(b, "mul", n, s)
        return n

    def new_tape(self, dtype: Any) -> ir.Value:
        """A tape at the top of the program."""
        op = ir.Op("tape", [], [types.Array(dtype, 1, "C")], name="tape")
        op.block = self.f.body
        self.f.body.ops.insert(0, op)
        return op.result


def _splice(block: ir.Block, new: ir.Block, op: ir.Op, after: bool) -> None:
    """Insert the operations of ``new`` before or after an operation."""
    at = block.ops.index(op) + (1 if after else 0)
    while after and at < len(block.ops) and block.ops[at].kind == "shape":
        at += 1
    ir.insert(block, new.ops, at)


def _objects(structure: list, it: Any) -> list:
    """The objects of a call: values, tuples of them, and Python constants."""
    from .front.objects import Py, Tup

    return [
        next(it) if g == 1 else Py(g.value) if isinstance(g, Fixed) else Tup(tuple(_objects(g, it)))
        for g in structure
    ]


def _flat(structure: list, got: Any) -> list:
    """What a vjp returned, an entry for each flat argument."""
    out: list = []
    for g, c in zip(structure, got.items):
        if not isinstance(g, Fixed):
            out += [c] if g == 1 else _flat(g, c)
    return out
