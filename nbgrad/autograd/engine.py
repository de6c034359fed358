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

from ..device import on_device
from ..errors import AutogradError
from ..memory.host import BlockOwner
from ..state import ON, state
from ..tensor import Meta, Tensor, Value, level_of
from . import anomaly
from .graph import AccumulateGrad, Node
from .rawloop import run_raw

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
        and all(not isinstance(g._data, Value) and g._node is None for _, _, g in roots)
        and level == 0
    )
    sweep = _Sweep(raw, retain, inputs, accumulate)
    outer, state.sweep = state.sweep, sweep
    previous = state.set_off(ON if create_graph else min(state.off, level))
    try:
        for node, nr, g in roots:
            sweep.seeds.add(id(g._data))
            sweep.add(node, nr, g._data if raw else g)
        with np.errstate(all="ignore"):
            sweep.run()
    finally:
        state.set_off(previous)
        state.sweep = outer
        for end in sweep.at_end:
            end()
    found = sweep.results(inputs)
    return found if create_graph else [_cut(g, level) for g in found]


def _cut(g: Tensor | None, level: int) -> Tensor | None:
    """A result without the history it got from a cotangent of the swept level (or above)."""
    if g is None or g._node is None:
        return g
    own = level_of(g._data)
    return Tensor(g._data, None, 0, g._ver) if level <= (0 if own is None else own.index) else g


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

    probe: list[int] | None = None

    def __init__(self, raw: bool, retain: bool, inputs: Sequence[Edge] | None, accumulate: bool):
        self.raw, self.retain, self.accumulate = raw, retain, accumulate
        self.grads: dict[Node, Any] = {}
        self.owned: set[Node] = set()
        self.heap: list[tuple[int, Node]] = []
        self.captured: dict[Edge, Any] = {}
        self.wanted: dict[Node, list[int]] | None = None
        self.inputs = inputs
        self.at_end: list[Any] = []
        self.roots: list[Node] = []
        self.seeds: set[int] = set()
        self.needed: set[Node] | None = None
        if inputs is not None:
            self.wanted = {}
            for node, nr in dict.fromkeys(inputs):
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
        if not self.raw:
            return a + b
        if on_device(a) or on_device(b):
            return (Tensor(a) + Tensor(b))._data
        return np.add(a, b)

    def run(self) -> None:
        """Process nodes from the latest to the earliest."""
        needed = None
        self.roots = [n for _, n in self.heap]
        if self.inputs is not None:
            needed = self.needed = reachable(self.inputs, self.roots)
        if self.raw:
            run_raw(self, needed)
            return
        heap, grads, pop, add = self.heap, self.grads, heapq.heappop, self.add
        retain, wanted = self.retain, self.wanted
        while heap:
            node = pop(heap)[1]
            g = grads.pop(node)
            if needed is not None and node not in needed:
                continue
            if node.meta is not None:
                g = self.before(node, g)
            if wanted is not None and node in wanted:
                self.capture(node, g)
                if not self.continues(node, needed):
                    continue
            if node.meta is not None and node.meta.pre:
                g = self.pre_hooks(node, g)
            if type(node) is AccumulateGrad:
                if wanted is None:
                    self.accumulate_leaf(node, g)
                continue
            if type(g) is list:
                g = tuple(g)
            out = node.vjp(g) if state.anomaly is None else anomaly.watched_vjp(node, g)
            if node.meta is not None:
                out = self.after(node, g, out)
            if not retain:
                node.release()
            nrs = node.nrs
            for i, child in enumerate(node.edges):
                if child is not None:
                    gi = out[i]
                    if gi is not None and (needed is None or child in needed):
                        add(child, 0 if nrs is None else nrs[i], gi)
            del out, g

    def reached(self) -> set[Node]:
        """The nodes this pass visits (for hooks that wait for several of them)."""
        if self.needed is not None:
            return self.needed
        seen = set(self.roots)
        stack = list(seen)
        while stack:
            for child in stack.pop().edges:
                if child is not None and child not in seen:
                    seen.add(child)
                    stack.append(child)
        return seen

    def continues(self, node: Node, needed: set[Node] | None) -> bool:
        """Whether another wanted input lies below this one."""
        return any(c is not None and c in (needed or ()) for c in node.edges)

    def _tensor(self, g: Any) -> Tensor:
        return g if isinstance(g, Tensor) else Tensor(g if on_device(g) else np.asarray(g))

    def before(self, node: Node, g: Any) -> Any:
        """Tensor hooks in registration order, then retained gradients."""
        meta = node.meta
        if meta is None:
            return g
        slots = g if type(g) is list else [g]
        for nr, hook in list(meta.hooks.values()):
            if slots[nr] is not None:
                given = self._tensor(slots[nr])
                new = hook(given)
                if new is not None:
                    slots[nr] = self._value(_checked_hook(node, given, new))
        for nr, ref in list(meta.retain.items()):
            tensor = ref()
            # after an in-place operation the tensor has moved on to another node
            if tensor is not None and tensor._node is node and slots[nr] is not None:
                retain_into(tensor, self._tensor(slots[nr]))
        return slots if type(g) is list else slots[0]

    def pre_hooks(self, node: Node, g: Any) -> Any:
        """Node pre-hooks: they see (and may replace) all gradients of the node's outputs."""
        slots = g if type(g) is list else [g]
        assert node.meta is not None
        for hook in list(node.meta.pre.values()):
            given = tuple(None if s is None else self._tensor(s) for s in slots)
            new = hook(given)
            if new is not None:
                slots = [self._value(t) for t in _hook_results(node, given, new, "pre-hook")]
        return slots if type(g) is list else slots[0]

    def after(self, node: Node, g: Any, out: tuple) -> tuple:
        """Node post-hooks."""
        assert node.meta is not None
        if not node.meta.post:
            return out
        given = g if type(g) is tuple else (g,)
        given = tuple(None if s is None else self._tensor(s) for s in given)
        for hook in list(node.meta.post.values()):
            before = tuple(None if s is None else self._tensor(s) for s in out)
            new = hook(before, given)
            if new is not None:
                out = tuple(self._value(t) for t in _hook_results(node, before, new, "hook"))
        return out

    def _value(self, t: Tensor | None) -> Any:
        return None if t is None else t._data if self.raw else t

    def capture(self, node: Node, g: Any) -> None:
        assert self.wanted is not None
        for nr in self.wanted[node]:
            value = _home(node, g[nr] if type(g) is list else g)
            self.captured[node, nr] = value
            if self.accumulate and value is not None and type(node) is AccumulateGrad:
                self.accumulate_leaf(node, value)

    def accumulate_leaf(self, node: AccumulateGrad, g: Any) -> None:
        """Add a gradient to a leaf's ``.grad`` (one thread at a time), then run the leaf's hooks."""
        g = _home(node, g)
        with node.lock:
            if isinstance(g, Tensor):
                self._accumulate_tensor(node, g)
            elif on_device(g):
                self._accumulate_tensor(node, Tensor(g))
            else:
                self._accumulate_raw(node, g)
        if node.post_acc:
            tensor = node.variable
            if tensor is not None:
                for hook in list(node.post_acc.values()):
                    hook(tensor)
        if node.meta is not None and node.meta.post:
            for hook in list(node.meta.post.values()):
                hook((), (self._tensor(g),))

    def _accumulate_tensor(self, node: AccumulateGrad, g: Tensor) -> None:
        """Tensor mode, by operators, so that a tape records it.

        The first gradient is copied, because other leaves may share its memory.
        """
        node.grad = g.clone() if node.grad is None else node.grad + g

    def _accumulate_raw(self, node: AccumulateGrad, g: Any) -> None:
        g = np.asarray(g)
        total = node.grad
        if total is None:
            count = sys.getrefcount(g)
            if self.probe is not None:
                self.probe.append(count)
            node.grad = Tensor(g if count <= _fresh_count and owns_memory(g) else g.copy())
        elif type(total._data) is ndarray and total._node is None and owns_memory(total._data):
            np.add(total._data, g, out=total._data)
            total._ver[0] += 1
        else:
            node.grad = total + Tensor(g)

    def results(self, inputs: Sequence[Edge] | None) -> list[Tensor | None]:
        """Captured cotangents in the order of ``inputs``."""
        if inputs is None:
            return []
        found = [self.captured.get((node, nr)) for node, nr in inputs]
        if not self.raw:
            return [None if g is None else self._tensor(g) for g in found]
        seen = set(self.seeds)
        out: list[Tensor | None] = []
        for g in found:
            if g is not None:
                # a user may write into a result: it must own its memory
                if on_device(g):
                    g = g.copy()
                elif type(g) is not ndarray or id(g) in seen or not owns_memory(g):
                    g = np.array(g)
                seen.add(id(g))
            out.append(None if g is None else Tensor(g))
        return out


