"""The state of an interpretation: the function being written, names, scopes of known values, errors."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import types

from ...errors import UnsupportedError
from .. import ir, scalars
from . import jumps, source
from .objects import Closure, Lazy, Method, Py, Record, Tup, Undefined

LIBRARY = str(Path(__file__).parent.parent)
UNROLL_TRIPS, UNROLL_COPIES, UNROLL_NODES = 4, 32, 400


class Frame:
    """One function under interpretation: its names, where it is, the node it is called at."""

    def __init__(
        self,
        function: Any,
        src: source.Source,
        env: dict[str, Any],
        owner: Any = None,
        call: ast.AST | None = None,
    ):
        self.function, self.source, self.env, self.call = function, src, env, call
        options = getattr(owner, "targetoptions", {})
        self.outer: Frame | None = None
        if isinstance(function, Closure):
            outer: Frame = function.frame
            self.outer, self.names = outer, outer.names
            self.parallel, self.raises = outer.parallel, outer.raises
        else:
            self.names = source.freevars(function)
            self.parallel = bool(options.get("parallel"))  # else prange is range
            # whether a whole number divided by zero is an error
            python = options.get("error_model", "python") == "python"
            self.raises = python and not src.file.startswith(LIBRARY)


class Base:
    """What the parts of the interpreter share."""

    def __init__(self, name: str):
        self.fn = ir.Function(name)
        self.b = ir.Builder(self.fn.body)
        self.frames: list[Frame] = []
        self.path: list[int] = []  # the calls that lead to the innermost function
        self.known: dict[ir.Block, dict] = {self.fn.body: {}}
        self.sizes: dict[ir.Value, list[ir.Value]] = {}  # of arrays, where known
        self.roots: dict[ir.Value, Any] = {}  # memory an array belongs to; None: may be any
        self.views: dict[ir.Value, Any] = {}
        self.loose: set[Any] = (
            set()
        )  # copies where Numba makes views, if it can: they are only read
        self.loop_types: dict[Any, dict] = {}  # what an earlier attempt at a loop found out
        self.unrolled = 1
        self.memory_changes = 0  # how often writes have been interpreted
        self.uses_parallel = False
        self.active_results: list[
            bool
        ] = []  # which results of the call whose rule is written have cotangents
        self.deps: dict[Any, None] = {}

    # -- places and errors ---------------------------------------------------------------------------
    @property
    def frame(self) -> Frame:
        """The innermost function."""
        return self.frames[-1]

    def refuse(self, node: ast.AST, what: str, instead: str) -> UnsupportedError:
        """The error for something not covered, at the user's line where it is in a text of the library."""
        for frame in reversed(self.frames):
            if frame.call is None or not frame.source.file.startswith(LIBRARY):
                return jumps.refuse(frame.source, node, what, instead)
            node = frame.call
        return jumps.refuse(self.frame.source, node, what, instead)

    def at(self, node: ast.AST) -> None:
        """Operations from here on come from this statement."""
        s = self.frame.source
        self.b.line = (s.file, s.first + getattr(node, "lineno", 1) - 1)

    # -- writing operations ----------------------------------------------------------------------------
    @contextmanager
    def inside(self, block: ir.Block) -> Iterator[ir.Block]:
        """Write into a block."""
        old, self.b.block = self.b.block, block
        self.known[block] = {}
        try:
            yield block
        finally:
            self.b.block = old

    def nested(self, kind: str, args: Sequence[ir.Value] = (), **kw: Any) -> ir.Op:
        """An operation with blocks, which are filled before its results are known: results are added later."""
        return self.b.op(kind, args, **kw)

    def add_results(self, op: ir.Op, kinds: Sequence[Any], names: Sequence[str]) -> list[ir.Value]:
        """Results of an operation whose blocks are complete."""
        op.results += [ir.Value(t, n, op) for t, n in zip(kinds, names, strict=True)]
        return op.results[-len(kinds) :] if kinds else []

    def shared(self, key: Any, make: Any) -> ir.Value:
        """A pure operation, or the same one computed before on every path that leads here."""
        for block in self.b.block.chain():
            found = self.known.get(block, {}).get(key)
            if found is not None:
                return found
        v = make()
        self.known[self.b.block][key] = v
        return v

    def apply(self, name: str, *args: ir.Value) -> ir.Value:
        """A scalar function."""
        key = (name, *[(a.value, a.type) if isinstance(a, ir.Const) else a for a in args])
        return self.shared(key, lambda: scalars.apply(self.b, name, *args))

    def cast(self, v: ir.Value, t: Any) -> ir.Value:
        """A scalar converted to a type."""
        if v.type == t or isinstance(v, ir.Const):
            return scalars.cast(self.b, v, t)
        return self.shared(("cast", v, t), lambda: scalars.cast(self.b, v, t))

    def integer(self, n: int) -> ir.Const:
        """An integer constant."""
        return ir.Const(n, types.intp)

    def size(self, array: ir.Value, axis: int) -> ir.Value:
        """The size of a dimension of an array."""
        known = self.sizes.get(array)
        if known is not None:
            return known[axis]
        return self.shared(("shape", array, axis), lambda: self.b.shape(array, axis))

    def shape(self, x: Any) -> list[ir.Value]:
        """All sizes of an array or array expression."""
        if isinstance(x, Lazy):
            return list(x.sizes)
        return [self.size(x, k) for k in range(x.type.ndim)]

    def alloc(
        self, sizes: Sequence[ir.Value], dtype: Any, fill: Any = None, name: str = ""
    ) -> ir.Value:
        """A new array."""
        a = self.b.alloc(sizes, dtype, fill, name)
        self.sizes[a] = list(sizes)
        self.roots[a] = a
        return a

    @contextmanager
    def for_each(self, sizes: Sequence[ir.Value], name: str = "k") -> Iterator[list[ir.Value]]:
        """A loop nest over sizes without carried values."""
        opened = []
        index = []
        outer = self.b.block
        try:
            for k, n in enumerate(sizes):
                op = self.b.loop(self.integer(0), n, [], f"{name}{k}")
                opened.append(op)
                block = op.blocks[0]
                self.known[block] = {}
                self.b.block = block
                index.append(block.params[0])
            yield index
        finally:
            self.b.block = outer

    # -- names ---------------------------------------------------------------------------------------
    def lookup(self, name: str, node: ast.AST) -> Any:
        """What a name stands for."""
        frame: Frame | None = self.frame
        while frame is not None and name not in frame.env:
            frame = frame.outer
        if frame is not None:
            v = frame.env[name]
            if isinstance(v, Undefined):
                raise self.refuse(node, f"'{name}' is read here, but {v.why}", v.instead)
            return v
        if name in self.frame.names:
            v = self.wrap(self.frame.names[name], name, node)
            return v
        raise self.refuse(
            node, f"the name '{name}' is not defined here", "Assign it before it is read."
        )

    def wrap(self, value: Any, name: str, node: ast.AST) -> Any:
        """A Python object from outside, as Numba sees it: numbers and tuples are constants, arrays are refused or frozen."""
        import numpy as np

        if isinstance(value, enum.Enum):
            return scalars.constant(int(value)) if isinstance(value, int) else Py(value)
        if isinstance(value, bool | int | float | complex | np.generic) and not isinstance(
            value, np.datetime64 | np.timedelta64
        ):
            if isinstance(value, np.generic) and value.dtype.kind not in "biufc":
                return Py(value)
            return scalars.constant(value)
        if isinstance(value, tuple):
            return Tup(tuple(self.wrap(x, name, node) for x in value), type(value))
        if isinstance(value, np.ndarray):
            return self.frozen(value, name)
        return Py(value)

    def frozen(self, value: Any, name: str) -> ir.Value:
        """A global or captured array: Numba freezes it, so it is a constant that is only read."""
        key = ("frozen", id(value))

        def make() -> ir.Value:
            import numba

            a = self.b.op(
                "frozen", [], [numba.typeof(value)], attrs={"value": value}, name=name
            ).result
            self.roots[a] = a
            self.sizes[a] = [self.integer(n) for n in value.shape]
            return a

        return self.shared(key, make)

    # -- kinds of objects ---------------------------------------------------------------------------------
    def scalar(self, x: Any, node: ast.AST, what: str = "a number") -> ir.Value:
        """The object as a scalar value."""
        if isinstance(x, ir.Value) and not ir.is_array(x):
            return x
        if isinstance(x, Lazy) and not x.sizes:
            return x.element(())
        if isinstance(x, ir.Value) and x.type.ndim == 0:
            return self.b.load(x, [])
        raise self.refuse(
            node,
            f"{describe(x)} stands where {what} is needed",
            "Index it, or use a supported operation.",
        )

    def root(self, array: ir.Value) -> Any:
        """The memory an array belongs to, or None if it may be one of several."""
        return self.roots.get(array)


def describe(x: Any) -> str:
    """An object, for messages."""
    if isinstance(x, ir.Value):
        return (
            f"an array of {x.type.dtype}, {x.type.ndim}-D"
            if ir.is_array(x)
            else f"a number ({x.type})"
        )
    if isinstance(x, Lazy):
        return f"a {len(x.sizes)}-D array expression"
    if isinstance(x, Tup):
        return f"a {'list' if x.cls is list else 'tuple'} of {len(x.items)}"
    if isinstance(x, Record):
        return "a record"
    if isinstance(x, Method):
        return f"the method '{x.name}'"
    if isinstance(x, Py):
        v = x.value
        return (
            repr(v)
            if v is None or isinstance(v, str)
            else f"'{getattr(v, '__name__', type(v).__name__)}'"
        )
    if isinstance(x, Undefined):
        return x.why.removeprefix("it is ")
    return type(x).__name__.lower()
