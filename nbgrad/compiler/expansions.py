"""Composite operators written in simpler ones, so that the compiler can fuse them.

Each expansion is ordinary nbgrad code, traced once per call and put in place of the instruction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..op import REGISTRY, Spec
from ..tape.program import Instruction, Tape
from ..tape.record import trace_flat
from ..tape.simplify import rebuild


def _finite_top(x: Any, axes: tuple) -> Any:
    """The maximum over axes where it is finite, else 0: what exponentials are shifted by."""
    top = REGISTRY["amax"](x, axes=axes, keepdim=True)
    return REGISTRY["where"](REGISTRY["isfinite"](top), top, top.zeros_like_())


def _shift(x: Any, axes: tuple) -> Any:
    """The maximum over axes, 0 where it is -inf: exponentials of what is left never overflow, +inf gives NaN."""
    top = REGISTRY["amax"](x, axes=axes, keepdim=True)
    return REGISTRY["where"](top == -math.inf, top.zeros_like_(), top)


def _logsumexp(x: Any, *, axes: tuple, keepdim: bool) -> Any:
    top = _finite_top(x, axes)
    total = REGISTRY["sum"]((x - top).exp(), axes=axes, keepdim=True)
    out = total.log() + top
    if keepdim:
        return out
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    return REGISTRY["reshape"](out, shape=kept)


def _softmax(x: Any, *, axis: int) -> Any:
    axes = (axis,) if x.ndim else ()
    e = (x - _shift(x, axes)).exp()
    return e / REGISTRY["sum"](e, axes=axes, keepdim=True)


def _log_softmax(x: Any, *, axis: int) -> Any:
    axes = (axis,) if x.ndim else ()
    y = x - _shift(x, axes)
    return y - REGISTRY["sum"](y.exp(), axes=axes, keepdim=True).log()


def _variance(x: Any, *, axes: tuple, keepdim: bool, correction: float) -> Any:
    n = 1
    for a in axes:
        n *= x.shape[a]
    d = x - REGISTRY["sum"](x, axes=axes, keepdim=True) / n
    total = REGISTRY["sum"](d * d, axes=axes, keepdim=keepdim)
    return total / max(n - correction, 0) if n > correction else total * float("nan")


def _real_only(fn: Callable) -> Callable:
    fn.applies = lambda specs, params: specs[0].dtype.kind == "f" and 0 not in specs[0].shape
    return fn


EXPANSIONS: dict[str, Callable] = {
    "logsumexp": _real_only(_logsumexp),
    "softmax": _real_only(_softmax),
    "log_softmax": _real_only(_log_softmax),
    "var": _real_only(_variance),
}


def inline(tape: Tape, table: dict[str, Callable]) -> Tape:
    """Replace instructions by their expansions."""
    if not any(ins.op in table for ins in tape.instructions):
        return tape
    kept: list[Instruction] = []
    replace: dict[int, int] = {}
    for ins in tape.instructions:
        fn = table.get(ins.op)
        specs = [Spec(*tape.specs[v]) for v in ins.inputs]
        if fn is None or not fn.applies(specs, ins.params):  # type: ignore[attr-defined]
            kept.append(ins)
            continue
        body = trace_flat(lambda *xs, fn=fn, ins=ins: [fn(*xs, **ins.params)], specs, ins.op)
        names = dict(zip(body.inputs, ins.inputs, strict=True))
        for var, t in body.captured.items():
            names[var] = tape.new_var(body.specs[var])
            tape.captured[names[var]] = t
        for step in body.instructions:
            for v in step.outputs:
                names[v] = tape.new_var(body.specs[v])
            kept.append(
                Instruction(
                    step.op,
                    tuple(names[v] for v in step.inputs),
                    step.params,
                    tuple(names[v] for v in step.outputs),
                )
            )
        replace[ins.outputs[0]] = names[body.outputs[0]]
    return rebuild(tape, kept, replace)
