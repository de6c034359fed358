"""Parallel loops of a finished program: which of them run in parallel, and how.

A loop that comes from ``prange`` is run in parallel where that gives the serial loop's result:

- elements only one iteration touches are written directly;
- where neighbouring iterations add to the same elements (a stencil's reverse), the loop is cut into parts, and the
  iterations at the beginning of each part run after all others;
- where any iteration may add to any element, each part adds to a copy of its own and the copies are summed in order; if
  that costs more than the loop, additions are atomic, or the loop runs serially;
- sums and extremes of numbers are kept per part and joined in order.

The number of parts depends on sizes only, so results do not depend on the number of threads (but for atomic additions).
"""

from __future__ import annotations

from typing import Any

from numba import types

from . import functions, ir, parallel_lift, parallel_tapes
from .alias import Aliases
from .parallel_access import Access, Condition, SerialError, accesses, apart, check_writes, reach
from .parallel_reduce import count_uses, reduction
from .parallel_rewrite import Plan, Rewrite, mark
from .simplify import substitute

OPTIONS = {  # only the loops marked here run in parallel: Numba leaves array expressions alone
    name: name == "prange"
    for name in (
        "comprehension",
        "prange",
        "numpy",
        "reduction",
        "setitem",
        "inplace_binop",
        "stencil",
        "fusion",
    )
}
WIDEST = 32  # iterations a stencil may reach over
ATOMIC_COST = 20  # operations an atomic addition costs
INNER_TRIPS = 16  # iterations taken for an inner loop of unknown length


def apply(f: ir.Function) -> list[str]:
    """Choose for every loop of a program, rewrite those that need it, and say what was done."""
    return _Pass(f).run()


class _Pass:
    def __init__(self, f: ir.Function):
        self.f = f
        self.aliases, self.uses = Aliases(f), count_uses(f)
        self.notes: list[str] = []
        self.mapping: dict[ir.Value, ir.Value] = {}

    def run(self) -> list[str]:
        """Everything."""
        parallel_lift.lift(self.f, parallel_tapes.outermost(self.f.body))
        self.aliases, self.uses = Aliases(self.f), count_uses(self.f)
        parallel_tapes.convert(self.f, self.fits)
        self.aliases, self.uses = Aliases(self.f), count_uses(self.f)
        self.block(self.f.body)
        substitute(self.f, self.mapping)
        return self.notes

    def block(self, block: ir.Block) -> None:
        """The loops of a block; inside a parallel loop all others are serial."""
        for op in list(block.ops):
            if op.kind == "for" and op.attrs.get("parallel"):
                try:
                    self.loop(op)
                    continue
                except SerialError as reason:
                    self.note(op, f"runs serially, because {reason}")
            for b in op.blocks:
                self.block(b)

    def fits(self, loop: ir.Op, tapes: set[ir.Value]) -> bool:
        """Whether a loop could be parallel if its iterations did not share stacks."""
        try:
            plan = self.plan(loop, tapes)
        except SerialError:
            return False
        return not plan.scattered or plan.private or self.worth(loop, plan)

    @staticmethod
    def worth(loop: ir.Op, plan: Plan) -> bool:
        """Whether atomic additions cost little compared to the rest."""
        atomics = sum(_times(a.op, loop) for a in plan.scattered)
        return weight(loop.blocks[0]) >= ATOMIC_COST * atomics

    def note(self, loop: ir.Op, what: str) -> None:
        """Something to tell about a loop."""
        where = f"line {loop.line[1]} of {loop.line[0]}" if loop.line else "a loop"
        sweep = (
            "reverse of the prange loop" if loop.attrs["parallel"] == "adjoint" else "prange loop"
        )
        self.notes.append(f"{sweep} at {where}: {what}")

    def loop(self, loop: ir.Op) -> None:
        """One loop that may be parallel."""
        plan = self.plan(loop)
        work = weight(loop.blocks[0])
        if plan.simple:
            mark(loop)
            self.note(loop, "runs in parallel; each iteration has its elements to itself")
            return
        worth = self.worth(loop, plan)
        if plan.scattered and not plan.private and not worth:
            raise SerialError(
                f"its iterations add to the same elements of {_names(plan.scattered)}"
            )
        out = ir.Block()
        results = Rewrite(loop, plan, work, worth).write(ir.Builder(out, loop.line))
        self.splice(loop, out)
        self.mapping.update(zip(loop.results, results, strict=True))
        self.note(loop, describe(plan, worth))

    @staticmethod
    def splice(loop: ir.Op, out: ir.Block) -> None:
        """Put operations in place of a loop."""
        block = loop.block
        assert block is not None
        for o in out.ops:
            o.block = block
        at = block.ops.index(loop)
        block.ops[at : at + 1] = out.ops

    def plan(self, loop: ir.Op, tapes: set[ir.Value] | None = None) -> Plan:
        """How a loop can run in parallel."""
        if loop.attrs.get("exit"):
            raise SerialError("it may be left early")
        if any(o.kind == "check" for o in ir.walk(loop.blocks[0])):
            raise SerialError("an iteration may raise an error")
        reductions = []
        for k, p in enumerate(loop.phis):
            r = reduction(loop, k, self.uses)
            if r is None:
                raise SerialError(f"'{p.name or 'a value'}' of one iteration is used in the next")
            reductions.append(r)
        conditions: list[Condition] = []
        scattered: list[Access] = []
        width, private = 0, True
        iv = loop.blocks[0].params[0]
        for found in accesses(loop, self.aliases, tapes).values():
            check_writes(found, iv)
            adds = [a for a in found if a.kind == "accum"]
            if not adds or self.trusted(loop, adds):
                continue
            r = reach(adds, loop)
            safe: Any = apart(r, loop) if r is not None and self.near(r, loop) else False
            if safe is False:
                scattered += adds
                private &= len(adds) == len(found) and not any(self.is_record(a) for a in adds)
                continue
            if safe is not True:
                conditions.append(safe)
            assert r is not None
            width = max(width, r.width)
        return Plan(reductions, conditions, width, scattered, private)

    def trusted(self, loop: ir.Op, adds: list[Access]) -> bool:
        """Whether the additions are the program's own, to elements that differ between iterations."""
        if loop.attrs["parallel"] == "adjoint":
            return False
        try:
            check_writes(
                [a._replace(kind="write") for a in adds if a.op.kind == "add"],
                loop.blocks[0].params[0],
            )
            check_writes(
                [_as_write(a) for a in adds if a.op.kind == "accum"], loop.blocks[0].params[0]
            )
        except SerialError:
            return False
        return True

    @staticmethod
    def near(r: Any, loop: ir.Op) -> bool:
        """Whether only neighbouring iterations meet."""
        return r.width == 0 or (r.width <= WIDEST and abs(r.factor) == 1)

    @staticmethod
    def is_record(a: Access) -> bool:
        """Whether it has no rows to make copies of: records are added field by field, and an array of no dimensions."""
        return isinstance(a.array.type.dtype, types.Record) or a.array.type.ndim == 0


