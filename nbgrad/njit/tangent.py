"""Tangents of a program: truncated Taylor series along a direction, computed beside the values.

Every active number gets coefficients 1..k of its series in t, every active array k more arrays of its shape. One
coefficient is the directional derivative (jvp); the n-th times n! is the n-th derivative. Products are Cauchy products; a
function y = f(x) follows from y' = f'(x) x' with the series of f', which is itself a program value (Griewank and
Walther, Evaluating Derivatives, 2nd ed., chapter 13). Piecewise linear functions keep the branch of coefficient 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import UnsupportedError
from . import ir, partials, scalars
from .activity import Activity
from .alias import Aliases
from .simplify import simplify

LINEAR = frozenset(
    {"add", "sub", "neg", "radd", "conj", "real", "imag", "complex", "where", "keep", "drop"}
)
PIECEWISE = frozenset(
    {
        "abs",
        "max",
        "min",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "copysign",
        "mod",
        "fmod",
        "clamp",
        "deg2rad",
        "rad2deg",
    }
)


class Pushforward(NamedTuple):
    """A program with tangents.

    Parameters of ``fn``: those of the program, then ``order`` tangents of each parameter in ``inputs`` (the wanted ones, and
    arrays that active numbers are written to). Results: those of the program, then ``order`` coefficients for each.
    """

    fn: ir.Function
    inputs: list[int]
    order: int


def tangent(f: ir.Function, wrt: Sequence[int], order: int = 1) -> Pushforward:
    """Add tangents to a program (which is consumed).

    Raises
    ------
    UnsupportedError : a call without a jvp, or an order above 1 through an opaque call.
    """
    return _Tangent(f, wrt, order).run()


class _Tangent:
    def __init__(self, f: ir.Function, wrt: Sequence[int], order: int):
        self.f, self.wrt, self.order = f, list(wrt), order
        self.aliases = Aliases(f)
        written = [p for p in f.params if ir.is_array(p)]
        self.activity = Activity(
            f, self.aliases, [f.params[k] for k in wrt], [*f.results, *written]
        )
        self.series: dict[ir.Value, list[ir.Value]] = {}
        self.partials: dict[tuple, ir.Value] = {}
        self.b = ir.Builder(f.body)

    def run(self) -> Pushforward:
        """Parameters, body, results."""
        f = self.f
        self.wrt += [
            k
            for k, p in enumerate(f.params)
            if ir.is_array(p) and k not in self.wrt and self.activity.active(p)
        ]
        for k in self.wrt:
            p = f.params[k]
            self.series[p] = [
                f.add_param(p.type, f"{p.name}_d{n}") for n in range(1, self.order + 1)
            ]
        results = list(f.results)
        self.block(f.body)
        self.b.block = f.body
        extra = [c for r in results for c in self.of(r)]
        f.body.yields = [*results, *extra]
        simplify(f)
        return Pushforward(f, self.wrt, self.order)

    def active(self, v: ir.Value) -> bool:
        """Whether a value has a series of its own."""
        return v in self.series or (v.home is not None and self.activity.active(v))

    def of(self, v: ir.Value) -> list[ir.Value]:
        """Coefficients 1..order of a value: zeros where it does not vary."""
        if ir.is_array(v):
            return self.array_series(v)
        return [self.coefficient(v, n) for n in range(1, self.order + 1)]

    def array_series(self, v: ir.Value) -> list[ir.Value]:
        """The tangent arrays of an array; zeros for one that does not vary."""
        if v not in self.series:
            sizes = [self.b.shape(v, k) for k in range(v.type.ndim)]
            return [self.b.alloc(sizes, v.type.dtype, 0) for _ in range(self.order)]
        return self.series[v]

    # -- scalars -----------------------------------------------------------------------------------------
    def coefficient(self, v: ir.Value, n: int) -> ir.Value:
        """Coefficient n of a number, written where it is asked for first."""
        if n == 0:
            return v
        known = self.series.get(v)
        if known is not None and len(known) >= n:
            return known[n - 1]
        op = v.op
        if isinstance(v, ir.Const) or op is None or op.kind != "apply" or known is None:
            return scalars.zero(v.type)
        while len(known) < n:
            known.append(self.apply_coefficient(op, len(known) + 1))
        return known[n - 1]

    def varies(self, v: ir.Value) -> bool:
        """Whether a number has non-zero coefficients."""
        return v in self.series

    def apply_coefficient(self, op: ir.Op, n: int) -> ir.Value:
        """Coefficient n of a function's result."""
        name = op.attrs["fn"]
        if name in ("div", "zdiv", "reciprocal"):
            return self.quotient(op, n)
        if n == 1 or name in LINEAR or name in PIECEWISE:
            return self.total(
                [
                    partials.tangent(self.b, op, i, self.coefficient(a, n))
                    for i, a in self.inputs(op)
                ],
                op,
            )
        if name in ("mul", "zmul"):
            return self.cauchy(op.args[0], op.args[1], n, op)
        terms = []
        for i, a in self.inputs(op):
            p = self.partial(op, i)
            for m in range(1, n + 1):
                x = self.coefficient(a, m)
                q = self.coefficient(p, n - m)
                if ir.is_const(x, 0) or ir.is_const(q, 0):
                    continue
                t = self.product(op, x, q)
                terms.append(
                    t if m == n else scalars.apply(self.b, "mul", t, self.number(m / n, t))
                )
        return self.total(terms, op)

    def inputs(self, op: ir.Op) -> list[tuple[int, ir.Value]]:
        """The arguments that vary."""
        name = op.attrs["fn"]
        return [
            (i, a)
            for i, a in enumerate(op.args)
            if self.varies(a) and partials.differentiable(name, i)
        ]

    def product(self, op: ir.Op, x: ir.Value, q: ir.Value) -> ir.Value:
        """A product in which zero wins where the partial may be infinite."""
        name = "zmul" if partials.singular(op) else "mul"
        return scalars.apply(self.b, name, x, q)

    @staticmethod
    def number(x: float, like: ir.Value) -> ir.Value:
        """A weak constant."""
        return ir.Const(complex(x) if isinstance(like.type, ir.types.Complex) else x, like.type)

    def total(self, terms: Sequence[ir.Value], op: ir.Op) -> ir.Value:
        """The sum of contributions, of the result's type."""
        out: ir.Value | None = None
        for t in terms:
            if not ir.is_const(t, 0):
                out = t if out is None else scalars.apply(self.b, "add", out, t)
        return (
            scalars.zero(op.result.type)
            if out is None
            else scalars.cast(self.b, out, op.result.type)
        )

    def cauchy(self, x: ir.Value, y: ir.Value, n: int, op: ir.Op) -> ir.Value:
        """Coefficient n of a product."""
        terms = []
        for m in range(n + 1):
            a, b = self.coefficient(x, m), self.coefficient(y, n - m)
            if not ir.is_const(a, 0) and not ir.is_const(b, 0):
                terms.append(self.product(op, a, b))
        return self.total(terms, op)

    def quotient(self, op: ir.Op, n: int) -> ir.Value:
        """q_n = (a_n - sum_{j<n} q_j b_{n-j}) / b_0."""
        b = op.args[-1]
        terms = []
        if op.attrs["fn"] != "reciprocal":
            a = self.coefficient(op.args[0], n)
            if not ir.is_const(a, 0):
                terms.append(a)
        for j in range(n):
            c = self.coefficient(b, n - j)
            if not ir.is_const(c, 0):
                t = scalars.apply(self.b, "mul", self.coefficient(op.result, j), c)
                terms.append(scalars.apply(self.b, "neg", t))
        top = self.total(terms, op)
        if ir.is_const(top, 0):
            return top
        return scalars.apply(self.b, "zdiv", top, scalars.cast(self.b, b, op.result.type))

    def partial(self, op: ir.Op, i: int) -> ir.Value:
        """The partial derivative as a value whose series is known."""
        key = (op, i)
        found = self.partials.get(key)
        if found is None:
            block = self.b.block
            start = len(block.ops)
            one = ir.Const(1.0, op.args[i].type)
            found = self.partials[key] = partials.tangent(self.b, op, i, one)
            for o in block.ops[start:]:
                if (
                    o.kind == "apply"
                    and any(self.varies(a) for a in o.args)
                    and ir.is_float(o.result.type)
                ):
                    self.series[o.result] = []
        return found

    # -- operations ------------------------------------------------------------------------------------------
    def block(self, block: ir.Block) -> None:
        """Write a block again, with tangents."""
        old = block.ops
        block.ops = []
        before = self.b.block
        self.b.block = block
        for op in old:
            self.b.line = op.line
            method = getattr(self, "do_" + op.kind, None)
            if method is None:
                block.ops.append(op)
            else:
                method(op)
        self.b.block = before

    def keep(self, op: ir.Op) -> None:
        """The operation itself."""
        self.b.block.ops.append(op)

    def do_apply(self, op: ir.Op) -> None:
        """A scalar function."""
        self.keep(op)
        if self.activity.active(op.result) and self.inputs(op):
            self.series[op.result] = []
            for n in range(1, self.order + 1):
                self.coefficient(op.result, n)

    def do_cast(self, op: ir.Op) -> None:
        """A conversion."""
        self.keep(op)
        if self.activity.active(op.result) and self.varies(op.args[0]):
            self.series[op.result] = [
                scalars.cast(self.b, c, op.result.type) for c in self.of(op.args[0])
            ]

    def do_load(self, op: ir.Op) -> None:
        """Reads of tangents."""
        self.keep(op)
        if self.active(op.args[0]) and self.activity.active(op.result):
            self.series[op.result] = [self.b.load(a, op.args[1:]) for a in self.of(op.args[0])]

    def do_store(self, op: ir.Op) -> None:
        """Writes of tangents."""
        if self.active(op.args[0]):
            coefficients = [
                scalars.cast(self.b, c, op.args[0].type.dtype) for c in self.of(op.args[-1])
            ]
            for a, c in zip(self.of(op.args[0]), coefficients, strict=True):
                self.b.op(op.kind, [a, *op.args[1:-1], c])
        self.keep(op)

    do_accum = do_store

    def do_copy(self, op: ir.Op) -> None:
        """Copies of tangents."""
        dst, src = op.args
        if self.active(dst):
            for a, c in zip(self.of(dst), self.of(src), strict=True):
                self.b.op(op.kind, [a, c])
        self.keep(op)

    do_add = do_copy

    def do_alloc(self, op: ir.Op) -> None:
        """New arrays for tangents."""
        self.keep(op)
        if self.activity.active(op.result):
            r = op.result
            self.series[r] = [
                self.b.alloc(op.args, r.type.dtype, op.attrs.get("fill"), f"{r.name}_d{n}")
                for n in range(1, self.order + 1)
            ]

    def do_tape(self, op: ir.Op) -> None:
        """A tape of tangents has the same places: it grows with its tape."""
        self.keep(op)
        if self.activity.active(op.result):
            self.series[op.result] = [
                self.b.op("tape", [], [op.result.type], name=op.result.name).result
                for _ in range(self.order)
            ]

    def do_push(self, op: ir.Op) -> None:
        """Places on the tangents' tapes."""
        self.keep(op)
        if self.active(op.args[0]):
            for a in self.of(op.args[0]):
                self.b.op(op.kind, [a, *op.args[1:]], [op.result.type])

    do_pop = do_push

    def do_view(self, op: ir.Op) -> None:
        """The same view of the tangents."""
        self.keep(op)
        if self.active(op.args[0]):
            r = op.result
            self.series[r] = [
                self.b.op(
                    "view", [a, *op.args[1:]], [r.type], attrs=dict(op.attrs), name=f"{r.name}_d"
                ).result
                for a in self.of(op.args[0])
            ]

    def do_if(self, op: ir.Op) -> None:
        """Tangents of results are results."""
        wide = [r for r in op.results if self.activity.active(r)]
        where = [op.results.index(r) for r in wide]
        for b in op.blocks:
            self.block(b)
            old, self.b.block = self.b.block, b
            b.yields += [c for k in where for c in self.of(b.yields[k])]
            self.b.block = old
        self.extend(op, wide)
        self.keep(op)

    do_region = do_if

    def extend(self, op: ir.Op, wide: Sequence[ir.Value]) -> None:
        """Results that are the tangents of some results."""
        for r in wide:
            new = [ir.Value(r.type, f"{r.name}_d{n}", op) for n in range(1, self.order + 1)]
            op.results += new
            self.series[r] = new

    def do_for(self, op: ir.Op) -> None:
        """Tangents are carried too."""
        where = [k for k, p in enumerate(op.phis) if self.activity.active(p)]
        count = len(op.phis)
        inits = [c for k in where for c in self.of(op.inits[k])]
        phis = op.phis
        for k in where:
            p = phis[k]
            new = [
                ir.Value(p.type, f"{p.name}_d{n}", block=op.blocks[0])
                for n in range(1, self.order + 1)
            ]
            op.blocks[0].params += new
            self.series[p] = new
        op.args += inits
        for b in op.blocks:
            self.block(b)
        last = op.blocks[-1]
        old, self.b.block = self.b.block, last
        last.yields[count:count] = [c for k in where for c in self.of(last.yields[k])]
        self.b.block = old
        self.extend(op, [op.results[k] for k in where])
        self.keep(op)

    do_while = do_for

    def do_call(self, op: ir.Op) -> None:
        """The rule's jvp."""
        self.keep(op)
        if not any(self.activity.active(r) for r in op.results):
            return
        if self.order > 1:
            raise UnsupportedError(
                "njit: a Taylor series of order > 1 through an opaque call; use nested jvp."
            )
        from .calls import _objects
        from .front.build import Interpreter
        from .front.calls import of_type
        from .front.objects import Tup, leaves

        args = _objects(op.attrs["structure"], iter(op.args))
        tangents = [
            self.of(a)[0] if ir.is_float(a.type) else ir.Const(0, ir.types.intp) for a in op.args
        ]
        outs = of_type(op.attrs["type"], iter(op.results))
        it = Interpreter.inside_block(self.f, self.b)
        dargs = _objects(op.attrs["structure"], iter(tangents))
        got = it.call_rule(op.attrs["rule"].jvp, [Tup(tuple(args)), outs, Tup(tuple(dargs))])
        for r, c in zip(op.results, leaves(got) or (), strict=True):
            if ir.is_float(r.type):
                self.series[r] = [
                    it.fitted(c, r)
                    if ir.is_array(r)
                    else scalars.cast(self.b, it.number(c), r.type)
                ]
