"""What the control-flow operators have in common: how a call is interpreted and its forward modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.dual import Dual, DualInterpreter
from ..op import Operator
from ..op.derive import zeros_like
from ..op.dispatch import CONSTANT, plain, record, recorded, tag, top_level, unusual
from ..op.interpreter import own
from ..state import state
from ..tape.taylor import Series, none
from ..tensor import Level, Tensor


class Control(Operator):
    """An operator with sub-tapes among its parameters; its results are always a tuple.

    ``push(order, rows, inputs, params)`` is its one forward-mode rule: ``rows[i]`` lists the Taylor coefficients
    1 ... order of input i, or is None for a constant; it returns the outputs and such rows for them. Order 1 is jvp.
    """

    category = "control"

    def __call__(self, *args: Tensor, **params: Any) -> tuple:
        top = None if plain(args) else top_level(args)
        index = 0 if top is None else top.index
        if state.off > index and any(t._data.dtype.kind in "fc" and recorded(t, top) for t in args):
            return self.graph_call(args, params)
        return self.interpret(args, params)

    def graph_call(self, args: Sequence[Tensor], params: dict) -> tuple:
        """A call some argument of which is recorded in a graph."""
        return self.interpret(args, params)

    def push(
        self, order: int, rows: Sequence[Any], inputs: Sequence[Tensor], params: dict
    ) -> tuple[list[Tensor], list[Any]]:
        """Outputs and their Taylor coefficients."""
        raise NotImplementedError

    def interpret(self, args: Sequence[Tensor], params: dict) -> tuple:
        """Run at the top level among the arguments and record; forward mode runs primal and tangent as one."""
        top = None if plain(args) else top_level(args)
        if top is None:
            raw = self.forward([t._data for t in args], params)
        elif isinstance(top.interpreter, DualInterpreter):
            raw = self._dual(top, args, params)
        else:
            raw = top.interpreter.process(top, self, args, params)
        outs = tuple(o if isinstance(o, Tensor) else Tensor(o) for o in raw)
        if state.off > (0 if top is None else top.index):
            needs = tuple(t._data.dtype.kind in "fc" and recorded(t, top) for t in args)
            if any(needs):
                record(self, args, outs, params, needs, top)
        if state.fast < 0:
            unusual(self, args, outs, params, top)
        return outs

    def _dual(self, level: Level, args: Sequence[Tensor], params: dict) -> tuple:
        primals = [t._data.primal if own(level, t) else t for t in args]
        rows = [
            [t._data.tangent]
            if own(level, t) and t._data.tangent is not None and t._data.dtype.kind in "fc"
            else None
            for t in args
        ]
        if any(r is not None for r in rows):
            outs, dots = self.push(1, rows, primals, params)
        else:
            outs = self(*primals, **params)
            dots = [None] * len(outs)
        # a gradient inside needs results at this level, even where the tangent is zero
        keep = any(t._node is not None and own(level, t) for t in args)
        return tuple(
            Dual(level, o, None if d is None else d[0]) if keep or d is not None else o
            for o, d in zip(outs, dots, strict=True)
        )

    def run_jvp(
        self, tangents: Sequence[Any], out: Any, inputs: Sequence[Any], params: dict
    ) -> tuple:
        """The tangents alone (the primal is computed again)."""
        rows = [None if t is None else [t] for t in tangents]
        return tuple(None if r is None else r[0] for r in self.push(1, rows, inputs, params)[1])


def taylor(op: Control) -> None:
    """Declare the Taylor rule that follows from ``push``."""

    @op.taylor
    def _(level, series, firsts, first, **params):
        known: list[Any] = []

        def rows(order: int) -> list[Any]:
            """Rows of at least this order; asking for one more term runs everything once more."""
            if not known or known[0] < order:
                given = [
                    None if s is None or s.dtype.kind not in "fc" else _terms(s, order)
                    for s in series
                ]
                known[:] = [order, op.push(order, given, firsts, params)[1]]
            return known[1]

        def rule(k: int, i: int) -> Any:
            row = rows(k)[i]
            return None if row is None else row[k - 1]

        return tuple(
            Series(level, f, (lambda k, i=i: rule(k, i)) if f.dtype.kind in "fc" else none)
            for i, f in enumerate(first)
        )


def _terms(s: Series, order: int) -> list[Tensor]:
    terms = [s.term(k) for k in range(1, order + 1)]
    return [zero(s.term(0)) if t is None else t for t in terms]


def zero(like: Any) -> Tensor:
    """Plain zeros of the same shape and dtype, a constant to tapes."""
    return tag(zeros_like(like), CONSTANT)


def as_tuple(x: Any) -> tuple:
    """The outputs or cotangents of a call as a tuple, however many there are."""
    return x if isinstance(x, tuple) else (x,)


def one_by_one(out: tuple, needs: Sequence[bool]) -> tuple:
    """Results for the needed arguments, None for the others."""
    found = iter(out)
    return tuple(next(found) if n else None for n in needs)
