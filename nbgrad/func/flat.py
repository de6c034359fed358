"""The transforms on flat sequences of tensors: what the public functions and the tape's transforms are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.api import finish
from ..autograd.batched import BatchInterpreter, unwrap, wrap
from ..autograd.dual import DUAL, Dual
from ..autograd.engine import run_backward
from ..autograd.graph import AccumulateGrad, Node
from ..errors import DTypeError, message
from ..op import as_tensor
from ..op.interpreter import inside, new_level, own
from ..ops.view import alias
from ..state import ON, state
from ..tensor import Tensor, Value, level_of


def releaf(t: Tensor, op: str = "func") -> Tensor:
    """A fresh differentiable version of an input at the innermost live level.

    If the input already has history at that level, the new tensor is an alias node in that graph, so that
    outer derivatives flow through; else it is a leaf of its own. It shares the version cell, so that a later
    write to the input is noticed.

    Raises
    ------
    DTypeError : an integer or bool input.
    """
    check_inexact(t, op)
    t.refresh_()
    version = t._ver
    if state.levels:
        level = state.levels[-1]
        if level_of(t._data) is not level:
            data = level.interpreter.lift(level, t)
            t = Tensor(data) if isinstance(data, Value) else data
    if t._node is not None:
        return alias(t)
    leaf = Tensor(t._data, None, 0, version)
    leaf._node = AccumulateGrad(leaf)
    return leaf


def check_inexact(t: Tensor, op: str) -> None:
    """Raise if a differentiated argument is not floating or complex."""
    if t.dtype.kind not in "fc":
        raise DTypeError(
            message(
                op,
                "a differentiated argument's dtype",
                t.dtype.name,
                "a floating or complex dtype",
                "Convert it with .to(ng.float64), or leave it out of argnums.",
            )
        )


def reaches_others(roots: Sequence[Node], stop: set[Node]) -> bool:
    """Whether a graph reaches a leaf outside ``stop``: then an outer derivative may need it."""
    own_leaves = {n for n in stop if isinstance(n, AccumulateGrad)}
    lowest = min((n.seq for n in stop), default=0)
    seen = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad):
            if node not in own_leaves:
                return True
            continue
        if node in stop or node.seq < lowest:
            return True
        for child in node.edges:
            if child is not None and child not in seen:
                seen.add(child)
                stack.append(child)
    return False


def has_history(t: Tensor) -> bool:
    """Whether a tensor, or a lower tensor inside its value, is part of a graph."""
    if t._node is not None:
        return True
    parts = getattr(t._data, "parts", None)
    return parts is not None and any(has_history(p) for p in parts())


def flat_vjp(
    fn: Callable, primals: Sequence[Tensor], op: str = "vjp"
) -> tuple[list[Tensor], Callable]:
    """Outputs and a pullback ``cotangents -> input cotangents`` (reusable)."""
    outer = state.off
    level = state.levels[-1].index if state.levels else 0
    previous = state.set_off(ON)
    try:
        leaves = [releaf(x, op) for x in primals]
        with inside(f"func.{op}"):
            outs = [as_tensor(o, op) for o in fn(*leaves)]
        for o in outs:
            o.refresh_()
    finally:
        state.set_off(previous)
    edges: list[Any] = [(x._node, x._nr) for x in leaves]
    stop = {node for node, _ in edges if node is not None}
    others = [o._node is not None and reaches_others([o._node], stop) for o in outs]

    def pull(cotangents: Sequence[Any]) -> list[Tensor]:
        roots = [
            (o._node, o._nr, as_tensor(c).to(o.dtype))
            for o, c in zip(outs, cotangents, strict=True)
            if o._node is not None and c is not None
        ]
        if not roots:
            return [x.zeros_like_() for x in leaves]
        deeper = outer > level and (any(others) or any(has_history(c) for _, _, c in roots))
        got = run_backward(roots, retain=True, create_graph=deeper, inputs=edges, accumulate=False)
        return list(finish(leaves, got, True, True))

    kept = [strip(o) if outer <= level or not more else o for o, more in zip(outs, others)]
    return kept, pull


def strip(o: Tensor) -> Tensor:
    """The same value without edge (an outer transform's tangents and histories below stay)."""
    return o if o._node is None else Tensor(o._data, None, 0, o._ver)


def flat_jvp(fn: Callable, primals: Sequence[Tensor], tangents: Sequence[Any]) -> tuple[list, list]:
    """Outputs and output tangents; a None tangent is zero."""
    with new_level("func.jvp", DUAL) as level:
        args = []
        for x, t in zip(primals, tangents, strict=True):
            x.refresh_()
            if t is not None:
                check_inexact(x, "jvp")
                t = as_tensor(t).to(x.dtype)
            args.append(Tensor(Dual(level, x, t)))
        outs, dots = [], []
        for o in fn(*args):
            o = as_tensor(o, "jvp")
            o.refresh_()
            if own(level, o):
                outs.append(o._data.primal)
                dots.append(o._data.tangent)
            else:
                outs.append(o)
                dots.append(None)
            if dots[-1] is None:
                dots[-1] = outs[-1].zeros_like_()
    return outs, dots


def flat_vmap(
    fn: Callable,
    args: Sequence[Any],
    dims: Sequence[int | None],
    size: int,
    out_dims: Any = 0,
    randomness: str = "error",
) -> list[Tensor]:
    """Outputs with the batch in front, at ``out_dims``, or nowhere (None: the same for all members)."""
    with new_level("func.vmap", BatchInterpreter(size, randomness)) as level:
        wrapped = []
        for x, d in zip(args, dims, strict=True):
            if isinstance(x, Tensor):
                x.refresh_()
            wrapped.append(x if d is None else wrap(level, x, d))
        outs = list(fn(*wrapped))
        places = out_dims if isinstance(out_dims, list | tuple) else [out_dims] * len(outs)
        res = []
        for o, d in zip(outs, places, strict=True):
            o = as_tensor(o, "vmap")
            o.refresh_()
            res.append(unwrap(level, o, size, d))
    return res
