"""The intermediate form printed as Python for Numba.

Every value becomes a variable, except numbers used once, which are written where they are used. A carried value is one
variable, assigned at the end of the body; results of a condition are assigned in its branches.
"""

from __future__ import annotations

import keyword
import math
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype

from . import functions, ir, runtime, runtime_arrays, scalars
from .bounds import LowerBounds
from .calls import Fixed
from .emit_control import Control
from .emit_memory import Memory

MAX_TEXT = 160
RESERVED = {
    "np",
    "math",
    "range",
    "prange",
    "float",
    "int",
    "bool",
    "complex",
    "abs",
    "min",
    "max",
    "get",
    "put",
    "add_to",
    "grow",
    "radd",
    "zdiv",
    "chosen",
    "print",
    "len",
    "atomic_add",
    "empty",
    "zeros",
    "window",
    "larger",
    "smaller",
}


class Source(NamedTuple):
    """A printed function: parameters, lines of the body, texts of the results, and what the names in it stand for."""

    name: str
    params: list[str]
    lines: list[str]
    results: list[str]
    names: dict[str, Any]

    @property
    def text(self) -> str:
        """The whole function."""
        out = self.results
        last = out[0] if len(out) == 1 else f"({', '.join(out)})"
        return (
            "\n".join(
                [f"def {self.name}({', '.join(self.params)}):", *self.lines, f"    return {last}"]
            )
            + "\n"
        )


def emit(
    f: ir.Function, prange: bool = True, taken: Sequence[str] = (), unchecked: bool = True
) -> Source:
    """Print a function; its results are returned as one value or a tuple.

    Names in ``taken`` are not used; with ``unchecked``, elements whose index is not negative are reached directly.
    """
    return _Emitter(f, prange, taken, unchecked).run()


