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

    def parts(self) -> tuple[Tensor, ...]:
        """The lower tensors under this value."""
        return (self.primal,) if self.tangent is None else (self.primal, self.tangent)


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
        dots: Any = None
        if op.differentiable and any(t is not None for t in live):
            dots = op.run_jvp(live, out, primals, params)
        # a gradient inside needs results at this level, even where the tangent is zero
        keep = any(t._node is not None and own(level, t) for t in args)
        if isinstance(out, tuple):
            dots = dots if isinstance(dots, tuple) else (None,) * len(out)
            return tuple(
                Dual(level, o, d) if keep or d is not None else o
                for o, d in zip(out, dots, strict=True)
            )
        return Dual(level, out, dots) if keep or dots is not None else out


DUAL = DualInterpreter()
