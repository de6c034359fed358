"""From instructions to items: the scheduling of one block (uniform code or a row region of one phase).

Instructions are levelled as soon as possible: loop nests on odd levels, matrix products and host calls on even ones. Loop
nests of one level and one index space become one item, so streams that run in parallel (the Taylor coefficients of a
layer) are fused although the tape has them one after the other. Then what is only needed late moves late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels_cpu.llvm import jit

from ..layout import Layout, contiguous, contiguous_strides, expand, is_contiguous
from ..op import REGISTRY, Spec
from ..tape.program import Instruction
from . import control, gathering
from .axes import ROW, is_view, mapped, marked
from .items import Access, Host, Item, Map, Operand, Space, Step
from .products import make_dot
from .stores import Ref, Store, size_of

ELEMENTWISE = ("to_dtype", "clone")


class Node:
    """An instruction (or copy) with its place in the order."""

    __slots__ = ("kind", "level", "make", "out", "reads", "space", "step", "users")

    def __init__(self, kind: str, space: Space | None, reads: Sequence[tuple[int, bool]], out: int):
        self.kind, self.space, self.out = kind, space, out
        self.reads = list(reads)  # (root variable, whether it can be forwarded in a register)
        self.level = 0
        self.users: list[tuple[Node, bool]] = []
        self.step: Step | None = None
        self.make: Any = None  # builds the item of a node that is no step


class Block:
    """One phase's uniform code (``cls`` None) or one of its row regions."""

    def __init__(self, program: Any, cls: int | None, depth: int):
        self.program, self.cls, self.depth = program, cls, depth
        self.tape = program.tape
        self.axes = program.placement.axes
        self.refs: dict[int, Ref] = {}
        self.nodes: list[Node] = []
        self.makers: dict[int, list[Node]] = {}  # root variable -> the nodes that write it
        self.roots: dict[int, int] = {}
        self.stored: set[int] = set()
        self.items: list[Item] = []
        self.stores: list[Store] = []
        self.packed: dict[int, tuple[Ref, int]] = {}
        self.prologue: list[Item] = []
        self.temporary_rows: dict[int, int | None] = {}

    # -- references -------------------------------------------------------------------------------
    def row_dim(self, var: int) -> int | None:
        """The row dimension of a variable in this block."""
        if var in self.temporary_rows:
            return self.temporary_rows[var]
        return None if self.cls is None else self.axes.dim(var, self.cls)

    def spec(self, var: int) -> Any:
        """Shape and dtype of a variable."""
        return self.tape.specs[var]

    def ref(self, var: int) -> Ref:
        """Where a variable can be read in this block."""
        found = self.refs.get(var)
        return found if found is not None else self.program.global_ref(var)

    def root(self, var: int) -> int:
        """The variable of this block whose store a view shows (-1: from outside)."""
        return self.roots.get(var, -1)

    def new_store(self, var: int, shape: Sequence[int] | None = None) -> Ref:
        """A store for a variable made here: part of the tile scratch, or an array."""
        spec = self.spec(var)
        row = self.row_dim(var)
        if row is None:
            store = self.program.array(var)
            ref = Ref(store, contiguous(spec.shape))
        else:
            layout = marked(spec.shape, row)
            size = size_of(n for i, n in enumerate(spec.shape) if i != row)
            store = Store("tile", size, spec.dtype)
            store.var = var
            self.stores.append(store)
            ref = Ref(store, layout)
        self.refs[var] = ref
        self.roots[var] = var
        return ref

    def features(self, shape: Sequence[int], row: int | None) -> Space:
        """The index space of a loop nest over a shape: its sizes without the rows and without ones."""
        return tuple(n for i, n in enumerate(shape) if i != row and n != 1)

    def access(self, ref: Ref, shape: Sequence[int], row: int | None) -> Access:
        """Reach a value broadcast to ``shape`` from the loop nest over that shape."""
        layout = expand(ref.layout, tuple(shape))
        strides = tuple(
            s
            for i, (n, s) in enumerate(zip(layout.shape, layout.strides, strict=True))
            if i != row and n != 1
        )
        across = 0 if row is None else layout.strides[row]
        return Access(ref.store, strides, across, layout.offset)

    def operand(self, var: int, shape: Sequence[int], row: int | None) -> Operand:
        """A value read by a step over ``shape``."""
        access = self.access(self.ref(var), shape, row)
        root = self.root(var)
        space = self.features(shape, row)
        canonical = access.offset == 0 and access.strides == contiguous_strides(space)
        if self.cls is not None:
            canonical = canonical and access.row == ROW
        same = root >= 0 and canonical and access.store.size == size_of(space)
        return Operand(root, access, same)

    # -- nodes ----------------------------------------------------------------------------------------
    def add(self, ins: Instruction) -> None:
        """Schedule an instruction that was placed here."""
        op = REGISTRY[ins.op]
        if is_view(self.tape, ins):
            self._view(ins)
        elif op.category == "elementwise" or ins.op in ELEMENTWISE:
            self._elementwise(ins)
        elif ins.op in ("sum", "amax", "amin"):
            self._reduce(ins)
        elif ins.op == "cat":
            self._cat(ins)
        elif ins.op == "unview":
            self._scatter(ins)
        elif ins.op == "matmul":
            make_dot(self, ins)
        elif ins.op in control.OPERATORS:
            self._control(ins)
        elif ins.op in gathering.OPERATORS:
            gathering.make_move(self, ins)
        else:
            raise AssertionError(f"no native form of {ins.op}")

    def host(self, ins: Instruction) -> None:
        """Schedule a call of an eager kernel."""
        node = Node("host", None, [(self.root(v), False) for v in ins.inputs], -1)
        inputs = tuple(self.ref(v) for v in ins.inputs)
        outs = tuple(self.new_store(v).store for v in ins.outputs)
        node.make = lambda: Host(ins, inputs, outs)
        self._append(node, ins.outputs)

    def _control(self, ins: Instruction) -> None:
        item = control.make_control(self, ins)
        reads = [(self.root(v), False) for v in ins.inputs]
        node = Node("control", None, [*reads, *((v, False) for v in self.packs(*ins.inputs))], -1)
        node.make = lambda: item
        self._append(node, ins.outputs)

    def contiguous(self, var: int) -> Ref:
        """The variable as an array in order; a view is copied first."""
        ref = self.ref(var)
        size = size_of(self.spec(var).shape)
        if (
            ref.store.is_global
            and is_contiguous(ref.layout)
            and (ref.store.size == size or ref.store.kind != "const")
        ):
            return ref
        if var not in self.packed:
            store = self.program.temporary(size, self.spec(var).dtype)
            self.packed[var] = (Ref(store, contiguous(self.spec(var).shape)), -2 - len(self.packed))
            self.copy(var, self.packed[var][1], self.packed[var][0])
        return self.packed[var][0]

    def _append(self, node: Node, outs: Sequence[int]) -> None:
        self.nodes.append(node)
        for v in outs:
            self.makers.setdefault(v, []).append(node)

    def _view(self, ins: Instruction) -> None:
        (x,), (y,) = ins.inputs, ins.outputs
        ref = self.ref(x)
        layout = mapped(ins, ref.layout)
        if layout is not None:
            self.refs[y] = Ref(ref.store, layout)
            if x in self.roots:
                self.roots[y] = self.roots[x]
            return
        target = self.new_store(y)  # the layout needs a copy in the order of the input's elements
        shape = self.spec(x).shape
        row = self.row_dim(x)
        self.copy(x, y, Ref(target.store, marked(shape, row)))

    def copy(self, src: int, out: int, target: Ref, **options: Any) -> Node:
        """A step that writes ``src`` through ``target`` (a layout of the source's shape)."""
        shape, row = self.spec(src).shape, self.row_dim(src)
        operand = self.operand(src, shape, row)
        step = Step("copy", [operand], -1, self.spec(src).dtype)
        step.target = self.access(target, shape, row)
        for name, value in options.items():
            setattr(step, name, value)
        return self._step(step, self.features(shape, row), [out])

    def pack(self, var: int) -> Ref:
        """Bring the rows of an array into the tile."""
        if var not in self.packed:
            shape, row = self.spec(var).shape, self.row_dim(var)
            size = size_of(n for i, n in enumerate(shape) if i != row)
            store = Store("tile", size, self.spec(var).dtype)
            self.stores.append(store)
            name = -2 - len(self.packed)
            ref = Ref(store, marked(shape, row))
            self.packed[var] = (ref, name)
            self.copy(var, name, ref)
        return self.packed[var][0]

    def packs(self, *variables: int) -> list[int]:
        """The stand-ins of variables that have been packed, for dependences."""
        return [self.packed[v][1] for v in variables if v in self.packed]

    def spill(self, var: int) -> None:
        """Write a row variable into its array."""
        ref = Ref(self.program.array(var), contiguous(self.spec(var).shape))
        self.copy(var, -1, ref)

    def _step(self, step: Step, space: Space, outs: Sequence[int]) -> Node:
        reads = [(o.var, o.forwarded) for o in step.operands]
        node = Node("map", space, reads, step.out)
        node.step = step
        self._append(node, [v for v in outs if v != -1])
        return node

    def _elementwise(self, ins: Instruction) -> None:
        (y,) = ins.outputs
        spec, row = self.spec(y), self.row_dim(y)
        operands = [self.operand(v, spec.shape, row) for v in ins.inputs]
        self.new_store(y)
        step = Step(ins.op, operands, y, spec.dtype)
        step.ins = ins
        self._step(step, self.features(spec.shape, row), [y])

    def _reduce(self, ins: Instruction) -> None:
        (x,), (y,) = ins.inputs, ins.outputs
        shape, row = self.spec(x).shape, self.row_dim(x)
        axes = ins.params["axes"]
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        step = Step("copy", [self.operand(x, shape, row)], -1, self.spec(y).dtype)
        step.combine = {"sum": "add", "amax": "max", "amin": "min"}[ins.op]
        step.fill = True
        step.row_sum = row is not None and row in axes
        space = self.features(shape, row)
        if step.row_sum:
            target, made = self.accumulator(y, kept, combine=step.combine), -1
        elif ins.op == "sum" and self.spec(y).dtype == np.float32:
            made = self._wide(y, row)
            target = self.new_store(made)
            step.dtype = np.dtype("float64")
        else:
            target, made = self.new_store(y), y
        layout = expand(marked(kept, None if step.row_sum else row), shape)
        step.target = self.access(Ref(target.store, layout), shape, row)
        self._step(step, space, [made])
        if made not in (y, -1):
            self._elementwise(
                Instruction("to_dtype", (made,), {"dtype": np.dtype("float32")}, (y,))
            )

    def _wide(self, var: int, row: int | None) -> int:
        """A float64 stand-in for a float32 variable: sums lose no digits."""
        made = self.tape.new_var(Spec(self.spec(var).shape, np.dtype("float64")))
        self.temporary_rows[made] = self.row_dim(var)
        return made

    def accumulator(
        self, var: int, shape: Sequence[int], lanes: int = 0, combine: str = "add"
    ) -> Ref:
        """A store for sums over rows (in every lane apart), and the array that they are added up into."""
        spec = self.spec(var)
        sums = spec.dtype.kind == "f" and combine == "add"
        store = Store("acc", size_of(shape), np.dtype("float64") if sums else spec.dtype)
        store.combine = combine
        store.var, store.lanes = var, lanes or jit.lanes()
        self.stores.append(store)
        self.program.add_accumulator(self, store, var)
        return Ref(store, contiguous(shape))

    def _cat(self, ins: Instruction) -> None:
        (y,) = ins.outputs
        target = self.new_store(y)
        axis, start = ins.params["axis"], 0
        for v in ins.inputs:
            shape = self.spec(v).shape
            step = target.layout.strides[axis]
            layout = Layout(shape, target.layout.strides, target.layout.offset + start * step)
            self.copy(v, y, Ref(target.store, layout))
            start += shape[axis]

    def _scatter(self, ins: Instruction) -> None:
        from .movement import scatter_layout

        (x,), (y,) = ins.inputs, ins.outputs
        target = self.new_store(y)
        layout = scatter_layout(ins.params["layout"], ins.params["base_layout"], self.row_dim(y))
        assert layout is not None
        self.copy(x, y, Ref(target.store, layout), combine="add", fill=True)

    # -- order ---------------------------------------------------------------------------------------
    def schedule(self) -> list[Item]:
        """The items in order; stores know when they are used."""
        self._levels()
        self._sink()
        groups: dict[tuple, list[Node]] = {}
        for i, node in enumerate(self.nodes):
            key = (node.level, node.space) if node.kind == "map" else (node.level, None, i)
            groups.setdefault(key, []).append(node)
        ordered = sorted(groups.items(), key=lambda kv: kv[0][0])
        self.items = list(self.prologue)
        where = {id(n): i for i, (_, nodes) in enumerate(ordered) for n in nodes}
        self._resolve(where)
        for _, nodes in ordered:
            if nodes[0].kind == "map":
                self.items.append(Map(nodes[0].space or (), [n.step for n in nodes if n.step]))
            else:
                self.items.append(nodes[0].make())
        return self.items

    def _levels(self) -> None:
        for node in self.nodes:
            level = 1 if node.kind == "map" else 0
            for var, forwarded in node.reads:
                for maker in self.makers.get(var, ()):
                    if maker is node:
                        continue
                    maker.users.append((node, forwarded))
                    level = max(level, _after(maker, node, forwarded))
            node.level = level

    def _sink(self) -> None:
        """Move a node next to its only users where that keeps no operand alive longer."""
        for node in reversed(self.nodes):
            if node.kind != "map" or not node.users or node.step is None or node.step.combine:
                continue
            if node.step.target is not None:
                continue
            latest = min(_before(node, user, forwarded) for user, forwarded in node.users)
            if latest > node.level and all(
                any(u is not node and u.level >= latest for u, _ in maker.users)
                for var, _ in node.reads
                for maker in self.makers.get(var, ())
            ):
                node.level = latest

    def _resolve(self, where: dict[int, int]) -> None:
        """Decide which values are forwarded in registers and which are stored."""
        for node in self.nodes:
            step = node.step
            if step is None:
                self.stored.update(v for v, _ in node.reads)
                continue
            for i, operand in enumerate(step.operands):
                makers = self.makers.get(operand.var, ())
                near = (
                    operand.forwarded
                    and len(makers) == 1
                    and makers[0].step is not None
                    and makers[0].step.out == operand.var
                    and where[id(makers[0])] == where[id(node)]
                )
                step.operands[i] = operand._replace(forwarded=near)
                if not near:
                    self.stored.add(operand.var)
        for node in self.nodes:
            step = node.step
            if step is not None and step.out >= 0:
                if step.out in self.stored or step.out in self.program.kept:
                    shape, row = self.spec(step.out).shape, self.row_dim(step.out)
                    step.target = self.access(self.refs[step.out], shape, row)


def _after(maker: Node, node: Node, forwarded: bool) -> int:
    """The earliest level of a node that reads what ``maker`` writes."""
    if (
        maker.kind == node.kind == "map"
        and forwarded
        and maker.space == node.space
        and maker.out >= 0
    ):
        return maker.level
    parity = 1 if node.kind == "map" else 0
    level = maker.level + 1
    return level if level % 2 == parity else level + 1


def _before(node: Node, user: Node, forwarded: bool) -> int:
    """The latest level of a map node that ``user`` reads."""
    if user.kind == "map" and forwarded and node.space == user.space:
        return user.level
    level = user.level - 1
    return level if level % 2 == 1 else level - 1
