"""Checks of what the transformations are given, with our own errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types

from ..errors import ArgumentError, DTypeError, message
from . import ir
from .front.build import Built, Interpreter
from .front.kinds import dtype_of
from .front.objects import Py, Tup, Undefined, leaves


def chosen(name: str, args: Sequence[Any], argnums: Any) -> list[int]:
    """The positions of the arguments to differentiate with respect to."""
    found = []
    for k in (argnums,) if isinstance(argnums, int) else argnums:
        if not -len(args) <= k < len(args):
            raise ArgumentError(
                message(f"njit.{name}", "argnums", k, f"a position among the {len(args)} arguments")
            )
        found.append(k % len(args))
        check_differentiable(name, args[found[-1]], k)
    return found


def check_differentiable(name: str, x: Any, k: int) -> None:
    """Raise for an argument that has no derivative."""
    parts = leaves(x) if not isinstance(x, Py) else None
    if not parts or not any(ir.is_float(p.type) for p in parts):
        from .front.base import describe

        given = (
            x.why.removeprefix("it is ")
            if isinstance(x, Undefined)
            else str(parts[0].type)
            if parts
            else describe(x)
        )
        raise DTypeError(
            message(
                f"njit.{name}",
                f"argument {k}",
                given,
                "floating-point numbers or arrays",
                x.instead
                if isinstance(x, Undefined)
                else "Pass a float (2.0 instead of 2), or choose another argument with argnums.",
            )
        )


def value_of(name: str, built: Built, has_aux: bool) -> ir.Value:
    """The number a function returns, first of (value, aux) with has_aux."""
    r = built.result
    if has_aux:
        if not isinstance(r, Tup) or len(r.items) != 2:
            raise ArgumentError(
                message(
                    f"njit.{name}", "the result with has_aux", kind_of(r), "a pair (value, aux)"
                )
            )
        r = r.items[0]
    if not isinstance(r, ir.Value) or ir.is_array(r) or not isinstance(r.type, types.Float):
        what = (
            "Take real or imag of it."
            if isinstance(r, ir.Value) and isinstance(r.type, types.Complex)
            else ("Reduce it to one number, or use jacrev, jacfwd or vjp.")
        )
        raise DTypeError(
            message(
                f"njit.{name}",
                "the function's result",
                kind_of(r),
                "one real floating-point number",
                what,
            )
        )
    return r


def kind_of(x: Any) -> str:
    """An object, in words."""
    from .front.base import describe

    return describe(x)


def check_written(name: str, written: Sequence[ir.Value]) -> None:
    """Raise for a function without result that writes to nothing, either."""
    if not written:
        raise DTypeError(
            message(
                f"njit.{name}",
                "the function's result",
                "None, and it writes to no argument of floating dtype",
                "numbers or arrays, returned or written",
            )
        )


def check_count(name: str, given: int, expected: int) -> None:
    """Raise if a cotangent or tangent does not have the structure of what it belongs to."""
    if given != expected:
        raise ArgumentError(
            message(
                f"njit.{name}",
                "the cotangent or tangent",
                f"of {given} parts",
                f"{expected} (numbers and arrays)",
            )
        )


def check_kind(name: str, v: ir.Value, t: ir.Value, what: str) -> None:
    """Raise if a tangent or cotangent is a number where an array is needed, or has other dimensions."""
    alike = ir.is_array(v) == ir.is_array(t) and (not ir.is_array(v) or v.type.ndim == t.type.ndim)
    if isinstance(dtype_of(t), types.Complex) and not isinstance(dtype_of(v), types.Complex):
        raise DTypeError(
            message(
                f"njit.{name}",
                f"the {what}",
                f"complex ({kind_of(t)})",
                f"real numbers, like {kind_of(v)}",
                "Take real of it.",
            )
        )
    if not alike:
        raise ArgumentError(
            message(
                f"njit.{name}",
                f"the {what}",
                kind_of(t),
                kind_of(v),
                f"Give the {what} the shape of what it belongs to.",
            )
        )


def check_like(it: Interpreter, name: str, v: ir.Value, t: ir.Value, what: str) -> None:
    """Raise for a wrong kind, and at run time for a wrong shape."""
    check_kind(name, v, t, what)
    if ir.is_array(v):
        text = f"njit.{name}: a {what} has another shape than the array it belongs to; give it the same shape."
        for n, m in zip(it.shape(v), it.shape(t), strict=True):
            it.b.op("check", [it.apply("eq", n, m)], attrs={"error": "ValueError", "message": text})
