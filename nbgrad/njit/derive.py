"""The transformations: gradients, products and Taylor series, as handlers of calls.

A handler gets the objects of a call under interpretation and writes the derivative program at that place. The door uses
the same handlers for a call from Python or from compiled code (a program that consists of that one call), so a
derivative inside a differentiated function is nothing special.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numba import types

from . import ir, scalars
from .adjoint import Pullback, adjoint
from .alias import Aliases, writes_in
from .checks import check_count, check_kind, check_like, check_written, chosen, value_of
from .front.build import Built, Interpreter, build
from .front.objects import Py, Tup, leaves, rebuild
from .regions import cut, refuse_others, time_loops
from .tangent import tangent

NODE = ast.Pass(lineno=1)


class Program(NamedTuple):
    """A function read for the objects of a call: the program, its parameters as objects, and the values to pass."""

    built: Built
    objects: list[Any]
    actual: list[ir.Value]


def read(function: Callable, args: Sequence[Any], special: Any = None) -> Program:
    """Interpret a function (or a transformation) for the kinds of some objects."""
    it = Interpreter(getattr(function, "__name__", "function"))
    actual: list[ir.Value] = []

    def parameter(x: Any, name: str) -> Any:
        if isinstance(x, Tup):
            return Tup(tuple(parameter(i, f"{name}_{k}") for k, i in enumerate(x.items)), x.cls)
        if isinstance(x, ir.Const) and not ir.is_float(x.type):
            return x  # kinds may hang on it
        if isinstance(x, ir.Value):
            p = it.fn.add_param(x.type, name)
            if ir.is_array(p):
                it.roots[p] = p
            actual.append(x)
            return p
        return x

    names = parameter_names(function, len(args))
    objects = [parameter(x, n) for x, n in zip(args, names, strict=True)]
    return Program(build(function, objects, it, special), objects, actual)


def parameter_names(function: Any, count: int) -> list[str]:
    """Names for parameters."""
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    names = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    return [names[k] if k < len(names) else f"arg{k}" for k in range(count)]


def inline(
    fn: ir.Function, args: Sequence[ir.Value], b: ir.Builder, top: ir.Block | None = None
) -> list[ir.Value]:
    """Write a program where the builder stands; tapes go to the top of the program written to."""
    mapping: dict[ir.Value, ir.Value] = dict(zip(fn.params, args, strict=True))
    top = top or list(b.block.chain())[-1]
    for op in fn.body.ops:
        if op.kind == "tape":
            ir.clone(op, mapping, top)
            top.ops.insert(0, top.ops.pop())
        else:
            ir.clone(op, mapping, b.block)
    return [mapping.get(v, v) for v in fn.results]


# -- writing -------------------------------------------------------------------------------------------------------


class Writer:
    """Writes a derivative into a program under interpretation."""

    def __init__(self, it: Interpreter, program: Program, name: str):
        self.it, self.program, self.name = it, program, name
        self.fn = program.built.fn
        self.params = list(self.fn.params)
        self.values = dict(zip(self.params, program.actual, strict=True))
        aliases = Aliases(self.fn)
        memories = {aliases.of(t) for t in writes_in(self.fn.body)}
        self.written = [p for p in self.params if ir.is_array(p) and aliases.of(p) in memories]
        it.deps.update(dict.fromkeys(program.built.deps))
        it.uses_parallel |= program.built.parallel

    def own_copies(self) -> None:
        """Copies of the arrays the function writes to, once it is sure that none of them is another argument."""
        b = self.it.b
        for p in self.written:
            for q in self.params:
                if q is not p and ir.is_array(q) and (q not in self.written or q.id > p.id):
                    if self.values[p] is self.values[q]:
                        ok: ir.Value = ir.Const(False, types.boolean)
                    else:
                        ok = b.op(
                            "disjoint", [self.values[p], self.values[q]], [types.boolean]
                        ).result
                    text = (
                        f"njit.{self.name}: the arguments '{p.name}' and '{q.name}' share memory and the function writes "
                        f"to '{p.name}'; expected separate arrays. Pass a copy of one of them."
                    )
                    b.op("check", [ok], attrs={"error": "ValueError", "message": text})
        for p in self.written:
            self.values[p] = copied_as(self.it, self.values[p], p.type)

    def zeros_like(self, v: ir.Value) -> ir.Value:
        """A new array of zeros, in Fortran's order where ``v`` is: views of both are made alike."""
        sizes = self.it.shape(v)
        if not _fortran(v.type):
            return self.it.alloc(sizes, v.type.dtype, 0, "d_" + v.name)
        made = self.it.alloc(sizes[::-1], v.type.dtype, 0, "d_" + v.name)
        return _turned(self.it, made)

    def index(self, v: ir.Value) -> int:
        """The position of a parameter."""
        return self.params.index(v)

    def pull(
        self, wrt: list[ir.Value], seeds: dict[int, ir.Value], shadows: dict[ir.Value, ir.Value]
    ) -> tuple[list, dict]:
        """Write the program with its reverse sweep; results, and the cotangents of the parameters in ``wrt``."""
        numbers = [self.index(v) for v in wrt if ir.is_float(v.type)]
        certain = not shadows and len(seeds) == 1 and all(ir.is_const(c, 1) for c in seeds.values())
        p = reversed_program(
            self.fn, numbers, list(seeds), [self.index(v) for v in shadows], certain
        )
        own = {
            k: shadows.get(self.params[k]) or self.zeros_like(self.values[self.params[k]])
            for k in p.shadows
        }
        args = (
            [self.values[q] for q in self.params]
            + [own[k] for k in p.shadows]
            + [seeds[k] for k in p.seeds]
        )
        out = inline(p.fn, args, self.it.b)
        count = len(out) - len(p.inputs)
        grads: dict[ir.Value, ir.Value] = {self.params[k]: own[k] for k in p.shadows}
        grads.update({self.params[k]: g for k, g in zip(p.inputs, out[count:])})
        for g in own.values():
            self.it.roots[g] = g
        return out[:count], grads

    def gradient(self, obj: Any, grads: dict) -> Any:
        """The cotangent of an argument: numbers, arrays, tuples of them; zeros for what is not floating-point."""
        parts = leaves(obj) or []
        out = []
        for p in parts:
            g = grads.get(p)
            if g is None and ir.is_array(p):
                g = self.zeros_like(self.values[p])
            out.append(g if g is not None else scalars.zero(p.type))
        return rebuild(obj, out)

    def result(self, values: Sequence[ir.Value]) -> Any:
        """The function's result from the values a program returned."""
        r = self.program.built.result
        for v in values:
            self.it.roots.setdefault(v, None)
        return r if isinstance(r, Py) else rebuild(r, values)


