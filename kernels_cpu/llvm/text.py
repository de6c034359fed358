"""Writing LLVM assembly as text: typed values, functions with structured loops, modules of functions.

The compiler writes vector code directly: a loop body is straight-line code on ``<V x double>`` values, so there is no
loop for LLVM to vectorise and no Python front end to wait for. Text, because parsing it costs LLVM less than building
it object by object costs Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

SCALARS = {
    "float64": "double",
    "float32": "float",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "bool": "i1",
}
FLOATS = ("double", "float")


class Value(NamedTuple):
    """An operand: its text (a name or a constant) and its type."""

    text: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


def vector(kind: str, lanes: int) -> str:
    """The type of ``lanes`` values of a scalar type (the scalar type itself for one lane)."""
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def scalar_of(kind: str) -> str:
    """The element type of a vector type."""
    return kind[kind.index("x") + 2 : -1] if kind[0] == "<" else kind


def lanes_of(kind: str) -> int:
    """How many values a type holds."""
    return int(kind[1 : kind.index(" ")]) if kind[0] == "<" else 1


BYTES = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1, "ptr": 8}


def suffix(kind: str) -> str:
    """A type as it appears in the names of overloaded intrinsics, e.g. ``v8f64``."""
    scalar, n = scalar_of(kind), lanes_of(kind)
    short = {"double": "f64", "float": "f32"}.get(scalar, scalar)
    return short if n == 1 else f"v{n}{short}"


def number(value: Any, kind: str) -> str:
    """Text of a scalar constant: floats as the bits of the double of the same value."""
    if kind == "i1":
        return "true" if value else "false"
    if kind not in FLOATS:
        return str(int(value))
    with np.errstate(over="ignore"):
        v = float(np.float32(value)) if kind == "float" else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', v))[0]:016X}"


def const(value: Any, kind: str) -> Value:
    """A constant of a scalar or vector type (the same in all lanes)."""
    text = number(value, scalar_of(kind))
    return Value(text if kind[0] != "<" else f"splat ({scalar_of(kind)} {text})", kind)


def i64(value: int | Value) -> Value:
    """An index."""
    return value if isinstance(value, Value) else Value(str(value), "i64")


class Module:
    """A compilation unit: functions, constants and the external functions they call."""

    def __init__(self) -> None:
        self.functions: dict[str, list[str]] = {}
        self.declared: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.made: dict[int, Any] = {}  # what a user of the module has emitted, by identity

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        parts = [*self.globals.values(), *self.declared.values()]
        parts += ["\n".join(lines) for lines in self.functions.values()]
        return "\n".join([*parts, "!0 = !{}"]) + "\n"

    def declare(self, name: str, ret: str, args: Sequence[str]) -> None:
        """Make an external function (or intrinsic) known."""
        self.declared.setdefault(name, f"declare {ret} @{name}({', '.join(args)})")

    def table(self, name: str, values: np.ndarray) -> None:
        """A constant array of float64."""
        if name not in self.globals:
            cells = ", ".join(f"double {number(v, 'double')}" for v in values)
            self.globals[name] = (
                f"@{name} = internal unnamed_addr constant [{len(values)} x double] [{cells}], align 64"
            )


class Function:
    """One function under construction; instructions are appended to the current block."""

    def __init__(
        self,
        module: Module,
        name: str,
        params: Sequence[Value],
        ret: str = "void",
        linkage: str = "",
        attributes: str = "",
    ):
        self.module, self.name, self.ret = module, name, ret
        self.params = list(params)
        self.count = 0
        self.block = "entry"
        self.hoisted: dict[str, Value] = {}
        self.top = 2  # where hoisted instructions go
        heads = ", ".join(
            f"{p.type}{' noalias' if p.type == 'ptr' else ''} {p.text}" for p in params
        )
        kind = f"define {linkage} {ret}" if linkage else f"define {ret}"
        self.lines = [f"{kind} @{name}({heads}) {attributes} {{"]
        self.lines.append("entry:")
        module.functions[name] = self.lines

    def finish(self, value: Value | None = None) -> None:
        """Return and close the function."""
        self.lines.append(f"  ret {value}" if value is not None else "  ret void")
        self.lines.append("}")

    def finish_early(self, value: Value) -> None:
        """Return from within the function."""
        self.do(f"ret {value}")

    def fresh(self) -> str:
        """A new local name."""
        self.count += 1
        return f"%v{self.count}"

    def emit(self, kind: str, text: str) -> Value:
        """Append an instruction with a result of type ``kind``."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return Value(name, kind)

    def hoist(self, kind: str, text: str) -> Value:
        """An instruction at the top of the function (once per text): it may read parameters and hoisted values."""
        if text not in self.hoisted:
            name = self.fresh()
            self.lines.insert(self.top, f"  {name} = {text}")
            self.top += 1
            self.hoisted[text] = Value(name, kind)
        return self.hoisted[text]

    def do(self, text: str) -> None:
        """Append an instruction without result."""
        self.lines.append(f"  {text}")

    def call(self, name: str, ret: str, args: Sequence[Value]) -> Value:
        """Call a function of the module or an intrinsic."""
        if name not in self.module.functions:
            self.module.declare(name, ret, [a.type for a in args])
        return self.emit(ret, f"call {ret} @{name}({', '.join(map(str, args))})")

    # -- arithmetic on indices ------------------------------------------------------------------
    def add(self, a: Value | int, b: Value | int) -> Value:
        """Sum of two indices; constants are folded."""
        a, b = i64(a), i64(b)
        if a.text.lstrip("-").isdigit() and b.text.lstrip("-").isdigit():
            return i64(int(a.text) + int(b.text))
        if a.text == "0":
            return b
        if b.text == "0":
            return a
        return self.emit("i64", f"add nsw {a}, {b.text}")

    def mul(self, a: Value | int, b: Value | int) -> Value:
        """Product of two indices; constants are folded."""
        a, b = i64(a), i64(b)
        if a.text.lstrip("-").isdigit() and b.text.lstrip("-").isdigit():
            return i64(int(a.text) * int(b.text))
        if "0" in (a.text, b.text):
            return i64(0)
        if a.text == "1":
            return b
        if b.text == "1":
            return a
        return self.emit("i64", f"mul nsw {a}, {b.text}")

    # -- memory -----------------------------------------------------------------------------------
    def at(self, base: Value, index: Value | int, kind: str) -> Value:
        """Address of element ``index`` of an array of a scalar type."""
        index = i64(index)
        if index.text == "0":
            return base
        size = "i8" if kind == "i1" else kind
        return self.emit("ptr", f"getelementptr inbounds {size}, {base}, {index}")

    def load(self, p: Value, kind: str, align: int = 0, notes: str = "") -> Value:
        """Load a scalar or vector; bools are bytes in memory."""
        if scalar_of(kind) == "i1":
            raw = self.load(p, vector("i8", lanes_of(kind)), align, notes)
            return self.emit(kind, f"icmp ne {raw}, {const(0, raw.type).text}")
        size = align or BYTES[scalar_of(kind)]
        return self.emit(kind, f"load {kind}, {p}, align {size}{notes}")

    def store(self, value: Value, p: Value, align: int = 0, notes: str = "") -> None:
        """Store a scalar or vector; bools become bytes 0 and 1."""
        kind = value.type
        if scalar_of(kind) == "i1":
            wide = vector("i8", lanes_of(kind))
            value = self.emit(wide, f"zext {value} to {wide}")
        size = align or BYTES[scalar_of(value.type)]
        self.do(f"store {value}, {p}, align {size}{notes}")

    def splat(self, value: Value, lanes: int) -> Value:
        """The scalar in all lanes."""
        if lanes == 1 or value.type[0] == "<":
            return value
        kind = vector(value.type, lanes)
        if not value.text.startswith("%"):
            return Value(f"splat ({value})", kind)
        one = self.emit(kind, f"insertelement {kind} poison, {value}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(kind, f"shufflevector {one}, {kind} poison, {zeros}")

    # -- control ------------------------------------------------------------------------------------
    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, target: str) -> None:
        """Unconditional branch."""
        self.do(f"br label %{target}")

    def branch(self, condition: Value, yes: str, no: str) -> None:
        """Conditional branch."""
        self.do(f"br {condition}, label %{yes}, label %{no}")

    def fresh_label(self, stem: str) -> str:
        """A new block name."""
        self.count += 1
        return f"{stem}{self.count}"

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Instructions that run only if the condition holds."""
        body, end = self.fresh_label("then"), self.fresh_label("endif")
        self.branch(condition, body, end)
        self.label(body)
        yield
        self.jump(end)
        self.label(end)

    def loop(
        self,
        lo: Value | int,
        hi: Value | int,
        step: int,
        body: Callable[..., Sequence[Value] | None],
        carried: Sequence[Value] = (),
    ) -> list[Value]:
        """``for i in range(lo, hi, step): carried = body(i, *carried)``; returns the last ``carried``.

        A loop that runs exactly once (constant bounds) is emitted without control flow.
        """
        lo, hi = i64(lo), i64(hi)
        if lo.text.isdigit() and hi.text.isdigit():
            trips = max(0, -(-(int(hi.text) - int(lo.text)) // step))
            if trips == 0:
                return list(carried)
            if trips == 1:
                return list(body(lo, *carried) or ())
            return self._loop(lo, hi, step, body, carried)
        end = self.fresh_label("endloop")
        guard = self.fresh_label("enter")
        ok = self.emit("i1", f"icmp slt {lo}, {hi.text}")
        before = self.block
        self.branch(ok, guard, end)
        self.label(guard)
        last = self._loop(lo, hi, step, body, carried)
        inside = self.block
        self.jump(end)
        self.label(end)
        return [
            self.emit(c.type, f"phi {c.type} [ {c.text}, %{before} ], [ {v.text}, %{inside} ]")
            for c, v in zip(carried, last, strict=True)
        ]

    def repeat(
        self,
        test: Callable[..., Value],
        body: Callable[..., Sequence[Value]],
        carried: Sequence[Value],
    ) -> list[Value]:
        """``while test(*carried): carried = body(*carried)``; returns the last ``carried``."""
        head, inside, end = (self.fresh_label(s) for s in ("while", "again", "endwhile"))
        before = self.block
        self.jump(head)
        self.label(head)
        now = [Value(self.fresh(), c.type) for c in carried]
        at = len(self.lines) - self.top
        self.lines += [""] * len(now)
        self.branch(test(*now), inside, end)
        self.label(inside)
        last = list(body(*now))
        back = self.block
        self.jump(head)
        at += self.top
        for k, (n, c, v) in enumerate(zip(now, carried, last, strict=True)):
            self.lines[at + k] = (
                f"  {n.text} = phi {c.type} [ {c.text}, %{before} ], [ {v.text}, %{back} ]"
            )
        self.label(end)
        return now

    def _loop(self, lo: Value, hi: Value, step: int, body: Callable, carried: Sequence) -> list:
        head, end = self.fresh_label("loop"), self.fresh_label("done")
        before = self.block
        self.jump(head)
        self.label(head)
        i = self.fresh()
        names = [self.fresh() for _ in carried]
        at = len(self.lines) - self.top  # hoisting shifts the lines below the top
        self.lines += [""] * (1 + len(names))
        last = list(
            body(Value(i, "i64"), *(Value(n, c.type) for n, c in zip(names, carried))) or ()
        )
        after = self.emit("i64", f"add nsw i64 {i}, {step}")
        more = self.emit("i1", f"icmp slt {after}, {hi.text}")
        back = self.block
        self.branch(more, head, end)
        at += self.top
        self.lines[at] = f"  {i} = phi i64 [ {lo.text}, %{before} ], [ {after.text}, %{back} ]"
        for k, (n, c, v) in enumerate(zip(names, carried, last, strict=True), 1):
            self.lines[at + k] = (
                f"  {n} = phi {c.type} [ {c.text}, %{before} ], [ {v.text}, %{back} ]"
            )
        self.label(end)
        return last
