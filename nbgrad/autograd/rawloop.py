"""The hot loop of a backward pass over plain arrays.

The same order as `engine._Sweep.run` (latest node first), with two shortcuts: the next node of a chain is kept in a
local variable instead of going through the heap, and cotangents are arrays, never tensors.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

from .graph import AccumulateGrad, Node

if TYPE_CHECKING:
    from .engine import _Sweep

ndarray = np.ndarray


def run_raw(sweep: _Sweep, needed: set[Node] | None) -> None:
    """Process everything on the sweep's heap."""
    heap, grads, owned = sweep.heap, sweep.grads, sweep.owned
    retain, wanted, add = sweep.retain, sweep.wanted, sweep.add
    pop, push = heapq.heappop, heapq.heappush
    node: Any = None
    g: Any = None
    while True:
        if node is None:
            if not heap:
                return
            node = pop(heap)[1]
            g = grads.pop(node)
            if needed is not None and node not in needed:
                node = None
                continue
        if node.meta is not None or wanted is not None:
            g = sweep.before(node, g)
            if wanted is not None and node in wanted:
                sweep.capture(node, g)
                if not sweep.continues(node, needed):
                    node = None
                    continue
            if node.meta is not None and node.meta.pre:
                g = sweep.pre_hooks(node, g)
        if type(node) is AccumulateGrad:
            if wanted is None:
                sweep.accumulate_leaf(node, g)
            node = None
            continue
        if type(g) is list:
            g = tuple(g)
        out = node.vjp_raw(g)
        if node.meta is not None:
            out = sweep.after(node, g, out)
        if not retain:
            node.release()
        nrs = node.nrs
        held: Any = None
        held_g: Any = None
        for i, child in enumerate(node.edges):
            if child is not None:
                gi = out[i]
                if gi is not None and (needed is None or child in needed):
                    if child is held:
                        held_g = (
                            np.add(held_g, gi) if type(gi) is ndarray else sweep._sum(held_g, gi)
                        )
                        owned.add(child)
                    elif child in grads or child.n_outputs != 1:
                        add(child, 0 if nrs is None else nrs[i], gi)
                    elif held is None:
                        held, held_g = child, gi
                    else:
                        grads[child] = gi
                        push(heap, (-child.seq, child))
        out = gi = g = None
        if held is not None and heap and heap[0][0] < -held.seq:
            grads[held] = held_g
            push(heap, (-held.seq, held))
            held = None
        node, g = held, held_g
        held_g = None
