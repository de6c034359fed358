"""The operators ``cond`` and ``switch``: one of several sub-tapes, chosen by a value.

Only the chosen branch runs, forward and backward. Where vmap gives every member its own choice, all branches run and
the results are selected; what was not chosen contributes exactly 0 to derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import TraceError
from ..op import Spec
from ..ops.compare import eq
from ..ops.elementwise import where
from ..ops.view import _reshape, to_front
from ..tape import Tape
from ..tensor import Tensor
from .base import Control, as_tuple, one_by_one, taylor
from .body import in_specs, out_specs
from .derive import adjoint, batched, lift, lifted, lower, reached
from .runner import owned, tape_function
from .scan import batch_of


class Branch(Control):
    """Operands: the choice (0-d), then what every branch takes. Parameter ``branches``: tapes of one signature."""

    def __init__(self, name: str):
        super().__init__(
            name, self._kernel, nin=None, n_out=lambda params: len(params["branches"][0].outputs)
        )
        self.saves = lambda needs, params: range(len(needs))
        self.infer_rule = self._infer
        self.vjp_rule = self._vjp
        taylor(self)

    def position(self, choice: np.ndarray, n: int) -> int:
        """Which branch a value chooses."""
        raise NotImplementedError

    def chosen(self, choice: Any, k: int, n: int) -> Any:
        """Where a batch of choices takes branch ``k``."""
        raise NotImplementedError

    def _kernel(self, choice: Any, *arrays: Any, branches: tuple[Tape, ...]) -> tuple:
        branch = branches[self.position(choice, len(branches))]
        with np.errstate(all="ignore"):
            out = tape_function(branch)(*arrays)
        return owned(out, (choice, *arrays), branch)

    def _infer(self, choice: Spec, *specs: Spec, branches: tuple[Tape, ...]) -> tuple:
        have = [Spec(tuple(s[0]), s[1]) for s in specs]
        outs = out_specs(branches[0])
        for k, b in enumerate(branches):
            if in_specs(b) != have or out_specs(b) != outs:
                raise TraceError(
                    f"{self.name}: branch {k} takes {in_specs(b)} and gives {out_specs(b)}; expected {have} and {outs}"
                )
        return tuple(outs)

    def push(self, order: int, rows: Any, inputs: Any, params: dict) -> tuple[list, list]:
        mask = tuple(r is not None for r in rows[1:])
        branches = params["branches"]
        outs = tuple(map(any, zip(*(reached(b, mask) for b in branches), strict=True)))
        n, m = len(mask), len(outs)
        lift_all = tuple(lifted(b, (n,), mask, order, outs, (m,)) for b in branches)
        full = lift((n,), inputs[1:], list(rows[1:]), mask)
        values, found = lower((m,), self(inputs[0], *full, branches=lift_all), outs, order)
        return values, [found.get(k) for k in range(m)]

    def _vjp(self, g: Any, out: Any, choice: Any, *inputs: Any, needs: Any, branches: Any) -> tuple:
        cots = as_tuple(g)
        given = tuple(c is not None for c in cots)
        back = tuple(adjoint(b, tuple(needs[1:]), given) for b in branches)
        live = [c for c in cots if c is not None]
        return one_by_one(self(choice, *inputs, *live, branches=back), needs)

    def run_batch(self, dims: Any, inputs: Any, params: dict) -> tuple:
        size, how = batch_of(dims, inputs)
        mask = tuple(d is not None for d in dims[1:])
        operands = [to_front(x, d) for x, d in zip(inputs[1:], dims[1:], strict=True)]
        branches = params["branches"]
        if dims[0] is None:
            rows = zip(*(batched(b, mask, size, how)[1] for b in branches), strict=True)
            outs = tuple(any(r) for r in rows)
            wide = tuple(batched(b, mask, size, how, outs)[0] for b in branches)
            got = self(inputs[0], *operands, branches=wide)
            return got, tuple(0 if m else None for m in outs)
        full = (True,) * len(branches[0].outputs)
        rows = [batched(b, mask, size, how, full)[0].call(*operands) for b in branches]
        out = list(rows[-1])
        for k in reversed(range(len(branches) - 1)):
            here = self.chosen(inputs[0], k, len(branches))
            out = [select(here, a, b) for a, b in zip(rows[k], out, strict=True)]
        return tuple(out), (0,) * len(out)


def select(condition: Any, a: Any, b: Any) -> Tensor:
    """``a`` or ``b`` for each member of the batch in front."""
    rank = max(a.ndim, b.ndim)
    return where(_reshape(condition, (*condition.shape, *(1,) * (rank - 1))), a, b)


class Cond(Branch):
    """``cond``: branches (true, false) by a bool."""

    def position(self, choice: np.ndarray, n: int) -> int:
        return 0 if choice else 1

    def chosen(self, choice: Any, k: int, n: int) -> Any:
        return choice


class Switch(Branch):
    """``switch``: branches by an integer; below 0 is the first, beyond the end the last."""

    def position(self, choice: np.ndarray, n: int) -> int:
        return min(max(int(choice), 0), n - 1)

    def chosen(self, choice: Any, k: int, n: int) -> Any:
        return eq(choice, k) if k else choice <= 0


COND, SWITCH = Cond("cond"), Switch("switch")
