"""Python's builtins and scalar functions."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
from numba import types

from .. import functions, ir
from .arrays import Arrays
from .base import describe
from .handlers import is_integer, name_of
from .objects import Indices, Lazy, Py, Range, Tup, Zip


class Builtins(Arrays):
    """Calls of builtins and of elementwise functions."""

    def call_range(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Range:
        """``range``."""
        parts = [self.scalar(a, node) for a in args]
        for p in parts:
            if not isinstance(p.type, types.Integer):
                raise self.refuse(node, f"a range over {p.type}", "Use integers.")
        zero, one = self.integer(0), self.integer(1)
        full = {
            1: lambda: (zero, parts[0], one),
            2: lambda: (*parts, one),
            3: lambda: tuple(parts),
        }[len(parts)]()
        start, stop, step = (self.cast(p, types.intp) for p in full)
        return Range(start, stop, step)

    def call_prange(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Range:
        """``prange``."""
        return self.call_range(f, args, kwargs, node)._replace(parallel=self.frame.parallel)

    def call_len(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``len``."""
        (x,) = args
        if isinstance(x, Py) and isinstance(x.value, str):
            return self.integer(len(x.value))
        return (
            self.integer(len(x.items))
            if isinstance(x, Tup)
            else (self.range_length(x, node) if isinstance(x, Range) else self.shape(x)[0])
        )

    def call_enumerate(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Zip:
        """``enumerate``."""
        x = self.materialise(args[0]) if isinstance(args[0], Lazy) else args[0]
        start = args[1] if len(args) > 1 else kwargs.get("start", self.integer(0))
        return Zip((x,), start)

    def call_zip(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Zip:
        """``zip``."""
        return Zip(tuple(self.materialise(a) if isinstance(a, Lazy) else a for a in args))

    def call_int(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``int(x)``."""
        return self.converted(args[0] if args else self.integer(0), types.int64, node)

    def call_float(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``float(x)``."""
        if args and isinstance(args[0], Py) and isinstance(args[0].value, str):
            return ir.Const(float(args[0].value), types.float64)
        return self.converted(args[0] if args else self.integer(0), types.float64, node)

    def call_bool(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``bool(x)``."""
        return self.boolean(args[0], node)

    def call_complex(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``complex(re, im)``."""
        if len(args) == 2:
            return self.apply("complex", *[self.scalar(a, node) for a in args])
        return self.converted(args[0], types.complex128, node)

    def converted(self, x: Any, t: Any, node: ast.AST) -> Any:
        """A number (or array) converted to a type."""
        if isinstance(x, Lazy) or (isinstance(x, ir.Value) and ir.is_array(x) and x.type.ndim):
            return self.as_type(x, t, node)
        v = self.scalar(x, node)
        if isinstance(v, ir.Const) and isinstance(t, types.Integer) and isinstance(v.value, float):
            return ir.Const(int(v.value), t)
        return self.cast(v, t)

    def as_type(self, x: Any, t: Any, node: ast.AST) -> Any:
        """An array converted."""
        if isinstance(x, Lazy):
            return self.materialise(
                x._replace(element=lambda i: self.cast(x.element(i), t), dtype=t)
            )
        return self.copied(x, t)

    def call_scalar(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """An elementwise function."""
        name = "isnan" if f is math.isnan else "pow" if f is pow else functions.FROM_PYTHON[f]
        if (
            name == "pow"
            and f is not pow
            and isinstance(args[1], ir.Const)
            and isinstance(args[1].value, float)
        ):
            if args[1].value.is_integer() and abs(args[1].value) <= 4 and args[1].value > 0:
                args = [args[0], self.integer(int(args[1].value))]
        if f in (np.power, math.pow, np.float_power) or name in ("floor", "ceil", "trunc", "round"):
            args = [
                self.cast(a, types.float64) if is_integer(a) and f is not np.power else a
                for a in args
            ]
        count = functions.arity(name)
        if len(args) == count + 1 and isinstance(f, np.ufunc):
            out = self.as_array(args[-1], node)
            self.assign_array(out, self.call_scalar(f, args[:-1], kwargs, node), node)
            return out
        if len(args) != count:
            raise self.refuse(
                node, f"{len(args)} arguments for '{name_of(f)}'", f"It takes {count}."
            )
        if name == "angle":
            return self.angle(args[0], node)
        return self.elementwise(name, args, node)

    def angle(self, x: Any, node: ast.AST) -> Any:
        """``np.angle``: of the parts, so that it has derivatives."""
        return self.elementwise(
            "atan2",
            [self.elementwise("imag", [x], node), self.elementwise("real", [x], node)],
            node,
        )

    def call_cmath(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """A function of ``cmath``: of a complex number."""
        return self.apply(f.__name__, self.cast(self.scalar(args[0], node), types.complex128))

    def call_phase(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``cmath.phase``."""
        return self.angle(args[0], node)

    def call_ndindex(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Indices:
        """``np.ndindex``."""
        items = args[0].items if len(args) == 1 and isinstance(args[0], Tup) else args
        return Indices(tuple(self.scalar(a, node) for a in items))

    def call_ndenumerate(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Indices:
        """``np.ndenumerate``."""
        a = self.as_array(args[0], node)
        return Indices(tuple(self.shape(a)), a)

    def call_whole(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``math.floor`` and ``math.ceil``: integers."""
        x = self.scalar(args[0], node)
        if isinstance(x.type, types.Integer):
            return x
        return self.cast(self.apply(functions.FROM_PYTHON[f], x), types.int64)

    def call_extreme(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``max`` and ``min``."""
        items: Any = args[0].items if len(args) == 1 and isinstance(args[0], Tup) else args
        if (
            len(items) == 1
            and isinstance(items[0], ir.Value | Lazy)
            and (isinstance(items[0], Lazy) or ir.is_array(items[0]))
        ):
            return self.call_function(np.max if f is max else np.min, [items[0]], {}, node)
        out = items[0]
        for x in items[1:]:
            out = self.elementwise(f.__name__, [out, x], node)
        return out

    def call_builtin_sum(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``sum`` of a tuple or an array."""
        if isinstance(args[0], Tup):
            out = args[1] if len(args) > 1 else self.integer(0)
            for x in args[0].items:
                out = self.elementwise("add", [out, x], node)
            return out
        total = self.call_sum(np.sum, args[:1], {}, node)
        return self.elementwise("add", [args[1], total], node) if len(args) > 1 else total

    def call_round(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``round(x)`` to an integer, ``round(x, n)`` to n digits."""
        x = self.scalar(args[0], node)
        if len(args) == 1:
            return self.cast(self.apply("round", self.cast(x, types.float64)), types.int64)
        scale = self.apply("pow", ir.Const(10.0, types.float64), self.scalar(args[1], node))
        return self.apply("div", self.apply("round", self.apply("mul", x, scale)), scale)

    def call_divmod(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Tup:
        """``divmod``."""
        return Tup((self.elementwise("floordiv", args, node), self.elementwise("mod", args, node)))

    def call_tuple(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Tup:
        """``tuple(t)``."""
        if not args:
            return Tup(())
        if isinstance(args[0], Tup):
            return Tup(args[0].items)
        raise TypeError("of an array: its length is not known")

    def call_isinstance(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``isinstance``, decided now."""
        from ..numba_types import is_instance

        classes = args[1].items if isinstance(args[1], Tup) else (args[1],)
        found = any(is_instance(args[0], c.value) for c in classes)
        return ir.Const(found, types.boolean)

    def call_print(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Py:
        """``print`` of numbers and texts, in the forward sweep."""
        values: list[ir.Value] = []
        texts = ", ".join(self.printed(a, values, node) for a in args)
        self.b.op("effect", values, attrs={"text": f"print({texts})"})
        return Py(None)

    def printed(self, x: Any, values: list[ir.Value], node: ast.AST) -> str:
        """The text of an argument of ``print``, with places for its values."""
        x = self.materialise(x)
        if isinstance(x, Tup):
            return "(" + "".join(f"{self.printed(i, values, node)}, " for i in x.items) + ")"
        if isinstance(x, Py) and isinstance(x.value, str | None):
            return repr(x.value).replace("{", "{{").replace("}", "}}")
        if not isinstance(x, ir.Value):
            raise self.refuse(node, f"'print' of {describe(x)}", "Print numbers, arrays and texts.")
        values.append(x)
        return "{}"

    def call_slice(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``slice(a, b, c)``."""
        from .objects import SliceOf

        parts = [None if isinstance(a, Py) and a.value is None else a for a in args]
        return (
            SliceOf(None, parts[0], None)
            if len(parts) == 1
            else SliceOf(*parts, *([None] * (3 - len(parts))))
        )
