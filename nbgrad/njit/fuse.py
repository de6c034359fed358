"""A loop and its reversed loop in one, where the reverse sweep needs nothing that comes after the loop.

A sum over independent terms is the typical case: its cotangent is known before the loop starts, so every iteration can be
reversed at once. Then nothing is kept, and memory is walked through once.
"""

from __future__ import annotations

from typing import Any

from . import ir
from .alias import Aliases, apart, written
from .gather import index_of
from .order import commutes, use_counts
from .share import share


def apply(f: ir.Function) -> None:
    """Fuse loops with their reversed loops, in place; outer loops first, since that brings inner ones together."""
    tried: set[tuple] = set()
    while _once(f, tried):
        share(f)


def _once(f: ir.Function, tried: set[tuple]) -> bool:
    aliases, uses = Aliases(f), use_counts(f)
    for block in [f.body, *(b for op in ir.walk(f.body) for b in op.blocks)]:
        loops = [
            op
            for op in block.ops
            if op.kind == "for" and not op.attrs.get("exit") and not op.attrs.get("prange")
        ]
        tags = {
            op.attrs["tag"]: op
            for op in loops
            if "tag" in op.attrs and "reverse_of" not in op.attrs
        }
        for second in loops:
            first = tags.get(second.attrs.get("reverse_of", 0))
            if first is None or (first, second) in tried or not _same_range(first, second):
                continue
            tried.add((first, second))
            if _Fusion(f, block, first, second, aliases, uses).run():
                return True
    return False


def _same_range(a: ir.Op, b: ir.Op) -> bool:
    same = all(
        x is y or (ir.is_const(x) and ir.is_const(y) and x.value == y.value)
        for x, y in zip(a.args[:2], b.args[:2])
    )  # type: ignore[attr-defined]
    return same and not a.attrs.get("reverse") and a.attrs.get("every") is None


class _Fusion:
    """One attempt."""

    def __init__(
        self,
        f: ir.Function,
        block: ir.Block,
        first: ir.Op,
        second: ir.Op,
        aliases: Aliases,
        uses: dict,
    ):
        self.f, self.first, self.second, self.aliases, self.uses = f, first, second, aliases, uses
        self.block = block
        ops = block.ops
        self.at, self.end = ops.index(first), ops.index(second)
        self.between = ops[self.at + 1 : self.end]

    def run(self) -> bool:
        """Fuse if it is sound; whether it was."""
        tapes = self.tapes()
        if not commutes(self.second, self.aliases, self.uses):
            return False
        early = self.needed_before()
        if early is None or not self.memory_allows(tapes, early):
            return False
        self.move(early)
        self.join(tapes)
        return True

    def tapes(self) -> dict[ir.Value, ir.Op]:
        """Arrays the first loop fills at its own place in every iteration and the second one reads there."""
        found: dict[ir.Value, ir.Op] = {}
        body = self.first.blocks[0]
        for o in body.ops:
            if o.kind != "store" or not ir.is_kept(o.args[0]):
                continue
            users = [u for u in ir.walk(self.f.body) if o.args[0] in u.args and u is not o]
            inside = [u for u in self.second.blocks[0].ops if u in users]
            mine, theirs = body.params[0], self.second.blocks[0].params[0]
            here = [_position(i, mine, self.first) for i in index_of(o)]
            alike = all(
                u.kind == "load"
                and [_position(i, theirs, self.second) for i in index_of(u)] == here
                for u in inside
            )
            if len(inside) == len(users) and alike and None not in here and inside:
                found[o.args[0]] = o
        return found

    def needed_before(self) -> list[ir.Op] | None:
        """Operations between the loops that the second one depends on; None if it depends on the first."""
        need: set[Any] = set(self.second.args) | set(ir.free_values(self.second))
        results = set(self.first.results)
        early: list[ir.Op] = []
        for o in reversed(self.between):
            if any(r in need for r in o.results):
                if o.kind not in ("alloc", "apply", "cast", "shape", "view"):
                    return None
                early.append(o)
                need.update(o.args)
        return None if need & results else early[::-1]

    def memory_allows(self, tapes: dict, early: list[ir.Op]) -> bool:
        """Whether the second loop may run where the first one does."""
        mine = list(ir.walk(self.second.blocks[0]))
        touched = [
            o.args[0]
            for o in mine
            if o.kind in ("load", "store", "accum") and o.args[0] not in tapes
        ]
        writes = [o.args[0] for o in mine if written(o) is not None]
        rest = [o for o in self.between if o not in early] + list(ir.walk(self.first.blocks[0]))
        rest += [x for o in self.between for b in o.blocks for x in ir.walk(b)]
        for o in rest:
            target = written(o)
            if (
                target is not None
                and target not in tapes
                and not all(apart(self.aliases, target, t) for t in touched)
            ):
                return False
            for a in o.args:
                if ir.is_array(a) and o.kind not in ("view", "shape") and a not in tapes:
                    if not all(apart(self.aliases, a, w) for w in writes):
                        return False
        return True

    def move(self, early: list[ir.Op]) -> None:
        """What the second loop needs goes before the first."""
        ops = self.block.ops
        for o in early:
            ops.remove(o)
        at = ops.index(self.first)
        ops[at:at] = early

    def join(self, tapes: dict[ir.Value, ir.Op]) -> None:
        """One body: what the first loop kept is passed on directly."""
        body, other = self.first.blocks[0], self.second.blocks[0]
        mapping: dict[ir.Value, ir.Value] = {other.params[0]: body.params[0]}
        new = [ir.Value(p.type, p.name, block=body) for p in self.second.phis]
        mapping.update(zip(self.second.phis, new, strict=True))
        body.params += new
        self.first.args += self.second.inits
        if self.first.attrs.get("parallel"):
            self.first.attrs["parallel"] = (
                "adjoint"  # its additions are no longer the program's own only
            )
        for o in other.ops:
            if o.kind == "load" and o.args[0] in tapes:
                mapping[o.result] = tapes[o.args[0]].args[-1]
            else:
                ir.clone(o, mapping, body)
        body.ops = [o for o in body.ops if o not in tapes.values()]
        body.yields += [mapping.get(v, v) for v in self.second.nexts]
        for r in self.second.results:
            r.op = self.first
        self.first.results += self.second.results
        self.block.ops.remove(self.second)


def _position(i: ir.Value, iv: ir.Value, loop: ir.Op) -> Any:
    """An index as what is added to the loop's variable, or None."""
    from .affine import linear

    form = linear(i)
    rest = form.without(iv)
    return (rest.terms, rest.const) if form.coefficient(iv) == 1 else None
