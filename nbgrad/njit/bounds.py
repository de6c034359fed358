"""Lower bounds of integers: an index that cannot be negative needs no test for counting from the end."""

from __future__ import annotations

from numba import types

from . import ir

UNKNOWN = -(1 << 62)


class LowerBounds:
    """Memoised lower bounds of the integers of one program."""

    def __init__(self) -> None:
        self.known: dict[ir.Value, int] = {}

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
            if loop is not None and loop.kind == "for" and v is loop.blocks[0].params[0]:
                return self.of(loop.args[0])
            return UNKNOWN
        if op.kind in ("shape", "tape_size", "push", "pop"):
            return 0
        if op.kind == "apply" and isinstance(v.type, types.Integer):
            return self.of_function(op.attrs["fn"], op.args)
        return UNKNOWN

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
