"""CPU kernels and backward plans of elementwise operators, built on first use per dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.expr import Expr, emit, free_inputs, inputs, m
from ..errors import DTypeError, message
from ..tensor import Tensor
from . import derive, fastpath

if TYPE_CHECKING:
    from .elementwise import Elementwise


def trace_body(op: Elementwise, dtypes: tuple) -> tuple[list[Expr], Expr]:
    """The body's expression for operand dtypes: its input leaves and its result."""
    xs = inputs(dtypes)
    return xs, op.body(*xs)


def cpu_ufunc(name: str, ins: Sequence[Expr], outs: Sequence[Expr]) -> np.ufunc:
    """Compile expressions over named inputs into one NumPy ufunc."""
    from kernels_cpu import elementwise, scalar

    def text(e: Expr, args: Sequence[str]) -> str:
        return scalar.template(e.op, e.dtype, [a.dtype for a in e.args], list(args))

    lines, results = emit(outs, text)
    return elementwise.build_ufunc(
        name,
        [e.dtype for e in ins],
        [e.dtype for e in outs],
        lines,
        results,
        scalar.NAMESPACE,
        scalar.salt(),
        [e.value for e in ins],
    )


def build_kernel(op: Elementwise, dtypes: tuple) -> np.ufunc:
    """The forward ufunc of an operator."""
    try:
        xs, out = trace_body(op, dtypes)
        return cpu_ufunc(op.name, xs, [out])
    except NotImplementedError:
        names = ", ".join(d.name for d in dtypes)
        raise DTypeError(
            message(op.name, "the operands' dtype", names, "a dtype the operator supports")
        ) from None


class Plan:
    """How to differentiate one elementwise call: what is saved, and the fused vjp kernel."""

    __slots__ = ("dtypes", "ins", "kernel", "needs", "op", "passes", "save_out", "saved")

    def __init__(self, op: Elementwise, needs: tuple, dtypes: tuple):
        self.op, self.needs, self.dtypes = op, needs, dtypes
        self.kernel: Any = None
        xs, result = trace_body(op, dtypes)
        out = Expr("input", (), result.dtype, "out")
        g = Expr("input", (), result.dtype, "g")
        terms = [contribution(op, i, g, xs, out) if n else None for i, n in enumerate(needs)]
        used = free_inputs([t for t in terms if t is not None])
        self.saved = tuple(i for i in range(op.nin or 0) if f"x{i}" in used)
        self.save_out = "out" in used
        # 'passes': inputs whose cotangent is g itself need no kernel
        self.passes = tuple(t is g for t in terms)
        kept = [t for t in terms if t is not None and t is not g]
        ins = [g] + [xs[i] for i in self.saved] + ([out] if self.save_out else [])
        self.ins = (ins, kept)

    def build(self) -> Any:
        """Compile the fused kernel (None if every cotangent is g itself)."""
        ins, kept = self.ins
        self.kernel = cpu_ufunc(self.op.name + "_vjp", ins, kept) if kept else False
        return self.kernel

    def vjp_raw(self, g: Any, saved: tuple, shapes: tuple | None) -> tuple:
        """Cotangents as arrays from one fused kernel."""
        k = self.kernel
        if k is None:
            k = self.build()
        res: Any = ()
        if k:
            res = fastpath.call(k, (g, *saved))
            if k.nout == 1:
                res = (res,)
        if shapes is None and len(res) == len(self.needs):
            return res
        it = iter(res)
        out = []
        for i, need in enumerate(self.needs):
            c = None
            if need:
                c = g if self.passes[i] else next(it)
                if shapes is not None and c.shape != shapes[i]:
                    c = derive.sum_to_raw(c, shapes[i])
            out.append(c)
        return tuple(out)

    def vjp(self, node: Any, g: Tensor) -> tuple:
        """Cotangents in operator vocabulary."""
        from .elementwise import rebuild

        xs, out = rebuild(node)
        result = []
        for i, need in enumerate(self.needs):
            c = None
            if need:
                c = contribution(self.op, i, g, xs, out, self.dtypes)
                shape = node.shapes[i] if node.shapes is not None else g._data.shape
                c = derive.fit(c, shape, self.dtypes[i])
            result.append(c)
        return tuple(result)


def contribution(op: Elementwise, i: int, g: Any, xs: Sequence[Any], out: Any, dtypes=None) -> Any:
    """Cotangent of input i for cotangent g: on Expr (fused kernel) and on tensors alike.

    Complex follows PyTorch: holomorphic ``g * conj(p)``; otherwise
    ``conj(g) * df/dzbar + g * conj(df/dz)``.
    """
    from ..ops.elementwise import conj

    if op.contributions is not None and op.contributions[i] is not None:
        return op.contributions[i](g, *xs, out)
    dtype = (dtypes or [x.dtype for x in xs])[i]
    if dtype.kind == "c" and op.wirtinger is not None and op.wirtinger[i] is not None:
        dz, dzbar = op.wirtinger[i](*xs, out)
        if g.dtype.kind != "c":
            g = _cast(g, dtype)
        first = None if _zero(dzbar) else scaled(conj(g), dzbar)
        second = None if _zero(dz) else scaled(g, _conj(dz))
        if first is None or second is None:
            return second if first is None else first
        return first + second
    p = op.partial(i, xs, out)
    c = scaled(g, _conj(p))
    return _cast(c, dtype) if dtype.kind != "c" and c.dtype.kind == "c" else c


def scaled(g: Any, p: Any) -> Any:
    """``zmul(g, p)`` on Expr and tensors; nothing to do for 1 and -1, exact zeros for 0."""
    if isinstance(p, int | float | complex):
        if p == 1:
            return g
        if p == 0:
            return m.const(0, g) if isinstance(g, Expr) else g.zeros_like_()
        return -g if p == -1 else g * p
    if p.dtype != g.dtype and (p.dtype.kind == "b" or g.dtype.kind == "c"):
        p = _cast(p, g.dtype)
    from ..ops.elementwise import zmul

    return zmul(g, p)


def _cast(x: Any, dtype: np.dtype) -> Any:
    if isinstance(x, Expr):
        return m.cast(x, dtype)
    from .dispatch import cast

    return cast(x, dtype)


def _zero(p: Any) -> bool:
    return isinstance(p, int | float) and p == 0


def _conj(p: Any) -> Any:
    from ..ops.elementwise import conj

    if isinstance(p, int | float | complex):
        return p.conjugate()
    return conj(p) if p.dtype.kind == "c" else p
