"""Lower bounds of integers: an index that cannot be negative needs no test for counting from the end."""

from __future__ import annotations

from numba import types

from . import ir

UNKNOWN = -(1 << 62)


class LowerBounds:
    """Memoised lower bounds of the integers of one program."""

    def __init__(self, f: ir.Function) -> None:
        self.f = f
        self.known: dict[ir.Value, int] = {}
        self.kept: dict[ir.Value, list[ir.Value]] | None = None

    def of(self, v: ir.Value) -> int:
        """The greatest number known to be a lower bound, or `UNKNOWN`."""
        if isinstance(v, ir.Const):
            return int(v.value)
        found = self.known.get(v)
        if found is None:
            self.known[v] = UNKNOWN  # while it is looked for
            found = self.known[v] = self.find(v)
        return found

    def nonnegative(self, v: ir.Value) -> bool:
        """Whether an integer is at least 0."""
        return self.of(v) >= 0

    def find(self, v: ir.Value) -> int:
        """The bound that follows from the definition."""
        if isinstance(v.type, types.Integer) and not v.type.signed:
            return 0
        op = v.op
        if op is None:
            loop = v.block.parent if v.block is not None else None
            if loop is None or loop.kind not in ir.LOOPS:
                return UNKNOWN
            if v in loop.phis:
                return self.of_carried(v, loop, loop.phis.index(v))
            return self.of(loop.args[0]) if v is loop.blocks[0].params[0] else UNKNOWN
        if op.kind in ("shape", "tape_size", "push", "pop"):
            return 0
        if op.kind == "apply" and isinstance(v.type, types.Integer):
            return self.of_function(op.attrs["fn"], op.args)
        if op.kind == "load" and ir.is_kept(op.args[0]):
            return min((self.of(x) for x in self.kept_in(op.args[0])), default=UNKNOWN)
        if op.kind in ir.LOOPS:
            k = op.results.index(v)
            return min(self.of(op.inits[k]), self.of(op.nexts[k]))
        return UNKNOWN

    def of_carried(self, v: ir.Value, loop: ir.Op, k: int) -> int:
        """A carried integer that does not fall below what it starts from."""
        first = self.of(loop.inits[k])
        if first == UNKNOWN:
            return UNKNOWN
        trial = LowerBounds(self.f)
        trial.known = {**self.known, v: first}
        if trial.of(loop.nexts[k]) < first:
            return UNKNOWN
        self.known.update(trial.known)
        return first

    def kept_in(self, tape: ir.Value) -> list[ir.Value]:
        """The values stored in a tape; none if it is used in other ways."""
        if self.kept is None:
            self.kept, other = {}, set()
            for op in ir.walk(self.f.body):
                other.update(a for b in op.blocks for a in b.yields)
                for n, a in enumerate(op.args):
                    if ir.is_kept(a):
                        if op.kind == "store" and n == 0:
                            self.kept.setdefault(a, []).append(op.args[-1])
                        elif op.kind != "load":
                            other.add(a)
            self.kept = {a: x for a, x in self.kept.items() if a not in other}
        return self.kept.get(tape, [])

    def of_function(self, name: str, args: list[ir.Value]) -> int:
        """Sums, products and the like."""
        low = [self.of(a) for a in args]
        if name == "add" and UNKNOWN not in low:
            return low[0] + low[1]
        if name == "sub" and isinstance(args[1], ir.Const) and low[0] != UNKNOWN:
            return low[0] - int(args[1].value)
        if name == "sub" and _starts_at(*args):
            return 0
        if name == "mul" and min(low) >= 0:
            return low[0] * low[1]
        if name == "max":
            return max(low)
        if name == "min":
            return min(low)
        if name == "where":
            return min(low[1:])
        if name == "mod" and low[1] > 0:
            return 0
        if name == "floordiv" and low[0] >= 0 and low[1] > 0:
            return 0
        return UNKNOWN


def _starts_at(v: ir.Value, lo: ir.Value) -> bool:
    """Whether a number counts a loop from a bound."""
    loop = v.block.parent if v.block is not None else None
    return (
        loop is not None
        and loop.kind == "for"
        and v is loop.blocks[0].params[0]
        and loop.args[0] is lo
    )