def reversed_program(
    f: ir.Function, wrt: list[int], seeds: list[int], outputs: list[int], gradient: bool = False
) -> Pullback:
    """The adjoint; time loops that would keep arrays in every iteration are cut into stretches first.

    ``gradient``: the only seed is 1.
    """
    where = time_loops(f)
    refuse_others(f, where)
    if where:
        trial = adjoint(ir.clone_function(f), wrt, seeds, outputs, gradient)
        asked = [k for k in where if f.body.ops[k].attrs.get("every") is not None]
        if asked or keeps_much(trial.fn):
            cut(f, where if keeps_much(trial.fn) else asked)
    return adjoint(f, wrt, seeds, outputs, gradient)


def keeps_much(f: ir.Function) -> bool:
    """Whether a program keeps values in inner loops (arrays with several indices, stacks) or copies of arrays."""
    for op in ir.walk(f.body):
        if op.kind == "tape" or (
            op.kind == "alloc" and ir.is_kept(op.result) and op.result.type.ndim > 1
        ):
            return True
        if (
            op.kind == "alloc"
            and op.result.name == "kept"
            and op.block is f.body
            and op.result.type.ndim > 2
        ):
            return True
    return False


def one_or_tuple(argnums: Any, items: list[Any]) -> Any:
    """One object for an int, a tuple for a sequence."""
    return items[0] if isinstance(argnums, int) else Tup(tuple(items))


def gradient(
    it: Interpreter,
    function: Any,
    args: list[Any],
    argnums: Any,
    has_aux: bool,
    with_value: bool,
    name: str,
) -> Any:
    """``grad`` and ``value_and_grad``."""
    where = chosen(name, args, argnums)
    program = read(function, args)
    w = Writer(it, program, name)
    value = value_of(name, program.built, has_aux)
    seed = w.fn.results.index(value)
    w.own_copies()
    wrt = [v for k in where for v in leaves(program.objects[k]) or []]
    values, grads = w.pull(wrt, {seed: ir.Const(1.0, value.type)}, {})
    grad = one_or_tuple(argnums, [w.gradient(program.objects[k], grads) for k in where])
    result = w.result(values)
    if with_value:
        return Tup((result, grad))
    return Tup((grad, result.items[1])) if has_aux else grad


def pullback(
    it: Interpreter, function: Any, args: list[Any], cotangent: Any, argnums: Any, name: str = "vjp"
) -> Any:
    """``vjp``: the value and the products of a cotangent with the Jacobian."""
    where = chosen(name, args, argnums)
    program = read(function, args)
    w = Writer(it, program, name)
    w.own_copies()
    wrt = [v for k in where for v in leaves(program.objects[k]) or []]
    r = program.built.result
    if isinstance(r, Py):
        outs = [p for p in w.written if ir.is_float(p.type)]
        check_written(name, outs)
        cts = leaves(cotangent) or []
        check_count(name, len(cts), len(outs))
        for q, c in zip(outs, cts, strict=True):
            check_like(it, name, w.values[q], c, "cotangent")
        shadows = {p: copied_as(it, c, p.type) for p, c in zip(outs, cts, strict=True)}
        _, grads = w.pull(wrt, {}, shadows)
        value: Any = [w.values[p] for p in outs]
        value = value[0] if len(value) == 1 else Tup(tuple(value))
    else:
        parts = leaves(r) or []
        cts = leaves(cotangent) or []
        check_count(name, len(cts), len(parts))
        for q, c in zip(parts, cts, strict=True):
            check_kind(name, q, c, "cotangent")
        seeds = {
            k: c if ir.is_array(p) else it.cast(c, p.type)
            for k, (p, c) in enumerate(zip(parts, cts, strict=True))
            if ir.is_float(p.type)
        }
        values, grads = w.pull(wrt, seeds, {})
        value = w.result(values)
    return Tup(
        (value, one_or_tuple(argnums, [w.gradient(program.objects[k], grads) for k in where]))
    )


