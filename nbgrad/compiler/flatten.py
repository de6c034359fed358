"""Merge axes that always go together: a field of shape (n, m) that is only mapped and summed is an array of n*m elements.

Arguments and results are contiguous, so merging changes shapes and parameters only; no element moves.
"""

from __future__ import annotations

from ..op import REGISTRY, Spec
from ..tape.program import Instruction, Tape
from ..tape.simplify import rebuild
from ..tensor import Tensor
from .axes import Axes
from .prepare import Constants

_SAME = ("to_dtype", "clone", "alias", "detach")
_REDUCTIONS = ("sum", "amax", "amin")


def flatten(tape: Tape, constants: Constants) -> Tape:
    """The tape with neighbouring axes merged where every instruction allows."""
    while True:
        pair = _mergeable(tape)
        if pair is None:
            return tape
        tape = _merge(tape, constants, *pair)


def _mergeable(tape: Tape) -> tuple[Axes, int, int] | None:
    """Two axis classes that are neighbours in every value that has one of them."""
    axes = Axes(tape)
    used = {*tape.inputs, *tape.outputs, *tape.captured}
    used |= {v for i in tape.instructions for v in (*i.inputs, *i.outputs)}
    after: dict[int, int | None] = {}
    before: dict[int, int | None] = {}
    for var in used:
        shape = tape.specs[var].shape
        dims = [c if n != 1 else None for c, n in zip(axes.of(var), shape, strict=True)]
        for d, c in enumerate(dims):
            if c is None:
                continue
            follower = dims[d + 1] if d + 1 < len(dims) else None
            leader = dims[d - 1] if d else None
            if dims.count(c) > 1:
                follower = leader = None
            after[c] = follower if after.setdefault(c, follower) == follower else None
            before[c] = leader if before.setdefault(c, leader) == leader else None
    for first, second in after.items():
        if second is None or before.get(second) != first:
            continue
        if all(_allows(tape, axes, ins, first, second) for ins in tape.instructions):
            return axes, first, second
    return None


def _touches(axes: Axes, tape: Tape, var: int, cls: int) -> bool:
    return any(
        c == cls and n != 1 for c, n in zip(axes.of(var), tape.specs[var].shape, strict=True)
    )


def _allows(tape: Tape, axes: Axes, ins: Instruction, first: int, second: int) -> bool:
    if not any(_touches(axes, tape, v, first) for v in (*ins.inputs, *ins.outputs)):
        return True
    op = REGISTRY[ins.op]
    if op.category == "elementwise":
        return all(_aligned(tape, axes, ins, v, first) for v in ins.inputs)
    if ins.op in _SAME:
        return True
    if ins.op == "expand":
        return not _touches(axes, tape, ins.inputs[0], first) and _aligned(
            tape, axes, ins, ins.inputs[0], first
        )
    if ins.op in _REDUCTIONS and not ins.params["keepdim"]:
        d = _position(axes, tape, ins.inputs[0], first)
        return (d in ins.params["axes"]) == (d + 1 in ins.params["axes"])
    return False


def _position(axes: Axes, tape: Tape, var: int, cls: int) -> int:
    shape = tape.specs[var].shape
    return next(
        d for d, (c, n) in enumerate(zip(axes.of(var), shape, strict=True)) if c == cls and n != 1
    )


def _aligned(tape: Tape, axes: Axes, ins: Instruction, var: int, first: int) -> bool:
    """Whether an operand has both axes, or broadcasts along both (no dimension, or sizes 1)."""
    if _touches(axes, tape, var, first):
        return True
    out = ins.outputs[0]
    d = _position(axes, tape, out, first) - len(tape.specs[out].shape) + len(tape.specs[var].shape)
    shape = tape.specs[var].shape
    return d + 1 < 0 or (d >= 0 and shape[d] == 1 and shape[d + 1] == 1)


def _merge(tape: Tape, constants: Constants, axes: Axes, first: int, second: int) -> Tape:
    merged = {  # variable -> the dimension that swallows the next one
        v: _position(axes, tape, v, first) for v in tape.specs if _touches(axes, tape, v, first)
    }
    new = rebuild(tape, [], {})
    new.specs = {v: _joined(s, merged[v]) if v in merged else s for v, s in tape.specs.items()}
    new.instructions = [
        made for ins in tape.instructions for made in _adjusted(tape, new, ins, merged)
    ]
    for var in merged:
        if var in constants.arrays:
            constants.arrays[var] = constants.arrays[var].reshape(new.specs[var].shape)
            new.captured[var] = Tensor(constants.arrays[var])
    return new


def _joined(spec: Spec, d: int) -> Spec:
    shape = spec.shape
    return Spec((*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :]), spec.dtype)


def _adjusted(tape: Tape, new: Tape, ins: Instruction, merged: dict[int, int]) -> list[Instruction]:
    """The instruction on merged values; operands of sizes 1 there are reshaped first."""
    if ins.op in _REDUCTIONS and ins.inputs[0] in merged:
        d = merged[ins.inputs[0]]
        kept = tuple(a - (a > d) for a in ins.params["axes"] if a != d + 1)
        return [ins._replace(params={**ins.params, "axes": kept})]
    (out,) = ins.outputs[:1]
    if out not in merged or len(ins.outputs) > 1:
        return [ins]
    made, inputs = [], []
    for v in ins.inputs:
        d = merged[out] - len(tape.specs[out].shape) + len(tape.specs[v].shape)
        if v in merged or d < 0:
            inputs.append(v)
            continue
        spec = _joined(tape.specs[v], d)
        inputs.append(new.new_var(spec))
        made.append(Instruction("reshape", (v,), {"shape": spec.shape}, (inputs[-1],)))
    params = {"shape": new.specs[out].shape} if ins.op == "expand" else ins.params
    return [*made, Instruction(ins.op, tuple(inputs), params, ins.outputs)]
