"""The scalar primitives of operator bodies as vector instructions.

`primitive` mirrors `kernels_cpu.scalar.template`: the same vocabulary for another target. A complex value is a `Pair` of real
ones. A primitive without vector form raises `NoVectorFormError`; the caller then runs the operator's eager kernel.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ..scalar import ROUNDING, VECMATH
from . import vecmath
from .text import FLOATS, SCALARS, Function, Value, const, lanes_of, scalar_of, vector


class NoVectorFormError(Exception):
    """There is no vector form of a primitive."""


class Pair(NamedTuple):
    """A complex value: real and imaginary part."""

    re: Value
    im: Value


Operand = Any  # Value or Pair

_ARITHMETIC = {
    "add": ("fadd", "add"),
    "sub": ("fsub", "sub"),
    "mul": ("fmul", "mul"),
    "div": ("fdiv", ""),
}
_BITWISE = {"and": "and", "or": "or", "xor": "xor"}
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_PER_LANE = {"lgamma": "lgamma"}  # of the C library, one lane at a time


@functools.cache
def kind_of(dtype: np.dtype, lanes: int) -> str:
    """The vector type of a real dtype."""
    if dtype.name not in SCALARS:
        raise NoVectorFormError(dtype.name)
    return vector(SCALARS[dtype.name], lanes)


def real_part(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex one."""
    return np.dtype("float64" if dtype.itemsize == 16 else "float32")


def constant(value: Any, dtype: np.dtype, lanes: int) -> Operand:
    """A constant in all lanes."""
    if dtype.kind == "c":
        z, part = complex(value), kind_of(real_part(dtype), lanes)
        return Pair(const(z.real, part), const(z.imag, part))
    return const(value, kind_of(dtype, lanes))


def primitive(fn: Function, op: str, dtype: np.dtype, args: list[Operand]) -> Operand:
    """Append primitive ``op`` with result ``dtype``.

    Raises
    ------
    NoVectorFormError : no vector form for these operands.
    """
    if op == "complex":
        return Pair(*args)
    if any(isinstance(a, Pair) for a in args):
        return _complex(fn, op, dtype, args)
    x = args[0]
    kind, scalar, n = x.type, scalar_of(x.type), lanes_of(x.type)
    floating = scalar in FLOATS
    if op in _ARITHMETIC:
        name = _ARITHMETIC[op][0 if floating else 1]
        if not name or scalar == "i1":
            raise NoVectorFormError(op)
        flags = " contract" if floating else ""
        return fn.emit(kind, f"{name}{flags} {x}, {args[1].text}")
    if op in _BITWISE:
        return fn.emit(kind, f"{_BITWISE[op]} {x}, {args[1].text}")
    if op in _COMPARE:
        return fn.emit(
            vector("i1", n), f"{_predicate(op, floating, dtype, args)} {x}, {args[1].text}"
        )
    if op == "select":
        return _select(fn, x, args[1], args[2])
    if op == "neg":
        return fn.emit(kind, f"fneg {x}" if floating else f"sub {const(0, kind)}, {x.text}")
    if op in ("not", "invert"):
        return fn.emit(kind, f"xor {x}, {const(1 if scalar == 'i1' else -1, kind).text}")
    if op == "cast":
        return cast(fn, x, dtype)
    if op in ("conj", "real"):
        return x
    if not floating:
        return _integer(fn, op, dtype, args)
    if op == "fmod":
        return fn.emit(kind, f"frem {x}, {args[1].text}")
    if op in ROUNDING or op == "copysign":
        return vecmath.intrinsic(fn, op, args)
    if op in VECMATH:
        return vecmath.call(fn, op, args)
    if op in _PER_LANE and scalar == "double":
        return _each_lane(fn, _PER_LANE[op], args)
    raise NoVectorFormError(op)


def _predicate(op: str, floating: bool, dtype: np.dtype, args: list[Value]) -> str:
    if floating:
        return f"fcmp {'u' if op == 'ne' else 'o'}{op}"
    if op in ("eq", "ne"):
        return f"icmp {op}"
    unsigned = scalar_of(args[0].type) in ("i1",)
    return f"icmp {'u' if unsigned else 's'}{op}"


def _select(fn: Function, c: Value, a: Operand, b: Operand) -> Operand:
    if isinstance(a, Pair):
        return Pair(_select(fn, c, a.re, b.re), _select(fn, c, a.im, b.im))
    return fn.emit(a.type, f"select {c}, {a}, {b}")