def taylor(
    it: Interpreter,
    function: Any,
    args: list[Any],
    tangents: Any,
    argnums: Any,
    order: int,
    name: str,
    special: Any = None,
) -> tuple[Any, list[Any]]:
    """The value and ``order`` Taylor coefficients (as objects like the value) along a direction."""
    where = chosen(name, args, argnums)
    program = read(function, args, special)
    w = Writer(it, program, name)
    w.own_copies()
    wrt = [v for k in where for v in leaves(program.objects[k]) or []]
    given = leaves(tangents) or []
    check_count(name, len(given), len(wrt))
    for v, t in zip(wrt, given, strict=True):
        check_like(it, name, w.values.get(v, v), t, "tangent")
    pairs = [(w.index(v), t) for v, t in zip(wrt, given, strict=True) if ir.is_float(v.type)]
    p = tangent(w.fn, [k for k, _ in pairs], order)
    directions = dict(pairs)
    series = []
    for k in p.inputs:
        q = w.params[k]
        for n in range(order):
            if n == 0 and k in directions:
                series.append(first_tangent(w, q, directions[k]))
            else:
                series.append(w.zeros_like(w.values[q]) if ir.is_array(q) else scalars.zero(q.type))
    out = inline(p.fn, [*(w.values[q] for q in w.params), *series], it.b)
    r = program.built.result
    if isinstance(r, Py):
        outs = [q for q in w.written if ir.is_float(q.type)]
        check_written(name, outs)
        tangent_of = {k: series[i * order : (i + 1) * order] for i, k in enumerate(p.inputs)}
        value = _maybe_tuple([w.values[q] for q in outs])
        coefficients = [
            _maybe_tuple(
                [
                    tangent_of[w.index(q)][n]
                    if w.index(q) in tangent_of
                    else w.zeros_like(w.values[q])
                    for q in outs
                ]
            )
            for n in range(order)
        ]
        return value, coefficients
    parts = leaves(r) or []
    n = len(parts)
    value = rebuild(r, out[:n])
    coefficients = [rebuild(r, [out[n + i * order + j] for i in range(n)]) for j in range(order)]
    return value, coefficients


def first_tangent(w: Writer, q: ir.Value, t: ir.Value) -> ir.Value:
    """A tangent as the program takes it: of the parameter's dtype, and its own memory if the program writes to it."""
    if not ir.is_array(q):
        return w.it.cast(t, q.type)
    other = q.type.layout != "A" and t.type.layout != q.type.layout
    if q in w.written or t.type.dtype != q.type.dtype or other:
        return copied_as(w.it, t, q.type)
    return t


def _fortran(t: Any) -> bool:
    return t.layout == "F" and t.ndim > 1


def _turned(it: Interpreter, a: ir.Value) -> ir.Value:
    return it.transposed(a, tuple(reversed(range(a.type.ndim))))


def copied_as(it: Interpreter, a: ir.Value, t: Any) -> ir.Value:
    """A copy of an array with the dtype and the order of a type: views that the type allows can be made of it."""
    if not _fortran(t):
        return it.copied(a, t.dtype)
    return _turned(it, it.copied(_turned(it, a), t.dtype))


def _maybe_tuple(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else Tup(tuple(items))


def pushforward(
    it: Interpreter,
    function: Any,
    args: list[Any],
    tangents: Any,
    argnums: Any,
    order: int,
    name: str,
) -> Tup:
    """``jvp`` and ``jet``: derivatives along a direction."""
    value, coefficients = taylor(it, function, args, tangents, argnums, order, name)
    out = [value]
    for n, c in enumerate(coefficients, 1):
        parts = leaves(c) or []
        factor = math.factorial(n)
        out.append(c if factor == 1 else rebuild(c, [scaled(it, v, factor) for v in parts]))
    return Tup(tuple(out))


def scaled(it: Interpreter, v: ir.Value, factor: int) -> ir.Value:
    """A number or array times an integer."""
    if not ir.is_float(v.type):
        return v
    r = it.elementwise("mul", [v, ir.Const(float(factor), types.float64)], NODE)
    t = v.type.dtype if ir.is_array(v) else v.type
    return it.as_type(r, t, NODE) if ir.is_array(v) else it.cast(r, t)


def hessian_product(it: Interpreter, function: Any, args: list[Any], v: Any, argnums: Any) -> Any:
    """``hvp``: the tangent of the gradient."""

    def special(inner: Interpreter, objects: list[Any]) -> Any:
        return gradient(inner, function, objects, argnums, False, False, "hvp")

    _, coefficients = taylor(it, function, args, v, argnums, 1, "hvp", special)
    return coefficients[0]
