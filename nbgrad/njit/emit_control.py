"""Loops, conditions and stacks printed as Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types

from . import ir, runtime, runtime_arrays


class Control:
    """Part of the emitter: operations with blocks, and tapes."""

    name: Any
    value: Any
    literal: Any
    put: Any
    block: Any
    dtype: Any
    maker: Any
    object: Any
    uses: Any
    held: set[ir.Op]
    expression: Any
    text: dict[ir.Value, str]
    names: dict[str, Any]
    tapes: dict[ir.Value, str]
    inlined: set[ir.Op]
    lines: list[str]
    depth: int
    prange: bool

    # -- tapes -----------------------------------------------------------------------------------------------------
    def op_tape(self, op: ir.Op) -> None:
        """A stack of numbers: an array, and how much of it is in use."""
        n = self.name(op.result)
        self.tapes[op.result] = f"{n}_used"
        self.put(f"{n} = {self.maker('empty')}(0{self.dtype(op.result.type.dtype)})")
        self.put(f"{n}_used = 0")

    def op_push(self, op: ir.Op) -> None:
        """New places on a tape."""
        t = self.value(op.args[0])
        used = self.tapes[op.args[0]]
        self.names["grow"] = runtime.grow
        self.put(f"{self.name(op.result)} = {used}")
        self.put(f"{used} += {self.value(op.args[1])}")
        self.put(f"if {used} > {t}.size:")
        self.put(f"    {t} = grow({t}, {used})")

    def hold(self, ops: Sequence[ir.Op]) -> bool:
        """An array put on a tape: new places, which are seen as an array, which is a copy; prints all three."""
        if [o.kind for o in ops] != ["push", "view", "copy"]:
            return False
        push, view, copy = ops
        place = push.result
        if view.args[:2] != [push.args[0], place] or copy.args[0] is not view.result:
            return False
        if self.uses[place] != 1 or self.uses[view.result] != 1:
            return False
        source = copy.args[1]
        if isinstance(source.type.dtype, types.Record):
            return False
        helper = runtime_arrays.hold(source.type.ndim)
        name = self.object(helper, helper.__name__)
        t, used = self.value(push.args[0]), self.tapes[push.args[0]]
        self.put(f"{t} = {name}({t}, {used}, {self.value(source)})")
        self.put(f"{used} += {self.value(push.args[1])}")
        self.held |= {view, copy}
        return True

    def op_pop(self, op: ir.Op) -> None:
        """Places given back."""
        used = self.tapes[op.args[0]]
        self.put(f"{used} -= {self.value(op.args[1])}")
        self.put(f"{self.name(op.result)} = {used}")

    def op_tape_size(self, op: ir.Op) -> None:
        """How long a tape has become."""
        self.put(f"{self.name(op.result)} = {self.value(op.args[0])}.size")

    # -- control -----------------------------------------------------------------------------------------------------
    def assign_all(self, targets: Sequence[ir.Value], sources: Sequence[ir.Value]) -> None:
        """A parallel assignment."""
        pairs = [
            (self.value(t), self.value(s))
            for t, s in zip(targets, sources, strict=True)
            if t is not s
        ]
        pairs = [(t, s) for t, s in pairs if t != s]
        names = {t for t, _ in pairs}
        if any(_mentions(s, names - {t}) for t, s in pairs):
            self.put(f"{', '.join(t for t, _ in pairs)} = {', '.join(s for _, s in pairs)}")
        else:
            for t, s in pairs:
                self.put(f"{t} = {s}")

    def op_for(self, op: ir.Op) -> None:
        """A counted loop."""
        body = op.blocks[0]
        lo, hi = self.value(op.args[0]), self.value(op.args[1])
        for p, init in zip(op.phis, op.inits, strict=True):
            self.put(f"{self.name(p)} = {self.value(init)}")
        for p, r in zip(op.phis, op.results, strict=True):
            self.text[r] = self.text[p]
        iv = self.name(body.params[0])
        parallel = self.prange and op.attrs.get("prange")
        word = "prange" if parallel else "range"
        if op.attrs.get("reverse"):
            low = (
                self.value(ir.Const(op.args[0].value - 1, types.intp))
                if isinstance(op.args[0], ir.Const)
                else f"{lo} - 1"
            )
            self.put(f"for {iv} in {word}({hi} - 1, {low}, -1):")
        else:
            self.put(f"for {iv} in {word}({'' if lo == '0' else lo + ', '}{hi}):")
        self.depth += 1
        start = len(self.lines)
        self.block(body)
        self.assign_all(op.phis, op.nexts)
        if op.attrs.get("exit"):
            self.put(f"if {self.value(body.yields[-1])}:")
            self.put("    break")
        if len(self.lines) == start:
            self.put("pass")
        self.depth -= 1

    def op_while(self, op: ir.Op) -> None:
        """A loop with a condition."""
        for p, init in zip(op.phis, op.inits, strict=True):
            self.put(f"{self.name(p)} = {self.value(init)}")
        for p, r in zip(op.phis, op.results, strict=True):
            self.text[r] = self.text[p]
        head = op.blocks[0]
        simple = all(o in self.inlined for o in head.ops)
        if simple:
            for o in head.ops:
                self.text[o.result] = self.expression(o)
            self.put(f"while {self.value(head.yields[0])}:")
            self.depth += 1
        else:
            self.put("while True:")
            self.depth += 1
            self.block(head)
            self.put(f"if not {self.value(head.yields[0])}:")
            self.put("    break")
        self.block(op.blocks[1])
        self.assign_all(op.phis, op.nexts)
        if not (op.blocks[1].ops or op.phis):
            self.put("pass")
        self.depth -= 1

    def op_region(self, op: ir.Op) -> None:
        """A block run once."""
        self.block(op.blocks[0])
        for r, y in zip(op.results, op.blocks[0].yields, strict=True):
            self.text[r] = self.value(y)

    def op_if(self, op: ir.Op) -> None:
        """A condition."""
        c = self.value(op.args[0])
        names = [self.name(r) for r in op.results]
        then, other = op.blocks
        self.put(f"if {c}:")
        for k, b in enumerate((then, other)):
            if k:
                if not other.ops and not names:
                    break
                self.put("else:")
            self.depth += 1
            start = len(self.lines)
            self.block(b)
            for n, y in zip(names, b.yields, strict=True):
                self.put(f"{n} = {self.value(y)}")
            if len(self.lines) == start:
                self.put("pass")
            self.depth -= 1


def _mentions(text: str, names: set[str]) -> bool:
    word = ""
    for c in text + " ":
        if c.isalnum() or c == "_":
            word += c
        else:
            if word in names:
                return True
            word = ""
    return False
