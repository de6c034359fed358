"""Scalar expressions: the one intermediate form of operator bodies and partial derivatives.

A body such as ``lambda x: m.tanh(x)`` and a partial such as ``lambda x, out: 1 - out * out`` are *run* on `Expr`
objects. What comes out is a typed expression graph that is emitted as straight-line source for the CPU or for
CUDA (operator bodies must be inlined there: a call would need a driver to compile), and that the compiler can fuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import DTypeError


class Expr:
    """One typed scalar value: ``op`` applied to ``args``; ``const`` and ``input`` are the leaves."""

    __slots__ = ("args", "dtype", "op", "value")
    __hash__ = object.__hash__

    def __init__(self, op: str, args: tuple[Expr, ...], dtype: np.dtype, value: Any = None):
        self.op, self.args, self.dtype, self.value = op, args, dtype, value

    def __repr__(self) -> str:
        if self.op in ("const", "input"):
            return f"{self.value}"
        return f"{self.op}({', '.join(map(repr, self.args))})"

    def __add__(self, o):
        return prim("add", self, o)

    def __radd__(self, o):
        return prim("add", o, self)

    def __sub__(self, o):
        return prim("sub", self, o)

    def __rsub__(self, o):
        return prim("sub", o, self)

    def __mul__(self, o):
        return prim("mul", self, o)

    def __rmul__(self, o):
        return prim("mul", o, self)

    def __truediv__(self, o):
        return prim("div", self, o)

    def __rtruediv__(self, o):
        return prim("div", o, self)

    def __neg__(self):
        return prim("neg", self)

    def __pow__(self, o):
        return prim("pow", self, o)

    def __lt__(self, o):
        return prim("lt", self, o)

    def __le__(self, o):
        return prim("le", self, o)

    def __gt__(self, o):
        return prim("gt", self, o)

    def __ge__(self, o):
        return prim("ge", self, o)

    def __eq__(self, o):  # type: ignore[override]
        return prim("eq", self, o)

    def __ne__(self, o):  # type: ignore[override]
        return prim("ne", self, o)

    def __and__(self, o):
        return prim("and", self, o)

    def __or__(self, o):
        return prim("or", self, o)

    def __xor__(self, o):
        return prim("xor", self, o)

    def __invert__(self):
        return prim("not" if self.dtype.kind == "b" else "invert", self)

    def __bool__(self):
        raise DTypeError(
            "an operator body branched on a scalar value; bodies are traced, so use m.select(cond, a, b)"
        )


_BOOL_RESULT = {"lt", "le", "gt", "ge", "eq", "ne", "not"}
_REAL_RESULT = {"real", "imag", "cabs", "carg"}
# complex primitives that are expanded into real ones while tracing: filled by codegen.complexes
LOWERED: dict[str, Callable[..., Expr]] = {}


def inputs(dtypes: Sequence[np.dtype], prefix: str = "x") -> list[Expr]:
    """Input leaves named ``x0, x1, ...``."""
    return [Expr("input", (), d, f"{prefix}{i}") for i, d in enumerate(dtypes)]


def const(value: complex, dtype: np.dtype) -> Expr:
    """A typed constant."""
    return Expr("const", (), dtype, value)


def prim(op: str, *args: Any) -> Expr:
    """Apply a primitive; Python numbers take the dtype of the Expr operands (weak scalars)."""
    first = next(a for a in (args[1:] if op == "select" else args) if isinstance(a, Expr))
    dtype = first.dtype
    wrapped = tuple(a if isinstance(a, Expr) else const(a, _weak(dtype, a, op)) for a in args)
    simple = _simplify(op, wrapped)
    if simple is not None:
        return simple
    if dtype.kind == "c" and op in LOWERED:
        return LOWERED[op](*wrapped)
    if op in _BOOL_RESULT:
        dtype = dt.bool_
    elif op in _REAL_RESULT:
        dtype = dt.to_real(dtype)
    return Expr(op, wrapped, dtype)


def _weak(dtype: np.dtype, value: Any, op: str) -> np.dtype:
    if dtype.kind == "b" and not isinstance(value, bool):
        raise DTypeError(
            f"operator body: number {value!r} used with a bool in '{op}'; cast it first"
        )
    return dtype


def _is_const(e: Expr, value: float) -> bool:
    return e.op == "const" and e.value == value


def _simplify(op: str, args: tuple[Expr, ...]) -> Expr | None:
    """Only identities that keep every IEEE result, signed zeros and NaN included."""
    if op == "mul":
        if _is_const(args[0], 1):
            return args[1]
        if _is_const(args[1], 1):
            return args[0]
        if _is_const(args[0], -1):
            return prim("neg", args[1])
        if _is_const(args[1], -1):
            return prim("neg", args[0])
    elif op == "div" and _is_const(args[1], 1):
        return args[0]
    elif op == "neg" and args[0].op == "neg":
        return args[0].args[0]
    elif op in ("real", "conj") and args[0].dtype.kind != "c":
        return args[0]
    if op in ("add", "sub", "mul", "neg") and all(a.op == "const" for a in args):
        v = [a.value for a in args]
        fold: dict[str, Callable] = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "neg": lambda a: -a,
        }
        return const(fold[op](*v), args[0].dtype)
    return None


class _Primitives:
    """``m.exp(x)``, ``m.select(c, a, b)``, ``m.cast(x, dtype)`` ...: the vocabulary of operator bodies."""

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        op = {"and_": "and", "or_": "or", "not_": "not"}.get(name, name)

        def call(*args: Any) -> Expr:
            return prim(op, *args)

        setattr(self, name, call)
        return call

    @staticmethod
    def cast(x: Expr, dtype: np.dtype) -> Expr:
        """Convert to a dtype (complex to real takes the real part)."""
        if x.dtype == dtype:
            return x
        if x.op == "const":
            return const(x.value, dtype)
        if x.dtype.kind == "c" and dtype.kind != "c":
            x = prim("real", x)
            if x.dtype == dtype:
                return x
        return Expr("cast", (x,), dtype)

    @staticmethod
    def isnan(x: Expr) -> Expr:
        """True where NaN."""
        if x.dtype.kind == "c":
            return m.or_(m.isnan(m.real(x)), m.isnan(m.imag(x)))
        return x != x

    @staticmethod
    def const(value: complex, like: Expr) -> Expr:
        """A constant of the dtype of ``like``."""
        return const(value, like.dtype)

    @staticmethod
    def polyval(x: Expr, coefficients: Sequence[float]) -> Expr:
        """Horner's rule, highest power first."""
        acc: Any = const(coefficients[0], x.dtype)
        for c in coefficients[1:]:
            acc = acc * x + c
        return acc


