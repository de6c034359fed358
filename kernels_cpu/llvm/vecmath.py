"""The vecmath functions as vector code: their Python sources are run on values of an LLVM function.

One source serves the eager kernels (compiled by Numba, lane by lane) and the compiler (vectors): both give the same bits.
"""

from __future__ import annotations

import functools
import json
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import objcache
from . import jit
from .memory import gather
from .text import FLOATS, Function, Module, Value, const, lanes_of, scalar_of, suffix, vector

_FLOATING: tuple[Any, ...] = (float, np.floating)  # plain classes to static checkers
_SUFFIX = {"double": "f64", "float": "f32"}


class Lane:
    """A value inside a vecmath function: Python operators append instructions."""

    __slots__ = ("fn", "value")
    __hash__ = object.__hash__

    def __init__(self, fn: Function, value: Value):
        self.fn, self.value = fn, value

    def like(self, other: Any) -> Lane:
        """``other`` as a value of this one's type."""
        if isinstance(other, Lane):
            return other
        kind = self.value.type
        if isinstance(other, _FLOATING) and scalar_of(kind) not in FLOATS:
            raise TypeError(f"vecmath: a float meets an integer value ({kind})")
        return Lane(self.fn, const(other, kind))

    def _both(self, other: Any, float_op: str, int_op: str, swap: bool = False) -> Lane:
        o = self.like(other)
        a, b = (o, self) if swap else (self, o)
        a, b = _same_width(a, b)
        op = float_op if scalar_of(a.value.type) in FLOATS else int_op
        return Lane(self.fn, self.fn.emit(a.value.type, f"{op} {a.value}, {b.value.text}"))

    def _compare(self, other: Any, predicate: str) -> Lane:
        a, b = _same_width(self, self.like(other))
        kind = a.value.type
        floating = scalar_of(kind) in FLOATS
        unordered = "u" if predicate == "ne" else "o"
        signed = predicate if predicate in ("eq", "ne") else "s" + predicate
        op = f"fcmp {unordered}{predicate}" if floating else f"icmp {signed}"
        out = vector("i1", lanes_of(kind))
        return Lane(self.fn, self.fn.emit(out, f"{op} {a.value}, {b.value.text}"))

    def __add__(self, o):
        return self._both(o, "fadd", "add")

    def __radd__(self, o):
        return self._both(o, "fadd", "add", swap=True)

    def __sub__(self, o):
        return self._both(o, "fsub", "sub")

    def __rsub__(self, o):
        return self._both(o, "fsub", "sub", swap=True)

    def __mul__(self, o):
        return self._both(o, "fmul", "mul")

    def __rmul__(self, o):
        return self._both(o, "fmul", "mul", swap=True)

    def __truediv__(self, o):
        return self._both(o, "fdiv", "fdiv")

    def __rtruediv__(self, o):
        return self._both(o, "fdiv", "fdiv", swap=True)

    def __and__(self, o):
        return self._both(o, "and", "and")

    def __or__(self, o):
        return self._both(o, "or", "or")

    def __xor__(self, o):
        return self._both(o, "xor", "xor")

    def __lshift__(self, o):
        return self._both(o, "shl", "shl")

    def __rshift__(self, o):
        return self._both(o, "ashr", "ashr")

    def __neg__(self):
        kind = self.value.type
        if scalar_of(kind) in FLOATS:
            return Lane(self.fn, self.fn.emit(kind, f"fneg {self.value}"))
        return 0 - self

    def __invert__(self):
        kind = self.value.type
        return Lane(self.fn, self.fn.emit(kind, f"xor {self.value}, {const(-1, kind).text}"))

    def __lt__(self, o):
        return self._compare(o, "lt")

    def __le__(self, o):
        return self._compare(o, "le")

    def __gt__(self, o):
        return self._compare(o, "gt")

    def __ge__(self, o):
        return self._compare(o, "ge")

    def __eq__(self, o):  # type: ignore[override]
        return self._compare(o, "eq")

    def __ne__(self, o):  # type: ignore[override]
        return self._compare(o, "ne")

    def __bool__(self):
        raise TypeError("vecmath: a function branched on a value; use select")


