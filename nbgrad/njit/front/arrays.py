"""Arrays: elements, views, fancy indices, assignment, array expressions and their loops."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from numba import types

from .. import ir, scalars
from .base import describe
from .expressions import Expressions
from .kinds import dtype_of, is_scalar, nonzero, reads_of
from .objects import Lazy, Method, Py, Record, SliceOf, Tup
from .slices import Slices
from .writing import Writing


class Arrays(Writing, Slices, Expressions):
    """Array semantics."""

    # -- array expressions -----------------------------------------------------------------------------
    def elementwise(self, name: str, args: Sequence[Any], node: ast.AST) -> Any:
        """A scalar function of numbers and arrays, broadcast; arrays give an expression, computed where it is used."""
        args = [self.materialise(a) if isinstance(a, Lazy) and not a.sizes else a for a in args]
        if all(isinstance(a, ir.Value) and not ir.is_array(a) for a in args):
            return self.scalar_function(name, list(args), node)  # type: ignore[arg-type]
        for a in args:
            if not isinstance(a, ir.Value | Lazy):
                raise self.refuse(node, f"arithmetic on {describe(a)}", "Use numbers and arrays.")
        sizes = self.broadcast([self.shape(a) for a in args if not is_scalar(a)], node)
        dtype = scalars.result_type(name, tuple(dtype_of(a) for a in args))
        operands = [self.operand(a, sizes) for a in args]

        def element(index: Sequence[ir.Value]) -> ir.Value:
            return self.scalar_function(name, [f(index) for f in operands], node)

        reads = tuple(r for a in args for r in reads_of(a))
        return Lazy(element, tuple(sizes), dtype, reads)

    def scalar_function(self, name: str, args: list[ir.Value], node: ast.AST) -> ir.Value:
        """A scalar function, with powers of small whole numbers written as products."""
        if name == "pow" and isinstance(args[1], ir.Const) and not isinstance(args[0], ir.Const):
            x, n = args[0], args[1].value
            if n == 0 and type(n) is int and ir.is_float(x.type):
                return scalars.cast(self.b, ir.Const(1.0, types.float64), x.type)
            if n in (1, 2, 3, 4) and type(n) is int and not isinstance(x.type, types.Boolean):
                if n in (1, 3):
                    return x if n == 1 else self.apply("cube", x)
                square = self.apply("mul", x, x)
                return square if n == 2 else self.apply("mul", square, square)
            if n == -1 and ir.is_float(x.type):
                return self.apply("reciprocal", x)
            if n == 0.5 and isinstance(x.type, types.Float):
                return self.apply("sqrt", x)
        if name in ("real", "conj") and not isinstance(args[0].type, types.Complex):
            return args[0]
        if name == "imag" and not isinstance(args[0].type, types.Complex):
            return scalars.zero(args[0].type)
        return self.apply(name, *args)

    def broadcast(self, shapes: Sequence[Sequence[ir.Value]], node: ast.AST) -> list[ir.Value]:
        """The common shape; sizes only known at run time are checked there."""
        ndim = max((len(s) for s in shapes), default=0)
        out = []
        for k in range(ndim):
            n: ir.Value | None = None
            for s in shapes:
                d = len(s) - ndim + k
                if d < 0 or ir.is_const(s[d], 1):
                    continue
                n = s[d] if n is None or n is s[d] else self.common(n, s[d], node)
            out.append(n if n is not None else self.integer(1))
        return out

    def common(self, n: ir.Value, m: ir.Value, node: ast.AST) -> ir.Value:
        """The size two dimensions broadcast to."""
        if isinstance(n, ir.Const) and isinstance(m, ir.Const):
            if n.value != m.value:
                raise self.refuse(
                    node,
                    f"sizes {n.value} and {m.value} do not broadcast",
                    "Give them one size, or 1.",
                )
            return n
        one = self.integer(1)
        fits = self.apply(
            "or",
            self.apply("eq", n, m),
            self.apply("or", self.apply("eq", n, one), self.apply("eq", m, one)),
        )
        if not isinstance(fits, ir.Const) and not (
            fits.op is not None and fits.op.attrs.get("checked")
        ):
            self.b.op(
                "check",
                [fits],
                attrs={"error": "ValueError", "message": "arrays of these sizes do not broadcast"},
            )
            if fits.op is not None:
                fits.op.attrs["checked"] = True
        return self.apply("where", self.apply("eq", n, one), m, n)

    def operand(self, a: Any, sizes: Sequence[ir.Value]) -> Any:
        """``element(index)`` of an operand broadcast to sizes."""
        if is_scalar(a):
            return lambda index: a
        mine = self.shape(a)
        if isinstance(a, Lazy) and list(mine) != list(sizes):
            a = self.materialise(a)  # it would be computed again for every repetition
        skip = len(sizes) - len(mine)
        zero, one = self.integer(0), self.integer(1)
        tests = [
            None if n is m or ir.is_const(n, 1) else self.apply("eq", n, one)
            for n, m in zip(mine, sizes[skip:])
        ]

        def element(index: Sequence[ir.Value]) -> ir.Value:
            own = []
            for n, test, i in zip(mine, tests, index[skip:], strict=True):
                if test is None:
                    own.append(zero if ir.is_const(n, 1) else i)
                else:
                    own.append(self.apply("where", test, zero, i))
            return a.element(own) if isinstance(a, Lazy) else self.element(a, own)

        return element

    def materialise(self, x: Any, target: Any = None) -> Any:
        """An array expression computed into a new array (0-d: a number)."""
        if not isinstance(x, Lazy):
            return x
        if not x.sizes:
            return x.element(())
        name = target.id if isinstance(target, ast.Name) else "tmp"
        out = self.alloc(x.sizes, x.dtype, None, name)
        with self.for_each(x.sizes) as index:
            self.b.store(out, index, self.cast(x.element(index), x.dtype))
        return out

    def as_array(self, x: Any, node: ast.AST) -> ir.Value:
        """The object as an array."""
        x = self.materialise(x) if isinstance(x, Lazy) else x
        if isinstance(x, ir.Value) and ir.is_array(x):
            return x
        raise self.refuse(node, f"{describe(x)} stands where an array is needed", "Pass an array.")

    # -- reading ---------------------------------------------------------------------------------------------
    def element(self, array: ir.Value, index: Sequence[ir.Value], node: Any = None) -> Any:
        """An element; records stay references."""
        array, index = self.folded(array, index)
        if isinstance(array.type.dtype, types.Record):
            return Record(array, tuple(index))
        key = ("load", array, *[i.value if isinstance(i, ir.Const) else i for i in index])
        found = self.known[self.b.block].get(key)
        if found is not None:
            return found
        v = self.b.load(array, index)
        self.known[self.b.block][key] = v
        return v

    def forget_loads(self) -> None:
        """Memory has changed."""
        self.memory_changes += 1
        for block in self.b.block.chain():
            known = self.known.get(block, {})
            for key in [k for k in known if k[0] == "load"]:
                del known[key]

    def entries(self, array: ir.Value, index: Any, node: ast.AST) -> list[Any]:
        """The entries of a subscript, one a dimension (and newaxis)."""
        items = list(index.items) if isinstance(index, Tup) else [index]
        items = [self.materialise(i) if isinstance(i, Lazy) else i for i in items]
        used = sum(1 for i in items if not (isinstance(i, Py) and i.value in (None, Ellipsis)))
        if used > array.type.ndim:
            raise self.refuse(
                node, f"{used} indices for {describe(array)}", "Use one index a dimension."
            )
        fill = [SliceOf(None, None, None)] * (array.type.ndim - used)
        dots = [k for k, i in enumerate(items) if isinstance(i, Py) and i.value is Ellipsis]
        if dots:
            return items[: dots[0]] + fill + items[dots[0] + 1 :]
        return items + fill

    def array_item(self, array: ir.Value, index: Any, node: ast.AST) -> Any:
        """``array[index]``."""
        if isinstance(index, Py) and isinstance(index.value, str):
            return self.field_view(array, index.value, node)
        items = self.entries(array, index, node)
        if any(isinstance(i, ir.Value) and ir.is_array(i) for i in items):
            return self.gather(array, items, node)
        if all(self.is_index(i) for i in items):
            return self.element(
                array, [self.index(i, array, k, node) for k, i in enumerate(items)], node
            )
        return self.slice_view(array, items, node)

    @staticmethod
    def is_index(i: Any) -> bool:
        """Whether a subscript entry is an integer."""
        return isinstance(i, ir.Value) and not ir.is_array(i)

    def index(self, i: ir.Value, array: ir.Value, axis: int, node: ast.AST) -> ir.Value:
        """An integer index, constants made non-negative."""
        if not isinstance(i.type, types.Integer | types.Boolean):
            raise self.refuse(node, f"an index of type {i.type}", "Convert it with int().")
        if isinstance(i, ir.Const) and i.value < 0:
            return self.plus(self.size(array, axis), i.value)
        return i

    def gather(self, array: ir.Value, items: list[Any], node: ast.AST) -> Any:
        """A fancy index: a copy of the chosen elements."""
        view, sizes, where = self.fancy(array, items, node)
        reads = (array, *(i for i in items if isinstance(i, ir.Value) and ir.is_array(i)))
        element = lambda index: self.element(view, where(index))
        return self.materialise(Lazy(element, tuple(sizes), array.type.dtype, reads))

    def fancy(self, array: ir.Value, items: list[Any], node: ast.AST) -> tuple[Any, list, Any]:
        """A fancy index as a view, the sizes of what is chosen, and the place in the view of an index into that."""
        array, items = self.without_masks(array, items, node)
        chosen = [k for k, i in enumerate(items) if isinstance(i, ir.Value)]
        whole = SliceOf(None, None, None)
        view = self.slice_view(
            array, [whole if isinstance(i, ir.Value) else i for i in items], node
        )
        given = self.shape(view)
        inner = self.broadcast(
            [self.shape(items[k]) for k in chosen if ir.is_array(items[k])], node
        )
        parts = {k: self.operand(items[k], inner) for k in chosen}
        together = chosen[-1] - chosen[0] == len(chosen) - 1
        at = chosen[0] if together else 0  # where NumPy puts the dimensions of index arrays
        others = [k for k in range(len(items)) if k not in parts]
        before = sum(1 for k in others if k < at)
        sizes = [given[k] for k in others]
        sizes[before:before] = inner

        def where(index: Sequence[ir.Value]) -> list[ir.Value]:
            mine = index[before : before + len(inner)]
            rest = iter([*index[:before], *index[before + len(inner) :]])
            return [parts[k](mine) if k in parts else next(rest) for k in range(len(items))]

        return view, sizes, where

    def without_masks(
        self, array: ir.Value, items: list[Any], node: ast.AST
    ) -> tuple[ir.Value, list[Any]]:
        """Masks as positions; a mask of the whole array chooses from its flat elements."""
        masks = [i for i in items if isinstance(i, ir.Value) and ir.is_array(i)]
        if len(masks) == 1 and isinstance(masks[0].type.dtype, types.Boolean):
            if masks[0].type.ndim > 1 and items[0] is masks[0]:
                if masks[0].type.ndim != array.type.ndim:
                    raise self.refuse(node, "a mask of some of the dimensions", "Write a loop.")
                array, items = self.flat(array, node), [self.flat(masks[0], node)]
        out, axis = [], -1
        for i in items:
            axis += not (isinstance(i, Py) and i.value is None)
            if isinstance(i, ir.Value) and ir.is_array(i):
                if isinstance(i.type.dtype, types.Boolean):
                    i = self.call_function(nonzero(), [i], {}, node)
                elif not isinstance(i.type.dtype, types.Integer):
                    raise self.refuse(
                        node, f"an index array of {i.type.dtype}", "Convert it with astype(int)."
                    )
            elif isinstance(i, ir.Value):
                i = self.index(i, array, axis, node)
            out.append(i)
        return array, out

    # -- attributes --------------------------------------------------------------------------------------------------
    def array_attribute(self, a: Any, name: str, node: ast.AST) -> Any:
        """An attribute of an array."""
        if name == "shape":
            return Tup(tuple(self.shape(a)))
        if name == "ndim":
            return self.integer(len(self.shape(a)))
        if name == "size":
            n: ir.Value = self.integer(1)
            for s in self.shape(a):
                n = self.apply("mul", n, s)
            return n
        if name == "dtype":
            return Py(dtype_of(a))
        if name == "T":
            return self.transposed(a, tuple(reversed(range(a.type.ndim))))
        if name in ("real", "imag"):
            return self.part_view(a, name, node)
        if name == "itemsize":
            return self.integer(a.type.dtype.bitwidth // 8)
        if name == "nbytes":
            size = self.array_attribute(a, "size", node)
            return self.apply("mul", size, self.integer(a.type.dtype.bitwidth // 8))
        if name == "flat":
            return self.flat(a, node)
        if isinstance(a.type.dtype, types.Record) and name in a.type.dtype.fields:
            return self.field_view(a, name, node)
        return Method(a, name)

    def part_view(self, a: ir.Value, name: str, node: ast.AST) -> Any:
        """``a.real`` and ``a.imag`` of an array."""
        if not isinstance(a.type.dtype, types.Complex):
            return a if name == "real" else self.elementwise("imag", [a], node)
        part = types.float32 if a.type.dtype == types.complex64 else types.float64
        t = types.Array(part, a.type.ndim, "A")

        def make() -> ir.Value:
            v = self.b.op("view", [a], [t], attrs={"spec": ir.View(name)}).result
            self.sizes[v] = self.shape(a)
            self.roots[v] = self.root(a)
            return v

        return self.shared((name, a), make)
