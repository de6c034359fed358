"""Arrays printed as Python: elements, new arrays, views, copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types
from numba.np.numpy_support import as_dtype

from . import ir, parallel_atomic, runtime, runtime_arrays
from .bounds import LowerBounds


class Memory:
    """Part of the emitter: operations on arrays."""

    name: Any
    value: Any
    object: Any
    put: Any
    text: dict[ir.Value, str]
    names: dict[str, Any]
    tapes: dict[ir.Value, str]
    uses: Any
    low: LowerBounds
    unchecked: bool
    prange: bool
    depth: int

    # -- elements --------------------------------------------------------------------------------------------
    def element(self, args: Sequence[ir.Value]) -> str:
        """``array[index]``."""
        array, index = args[0], [self.value(i) for i in args[1:]]
        if self.direct(args):
            self.names["get"] = runtime.get
            return f"get({self.value(array)}, {_index_text(index)})"
        return f"{self.value(array)}[{', '.join(index) or '()'}]"

    def direct(self, args: Sequence[ir.Value]) -> bool:
        """Whether an element can be reached without a test of the index's sign."""
        array, index = args[0], args[1:]
        kind = isinstance(
            array.type.dtype, types.Float | types.Integer | types.Boolean | types.Complex
        )
        return array in self.tapes or (
            self.unchecked and kind and bool(index) and all(self.low.nonnegative(i) for i in index)
        )

    def plain_element(self, args: Sequence[ir.Value]) -> str:
        """``array[index]`` as the target of an assignment."""
        index = [self.value(i) for i in args[1:]]
        return f"{self.value(args[0])}[{', '.join(index) or '()'}]"

    def op_store(self, op: ir.Op) -> None:
        """Write an element."""
        *where, v = op.args
        if self.direct(where):
            self.written("put", where, v)
        else:
            self.put(f"{self.plain_element(where)} = {self.value(v)}")

    def op_accum(self, op: ir.Op) -> None:
        """Add to an element."""
        *where, v = op.args
        if op.attrs.get("atomic"):
            self.atomic_add(where[0], [self.value(i) for i in where[1:]], self.value(v))
        elif self.direct(where):
            self.written("add_to", where, v)
        else:
            self.put(f"{self.plain_element(where)} += {self.value(v)}")

    def atomic_add(self, array: ir.Value, index: Sequence[str], v: str) -> None:
        """Add to an element that others may add to at the same time."""
        self.names["atomic_add"] = parallel_atomic.atomic_add
        self.put(f"atomic_add({self.value(array)}, ({', '.join(index)},), {v})")

    def written(self, name: str, where: Sequence[ir.Value], v: ir.Value) -> None:
        """A write without a test of the index's sign."""
        self.names[name] = getattr(runtime, name)
        index = [self.value(i) for i in where[1:]]
        self.put(f"{name}({self.value(where[0])}, {_index_text(index)}, {self.value(v)})")

    # -- whole arrays ----------------------------------------------------------------------------------------
    def op_alloc(self, op: ir.Op) -> None:
        """A new array."""
        t = op.result.type
        sizes = ", ".join(self.value(s) for s in op.args)
        shape = sizes if len(op.args) == 1 else f"({sizes})"
        maker = self.maker("zeros" if op.attrs.get("fill") == 0 else "empty")
        self.put(f"{self.name(op.result)} = {maker}({shape}{self.dtype(t.dtype)})")

    def maker(self, name: str) -> str:
        """The function that makes arrays; NumPy's in parallel programs, where Numba takes them out of loops."""
        if self.prange:
            return f"np.{name}"
        self.names[name] = getattr(runtime_arrays, name)
        return name

    def dtype(self, t: Any) -> str:
        """A dtype argument."""
        if t == types.float64:
            return ""
        if isinstance(t, types.Record):
            return f", {self.object(as_dtype(t), 'record')}"
        return f", np.{'bool_' if isinstance(t, types.Boolean) else t.name}"

    def op_frozen(self, op: ir.Op) -> None:
        """A captured array."""
        self.put(
            f"{self.name(op.result)} = {self.object(op.attrs['value'], 'global_' + op.result.name)}"
        )

    def op_shape(self, op: ir.Op) -> None:
        """A size."""
        self.text[op.result] = f"{self.value(op.args[0])}.shape[{op.attrs['axis']}]"
        if self.uses[op.result] > 1 or not op.args[0].name:
            text = self.text[op.result]
            self.put(f"{self.name(op.result)} = {text}")

    def op_view(self, op: ir.Op) -> None:
        """A view."""
        spec: ir.View = op.attrs["spec"]
        a = self.value(op.args[0])
        rest = iter([self.value(v) for v in op.args[1:]])
        if spec.kind == "index":
            parts = []
            for p in spec.parts:
                if p[0] == "n":
                    parts.append("None")
                elif p[0] == "i":
                    parts.append(next(rest))
                else:
                    text = ":".join(next(rest) if given else "" for given in p[1:3])
                    parts.append(text + (f":{next(rest)}" if p[3] else ""))
            while len(parts) > 1 and parts[-1] == ":":
                parts.pop()  # Numba takes a[i] for contiguous, a[i, :] not
            text = f"{a}[{', '.join(parts)}]"
        elif spec.kind == "T":
            straight = spec.axes == tuple(reversed(range(len(spec.axes))))
            text = f"{a}.T" if straight else f"np.transpose({a}, {spec.axes})"
        elif spec.kind == "reshape":
            sizes = list(rest)
            text = (
                f"{a}.reshape({', '.join(sizes)})"
                if len(sizes) != 1
                else f"{a}.reshape({sizes[0]})"
            )
        elif spec.kind == "field":
            text = f"{a}[{spec.name!r}]"
        elif spec.kind == "tape":
            at, *sizes = list(rest)
            self.names["window"] = runtime_arrays.window
            text = f"window({a}, {at}, {_index_text(sizes)})"
        else:
            text = f"{a}.{spec.kind}"
        self.put(f"{self.name(op.result)} = {text}")

    def op_copy(self, op: ir.Op) -> None:
        """``destination[...] = source``, element by element."""
        self.nest(op, "=")

    def op_add(self, op: ir.Op) -> None:
        """``destination += source``, element by element."""
        self.nest(op, "+=")

    def nest(self, op: ir.Op, sign: str) -> None:
        """A loop nest over two arrays: a function of both, unless its elements are not plain numbers."""
        if op.attrs.get("atomic") or isinstance(op.args[0].type.dtype, types.Record):
            self.loops(op, sign)
        else:
            helper = runtime_arrays.nest(op.args[0].type.ndim, sign)
            name = self.object(helper, helper.__name__)
            self.put(f"{name}({self.value(op.args[0])}, {self.value(op.args[1])})")

    def loops(self, op: ir.Op, sign: str) -> None:
        """A loop nest over two arrays, written out."""
        dst, src = (self.value(a) for a in op.args)
        index = []
        depth = self.depth
        for k in range(op.args[0].type.ndim):
            i = self.name(ir.Value(types.intp, f"k{k}"))
            self.put(f"for {i} in range({dst}.shape[{k}]):")
            index.append(i)
            self.depth += 1
        where = ", ".join(index) or "()"
        t = op.args[0].type.dtype
        if isinstance(t, types.Record) and sign == "+=":
            for name in t.fields:
                if ir.is_float(t.typeof(name)):
                    self.put(f"{dst}[{name!r}][{where}] += {src}[{name!r}][{where}]")
        elif op.attrs.get("atomic"):
            self.atomic_add(op.args[0], index, f"{src}[{where}]")
        else:
            self.put(f"{dst}[{where}] {sign} {src}[{where}]")
        self.depth = depth


def _index_text(index: Sequence[str]) -> str:
    return index[0] if len(index) == 1 else f"({', '.join(index)})"
