"""The front end's entry: a function and the types of its arguments become a `Built` program."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from numba import types

from .. import ir
from ..simplify import simplify
from ..tidy import tidy
from . import source
from .base import Frame
from .calls import Calls
from .objects import Lazy, Py, Tup, Undefined, leaves, rebuild


class Built(NamedTuple):
    """A program, the objects its arguments and its result are made of, and the functions it was read from."""

    fn: ir.Function
    args: list[Any]
    result: Any
    deps: tuple
    parallel: bool


USABLE = "Pass numbers, arrays and tuples."


def usable(t: Any) -> bool:
    """Whether Numba computes with numbers (or records) of a type."""
    return isinstance(t, types.Number | types.Boolean | types.Record) and t != types.float16


class Interpreter(Calls):
    """The whole front end."""

    @classmethod
    def inside_block(cls, fn: ir.Function, b: ir.Builder) -> Interpreter:
        """An interpreter that writes into a program under construction."""
        it = cls(fn.name)
        it.fn, it.b = fn, b
        for block in b.block.chain():
            it.known[block] = {}
        return it

    def call_rule(self, function: Any, args: list[Any]) -> Any:
        """Interpret a rule and return what it returns; some rules write themselves."""
        if hasattr(function, "write"):
            return function.write(self, *args)
        if hasattr(function, "_nbgrad_front"):
            return function._nbgrad_front(self, args, {}, ast.Pass(lineno=1))
        function = source.python_function(function)
        self.frames.append(Frame(function, source.parse(function), {}))
        try:
            return self.inline_again(function, args)
        finally:
            self.frames.pop()

    def inline_again(self, function: Any, args: list[Any]) -> Any:
        """The body of a function that is on top of the frames."""
        src = self.frame.source
        self.frame.env = self.bind(function, src, args, {}, ast.Pass(lineno=1))
        self.run(src.body)
        return _settle(self, self.frame.env.get("$return", Py(None)))

    def arguments_of(
        self, function: Any, args: list[Any], kwargs: dict, node: ast.AST
    ) -> list[Any]:
        """Arguments of a call in the order of the function's parameters, defaults filled in."""
        args = [self.materialise(a) if isinstance(a, Lazy) else a for a in args]
        src = source.stand_in(function)
        env = self.bind(function, src, args, kwargs, node)
        return [env[a.arg] for a in src.args.args]

    def fitted(self, c: Any, a: ir.Value) -> ir.Value:
        """A cotangent as an array of the dtype of its argument."""
        c = self.materialise(c) if isinstance(c, Lazy) else c
        if not ir.is_array(c):
            return self.filled_array(self.shape(a), a.type.dtype, None, c, ast.Pass(lineno=1))
        if isinstance(c.type.dtype, types.Complex) and not isinstance(a.type.dtype, types.Complex):
            return self.materialise(self.elementwise("real", [c], ast.Pass(lineno=1)))
        return c

    def number(self, c: Any) -> ir.Value:
        """A cotangent as a number."""
        return self.scalar(c, ast.Pass(lineno=1))

    def argument(self, t: Any, name: str) -> Any:
        """An object for an argument of a Numba type; numbers and arrays become parameters."""
        if isinstance(t, types.Omitted):
            return self.wrap(t.value, name, ast.Pass())
        if isinstance(t, types.Literal):
            v = t.literal_value
            return self.fn.add_param(types.unliteral(t), name) if isinstance(v, int) else Py(v)
        if isinstance(t, types.NoneType):
            return Py(None)
        if isinstance(t, types.Dispatcher):
            return Py(t.dispatcher)
        if isinstance(t, types.Function):
            return Py(t.typing_key)
        if isinstance(t, types.Optional):
            return Undefined(f"it is of type {t}: it may be None", USABLE)
        if isinstance(t, types.BaseTuple):
            items = tuple(self.argument(x, f"{name}_{k}") for k, x in enumerate(t.types))
            return Tup(items, getattr(t, "instance_class", tuple))
        if isinstance(t, types.Array) and not usable(t.dtype):
            return Undefined(f"it is an array of {t.dtype}, which has no derivative here", USABLE)
        if isinstance(t, types.Array):
            v = self.fn.add_param(t, name)
            self.roots[v] = v
            return v
        if isinstance(t, types.Number | types.Boolean) and usable(t):
            return self.fn.add_param(t, name)
        text = "Pass a number, or a literal text from an @njit function: return f(x, 'text')."
        return Undefined(
            f"it is of type {t}, which has no derivative here",
            text if isinstance(t, types.UnicodeType) else USABLE,
        )


def build(
    function: Any, args: list[Any], it: Interpreter | None = None, special: Any = None
) -> Built:
    """Interpret a function for Numba types of its arguments, or for objects made by ``it``.

    ``special(interpreter, objects)`` stands for the function's own text where it is given.

    Raises
    ------
    UnsupportedError : something in it is not covered; the message names the place and what to write instead.
    """
    if special is None and hasattr(function, "_nbgrad_front"):
        outer, special = (
            function,
            lambda it, objects: outer._nbgrad_front(it, objects, {}, ast.Pass(lineno=1)),
        )
    owner, function = function, source.python_function(function)
    src = source.parse(function) if special is None else source.stand_in(function)
    typed = it is None
    it = it or Interpreter(function.__name__)
    it.deps[function] = None
    it.frames.append(Frame(function, src, {}, owner))
    names = [a.arg for a in (*src.args.posonlyargs, *src.args.args, *src.args.kwonlyargs)]
    objects = list(args)
    if typed:
        rest = src.args.vararg.arg if src.args.vararg else "arg"
        objects = [
            it.argument(t, names[k] if k < len(names) else f"{rest}_{k}")
            for k, t in enumerate(args)
        ]
    at = ast.copy_location(ast.Pass(), src.body[0]) if src.body else ast.Pass(lineno=1)
    if special is not None:
        result = _settle(it, special(it, objects))
    else:
        it.frame.env = it.bind(function, src, objects, {}, at)
        it.run(src.body)
        result = _settle(it, it.frame.env.get("$return", Py(None)))
    if isinstance(result, Undefined):
        raise it.refuse(
            at,
            f"the result is not one kind of object: {result.why}",
            "Return the same kind on every path.",
        )
    it.fn.body.yields = list(leaves(result) or []) if not isinstance(result, Py) else []
    fn = tidy(simplify(it.fn))
    if not isinstance(result, Py):
        result = rebuild(result, fn.results)
    return Built(fn, objects, result, tuple(it.deps), it.uses_parallel)


def _settle(it: Interpreter, x: Any) -> Any:
    if isinstance(x, Lazy):
        return it.materialise(x)
    if isinstance(x, Tup):
        return Tup(tuple(_settle(it, i) for i in x.items), x.cls)
    return x
