"""Which values and memories carry derivatives: those that depend on an input (varied) and matter for an output (useful)."""

from __future__ import annotations

from collections.abc import Iterable

from . import ir
from .alias import Aliases
from .partials import differentiable


class Activity:
    """``active(v)`` and ``active_memory(array)``, found by iterating over the program until nothing changes."""

    def __init__(
        self,
        f: ir.Function,
        aliases: Aliases,
        inputs: Iterable[ir.Value],
        outputs: Iterable[ir.Value],
    ):
        self.f, self.aliases = f, aliases
        self.varied: set[object] = {self.key(v) for v in inputs}
        self.useful: set[object] = {self.key(v) for v in outputs if v.home is not None}
        self.ops = list(ir.walk(f.body))
        self.changed = True
        while self.changed:
            self.changed = False
            for op in self.ops:
                self.forward(op)
        self.changed = True
        while self.changed:
            self.changed = False
            for op in reversed(self.ops):
                self.backward(op)

    def key(self, v: ir.Value) -> object:
        """What stands for a value: itself, or the memory of an array."""
        return self.aliases.of(v) if ir.is_array(v) else v

    def active(self, v: ir.Value) -> bool:
        """Whether a scalar or an array's memory is active."""
        if v.home is None or not ir.is_float(v.type):
            return False
        k = self.key(v)
        return k in self.varied and k in self.useful

    def has(self, marks: set, v: ir.Value) -> bool:
        """Whether a value is marked."""
        return v.home is not None and ir.is_float(v.type) and self.key(v) in marks

    def mark(self, marks: set, v: ir.Value) -> None:
        """Mark a value."""
        if v.home is None or not ir.is_float(v.type):
            return
        k = self.key(v)
        if k not in marks:
            marks.add(k)
            self.changed = True

    def forward(self, op: ir.Op) -> None:
        """Varied results of an operation."""
        m, kind = self.varied, op.kind
        if kind == "apply":
            if any(
                self.has(m, a) and differentiable(op.attrs["fn"], i) for i, a in enumerate(op.args)
            ):
                self.mark(m, op.result)
        elif kind in ("cast", "load"):
            if self.has(m, op.args[0]):
                self.mark(m, op.result)
        elif kind in ("store", "accum", "copy", "add"):
            if self.has(m, op.args[-1]):
                self.mark(m, op.args[0])
        elif kind == "call":
            if any(self.has(m, a) for a in op.args):
                for r in op.results:
                    self.mark(m, r)
        elif kind in ir.LOOPS:
            for r, p, i, n in zip(op.results, op.phis, op.inits, op.nexts, strict=True):
                if self.has(m, i) or self.has(m, n):
                    self.mark(m, p)
                    self.mark(m, r)
        elif kind == "region":
            for r, a in zip(op.results, op.blocks[0].yields, strict=True):
                if self.has(m, a):
                    self.mark(m, r)
        elif kind == "if":
            for r, a, b in zip(op.results, op.blocks[0].yields, op.blocks[1].yields, strict=True):
                if self.has(m, a) or self.has(m, b):
                    self.mark(m, r)

    def backward(self, op: ir.Op) -> None:
        """Useful arguments of an operation."""
        m, kind = self.useful, op.kind
        if kind == "apply":
            if self.has(m, op.result):
                for i, a in enumerate(op.args):
                    if differentiable(op.attrs["fn"], i):
                        self.mark(m, a)
        elif kind in ("cast", "load"):
            if self.has(m, op.result):
                self.mark(m, op.args[0])
        elif kind in ("store", "accum", "copy", "add"):
            if self.has(m, op.args[0]):
                self.mark(m, op.args[-1])
        elif kind == "call":
            if any(self.has(m, r) for r in op.results):
                for a in op.args:
                    self.mark(m, a)
        elif kind in ir.LOOPS:
            for r, p, i, n in zip(op.results, op.phis, op.inits, op.nexts, strict=True):
                if self.has(m, r) or self.has(m, p):
                    for v in (p, i, n):
                        self.mark(m, v)
        elif kind == "region":
            for r, a in zip(op.results, op.blocks[0].yields, strict=True):
                if self.has(m, r):
                    self.mark(m, a)
        elif kind == "if":
            for r, a, b in zip(op.results, op.blocks[0].yields, op.blocks[1].yields, strict=True):
                if self.has(m, r):
                    self.mark(m, a)
                    self.mark(m, b)