def _same_width(a: Lane, b: Lane) -> tuple[Lane, Lane]:
    """Numba's promotion: int32 meets int64, float32 meets float64."""
    one, two = scalar_of(a.value.type), scalar_of(b.value.type)
    if one == two:
        return a, b
    wide = "double" if one in FLOATS else "i64"
    return _convert(a, wide), _convert(b, wide)


def _convert(x: Lane, kind: str) -> Lane:
    have, target = scalar_of(x.value.type), vector(kind, lanes_of(x.value.type))
    if have == kind:
        return x
    op = {
        ("float", "double"): "fpext",
        ("double", "float"): "fptrunc",
        ("i32", "i64"): "sext",
        ("i64", "i32"): "trunc",
        ("i64", "double"): "sitofp",
        ("i32", "double"): "sitofp",
        ("i32", "float"): "sitofp",
    }[have, kind]
    return Lane(x.fn, x.fn.emit(target, f"{op} {x.value} to {target}"))


def _first(*args: Any) -> Lane:
    return next(a for a in args if isinstance(a, Lane))


def _intrinsic(name: str) -> Callable:
    def call(*args: Any) -> Lane:
        x = _first(*args)
        values = [x.like(a).value for a in args]
        return Lane(x.fn, intrinsic(x.fn, name, values))

    return call


def intrinsic(fn: Function, name: str, args: list[Value]) -> Value:
    """Call the LLVM intrinsic ``name`` overloaded on the type of its arguments."""
    kind = args[0].type
    return fn.call(f"llvm.{name}.{suffix(kind)}", kind, args)


def _select(c: Any, a: Any, b: Any) -> Lane:
    some: Any = a if isinstance(a, Lane) else b
    if isinstance(some, Lane):
        one, two = _same_width(some.like(a), some.like(b))
    else:
        scalar = "float" if getattr(a, "dtype", None) == np.float32 else "double"
        kind = vector(scalar if isinstance(a, _FLOATING) else "i64", lanes_of(c.value.type))
        one, two = Lane(c.fn, const(a, kind)), Lane(c.fn, const(b, kind))
    text = f"select {c.value}, {one.value}, {two.value}"
    return Lane(c.fn, c.fn.emit(one.value.type, text))


def _bits(source: str, kind: str) -> Callable:
    def cast(x: Lane) -> Lane:
        if scalar_of(x.value.type) == "i64" and source == "i32":
            x = _convert(x, "i32")
        target = vector(kind, lanes_of(x.value.type))
        return Lane(x.fn, x.fn.emit(target, f"bitcast {x.value} to {target}"))

    return cast


def _lshr(x: Lane, count: Any) -> Lane:
    return x._both(count, "lshr", "lshr")


def _poly(x: Lane, coefficients: Any) -> Lane:
    total = x.like(float(coefficients[-1]))
    for c in reversed(coefficients[:-1]):
        total = _mad(total, x, float(c))
    return total


def _two_sum(a: Any, b: Any) -> tuple[Lane, Lane]:
    x = _first(a, b)
    a, b = x.like(a), x.like(b)
    total = a + b
    b_part = total - a
    a_part = total - b_part
    return total, (a - a_part) + (b - b_part)


def _fast_two_sum(a: Any, b: Any) -> tuple[Lane, Lane]:
    x = _first(a, b)
    a, b = x.like(a), x.like(b)
    total = a + b
    return total, (a - total) + b


def _two_prod(a: Any, b: Any) -> tuple[Lane, Lane]:
    x = _first(a, b)
    a, b = x.like(a), x.like(b)
    product = a * b
    return product, _fma(a, b, -product)


_mad, _fma = _intrinsic("fmuladd"), _intrinsic("fma")


class _Table:
    """A global array: indexing gathers lane by lane."""

    def __init__(self, name: str, values: np.ndarray):
        self.name, self.values = name, values

    def __getitem__(self, index: Lane) -> Lane:
        fn, n = index.fn, lanes_of(index.value.type)
        fn.module.table(self.name, self.values)
        base = Value(f"@{self.name}", "ptr")
        if n == 1:
            return Lane(fn, fn.load(fn.at(base, index.value, "double"), "double"))
        places = fn.emit(f"<{n} x ptr>", f"getelementptr double, {base}, {index.value}")
        return Lane(fn, gather(fn, places, vector("double", n)))


