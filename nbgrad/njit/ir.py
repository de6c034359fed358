"""The intermediate form of the Numba door: structured SSA over scalars, with arrays as handles to memory.

A `Function` is a tree of `Block`s. Control flow is structured (``for``, ``while``, ``if`` own blocks); scalars are single
assignment values, carried round loops as block parameters; arrays are handles, and ``load``/``store`` touch memory.
Front end, adjoint and tangent produce it, every analysis reads it, `emit` prints it as Python for Numba, so a
derivative is a program of the same kind and can be differentiated again.

Kinds of operations (``args -> results``; attrs):

=============  =====================================================================================
``apply``      scalars -> scalar; ``fn`` names a scalar function (`scalars.FUNCTIONS`). Pure.
``cast``       scalar -> scalar of the result's type. Pure.
``load``       array, indices -> scalar
``store``      array, indices, scalar ->
``accum``      array, indices, scalar -> ; ``array[indices] += scalar``
``alloc``      sizes -> array; ``fill`` is None (uninitialised) or 0. The result's type says dtype and layout; ``kept``:
               it is filled with residuals before it is read
``view``       array, integers -> array on the same memory; ``spec`` (see `View`). Pure.
``shape``      array -> size of dimension ``axis``. Pure.
``copy``       destination, source -> ; elementwise assignment of arrays of one shape
``add``        destination, source -> ; ``destination += source``
``call``       values -> values; ``rule``: an opaque function with its derivative rules; arrays it returns are new
``check``      condition -> ; raises ``error(message)`` where it is false
``effect``     values -> ; statement text ``text`` (print), kept in the forward sweep only
``for``        lo, hi, inits... -> finals...; body(iv, phis...) yields nexts... (and, with ``exit``, a last boolean)
``while``      inits... -> finals...; cond(phis...) yields a boolean; body() yields nexts...
``region``     -> results...; a block run once, whose reverse sweep computes it again instead of keeping values
``if``         condition -> results...; two blocks that yield them
``tape``       -> a stack of scalars, always at the top of the function
``push``       tape, count -> position of the first of ``count`` new places
``pop``        tape, count -> position of the first of the ``count`` last places, given back
``tape_size``  tape -> places it has
``disjoint``   array, array -> whether they share no memory
``frozen``     -> the captured array ``value``, which is only read
=============  =====================================================================================

A ``for`` loop has unit step and runs from ``lo`` up, or with ``reverse`` from ``hi - 1`` down; ``parallel`` marks prange.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from numba import types

PURE = frozenset({"apply", "cast", "view", "shape"})
LOOPS = frozenset({"for", "while"})
_ids = itertools.count()


class Value:
    """A scalar or an array handle: the result of ``op``, or a parameter of ``block``."""

    __slots__ = ("block", "id", "name", "op", "type")

    def __init__(self, type: Any, name: str = "", op: Op | None = None, block: Block | None = None):
        self.type, self.name, self.op, self.block = type, name, op, block
        self.id = next(_ids)

    @property
    def home(self) -> Block | None:
        """The block it is defined in; None for constants."""
        return self.op.block if self.op is not None else self.block

    def __repr__(self) -> str:
        return f"{self.name or 'v'}.{self.id}"


class Const(Value):
    """A number known when the program is transformed."""

    __slots__ = ("value",)

    def __init__(self, value: Any, type: Any):
        super().__init__(type)
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


class View(NamedTuple):
    """How a view is made: ``kind`` is ``index`` (a subscript), ``T``, ``reshape``, ``field``, ``real``, ``imag`` or ``tape``.

    For ``index`` every entry of ``parts`` is ``("i",)`` (an integer argument), ``("n",)`` (newaxis) or ``("s", a, b, c)``,
    which of start, stop and step are given as arguments. ``axes`` is the permutation of ``T``; ``name`` the field.
    """

    kind: str
    parts: tuple = ()
    axes: tuple = ()
    name: str = ""


class Op:
    """One operation: see the table above."""

    __slots__ = ("args", "attrs", "block", "blocks", "kind", "line", "results")

    def __init__(
        self,
        kind: str,
        args: Sequence[Value] = (),
        result_types: Sequence[Any] = (),
        attrs: dict[str, Any] | None = None,
        blocks: Sequence[Block] = (),
        line: Any = None,
        name: str = "",
    ):
        self.kind, self.args, self.attrs, self.line = kind, list(args), attrs or {}, line
        self.block: Block | None = None
        self.blocks = list(blocks)
        for b in self.blocks:
            b.parent = self
        self.results = [Value(t, name, self) for t in result_types]

    @property
    def result(self) -> Value:
        """The only result."""
        return self.results[0]

    @property
    def inits(self) -> list[Value]:
        """What the carried values of a loop are before it."""
        return self.args[2:] if self.kind == "for" else self.args

    @property
    def phis(self) -> list[Value]:
        """The carried values inside a loop."""
        return self.blocks[0].params[1:] if self.kind == "for" else self.blocks[0].params

    @property
    def nexts(self) -> list[Value]:
        """The carried values after an iteration."""
        y = self.blocks[-1].yields
        return y[:-1] if self.attrs.get("exit") else y

    def __repr__(self) -> str:
        return f"{self.results} = {self.kind}{self.args} {self.attrs}"


class Block:
    """A list of operations with parameters and yielded values."""

    __slots__ = ("ops", "params", "parent", "yields")

    def __init__(self, params: Sequence[tuple[Any, str]] = (), parent: Op | None = None):
        self.params = [Value(t, n, block=self) for t, n in params]
        self.ops: list[Op] = []
        self.yields: list[Value] = []
        self.parent = parent

    @property
    def outer(self) -> Block | None:
        """The block around."""
        return self.parent.block if self.parent is not None else None

    def chain(self) -> Iterator[Block]:
        """This block and those around it, outwards."""
        b: Block | None = self
        while b is not None:
            yield b
            b = b.outer

    def loop(self) -> Op | None:
        """The nearest loop around (the block itself may be its body)."""
        for b in self.chain():
            if b.parent is not None and b.parent.kind in LOOPS:
                return b.parent
        return None

    def within(self, other: Block) -> bool:
        """Whether it is ``other`` or lies inside it."""
        return any(b is other for b in self.chain())


class Function:
    """A program: parameters and results are flat lists of scalars and arrays."""

    def __init__(self, name: str):
        self.name = name
        self.body = Block()
        self.line: Any = None

    @property
    def params(self) -> list[Value]:
        """Its arguments."""
        return self.body.params

    @property
    def results(self) -> list[Value]:
        """What it returns."""
        return self.body.yields

    def add_param(self, type: Any, name: str) -> Value:
        """One more argument."""
        v = Value(type, name, block=self.body)
        self.body.params.append(v)
        return v


def is_array(v: Value) -> bool:
    """Whether it is an array handle."""
    return isinstance(v.type, types.Array)


def is_kept(v: Value) -> bool:
    """Whether an array holds what the reverse sweep needs of the forward sweep (`residuals`)."""
    return v.op is not None and v.op.kind == "alloc" and bool(v.op.attrs.get("kept"))


def is_float(t: Any) -> bool:
    """Whether numbers (or array elements) of this type have derivatives."""
    t = t.dtype if isinstance(t, types.Array) else t
    return isinstance(t, (types.Float, types.Complex, types.Record))


def is_const(v: Value, value: Any = None) -> bool:
    """Whether it is a constant (with this value)."""
    return isinstance(v, Const) and (value is None or v.value == value)


def walk(block: Block) -> Iterator[Op]:
    """Every operation in program order, an operation before those in its blocks."""
    for op in block.ops:
        yield op
        for b in op.blocks:
            yield from walk(b)


def uses(op: Op) -> Iterator[Value]:
    """The values an operation reads itself: arguments, and what its blocks yield."""
    yield from op.args
    for b in op.blocks:
        yield from b.yields


def free_values(op: Op) -> list[Value]:
    """Values from outside that the blocks of an operation read, in order of first use."""
    inside = set(op.blocks)
    found: dict[Value, None] = {}

    def visit(o: Op) -> None:
        for v in o.args:
            note(v)
        for b in o.blocks:
            inside.add(b)
        for b in o.blocks:
            for child in b.ops:
                visit(child)
            for v in b.yields:
                note(v)

    def note(v: Value) -> None:
        if v.home is not None and v.home not in inside:
            found[v] = None

    for b in op.blocks:
        for child in b.ops:
            visit(child)
        for v in b.yields:
            note(v)
    return list(found)


class Builder:
    """Appends operations to a block."""

    def __init__(self, block: Block, line: Any = None):
        self.block, self.line = block, line

    def op(
        self, kind: str, args: Sequence[Value] = (), result_types: Sequence[Any] = (), **kw: Any
    ) -> Op:
        """Append an operation; ``attrs``, ``blocks`` and ``name`` as in `Op`."""
        kw.setdefault("line", self.line)
        o = Op(kind, args, result_types, **kw)
        o.block = self.block
        self.block.ops.append(o)
        return o

    def load(self, array: Value, index: Sequence[Value], name: str = "") -> Value:
        """Read an element."""
        return self.op("load", [array, *index], [array.type.dtype], name=name).result

    def store(self, array: Value, index: Sequence[Value], value: Value) -> None:
        """Write an element."""
        self.op("store", [array, *index, value])

    def accum(self, array: Value, index: Sequence[Value], value: Value) -> None:
        """Add to an element."""
        self.op("accum", [array, *index, value])

    def shape(self, array: Value, axis: int) -> Value:
        """The size of a dimension."""
        return self.op("shape", [array], [types.intp], attrs={"axis": axis}).result

    def alloc(self, sizes: Sequence[Value], dtype: Any, fill: Any = None, name: str = "") -> Value:
        """A new C-contiguous array."""
        t = types.Array(dtype, len(sizes), "C")
        return self.op("alloc", sizes, [t], attrs={"fill": fill}, name=name).result

    def loop(
        self, lo: Value, hi: Value, inits: Sequence[Value], name: str = "i", **attrs: Any
    ) -> Op:
        """An empty ``for`` loop; fill its block and set the block's yields."""
        block = Block([(types.intp, name), *((v.type, v.name) for v in inits)])
        return self.op(
            "for", [lo, hi, *inits], [v.type for v in inits], attrs=attrs, blocks=[block]
        )


