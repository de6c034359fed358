"""Jacobians of functions of tensors as real matrices: by autograd and by finite differences.

A complex number counts as two real ones, so that a complex function needs no special case: a Jacobian has the rows
``Re y_0, Im y_0, Re y_1 ...`` and the columns ``Re x_0, Im x_0, Re x_1 ...``. In PyTorch's convention the gradient of
``Re(conj(v) y)`` is ``df/dRe(x) + i df/dIm(x)``; its real and imaginary parts are the two columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, message
from ..op import as_tensor
from ..op.base import Operator
from ..op.interpreter import Listener
from ..tensor import Tensor, Value
from ..utils import pytree
from .api import grad
from .graph import Node


class Problem:
    """A function, its inputs, and which of them are differentiated."""

    def __init__(self, op: str, func: Callable, inputs: Any):
        self.op, self.func = op, func
        self.inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        leaves = [t for t in pytree.flatten(self.inputs)[0] if isinstance(t, Tensor)]
        self.tensors = leaves
        self.wanted = [t for t in leaves if t.requires_grad and t.dtype.kind in "fc"]
        if not self.wanted:
            raise ArgumentError(
                f"{op}: no input requires grad; pass at least one floating or complex tensor with "
                "requires_grad=True."
            )
        for i, t in enumerate(leaves):
            check_array(op, i, t)

    def run(self) -> list[Tensor]:
        """All outputs of the function that are tensors with a floating or complex dtype."""
        got = pytree.flatten(self.func(*self.inputs))[0]
        outs = [as_tensor(o, self.op) for o in got]
        found = [o for o in outs if o.dtype.kind in "fc"]
        if not found:
            raise ArgumentError(
                message(self.op, "the function's result", got, "a floating or complex tensor")
            )
        return found

    def replaced(self, values: Sequence[Tensor]) -> tuple:
        """The inputs with the differentiated ones exchanged."""
        new = iter(values)
        ids = {id(t) for t in self.wanted}
        leaves, tree = pytree.flatten(self.inputs)
        return tuple(pytree.unflatten(tree, [next(new) if id(x) in ids else x for x in leaves]))

    def flat(self, *xs: Tensor) -> list[Tensor]:
        """The floating outputs as a function of the differentiated inputs alone."""
        got = [as_tensor(o) for o in pytree.flatten(self.func(*self.replaced(xs)))[0]]
        return [o for o in got if o.dtype.kind in "fc"]


def check_array(op: str, i: int, t: Tensor) -> None:
    """Perturbing an input needs memory of its own, one place per element."""
    if isinstance(t._data, Value) or type(t._data) is not np.ndarray:
        raise ArgumentError(
            f"{op}: input {i} is not a plain CPU tensor; check derivatives outside transforms, on the CPU."
        )
    from ..layout import self_overlaps
    from ..op.view import array_layout

    if t.requires_grad and t._data.size > 1 and self_overlaps(array_layout(t._data)):
        raise ArgumentError(
            f"{op}: several elements of input {i} share memory (an expanded or overlapping view); "
            "pass x.clone()."
        )
    if t.requires_grad and not t._data.flags.writeable:
        raise ArgumentError(f"{op}: the memory of input {i} is read-only; pass x.clone().")


def as_real(a: Any) -> np.ndarray:
    """A flat float64 vector; complex entries become (real, imaginary) pairs."""
    a = np.asarray(a)
    if a.dtype.kind == "c":
        flat = np.ascontiguousarray(a.reshape(-1).astype(np.complex128))
        return flat.view(np.float64)
    return a.reshape(-1).astype(np.float64)


def width(t: Tensor) -> int:
    """Number of real coordinates of a tensor."""
    return t.numel() * (2 if t.dtype.kind == "c" else 1)


def values(outs: Sequence[Tensor]) -> list[np.ndarray]:
    """Real coordinates of the outputs."""
    return [as_real(o.detach().numpy()) for o in outs]


def basis(t: Tensor, k: int) -> np.ndarray:
    """Unit vector of real coordinate k in the shape of a tensor."""
    out = np.zeros(t.shape, t.dtype)
    per = 2 if t.dtype.kind == "c" else 1
    out.reshape(-1)[k // per] = 1j if per == 2 and k % 2 else 1
    return out


def pull(outs: Sequence[Tensor], wanted: Sequence[Tensor], cots: Sequence[Any]) -> list[Any]:
    """Gradients for the given cotangents (None: left out); None where there is no path."""
    live = [
        (o, Tensor(np.asarray(c)))
        for o, c in zip(outs, cots, strict=True)
        if c is not None and o._node is not None
    ]
    if not live:
        return [None] * len(wanted)
    got = grad(
        [o for o, _ in live],
        wanted,
        grad_outputs=[c for _, c in live],
        retain_graph=True,
        allow_unused=True,
    )
    return [None if g is None else g.detach().numpy() for g in got]


def reverse(problem: Problem) -> list[list[np.ndarray]]:
    """``J[i][j]``: input i, output j, by one vjp per real output coordinate."""
    outs = problem.run()
    found = [[np.zeros((width(o), width(x))) for o in outs] for x in problem.wanted]
    for j, o in enumerate(outs):
        for k in range(width(o)):
            cots = [basis(o, k) if n == j else None for n in range(len(outs))]
            for i, g in enumerate(pull(outs, problem.wanted, cots)):
                if g is not None:
                    found[i][j][k] = as_coordinates(g, problem.wanted[i])
    return found


def as_coordinates(g: Any, x: Tensor) -> np.ndarray:
    """A gradient in the coordinates of its input (a real gradient of a complex input has zero imaginary part)."""
    if np.shape(g) != tuple(x.shape):
        raise ArgumentError(
            message(
                "gradcheck", "a gradient's shape", np.shape(g), f"{tuple(x.shape)}, its input's"
            )
        )
    if x.dtype.kind != "c" and np.asarray(g).dtype.kind == "c":
        raise DTypeError(
            message("gradcheck", "the gradient of a real input", "complex", "a real tensor")
        )
    return as_real(np.asarray(g, x.dtype))


def push_tensors(problem: Problem, tangents: Sequence[Any]) -> list[Tensor]:
    """Output tangents for one tangent per differentiated input (None: zero)."""
    from ..func.api import flat_jvp

    return flat_jvp(problem.flat, [Tensor(x._data) for x in problem.wanted], tangents)[1]


def push(problem: Problem, tangents: Sequence[Any]) -> list[np.ndarray]:
    """`push_tensors` on arrays."""
    dots = push_tensors(problem, [None if t is None else Tensor(np.asarray(t)) for t in tangents])
    return [d.detach().numpy() for d in dots]


def forward(problem: Problem) -> list[list[np.ndarray]]:
    """``J[i][j]`` by one jvp per real input coordinate."""
    outs = problem.run()
    found = [[np.zeros((width(o), width(x))) for o in outs] for x in problem.wanted]
    for i, x in enumerate(problem.wanted):
        for k in range(width(x)):
            tangents = [basis(x, k) if n == i else None for n in range(len(problem.wanted))]
            for j, d in enumerate(push(problem, tangents)):
                found[i][j][:, k] = as_real(d)
    return found


@contextmanager
def nudged(x: Tensor, delta: np.ndarray) -> Iterator[None]:
    """``x + delta`` in x's own memory (closures and parameters see it), restored on leaving."""
    saved = x._data.copy()
    try:
        x._data[...] = saved + delta
        yield
    finally:
        x._data[...] = saved