class _Numpy:
    """What the sources use of NumPy: conversions of values, constants otherwise."""

    @staticmethod
    def _cast(kind: str, plain: Any) -> Callable:
        return lambda x: _convert(x, kind) if isinstance(x, Lane) else plain(x)

    float64 = _cast("double", np.float64)
    float32 = _cast("float", np.float32)
    int64 = _cast("i64", np.int64)
    int32 = _cast("i32", np.int32)


_PRIMITIVES: dict[str, Any] = {
    "select": _select,
    "fma": _fma,
    "mad": _mad,
    "poly": _poly,
    "two_sum": _two_sum,
    "fast_two_sum": _fast_two_sum,
    "two_prod": _two_prod,
    "lshr": _lshr,
    "rint": _intrinsic("rint"),
    "sqrt": _intrinsic("sqrt"),
    "fabs": _intrinsic("fabs"),
    "copysign": _intrinsic("copysign"),
    "f64_bits": _bits("double", "i64"),
    "bits_f64": _bits("i64", "double"),
    "f32_bits": _bits("float", "i32"),
    "bits_f32": _bits("i32", "float"),
    "np": _Numpy,
}


@functools.cache
def _traceable(function: Any) -> Callable:
    """A dispatcher's Python function over `Lane` values."""
    source = function.py_func
    scope: dict[str, Any] = {"__builtins__": __builtins__}
    used = set(source.__code__.co_names)
    for name in used:
        value = source.__globals__.get(name)
        if name in _PRIMITIVES:
            scope[name] = _PRIMITIVES[name]
        elif hasattr(value, "py_func"):
            scope[name] = _traceable(value)
        elif isinstance(value, np.ndarray):
            scope[name] = _Table(f"vm.{name}", value)
        elif value is not None:
            scope[name] = value
    return types.FunctionType(source.__code__, scope, source.__name__, source.__defaults__)


def call(fn: Function, name: str, args: list[Value]) -> Value:
    """Call a vecmath function on scalars or vectors; it is added to the module on first use."""
    kind = args[0].type
    symbol = f"vm.{name}.{_SUFFIX[scalar_of(kind)]}.{lanes_of(kind)}"
    if symbol not in fn.module.functions:
        _add(fn.module, symbol, name, kind, len(args))
    return fn.call(symbol, kind, args)


def _add(module: Module, symbol: str, name: str, kind: str, count: int) -> None:
    """Put a function into a module; its text is kept on disk, for its sources need Numba to be imported."""
    key = objcache.digest("vecmath text", jit.emitters_digest(), str(jit.lanes()), symbol)
    kept = objcache.load_text(key)
    if kept is None:
        alone = Module()
        _define(alone, symbol, name, kind, count)
        kept = json.dumps([alone.functions, alone.declared, alone.globals])
        objcache.store_text(key, kept)
    functions, declared, tables = json.loads(kept)
    module.functions.update(functions)
    module.declared.update(declared)
    module.globals.update(tables)


_NEAR = ("sin", "cos")  # there is a faster version for moderate arguments


def _define(module: Module, symbol: str, name: str, kind: str, count: int) -> None:
    from .. import vecmath
    from ..vecmath import _trig

    scalar = scalar_of(kind)
    dtype = "float64" if scalar == "double" else "float32"
    params = [Value(f"%a{i}", kind) for i in range(count)]
    fn = Function(module, symbol, params, kind, "internal", f"{jit.attributes()} noinline")
    lanes = [Lane(fn, p) for p in params]
    full = _traceable(vecmath.TABLE[name, dtype])
    if name not in _NEAR or scalar != "double":
        fn.finish(full(*lanes).value)
        return
    far = intrinsic_abs_above(fn, params[0], _trig.NEAR)
    fn.branch(far, "far", "near")
    fn.label("near")
    fn.finish_early(_traceable(getattr(_trig, f"{name}_near_f64"))(*lanes).value)
    fn.label("far")
    fn.finish(full(*lanes).value)


def intrinsic_abs_above(fn: Function, x: Value, bound: float) -> Value:
    """Whether any lane exceeds a bound in magnitude (NaN does not)."""
    size = intrinsic(fn, "fabs", [x])
    n = lanes_of(x.type)
    big = fn.emit(vector("i1", n), f"fcmp ogt {size}, {const(bound, x.type).text}")
    return big if n == 1 else fn.call(f"llvm.vector.reduce.or.v{n}i1", "i1", [big])
