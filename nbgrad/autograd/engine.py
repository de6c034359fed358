"""The backward engine: iterative, ordered by a heap on sequence numbers.

Two modes run the same loop. *Raw* mode (plain arrays, no ``create_graph``) calls each node's fused kernel on NumPy
arrays without making tensors. *Tensor* mode runs the rules in operator vocabulary, so that they can be recorded,
batched or differentiated again.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import AutogradError
from ..state import ON, state
from ..tensor import Meta, Tensor
from . import anomaly
from .graph import AccumulateGrad, Node

ndarray = np.ndarray
Edge = tuple[Node, int]


def run_backward(
    roots: Sequence[tuple[Node, int, Tensor]],
    *,
    retain: bool,
    create_graph: bool,
    inputs: Sequence[Edge] | None = None,
    accumulate: bool = True,
) -> list[Tensor | None]:
    """Propagate cotangents from ``roots``; the core of ``backward`` and ``autograd.grad``.

    ``inputs`` restricts the sweep to these edges: their cotangents are returned, and accumulated
    into leaves when ``accumulate`` is set. Without ``inputs`` every reachable leaf accumulates.
    """
    level = max(node.level for node, _, _ in roots)
    raw = (
        not create_graph
        and state.fast >= 0
        and all(type(g._data) is ndarray and g._node is None for _, _, g in roots)
        and level == 0
    )
    sweep = _Sweep(raw, retain, inputs, accumulate)
    previous = state.set_off(ON if create_graph else min(state.off, level))
    try:
        for node, nr, g in roots:
            sweep.add(node, nr, g._data if raw else g)
        sweep.run()
    finally:
        state.set_off(previous)
    return sweep.results(inputs)


def reachable(inputs: Sequence[Edge], roots: Sequence[Node]) -> set[Node]:
    """Nodes on a path from ``roots`` to one of ``inputs`` (inputs included)."""
    targets = {node for node, _ in inputs}
    lowest = min((n.seq for n in targets), default=0)
    users: dict[Node, list[Node]] = {}
    seen = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        for child in node.edges:
            if child is None or child.seq < lowest:
                continue
            users.setdefault(child, []).append(node)
            if child not in seen:
                seen.add(child)
                stack.append(child)
    needed = {t for t in targets if t in seen}
    stack = list(needed)
    while stack:
        for parent in users.get(stack.pop(), ()):
            if parent not in needed:
                needed.add(parent)
                stack.append(parent)
    return needed


class _Sweep:
    """State of one backward pass."""

    def __init__(self, raw: bool, retain: bool, inputs: Sequence[Edge] | None, accumulate: bool):
        self.raw, self.retain, self.accumulate = raw, retain, accumulate
        self.grads: dict[Node, Any] = {}
        self.owned: set[Node] = set()
        self.heap: list[tuple[int, Node]] = []
        self.captured: dict[Edge, Any] = {}
        self.wanted: dict[Node, list[int]] | None = None
        self.inputs = inputs
        if inputs is not None:
            self.wanted = {}
            for node, nr in inputs:
                self.wanted.setdefault(node, []).append(nr)

    def add(self, node: Node, nr: int, g: Any) -> None:
        """Add a cotangent to output ``nr`` of a node."""
        grads = self.grads
        if node.n_outputs != 1:
            slots = grads.get(node)
            if slots is None:
                slots = grads[node] = [None] * node.n_outputs
                heapq.heappush(self.heap, (-node.seq, node))
            old = slots[nr]
            slots[nr] = g if old is None else self._sum(old, g)
        elif node in grads:
            old = grads[node]
            if self.raw and node in self.owned and type(old) is ndarray and old.dtype is g.dtype:
                np.add(old, g, out=old)
            else:
                grads[node] = self._sum(old, g)
                self.owned.add(node)
        else:
            grads[node] = g
            heapq.heappush(self.heap, (-node.seq, node))

    def _sum(self, a: Any, b: Any) -> Any:
        return np.add(a, b) if self.raw else a + b

    def run(self) -> None:
        """Process nodes from the latest to the earliest."""
        needed = None
        if self.inputs is not None:
            needed = reachable(self.inputs, [n for _, n in self.heap])
        heap, grads, pop, add = self.heap, self.grads, heapq.heappop, self.add
        raw, retain, wanted = self.raw, self.retain, self.wanted
        while heap:
            node = pop(heap)[1]
            g = grads.pop(node)
            if needed is not None and node not in needed:
                continue
            if node.meta is not None:
                g = self._before(node, g)
            if wanted is not None and node in wanted:
                self._capture(node, g)
                if not self._continues(node, needed):
                    continue
            if type(node) is AccumulateGrad:
                if wanted is None:
                    self._accumulate(node, g)
                continue
            if type(g) is list:
                g = tuple(g)
            out = node.vjp_raw(g) if raw else node.vjp(g)
            if state.anomaly is not None:
                anomaly.check_backward(node, g, out)
            if node.meta is not None and node.meta.post:
                out = self._after(node, g, out)
            if not retain:
                node.release()
            nrs = node.nrs
            for i, child in enumerate(node.edges):
                if child is not None:
                    gi = out[i]
                    if gi is not None and (needed is None or child in needed):
                        add(child, 0 if nrs is None else nrs[i], gi)
            del out, g

    def _continues(self, node: Node, needed: set[Node] | None) -> bool:
        """Whether another wanted input lies below this one."""
        return any(c is not None and c in (needed or ()) for c in node.edges)

    def _tensor(self, g: Any) -> Tensor:
        return g if isinstance(g, Tensor) else Tensor(np.asarray(g))

    def _before(self, node: Node, g: Any) -> Any:
        """Tensor hooks in registration order, then retained gradients, then node pre-hooks."""
        meta = node.meta
        assert meta is not None
        slots = g if type(g) is list else [g]
        for nr, hook in list(meta.hooks.values()):
            if slots[nr] is not None:
                given = self._tensor(slots[nr])
                new = hook(given)
                if new is not None:
                    slots[nr] = self._value(_checked_hook(node, given, new))
        for nr, ref in list(meta.retain.items()):
            tensor = ref()
            if tensor is not None and slots[nr] is not None:
                retain_into(tensor, self._tensor(slots[nr]))
        for hook in list(meta.pre.values()):
            new = hook(tuple(None if s is None else self._tensor(s) for s in slots))
            if new is not None:
                new = new if isinstance(new, tuple) else (new,)
                slots = [None if t is None else self._value(t) for t in new]
        return slots if type(g) is list else slots[0]

    def _after(self, node: Node, g: Any, out: tuple) -> tuple:
        assert node.meta is not None
        given = g if type(g) is tuple else (g,)
        given = tuple(None if s is None else self._tensor(s) for s in given)
        for hook in list(node.meta.post.values()):
            new = hook(tuple(None if s is None else self._tensor(s) for s in out), given)
            if new is not None:
                new = new if isinstance(new, tuple) else (new,)
                out = tuple(None if t is None else self._value(t) for t in new)
        return out

    def _value(self, t: Tensor) -> Any:
        return t._data if self.raw else t

    def _capture(self, node: Node, g: Any) -> None:
        assert self.wanted is not None
        for nr in self.wanted[node]:
            value = g[nr] if type(g) is list else g
            self.captured[node, nr] = value
            if self.accumulate and value is not None and type(node) is AccumulateGrad:
                self._accumulate(node, value)

    def _accumulate(self, node: AccumulateGrad, g: Any) -> None:
        if isinstance(g, Tensor):
            new = g
            if not (state.off > node.where) and (g._node is not None or g._meta is not None):
                new = Tensor(g._data)
            node.grad = new if node.grad is None else node.grad + new
        else:
            g = np.asarray(g)
            if node.grad is None:
                # 3 references: the caller's local, ours, getrefcount's: nobody else sees this array
                fresh = g.base is None and sys.getrefcount(g) <= 4
                node.grad = Tensor(g if fresh else g.copy())
            else:
                total = node.grad
                if type(total._data) is ndarray and total._node is None:
                    np.add(total._data, g, out=total._data)
                    total._ver[0] += 1
                else:
                    node.grad = total + Tensor(g)
        if node.post_acc:
            tensor = node.variable
            if tensor is not None:
                for hook in list(node.post_acc.values()):
                    hook(tensor)

    def results(self, inputs: Sequence[Edge] | None) -> list[Tensor | None]:
        """Captured cotangents in the order of ``inputs``."""
        if inputs is None:
            return []
        found = [self.captured.get((node, nr)) for node, nr in inputs]
        return [None if g is None else self._tensor(g) for g in found]


def retain_into(tensor: Tensor, g: Tensor) -> None:
    """Add a gradient to a non-leaf's retained ``.grad``."""

    if tensor._meta is None:
        tensor._meta = Meta()
    old = tensor._meta.grad
    tensor._meta.grad = g if old is None else old + g


def _checked_hook(node: Node, given: Tensor, new: Any) -> Tensor:
    if not isinstance(new, Tensor):
        raise AutogradError(
            f"{node.name()}: a tensor hook returned {type(new).__name__}; expected a tensor or None"
        )
    if new.shape != given.shape:
        raise AutogradError(
            f"{node.name()}: a tensor hook returned shape {new.shape}; expected {given.shape}, the "
            "shape of the gradient it was given"
        )
    return new