class _Emitter(Control, Memory):
    def __init__(
        self, f: ir.Function, prange: bool, taken: Sequence[str] = (), unchecked: bool = True
    ):
        self.f, self.prange = f, prange
        self.lines: list[str] = []
        self.depth = 1
        self.text: dict[ir.Value, str] = {}
        self.taken: set[str] = {*RESERVED, *taken}
        self.names: dict[str, Any] = {}
        self.by_object: dict[int, str] = {}
        self.uses: Counter = Counter()
        self.tapes: dict[ir.Value, str] = {}
        self.inlined: set[ir.Op] = set()
        self.held: set[ir.Op] = set()  # printed with the operation before
        self.low = LowerBounds(self.f)
        self.unchecked = unchecked
        for op in ir.walk(f.body):
            for v in ir.uses(op):
                self.uses[v] += 1
        for v in f.body.yields:
            self.uses[v] += 1

    def run(self) -> Source:
        """The whole function."""
        params = [self.name(p, exact=True) for p in self.f.params]
        self.choose_inlined(self.f.body)
        self.block(self.f.body)
        out = [self.value(v) for v in self.f.body.yields]
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in self.f.name)
        return Source(name, params, self.lines, out, self.names)

    # -- names ---------------------------------------------------------------------------------------
    def name(self, v: ir.Value, exact: bool = False) -> str:
        """The variable of a value."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in v.name.lstrip("$")) or "v"
        base = "v" + base if base[0].isdigit() else base
        base = base[:24].rstrip("_") or "v"
        end = "_" if self.prange else ""  # Numba's versions of x become x_1 in parallel loops
        base += end if base.rstrip("0123456789").endswith("_") else ""
        n, k = base, 0
        if base == "v" and not exact:
            k, n = 1, "v1"
            k = getattr(self, "plain", 0) + 1
            self.plain = k
            n = f"v{k}"
        while n in self.taken or keyword.iskeyword(n):
            k += 1
            n = f"{base}_{k}{end}"
        self.taken.add(n)
        self.text[v] = n
        return n

    def object(self, x: Any, hint: str) -> str:
        """The name of a Python object the text refers to."""
        found = self.by_object.get(id(x))
        if found is None:
            base = "".join(c if c.isalnum() or c == "_" else "_" for c in hint) or "obj"
            found, k = base, 0
            while found in self.taken:
                k += 1
                found = f"{base}_{k}"
            self.taken.add(found)
            self.names[found] = x
            self.by_object[id(x)] = found
        return found

    def value(self, v: ir.Value) -> str:
        """The text of a value."""
        if isinstance(v, ir.Const):
            return self.literal(v)
        found = self.text.get(v)
        if found is None:
            raise KeyError(f"{v} of {v.op} in {self.f.name} has no text")
        return found

    def literal(self, v: ir.Const) -> str:
        """A typed constant."""
        x, t = v.value, v.type
        if isinstance(t, types.Boolean):
            return repr(bool(x))
        if isinstance(t, types.Integer):
            return f"({x})" if x < 0 else str(x) if t == types.intp else f"np.{t.name}({x})"
        if isinstance(t, types.Complex):
            z = complex(x)
            text = f"complex({_real(z.real)}, {_real(z.imag)})"
            return text if t == types.complex128 else f"np.complex64({text})"
        text = _real(float(x))
        return text if t == types.float64 else f"np.{t.name}({text})"

    def put(self, text: str) -> None:
        """One line."""
        self.lines.append("    " * self.depth + text)

    # -- expressions written where they are used ------------------------------------------------------------
    def choose_inlined(self, block: ir.Block) -> None:
        """Pure operations used once, by an operation of the same block with nothing in between that could matter."""
        users: dict[ir.Value, int] = {}
        for k, op in enumerate(block.ops):
            for b in op.blocks:
                self.choose_inlined(b)
            for v in op.args:
                users[v] = k
        writes = [-1] * (len(block.ops) + 1)
        last = -1
        for k, op in enumerate(block.ops):
            writes[k] = last
            if op.blocks or op.kind in (
                "store",
                "accum",
                "copy",
                "add",
                "call",
                "effect",
                "push",
                "pop",
            ):
                last = k
        place: dict[int, int] = {}  # where the text of an operation ends up
        for k in range(len(block.ops) - 1, -1, -1):
            op = block.ops[k]
            place[k] = k
            if op.kind not in ("apply", "cast", "load") or self.uses[op.result] != 1:
                continue
            user = users.get(op.result)
            if user is None or (block.ops[user].blocks and block.ops[user].kind != "for"):
                continue
            at = place[user]
            if op.kind == "load" and writes[at] > k:
                continue
            place[k] = at
            self.inlined.add(op)

    def expression(self, op: ir.Op) -> str:
        """The text of a pure operation."""
        if op.kind == "cast":
            return self.cast_text(op.result.type, self.value(op.args[0]))
        if op.kind == "load":
            return self.element(op.args)
        name = op.attrs["fn"]
        args = [self.value(a) for a in op.args]
        if name in ("radd", "zdiv"):
            self.names[name] = getattr(runtime, name)
        if name in ("max", "min") and isinstance(op.result.type, types.Integer):
            name = "larger" if name == "max" else "smaller"
            self.names[name] = getattr(runtime_arrays, name)
            return f"{name}({', '.join(args)})"
        if name == "conj" and not isinstance(op.args[0].type, types.Complex):
            return args[0]
        if op.attrs.get("raises"):
            return f"{self.object(runtime.WHOLE[name], 'checked_' + name)}({', '.join(args)})"
        if name in functions.TEXT:
            return functions.TEXT[name].format(*args)
        kinds = tuple(as_dtype(a.type).name for a in op.args)
        if name in ("keep", "drop"):
            zero = self.literal(scalars.zero(op.result.type))
            return self.choice(args[0], *((args[1], zero) if name == "keep" else (zero, args[1])))
        helper = runtime.scalar_helper(name, _unified(name, kinds))
        return f"{self.object(helper, name)}({', '.join(args)})"

    def choice(self, condition: str, x: str, y: str) -> str:
        """One of two numbers, both computed."""
        self.names["chosen"] = runtime.chosen
        return f"chosen({condition}, {x}, {y})"

    @staticmethod
    def cast_text(t: Any, text: str) -> str:
        """A conversion."""
        simple = {
            types.float64: "float",
            types.int64: "int",
            types.boolean: "bool",
            types.complex128: "complex",
        }
        return f"{simple[t]}({text})" if t in simple else f"np.{t.name}({text})"

    # -- statements --------------------------------------------------------------------------------------------
    def block(self, block: ir.Block) -> None:
        """The operations of a block."""
        for k, op in enumerate(block.ops):
            if op in self.held or self.hold(block.ops[k : k + 3]):
                continue
            if op in self.inlined:
                text = self.expression(op)
                if len(text) <= MAX_TEXT:
                    self.text[op.result] = text
                    continue
            getattr(self, "op_" + op.kind.replace("-", "_"))(op)

    def op_apply(self, op: ir.Op) -> None:
        """A pure operation with a variable of its own."""
        text = self.expression(op)
        if text.startswith("(") and text.endswith(")") and _balanced(text[1:-1]):
            text = text[1:-1]
        self.put(f"{self.name(op.result)} = {text}")

    op_cast = op_load = op_apply

    def op_call(self, op: ir.Op) -> None:
        """An opaque call."""
        f = op.attrs["rule"].function
        it = iter([self.value(a) for a in op.args])
        args = [_grouped(g, it) for g in op.attrs["structure"]]
        if f is operator.matmul:
            text = f"{args[0]} @ {args[1]}"
        else:
            text = f"{self.function(f)}({', '.join(args)})"
        names = iter([self.name(r) for r in op.results])
        target = _target(op.attrs["type"], names)
        self.put(f"{target} = {text}" if op.results else text)

    def function(self, f: Any) -> str:
        """The name a function is called by."""
        name = getattr(f, "__name__", "f")
        for prefix, module in (("np.", np), ("np.linalg.", np.linalg), ("math.", math)):
            if getattr(module, name, None) is f:
                return prefix + name
        return self.object(f, name)

    def op_check(self, op: ir.Op) -> None:
        """A condition that must hold."""
        error, text = op.attrs["error"], op.attrs["message"]
        error = error if isinstance(error, str) else self.object(error, error.__name__)
        c = op.args[0]
        raised = f"raise {error}({text!r})"
        if isinstance(c, ir.Const):
            if not c.value:
                self.put(raised)
            return
        self.put(f"if not {self.value(c)}:")
        self.put("    " + raised)

    def op_disjoint(self, op: ir.Op) -> None:
        """Whether two arrays share no memory."""
        name = self.object(runtime.disjoint, "disjoint")
        self.put(
            f"{self.name(op.result)} = {name}({self.value(op.args[0])}, {self.value(op.args[1])})"
        )

    def op_effect(self, op: ir.Op) -> None:
        """A statement kept as it is."""
        self.put(op.attrs["text"].format(*[self.value(a) for a in op.args]))


def _target(t: Any, names: Iterator[str]) -> str:
    """The left side that takes an object of a type apart."""
    if isinstance(t, types.BaseTuple):
        items = [_target(i, names) for i in t.types]
        return f"({', '.join(items)},)" if items else "_"
    return "_" if isinstance(t, types.NoneType) else next(names)


def _balanced(text: str) -> bool:
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return depth == 0


def _real(v: float) -> str:
    if math.isnan(v):
        return "np.nan"
    if math.isinf(v):
        return "np.inf" if v > 0 else "(-np.inf)"
    return f"({v!r})" if v < 0 or (v == 0 and math.copysign(1, v) < 0) else repr(v)


def _grouped(group: Any, it: Iterator[str]) -> str:
    if group == 1:
        return next(it)
    if isinstance(group, Fixed):
        return repr(group.value)
    items = [_grouped(g, it) for g in group]
    return f"({', '.join(items)},)"


def _unified(name: str, kinds: tuple) -> tuple:
    """Operand dtypes of an operator's body: one dtype, except conditions."""
    wide = np.result_type(*kinds)
    if wide.kind in "iub":
        wide = np.dtype(np.float64)
    return tuple(wide.name for _ in kinds)
