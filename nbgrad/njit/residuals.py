"""What the reverse sweep needs from the forward sweep: computed again, read again, or kept on tapes.

For every loop the values its reversed body needs are found; a minimum cut through the computations that lead to them
decides what is kept. Where all loop bounds are known at the top the tape is an array with one index a loop;
otherwise it is a stack: ``push`` before the loop (or in each iteration of a loop that ends by a condition), ``pop`` in
the reverse sweep.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from numba import types

from . import functions, ir, mincut, scalars


class Residuals:
    """Part of the adjoint: see above."""

    f: ir.Function
    b: ir.Builder
    top: ir.Block
    reverse_of: dict[ir.Block, ir.Block]
    prelude: dict[ir.Block, list[ir.Op]]
    primal_blocks: set[ir.Block]
    reverse_iv: dict[ir.Op, ir.Value]
    stable: Any
    visible: Any
    new_tape: Any
    count: Any

    def finish(self) -> None:
        """Resolve every value of the forward sweep the reverse sweep mentions, and join the two."""
        self.provided: dict[ir.Block, list[ir.Op]] = defaultdict(list)
        self.available: dict[ir.Value, ir.Value] = {}
        self.places: dict[ir.Value, tuple] = {}
        blocks = list(dict.fromkeys(self.reverse_of.values()))
        for b in blocks:
            b.ops = self.prelude.pop(b, []) + b.ops
        self.prune(self.top)
        self.needed: dict[Any, dict[ir.Value, None]] = defaultdict(dict)
        for v in [*self.mentioned(self.top), *self.top.yields]:
            self.need(v)
        self.decide()
        self.replace(self.top)
        self.top.yields = [self.provide(v) for v in self.top.yields]
        for b in blocks:
            b.ops = self.provided.pop(b, []) + b.ops
        for op in self.top.ops:
            op.block = self.f.body
        self.f.body.ops += self.top.ops

    # -- what is needed --------------------------------------------------------------------------------------
    def prune(self, block: ir.Block) -> None:
        """Drop pure operations of the reverse sweep that nothing uses."""
        used: set[ir.Value] = set()

        def visit(b: ir.Block) -> None:
            used.update(b.yields)
            kept = []
            for op in reversed(b.ops):
                pure = op.kind in ("apply", "cast", "load", "view", "shape", "alloc", "tape_size")
                if pure and not any(r in used for r in op.results):
                    continue
                kept.append(op)
                for inner in reversed(op.blocks):
                    visit(inner)
                used.update(op.args)
            b.ops = kept[::-1]

        visit(block)

    def is_primal(self, v: ir.Value) -> bool:
        """Whether a value is of the forward sweep, and not visible everywhere."""
        home = v.home
        return home is not None and home is not self.f.body and home in self.primal_blocks

    def mentioned(self, block: ir.Block) -> dict[ir.Value, None]:
        """The forward sweep's values in a reversed block."""
        found: dict[ir.Value, None] = {}
        for op in ir.walk(block):
            for v in ir.uses(op):
                if self.is_primal(v):
                    found[v] = None
        return found

    def need(self, v: ir.Value) -> None:
        """Note that the reverse sweep needs a value."""
        if self.is_primal(v):
            home = v.home
            assert home is not None
            self.needed[home.loop()][v] = None

    @staticmethod
    def depth(loop: ir.Op | None) -> int:
        """How many loops are around the body of one."""
        n = 0
        while loop is not None:
            n += 1
            loop = loop.block.loop() if loop.block is not None else None
        return n

    def decide(self) -> None:
        """From the innermost loops outwards, what to keep; what that needs in turn is needed further out."""
        self.kept: dict[Any, list[ir.Value]] = defaultdict(list)
        while True:
            pending = [k for k, vs in self.needed.items() if vs]
            if not pending:
                break
            loop = max(pending, key=self.depth)
            wanted = self.needed.pop(loop)
            if loop is None:
                for v in wanted:
                    self.lift(v)
                continue
            chosen = mincut.cut(wanted, self.must_keep, self.inputs_of, self.cost)
            self.kept[loop] += [v for v in chosen if v not in self.kept[loop]]
            self.demand(loop, wanted, chosen)
        for loop, values in self.kept.items():
            if loop is not None and values:
                self.place(loop, sorted(values, key=lambda v: v.id))

    def demand(self, loop: ir.Op, wanted: dict, chosen: set) -> None:
        """What computing the wanted values again needs from outside the loop."""
        seen: set[ir.Value] = set()
        stack = list(wanted)
        while stack:
            v = stack.pop()
            if v in seen or v in chosen:
                continue
            seen.add(v)
            if v in self.free_of(loop):
                for a in loop.args[:1]:
                    self.need(a)
                continue
            for a in self.operands(v):
                if not self.is_primal(a):
                    continue
                assert a.home is not None
                if a.home.loop() is loop:
                    stack.append(a)
                else:
                    self.need(a)
        for a in self.bounds(loop):
            self.need(a)

    @staticmethod
    def bounds(loop: ir.Op) -> list[ir.Value]:
        """What the size of a loop's part of a tape depends on."""
        return loop.args[:2] if loop.kind == "for" and not loop.attrs.get("exit") else []

    @staticmethod
    def free_of(loop: ir.Op) -> list[ir.Value]:
        """What the reverse loop has anyway: its variable."""
        return loop.blocks[0].params[:1] if loop.kind == "for" else []

    def operands(self, v: ir.Value) -> list[ir.Value]:
        """What a value is computed from."""
        return list(v.op.args) if v.op is not None else []

    def must_keep(self, v: ir.Value) -> bool:
        """Whether a value cannot (or should not) be computed again."""
        op = v.op
        if op is None:
            home = v.home
            loop = home.parent if home is not None else None
            return not (loop is not None and loop.kind == "for" and v is loop.blocks[0].params[0])
        if op.kind == "apply":
            return op.attrs["fn"] not in functions.CHEAP
        if op.kind == "load":
            return not self.stable(op, op.args[0])
        if op.kind == "shape":
            return not self.visible(op.args[0])
        return op.kind not in ("cast", "view")

    def inputs_of(self, v: ir.Value) -> list[ir.Value]:
        """Operands within the same loop."""
        assert v.home is not None
        loop = v.home.loop()
        free = self.free_of(loop) if loop is not None else []
        return [
            a
            for a in self.operands(v)
            if self.is_primal(a) and a.home.loop() is loop and a not in free  # type: ignore[union-attr]
        ]

    @staticmethod
    def cost(v: ir.Value) -> int:
        """Bytes of one value; handles cannot be kept."""
        if ir.is_array(v):
            return mincut.INFINITE
        if isinstance(v.type, types.Boolean):
            return 1
        return max(v.type.bitwidth // 8, 1)

    # -- values of branches outside loops -------------------------------------------------------------------------
    def lift(self, v: ir.Value) -> None:
        """Make a value of a branch outside all loops a result of its condition."""
        r = v
        while r.home is not self.f.body:
            assert r.home is not None
            block, op = r.home, r.home.parent
            assert op is not None and op.block is not None
            for b in op.blocks:
                b.yields.append(r if b is block else self.dummy(b, r))
            new = ir.Value(r.type, r.name, op)
            op.results.append(new)
            r = new
        self.available[v] = r

    @staticmethod
    def dummy(block: ir.Block, like: ir.Value) -> ir.Value:
        """Something of the same type for the branch that does not have the value."""
        if not ir.is_array(like):
            return scalars.zero(like.type)
        zeros = [ir.Const(0, types.intp)] * like.type.ndim
        return ir.Builder(block).alloc(zeros, like.type.dtype, None)

    # -- tapes -----------------------------------------------------------------------------------------------------
    def rectangular(self, loop: ir.Op) -> list[ir.Op] | None:
        """The loops around (outermost first) if all run over ranges known at the top."""
        chain: list[ir.Op] = []
        at: ir.Op | None = loop
        while at is not None:
            bounds_known = all(
                isinstance(a, ir.Const) or a.home is self.f.body for a in at.args[:2]
            )
            if at.kind != "for" or at.attrs.get("exit") or not bounds_known:
                return None
            chain.append(at)
            assert at.block is not None
            if at.block is self.f.body:
                return chain[::-1]
            at = at.block.parent
        return None

    def place(self, loop: ir.Op, values: list[ir.Value]) -> None:
        """Room for the values kept in a loop, and the stores that fill it."""
        chain = self.rectangular(loop)
        if chain is not None and len(chain) <= 4:
            for v in values:
                self.place_array(chain, v)
            return
        groups: dict[Any, list[ir.Value]] = defaultdict(list)
        for v in values:
            groups[v.type].append(v)
        for t, vs in groups.items():
            if loop.kind == "for" and not loop.attrs.get("exit"):
                self.place_stack(loop, t, vs)
            else:
                self.place_steps(loop, t, vs)

    def place_array(self, chain: list[ir.Op], v: ir.Value) -> None:
        """An array with one index a loop."""
        new = ir.Block()
        b = ir.Builder(new)
        sizes = [scalars.trips(b, *op.args[:2]) for op in chain]
        array = b.alloc(sizes, v.type, None, "t_" + (v.name or "v"))
        array.op.attrs["kept"] = True  # type: ignore[union-attr]
        ir.insert(self.f.body, new.ops, self.f.body.ops.index(chain[0]))
        self.after(
            v,
            lambda b: b.store(
                array, self.index(b, chain, [c.blocks[0].params[0] for c in chain]), v
            ),
        )
        self.places[v] = ("array", array, chain)

    @staticmethod
    def index(b: ir.Builder, chain: list[ir.Op], ivs: list[ir.Value]) -> list[ir.Value]:
        """Positions along the loops."""
        return [scalars.apply(b, "sub", iv, c.args[0]) for c, iv in zip(chain, ivs, strict=True)]

    def place_stack(self, loop: ir.Op, t: Any, values: list[ir.Value]) -> None:
        """Part of a stack, taken before the loop: one run of places a value."""
        assert loop.block is not None
        tape = self.new_tape(t)
        lo, hi = loop.args[:2]

        def runs(b: ir.Builder, kind: str, lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
            n = scalars.trips(b, lo, hi)
            total = scalars.apply(b, "mul", n, ir.Const(len(values), types.intp))
            first = scalars.apply(b, "sub", b.op(kind, [tape, total], [types.intp]).result, lo)
            return [
                scalars.apply(b, "add", first, scalars.apply(b, "mul", n, ir.Const(s, types.intp)))
                for s in range(len(values))
            ]

        new = ir.Block()
        starts = runs(ir.Builder(new), "push", lo, hi)
        ir.insert(loop.block, new.ops, loop.block.ops.index(loop))
        iv = loop.blocks[0].params[0]
        for v, start in zip(values, starts, strict=True):
            self.after(
                v, lambda b, v=v, s=start: b.store(tape, [scalars.apply(b, "add", s, iv)], v)
            )
            self.places[v] = ("stack", tape, loop, runs)

    def place_steps(self, loop: ir.Op, t: Any, values: list[ir.Value]) -> None:
        """Part of a stack, taken in each iteration."""
        tape = self.new_tape(t)
        body = loop.blocks[-1]
        new = ir.Block()
        total = ir.Const(len(values), types.intp)
        start = ir.Builder(new).op("push", [tape, total], [types.intp]).result
        ir.insert(body, new.ops, 0)
        for s, v in enumerate(values):
            at = ir.Const(s, types.intp)
            self.after(
                v,
                lambda b, v=v, at=at: b.store(tape, [scalars.apply(b, "add", start, at)], v),
                start.op,
            )
            self.places[v] = ("steps", tape, loop, s, total)

    def after(self, v: ir.Value, make: Any, earliest: ir.Op | None = None) -> None:
        """Insert what ``make`` writes behind the definition of a value."""
        block = v.home
        assert block is not None
        parent = block.parent
        if parent is not None and parent.kind == "while" and block is parent.blocks[0]:
            block = parent.blocks[1]  # values of the condition are kept when the body runs
            at = 0
        else:
            at = 0 if v.op is None else block.ops.index(v.op) + 1
        if earliest is not None and earliest in block.ops:
            at = max(at, block.ops.index(earliest) + 1)
        new = ir.Block()
        make(ir.Builder(new, v.op.line if v.op is not None else None))
        ir.insert(block, new.ops, at)

    # -- providing values ----------------------------------------------------------------------------------------------
    def replace(self, block: ir.Block) -> None:
        """Put what is available in place of the forward sweep's values."""
        for op in list(ir.walk(block)):
            op.args = [self.provide(a) for a in op.args]
            for b in op.blocks:
                b.yields = [self.provide(v) for v in b.yields]

    def provide(self, v: ir.Value) -> ir.Value:
        """A value of the forward sweep, as the reverse sweep can have it."""
        if not self.is_primal(v):
            return v
        found = self.available.get(v)
        if found is None:
            assert v.home is not None
            found = self.available[v] = self.make_available(v, v.home)
        return found

    def make_available(self, v: ir.Value, home: ir.Block) -> ir.Value:
        """Read from a tape, or compute again."""
        parent = home.parent
        if v.op is None and parent is not None and parent.kind == "for" and v is home.params[0]:
            return self.reverse_iv[parent]
        block = self.reverse_of[home]
        out = ir.Block()
        b = ir.Builder(out)
        if v in self.places:
            result = self.read(b, v)
        else:
            assert v.op is not None, f"{v} is not kept"
            args = [self.provide(a) for a in v.op.args]
            kinds = [r.type for r in v.op.results]
            result = b.op(
                v.op.kind, args, kinds, attrs=dict(v.op.attrs), line=v.op.line, name=v.name
            ).result
        for o in out.ops:
            o.block = block
        self.provided[block] += out.ops
        return result

    def read(self, b: ir.Builder, v: ir.Value) -> ir.Value:
        """Read a kept value."""
        kind, tape, *rest = self.places[v]
        if kind == "array":
            chain = rest[0]
            ivs = [self.reverse_iv[c] for c in chain]
            return b.load(tape, self.index(b, chain, ivs), v.name)
        if kind == "stack":
            loop, runs = rest
            starts = self.popped(loop, v.type, runs)
            mine = list(self.kept_of(loop, v.type)).index(v)
            at = scalars.apply(b, "add", starts[mine], self.reverse_iv[loop])
            return b.load(tape, [at], v.name)
        loop, s, total = rest
        key = (loop, v.type)
        start = self.step_starts.get(key)
        if start is None:
            body = self.reverse_of[loop.blocks[-1]]
            op = ir.Op("pop", [tape, total], [types.intp])
            op.block = body
            self.provided[body].append(op)
            start = self.step_starts[key] = op.result
        return b.load(tape, [scalars.apply(b, "add", start, ir.Const(s, types.intp))], v.name)

    def kept_of(self, loop: ir.Op, t: Any) -> list[ir.Value]:
        """The values of a type kept in a loop, in the order of their places."""
        return [v for v in sorted(self.kept[loop], key=lambda v: v.id) if v.type == t]

    def popped(self, loop: ir.Op, t: Any, runs: Any) -> list[ir.Value]:
        """The starts of the runs of places, given back before the reverse loop."""
        key = (loop, t)
        found = self.step_starts.get(key)
        if found is None:
            assert loop.block is not None
            block = self.reverse_of[loop.block]
            reverse = self.reverse_iv[loop].block.parent  # type: ignore[union-attr]
            new = ir.Block()
            found = runs(ir.Builder(new), "pop", *[self.provide(a) for a in loop.args[:2]])
            ir.insert(block, new.ops, block.ops.index(reverse))  # type: ignore[arg-type]
            self.step_starts[key] = found
        return found

    @property
    def step_starts(self) -> dict:
        """Where the places of a loop begin, in the reverse sweep."""
        found = self.__dict__.get("_step_starts")
        if found is None:
            found = self.__dict__["_step_starts"] = {}
        return found
