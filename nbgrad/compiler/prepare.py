"""Tape to tape, before scheduling: constants known, folded and moved, identities that keep every IEEE result.

`constants` finds the captured tensors nobody can change: those made while tracing. Everything else that was captured is an
input by reference, read at each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..op import REGISTRY
from ..tape.program import Instruction, Tape
from ..tape.simplify import PASSES, is_constant, rebuild, simplify
from ..tensor import Tensor
from .evaluate import body
from .expansions import EXPANSIONS, inline

FOLD_LIMIT = 1 << 16  # elements of a constant worth computing ahead


class Constants:
    """The values of a tape that are known when it is compiled.

    Captured tensors younger than ``birth``, the start of the trace, were made by it; None: all of them are constants
    (a closed tape).
    """

    def __init__(self, tape: Tape, birth: int | None = None):
        self.arrays: dict[int, np.ndarray] = {}
        for var, t in tape.captured.items():
            made_inside = birth is None or (t._ver[0] >= birth and var not in tape.frozen)
            if isinstance(t._data, np.ndarray) and (is_constant(t) or made_inside):
                self.arrays[var] = t._data

    def __contains__(self, var: int) -> bool:
        return var in self.arrays

    def fill(self, var: int) -> complex | None:
        """The value of a constant that is the same everywhere, or None."""
        a = self.arrays.get(var)
        return a.flat[0].item() if a is not None and is_filled(a) else None


def prepare(tape: Tape) -> tuple[Tape, Constants]:
    """The tape a schedule is made of, and its constants; the given one is closed and left alone."""
    tape = rebuild(tape, tape.instructions, {})
    tape = inline(tape, EXPANSIONS)
    tape = simplify(tape)
    constants = Constants(tape)
    size = None
    while size != len(tape):
        size = len(tape)
        tape = identities(fold(tape, constants), constants)
        tape = simplify(tape, (*PASSES,))
        constants.arrays = {v: a for v, a in constants.arrays.items() if v in tape.captured}
    return tape, constants


def fold(tape: Tape, constants: Constants) -> Tape:
    """Compute ahead what depends on constants only."""
    kept = []
    captured = dict(tape.captured)
    for ins in tape.instructions:
        small = all(math.prod(tape.specs[v].shape) <= FOLD_LIMIT for v in ins.outputs)
        known = small and ins.op not in _IMPURE and all(v in constants for v in ins.inputs)
        values = _evaluate(tape, ins, constants) if known else None
        if values is not None and _worth(ins, values, constants):
            for var, value in zip(ins.outputs, values, strict=True):
                constants.arrays[var] = value
                captured[var] = Tensor(value)
        else:
            kept.append(ins)
    new = rebuild(tape, kept, {})
    new.captured = captured
    return new


def _worth(ins: Instruction, values: list[np.ndarray], constants: Constants) -> bool:
    """Not where filled arrays would become one that has to be loaded (ones and zeros joined, say)."""
    if any(constants.fill(v) is None for v in ins.inputs) or not ins.inputs:
        return True
    return all(a.size <= 16 or is_filled(a) for a in values)


def is_filled(a: np.ndarray) -> bool:
    """Whether all elements are the same."""
    return a.size > 0 and (a.strides == (0,) * a.ndim or bool((a == a.flat[0]).all()))


_IMPURE = ("random", "random_integers", "random_permutation")


# what NumPy computes as our kernels do: folding must not build kernels (with a cold cache each takes 0.2 s)
_NUMPY: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "neg": np.negative,
    "fabs": np.fabs,
    "sqrt": np.sqrt,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.logical_not,
    "select": np.where,
}
_COPIES = ("cat", "clone", "to_dtype", "unview", "winners", "scatter_winners", "index_order")


def _evaluate(tape: Tape, ins: Instruction, constants: Constants) -> list[np.ndarray] | None:
    """The results of an instruction on constants; None where that would take a kernel."""
    args = [constants.arrays[v] for v in ins.inputs]
    op = REGISTRY[ins.op]
    with np.errstate(all="ignore"):
        if op.category == "elementwise":
            return _elementwise(tape, ins, args)
        if ins.op == "sum":
            p = ins.params
            total = np.sum(args[0], axis=p["axes"], keepdims=p["keepdim"])
            return [np.asarray(total, tape.specs[ins.outputs[0]].dtype)]
        if op.category != "view" and ins.op not in _COPIES:
            return None
        if ins.op == "reshape":
            return [args[0].reshape(ins.params["shape"])]
        got = op.forward(args, ins.params)
    return [np.asarray(a) for a in (got if isinstance(got, tuple) else (got,))]


def _elementwise(tape: Tape, ins: Instruction, args: list[np.ndarray]) -> list[np.ndarray] | None:
    xs, out, order = body(ins.op, tuple(a.dtype for a in args))
    spec = tape.specs[ins.outputs[0]]
    if spec.dtype.kind not in "fb" or any(a.dtype.kind not in "fb" for a in args):
        return None
    known: dict[int, Any] = {id(x): a for x, a in zip(xs, args, strict=True)}
    for e in order:
        if id(e) in known:
            continue
        operands = [known[id(a)] for a in e.args]
        if e.op == "const":
            known[id(e)] = np.asarray(e.value, e.dtype)
        elif e.op == "cast" and e.dtype.kind in "fb":
            known[id(e)] = operands[0].astype(e.dtype)
        elif e.op in _NUMPY:
            known[id(e)] = np.asarray(_NUMPY[e.op](*operands), e.dtype)
        else:
            return None
    return [np.array(np.broadcast_to(known[id(out)], spec.shape))]


# what takes the instruction's place: another one, a variable, a constant, or nothing
Replacement = Instruction | int | np.ndarray | None
Rule = Callable[[Tape, Instruction, Constants], Replacement]


def identities(tape: Tape, constants: Constants) -> Tape:
    """Rewrite single instructions by the rules of their operators."""
    replace: dict[int, int] = {}
    kept = []
    made: dict[int, np.ndarray] = {}
    for ins in tape.instructions:
        ins = Instruction(ins.op, tuple(_final(v, replace) for v in ins.inputs), *ins[2:])
        rule = _RULES.get(ins.op)
        got = rule(tape, ins, constants) if rule is not None else None
        if isinstance(got, np.ndarray):
            made[ins.outputs[0]] = got
        elif isinstance(got, int):
            replace[ins.outputs[0]] = got
        else:
            kept.append(ins if got is None else got)
    new = rebuild(tape, kept, replace)
    for var, value in made.items():
        constants.arrays[var] = value
        new.captured[var] = Tensor(value)
    return new


def _final(v: int, replace: dict[int, int]) -> int:
    while v in replace:
        v = replace[v]
    return v


def _same(tape: Tape, a: int, b: int) -> bool:
    one, two = tape.specs[a], tape.specs[b]
    return tuple(one.shape) == tuple(two.shape) and one.dtype == two.dtype


def _neutral(constant: float, sides: tuple[int, ...]) -> Rule:
    """Drop ``op(x, constant)`` where it is x bit for bit."""

    def rule(tape: Tape, ins: Instruction, constants: Constants) -> Replacement:
        for side in sides:
            if constants.fill(ins.inputs[side]) == constant:
                other = ins.inputs[1 - side]
                if _same(tape, other, ins.outputs[0]):
                    return other
        return None

    return rule


def _zmul(tape: Tape, ins: Instruction, constants: Constants) -> Replacement:
    """With a constant factor: 0 gives 0 whatever the other is, a finite one is an ordinary product."""
    for side in (0, 1):
        c = constants.fill(ins.inputs[side])
        if c is None:
            continue
        out = tape.specs[ins.outputs[0]]
        if c == 0:
            return np.broadcast_to(np.zeros((), out.dtype), out.shape)
        if isinstance(c, complex) or not math.isfinite(c):
            continue
        other = ins.inputs[1 - side]
        if c == 1 and _same(tape, other, ins.outputs[0]):
            return other
        return Instruction("mul", ins.inputs, {}, ins.outputs)
    return None


def _unview(tape: Tape, ins: Instruction, constants: Constants) -> Replacement:
    """The adjoint of a view that shows every element once is a reshape (or nothing)."""
    layout, base = ins.params["layout"], ins.params["base_layout"]
    squeezed = [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1]
    target = [(n, s) for n, s in zip(base.shape, base.strides, strict=True) if n != 1]
    if squeezed == target and layout.offset == base.offset:
        return Instruction("reshape", ins.inputs, {"shape": tuple(base.shape)}, ins.outputs)
    return None


_RULES: dict[str, Rule] = {
    "mul": _neutral(1, (0, 1)),
    "div": _neutral(1, (1,)),
    "zmul": _zmul,
    "unview": _unview,
}