m: Any = _Primitives()


def free_inputs(exprs: Sequence[Expr]) -> set[str]:
    """Names of the inputs the expressions read."""
    seen: set[int] = set()
    found: set[str] = set()
    stack = list(exprs)
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if e.op == "input":
            found.add(e.value)
        stack.extend(e.args)
    return found


def literal(value: Any, dtype: np.dtype) -> str:
    """Source text of a typed constant; ``inf`` and ``nan`` are names in the kernel's namespace."""
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind in "iu":
        return f"{dtype.name}({int(value)})"
    if dtype.kind == "c":
        z = complex(value)
        return f"{dtype.name}(complex({_real(z.real)}, {_real(z.imag)}))"
    return _real(float(value)) if dtype is dt.float64 else f"{dtype.name}({_real(float(value))})"


def _real(v: float) -> str:
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "(-inf)"
    return repr(v)


def emit(
    outputs: Sequence[Expr], template: Callable[[Expr, Sequence[str]], str]
) -> tuple[list[str], list[str]]:
    """Straight-line source of the expressions with common subexpressions shared.

    ``template(expr, argument_names)`` returns the source text of one primitive for a target.
    Returns the assignment lines and the names (or literals) of the outputs.
    """
    lines: list[str] = []
    names: dict[Any, str] = {}
    by_id: dict[int, str] = {}

    def leaf(e: Expr) -> str | None:
        if e.op == "const":
            return literal(e.value, e.dtype)
        return e.value if e.op == "input" else None

    for root in outputs:
        stack = [root]
        while stack:
            e = stack[-1]
            if id(e) in by_id:
                stack.pop()
                continue
            text = leaf(e)
            if text is not None:
                by_id[id(e)] = text
                stack.pop()
                continue
            pending = [a for a in e.args if id(a) not in by_id]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            args = [by_id[id(a)] for a in e.args]
            key = (e.op, tuple(args), e.dtype)
            if key not in names:
                names[key] = f"t{len(names)}"
                lines.append(f"{names[key]} = {template(e, args)}")
            by_id[id(e)] = names[key]
    return lines, [by_id[id(r)] for r in outputs]
