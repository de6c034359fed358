"""From a schedule to LLVM assembly: one function per block and an entry that picks one by number.

``entry(which, buffers, chunk, scratch)``: ``buffers`` holds the addresses of arguments, constants, results and the workspace;
a region runs one chunk of its tiles, its tile stores live in ``scratch``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from kernels_cpu.llvm import jit
from kernels_cpu.llvm.text import Function, Module, Value

from .block import Block
from .control import Control, emit_control
from .emit_dot import emit_dot
from .emit_map import emit_map, emit_part, fill_store, fill_targets, parts
from .gathering import Gather, Scatter, emit_gather, emit_scatter
from .items import Dot, Host, Item, Map
from .lower import ALIGN, Schedule, plan_tiles
from .stores import identity
from .target import Target

MOST_CHUNKS = 16
# operations below which handing a share to another thread (some 50 us) does not pay
WORTH_THREADS = 20_000_000
CHUNK_BUDGET = 1 << 21  # bytes of accumulators all chunks together may take
TILE_BUDGET = 320 * 1024  # bytes of tile stores that stay in the second-level cache
MOST_ROWS = 1024
FEW_ROWS = 64
PIECE = 8  # items of a region in one function
ENTRY = "entry"


class Region(NamedTuple):
    """How a row region is run. Rows and chunks are read from the program's sizes: the code serves any number of rows."""

    number: int  # of its function
    index: int  # of its sizes: rows at ``2 index``, chunks after them
    rows: int
    tile: int
    chunks: int
    most: int  # chunks there can be
    work: int  # operations per row, roughly
    spare: int  # offset of the space for transposed operands
    scratch: int  # bytes per thread


class Segment(NamedTuple):
    """A run of uniform items without host calls."""

    number: int


class Spread(NamedTuple):
    """A loop nest over arrays whose parts run at once."""

    number: int
    chunks: int


class Plan(NamedTuple):
    """Memory of a schedule: how its regions run (by block), its workspace, its scratch per thread."""

    regions: dict[int, Region]
    work_bytes: int
    scratch_bytes: int


class Emitted(NamedTuple):
    """The functions of a schedule; the last one runs all of them in this thread."""

    names: list[str]
    steps: list  # Segment, Region or Host, in order
    regions: list  # (block, Region)


class Layout(NamedTuple):
    """What the runtime needs to know of an emitted program."""

    text: str
    whole: int  # number of the function that runs all steps
    steps: list
    regions: list
    work_bytes: int
    scratch_bytes: int


def emit(schedule: Schedule) -> Layout:
    """The module's text and the steps of a call."""
    module = Module()
    names, steps, regions = emit_functions(module, schedule)
    _entry(module, names)
    plan = schedule.plan
    last = len(names) - 1
    return Layout(module.text(), last, steps, regions, plan.work_bytes, plan.scratch_bytes)


def emit_functions(module: Module, schedule: Schedule) -> Emitted:
    """Emit a schedule's functions into a module (once)."""
    made = module.made.get(id(schedule))
    if made is None:
        prefix = f"p{len(module.made)}."
        module.made[id(schedule)] = made = Emitted([], [], [])
        for phase in schedule.phases:
            _uniform(schedule, module, phase.uniform, made, prefix)
            for block in phase.regions:
                region = schedule.plan.regions[id(block)]._replace(number=len(made.names))
                made.names.append(_region(schedule, module, block, region, prefix))
                made.steps.append(region)
                made.regions.append((block, region))
        _whole(schedule, module, made, prefix)
    return made


