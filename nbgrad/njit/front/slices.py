"""Views: their sizes, and reading through them without making them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from numba import types
from numba.core.typing.arraydecl import get_array_index_type

from .. import ir
from .base import Base
from .objects import Py, SliceOf


class Slices(Base):
    """Views of arrays."""

    def plus(self, v: ir.Value, k: int) -> ir.Value:
        """``v + k`` in one canonical form."""
        if isinstance(v, ir.Const):
            return self.integer(v.value + k)
        op = v.op
        if (
            op is not None
            and op.kind == "apply"
            and op.attrs["fn"] == "add"
            and isinstance(op.args[1], ir.Const)
        ):
            v, k = op.args[0], k + op.args[1].value
        return v if k == 0 else self.apply("add", v, self.integer(k))

    def minus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """``a - b`` in canonical form."""
        if isinstance(b, ir.Const):
            return self.plus(a, -b.value)
        return self.integer(0) if a is b else self.apply("sub", a, b)

    def nonnegative(self, v: ir.Value, depth: int = 0) -> bool:
        """Whether an integer is provably not negative."""
        if isinstance(v, ir.Const):
            return v.value >= 0
        if isinstance(v.type, types.Integer) and not v.type.signed:
            return True
        if v.op is None:
            b = v.block
            loop = b.parent if b is not None else None
            is_iv = loop is not None and loop.kind == "for" and b is not None and b.params[0] is v
            return bool(is_iv) and depth < 4 and self.nonnegative(loop.args[0], depth + 1)  # type: ignore[union-attr]
        if v.op.kind in ("shape", "tape_size"):
            return True
        if v.op.kind != "apply" or depth > 6:
            return False
        name, args = v.op.attrs["fn"], v.op.args
        if name in ("add", "mul", "min", "where"):
            return all(
                self.nonnegative(a, depth + 1) for a in (args[1:] if name == "where" else args)
            )
        if name == "max":
            return any(self.nonnegative(a, depth + 1) for a in args)
        if name in ("floordiv", "mod"):
            return self.nonnegative(args[1], depth + 1) and (
                name == "mod" or self.nonnegative(args[0], depth + 1)
            )
        return False

    def bound(self, v: Any, n: ir.Value, default: ir.Value, low: int) -> ir.Value:
        """A slice bound as Python means it; constants stay unclipped where the size takes care."""
        if v is None:
            return default
        if isinstance(v, ir.Const):
            return v if v.value >= 0 else self.plus(n, v.value)
        if not self.nonnegative(v):
            v = self.apply(
                "where", self.apply("lt", v, self.integer(0)), self.apply("add", v, n), v
            )
            v = self.apply("max", v, self.integer(low))
        return v

    def slice_range(self, s: SliceOf, n: ir.Value) -> tuple[ir.Value, int, ir.Value] | None:
        """Start, step and size of a slice of a dimension of size n; None if the step is not known."""
        step = 1 if s.step is None else s.step.value if isinstance(s.step, ir.Const) else 0
        if step == 0:
            return None
        if step > 0:
            return self.slice_up(s, n, step)
        last = self.plus(n, -1)
        start = self.bound(s.start, n, last, -1)
        start = last if start is last else self.apply("min", start, last)
        stop = self.bound(s.stop, n, self.integer(-1), -1)
        if isinstance(s.stop, ir.Const) and s.stop.value < 0:
            stop = self.apply("max", stop, self.integer(-1))
        if isinstance(stop, ir.Const) and stop.value == -1:
            span = self.plus(start, 1)
        else:
            span = self.minus(start, stop)
        return start, step, self.steps(span, -step)

    def slice_up(self, s: SliceOf, n: ir.Value, step: int) -> tuple[ir.Value, int, ir.Value]:
        """A slice with positive step."""
        start = self.bound(s.start, n, self.integer(0), 0)
        if isinstance(s.start, ir.Const) and s.start.value < 0:
            start = self.apply("max", start, self.integer(0))
        stop = self.bound(s.stop, n, n, 0)
        if s.stop is not None and not (isinstance(s.stop, ir.Const) and s.stop.value < 0):
            stop = self.apply("min", stop, n)
        if ir.is_const(start, 0) and stop is n:
            span = n
        else:
            span = self.minus(stop, start)
        return start, step, self.steps(span, step) if span is not n or step != 1 else n

    def steps(self, span: ir.Value, step: int) -> ir.Value:
        """How many steps cover a span."""
        n = (
            span
            if step == 1
            else self.apply("floordiv", self.plus(span, step - 1), self.integer(step))
        )
        return n if self.nonnegative(n) else self.apply("max", n, self.integer(0))

    def slice_view(self, array: ir.Value, items: Sequence[Any], node: ast.AST) -> ir.Value:
        """``array[...]`` with at least one slice or newaxis."""
        args: list[ir.Value] = [array]
        parts: list[tuple] = []
        kinds: list[Any] = []
        sizes: list[ir.Value] = []
        places: list[tuple] = []
        axis = 0
        known = True
        for i in items:
            if isinstance(i, Py) and i.value is None:
                parts.append(("n",))
                kinds.append(types.none)
                sizes.append(self.integer(1))
                continue
            n = self.size(array, axis)
            if isinstance(i, SliceOf):
                known &= self.slice_part(i, n, args, parts, kinds, sizes, places)
            else:
                i = self.index(i, array, axis, node)
                parts.append(("i",))
                kinds.append(types.intp)
                args.append(i)
                places.append((i, 0, -1))
            axis += 1
        for k, (_, step, _) in enumerate(places):
            if step:
                places[k] = (*places[k][:2], _nth_slice(parts, k))
        return self.make_view(array, args, parts, kinds, sizes if known else None, places)

    def slice_part(
        self,
        s: SliceOf,
        n: ir.Value,
        args: list,
        parts: list,
        kinds: list,
        sizes: list,
        places: list,
    ) -> bool:
        """One slice of a subscript; whether its size is known."""
        given = tuple(p is not None for p in s)
        parts.append(("s", *given))
        kinds.append(types.slice3_type if given[2] else types.slice2_type)
        args += [p for p in s if p is not None]
        found = self.slice_range(s, n)
        if found is None:
            places.append((None, 1, 0))
            return False
        start, step, size = found
        sizes.append(size)
        places.append((start, step, 0))
        return True

    def make_view(
        self, array: ir.Value, args: list, parts: list, kinds: list, sizes: Any, places: list
    ) -> ir.Value:
        """The view operation, or the one made before with the same arguments."""
        named = len(kinds)
        while named > 1 and parts[named - 1] == ("s", False, False, False):
            named -= 1  # Numba takes a[i] for contiguous, a[i, :] not
        result = get_array_index_type(array.type, types.Tuple(kinds[:named])).result
        spec = ir.View("index", parts=tuple(parts))

        def make() -> ir.Value:
            v = self.b.op("view", args, [result], attrs={"spec": spec}).result
            self.roots[v] = self.root(array)
            if sizes is not None:
                self.sizes[v] = sizes
                self.views[v] = (array, places)
            return v

        key = ("view", spec, *[a.value if isinstance(a, ir.Const) else a for a in args])
        return self.shared(key, make)

    def folded(self, array: ir.Value, index: Sequence[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
        """The same element of the array a view was made of, where the index is provably not negative."""
        where = list(index)
        while array in self.views and all(self.nonnegative(i) for i in where):
            base, places = self.views[array]
            out = []
            for start, step, dim in places:
                if not step:
                    out.append(start)
                    continue
                i = where[dim]
                if step != 1:
                    i = self.apply("mul", i, self.integer(step))
                out.append(
                    self.plus(i, start.value)
                    if isinstance(start, ir.Const)
                    else self.apply("add", i, start)
                )
            array, where = base, out
        return array, where

    def transposed(self, a: ir.Value, axes: tuple[int, ...]) -> ir.Value:
        """A view with permuted dimensions."""
        if a.type.ndim < 2:
            return a
        swap = {"C": "F", "F": "C"}
        layout = swap.get(a.type.layout, "A") if axes == tuple(reversed(range(len(axes)))) else "A"
        t = types.Array(a.type.dtype, a.type.ndim, layout)

        def make() -> ir.Value:
            v = self.b.op("view", [a], [t], attrs={"spec": ir.View("T", axes=axes)}).result
            self.roots[v] = self.root(a)
            self.sizes[v] = [self.size(a, k) for k in axes]
            self.views[v] = (a, [(self.integer(0), 1, axes.index(k)) for k in range(a.type.ndim)])
            return v

        return self.shared(("T", a, axes), make)

    def reshaped(self, a: ir.Value, sizes: list[ir.Value], node: ast.AST) -> ir.Value:
        """``a.reshape(sizes)``: a view of contiguous memory, otherwise of a copy."""
        if a.type.layout != "C" and not (a.type.layout == "F" and a.type.ndim < 2):
            a = self.copied(a)
        sizes = self.inferred(a, sizes, node)
        t = types.Array(a.type.dtype, len(sizes), "C")
        v = self.b.op("view", [a, *sizes], [t], attrs={"spec": ir.View("reshape")}).result
        self.roots[v] = self.root(a)
        self.sizes[v] = sizes
        return v

    def inferred(self, a: ir.Value, sizes: list[ir.Value], node: ast.AST) -> list[ir.Value]:
        """Sizes with -1 computed."""
        unknown = [k for k, s in enumerate(sizes) if ir.is_const(s, -1)]
        if len(unknown) > 1:
            raise self.refuse(node, "two sizes of -1 in reshape", "Leave one to be computed.")
        if unknown:
            rest: ir.Value = self.integer(1)
            for k, s in enumerate(sizes):
                if k not in unknown:
                    rest = self.apply("mul", rest, s)
            total = self.array_attribute(a, "size", node)
            sizes = [*sizes]
            sizes[unknown[0]] = (
                total if ir.is_const(rest, 1) else self.apply("floordiv", total, rest)
            )
        return sizes

    def flat(self, a: ir.Value, node: ast.AST) -> ir.Value:
        """``a.ravel()``."""
        return self.reshaped(a, [self.integer(-1)], node) if a.type.ndim != 1 else a


def _nth_slice(parts: Sequence[tuple], k: int) -> int:
    """The dimension of the result that dimension k of the array becomes."""
    dim = axis = 0
    for p in parts:
        if p[0] == "n":
            dim += 1
            continue
        if axis == k:
            return dim
        dim += p[0] == "s"
        axis += 1
    raise AssertionError
