"""Tape to tape: run the tape under an interpreter and record what happens.

Each transform traces ordinary nbgrad code that replays the tape, so the rules are the ones eager autograd uses, and
transforms compose to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, message
from ..op import Spec
from ..tensor import Tensor
from .program import Tape
from .record import trace_flat


def _in_specs(tape: Tape) -> list[Spec]:
    return [tape.specs[v] for v in tape.inputs]


def _out_specs(tape: Tape) -> list[Spec]:
    return [tape.specs[v] for v in tape.outputs]


def vjp(tape: Tape) -> Tape:
    """``(inputs..., cotangents...) -> (outputs..., input cotangents...)``."""
    n = len(tape.inputs)

    def fn(*args: Tensor) -> list[Any]:
        from ..func.api import flat_vjp

        outs, pull = flat_vjp(tape.call, args[:n])
        return [*outs, *pull(args[n:])]

    return trace_flat(fn, [*_in_specs(tape), *_out_specs(tape)], "tape.vjp")


def grad(tape: Tape, wrt: int | Sequence[int] = 0) -> Tape:
    """``inputs -> gradients`` of the single scalar output."""
    from ..func.trees import select

    shapes = [s.shape for s in _out_specs(tape)]
    if shapes != [()]:
        raise ArgumentError(
            message("Tape.grad", "the outputs' shapes", shapes, "one scalar", "Use vjp().")
        )
    which = select(tuple(tape.inputs), wrt, "Tape.grad")

    def fn(*args: Tensor) -> list[Any]:
        from ..func.api import flat_vjp

        outs, pull = flat_vjp(tape.call, args)
        got = pull([outs[0].ones_like_()])
        return [got[i] for i in which]

    return trace_flat(fn, _in_specs(tape), "tape.grad")


def jvp(tape: Tape) -> Tape:
    """``(inputs..., tangents...) -> (outputs..., output tangents...)``."""
    n = len(tape.inputs)

    def fn(*args: Tensor) -> list[Any]:
        from ..func.api import flat_jvp

        outs, dots = flat_jvp(tape.call, args[:n], args[n:])
        return [*outs, *dots]

    return trace_flat(fn, [*_in_specs(tape), *_in_specs(tape)], "tape.jvp")


def taylor(tape: Tape, order: int) -> Tape:
    """``(inputs..., x_1..., x_k...) -> (outputs..., y_1..., y_k...)``, all Taylor coefficients."""
    if not isinstance(order, int) or order < 0:
        raise ArgumentError(
            message("Tape.taylor", "argument 'order'", repr(order), "an integer >= 0")
        )
    n = len(tape.inputs)

    def fn(*args: Tensor) -> list[Any]:
        from .taylor import flat_jet

        series = [[args[k * n + i] for k in range(1, order + 1)] for i in range(n)]
        outs, coefficients = flat_jet(tape.call, args[:n], series)
        return [*outs, *(c[k] for k in range(order) for c in coefficients)]

    return trace_flat(fn, _in_specs(tape) * (order + 1), "tape.taylor")


def vmap(tape: Tape, size: int, in_dims: Any = 0) -> Tape:
    """The program over a leading batch dimension."""
    specs = _in_specs(tape)
    dims = list(in_dims) if isinstance(in_dims, list | tuple) else [in_dims] * len(specs)
    if len(dims) != len(specs):
        raise ArgumentError(
            message(
                "Tape.vmap", "argument 'in_dims'", in_dims, f"{len(specs)} entries, one an input"
            )
        )
    batched = [
        s if d is None else Spec((*s.shape[:d], size, *s.shape[d:]), s.dtype)
        for s, d in zip(specs, dims, strict=True)
    ]

    def fn(*args: Tensor) -> list[Any]:
        from ..func.api import flat_vmap

        return flat_vmap(tape.call, args, dims, size)

    return trace_flat(fn, batched, "tape.vmap")
