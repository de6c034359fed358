"""Functions that make, reshape and reduce arrays."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import from_dtype

from .. import ir, scalars
from . import pieces
from .base import describe
from .builtins import Builtins
from .handlers import is_boolean, is_number
from .objects import Lazy, Py, Tup, leaves


class Makers(Builtins):
    """Calls that give arrays."""

    def dtype_of(self, x: Any, default: Any, node: ast.AST) -> Any:
        """A dtype argument as Numba's type."""
        if x is None or (isinstance(x, Py) and x.value is None):
            return default
        v = x.value if isinstance(x, Py) else x
        if isinstance(v, types.Type):
            return v.dtype if isinstance(v, types.DType | types.NumberClass) else v
        known = {
            float: types.float64,
            int: types.int64,
            bool: types.boolean,
            complex: types.complex128,
        }
        try:
            return known[v] if v in known else from_dtype(np.dtype(v))
        except TypeError:
            raise self.refuse(
                node, f"the dtype {describe(x)}", "Use NumPy's or Numba's types."
            ) from None

    def sizes_of(self, x: Any, node: ast.AST) -> list[ir.Value]:
        """A shape argument."""
        items = x.items if isinstance(x, Tup) else (x,)
        return [self.cast(self.scalar(i, node, "a size"), types.intp) for i in items]

    def call_make(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``np.empty``, ``zeros``, ``ones``, ``full``."""
        name = f.__name__
        sizes = self.sizes_of(args[0] if args else kwargs["shape"], node)
        rest = args[1:]
        value: Any = {"ones": 1.0}.get(name)
        if name == "full":
            value = rest[0] if rest else kwargs["fill_value"]
            rest = rest[1:]
        default = types.float64 if name != "full" else self.scalar(value, node).type
        dtype = self.dtype_of(rest[0] if rest else kwargs.get("dtype"), default, node)
        return self.filled_array(sizes, dtype, 0 if name == "zeros" else None, value, node)

    def filled_array(
        self, sizes: list, dtype: Any, fill: Any, value: Any, node: ast.AST
    ) -> ir.Value:
        """A new array, all elements equal to ``value`` unless None."""
        out = self.alloc(sizes, dtype, fill)
        if value is not None:
            v = value if isinstance(value, ir.Value) else scalars.constant(value)
            v = self.cast(v, dtype)
            with self.for_each(sizes) as index:
                self.b.store(out, index, v)
        return out

    def call_make_like(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.zeros_like`` and the others."""
        like = args[0]
        if is_number(like):
            value = {"zeros_like": 0, "ones_like": 1, "empty_like": 0}[f.__name__]
            return self.cast(scalars.constant(value), like.type)
        rest = args[1:]
        value = {"ones_like": 1.0}.get(f.__name__)
        if f.__name__ == "full_like":
            value = rest[0] if rest else kwargs["fill_value"]
            rest = rest[1:]
        own = like.dtype if isinstance(like, Lazy) else like.type.dtype
        dtype = self.dtype_of(rest[0] if rest else kwargs.get("dtype"), own, node)
        return self.filled_array(
            self.shape(like), dtype, 0 if f.__name__ == "zeros_like" else None, value, node
        )

    def call_arange(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.arange``."""
        dtype = kwargs.pop("dtype", None)
        if len(args) == 4:
            dtype = args.pop()
        zero, one = self.integer(0), self.integer(1)
        full = {1: lambda: [zero, args[0], one], 2: lambda: [*args, one], 3: lambda: args}[
            len(args)
        ]()
        floating = any(ir.is_float(a.type) for a in full)
        out = self.inline(pieces.arange_float if floating else pieces.arange_int, full, {}, node)
        t = self.dtype_of(dtype, out.type.dtype, node)
        return out if t == out.type.dtype else self.copied(out, t)

    def call_copy(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.copy``."""
        x = args[0]
        return self.materialise(x) if isinstance(x, Lazy) else x if is_number(x) else self.copied(x)

    def call_array(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.array`` of tuples and arrays, ``np.asarray``, ``np.ascontiguousarray``."""
        x, rest = args[0], args[1:]
        dtype = rest[0] if rest else kwargs.get("dtype")
        if isinstance(x, Lazy):
            x = self.materialise(x)
        if isinstance(x, Tup):
            return self.array_of(x, dtype, node)
        if is_number(x):
            return self.filled_array([], self.dtype_of(dtype, x.type, node), None, x, node)
        t = self.dtype_of(dtype, x.type.dtype, node)
        if (
            f is np.array
            or t != x.type.dtype
            or (f is np.ascontiguousarray and x.type.layout != "C")
        ):
            return self.copied(x, t)
        return x

    def array_of(self, x: Tup, dtype: Any, node: ast.AST) -> ir.Value:
        """An array of the numbers in (nested) tuples."""
        sizes, level = [], x
        while isinstance(level, Tup):
            sizes.append(len(level.items))
            level = level.items[0] if level.items else None
        flat = leaves(x) or []
        if any(ir.is_array(v) for v in flat):
            raise TypeError("of a tuple of arrays: use np.stack")
        t = scalars.result_type("add", tuple(v.type for v in flat)) if flat else types.float64
        if all(isinstance(v.type, types.Boolean) for v in flat) and flat:
            t = types.boolean
        t = self.dtype_of(dtype, t, node)
        out = self.alloc([self.integer(n) for n in sizes], t, None)
        for k, v in enumerate(flat):
            index = [self.integer(int(i)) for i in np.unravel_index(k, sizes)]
            self.b.store(out, index, self.cast(v, t))
        return out

    def on_List(self, e: ast.List) -> Any:
        """A list display, which only ``np.array`` and its kind understand: a tuple."""
        made = self.on_Tuple(ast.copy_location(ast.Tuple(e.elts, ast.Load()), e))
        return made._replace(cls=list)

    def call_sum(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.sum`` of all elements."""
        if len(args) > 1 or kwargs:
            raise TypeError("with an axis")
        x = args[0]
        if is_number(x):
            return x
        sizes = self.shape(x)
        dtype = scalars.result_type("add", (x.dtype if isinstance(x, Lazy) else x.type.dtype,))
        get = x.element if isinstance(x, Lazy) else lambda i: self.element(x, list(i))
        return self.fold_loop(
            sizes,
            scalars.zero(dtype),
            lambda acc, i: self.cast(self.apply("add", acc, get(i)), dtype),
        )

    def fold_loop(self, sizes: list, init: ir.Value, step: Any, index: tuple = ()) -> ir.Value:
        """A loop nest that carries one number."""
        if not sizes:
            return step(init, index)
        op = self.b.loop(self.integer(0), sizes[0], [init], f"k{len(index)}")
        with self.inside(op.blocks[0]):
            iv, acc = op.blocks[0].params
            acc.name = "acc"
            op.blocks[0].yields = [self.fold_loop(sizes[1:], acc, step, (*index, iv))]
        return op.result

    def call_where(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.where(c, a, b)``."""
        if len(args) != 3:
            raise TypeError("with one argument")
        c = args[0]
        if not (isinstance(c, Lazy) and isinstance(c.dtype, types.Boolean)) and not is_boolean(c):
            args = [self.elementwise("ne", [c, self.integer(0)], node), *args[1:]]
        return self.elementwise("where", args, node)

    def call_transpose(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.transpose``."""
        a = self.as_array(args[0], node)
        if len(args) == 1 or isinstance(args[1], Py):
            return self.transposed(a, tuple(reversed(range(a.type.ndim))))
        items = args[1].items if isinstance(args[1], Tup) else args[1:]
        if not all(isinstance(i, ir.Const) for i in items) or len(items) != a.type.ndim:
            raise self.refuse(
                node, "these axes of 'transpose'", "Write one number a dimension, in a tuple."
            )
        return self.transposed(a, tuple(i.value % a.type.ndim for i in items))

    def call_reshape(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.reshape``."""
        a = self.as_array(args[0], node)
        out = self.reshaped(a, self.sizes_of(args[1], node), node)
        if self.root(out) is not self.root(a):
            self.loose.add(self.root(out))
        return out

    def call_ravel(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.ravel``."""
        return self.flat(self.as_array(args[0], node), node)

    def call_shape(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.shape``."""
        return Tup(tuple(self.shape(args[0])) if not is_number(args[0]) else ())

    def call_ndim(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.ndim``."""
        return self.integer(0 if is_number(args[0]) else len(self.shape(args[0])))

    def call_size(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.size``."""
        return (
            self.integer(1) if is_number(args[0]) else self.array_attribute(args[0], "size", node)
        )
