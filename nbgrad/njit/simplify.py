"""Dead code, and carried values that do not change."""

from __future__ import annotations

from . import ir
from .alias import Aliases, written

EFFECTS = frozenset({"store", "accum", "copy", "add", "check", "effect", "push", "pop"})


def simplify(f: ir.Function) -> ir.Function:
    """Remove carried values that stay the same and everything without effect, in place."""
    replace_invariant(f)
    remove_dead(f)
    return f


def substitute(f: ir.Function, mapping: dict[ir.Value, ir.Value]) -> None:
    """Replace values everywhere."""
    if not mapping:
        return

    def final(v: ir.Value) -> ir.Value:
        while v in mapping:
            v = mapping[v]
        return v

    for op in ir.walk(f.body):
        op.args = [final(a) for a in op.args]
        for b in op.blocks:
            b.yields = [final(v) for v in b.yields]
    f.body.yields = [final(v) for v in f.body.yields]


def replace_invariant(f: ir.Function) -> None:
    """A carried value whose next is itself is its initial value."""
    changed = True
    while changed:
        mapping: dict[ir.Value, ir.Value] = {}
        for op in ir.walk(f.body):
            if op.kind not in ir.LOOPS:
                continue
            for p, i, n, r in zip(op.phis, op.inits, op.nexts, op.results, strict=True):
                if n is p and r not in mapping and p is not i and i.type == p.type:
                    mapping[p] = i
                    mapping[r] = i
        changed = any(v.op is not None or v.block is not None for v in mapping) and _drop_phis(
            f, mapping
        )
        substitute(f, mapping)


def _drop_phis(f: ir.Function, mapping: dict) -> bool:
    dropped = False
    for op in ir.walk(f.body):
        if op.kind in ir.LOOPS and any(r in mapping for r in op.results):
            keep = [k for k, r in enumerate(op.results) if r not in mapping]
            keep_phis(op, keep)
            dropped = True
    return dropped


def keep_phis(op: ir.Op, keep: list[int]) -> None:
    """Leave only some of the values a loop carries."""
    first = 2 if op.kind == "for" else 0
    head = 1 if op.kind == "for" else 0
    inits, phis, nexts = op.inits, op.phis, op.nexts
    tail = op.blocks[-1].yields[len(nexts) :]
    op.args = [*op.args[:first], *(inits[k] for k in keep)]
    op.blocks[0].params = [*op.blocks[0].params[:head], *(phis[k] for k in keep)]
    op.blocks[-1].yields = [*(nexts[k] for k in keep), *tail]
    op.results = [op.results[k] for k in keep]


class _Live:
    """The values something observable depends on."""

    def __init__(self, f: ir.Function):
        self.f = f
        self.values: set[ir.Value] = set()
        self.ops: set[ir.Op] = set()
        self.aliases = Aliases(f)
        self.waiting: dict[object, list[ir.Op]] = {}
        self.memories: set[object] = set()
        self.stack: list[ir.Value] = []
        for v in f.body.yields:
            self.value(v)
        for op in ir.walk(f.body):
            if op.kind in EFFECTS:
                self.effect(op)
        while self.stack:
            self.visit(self.stack.pop())

    def effect(self, op: ir.Op) -> None:
        """An operation with an effect: a write matters only if its memory is seen elsewhere."""
        target = written(op)
        if target is not None:
            memory = self.aliases.of(target)
            local = all(
                o.op is not None and o.op.kind in ("alloc", "tape", "call") for o in memory.origins
            )
            if local and memory not in self.memories:
                self.waiting.setdefault(memory, []).append(op)
                return
        self.op(op)

    def op(self, op: ir.Op) -> None:
        """An operation stays."""
        if op in self.ops:
            return
        self.ops.add(op)
        for a in op.args if op.kind not in (*ir.LOOPS, "if", "region") else ():
            self.value(a)
        self.context(op.block)

    def context(self, block: ir.Block | None) -> None:
        """What decides whether a block runs."""
        while block is not None and block.parent is not None:
            parent = block.parent
            if parent in self.ops:
                return
            self.ops.add(parent)
            self.control(parent)
            block = parent.block

    def control(self, op: ir.Op) -> None:
        """The conditions and bounds of an operation with blocks."""
        if op.kind == "if":
            self.value(op.args[0])
        elif op.kind == "for":
            self.value(op.args[0])
            self.value(op.args[1])
            if op.attrs.get("exit"):
                self.value(op.blocks[0].yields[-1])
            if op.attrs.get("every") is not None:
                self.value(op.attrs["every"])
        elif op.kind == "while":
            self.value(op.blocks[0].yields[0])

    def value(self, v: ir.Value) -> None:
        """A value is needed."""
        if v not in self.values and not isinstance(v, ir.Const):
            self.values.add(v)
            self.stack.append(v)

    def visit(self, v: ir.Value) -> None:
        """What a needed value needs."""
        if ir.is_array(v):
            memory = self.aliases.of(v)
            if memory not in self.memories:
                self.memories.add(memory)
                for op in self.waiting.pop(memory, ()):
                    self.op(op)
        op = v.op
        if op is None:
            block = v.block
            if block is None or block.parent is None:
                return
            loop = block.parent
            self.op(loop)
            self.control(loop)
            if v in loop.phis:
                self.carried(loop, loop.phis.index(v))
            return
        self.op(op)
        if op.kind in ir.LOOPS:
            self.control(op)
            self.carried(op, op.results.index(v))
        elif op.kind in ("if", "region"):
            self.control(op)
            for b in op.blocks:
                self.value(b.yields[op.results.index(v)])

    def carried(self, loop: ir.Op, k: int) -> None:
        """One value carried round a loop."""
        self.value(loop.inits[k])
        self.value(loop.phis[k])
        self.value(loop.nexts[k])
        self.value(loop.results[k])


def remove_dead(f: ir.Function) -> None:
    """Remove operations nothing observable depends on."""
    live = _Live(f)

    def sweep(block: ir.Block) -> None:
        kept = []
        for op in block.ops:
            if op not in live.ops:
                continue
            kept.append(op)
            if op.kind in ir.LOOPS:
                keep_phis(op, [k for k, p in enumerate(op.phis) if p in live.values])
            elif op.kind in ("if", "region"):
                keep = [k for k, r in enumerate(op.results) if r in live.values]
                for b in op.blocks:
                    b.yields = [b.yields[k] for k in keep]
                op.results = [op.results[k] for k in keep]
            for b in op.blocks:
                sweep(b)
        block.ops = kept

    sweep(f.body)
