"""Forward mode: values that carry a tangent beside the primal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..op.interpreter import own
from ..tensor import Level, Tensor, Value


class Dual(Value):
    """``primal + tangent * eps`` of one level; the tangent may be a symbolic zero (None)."""

    __slots__ = ("primal", "tangent")

    def __init__(self, level: Level, primal: Tensor, tangent: Tensor | None):
        self.level, self.primal, self.tangent = level, primal, tangent
        self.shape, self.dtype = primal._data.shape, primal._data.dtype


class DualInterpreter:
    """Runs an operator on primals and its jvp rule on tangents."""

    def lift(self, level: Level, t: Tensor) -> Dual:
        """A constant: no tangent."""
        return Dual(level, t, None)

    def process(self, level: Level, op: Any, args: Sequence[Tensor], params: dict) -> Any:
        """Primal and tangent of one operator."""
        primals = [t._data.primal if own(level, t) else t for t in args]
        tangents = [t._data.tangent if own(level, t) else None for t in args]
        out = op(*primals, **params)
        live = [
            t if t is not None and i not in op.nondiff and p.dtype.kind in "fc" else None
            for i, (t, p) in enumerate(zip(tangents, primals, strict=True))
        ]
        if not op.differentiable or all(t is None for t in live):
            return out
        dots = op.run_jvp(live, out, primals, params)
        if isinstance(out, tuple):
            dots = dots if isinstance(dots, tuple) else (dots,) * 0 or (None,) * len(out)
            return tuple(
                o if d is None else Dual(level, o, d) for o, d in zip(out, dots, strict=True)
            )
        return out if dots is None else Dual(level, out, dots)


DUAL = DualInterpreter()
