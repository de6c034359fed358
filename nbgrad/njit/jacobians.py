"""``jacfwd``, ``jacrev`` and ``hessian``: handlers that call products with unit directions in a loop."""

from __future__ import annotations

from typing import Any

from numba import types

from ..errors import DTypeError, message
from . import derive, ir, jacobian_texts, scalars
from .checks import chosen, kind_of
from .front.build import Interpreter
from .front.objects import Py, Tup


class _Product:
    """A callable of the language that writes a derivative product."""

    def __init__(self, name: str, write: Any):
        self.__name__ = name
        self._nbgrad_front = lambda it, args, kwargs, node: write(it, *args)


def _call(it: Interpreter, text: Any, *args: Any) -> Any:
    return it.call_function(text, list(args), {}, derive.NODE)


def _leaf(name: str, x: Any, what: str) -> ir.Value:
    """An argument or a result as a real number or array."""
    t = x.type.dtype if isinstance(x, ir.Value) and ir.is_array(x) else getattr(x, "type", None)
    if not isinstance(x, ir.Value) or not isinstance(t, types.Float):
        raise DTypeError(
            message(
                f"njit.{name}",
                what,
                kind_of(x),
                "a real floating-point number or array",
                "Use jvp or vjp.",
            )
        )
    return x


def _value(it: Interpreter, function: Any, args: list[Any], name: str) -> ir.Value:
    """The function's value, for its shape."""
    program = derive.read(function, args)
    w = derive.Writer(it, program, name)
    w.own_copies()
    out = derive.inline(w.fn, [w.values[p] for p in w.params], it.b)
    return _leaf(name, w.result(out), "the function's result")


def jacrev(it: Interpreter, function: Any, args: list[Any], argnums: Any) -> Any:
    """Rows of the Jacobian by pullbacks."""
    where = chosen("jacrev", args, argnums)
    value = _value(it, function, args, "jacrev")
    if not ir.is_array(value):
        return derive.gradient(it, function, args, argnums, False, False, "jacrev")
    out = []
    for k in where:
        x = _leaf("jacrev", args[k], f"argument {k}")

        def write(inner: Interpreter, ct: Any, k: int = k) -> Any:
            return derive.pullback(inner, function, args, ct, k, "jacrev").items[1]

        pull = Py(_Product("pull", write))
        if ir.is_array(x):
            out.append(_call(it, jacobian_texts.rows, pull, value, x))
        else:
            out.append(_call(it, jacobian_texts.rows_of_number, pull, value))
    return derive.one_or_tuple(argnums, out)


def jacfwd(it: Interpreter, function: Any, args: list[Any], argnums: Any) -> Any:
    """Columns of the Jacobian by pushforwards."""
    where = chosen("jacfwd", args, argnums)
    value = _value(it, function, args, "jacfwd")

    def push_along(k: int) -> Any:
        return lambda inner, t: derive.pushforward(inner, function, args, t, k, 1, "jacfwd").items[
            1
        ]

    return derive.one_or_tuple(
        argnums, [_columns(it, push_along(k), value, args[k], "jacfwd", k) for k in where]
    )


def _columns(it: Interpreter, push: Any, value: ir.Value, x: Any, name: str, k: int) -> Any:
    """Derivatives of a value along every unit direction of an argument."""
    x = _leaf(name, x, f"argument {k}")
    if not ir.is_array(x):
        return push(it, scalars.cast(it.b, ir.Const(1.0, types.float64), x.type))
    text = jacobian_texts.columns if ir.is_array(value) else jacobian_texts.columns_of_number
    return _call(it, text, Py(_Product("push", push)), value, x)


def hessian(it: Interpreter, function: Any, args: list[Any], argnums: Any) -> Any:
    """Derivatives of the gradient along unit directions; a tuple of rows of blocks for several arguments."""
    where = chosen("hessian", args, argnums)

    def block(i: int, j: int) -> Any:
        def special(inner: Interpreter, objects: list[Any]) -> Any:
            return derive.gradient(inner, function, objects, i, False, False, "hessian")

        def push(inner: Interpreter, t: Any) -> Any:
            return derive.taylor(inner, function, args, t, j, 1, "hessian", special)[1][0]

        return _columns(it, push, _leaf("hessian", args[i], f"argument {i}"), args[j], "hessian", j)

    if isinstance(argnums, int):
        return block(where[0], where[0])
    return Tup(tuple(Tup(tuple(block(i, j) for j in where)) for i in where))
