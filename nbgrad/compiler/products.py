"""Matrix products: which form they take in a block."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..layout import expand
from ..tape.program import Instruction, Tape
from .items import Batch, Dot
from .stores import Ref


def make_dot(block: Any, ins: Instruction, summed: tuple[int, ...] = (), out: int = -1) -> None:
    """Schedule ``matmul``; with ``summed`` its sum over those batch axes, which becomes variable ``out``."""
    from .block import Node

    a, b = ins.inputs
    y = out if summed else ins.outputs[0]
    full = _full_shape(block, a, b)
    rank = len(full)
    sa, sb = ((*full[:-2], *block.spec(v).shape[-2:]) for v in (a, b))
    rows = _rows(block, ins, full)
    form = _form(block, a, b, rows, rank)
    ra, rb = (
        _located(block, a, form in ("left", "both", "sum")),
        _located(block, b, form in ("right", "both", "sum")),
    )
    la, lb = expand(ra.layout, sa), expand(rb.layout, sb)
    target, lc = _target(block, y, full, rows, form, summed)
    m, n, k = full[-2], full[-1], block.spec(a).shape[-1]
    batch = tuple(
        Batch(full[d], la.strides[d], lb.strides[d], lc.strides[d])
        for d in range(rank - 2)
        if d != rows and full[d] != 1
    )
    dot = Dot(
        form,
        m,
        n,
        k,
        Ref(ra.store, la),
        Ref(rb.store, lb),
        Ref(target.store, lc),
        (la.strides[-2], la.strides[-1]),
        (lb.strides[-2], lb.strides[-1]),
        (lc.strides[-2], lc.strides[-1]),
        batch,
    )
    node = Node("dot", None, [(block.root(a), False), (block.root(b), False)], -1)
    node.reads += [(v, False) for v in block.packs(a, b)]
    node.make = lambda: dot
    block._append(node, [y])


def _full_shape(block: Any, a: int, b: int) -> tuple[int, ...]:
    """Shape of the product before any sum over its batch."""
    sa, sb = block.spec(a).shape, block.spec(b).shape
    lead = np.broadcast_shapes(sa[:-2], sb[:-2])
    return (*lead, sa[-2], sb[-1])


def _rows(block: Any, ins: Instruction, full: tuple) -> int | None:
    """The dimension of the full product that holds the rows; None where they are contracted or absent."""
    if block.cls is None:
        return None
    rank = len(full)
    for side, v in enumerate(ins.inputs):
        d = block.row_dim(v)
        if d is not None:
            d += rank - len(block.spec(v).shape)
            if d < rank - 2 or d == rank - 2 + side:
                return d
    return None


def _form(block: Any, a: int, b: int, rows: int | None, rank: int) -> str:
    if block.cls is None:
        return "flat"
    if rows is None:
        return "sum"
    if rows == rank - 2:
        return "left"
    return "right" if rows == rank - 1 else "both"


def _located(block: Any, var: int, tiled: bool) -> Ref:
    """The operand where the kernel can read it: rows in a tile, everything else in memory."""
    ref = block.ref(var)
    if tiled and block.row_dim(var) is not None and ref.store.kind != "tile":
        ref = block.pack(var)
    if ref.store.kind == "fill":
        ref = block.program.filled(ref)
    return ref


def _target(block: Any, y: int, full: tuple, rows: int | None, form: str, summed: tuple):
    """Where the product goes, and its layout over the full shape."""
    if form != "sum":
        ref = block.new_store(y)
        return ref, ref.layout
    shape = tuple(1 if d in summed else n for d, n in enumerate(full))
    ref = block.accumulator(y, shape, lanes=1)
    return ref, expand(ref.layout, full)


def batch_sums(tape: Tape, placement: Any) -> dict[int, Instruction]:
    """Products summed over rows whose only use is a further sum over their batch: position -> that sum."""
    users: dict[int, list[Instruction]] = {}
    for ins in tape.instructions:
        for v in ins.inputs:
            users.setdefault(v, []).append(ins)
    found = {}
    for position, (ins, place) in enumerate(zip(tape.instructions, placement.places, strict=True)):
        (y,) = ins.outputs[:1]
        if ins.op != "matmul" or place.kind != "row" or placement.home[y][0] is not None:
            continue
        after = users.get(y, [])
        if len(after) == 1 and after[0].op == "sum" and y not in tape.outputs:
            rank = len(tape.specs[y].shape)
            if after[0].params["axes"] and max(after[0].params["axes"]) < rank - 2:
                found[position] = after[0]
    return found