def plan(schedule: Schedule) -> Plan:
    """Decide tiles, chunks and memory of a schedule."""
    regions = {}
    work, scratch = schedule.work_bytes, 0
    for block in schedule.blocks():
        if block.cls is None:
            continue
        rows = schedule.placement.rows(block.cls)
        per_row = plan_tiles(block, 8)
        tile = _tile_rows(MOST_ROWS if schedule.generic else rows, per_row)
        acc = sum(s.bytes * s.lanes for s in block.stores if s.kind == "acc")
        work_row = _work(block, rows)
        most = 1 if schedule.serial else _most_chunks(acc, rows * work_row)
        chunks = chunks_for(rows, tile, most, work_row)
        wide = [max(d.m, d.n) * d.a.store.dtype.itemsize for d in block.items if _sums(d)]
        spare = per_row * tile
        size = spare + max(wide, default=0) * tile + ALIGN
        regions[id(block)] = Region(
            -1, len(regions), rows, tile, chunks, most, work_row, spare, size
        )
        scratch = max(scratch, size)
        block.acc_bytes, block.acc_offset = _place_accumulators(block), work
        work += block.acc_bytes * (most if schedule.generic else chunks)
    for r in regions.values():
        schedule.sizes[2 * r.index : 2 * r.index + 2] = r.rows, r.chunks
    return Plan(regions, -(-work // ALIGN) * ALIGN, scratch)


def chunks_for(rows: int, tile: int, most: int, work: int) -> int:
    """Into how many chunks rows are cut, each with accumulators of its own: one where one thread does everything.

    A function of shapes alone, so that the order of sums is the same for any number of threads.
    """
    return 1 if rows * work < WORTH_THREADS and rows else min(-(-rows // tile), most)


def _most_chunks(acc: int, work: int) -> int:
    """Chunks whose accumulators take at most a twentieth of the time (of some 10 GB/s against 60 Gflop/s)."""
    share = 0.05 * (work / 6e10) / max(2 * acc / 1e10, 1e-12)
    return int(min(MOST_CHUNKS, max(4, min(share, CHUNK_BUDGET / max(acc, 1)))))


def _work(block: Block, rows: int) -> int:
    """Operations per row: products, and ten for a step of a loop nest."""
    total = 0
    for item in block.items:
        if isinstance(item, Dot):
            outside = item.form == "both"
            batch = math.prod(b.size for b in item.batch)
            total += 2 * item.m * item.n * item.k * batch // (1 if outside else max(rows, 1))
        elif isinstance(item, Map):
            total += 10 * math.prod(item.space) * len(item.steps)
    return total


def _sums(item: Any) -> bool:
    return isinstance(item, Dot) and item.form == "sum"


def _tile_rows(rows: int, per_row: int) -> int:
    """Rows per tile: as many as keep the tile in cache, a multiple of what kernels work on."""
    from kernels_cpu.llvm.gemm import row_quantum

    step = row_quantum()
    # several tiles even for few rows, so that threads have something to share
    tile = min(MOST_ROWS, max(FEW_ROWS, -(-rows // (MOST_CHUNKS * step)) * step))
    while tile > step and tile * per_row > TILE_BUDGET:
        tile = tile // (2 * step) * step or step
    return min(tile, -(-rows // step) * step)


def _place_accumulators(block: Block) -> int:
    offset = 0
    for store in block.stores:
        if store.kind == "acc":
            store.offset = offset
            offset += -(-store.bytes * store.lanes // ALIGN) * ALIGN
    return offset


def _uniform(schedule: Schedule, module: Module, block: Block, made: Emitted, prefix: str) -> None:
    fn: Function | None = None
    target: Target | None = None
    count = 0
    for item in block.items:
        if isinstance(item, Host):
            if fn is not None:
                fn.finish()
            fn = None
            made.steps.append(item)
            continue
        cut = 0
        if isinstance(item, Map):
            cut = parts(Target(schedule, _function(Module(), "probe")), item)
        if cut > 1:
            if any(s.fill for s in item.steps):
                if fn is None:
                    fn = _function(module, f"{prefix}uniform{len(made.names)}")
                    made.steps.append(Segment(len(made.names)))
                    made.names.append(fn.name)
                fill_targets(Target(schedule, fn), item)
            if fn is not None:
                fn.finish()
            fn = None
            part = _function(module, f"{prefix}uniform{len(made.names)}")
            emit_part(Target(schedule, part), item, cut)
            part.finish()
            made.steps.append(Spread(len(made.names), cut))
            made.names.append(part.name)
            continue
        if fn is None or count == 2 * PIECE:
            if fn is not None:
                fn.finish()
            count = 0
            number = len(made.names)
            fn = _function(module, f"{prefix}uniform{number}")
            target = Target(schedule, fn)
            made.steps.append(Segment(number))
            made.names.append(fn.name)
        assert target is not None
        count += 1
        _item(target, item)
    if fn is not None:
        fn.finish()


def _function(
    module: Module, name: str, more: Sequence[Value] = (), attributes: str = ""
) -> Function:
    params = [Value("%buffers", "ptr"), Value("%chunk", "i64"), Value("%scratch", "ptr"), *more]
    attributes = f"{jit.attributes()} {attributes}".strip()
    return Function(module, name, params, linkage="internal", attributes=attributes)


def _item(target: Target, item: Item) -> None:
    if isinstance(item, Map):
        emit_map(target, item)
    elif isinstance(item, Dot):
        emit_dot(target, item)
    elif isinstance(item, Control):
        emit_control(target, item)
    elif isinstance(item, Gather):
        emit_gather(target, item)
    elif isinstance(item, Scatter):
        emit_scatter(target, item)
    else:
        target.finish(item)


def _region(schedule: Schedule, module: Module, block: Block, region: Region, prefix: str) -> str:
    fn = _function(module, f"{prefix}region{region.number}")
    target = Target(schedule, fn, block, region)
    rows, chunks = target.size(2 * region.index), target.size(2 * region.index + 1)
    tiles = fn.emit("i64", f"udiv {fn.add(rows, region.tile - 1)}, {region.tile}")
    for store in block.stores:
        if store.kind == "acc":
            fill_store(target, store, identity(store.combine, store.dtype))
    chunk = Value("%chunk", "i64")
    lo, hi = (
        fn.emit("i64", f"udiv {fn.mul(c, tiles)}, {chunks.text}") for c in (chunk, fn.add(chunk, 1))
    )

    pieces = _pieces(schedule, module, block, region, prefix)

    def tile(t: Value) -> None:
        target.start_tile(t)
        rows = f"{target.row0}, {target.rows}, {target.padded}"
        for name in pieces:
            fn.do(f"call void @{name}(ptr %buffers, i64 %chunk, ptr %scratch, {rows})")

    fn.loop(lo, hi, 1, tile)
    fn.finish()
    return fn.name


def _pieces(
    schedule: Schedule, module: Module, block: Block, region: Region, prefix: str
) -> list[str]:
    """A region's items in functions of a few each: LLVM takes more than linear time over a function's length."""
    names = []
    for start in range(0, len(block.items), PIECE):
        name = f"{prefix}region{region.number}.{start // PIECE}"
        rows = [Value(f"%{n}", "i64") for n in ("row0", "rows", "padded")]
        fn = _function(module, name, rows, "noinline")
        target = Target(schedule, fn, block, region)
        target.row0, target.rows, target.padded = rows
        for item in block.items[start : start + PIECE]:
            _item(target, item)
        fn.finish()
        names.append(name)
    return names


def _whole(schedule: Schedule, module: Module, made: Emitted, prefix: str) -> None:
    """The last function runs all native steps in this thread: what Numba code and loops call."""
    fn = _function(module, f"{prefix}whole")

    def chunk(name: str, c: Value) -> None:
        fn.do(f"call void @{name}(ptr %buffers, {c}, ptr %scratch)")

    for step in made.steps:
        if isinstance(step, Segment):
            chunk(made.names[step.number], Value("0", "i64"))
        elif isinstance(step, Spread):
            fn.loop(0, step.chunks, 1, lambda c, step=step: chunk(made.names[step.number], c))
        elif isinstance(step, Region):
            chunks = Target(schedule, fn).size(2 * step.index + 1)
            fn.loop(0, chunks, 1, lambda c, step=step: chunk(made.names[step.number], c))
    fn.finish()
    made.names.append(fn.name)


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