def insert(block: Block, ops: Sequence[Op], at: int) -> None:
    """Put operations into a block before position ``at``."""
    for o in ops:
        o.block = block
    block.ops[at:at] = ops


def clone(op: Op, mapping: dict[Value, Value], into: Block, attrs: Callable | None = None) -> Op:
    """A copy of an operation (with its blocks) at the end of ``into``; ``mapping`` renames values and is extended."""
    new = Op(
        op.kind,
        [mapping.get(a, a) for a in op.args],
        [r.type for r in op.results],
        dict(op.attrs),
        line=op.line,
    )
    new.block = into
    into.ops.append(new)
    for b in op.blocks:
        nb = Block(parent=new)
        new.blocks.append(nb)
        copy_block(b, nb, mapping)
    for r, s in zip(op.results, new.results, strict=True):
        s.name = r.name
        mapping[r] = s
    return new


def copy_block(block: Block, new: Block, mapping: dict[Value, Value]) -> None:
    """Fill ``new`` with a copy of ``block``."""
    for p in block.params:
        q = Value(p.type, p.name, block=new)
        new.params.append(q)
        mapping[p] = q
    for o in block.ops:
        clone(o, mapping, new)
    new.yields = [mapping.get(v, v) for v in block.yields]


def clone_function(f: Function) -> Function:
    """A deep copy."""
    g = Function(f.name)
    g.line = f.line
    copy_block(f.body, g.body, {})
    return g


def text(f: Function) -> str:
    """A listing, for tests and for reading."""
    lines = [f"{f.name}({', '.join(f'{p}:{p.type}' for p in f.params)})"]

    def show(block: Block, depth: int) -> None:
        for o in block.ops:
            res = ", ".join(f"{r}:{r.type}" for r in o.results)
            lines.append(
                "  " * depth + (f"{res} = " if res else "") + f"{o.kind} {o.args} {o.attrs or ''}"
            )
            for b in o.blocks:
                lines.append("  " * depth + f" block {b.params}")
                show(b, depth + 1)
        lines.append("  " * depth + f"yield {block.yields}")

    show(f.body, 1)
    return "\n".join(lines)
