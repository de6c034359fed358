"""Writing to arrays: elements, parts, fancy indices, records."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from .. import ir, scalars
from .base import Base, describe
from .kinds import is_scalar, reads_of
from .objects import Lazy, Py, Record, Tup


class Writing(Base):
    """Array assignment and records."""

    def store_item(self, target: ast.Subscript, v: Any) -> None:
        """``array[index] = v``."""
        array, index = self.place(target)
        if isinstance(array, Record) and isinstance(index, Py):
            self.store_record(array, index.value, v, target)
            return
        if not (isinstance(array, ir.Value) and ir.is_array(array)):
            raise self.refuse(
                target, f"{describe(array)} cannot be written to", "Write to array elements."
            )
        if isinstance(index, Py) and isinstance(index.value, str):
            self.assign_array(self.field_view(array, index.value, target), v, target)
            return
        items = self.entries(array, index, target)
        if any(isinstance(i, ir.Value) and ir.is_array(i) for i in items):
            self.scatter(array, items, v, None, target)
        elif all(self.is_index(i) for i in items):
            where = [self.index(i, array, k, target) for k, i in enumerate(items)]
            self.store_element(array, where, v, target)
        else:
            self.assign_array(self.slice_view(array, items, target), v, target)

    def place(self, target: ast.Subscript) -> tuple[Any, Any]:
        """Array and index of what is written; an element of ``a.flat`` is one of ``a``, whatever its layout."""
        if isinstance(target.value, ast.Attribute) and target.value.attr == "flat":
            array = self.eval(target.value.value)
            if isinstance(array, ir.Value) and ir.is_array(array) and array.type.ndim > 1:
                k = self.scalar(
                    self.eval(target.slice), target, "the index of an element of 'flat'"
                )
                total = self.array_attribute(array, "size", target)
                k = self.apply(
                    "where", self.apply("lt", k, self.integer(0)), self.apply("add", k, total), k
                )
                index: list[ir.Value] = []
                for n in reversed(self.shape(array)):
                    index.insert(0, self.apply("mod", k, n))
                    k = self.apply("floordiv", k, n)
                return array, Tup(tuple(index))
        return self.eval(target.value), self.eval(target.slice)

    def store_element(self, array: ir.Value, index: list[ir.Value], v: Any, node: ast.AST) -> None:
        """Write one element."""
        self.check_writable(array, node)
        if isinstance(array.type.dtype, types.Record):
            self.store_whole_record(array, index, v, node)
            return
        value = self.cast(self.scalar(v, node), array.type.dtype)
        array, where = self.folded(array, index)
        self.b.store(array, where, value)
        self.forget_loads()

    def check_writable(self, array: ir.Value, node: ast.AST) -> None:
        """Raise for an array that is a constant."""
        root = self.root(array)
        if isinstance(root, ir.Value) and root in self.loose:
            raise self.refuse(
                node,
                "a reshaped array that does not lie in C order is written to",
                "Write to the array itself, or copy it first.",
            )
        if isinstance(root, ir.Value) and root.op is not None and root.op.kind == "frozen":
            raise self.refuse(
                node,
                f"the global array '{root.name}' is written to, and Numba freezes global arrays",
                "Pass it as an argument.",
            )

    def assign_array(self, dst: ir.Value, v: Any, node: ast.AST) -> None:
        """``dst[...] = v`` for an array or view."""
        self.check_writable(dst, node)
        if isinstance(v, Tup):
            v = self.array_of(v, None, node)
        if not isinstance(v, ir.Value | Lazy):
            raise self.refuse(
                node,
                f"{describe(v)} is assigned to a part of an array",
                "Assign numbers or arrays.",
            )
        if not is_scalar(v) and self.overlaps(dst, v):
            v = self.materialise(v) if isinstance(v, Lazy) else self.copied(v)
        sizes = self.shape(dst)
        if not is_scalar(v):
            self.check_fits(self.shape(v), sizes, node)
        get = self.operand(v, sizes)
        with self.for_each(sizes) as index:
            value = self.cast(get(index), dst.type.dtype)
            array, where = self.folded(dst, index)
            self.b.store(array, where, value)
        self.forget_loads()

    def check_fits(self, have: list, want: list, node: ast.AST) -> None:
        """Sizes assigned to sizes: equal, or 1."""
        if len(have) > len(want):
            raise self.refuse(
                node,
                f"a {len(have)}-D array is assigned to {len(want)} dimensions",
                "Index or reshape it.",
            )
        for n, m in zip(have, want[len(want) - len(have) :], strict=True):
            if n is m or ir.is_const(n, 1):
                continue
            if isinstance(n, ir.Const) and isinstance(m, ir.Const) and n.value == m.value:
                continue
            fits = self.apply("or", self.apply("eq", n, m), self.apply("eq", n, self.integer(1)))
            self.b.op(
                "check",
                [fits],
                attrs={
                    "error": "ValueError",
                    "message": "cannot assign an array of this size here",
                },
            )

    def overlaps(self, dst: ir.Value, v: Any) -> bool:
        """Whether an expression may read what is being written, other than element by element in place."""
        root = self.root(dst)
        for a in reads_of(v):
            if a is dst:
                continue
            other = self.root(a)
            if root is None or other is None or root is other:
                if a.type.dtype == dst.type.dtype:
                    return True
        return False

    def copied(self, a: ir.Value, dtype: Any = None) -> ir.Value:
        """A copy of an array, converted."""
        dtype = dtype or a.type.dtype
        sizes = self.shape(a)
        if isinstance(dtype, types.Record):
            out = self.alloc(sizes, dtype, None)
            self.b.op("copy", [out, a])
            return out
        return self.materialise(Lazy(lambda i: self.element(a, list(i)), tuple(sizes), dtype, (a,)))

    def update_item(
        self, target: ast.Subscript, op: ast.operator, value: ast.expr, node: ast.AST
    ) -> None:
        """``array[index] op= value``."""
        array, index = self.place(target)
        if isinstance(array, Record):
            old = self.record_field(array, index.value, node)
            self.store_record(
                array, index.value, self.binary(type(op), old, self.eval(value), node), target
            )
            return
        if isinstance(index, Py) and isinstance(index.value, str):
            self.update_array(
                self.field_view(array, index.value, target), op, self.eval(value), node
            )
            return
        array = self.as_array(array, target)
        items = self.entries(array, index, target)
        if all(self.is_index(i) for i in items):
            where = [self.index(i, array, k, target) for k, i in enumerate(items)]
            # Python reads the element before the value, and the value's calls may write to the array
            old, changes = self.element(array, where, node), self.memory_changes
            v = self.eval(value)
            if self.memory_changes == changes:
                self.update_element(array, where, op, v, node)
            else:
                self.store_element(array, where, self.binary(type(op), old, v, node), node)
            return
        v = self.eval(value)
        if any(isinstance(i, ir.Value) and ir.is_array(i) for i in items):
            self.scatter(array, items, v, op, target)
        else:
            self.update_array(self.slice_view(array, items, target), op, v, node)

    def update_element(
        self, array: ir.Value, index: list, op: ast.operator, v: Any, node: ast.AST
    ) -> None:
        """``element op= v``."""
        self.check_writable(array, node)
        dtype = array.type.dtype
        if isinstance(op, ast.Add | ast.Sub) and ir.is_float(dtype):
            x = self.scalar(v, node)
            if isinstance(op, ast.Sub):
                x = self.apply("neg", x)
            fits = scalars.result_type("add", (dtype, x.type)) == dtype
            if fits:
                array, where = self.folded(array, index)
                self.b.accum(array, where, self.cast(x, dtype))
                self.forget_loads()
                return
        old = self.element(array, index, node)
        self.store_element(
            array, index, self.binary(type(op), old, self.scalar(v, node), node), node
        )

    def update_array(self, dst: ir.Value, op: ast.operator, v: Any, node: ast.AST) -> None:
        """``dst op= v`` for an array or view."""
        self.check_writable(dst, node)
        if not is_scalar(v) and self.overlaps(dst, v):
            v = self.materialise(v) if isinstance(v, Lazy) else self.copied(v)
        sizes = self.shape(dst)
        if not is_scalar(v):
            self.check_fits(self.shape(v), sizes, node)
        get = self.operand(v, sizes)
        with self.for_each(sizes) as index:
            self.update_element(dst, list(index), op, get(index), node)
        self.forget_loads()

    def scatter(self, array: ir.Value, items: list, v: Any, op: Any, node: ast.AST) -> None:
        """``array[fancy] (op)= v``."""
        self.check_writable(array, node)
        v = self.materialise(v) if isinstance(v, Lazy) else v
        v = self.array_of(v, None, node) if isinstance(v, Tup) else v
        if not is_scalar(v) and self.overlaps(array, v):
            v = self.copied(v)
        mask = items[0]
        if isinstance(mask, ir.Value) and ir.is_array(mask) and is_scalar(v):
            if isinstance(mask.type.dtype, types.Boolean) and mask.type.ndim == array.type.ndim:
                self.scatter_masked(array, mask, v, op, node)
                return
        if isinstance(mask, ir.Value) and ir.is_array(mask) and mask.type.ndim > 1:
            if isinstance(mask.type.dtype, types.Boolean):
                raise self.refuse(
                    node, "an array assigned through a mask of several dimensions", "Write a loop."
                )
        view, sizes, where = self.fancy(array, items, node)
        if not is_scalar(v):
            self.check_fits(self.shape(v), sizes, node)
        get = self.operand(v, sizes)
        if op is not None:  # NumPy reads all before it writes: repeated indices count once
            element = lambda index: self.element(view, where(index))
            old = self.materialise(Lazy(element, tuple(sizes), array.type.dtype, (array,)))
            get = self.operand(self.materialise(self.binary(type(op), old, v, node)), sizes)
        with self.for_each(sizes) as index:
            self.put(view, where(index), None, get(index), node)
        self.forget_loads()

    def scatter_masked(
        self, array: ir.Value, mask: ir.Value, v: ir.Value, op: Any, node: ast.AST
    ) -> None:
        """``array[mask] (op)= number``."""
        with self.for_each(self.shape(mask)) as index:
            test = self.element(mask, list(index))
            branch = self.nested("if", [test], blocks=[ir.Block(), ir.Block()])
            with self.inside(branch.blocks[0]):
                self.put(array, list(index), op, v, node)
        self.forget_loads()

    def put(self, array: ir.Value, index: list, op: Any, v: Any, node: ast.AST) -> None:
        """Write or update one element."""
        if op is None:
            self.store_element(array, index, v, node)
        else:
            self.update_element(array, index, op, v, node)

    # -- records --------------------------------------------------------------------------------------------------
    def field_view(self, array: ir.Value, name: str, node: ast.AST) -> ir.Value:
        """``array["name"]``: the strided view of one field."""
        dtype = array.type.dtype
        if not isinstance(dtype, types.Record) or name not in dtype.fields:
            raise self.refuse(
                node, f"{describe(array)} has no field '{name}'", "Use a field of its dtype."
            )
        t = types.Array(dtype.typeof(name), array.type.ndim, "A")
        spec = ir.View("field", name=name)

        def make() -> ir.Value:
            v = self.b.op("view", [array], [t], attrs={"spec": spec}).result
            self.sizes[v] = self.shape(array)
            self.roots[v] = self.root(array)
            return v

        return self.shared(("field", array, name), make)

    def record_field(self, r: Record, name: str, node: ast.AST) -> Any:
        """``array[i].name``."""
        return self.element(self.field_view(r.array, name, node), list(r.index), node)

    def store_record(self, r: Record, name: str, v: Any, node: ast.AST) -> None:
        """``array[i].name = v``."""
        self.store_element(self.field_view(r.array, name, node), list(r.index), v, node)

    def store_field(self, target: Any, v: Any) -> None:
        """``x.name = v``."""
        owner = self.eval(target.value)
        if isinstance(owner, Record):
            self.store_record(owner, target.attr, v, target)
            return
        if isinstance(owner, ir.Value) and ir.is_array(owner):
            part = self.attribute(owner, target.attr, target)
            if isinstance(part, ir.Value) and ir.is_array(part):
                self.assign_array(part, v, target)
                return
        raise self.refuse(
            target, f"assignment to an attribute of {describe(owner)}", "Write to array elements."
        )

    def store_whole_record(self, array: ir.Value, index: list, v: Any, node: ast.AST) -> None:
        """``array[i] = record``."""
        names = list(array.type.dtype.fields)
        if isinstance(v, Record):
            values = [self.record_field(v, n, node) for n in names]
        elif isinstance(v, Tup) and len(v.items) == len(names):
            values = list(v.items)
        else:
            raise self.refuse(
                node, f"{describe(v)} is assigned to a record", "Assign a record or its fields."
            )
        for n, x in zip(names, values, strict=True):
            self.store_element(self.field_view(array, n, node), index, x, node)
