"""Simplification passes, each tape to tape and usable alone.

Only rewrites that keep every IEEE result, signed zeros and NaN included: dead code, common subexpressions, aliases, double
negation and transposition, reshapes of reshapes, ``x**2``, constant folding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..op.dispatch import CONSTANT
from ..tensor import Tensor
from .program import Guard, Instruction, Tape

Pass = Callable[[Tape], Tape]


def rebuild(tape: Tape, instructions: Iterable[Instruction], replace: dict[int, int]) -> Tape:
    """A copy of a tape with other instructions and with variables replaced."""

    def final(v: int) -> int:
        while v in replace:
            v = replace[v]
        return v

    new = Tape()
    new.specs, new.inputs, new.count = dict(tape.specs), list(tape.inputs), tape.count
    new.captured, new.frozen = dict(tape.captured), dict(tape.frozen)
    new.in_tree, new.out_tree = tape.in_tree, tape.out_tree
    new.environment = list(tape.environment)
    new.writes = set(tape.writes)
    new.instructions = list(instructions)
    if replace:
        new.instructions = [
            Instruction(op, tuple([final(v) for v in ins]), params, outs)
            for op, ins, params, outs in new.instructions
        ]
    new.outputs = [final(v) for v in tape.outputs]
    new.guards = _move_guards(tape, new, final)
    return new


def _move_guards(tape: Tape, new: Tape, final: Callable[[int], int]) -> list[Guard]:
    """Guards keep their order; each is checked as soon as its variable is defined."""
    made = {v: i + 1 for i, ins in enumerate(new.instructions) for v in ins.outputs}
    moved = [Guard(final(g.var), g.value, g.what, made.get(final(g.var), 0)) for g in tape.guards]
    return sorted(moved, key=lambda g: g.position)


def dead_code(tape: Tape) -> Tape:
    """Drop instructions and captured variables nothing depends on."""
    live = {*tape.outputs, *(g.var for g in tape.guards)}
    kept = []
    for ins in reversed(tape.instructions):
        if any(v in live for v in ins.outputs) or checks(ins):
            kept.append(ins)
            live.update(ins.inputs)
    new = rebuild(tape, reversed(kept), {})
    new.captured = {v: t for v, t in tape.captured.items() if v in live}
    new.frozen = {v: a for v, a in tape.frozen.items() if v in live}
    used = {*new.inputs, *new.captured, *(v for i in new.instructions for v in i.outputs)}
    new.specs = {v: s for v, s in tape.specs.items() if v in used}
    return new


def checks(ins: Instruction) -> bool:
    """Whether an instruction may raise: it is kept even if nobody uses its result."""
    bounded = ins.op == "while_loop" and ins.params["max_steps"] is not None
    return bounded or ins.op == "within_limit"


def common_subexpressions(tape: Tape) -> Tape:
    """Share instructions with the same operator, operands and parameters, and equal constants."""
    replace: dict[int, int] = {}
    seen: dict[Any, tuple[int, ...]] = {}
    by_value: dict[Any, int] = {}
    for v, t in tape.captured.items():
        key = _constant_key(t)
        if key is not None and by_value.setdefault(key, v) != v:
            replace[v] = by_value[key]
    kept = []
    for ins in tape.instructions:
        operands = tuple(replace.get(v, v) for v in ins.inputs)
        key = _key(ins, operands)
        if key is not None and key in seen:
            replace.update(zip(ins.outputs, seen[key], strict=True))
            continue
        if key is not None:
            seen[key] = ins.outputs
        kept.append(ins)
    return rebuild(tape, kept, replace)


def _key(ins: Instruction, operands: tuple[int, ...]) -> Any:
    try:
        key = (ins.op, operands, tuple(sorted(ins.params.items())))
        hash(key)
    except TypeError:
        return None
    return key


def is_constant(t: Tensor) -> bool:
    """A number or filled tensor made while tracing, which nobody can change later."""
    return t._meta is not None and t._meta.name == CONSTANT


def _constant_key(t: Tensor) -> Any:
    if not is_constant(t) or not isinstance(t._data, np.ndarray) or t._data.size > 1 << 16:
        return None
    return (t._data.dtype.name, t._data.shape, t._data.tobytes())


def aliases(tape: Tape) -> Tape:
    """Drop operations that return their operand: alias, same-shape reshape, expand, identity casts."""
    replace: dict[int, int] = {}
    kept = []
    for ins in tape.instructions:
        if ins.op in _TRIVIAL and _TRIVIAL[ins.op](tape, ins):
            replace[ins.outputs[0]] = ins.inputs[0]
        else:
            kept.append(ins)
    return rebuild(tape, kept, replace)


def _same_spec(tape: Tape, ins: Instruction) -> bool:
    a, b = tape.specs[ins.inputs[0]], tape.specs[ins.outputs[0]]
    return tuple(a.shape) == tuple(b.shape) and a.dtype == b.dtype


_TRIVIAL: dict[str, Callable[[Tape, Instruction], bool]] = {
    "alias": lambda tape, ins: True,
    "reshape": _same_spec,
    "expand": _same_spec,
    "to_dtype": _same_spec,
    "clone": lambda tape, ins: True,
    "permute": lambda tape, ins: ins.params["dims"] == tuple(range(len(ins.params["dims"]))),
    "conj": lambda tape, ins: tape.specs[ins.inputs[0]].dtype.kind != "c",
    "real": lambda tape, ins: tape.specs[ins.inputs[0]].dtype.kind != "c",
}


def pairs(tape: Tape) -> Tape:
    """Cancel or merge an operation with the one that made its operand."""
    made: dict[int, Instruction] = {}
    replace: dict[int, int] = {}
    kept: list[Instruction] = []
    for ins in tape.instructions:
        ins = Instruction(
            ins.op, tuple(_last(v, replace) for v in ins.inputs), ins.params, ins.outputs
        )
        before = made.get(ins.inputs[0]) if ins.inputs else None
        merged = _merge(before, ins) if before is not None and before.op == ins.op else ins
        if isinstance(merged, int):
            replace[ins.outputs[0]] = merged
            continue
        kept.append(merged)
        for v in merged.outputs:
            made[v] = merged
    return rebuild(tape, kept, replace)


def _last(v: int, replace: dict[int, int]) -> int:
    while v in replace:
        v = replace[v]
    return v


def _merge(before: Instruction, ins: Instruction) -> Instruction | int:
    if ins.op in ("neg", "conj", "logical_not", "bitwise_not"):
        return before.inputs[0]
    if ins.op == "permute":
        dims = tuple(before.params["dims"][d] for d in ins.params["dims"])
        if dims == tuple(range(len(dims))):
            return before.inputs[0]
        return Instruction("permute", before.inputs, {"dims": dims}, ins.outputs)
    if ins.op == "reshape":
        return Instruction("reshape", before.inputs, ins.params, ins.outputs)
    return ins


def is_two(t: Tensor) -> bool:
    """Whether a captured tensor is the constant 2."""
    return is_constant(t) and t._data.size == 1 and t._data.item() == 2


def powers(tape: Tape) -> Tape:
    """``x**2 -> x*x`` for constant exponents (bitwise the same)."""
    kept = []
    for ins in tape.instructions:
        exponent = tape.captured.get(ins.inputs[1]) if ins.op == "pow" else None
        if exponent is not None and is_two(exponent):
            base, out = tape.specs[ins.inputs[0]], tape.specs[ins.outputs[0]]
            if base.shape == out.shape and base.dtype == out.dtype:
                ins = Instruction("square", ins.inputs[:1], {}, ins.outputs)
        kept.append(ins)
    return rebuild(tape, kept, {})


PASSES: tuple[Pass, ...] = (aliases, powers, pairs, common_subexpressions, dead_code)


def simplify(tape: Tape, passes: Iterable[Pass] = PASSES) -> Tape:
    """Run the passes until the tape stops shrinking."""
    size = None
    while size != len(tape):
        size = len(tape)
        for step in passes:
            tape = step(tape)
    return tape