def _integer(fn: Function, op: str, dtype: np.dtype, args: list[Value]) -> Value:
    """Shifts and the floored quotient; everything else of integers is left to the eager kernel."""
    x = args[0]
    if op == "fabs" and dtype.kind == "i":
        negative = fn.emit(vector("i1", lanes_of(x.type)), f"icmp slt {x}, {const(0, x.type).text}")
        minus = fn.emit(x.type, f"sub {const(0, x.type)}, {x.text}")
        return _select(fn, negative, minus, x)
    if op in ("floor", "ceil", "rint", "trunc"):
        return x
    raise NoVectorFormError(f"{op} of {dtype.name}")


def cast(fn: Function, x: Value, dtype: np.dtype) -> Operand:
    """Convert to a dtype as NumPy does (floats to integers truncate)."""
    if dtype.kind == "c":
        part = cast(fn, x, real_part(dtype))
        return Pair(part, const(0, part.type))
    have, n = scalar_of(x.type), lanes_of(x.type)
    target = kind_of(dtype, n)
    want = scalar_of(target)
    if have == want:
        return x
    if want == "i1":
        op = "fcmp une" if have in FLOATS else "icmp ne"
        return fn.emit(target, f"{op} {x}, {const(0, x.type).text}")
    if have in FLOATS and want in FLOATS:
        op = "fpext" if want == "double" else "fptrunc"
    elif have in FLOATS:
        raise NoVectorFormError(f"cast of {have} to {want}")  # out of range is undefined in LLVM
    elif want in FLOATS:
        op = "uitofp" if have == "i1" else "sitofp"
    else:
        order = ("i1", "i8", "i16", "i32", "i64")
        grows = order.index(want) > order.index(have)
        op = ("zext" if have == "i1" else "sext") if grows else "trunc"
    return fn.emit(target, f"{op} {x} to {target}")


def _each_lane(fn: Function, name: str, args: list[Value]) -> Value:
    kind, n = args[0].type, lanes_of(args[0].type)
    if n == 1:
        return fn.call(name, kind, args)
    out = Value("poison", kind)
    scalar = scalar_of(kind)
    for i in range(n):
        one = [fn.emit(scalar, f"extractelement {a}, i64 {i}") for a in args]
        y = fn.call(name, scalar, one)
        out = fn.emit(kind, f"insertelement {out}, {y}, i64 {i}")
    return out


def _complex(fn: Function, op: str, dtype: np.dtype, args: list[Operand]) -> Operand:
    part = real_part(dtype) if dtype.kind == "c" else dtype

    def real(name: str, *xs: Value) -> Value:
        return primitive(fn, name, part, list(xs))

    z = args[0]
    if op == "select":
        return _select(fn, z, _paired(args[1]), _paired(args[2]))
    if op == "real":
        return z.re
    if op == "imag":
        return z.im
    if op == "conj":
        return Pair(z.re, real("neg", z.im))
    if op == "neg":
        return Pair(real("neg", z.re), real("neg", z.im))
    if op == "cast":
        return _complex_cast(fn, z, dtype)
    a, b = _paired(z), _paired(args[1])
    if op in ("add", "sub"):
        return Pair(real(op, a.re, b.re), real(op, a.im, b.im))
    if op == "mul":
        return Pair(
            real("sub", real("mul", a.re, b.re), real("mul", a.im, b.im)),
            real("add", real("mul", a.re, b.im), real("mul", a.im, b.re)),
        )
    if op in ("eq", "ne"):
        join = "and" if op == "eq" else "or"
        one = primitive(fn, op, dtype, [a.re, b.re])
        return primitive(fn, join, dtype, [one, primitive(fn, op, dtype, [a.im, b.im])])
    raise NoVectorFormError(f"complex {op}")


def _complex_cast(fn: Function, z: Pair, dtype: np.dtype) -> Operand:
    """To a real dtype the real part; to bool whether it is not zero."""
    if dtype.kind == "c":
        part = real_part(dtype)
        return Pair(cast(fn, z.re, part), cast(fn, z.im, part))
    if dtype.kind == "b":
        zero = const(0, z.re.type)
        return _complex(fn, "ne", dtype, [z, Pair(zero, zero)])
    return cast(fn, z.re, dtype)


def _paired(x: Operand) -> Pair:
    return x if isinstance(x, Pair) else Pair(x, const(0, x.type))
