"""CPU kernels and backward plans of elementwise operators, built on first use per dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.expr import Expr, emit, free_inputs, inputs, m
from ..errors import DTypeError, message
from ..tensor import Tensor
from . import derive, fastpath
from .symbolic import Symbolic

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
    """How to differentiate one elementwise call: what is saved, and the vjp kernels.

    ``raw(g, saved, shapes)`` gives the cotangents as arrays. Small arrays use one kernel per input (NumPy calls
    single-output ufuncs three times faster), large ones a fused kernel that reads memory once.
    """

    __slots__ = (
        "dtypes",
        "fused",
        "ins",
        "needs",
        "op",
        "passes",
        "raw",
        "rules",
        "save_out",
        "saved",
        "simple",
        "terms",
    )

    def __init__(self, op: Elementwise, needs: tuple, dtypes: tuple):
        self.op, self.needs, self.dtypes = op, needs, dtypes
        xs, result = trace_body(op, dtypes)
        out = Expr("input", (), result.dtype, "out")
        g = Expr("input", (), result.dtype, "g")
        self.terms = [contribution(op, i, g, xs, out) if n else None for i, n in enumerate(needs)]
        used = free_inputs([t for t in self.terms if t is not None])
        self.saved = tuple(i for i in range(op.nin or 0) if f"x{i}" in used)
        self.save_out = "out" in used
        # 'passes': inputs whose cotangent is g itself need no kernel
        self.passes = tuple(t is g for t in self.terms)
        self.ins = [g] + [xs[i] for i in self.saved] + ([out] if self.save_out else [])
        self.fused: Any = None
        self.raw = self._first_call
        self.rules = [
            tensor_rule(op, i, dtypes[i], self.passes[i]) if n else None
            for i, n in enumerate(needs)
        ]
        # one real dtype throughout: cotangents need no conversion
        self.simple = all(d is result.dtype and d.kind == "f" for d, n in zip(dtypes, needs) if n)

    def _first_call(self, g: Any, saved: tuple, shapes: tuple | None) -> tuple:
        """Build the small-array function on first use."""
        self.raw = self._make_raw()
        return self.raw(g, saved, shapes)

    def _kernel(self, term: Expr) -> tuple[np.ufunc, list[str]]:
        """A single-output ufunc for one cotangent, and the names of its operands."""
        used = free_inputs([term])
        ins = [e for e in self.ins if e.value in used] or self.ins[:1]
        return cpu_ufunc(self.op.name + "_vjp", ins, [term]), [e.value for e in ins]

    def _make_raw(self) -> Any:
        """Generate ``raw`` for this plan: one ufunc call per needed input."""
        names = {e.value: f"saved[{k}]" for k, e in enumerate(self.ins[1:])} | {"g": "g"}
        scope: dict[str, Any] = {"general": self._general, "BIG": fastpath.BIG}
        results = []
        for i, term in enumerate(self.terms):
            if term is None:
                results.append("None")
            elif self.passes[i]:
                results.append("g")
            else:
                scope[f"k{i}"], operands = self._kernel(term)
                results.append(f"k{i}({', '.join(names[n] for n in operands)})")
        text = (
            "def raw(g, saved, shapes):\n"
            "    if shapes is not None or g.size > BIG:\n"
            "        return general(g, saved, shapes)\n"
            f"    return ({', '.join(results)},)\n"
        )
        exec(compile(text, f"<nbgrad vjp of {self.op.name}>", "exec"), scope)
        return scope["raw"]

    def _general(self, g: Any, saved: tuple, shapes: tuple | None) -> tuple:
        """Large or broadcast operands: the fused kernel, then sums over broadcast dimensions."""
        if self.fused is None:
            kept = [
                t for t, p in zip(self.terms, self.passes, strict=True) if t is not None and not p
            ]
            self.fused = cpu_ufunc(self.op.name + "_vjp", self.ins, kept) if kept else False
        res: Any = ()
        if self.fused:
            res = fastpath.call(self.fused, (g, *saved))
            if self.fused.nout == 1:
                res = (res,)
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
        xs, out = self.restore(node)
        shapes = node.shapes
        if shapes is None and self.simple:
            return tuple([rule and rule(g, xs, out) for rule in self.rules])
        return self._fitted(g, xs, out, shapes)

    def restore(self, node: Any) -> tuple[list[Any], Any]:
        """Saved inputs (None where not saved) and output of a node, with their edges."""
        values, edges = node.unpack(), node.edges
        vers = node.vers or _NO_CELLS  # saved_tensors_hooks: no versions to follow
        nrs = node.nrs or _ZEROS
        xs: list[Any] = [None] * len(edges)
        k = cell = 0
        for i in self.saved:
            v = values[k]
            k += 1
            if isinstance(v, np.generic):
                xs[i] = Tensor(np.asarray(v))
                continue
            xs[i] = v if isinstance(v, Tensor) else Tensor(v, edges[i], nrs[i], vers[cell])
            cell += 1
        out = None
        if self.save_out:
            v = values[k]
            out = v if isinstance(v, Tensor) else Tensor(v, node, 0, vers[cell])
        return xs, out

    def _fitted(self, g: Tensor, xs: list[Any], out: Any, shapes: tuple | None) -> tuple:
        """Cotangents brought to the shapes and dtypes of their inputs."""
        result = []
        for i, rule in enumerate(self.rules):
            c = None
            if rule is not None:
                c = rule(g, xs, out)
                c = derive.fit(c, g._data.shape if shapes is None else shapes[i], self.dtypes[i])
            result.append(c)
        return tuple(result)


_ZEROS = (0,) * 8
_NO_CELLS = (None,) * 8


def tensor_rule(op: Elementwise, i: int, dtype: np.dtype, passes: bool) -> Any:
    """``(g, inputs, out) -> cotangent`` of one input on tensors, with the case analysis done once."""
    if passes:
        return lambda g, xs, out: g
    if dtype.kind != "c" and not (op.contributions and op.contributions[i]):
        from ..ops.elementwise import zmul

        partial = op.partials[i]
        assert partial is not None

        def rule(g: Any, xs: Sequence[Any], out: Any) -> Any:
            p = partial(*xs, out)
            if type(p) is Tensor and p._data.dtype is g._data.dtype:
                return zmul(g, p)
            return scaled(g, p)

        return rule
    return lambda g, xs, out: contribution(op, i, g, xs, out, dtype)


def contribution(
    op: Elementwise, i: int, g: Any, xs: Sequence[Any], out: Any, dtype: Any = None
) -> Any:
    """Cotangent of input i for cotangent g: on Expr (fused kernel) and on tensors alike.

    Complex follows PyTorch: holomorphic ``g * conj(p)``; otherwise
    ``conj(g) * df/dzbar + g * conj(df/dz)``.
    """
    from ..ops.elementwise import conj

    dtype = xs[i].dtype if dtype is None else dtype
    wirtinger = op.wirtinger[i] if op.wirtinger is not None and dtype.kind == "c" else None
    own = op.contributions[i] if op.contributions is not None else None
    if own is not None and wirtinger is None:
        return own(g, *xs, out)
    if wirtinger is not None:
        dz, dzbar = wirtinger(*xs, out)
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
    if isinstance(x, Symbolic):
        return x.cast(dtype)
    from .dispatch import cast

    return cast(x, dtype)


def _zero(p: Any) -> bool:
    return isinstance(p, int | float) and p == 0


def _conj(p: Any) -> Any:
    from ..ops.elementwise import conj

    if isinstance(p, int | float | complex):
        return p.conjugate()
    return conj(p) if p.dtype.kind == "c" else p