def _home(node: Node, g: Any) -> Any:
    """A 0-d leaf on the CPU that was used beside device tensors gets its gradient on the CPU."""
    data = g._data if isinstance(g, Tensor) else g
    if on_device(data) and type(node) is AccumulateGrad:
        leaf = node.variable
        if leaf is not None and type(leaf._data) is ndarray:
            return g.to("cpu") if isinstance(g, Tensor) else g.to_numpy()
    return g


def owns_memory(a: np.ndarray) -> bool:
    """Whether an array is no view of another one (a block of the pool counts as its own)."""
    base = a.base
    return (base is None or type(base) is BlockOwner) and a.flags.writeable


class _Fresh(Node):
    """A node whose gradient nobody else holds; measures what `sys.getrefcount` says of one."""

    __slots__ = ()

    def __init__(self, leaf: AccumulateGrad):
        self.edges, self.nrs, self.saved, self.meta = (leaf,), None, None, None
        self.seq = 1 << 62

    def vjp_raw(self, g: Any) -> tuple:
        return (np.zeros(1),)


def _measure_fresh() -> int:
    """The reference count an unshared gradient has in ``_accumulate_raw`` (it differs between Pythons)."""
    sweep = _Sweep(True, True, None, True)
    sweep.probe = []
    sweep.add(_Fresh(AccumulateGrad(Tensor(np.zeros(1)))), 0, np.zeros(1))
    sweep.run()
    return sweep.probe[0]


_fresh_count = 0
_fresh_count = _measure_fresh()


def retain_into(tensor: Tensor, g: Tensor) -> None:
    """Add a gradient to a non-leaf's retained ``.grad``."""

    if tensor._meta is None:
        tensor._meta = Meta()
    old = tensor._meta.grad
    if old is None and type(g._data) is ndarray and g._node is None:
        g = Tensor(g._data.copy())
    tensor._meta.grad = g if old is None else old + g


def _hook_results(node: Node, given: tuple, new: Any, kind: str) -> tuple:
    """What a node hook returned, checked against what it was given."""
    new = new if isinstance(new, tuple) else (new,)
    if len(new) != len(given):
        raise AutogradError(
            f"{node.name()}: a {kind} returned {len(new)} gradients; expected {len(given)}"
        )
    return tuple(
        None if t is None else t if g is None else _checked_hook(node, g, t)
        for g, t in zip(given, new, strict=True)
    )


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