class Differences:
    """One-sided differences along one direction of one input, and what follows from them."""

    def __init__(self, problem: Problem, x: Tensor, delta: np.ndarray, eps: float, base: Any):
        with nudged(x, eps * delta):
            self.plus = values(problem.run())
        with nudged(x, -eps * delta):
            self.minus = values(problem.run())
        self.base, self.eps = base, eps

    def central(self, j: int) -> np.ndarray:
        """Central difference of output j."""
        with np.errstate(all="ignore"):
            return (self.plus[j] - self.minus[j]) / (2 * self.eps)

    def sides(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Left and right difference quotients of output j."""
        with np.errstate(all="ignore"):
            left = (self.base[j] - self.minus[j]) / self.eps
            return left, (self.plus[j] - self.base[j]) / self.eps


class Numerical:
    """Jacobian by central differences; keeps left and right slopes to tell kinks."""

    def __init__(self, problem: Problem, eps: float):
        base = values(problem.run())
        self.jacobian: list[list[np.ndarray]] = []
        self.left: list[list[np.ndarray]] = []
        self.right: list[list[np.ndarray]] = []
        for x in problem.wanted:
            rows = [[np.zeros((b.size, width(x))) for b in base] for _ in range(3)]
            for k in range(width(x)):
                d = Differences(problem, x, basis(x, k), eps, base)
                for j in range(len(base)):
                    rows[0][j][:, k] = d.central(j)
                    rows[1][j][:, k], rows[2][j][:, k] = d.sides(j)
            self.jacobian.append(rows[0])
            self.left.append(rows[1])
            self.right.append(rows[2])


class ZeroWins(Listener):
    """Watches a derivative sweep for places where an exact zero met a non-finite partial (``0 * inf``).

    There the product is 0 by nbgrad's convention, not by arithmetic. Works as a recorder, so that every ``zmul``,
    ``keep`` and ``drop`` of the sweep passes by; ``current`` is the backward node being processed.
    """

    GUARDS = ("zmul", "keep", "drop")

    def __init__(self) -> None:
        self.hits: list[str] = []
        self.current = ""

    def record(self, op: Operator, args: Sequence[Tensor], params: dict, outs: Any) -> None:
        """Called by dispatch after each operation."""
        if op.name not in self.GUARDS:
            return
        arrays = [a._data for a in args]
        if any(type(a) is not np.ndarray for a in arrays):
            return
        first, second = np.broadcast_arrays(*arrays)
        if op.name == "zmul":
            silenced = ((first == 0) & ~np.isfinite(second)) | ((second == 0) & ~np.isfinite(first))
        else:
            silenced = first.astype(bool) ^ (op.name == "keep")
            silenced = silenced & ~np.isfinite(second)
        if silenced.any():
            name = self.current or "forward mode"
            if name not in self.hits:
                self.hits.append(name)

    def watch(self, roots: Sequence[Node | None]) -> list[Any]:
        """Register on every node below ``roots`` who is at work; returns the handles to remove."""
        handles, seen = [], set()
        stack = [n for n in roots if n is not None]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)

            def note(_: Any, name: str = node.name()) -> None:
                self.current = name

            handles.append(node.register_prehook(note))
            stack.extend(n for n in node.edges if n is not None)
        return handles


@contextmanager
def recording(watcher: ZeroWins) -> Iterator[None]:
    """Let a watcher see every operation on plain tensors."""
    from ..state import state

    previous = state.recorders
    state.recorders = (*previous, watcher)
    state.refresh()
    try:
        yield
    finally:
        state.recorders = previous
        state.refresh()


def zero_wins(
    problem: Problem, rng: np.random.Generator, backward: bool, forward: bool
) -> list[str]:
    """Where zero wins decided a value, for cotangents (tangents) without any zero of their own."""
    watcher = ZeroWins()
    if backward:
        outs = problem.run()
        cots = [dense(o, rng) if o._node is not None else None for o in outs]
        handles = watcher.watch([o._node for o in outs])
        try:
            with recording(watcher):
                pull(outs, problem.wanted, cots)
        finally:
            for h in handles:
                h.remove()
    if forward:
        watcher.current = ""
        with recording(watcher):
            push(problem, [dense(x, rng) for x in problem.wanted])
    return watcher.hits


def dense(t: Tensor, rng: np.random.Generator) -> np.ndarray:
    """Random numbers of size about 1 without a zero, like a tensor."""

    def one() -> np.ndarray:
        return rng.uniform(0.5, 1.0, tuple(t.shape)) * rng.choice([-1.0, 1.0], tuple(t.shape))

    return np.asarray(one() + 1j * one() if t.dtype.kind == "c" else one()).astype(t.dtype)
