"""Expressions: names, arithmetic, comparisons, conditions, attributes, subscripts."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from numba import types

from .. import ir, scalars
from .base import describe
from .objects import Indices, Lazy, Method, Py, Range, Record, SliceOf, Tup, Zip
from .statements import Statements

BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.BitAnd: "bitand",
    ast.BitOr: "bitor",
    ast.BitXor: "bitxor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


class Expressions(Statements):
    """Evaluates expressions."""

    def eval(self, e: ast.expr) -> Any:
        """The object an expression stands for."""
        method = getattr(self, "on_" + type(e).__name__, None)
        if method is None:
            what = {
                "ListComp": "a list comprehension",
                "List": "a list",
                "Dict": "a dictionary",
                "Set": "a set",
                "GeneratorExp": "a generator",
                "JoinedStr": "a formatted string",
                "Yield": "a generator",
                "DictComp": "a dictionary",
            }.get(type(e).__name__)
            raise self.refuse(
                e,
                f"{what or 'the expression ' + type(e).__name__} has no derivative",
                "Use an array (np.empty and a loop) or a tuple.",
            )
        return method(e)

    def on_Constant(self, e: ast.Constant) -> Any:
        """A literal."""
        v = e.value
        return scalars.constant(v) if isinstance(v, bool | int | float | complex) else Py(v)

    def on_Name(self, e: ast.Name) -> Any:
        """A name."""
        return self.lookup(e.id, e)

    def on_NamedExpr(self, e: ast.NamedExpr) -> Any:
        """``name := value``."""
        v = self.eval(e.value)
        self.assign(e.target, v)
        return self.lookup(e.target.id, e)

    def on_Tuple(self, e: ast.Tuple) -> Tup:
        """A tuple."""
        items: list[Any] = []
        for x in e.elts:
            v = self.eval(x.value if isinstance(x, ast.Starred) else x)
            v = self.materialise(v) if isinstance(v, Lazy) else v
            items += v.items if isinstance(x, ast.Starred) else [v]
        return Tup(tuple(items))

    def on_Slice(self, e: ast.Slice) -> SliceOf:
        """``a:b:c``."""
        parts = [None if p is None else self.eval(p) for p in (e.lower, e.upper, e.step)]
        return SliceOf(*[None if isinstance(p, Py) and p.value is None else p for p in parts])

    # -- operators -------------------------------------------------------------------------------------
    def on_BinOp(self, e: ast.BinOp) -> Any:
        """A binary operator."""
        return self.binary(type(e.op), self.eval(e.left), self.eval(e.right), e)

    def binary(self, op: type, x: Any, y: Any, node: ast.AST) -> Any:
        """A binary operator on objects."""
        if op is ast.MatMult:
            import operator

            return self.call_function(operator.matmul, [x, y], {}, node)
        if isinstance(x, Tup) or isinstance(y, Tup):
            return self.tuple_operator(op, x, y, node)
        out = self.elementwise(BINARY[op], [x, y], node)
        whole = op in (ast.FloorDiv, ast.Mod) and self.frame.raises
        if whole and isinstance(out, ir.Value) and isinstance(out.type, types.Integer):
            if out.op is not None and not isinstance(y, ir.Const):
                out.op.attrs["raises"] = True  # by 0: its value would be a wrong number, not inf
        return out

    def tuple_operator(self, op: type, x: Any, y: Any, node: ast.AST) -> Tup:
        """Concatenation and repetition of tuples."""
        if op is ast.Add and isinstance(x, Tup) and isinstance(y, Tup):
            return Tup(x.items + y.items, list if x.cls is list else None)
        if op is ast.Mult and isinstance(x, Tup) and isinstance(y, ir.Const):
            return Tup(x.items * y.value, x.cls if x.cls is list else None)
        raise self.refuse(
            node, f"this operator on {describe(x)} and {describe(y)}", "Use arrays for arithmetic."
        )

    def on_UnaryOp(self, e: ast.UnaryOp) -> Any:
        """``-x``, ``+x``, ``~x``, ``not x``."""
        x = self.eval(e.operand)
        if isinstance(e.op, ast.Not):
            t = self.truth(x, e)
            return ir.Const(not t, types.boolean) if isinstance(t, bool) else self.apply("not", t)
        if isinstance(e.op, ast.UAdd):
            return x
        return self.elementwise("neg" if isinstance(e.op, ast.USub) else "invert", [x], e)

    def on_Compare(self, e: ast.Compare) -> Any:
        """A comparison, chained as in Python."""
        left = self.eval(e.left)
        result: Any = None
        for op, right in zip(e.ops, e.comparators, strict=True):
            y = self.eval(right)
            r = self.compare(op, left, y, e)
            left = y
            result = r if result is None else self.elementwise("and", [result, r], e)
        return result

    def compare(self, op: ast.cmpop, x: Any, y: Any, node: ast.AST) -> Any:
        """One comparison."""
        if isinstance(op, ast.Is | ast.IsNot):
            same = isinstance(x, Py) and isinstance(y, Py) and x.value is y.value
            return ir.Const(same is isinstance(op, ast.Is), types.boolean)
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(y, Tup):
                raise self.refuse(node, f"'in' with {describe(y)}", "Use a loop.")
            found: Any = ir.Const(False, types.boolean)
            for item in y.items:
                found = self.elementwise("or", [found, self.compare(ast.Eq(), x, item, node)], node)
            return found if isinstance(op, ast.In) else self.elementwise("not", [found], node)
        if isinstance(x, Py) or isinstance(y, Py):
            a, b = (v.value if isinstance(v, Py | ir.Const) else v for v in (x, y))
            equal = isinstance(op, ast.Eq | ast.NotEq) and _python_equal(a, b)
            return ir.Const(equal is isinstance(op, ast.Eq), types.boolean)
        if isinstance(x, Tup) and isinstance(y, Tup):
            return self.compare_tuples(op, x, y, node)
        return self.elementwise(COMPARE[type(op)], [x, y], node)

    def compare_tuples(self, op: ast.cmpop, x: Tup, y: Tup, node: ast.AST) -> Any:
        """Equality of tuples."""
        if not isinstance(op, ast.Eq | ast.NotEq):
            raise self.refuse(node, "an order of tuples", "Compare their elements.")
        same: Any = ir.Const(len(x.items) == len(y.items), types.boolean)
        for a, b in zip(x.items, y.items):
            same = self.elementwise("and", [same, self.compare(ast.Eq(), a, b, node)], node)
        return same if isinstance(op, ast.Eq) else self.elementwise("not", [same], node)

    def truth(self, x: Any, node: ast.AST) -> Any:
        """The truth of an object: a Python bool if it is known, else a boolean value."""
        if isinstance(x, Tup):
            return bool(x.items)
        if isinstance(x, Py):
            return bool(x.value)
        v = self.scalar(x, node, "a truth value")
        if isinstance(v, ir.Const):
            return bool(v.value)
        return v if isinstance(v.type, types.Boolean) else self.apply("ne", v, scalars.zero(v.type))

    def on_BoolOp(self, e: ast.BoolOp) -> Any:
        """``and`` and ``or``, which look at the right side only where needed."""
        return self.logic(isinstance(e.op, ast.And), e.values, e)

    def logic(self, conjunction: bool, values: list[ast.expr], node: ast.AST) -> Any:
        """A chain of ``and`` or ``or``."""
        x = self.eval(values[0])
        if len(values) == 1:
            return x
        known = self.truth(x, node)
        if isinstance(known, bool):
            return self.logic(conjunction, values[1:], node) if known is conjunction else x
        if not isinstance(self.scalar(x, node).type, types.Boolean):
            raise self.refuse(
                node,
                "'and'/'or' between numbers",
                "Compare the numbers, or write a conditional expression.",
            )
        rest = lambda: self.boolean(self.logic(conjunction, values[1:], node), node)
        constant = ir.Const(not conjunction, types.boolean)
        branches = (rest, lambda: constant) if conjunction else (lambda: constant, rest)
        op, result = self.either(known, *branches, node)
        return self.flattened(op, known, conjunction, result)

    def boolean(self, x: Any, node: ast.AST) -> ir.Value:
        """An object as a boolean value."""
        t = self.truth(x, node)
        return ir.Const(t, types.boolean) if isinstance(t, bool) else t

    def flattened(self, op: ir.Op, left: ir.Value, conjunction: bool, result: ir.Value) -> ir.Value:
        """Without a branch, where the right side is plain arithmetic of what is known."""
        inner = op.blocks[0 if conjunction else 1]
        safe = all(
            o.kind in ("apply", "cast") and o.attrs.get("fn") not in ("floordiv", "mod", "div")
            for o in inner.ops
        )
        if (
            not safe
            or len(op.results) != 1
            or op.results[0] is not result
            or op is not self.b.block.ops[-1]
        ):
            return result
        self.b.block.ops.pop()
        for o in inner.ops:
            o.block = self.b.block
            self.b.block.ops.append(o)
        return self.apply("and" if conjunction else "or", left, inner.yields[0])

    def on_IfExp(self, e: ast.IfExp) -> Any:
        """``a if c else b``."""
        test = self.truth(self.eval(e.test), e)
        if isinstance(test, bool):
            return self.eval(e.body if test else e.orelse)
        settle = lambda x: self.materialise(x) if isinstance(x, Lazy) else x
        _, result = self.either(
            test, lambda: settle(self.eval(e.body)), lambda: settle(self.eval(e.orelse)), e
        )
        from .objects import Undefined

        if isinstance(result, Undefined):
            raise self.refuse(
                e,
                f"this conditional expression mixes kinds: {result.why}",
                "Give both the same kind.",
            )
        return result

    # -- attributes --------------------------------------------------------------------------------------
    def on_Attribute(self, e: ast.Attribute) -> Any:
        """``x.name``."""
        return self.attribute(self.eval(e.value), e.attr, e)

    def attribute(self, x: Any, name: str, node: ast.AST) -> Any:
        """An attribute of an object."""
        if isinstance(x, Py):
            return self.python_attribute(x, name, node)
        if isinstance(x, Tup):
            fields = getattr(x.cls, "_fields", ())
            if name in fields:
                return x.items[fields.index(name)]
            if name in ("count", "index"):
                return Method(x, name)
            if name in ("append", "extend", "insert", "pop", "sort", "reverse", "remove", "clear"):
                raise self.refuse(
                    node,
                    "a list that changes has no derivative",
                    "Use an array: np.empty(n), then fill it.",
                )
        if isinstance(x, Record):
            return self.record_field(x, name, node)
        if isinstance(x, Lazy):
            if name == "shape":
                return Tup(tuple(x.sizes))
            if name in ("ndim", "size", "dtype"):
                return self.array_attribute(x, name, node)
            x = self.materialise(x)
        if isinstance(x, ir.Value) and ir.is_array(x):
            return self.array_attribute(x, name, node)
        if isinstance(x, ir.Value):
            if name in ("real", "imag"):
                return (
                    self.elementwise(name, [x], node)
                    if isinstance(x.type, types.Complex)
                    else (x if name == "real" else scalars.zero(x.type))
                )
            if name in ("conjugate", "conj", "item"):
                return Method(x, name)
        raise self.refuse(
            node, f"{describe(x)} has no attribute '{name}' here", "Use what Numba supports."
        )

    def python_attribute(self, x: Py, name: str, node: ast.AST) -> Any:
        """An attribute of a module, a class, a dtype."""
        if isinstance(x.value, types.Type) and name == "type":
            return x
        if not hasattr(x.value, name):
            raise self.refuse(node, f"{describe(x)} has no attribute '{name}'", "Check the name.")
        if isinstance(x.value, types.Type):
            return Py(getattr(x.value, name))
        return self.wrap(getattr(x.value, name), name, node)

    # -- subscripts -----------------------------------------------------------------------------------------
    def on_Subscript(self, e: ast.Subscript) -> Any:
        """``x[...]``."""
        x = self.eval(e.value)
        index = self.eval(e.slice)
        return self.subscript(x, index, e)

    def subscript(self, x: Any, index: Any, node: ast.AST) -> Any:
        """An element, a part, or a field."""
        if isinstance(x, Tup):
            return self.tuple_item(x, index, node)
        if isinstance(x, Record):
            if isinstance(index, Py) and isinstance(index.value, str):
                return self.record_field(x, index.value, node)
        if isinstance(x, Lazy):
            x = self.materialise(x)
        if isinstance(x, ir.Value) and ir.is_array(x):
            return self.array_item(x, index, node)
        raise self.refuse(node, f"{describe(x)} cannot be indexed", "Index arrays and tuples.")

    def tuple_item(self, x: Tup, index: Any, node: ast.AST) -> Any:
        """An item of a tuple; a varying index chooses among items of one type."""
        if isinstance(index, SliceOf):
            parts = [None if p is None else getattr(p, "value", p) for p in index]
            return Tup(x.items[slice(*parts)])
        i = self.scalar(index, node, "an index")
        if isinstance(i, ir.Const):
            if not -len(x.items) <= i.value < len(x.items):
                raise self.refuse(
                    node, f"index {i.value} of {describe(x)}", "Use an index inside it."
                )
            return x.items[i.value]
        first = x.items[0]
        if not all(isinstance(v, ir.Value) and not ir.is_array(v) for v in x.items):
            raise self.refuse(
                node,
                "a tuple of arrays indexed by a variable",
                "Iterate over the tuple, or stack the arrays.",
            )
        i = self.apply(
            "where",
            self.apply("lt", i, self.integer(0)),
            self.apply("add", i, self.integer(len(x.items))),
            i,
        )
        out = first
        for k, v in enumerate(x.items[1:], 1):
            out = self.elementwise("where", [self.apply("eq", i, self.integer(k)), v, out], node)
        return out

    # -- iteration ------------------------------------------------------------------------------------------
    def iterable(self, x: Any, node: ast.AST) -> Any:
        """What a loop runs over."""
        if isinstance(x, Lazy):
            x = self.materialise(x)
        if isinstance(x, Range | Zip | Tup | Indices) or (
            isinstance(x, ir.Value) and ir.is_array(x)
        ):
            return x
        raise self.refuse(
            node,
            f"iteration over {describe(x)}",
            "Iterate over range, arrays, tuples, zip or enumerate.",
        )

    def trips(self, it: Any, node: ast.AST) -> ir.Value:
        """How often a loop over an object runs."""
        if isinstance(it, Tup):
            return self.integer(len(it.items))
        if isinstance(it, Zip):
            counts = [self.trips(self.iterable(x, node), node) for x in it.items]
            n = counts[0]
            for c in counts[1:]:
                n = self.apply("min", n, c) if c is not n else n
            return n
        if isinstance(it, Range):
            return self.range_length(it, node)
        if isinstance(it, Indices):
            n: ir.Value = self.integer(1)
            for s in it.sizes:
                n = self.apply("mul", n, s)
            return n
        return self.size(it, 0)

    def range_length(self, r: Range, node: ast.AST) -> ir.Value:
        """Numbers in a range."""
        zero = self.integer(0)
        if ir.is_const(r.step, 0):
            raise self.refuse(node, "a range with step 0", "Use another step.")
        if ir.is_const(r.step, 1):
            n = self.apply("sub", r.stop, r.start)
            return (
                self.integer(max(n.value, 0))
                if isinstance(n, ir.Const)
                else self.apply("max", n, zero)
            )
        if isinstance(r.step, ir.Const):
            s = r.step.value
            span = (
                self.apply("sub", r.stop, r.start) if s > 0 else self.apply("sub", r.start, r.stop)
            )
            n = self.apply(
                "floordiv", self.apply("add", span, self.integer(abs(s) - 1)), self.integer(abs(s))
            )
            return self.apply("max", n, zero)
        up = self.apply("gt", r.step, zero)
        one = self.integer(1)
        edge = self.apply(
            "where", up, self.apply("sub", r.step, one), self.apply("add", r.step, one)
        )
        span = self.apply("add", self.apply("sub", r.stop, r.start), edge)
        self.b.op(
            "check",
            [self.apply("ne", r.step, zero)],
            attrs={"error": "ValueError", "message": "range() arg 3 must not be zero"},
        )
        return self.apply("max", self.apply("floordiv", span, r.step), zero)

    def item(self, it: Any, k: ir.Value, node: ast.AST) -> Any:
        """What a loop's target gets in iteration ``k``."""
        if isinstance(it, Tup):
            return it.items[k.value]  # type: ignore[attr-defined]
        if isinstance(it, Zip):
            items = tuple(self.item(self.iterable(x, node), k, node) for x in it.items)
            if it.start is not None:
                return Tup((self.apply("add", k, it.start), *items))
            return Tup(items)
        if isinstance(it, Indices):
            index: list[ir.Value] = []
            for s in reversed(it.sizes):
                index.insert(0, self.apply("mod", k, s))
                k = self.apply("floordiv", k, s)
            position = Tup(tuple(index))
            return (
                position
                if it.array is None
                else Tup((position, self.array_item(it.array, position, node)))
            )
        if isinstance(it, Range):
            return self.apply("add", it.start, self.apply("mul", k, it.step))
        return self.array_item(it, k, node)


def _python_equal(a: Any, b: Any) -> bool:
    try:
        if isinstance(a, types.Type) or isinstance(b, types.Type):
            return np.dtype(str(a)) == np.dtype(str(b))
        return bool(a == b)
    except (TypeError, ValueError):
        return False