def _as_write(a: Access) -> Access:
    return a._replace(kind="write", op=ir.Op("store", a.op.args))


def weight(block: ir.Block) -> int:
    """Roughly how many operations a block takes."""
    total = 0
    for op in block.ops:
        if op.kind == "apply":
            total += 1 if op.attrs["fn"] in functions.CHEAP else 20
        elif op.kind in ("load", "store", "accum"):
            total += 2
        elif op.kind in ("copy", "add"):
            total += 3 * INNER_TRIPS
        elif op.kind in ("call", "alloc"):
            total += 100
        trips = _trips(op)
        total += sum(trips * weight(b) for b in op.blocks)
    return max(total, 1)


def _trips(op: ir.Op) -> int:
    if op.kind not in ir.LOOPS:
        return 1
    lo, hi = op.args[:2] if op.kind == "for" else (None, None)
    if isinstance(lo, ir.Const) and isinstance(hi, ir.Const):
        return max(int(hi.value) - int(lo.value), 0)
    return INNER_TRIPS


def _times(op: ir.Op, loop: ir.Op) -> int:
    """How often an operation runs in an iteration."""
    n = 1
    block = op.block
    while block is not None and block is not loop.blocks[0]:
        assert block.parent is not None
        n *= _trips(block.parent)
        block = block.parent.block
    return n


def _names(found: list[Access]) -> str:
    names = dict.fromkeys(a.place.root.name or "an array" for a in found)
    return ", ".join(f"'{n}'" for n in names)


def describe(plan: Plan, worth: bool) -> str:
    """A plan in words."""
    parts = ["runs in parallel, in parts"]
    if plan.reductions:
        parts.append(f"{len(plan.reductions)} numbers are summed up part by part")
    if plan.width:
        parts.append(f"iterations within {plan.width} of a part's first run afterwards")
    if plan.scattered and plan.private:
        other = "atomic additions" if worth else "one part"
        parts.append(
            f"each part has its own copy of {_names(plan.scattered)} ({other} where copies cost more)"
        )
    elif plan.scattered:
        parts.append(f"additions to {_names(plan.scattered)} are atomic")
    return "; ".join(parts)
