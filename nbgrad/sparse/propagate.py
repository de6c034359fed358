"""Sparsity of a Jacobian: index sets carried through a tape.

The sets are supersets: an entry outside the pattern is zero at every point, an entry inside may be zero at some. Where
the pattern uses the value of a constant (an index array, a mask, a matrix with zeros), it says so, so that a change of the
constant is noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..op import REGISTRY
from ..tape.program import Instruction, Tape
from ..tensor import Tensor
from .rows import Sets, identity, stack
from .rules import Call, mixed, rule_of

# their results are not the same at the next call
_RANDOM = ("random", "random_integers", "random_permutation")


class Pattern(NamedTuple):
    """``sets`` is the boolean CSR pattern (outputs, inputs).

    ``relied`` holds the values of tape variables (captured tensors, integer inputs) that it depends on; ``dense`` the
    operators taken as dense because no rule says more.
    """

    sets: Any
    relied: dict[int, np.ndarray]
    dense: tuple[str, ...]


class Constants:
    """Values of the tape's variables that do not depend on floating inputs, and what they are made of."""

    def __init__(self, tape: Tape, given: dict[int, np.ndarray], varying: Collection[int]):
        self.values = dict(given)
        for var, t in tape.captured.items():
            trained = t._node is not None
            if type(t._data) is np.ndarray and not trained and var not in varying:
                self.values[var] = t._data
        self.roots: dict[int, frozenset[int]] = {v: frozenset((v,)) for v in self.values}
        self.leaves = dict(self.values)
        self.relied: dict[int, np.ndarray] = {}

    def rely(self, var: int) -> None:
        """Note that the pattern holds only for the present value of a constant."""
        for root in self.roots[var]:
            if root not in self.relied:
                self.relied[root] = np.array(self.leaves[root])

    def fold(self, ins: Instruction) -> bool:
        """Compute an instruction on constants; False if it has other operands."""
        if ins.op in _RANDOM or not all(v in self.values for v in ins.inputs):
            return False
        with np.errstate(all="ignore"):
            got = REGISTRY[ins.op].forward([self.values[v] for v in ins.inputs], ins.params)
        roots = frozenset().union(*(self.roots[v] for v in ins.inputs))
        for var, value in zip(ins.outputs, got if isinstance(got, tuple) else (got,), strict=True):
            self.values[var], self.roots[var] = np.asarray(value), roots
        return True


def propagate(
    tape: Tape,
    wrt: Sequence[int],
    given: dict[int, np.ndarray],
    varying: Collection[int] = (),
) -> Pattern:
    """The pattern of the Jacobian of a tape's outputs with respect to its inputs ``wrt``.

    Parameters
    ----------
    tape : the program; outputs (and inputs) are flattened in C order and joined in their order.
    wrt : positions among the tape's inputs.
    given : values of further input variables that count as constants (index arrays).
    varying : captured variables whose values must not be used.
    """
    sizes = [math.prod(tape.specs[tape.inputs[i]].shape) for i in wrt]
    columns = sum(sizes)
    sets: dict[int, Sets] = {}
    start = 0
    for i, n in zip(wrt, sizes, strict=True):
        sets[tape.inputs[i]] = identity(n, columns, start)
        start += n
    constants = Constants(tape, given, varying)
    dense = []
    last = tape._last_uses()
    for position, ins in enumerate(tape.instructions):
        if not constants.fold(ins):
            found, by_rule = _apply(tape, ins, sets, constants)
            sets.update(found)
            if not by_rule:
                dense.append(ins.op)
        for var in last.get(position, ()):
            sets.pop(var, None)
            constants.values.pop(var, None)
    lengths = [math.prod(tape.specs[v].shape) for v in tape.outputs]
    whole = stack([sets.get(v) for v in tape.outputs], lengths)
    shape = (sum(lengths), columns)
    return Pattern(_whole(whole, shape), constants.relied, tuple(sorted(set(dense))))


def _whole(sets: Sets, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    return csr_array(shape, dtype=bool) if sets is None else csr_array(sets)


def _apply(
    tape: Tape, ins: Instruction, sets: dict[int, Sets], constants: Constants
) -> tuple[dict[int, Sets], bool]:
    """The sets of an instruction's outputs, and whether a rule gave them."""
    op = REGISTRY[ins.op]
    mine = [None if i in op.nondiff else sets.get(v) for i, v in enumerate(ins.inputs)]
    if not op.differentiable or all(s is None for s in mine):
        return {}, True
    rule: Callable[[Call], Sets] = rule_of(op)
    shapes = [tape.specs[v].shape for v in ins.inputs]
    found = {}
    for var in ins.outputs:
        spec = tape.specs[var]
        if spec.dtype.kind in "fc":
            call = Call(
                op,
                ins.params,
                shapes,
                (spec.shape,),
                mine,
                lambda i: constants.values.get(ins.inputs[i]),
                lambda i: constants.rely(ins.inputs[i]),
            )
            found[var] = rule(call)
    return found, rule is not mixed


def still_holds(pattern: Pattern, tape: Tape, inputs: dict[int, Tensor]) -> list[int]:
    """The variables a pattern relies on whose values have changed."""
    changed = []
    for var, before in pattern.relied.items():
        now = (inputs if var in inputs else tape.captured)[var]._data
        if type(now) is not np.ndarray or not np.array_equal(now, before, equal_nan=True):
            changed.append(var)
    return changed
