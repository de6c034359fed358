"""What a program looks like and what it costs: ``program.source`` and ``program.explain()``."""

from __future__ import annotations

import functools
import math
import os
import time
from typing import Any

import numpy as np

from kernels_cpu import threads
from kernels_cpu.scalar import VECMATH

from .block import Block
from .control import Control
from .emit import Region, Segment, Spread
from .evaluate import body_primitives
from .gathering import Gather, Scatter
from .items import Dot, Finish, Host, Item, Map, Step
from .lower import Schedule, stores_of
from .run import Runner

TRANSCENDENTAL = 20  # operations a vecmath function counts as


def step_flops(step: Step, schedule: Schedule) -> int:
    """Operations per element of a step."""
    count = 1 if step.combine or step.row_sum else 0
    if step.ins is None or step.op in ("copy", "to_dtype", "clone"):
        return count
    dtypes = tuple(schedule.tape.specs[v].dtype for v in step.ins.inputs)
    for name in body_primitives(step.op, dtypes):
        count += TRANSCENDENTAL if name in VECMATH else name not in ("select", "cast", "not")
    return count


def item_flops(item: Item, schedule: Schedule, rows: int) -> int:
    """Operations of an item, all rows together."""
    if isinstance(item, Map):
        per = sum(step_flops(s, schedule) for s in item.steps)
        return per * math.prod(item.space) * rows
    if isinstance(item, Dot):
        batch = math.prod(b.size for b in item.batch)
        outside = item.form == "both"  # then the rows are not among m, n and k
        return 2 * item.m * item.n * item.k * batch * (rows if outside else 1)
    return item.source.size if isinstance(item, Finish) else 0


def item_bytes(item: Item) -> int:
    """Bytes of arrays (not of tiles, which stay in cache) an item reads and writes."""
    seen = {id(s): s for s in stores_of(item) if s.is_global}
    return sum(s.bytes for s in seen.values())


@functools.cache
def machine() -> tuple[float, float]:
    """Measured operations and bytes per second: a matrix product (BLAS on all its threads), a copy."""
    a = np.ones((384, 384))
    source, target = np.ones(1 << 21), np.empty(1 << 21)
    flops = bytes_ = 0.0
    for _ in range(8):
        t = time.perf_counter()
        np.dot(a, a)
        flops = max(flops, 2 * 384**3 / (time.perf_counter() - t))
        t = time.perf_counter()
        np.copyto(target, source)
        bytes_ = max(bytes_, 2 * source.nbytes / (time.perf_counter() - t))
    return flops, bytes_


class Cost:
    """Operations and bytes of a program, and the time they take at least."""

    def __init__(self, runner: Runner):
        schedule = runner.schedule
        self.flops = self.bytes = 0
        for block in schedule.blocks():
            rows = 1 if block.cls is None else schedule.placement.rows(block.cls)
            for item in block.items:
                self.flops += item_flops(item, schedule, rows)
                self.bytes += item_bytes(item)
        peak, bandwidth = machine()
        share = min(threads.get_num_threads() / (os.cpu_count() or 1), 1)
        self.seconds = max(self.flops / (peak * share), self.bytes / bandwidth)


def item_lines(item: Item) -> list[str]:
    """An item as text."""
    if isinstance(item, Map):
        loops = " x ".join(map(str, item.space)) or "1"
        return [f"for {loops}:", *(f"    {s}" for s in item.steps)]
    if isinstance(item, Dot):
        batch = "".join(f"{b.size} x " for b in item.batch)
        shape = f"{batch}{item.m} x {item.n} x {item.k}"
        sign = "+=" if item.form == "sum" else "="
        return [f"{item.c.store} {sign} {item.a.store} @ {item.b.store}   ({item.form}, {shape})"]
    if isinstance(item, Finish):
        return [f"{item.target} = sum of the chunks of {item.source}"]
    if isinstance(item, Control):
        outs, args = (
            ", ".join(map(str, x)) for x in (item.outputs, [r.store for r in item.inputs])
        )
        return [f"{outs} = {item.ins.op}({args})   ({len(item.bodies)} bodies of native code)"]
    if isinstance(item, Gather):
        return [f"{item.target} = {item.source.store}[known positions]"]
    if isinstance(item, Scatter):
        return [f"{item.target}[known positions] {'+=' if item.add else '='} {item.source.store}"]
    outs = ", ".join(map(str, item.outputs))
    args = ", ".join(str(r.store) for r in item.inputs)
    return [f"{outs} = {item.ins.op}({args})   (eager kernel)"]


def source(runner: Runner) -> str:
    """The loop nests and products of a program, in the order in which they run."""
    schedule = runner.schedule
    plans = {id(b): r for b, r in runner.layout.regions}
    lines: list[str] = []

    def show(block: Block, head: str) -> None:
        if block.items:
            lines.append(head)
            lines.extend(f"    {text}" for item in block.items for text in item_lines(item))

    for depth, phase in enumerate(schedule.phases):
        show(phase.uniform, f"phase {depth}, arrays:")
        for block in phase.regions:
            r = plans[id(block)]
            show(block, f"phase {depth}, {r.rows} rows by {r.tile}, in {r.chunks} chunks:")
    return "\n".join(lines)


def explain(program: Any) -> str:
    """Regions, tiles, memory, operations and the time they take at least, with what runs as eager kernels."""
    runner, tape = program.runner, program.prepared[0]
    layout, cost = runner.layout, Cost(runner)
    steps = layout.steps
    regions = [s for s in steps if isinstance(s, Region)]
    hosts = [s.ins.op for s in steps if isinstance(s, Host)]
    lines = [
        f"{program.name}: {len(program.tape)} instructions, {len(tape)} after simplification",
        f"  {len(regions)} row region(s), {sum(isinstance(s, Segment | Spread) for s in steps)} uniform part(s)",
    ]
    for block, r in layout.regions:
        products = sum(isinstance(i, Dot) for i in block.items)
        nests = sum(isinstance(i, Map) for i in block.items)
        lines.append(
            f"  region of {r.rows} rows: tiles of {r.tile}, {r.chunks} chunks, {nests} loop nests, "
            f"{products} products, {r.scratch >> 10} KiB a thread"
        )
    if hosts:
        names = ", ".join(sorted(set(hosts)))
        lines.append(f"  eager kernels: {names} ({len(hosts)} calls; no njit)")
    lines.append(
        f"  workspace {layout.work_bytes >> 10} KiB, constants {_const_bytes(runner) >> 10} KiB"
    )
    lines.append(
        f"  {cost.flops / 1e6:.3g} Mflop, {cost.bytes / 1e6:.3g} MB of arrays; roofline "
        f"{cost.seconds * 1e3:.3g} ms on {threads.get_num_threads()} thread(s) of this machine"
    )
    timed = ", ".join(f"{name} {t * 1e3:.0f} ms" for name, t in program.timings.items())
    lines.append(f"  compile time: {timed}")
    return "\n".join(lines)


def _const_bytes(runner: Runner) -> int:
    return sum(c.nbytes for c in runner.consts)
