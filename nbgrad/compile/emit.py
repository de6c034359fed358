"""From a schedule to LLVM assembly: one function per block and an entry that picks one by number.

``entry(which, buffers, chunk, scratch)``: ``buffers`` holds the addresses of arguments, constants, results and the workspace;
a region runs one chunk of its tiles, its tile stores live in ``scratch``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kernels_cpu.llvm import jit
from kernels_cpu.llvm.text import Function, Module, Value

from .block import Block
from .emit_dot import emit_dot
from .emit_map import emit_map, fill_store
from .items import Dot, Finish, Map
from .lower import ALIGN, Schedule, plan_tiles
from .target import Target

MOST_CHUNKS = 16
CHUNK_BUDGET = 1 << 21  # bytes of accumulators all chunks together may take
TILE_BUDGET = 320 * 1024  # bytes of tile stores that stay in the second-level cache
MOST_ROWS = 1024
ENTRY = "entry"


class Region(NamedTuple):
    """How a row region is run."""

    number: int  # of its function
    rows: int
    tile: int
    chunks: int
    spare: int  # offset of the space for transposed operands
    scratch: int  # bytes per thread


class Segment(NamedTuple):
    """A run of uniform items without host calls."""

    number: int


class Layout(NamedTuple):
    """What the runtime needs to know of an emitted program."""

    text: str
    whole: int  # number of the function that runs all steps
    steps: list  # Segment, Region or Host, in order
    regions: list  # (block, Region)
    work_bytes: int
    scratch_bytes: int


def emit(schedule: Schedule) -> Layout:
    """The module's text and the steps of a call."""
    module = Module()
    regions = _plan(schedule)
    work = schedule.work_bytes
    for block in schedule.blocks():
        if block.cls is not None:
            region = regions[id(block)]
            block.acc_bytes = _place_accumulators(block)
            block.acc_offset = work
            work += block.acc_bytes * region.chunks
    steps: list = []
    plans: list = []
    names: list[str] = []
    for phase in schedule.phases:
        _uniform(schedule, module, phase.uniform, regions, steps, names)
        for block in phase.regions:
            region = regions[id(block)]._replace(number=len(names))
            names.append(_region(schedule, module, block, region))
            steps.append(region)
            plans.append((block, region))
    _whole(module, steps, names)
    _entry(module, names)
    scratch = max([s.scratch for s in steps if isinstance(s, Region)], default=0)
    return Layout(module.text(), len(names) - 1, steps, plans, work, scratch)


def _plan(schedule: Schedule) -> dict[int, Region]:
    found = {}
    for block in schedule.blocks():
        if block.cls is None:
            continue
        rows = schedule.placement.rows(block.cls)
        per_row = plan_tiles(block, 8)
        tile = _tile_rows(rows, per_row)
        tiles = -(-rows // tile)
        acc = sum(s.bytes * s.lanes for s in block.stores if s.kind == "acc")
        chunks = min(tiles, MOST_CHUNKS, max(4, CHUNK_BUDGET // max(acc, 1)))
        wide = [max(d.m, d.n) * d.a.store.dtype.itemsize for d in block.items if _sums(d)]
        spare = per_row * tile
        size = spare + max(wide, default=0) * tile + ALIGN
        found[id(block)] = Region(-1, rows, tile, chunks, spare, size)
    return found


def _sums(item: Any) -> bool:
    return isinstance(item, Dot) and item.form == "sum"


def _tile_rows(rows: int, per_row: int) -> int:
    """Rows per tile: as many as keep the tile in cache, a multiple of what kernels work on."""
    from kernels_cpu.llvm.gemm import row_quantum

    step = row_quantum()
    tile = MOST_ROWS
    while tile > step and tile * per_row > TILE_BUDGET:
        tile //= 2
    return min(tile, -(-rows // step) * step)


def _place_accumulators(block: Block) -> int:
    offset = 0
    for store in block.stores:
        if store.kind == "acc":
            store.offset = offset
            offset += -(-store.bytes * store.lanes // ALIGN) * ALIGN
    return offset


def _uniform(schedule, module: Module, block: Block, regions: dict, steps: list, names: list):
    fn: Function | None = None
    target: Target | None = None
    for item in block.items:
        if not isinstance(item, (Map, Dot, Finish)):
            if fn is not None:
                fn.finish()
            fn = None
            steps.append(item)
            continue
        if fn is None:
            fn = _function(module, f"uniform{len(names)}")
            target = Target(schedule, fn, None, regions)
            steps.append(Segment(len(names)))
            names.append(fn.name)
        assert target is not None
        _item(target, item)
    if fn is not None:
        fn.finish()


def _function(module: Module, name: str) -> Function:
    params = [Value("%buffers", "ptr"), Value("%chunk", "i64"), Value("%scratch", "ptr")]
    return Function(module, name, params, linkage="internal", attributes=jit.attributes())


def _item(target: Target, item: Map | Dot | Finish) -> None:
    if isinstance(item, Map):
        emit_map(target, item)
    elif isinstance(item, Dot):
        emit_dot(target, item)
    else:
        target.finish(item)


def _region(schedule: Schedule, module: Module, block: Block, region: Region) -> str:
    fn = _function(module, f"region{region.number}")
    target = Target(schedule, fn, (block, region), {})
    tiles = -(-region.rows // region.tile)
    for store in block.stores:
        if store.kind == "acc":
            fill_store(target, store, 0.0)
    chunk = Value("%chunk", "i64")
    lo, hi = (
        fn.emit("i64", f"udiv {fn.mul(c, tiles)}, {region.chunks}")
        for c in (chunk, fn.add(chunk, 1))
    )

    def tile(t: Value) -> None:
        target.start_tile(t)
        for item in block.items:
            _item(target, item)

    fn.loop(lo, hi, 1, tile)
    fn.finish()
    return fn.name


def _whole(module: Module, steps: list, names: list[str]) -> None:
    """The last function runs all native steps in this thread: what Numba code calls."""
    fn = _function(module, "whole")

    def chunk(name: str, c: Value) -> None:
        fn.do(f"call void @{name}(ptr %buffers, {c}, ptr %scratch)")

    for step in steps:
        if isinstance(step, Segment):
            chunk(names[step.number], Value("0", "i64"))
        elif isinstance(step, Region):
            fn.loop(0, step.chunks, 1, lambda c, step=step: chunk(names[step.number], c))
    fn.finish()
    names.append(fn.name)


def _entry(module: Module, names: list[str]) -> None:
    params = [
        Value("%which", "i64"),
        Value("%buffers", "ptr"),
        Value("%chunk", "i64"),
        Value("%scratch", "ptr"),
    ]
    fn = Function(module, ENTRY, params, "i64", attributes=jit.attributes())
    cases = " ".join(f"i64 {i}, label %case{i}" for i in range(len(names)))
    fn.do(f"switch i64 %which, label %end [ {cases} ]")
    for i, name in enumerate(names):
        fn.label(f"case{i}")
        fn.do(f"call void @{name}(ptr %buffers, i64 %chunk, ptr %scratch)")
        fn.jump("end")
    fn.label("end")
    fn.finish(Value("0", "i64"))


__all__ = ["ENTRY", "Layout", "Region", "Segment", "emit"]
