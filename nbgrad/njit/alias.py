"""Which array handles may point to the same memory."""

from __future__ import annotations

from typing import Any

from . import ir


class Memory:
    """One piece of memory (or several that cannot be told apart): an argument, an allocation, a captured array."""

    def __init__(self, origin: ir.Value):
        self.origins = [origin]

    @property
    def origin(self) -> ir.Value | None:
        """Where it comes from, if that is one place."""
        return self.origins[0] if len(self.origins) == 1 else None


class Aliases:
    """Union-find over array handles: `of` gives the memory of a handle."""

    def __init__(self, f: ir.Function):
        self.parent: dict[ir.Value, ir.Value] = {}
        self.memory: dict[ir.Value, Memory] = {}
        for p in f.params:
            if ir.is_array(p):
                self.origin(p)
        for op in ir.walk(f.body):
            self.visit(op)

    def find(self, v: ir.Value) -> ir.Value:
        """The representative of a handle."""
        while v in self.parent:
            v = self.parent[v]
        return v

    def of(self, v: ir.Value) -> Memory:
        """The memory a handle points to."""
        r = self.find(v)
        if r not in self.memory:
            self.memory[r] = Memory(r)
        return self.memory[r]

    def union(self, a: ir.Value, b: ir.Value) -> None:
        """Two handles may point to the same memory."""
        x, y = self.find(a), self.find(b)
        if x is y:
            return
        mx, my = self.memory.pop(x, None), self.memory.pop(y, None)
        self.parent[x] = y
        found = my or mx
        if mx is not None and my is not None:
            my.origins += [o for o in mx.origins if o not in my.origins]
        if found is not None:
            self.memory[y] = found

    def origin(self, v: ir.Value) -> None:
        """A handle brings memory of its own (its class may be known already, from the result of a condition)."""
        r = self.find(v)
        if r in self.memory:
            self.memory[r].origins.append(v)
        else:
            self.memory[r] = Memory(v)

    def visit(self, op: ir.Op) -> None:
        """Note what an operation does to handles."""
        arrays = [r for r in op.results if ir.is_array(r)]
        if op.kind in ("alloc", "call", "frozen", "tape"):
            for r in arrays:
                self.origin(r)
        elif op.kind == "view":
            self.union(op.result, op.args[0])
        elif op.kind in ir.LOOPS:
            for group in zip(op.results, op.phis, op.inits, op.nexts, strict=True):
                if ir.is_array(group[0]):
                    for v in group[1:]:
                        self.union(group[0], v)
        elif op.kind == "region":
            for group in zip(op.results, op.blocks[0].yields, strict=True):
                if ir.is_array(group[0]):
                    self.union(*group)
        elif op.kind == "if":
            for group in zip(op.results, op.blocks[0].yields, op.blocks[1].yields, strict=True):
                if ir.is_array(group[0]):
                    self.union(group[0], group[1])
                    self.union(group[0], group[2])


def base(a: ir.Value) -> ir.Value:
    """The handle a view was made of."""
    while a.op is not None and a.op.kind == "view":
        a = a.op.args[0]
    return a


def apart(aliases: Aliases, a: ir.Value, b: ir.Value) -> bool:
    """Whether two handles certainly point to different memory within one iteration of every loop around them."""
    a, b = base(a), base(b)
    if a is b:
        return False
    if aliases.of(a) is not aliases.of(b):
        return True
    new = ("alloc", "call")
    if _is_origin(a) and _is_origin(b):
        return True
    for x, y in ((a, b), (b, a)):
        loop, k = _carried(x)
        if loop is None:
            continue
        other, j = _carried(y)
        if other is loop and (j in _cycle(loop, k) or _rearranged(aliases, loop, k)):
            return apart(aliases, loop.inits[k], loop.inits[j])
        home = y.home if y.op is not None and y.op.kind in new else None
        if home is not None and x in loop.phis and any(home.within(blk) for blk in loop.blocks):
            return True
    return False


def _is_origin(a: ir.Value) -> bool:
    """Whether a handle stands for memory of its own: an allocation, or a parameter of the program."""
    if a.op is not None:
        return a.op.kind in ("alloc", "call", "tape")
    return a.block is not None and a.block.parent is None


def _carried(a: ir.Value) -> tuple[Any, int]:
    """The loop that carries a handle and its position there; for a result likewise."""
    if a.op is not None:
        return (a.op, a.op.results.index(a)) if a.op.kind in ir.LOOPS else (None, 0)
    loop = a.block.parent if a.block is not None else None
    if loop is not None and loop.kind in ir.LOOPS and a in loop.phis:
        return loop, loop.phis.index(a)
    return None, 0


def _cycle(loop: ir.Op, k: int) -> list[int]:
    """The positions permuted with a carried array; none if it is not permuted."""
    found, at = [], k
    while True:
        n = loop.nexts[at]
        if n not in loop.phis or at in found:
            return found if found and at == k else []
        found.append(at)
        at = loop.phis.index(n)


def _rearranged(aliases: Aliases, loop: ir.Op, k: int) -> bool:
    """Whether every iteration only rearranges the carried arrays of one memory, on every path through its conditions."""
    memory = aliases.of(loop.phis[k])
    group = [i for i, p in enumerate(loop.phis) if ir.is_array(p) and aliases.of(p) is memory]
    phis = {loop.phis[i] for i in group}
    return _distinct([loop.nexts[i] for i in group], phis, 0)


def _distinct(values: list[ir.Value], phis: set[ir.Value], depth: int) -> bool:
    """Whether handles are these ones in some order, whichever branches were taken."""
    if depth > 12:
        return False
    choice = next(
        (v.op for v in values if v.op is not None and v.op.kind in ("if", "region", *ir.LOOPS)),
        None,
    )
    if choice is None:
        return set(values) == phis and len(values) == len(phis)
    if choice.kind in ir.LOOPS:
        inner = [choice.results.index(v) for v in values if v.op is choice]
        carried = {choice.phis[k] for k in inner}
        if not _distinct([choice.nexts[k] for k in inner], carried, depth + 1):
            return False
        before = [choice.inits[choice.results.index(v)] if v.op is choice else v for v in values]
        return _distinct(before, phis, depth + 1)
    return all(
        _distinct(
            [b.yields[choice.results.index(v)] if v.op is choice else v for v in values],
            phis,
            depth + 1,
        )
        for b in choice.blocks
    )


def written(op: ir.Op) -> ir.Value | None:
    """The array an operation writes to itself."""
    return op.args[0] if op.kind in ("store", "accum", "copy", "add", "push") else None


def writes_in(block: ir.Block) -> list[ir.Value]:
    """The arrays that operations of a block (and of blocks in it) write to."""
    return [t for t in (written(o) for o in ir.walk(block)) if t is not None]
