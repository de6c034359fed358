"""Shadows: for every array handle that carries derivatives, a handle to its cotangents of the same shape.

The shadow of a view is the same view of the shadow. An array made inside a loop gets a new shadow in each reverse
iteration. Arrays carried round a loop are of two kinds: a permutation (``u, un = un, u``) permutes the same shadows
backwards; anything else hands a shadow from one iteration to the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numba import types

from ..errors import UnsupportedError
from . import ir, scalars
from .alias import apart, base, written


class Handle(NamedTuple):
    """A carried array in a reverse loop: its position among what the loop carries, the shadow it enters and leaves with."""

    position: int
    init: ir.Value
    last: ir.Value
    permuted: bool


class Prelude(ir.Builder):
    """Appends to what runs first in a reverse block."""

    def __init__(self, block: ir.Block, ops: list[ir.Op]):
        super().__init__(block)
        self.ops = ops

    def op(
        self, kind: str, args: Sequence[ir.Value] = (), result_types: Sequence[Any] = (), **kw: Any
    ) -> ir.Op:
        """Append an operation."""
        o = ir.Op(kind, args, result_types, **kw)
        o.block = self.block
        self.ops.append(o)
        return o


class Shadows:
    """Part of the adjoint: see above."""

    f: ir.Function
    aliases: Any
    activity: Any
    b: ir.Builder
    shadow: dict[ir.Value, ir.Value]
    reverse_of: dict[ir.Block, ir.Block]
    prelude: dict[ir.Block, list[ir.Op]]
    order: dict[ir.Op, int]
    counts: dict[ir.Op, ir.Value]
    sizes: dict[tuple, ir.Value]
    count: Any

    def first(self, block: ir.Block) -> Prelude:
        """Writes what runs first in the reverse of a block."""
        r = self.reverse_of[block]
        return Prelude(r, self.prelude[r])

    def shadow_of(self, a: ir.Value) -> ir.Value:
        """The shadow of an array, made in the reverse of the block the array is defined in."""
        found = self.shadow.get(a)
        if found is None:
            found = self.shadow[a] = self.make_shadow(a)
        return found

    def make_shadow(self, a: ir.Value) -> ir.Value:
        """A new shadow, or the one that follows from another handle's."""
        op = a.op
        if op is None or a.home is None:
            raise AssertionError(f"no shadow for {a}")
        if op.kind == "view":
            return self.view_shadow(a, op)
        if op.kind == "if":
            return self.choice_shadow(a, op)
        if op.kind in ir.LOOPS and self.permutation(op, op.results.index(a)):
            return self.permuted_shadow(a, op)
        return self.new_shadow(a, self.first(a.home))

    def new_shadow(self, a: ir.Value, b: ir.Builder) -> ir.Value:
        """Zeros of the shape of an array."""
        sizes = [self.size_of(a, k) for k in range(a.type.ndim)]
        return b.alloc(sizes, a.type.dtype, 0, "d_" + a.name)

    def view_shadow(self, a: ir.Value, op: ir.Op) -> ir.Value:
        """The same view of the shadow."""
        assert op.block is not None
        base = self.shadow_of(op.args[0])
        b = self.first(op.block)
        kind = op.result.type
        if kind.layout == "C" and base.type.layout != "C":
            kind = kind.copy(layout="A")
        return b.op(
            "view", [base, *op.args[1:]], [kind], attrs=dict(op.attrs), name="d_" + a.name
        ).result

    def choice_shadow(self, a: ir.Value, op: ir.Op) -> ir.Value:
        """The shadow of the array a condition has chosen; one made in a branch gets its shadow here."""
        assert op.block is not None
        k = op.results.index(a)
        for block in op.blocks:  # these come first
            self.outer_shadow(block.yields[k], block)
        b = self.first(op.block)
        new = b.op("if", [op.args[0]], blocks=[ir.Block(), ir.Block()])
        for block, nb in zip(op.blocks, new.blocks, strict=True):
            y = block.yields[k]
            inner = ir.Builder(nb)
            nb.yields = [
                self.new_shadow(a, inner)
                if self.made_in(y, block)
                else self.shadow_in(inner, y, block)
            ]
        layouts = {nb.yields[0].type.layout for nb in new.blocks}
        t = a.type if len(layouts) > 1 else nb.yields[0].type
        new.results = [ir.Value(t, "d_" + a.name, new)]
        return new.result

    @staticmethod
    def made_in(a: ir.Value, block: ir.Block) -> bool:
        """Whether the memory of a handle was allocated inside a block."""
        while (
            a.op is not None and a.op.kind == "view" and a.home is not None and a.home.within(block)
        ):
            a = a.op.args[0]
        return a.home is not None and a.home.within(block)

    def outer_shadow(self, a: ir.Value, block: ir.Block) -> None:
        """Make the shadow of the outer array a handle leads to."""
        while (
            a.home is not None and a.home.within(block) and a.op is not None and a.op.kind == "view"
        ):
            a = a.op.args[0]
        if a.home is None or not a.home.within(block):
            self.shadow_of(a)

    def shadow_in(self, b: ir.Builder, a: ir.Value, block: ir.Block) -> ir.Value:
        """The shadow of an outer array, or of a view that is made of it inside a branch, written again here."""
        if a.home is None or not a.home.within(block):
            return self.shadow_of(a)
        op = a.op
        assert op is not None
        base = self.shadow_in(b, op.args[0], block)
        args = [self.again(b, v, block) for v in op.args[1:]]
        kind = a.type.copy(layout="A") if base.type.layout != "C" else a.type
        return b.op("view", [base, *args], [kind], attrs=dict(op.attrs)).result

    def again(self, b: ir.Builder, v: ir.Value, block: ir.Block) -> ir.Value:
        """An index computed inside a branch, computed again before the branch is entered backwards."""
        if v.home is None or not v.home.within(block):
            return v
        if v.op is not None and v.op.kind == "shape":
            array, axis = v.op.args[0], v.op.attrs["axis"]
            if array.home is None or not array.home.within(block):
                return self.size_of(array, axis)
            size = self.known_size(array, axis, {})
            if size is not None:
                return self.again(b, size, block)
        if v.op is None or v.op.kind not in ("apply", "cast"):
            raise UnsupportedError(
                f"njit: a part of an array is chosen by a condition, with an index that is only known inside its branch "
                f"({v.name or 'an element'}). Compute the index before the condition."
            )
        args = [self.again(b, a, block) for a in v.op.args]
        return b.op(v.op.kind, args, [v.type], attrs=dict(v.op.attrs)).result

    def branch_shadows(self, op: ir.Op, block: ir.Block) -> None:
        """At the start of a reversed branch: arrays made in it take the shadow of the condition's result."""
        for k, r in enumerate(op.results):
            y = block.yields[k]
            if not ir.is_array(r) or not self.activity.active(r) or not self.made_in(y, block):
                continue
            s = self.shadow_of(r)
            if (
                y.op is not None
                and y.op.kind in ("alloc", "call")
                and y.home is block
                and y not in self.shadow
            ):
                self.shadow[y] = s
            else:
                self.b.op("add", [self.shadow_of(y), s])

    # -- sizes ---------------------------------------------------------------------------------------------
    def size_of(self, a: ir.Value, axis: int) -> ir.Value:
        """A size as a value of the forward sweep."""
        found = self.known_size(a, axis, {})
        if found is not None:
            return found
        return self.shape_op(a, axis)

    def shape_op(self, a: ir.Value, axis: int) -> ir.Value:
        """A size read where the array is defined."""
        made = self.sizes.get((a, axis))
        if made is not None:
            return made
        home = a.home
        assert home is not None
        op = ir.Op("shape", [a], [types.intp], {"axis": axis}, name="n")
        op.block = home
        home.ops.insert(0 if a.op is None else home.ops.index(a.op) + 1, op)
        self.sizes[a, axis] = op.result
        return op.result

    def known_size(self, a: ir.Value, axis: int, assumed: dict) -> ir.Value | None:
        """A size that is a value already; ``assumed`` are carried arrays taken to keep theirs."""
        op = a.op
        if op is None:
            loop = a.block.parent if a.block is not None else None
            if loop is None or loop.kind not in ir.LOOPS:
                return None
            return self.carried_size(loop, loop.phis.index(a), axis, assumed)
        if op.kind == "alloc":
            return op.args[axis]
        if op.kind in ir.LOOPS:
            return self.carried_size(op, op.results.index(a), axis, assumed)
        if op.kind == "view" and op.attrs["spec"].kind in ("reshape", "tape"):
            return op.args[axis + (1 if op.attrs["spec"].kind == "reshape" else 2)]
        if op.kind == "view" and op.attrs["spec"].kind == "T":
            return self.known_size(op.args[0], op.attrs["spec"].axes[axis], assumed)
        if op.kind == "region":
            return self.known_size(op.blocks[0].yields[op.results.index(a)], axis, assumed)
        if op.kind == "if":
            u, v = (
                self.known_size(b.yields[op.results.index(a)], axis, assumed) for b in op.blocks
            )
            return u if u is not None and _same(u, v) else None
        return None

    def carried_size(self, loop: ir.Op, k: int, axis: int, assumed: dict) -> ir.Value | None:
        """The size of a carried array, if no iteration changes it: assumed for all that are carried, then checked."""
        key = (loop.phis[k], axis)
        if key in assumed:
            return assumed[key]
        before = dict(assumed)
        init = assumed[key] = self.first_size(loop.inits[k], axis, assumed)
        if _same(self.known_size(loop.nexts[k], axis, assumed), init):
            return init
        assumed.clear()  # what was found since rests on it
        assumed.update(before)
        assumed[key] = None
        return None

    def first_size(self, a: ir.Value, axis: int, assumed: dict) -> ir.Value:
        """The size of the array a carried handle starts from."""
        while True:
            if a.op is not None and a.op.kind in ir.LOOPS:
                a = a.op.inits[a.op.results.index(a)]
            elif a.op is not None and a.op.kind == "region":
                a = a.op.blocks[0].yields[a.op.results.index(a)]
            elif a.op is None and a.block is not None and a.block.parent is not None:
                a = a.block.parent.inits[a.block.parent.phis.index(a)]
            else:
                return self.known_size(a, axis, assumed) or self.shape_op(a, axis)

    # -- carried arrays -----------------------------------------------------------------------------------
    def permutation(self, op: ir.Op, k: int) -> list[int] | None:
        """The positions that are permuted with carried array ``k``, each followed by where its next comes from."""
        seen = [k]
        at = k
        while True:
            n = op.nexts[at]
            if n not in op.phis:
                return None
            at = op.phis.index(n)
            if at == k:
                return seen
            if at in seen:
                return None
            seen.append(at)

    def permuted_shadow(self, a: ir.Value, op: ir.Op) -> ir.Value:
        """Shadows of the results of a loop that permutes arrays: those of the initial arrays, permuted as often."""
        assert op.block is not None
        cycle = self.permutation(op, op.results.index(a)) or []
        b = self.first(op.block)
        n = (
            self.count(op)
            if op.kind == "while" or op.attrs.get("exit")
            else scalars.trips(b, *op.args[:2])
        )
        turns = scalars.apply(b, "mod", n, ir.Const(len(cycle), types.intp))
        inits = [self.shadow_of(op.inits[k]) for k in cycle]
        loop = b.loop(ir.Const(0, types.intp), turns, inits, "k")
        phis = loop.phis
        loop.blocks[0].yields = [phis[(i + 1) % len(cycle)] for i in range(len(cycle))]
        for k, r in zip(cycle, loop.results):
            self.shadow[op.results[k]] = r
        return self.shadow[a]

    def carried_shadows(self, op: ir.Op) -> list[Any]:
        """What a reverse loop starts with for each carried array that is active."""
        found = []
        for k, r in enumerate(op.results):
            if not ir.is_array(r) or not self.activity.active(r):
                continue
            self.check_carried(op, k)
            found.append(Handle(k, self.shadow_of(r), r, self.permutation(op, k) is not None))
        return found

    def check_carried(self, op: ir.Op, k: int) -> None:
        """Raise where a carried array may be one of several that are written while it is in use."""
        memory = self.aliases.of(op.phis[k])
        inner = [o for b in op.blocks for o in ir.walk(b) if o in self.order]
        writes = [
            o.args[0]
            for o in inner
            if written(o) is not None and self.aliases.of(o.args[0]) is memory
        ]
        if not writes:
            return
        touched = writes + [
            a for o in inner for a in o.args if ir.is_array(a) and self.aliases.of(a) is memory
        ]
        kinds = set().union(*(self.base_kinds(a, op, set()) for a in touched))
        direct = set().union(*(self.base_kinds(a, op, set()) for a in writes))
        others = [
            p
            for p in op.phis
            if ir.is_array(p) and p is not op.phis[k] and self.aliases.of(p) is memory
        ]
        doubtful = "phi" in direct and not all(apart(self.aliases, op.phis[k], p) for p in others)
        if doubtful or "outer" in direct or ("outer" in kinds and "phi" in direct):
            where = f"{op.line[0]}, line {op.line[1]}" if op.line else "a loop"
            raise UnsupportedError(
                f"njit: '{op.phis[k].name or 'an array'}' carried round the loop at {where} may be the same memory as "
                "another array that is used and written in it; which one is not known. Copy it before the loop "
                "(u = u0.copy()), or index one array instead of rebinding names to parts of it."
            )

    def base_kinds(self, a: ir.Value, loop: ir.Op, seen: set[ir.Value]) -> set[str]:
        """Where a handle used in a loop comes from: carried by it, made in it, or from outside; several after a condition."""
        a = base(a)
        if a in seen:
            return set()
        seen.add(a)
        if a in loop.phis:
            return {"phi"}
        if a.home is None or not any(a.home.within(b) for b in loop.blocks):
            return {"outer"}
        op = a.op
        if op is None:  # carried by an inner loop
            inner = a.block.parent if a.block is not None else None
            assert inner is not None
            k = inner.phis.index(a)
            sources = [inner.inits[k], inner.nexts[k]]
        elif op.kind in ir.LOOPS:
            k = op.results.index(a)
            sources = [op.inits[k], op.nexts[k]]
        elif op.kind in ("if", "region"):
            sources = [b.yields[op.results.index(a)] for b in op.blocks]
        else:
            return {"inner"}
        return set().union(*(self.base_kinds(v, loop, seen) for v in sources))

    def enter_shadows(self, op: ir.Op, handles: list[Handle], params: Sequence[ir.Value]) -> None:
        """At the start of a reverse iteration: shadows of the carried arrays before and after the iteration."""
        taken: set[ir.Value] = set()
        late: list[tuple[ir.Value, ir.Value]] = []
        for h, c in zip(handles, params, strict=True):
            n = op.nexts[h.position]
            if h.permuted:
                self.shadow[n] = c
                continue
            fresh = (
                n.op is not None
                and n.op.kind in ("alloc", "call", "region")
                and n.home in op.blocks
            )
            if fresh and n not in taken and n not in self.shadow:
                taken.add(n)
                self.shadow[n] = c
            else:
                late.append((n, c))
        for i, h in enumerate(handles):
            phi = op.phis[h.position]
            if not h.permuted:
                self.shadow[phi] = self.new_shadow(phi, self.first(op.blocks[0]))
            handles[i] = h._replace(last=self.shadow[phi])
        for n, c in late:
            if self.activity.active(n):
                self.b.op("add", [self.shadow_of(n), c])

    def leave_shadows(self, op: ir.Op, handles: list[Handle], results: Sequence[ir.Value]) -> None:
        """After a reverse loop: what the first iteration started from."""
        for h, r in zip(handles, results, strict=True):
            init = op.inits[h.position]
            if not h.permuted and self.activity.active(init):
                self.b.op("add", [self.shadow_of(init), r])


def _same(u: ir.Value | None, v: ir.Value | None) -> bool:
    if isinstance(u, ir.Const) and isinstance(v, ir.Const):
        return u.value == v.value
    return u is v and u is not None
