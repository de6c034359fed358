"""From a prepared tape to a schedule: blocks of items over planned stores."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ..layout import Layout, contiguous
from ..tape.program import Tape
from .block import Block
from .control import Control
from .gathering import Gather, Scatter
from .items import Access, Dot, Finish, Host, Item, Map
from .place import Placement
from .prepare import Constants
from .products import batch_sums, make_dot
from .stores import Ref, Store

ALIGN = 64


class Phase(NamedTuple):
    """Uniform items (host calls among them), then row regions."""

    uniform: Block
    regions: list[Block]


class Schedule:
    """A tape lowered: phases, argument and constant arrays, planned memory."""

    def __init__(
        self,
        tape: Tape,
        constants: Constants,
        native_only: bool = False,
        generic: int | None = None,
        serial: bool = False,
    ):
        self.serial = serial  # the body of a loop: it runs in one thread
        self.tape, self.constants, self.generic = tape, constants, generic is not None
        self.placement = Placement(tape, constants, native_only, generic)
        self.inputs = [v for v in (*tape.inputs, *tape.captured) if v not in constants]
        # rows and chunks of the regions, filled in by the plan, are the first constant
        self.sizes = np.zeros(2 * len(self.placement.classes) * self.placement.depth + 1, np.int64)
        self.const_arrays: list[np.ndarray] = [self.sizes]
        self.kept: set[int] = set(tape.outputs)
        self.global_refs: dict[int, Ref] = {}
        self.arrays: dict[int, Store] = {}
        self.outputs: list[Store] = []
        self.temporaries: list[Store] = []
        self._arguments()
        depth = self.placement.depth
        self.phases = [Phase(Block(self, None, d), []) for d in range(depth)]
        self._fill_blocks()
        self._return_outputs()
        for block in self.blocks():
            block.schedule()
        self.work_bytes = self._plan_work()

    def blocks(self) -> list[Block]:
        """All blocks in the order in which they run."""
        return [b for p in self.phases for b in (p.uniform, *p.regions)]

    # -- arrays -----------------------------------------------------------------------------------
    def _arguments(self) -> None:
        for i, var in enumerate(self.inputs):
            spec = self.tape.specs[var]
            store = Store("input", int(np.prod(spec.shape)), spec.dtype, i)
            store.var = var
            self.global_refs[var] = Ref(store, contiguous(spec.shape))
        for i, var in enumerate(self.tape.outputs):
            spec = self.tape.specs[var]
            store = Store("output", int(np.prod(spec.shape)), spec.dtype, i)
            store.var = var
            self.outputs.append(store)
            self.arrays.setdefault(var, store)
        for var in self.constants.arrays:
            self.global_refs[var] = self._constant(var)

    def _constant(self, var: int) -> Ref:
        value = self.constants.fill(var)
        spec = self.tape.specs[var]
        if value is not None:
            store = Store("fill", 1, spec.dtype, value=value)
            return Ref(store, Layout(tuple(spec.shape), (0,) * len(spec.shape), 0))
        store = self.const_store(np.ascontiguousarray(self.constants.arrays[var]))
        return Ref(store, contiguous(spec.shape))

    def const_store(self, array: np.ndarray) -> Store:
        """An array that is part of the program."""
        self.const_arrays.append(array)
        return Store("const", array.size, array.dtype, len(self.const_arrays) - 1)

    def filled(self, ref: Ref) -> Ref:
        """A constant in memory, for kernels that load it."""
        return Ref(self.const_store(np.full(1, ref.store.value, ref.store.dtype)), ref.layout)

    def array(self, var: int) -> Store:
        """The array of a variable: a result, or part of the workspace."""
        if var not in self.arrays:
            spec = self.tape.specs[var]
            store = Store("work", int(np.prod(spec.shape)), spec.dtype)
            store.var = var
            self.arrays[var] = store
        return self.arrays[var]

    def temporary(self, size: int, dtype: Any) -> Store:
        """Part of the workspace that belongs to no variable."""
        store = Store("work", size, np.dtype(dtype))
        self.temporaries.append(store)
        return store

    @functools.cached_property
    def plan(self) -> Any:
        """Tiles, chunks and memory."""
        from .emit import plan

        return plan(self)

    def global_ref(self, var: int) -> Ref:
        """Where a variable of an earlier block, or from outside, can be read."""
        if var not in self.global_refs:
            spec = self.tape.specs[var]
            self.global_refs[var] = Ref(self.array(var), contiguous(spec.shape))
        ref = self.global_refs[var]
        if ref.store.var >= 0:
            self.kept.add(ref.store.var)
        return ref

    def add_accumulator(self, block: Block, store: Store, var: int) -> None:
        """The sums of ``store`` become the array of ``var`` at the start of the next phase."""
        target = self.array(var)
        self.phases[block.depth + 1].uniform.prologue.append(Finish(store, target))
        self.global_refs[var] = Ref(target, contiguous(self.tape.specs[var].shape))

    # -- blocks -----------------------------------------------------------------------------------
    def _fill_blocks(self) -> None:
        placement, tape = self.placement, self.tape
        regions: dict[tuple[int, int], Block] = {}
        made_in: dict[int, Block] = {}
        absorbed = batch_sums(tape, placement)
        gone = {id(ins) for ins in absorbed.values()}
        for i, (ins, place) in enumerate(zip(tape.instructions, placement.places, strict=True)):
            if id(ins) in gone:
                continue
            cls, depth = placement.home[ins.outputs[0]] if place.kind == "view" else place[1:]
            if cls is None:
                block = self.phases[depth].uniform
            else:
                if (cls, depth) not in regions:
                    regions[cls, depth] = Block(self, cls, depth)
                    self.phases[depth].regions.append(regions[cls, depth])
                block = regions[cls, depth]
            if i in absorbed:
                total = absorbed[i]
                make_dot(block, ins, total.params["axes"], total.outputs[0])
            else:
                (block.host if place.kind == "host" else block.add)(ins)
            for v in ins.outputs:
                made_in[v] = block
                if cls is None and v in block.refs:
                    self.global_refs[v] = block.refs[v]
        for var in placement.spilled:
            made_in[var].spill(var)

    def _return_outputs(self) -> None:
        """Results that are no array of their own: arguments, constants, views, repeated results."""
        last = self.phases[-1].uniform
        for store in self.outputs:
            var = store.var
            ref = self.global_ref(var) if var not in last.refs else last.refs[var]
            if ref.store is not store:
                last.copy(var, -1, Ref(store, contiguous(self.tape.specs[var].shape)))

    # -- memory -----------------------------------------------------------------------------------
    def _plan_work(self) -> int:
        """Offsets of the workspace arrays: arrays whose lives do not meet share memory."""
        position = 0
        for phase in self.phases:
            for item in phase.uniform.items:
                position += 1
                _touch(item, position, ("work",))
            position += 1
            for region in phase.regions:
                for item in region.items:
                    _touch(item, position, ("work",))
        stores = [*self.arrays.values(), *self.temporaries]
        return pack_lives([s for s in stores if s.first >= 0 and s.kind == "work"])


def stores_of(item: Item) -> list[Store]:
    """The stores an item reads or writes."""
    if isinstance(item, Map):
        found: list[Access] = []
        for step in item.steps:
            found += [o.access for o in step.operands if not o.forwarded]
            if step.target is not None:
                found.append(step.target)
        return [a.store for a in found]
    if isinstance(item, Dot):
        return [item.a.store, item.b.store, item.c.store]
    if isinstance(item, Host):
        return [*(r.store for r in item.inputs), *item.outputs]
    if isinstance(item, Gather):
        return [item.source.store, item.target]
    if isinstance(item, Scatter):
        return [item.source.store, item.target]
    if isinstance(item, Control):
        inputs = [r.store for r in item.inputs]
        return [*inputs, *item.outputs, *item.spare, item.area]
    return [item.source, item.target]


def _touch(item: Item, position: int, kinds: tuple[str, ...]) -> None:
    for store in stores_of(item):
        if store.kind in kinds:
            if store.first < 0:
                store.first = position
            store.last = position


def plan_tiles(block: Block, quantum: int) -> int:
    """Offsets (bytes per row) of a region's tile stores; returns the bytes a row needs."""
    for i, item in enumerate(block.items):
        _touch(item, i, ("tile",))
    return pack_lives([s for s in block.stores if s.kind == "tile" and s.first >= 0], quantum)


def pack_lives(stores: list[Store], align: int = ALIGN) -> int:
    """First-fit offsets by size for stores with lives [first, last]; returns the bytes needed."""
    placed: list[tuple[int, int, Store]] = []
    top = 0
    for store in sorted(stores, key=lambda s: (-s.bytes, s.first)):
        size = -(-max(store.bytes, 1) // align) * align
        busy = sorted(
            (lo, hi) for lo, hi, o in placed if o.first <= store.last and store.first <= o.last
        )
        offset = 0
        for lo, hi in busy:
            if offset + size <= lo:
                break
            offset = max(offset, hi)
        store.offset = offset
        placed.append((offset, offset + size, store))
        top = max(top, offset + size)
    return top
