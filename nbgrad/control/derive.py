"""Derived sub-tapes: forward mode, adjoints and batches of a body, traced once and remembered with it.

A mask tells, input by input, which are differentiated (or batched); the derived tape has operands for those only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.batched import BatchInterpreter, unwrap, wrap
from ..func.flat import flat_jvp, flat_vjp
from ..op import REGISTRY, Spec, as_tensor
from ..op.interpreter import new_level, own
from ..tape import Tape
from ..tape.simplify import dead_code
from ..tape.taylor import flat_jet
from ..tensor import Tensor
from .body import fresh_input, in_specs, out_specs, remember, traced

Mask = tuple[bool, ...]


def is_float(spec: Any) -> bool:
    """Whether values of this type can carry a derivative."""
    return spec.dtype.kind in "fc"


def reached(tape: Tape, mask: Sequence[bool]) -> Mask:
    """Which outputs may depend on the marked inputs through floating-point operations."""
    live = {v for v, m in zip(tape.inputs, mask, strict=True) if m and is_float(tape.specs[v])}
    for ins in tape.instructions:
        if REGISTRY[ins.op].differentiable and any(v in live for v in ins.inputs):
            live.update(v for v in ins.outputs if is_float(tape.specs[v]))
    return tuple(v in live for v in tape.outputs)


def settle(
    n_lead: int, carry: Sequence[bool], mask: Sequence[bool], step: Callable[[Mask], Sequence[bool]]
) -> tuple[Mask, Mask]:
    """The least carry mask that a loop keeps: the inputs' mask with it, and the body's outputs' mask.

    ``mask`` marks the body's inputs, its carry at ``n_lead``; ``step`` maps it to the outputs', carry first.
    """
    n = len(carry)
    while True:
        full = (*mask[:n_lead], *carry, *mask[n_lead + n :])
        outs = tuple(step(full))
        grown = [a or b for a, b in zip(carry, outs[:n], strict=True)]
        if grown == list(carry):
            return full, (*grown, *outs[n:])
        carry = grown


# -- forward mode -------------------------------------------------------------------------------------


def lifted(
    tape: Tape, groups: Sequence[int], mask: Mask, order: int, outs: Mask, out_groups: Sequence[int]
) -> Tape:
    """The body with Taylor coefficients 1 ... ``order`` beside its values.

    Inputs come in groups (constants, carry, xs): each group's values, then the coefficients of its marked ones. The
    outputs likewise, with coefficients for ``outs``.
    """

    def make() -> Tape:
        specs = lift(groups, in_specs(tape), [[s] * order for s in in_specs(tape)], mask)
        n = len(tape.inputs)

        def fn(*args: Tensor) -> list[Tensor]:
            values, rows = lower(groups, args, mask, order)
            given = [rows.get(i, []) for i in range(n)]
            if order == 1:
                got, dots = flat_jvp(tape.call, values, [r[0] if r else None for r in given])
                found = [[d] for d in dots]
            else:
                got, found = flat_jet(tape.call, values, given)
            return lift(out_groups, got, found, outs)

        return traced(fn, specs, "the tangent of a body")

    return remember(tape, ("lifted", tuple(groups), mask, order, outs), make)


def lift(groups: Sequence[int], values: Sequence[Any], rows: Sequence[Any], mask: Mask) -> list:
    """Values and coefficients in the order of a lifted tape."""
    out, at = [], 0
    for n in groups:
        out += values[at : at + n]
        for i in range(at, at + n):
            out += rows[i] if mask[i] else []
        at += n
    return out


def lower(
    groups: Sequence[int], args: Sequence[Any], mask: Mask, order: int
) -> tuple[list[Any], dict[int, list[Any]]]:
    """The inverse of `lift`: values, and the rows of the marked ones by position."""
    found, values, rows, at = iter(args), [], {}, 0
    for n in groups:
        values += [next(found) for _ in range(n)]
        for i in range(at, at + n):
            if mask[i]:
                rows[i] = [next(found) for _ in range(order)]
        at += n
    return values, rows


def lifted_sizes(groups: Sequence[int], mask: Mask, order: int) -> list[int]:
    """How long the groups of a lifted tape are."""
    sizes, at = [], 0
    for n in groups:
        sizes.append(n + order * sum(mask[at : at + n]))
        at += n
    return sizes


# -- reverse mode -------------------------------------------------------------------------------------


def adjoint(tape: Tape, needs: Mask, given: Mask) -> Tape:
    """``(inputs, cotangents of the given outputs) -> cotangents of the needed inputs``."""

    def make() -> Tape:
        n = len(tape.inputs)
        wanted = [i for i in range(n) if needs[i]]
        outs = out_specs(tape)

        def fn(*args: Tensor) -> list[Tensor]:
            found = iter(args[n:])
            return pull(tape, args[:n], wanted, [next(found) if g else None for g in given])

        specs = [*in_specs(tape), *(s for s, g in zip(outs, given, strict=True) if g)]
        return traced(fn, specs, "the adjoint of a branch")

    return remember(tape, ("adjoint", needs, given), make)


def pull(
    tape: Tape, inputs: Sequence[Tensor], wanted: Sequence[int], cotangents: Sequence[Any]
) -> list[Tensor]:
    """Cotangents of the wanted inputs of a tape."""

    def fn(*leaves: Tensor) -> list[Tensor]:
        full = list(inputs)
        for i, leaf in zip(wanted, leaves, strict=True):
            full[i] = leaf
        return tape.call(*full)

    return flat_vjp(fn, [inputs[i] for i in wanted])[1](cotangents)


# -- batches ------------------------------------------------------------------------------------------


def batched(
    tape: Tape, mask: Mask, size: int, randomness: str, force: Mask | None = None
) -> tuple[Tape, Mask]:
    """The body over a batch in front of the marked inputs, and which outputs carry the batch.

    ``force`` marks outputs that must carry it, whether they depend on it or not.
    """

    def make() -> tuple[Tape, Mask]:
        specs = [
            Spec((size, *s.shape), s.dtype) if m else s
            for s, m in zip(in_specs(tape), mask, strict=True)
        ]
        places: list[bool] = []

        def fn(*args: Tensor) -> list[Tensor]:
            with new_level("func.vmap", BatchInterpreter(size, randomness)) as level:
                wrapped = [wrap(level, x, 0) if m else x for x, m in zip(args, mask, strict=True)]
                outs = []
                for k, o in enumerate(tape.call(*wrapped)):
                    o = as_tensor(o, "vmap")
                    natural = own(level, o) and o._data.dim is not None
                    places.append(natural or bool(force and force[k]))
                    outs.append(unwrap(level, o, size, 0 if places[-1] else None))
                return outs

        return traced(fn, specs, "a batched body"), tuple(places)

    return remember(tape, ("batched", mask, size, randomness, force), make)


# -- rearranging --------------------------------------------------------------------------------------


def select_outputs(tape: Tape, keep: Sequence[int]) -> Tape:
    """The tape with some of its outputs only."""

    def make() -> Tape:
        return dead_code(_copy(tape, tape.inputs, [tape.outputs[k] for k in keep]))

    return remember(tape, ("outputs", tuple(keep)), make)


def select_inputs(tape: Tape, keep: Sequence[int]) -> Tape:
    """The tape without inputs that it does not use."""
    return _copy(tape, [tape.inputs[k] for k in keep], tape.outputs)


def used_inputs(tape: Tape) -> Mask:
    """Which inputs the tape's results depend on."""
    seen = {v for ins in tape.instructions for v in ins.inputs} | set(tape.outputs)
    return tuple(v in seen for v in tape.inputs)


def widened(tape: Tape, extra: Sequence[Spec]) -> Tape:
    """The tape with further inputs at the end, which it ignores."""

    def make() -> Tape:
        new = _copy(tape, tape.inputs, tape.outputs)
        new.inputs += [fresh_input(new, s) for s in extra]
        return new

    return remember(tape, ("widened", tuple(extra)), make)


def _copy(tape: Tape, inputs: Sequence[int], outputs: Sequence[int]) -> Tape:
    new = Tape()
    new.inputs, new.outputs = list(inputs), list(outputs)
    new.instructions = list(tape.instructions)
    new.specs, new.captured = dict(tape.specs), dict(tape.captured)
    return new
