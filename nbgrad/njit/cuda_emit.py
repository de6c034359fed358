"""A program printed as a CUDA kernel.

A device allocates nothing: arrays of known size are local arrays, other arrays and stacks are columns of buffers that
the launch provides, one column a thread. Additions to arrays of the launch are atomic unless only one thread reaches
the element.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype

from ..errors import UnsupportedError
from . import functions, ir, scalars
from .affine import place
from .alias import Aliases
from .cuda_front import AXES
from .emit import _Emitter, _unified

# plain operators; everything else is written with the engine's own templates for CUDA
SIGNS = frozenset(
    (
        *("add", "sub", "mul", "div", "neg", "square", "cube", "where", "and", "or", "not"),
        *("bitand", "bitor", "bitxor", "shl", "shr", "invert", "lt", "le", "gt", "ge", "eq", "ne"),
    )
)
THREAD = (
    "((cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y) * cuda.gridDim.x + cuda.blockIdx.x)"
    " * (cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z)"
    " + (cuda.threadIdx.z * cuda.blockDim.y + cuda.threadIdx.y) * cuda.blockDim.x + cuda.threadIdx.x"
)


Factor = ir.Value | tuple[ir.Value, ir.Value]  # a size, or the bounds of a loop


class Buffer(NamedTuple):
    """A buffer the launch provides, of shape (slots, threads): slots are a sum of products, or None (``tape=``)."""

    name: str
    dtype: Any
    sizes: list[list[Factor]] | None


class Kernel(NamedTuple):
    """The text of a kernel, the names in it, and the buffers it takes after its arguments."""

    name: str
    text: str
    names: dict[str, Any]
    buffers: list[Buffer]
    bounded: bool  # whether a thread may need more than it has been given


def emit_kernel(
    f: ir.Function,
    arguments: Sequence[ir.Value],
    positions: dict[str, ir.Value],
    totals: Sequence[tuple[ir.Value, ir.Value]],
    axes: frozenset[str],
    host: Any,
) -> Kernel:
    """Print a kernel.

    Parameters
    ----------
    f : the program.
    arguments : its parameters in the order of the kernel's.
    positions : the parameters that stand for the thread's position, by their text.
    totals : numbers, each with the array to whose only element it is added.
    axes : the axes along which a launch has more than one thread.
    host : ``host(size)`` tells whether the launch can compute a size.
    """
    return _KernelEmitter(f, arguments, positions, totals, axes, host).kernel()


class _KernelEmitter(_Emitter):
    def __init__(
        self, f: Any, arguments: Any, positions: Any, totals: Any, axes: frozenset, host: Any
    ):
        super().__init__(f, False, ("cuda", "libdevice", "me", "slots", "need"), False)
        self.arguments, self.positions, self.totals, self.host = arguments, positions, totals, host
        self.buffers: list[Buffer] = []
        self.columns: dict[ir.Value, tuple[str, list[str]]] = {}
        self.bounded = False
        self.aliases = Aliases(f)
        self.owned = owned(f, self.aliases, positions, axes)

    def kernel(self) -> Kernel:
        """The whole kernel."""
        self.refuse_carried()
        params = [self.name(p) for p in self.arguments]
        for text, p in self.positions.items():
            self.put(f"{self.name(p)} = {_position(text)}")
        self.choose_inlined(self.f.body)
        self.block(self.f.body)
        for v, total in self.totals:
            self.put(f"cuda.atomic.add({self.value(total)}, 0, {self.value(v)})")
        if self.buffers:
            self.lines.insert(0, f"    me = {THREAD}")
        extra = [b.name for b in self.buffers] + (["slots", "need"] if self.bounded else [])
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in self.f.name)
        head = f"def {name}({', '.join([*params, *extra])}):"
        return Kernel(
            name, "\n".join([head, *self.lines]) + "\n", self.names, self.buffers, self.bounded
        )

    # -- expressions -----------------------------------------------------------------------------------
    def expression(self, op: ir.Op) -> str:
        """The text of a pure operation."""
        if op.kind != "apply":
            return super().expression(op)
        name = op.attrs["fn"]
        args = [self.value(a) for a in op.args]
        kinds = [a.type for a in (op.args[1:] if name in ("where", "keep", "drop") else op.args)]
        whole = all(isinstance(t, types.Integer | types.Boolean) for t in kinds)
        if name == "radd":
            name = "add"
        if name == "stop":
            return args[0]
        if name in ("max", "min"):
            sign = ">" if name == "max" else "<"
            return f"({args[1]} if {args[1]} {sign} {args[0]} else {args[0]})"
        if name in ("keep", "drop") or (whole and name in ("floordiv", "mod", "abs", "pow")):
            return super().expression(op)
        complex_product = name == "div" and any(isinstance(t, types.Complex) for t in kinds)
        if name in SIGNS and not complex_product:
            return functions.TEXT[name].format(*args)
        dtypes = _unified(name, tuple(as_dtype(a.type).name for a in op.args))
        return f"{self.object(device_function(name, dtypes), name)}({', '.join(args)})"

    def choice(self, condition: str, x: str, y: str) -> str:
        """One of two numbers."""
        return f"({x} if {condition} else {y})"

    @staticmethod
    def cast_text(t: Any, text: str) -> str:
        """A conversion."""
        if isinstance(t, types.Boolean):
            return f"({text} != 0)"
        return f"np.{t.name}({text})"

    def element(self, args: Sequence[ir.Value]) -> str:
        """``array[index]``, in a local array, an array of the launch, or the thread's column of a buffer."""
        return self.plain_element(args)

    def plain_element(self, args: Sequence[ir.Value]) -> str:
        """The same as the target of an assignment."""
        column = self.columns.get(args[0])
        if column is None:
            return super().plain_element(args)
        name, sizes = column
        index = [self.value(i) for i in args[1:]]
        at = index[0] if index else "0"
        for n, i in zip(sizes[1:], index[1:]):
            at = f"({at}) * {n} + {i}"
        return f"{name}[{at}, me]"

    def direct(self, args: Sequence[ir.Value]) -> bool:
        """Elements are always reached by a subscript."""
        return False

    def nest(self, op: ir.Op, sign: str) -> None:
        """Copies are loops."""
        self.loops(op, sign)

    def hold(self, ops: Sequence[ir.Op]) -> bool:
        """Stacks are columns: their places are taken one operation at a time."""
        return False

    # -- memory -------------------------------------------------------------------------------------------
    def op_accum(self, op: ir.Op) -> None:
        """Add to an element."""
        *where, v = op.args
        root = place(where[0], []).root
        if root.op is None and root in self.f.params and self.aliases.of(root) not in self.owned:
            self.atomic_add(where[0], [self.value(i) for i in where[1:]], self.value(v))
        else:
            self.put(f"{self.plain_element(where)} += {self.value(v)}")

    def atomic_add(self, array: ir.Value, index: Sequence[str], v: str) -> None:
        """Add to an element that other threads may add to."""
        if isinstance(array.type.dtype, types.Complex):
            raise self.refusal(
                f"several threads add to elements of '{array.name}', which is complex",
                "Pass its real and imaginary parts as two arrays.",
            )
        at = index[0] if len(index) == 1 else f"({', '.join(index)})"
        self.put(f"cuda.atomic.add({self.value(array)}, {at}, {v})")

    def op_alloc(self, op: ir.Op) -> None:
        """A local array, or a column of a buffer."""
        a = op.result
        if all(isinstance(n, ir.Const) for n in op.args):
            sizes = [str(max(int(n.value), 1)) for n in op.args]  # type: ignore[attr-defined]
            shape = sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"
            self.put(f"{self.name(a)} = cuda.local.array({shape}, {self.numpy_name(a.type.dtype)})")
        else:
            known = all(self.host(n) for n in op.args)
            name = self.buffer(a.name, a.type.dtype, [list(op.args)] if known else None)
            sizes = [self.value(n) for n in op.args]
            if not known:
                self.limit(" * ".join(f"({n})" for n in sizes))
            self.columns[a] = (name, sizes)
        if op.attrs.get("fill") == 0:
            self.zeros(a, sizes)

    def zeros(self, a: ir.Value, sizes: list[str]) -> None:
        """Fill an array with zeros."""
        depth = self.depth
        index = []
        for k, n in enumerate(sizes):
            i = ir.Value(types.intp, f"k{k}")
            self.put(f"for {self.name(i)} in range({n}):")
            self.depth += 1
            index.append(i)
        zero = self.literal(scalars.zero(a.type.dtype))
        self.put(f"{self.plain_element([a, *index])} = {zero}")
        self.depth = depth

    @staticmethod
    def numpy_name(t: Any) -> str:
        """A dtype."""
        return f"np.{'bool_' if isinstance(t, types.Boolean) else t.name}"

    def buffer(self, hint: str, dtype: Any, sizes: list[list[Factor]] | None) -> str:
        """One more buffer."""
        name = self.name(ir.Value(dtype, f"b_{hint}"))
        self.buffers.append(Buffer(name, dtype, sizes))
        return name

    def limit(self, size: str) -> None:
        """Leave the kernel where a thread needs more than it has been given, and say how much."""
        self.bounded = True
        self.put(f"if {size} > slots:")
        self.put(f"    cuda.atomic.max(need, 0, {size})")
        self.put("    return")

    def op_tape(self, op: ir.Op) -> None:
        """A stack: a column of a buffer."""
        t = op.result
        name = self.buffer(t.name, t.type.dtype, self.pushed(t))
        self.columns[t] = (name, [f"{name}.shape[0]"])
        self.text[t] = name
        used = self.name(ir.Value(types.intp, f"{name}_used"))
        self.tapes[t] = used
        self.put(f"{used} = 0")

    def op_push(self, op: ir.Op) -> None:
        """New places."""
        used = self.tapes[op.args[0]]
        self.put(f"{self.name(op.result)} = {used}")
        self.put(f"{used} += {self.value(op.args[1])}")
        if self.pushed(op.args[0]) is None:
            self.limit(used)

    def pushed(self, tape: ir.Value) -> list[list[Factor]] | None:
        """What all pushes to a stack take together, if the launch can compute it."""
        total: list[list[Factor]] = []
        for op in ir.walk(self.f.body):
            if op.kind != "push" or op.args[0] is not tape:
                continue
            factors: list[Factor] = [op.args[1]]
            assert op.block is not None
            for block in op.block.chain():
                loop = block.parent
                if loop is None or loop.kind == "if":
                    continue
                if loop.kind != "for":
                    return None
                factors.append((loop.args[0], loop.args[1]))
            flat = [v for x in factors for v in (x if isinstance(x, tuple) else (x,))]
            if not all(self.host(v) for v in flat):
                return None
            total.append(factors)
        return total

    def op_tape_size(self, op: ir.Op) -> None:
        """How many places a stack has."""
        self.text[op.result] = self.columns[op.args[0]][1][0]

    def op_shape(self, op: ir.Op) -> None:
        """A size; of a buffer's column or a local array it is known."""
        column = self.columns.get(op.args[0])
        if column is None:
            super().op_shape(op)
        else:
            self.text[op.result] = column[1][op.attrs["axis"]]

    def op_view(self, op: ir.Op) -> None:
        """A view of an array."""
        root = place(op.args[0], []).root
        if root in self.columns:
            raise self.refusal(
                "a part of an array that is kept for the reverse sweep", "Index single elements."
            )
        super().op_view(op)

    # -- what a kernel cannot do ------------------------------------------------------------------------------
    def op_check(self, op: ir.Op) -> None:
        """Kernels do not raise."""

    def op_effect(self, op: ir.Op) -> None:
        """The adjoint prints nothing."""

    def op_call(self, op: ir.Op) -> None:
        """An opaque call."""
        name = getattr(op.attrs["rule"].function, "__name__", "a function")
        raise self.refusal(
            f"'{name}' is called, which a kernel cannot do", "Write it out as loops."
        )

    def refusal(self, what: str, instead: str) -> UnsupportedError:
        """The error for something that has no CUDA form."""
        return UnsupportedError(
            f"njit.cuda: {what} (in the adjoint of kernel '{self.f.name}'). {instead}"
        )

    def refuse_carried(self) -> None:
        """Arrays made in an iteration and handed to the next: a local array is the same memory in both."""
        for op in ir.walk(self.f.body):
            for v in op.nexts if op.kind in ir.LOOPS else ():
                root = place(v, []).root if ir.is_array(v) else None
                if (
                    root is not None
                    and root.op is not None
                    and root.op.kind == "alloc"
                    and root.home is not None
                    and root.home.within(op.blocks[-1])
                ):
                    raise self.refusal(
                        f"the array '{v.name}' is handed from one iteration to the next",
                        "Use one array with one more index instead of rebinding names.",
                    )


def _position(text: str) -> str:
    """The text of a thread's position."""
    what, axis = text.rsplit(".", 1)
    if what not in ("cuda.grid", "cuda.gridsize"):
        return text
    if what == "cuda.gridsize":
        return f"cuda.gridDim.{axis} * cuda.blockDim.{axis}"
    if axis == "x":
        return "cuda.grid(1)"
    return f"cuda.blockIdx.{axis} * cuda.blockDim.{axis} + cuda.threadIdx.{axis}"


@lru_cache(maxsize=256)
def device_function(name: str, kinds: tuple[str, ...]) -> Any:
    """An operator of the engine as a device function that is inlined."""
    from kernels_cuda import _compat, scalar

    from ..codegen.expr import emit, inputs, m
    from ..op.base import REGISTRY

    plain = {"gamma": m.gamma, "round": m.rint}  # these are no operators
    body = plain[name] if name in plain else REGISTRY[functions.RULES_OF.get(name, name)].body
    xs = inputs([np.dtype(k) for k in kinds])
    out = body(*xs)
    lines, results = emit(
        [out], lambda e, a: scalar.template(e.op, e.dtype, [x.dtype for x in e.args], list(a))
    )
    written = "".join(f"    {line}\n" for line in lines)
    own = f"{name}_"  # the body of 'complex' calls complex
    text = f"def {own}({', '.join(e.value for e in xs)}):\n{written}    return {results[0]}\n"
    space: dict[str, Any] = {**scalar.namespace(), "__name__": __name__}
    exec(compile(text, f"<nbgrad cuda {name}>", "exec"), space)
    return _compat.device_function(space[own])


# -- which elements a thread has to itself ------------------------------------------------------------------------


def owned(
    f: ir.Function, aliases: Aliases, positions: dict[str, ir.Value], axes: frozenset[str]
) -> set[Any]:
    """The memories whose elements are added to by one thread each, in a launch with several threads along ``axes``."""
    found: dict[Any, list[tuple]] = {}
    for op in ir.walk(f.body):
        if op.kind in ("accum", "add"):
            index = op.args[1:-1] if op.kind == "accum" else []
            found.setdefault(aliases.of(op.args[0]), []).append(
                tuple(_marks(op.args[0], index, positions))
            )
    return {
        m
        for m, marks in found.items()
        if all(
            any(all((axis, k, where) in mk for mk in marks) for k, where in _places(marks[0], axis))
            for axis in axes
        )
    }


def _places(marks: tuple, axis: str) -> list[tuple]:
    return [(k, where) for a, k, where in marks if a == axis]


def _marks(
    array: ir.Value, index: Sequence[ir.Value], positions: dict[str, ir.Value]
) -> list[tuple]:
    """``(axis, dimension, root and offset)`` for dimensions whose index is a thread's global position plus a constant."""
    at = place(array, index)
    out = []
    for k, form in enumerate(at.index):
        if form is None or form.const < 0:
            continue
        for axis in AXES:
            if _is_global(form.terms, axis, positions):
                out.append((axis, k, (at.root, form.const)))
    return out


def _is_global(terms: tuple, axis: str, positions: dict[str, ir.Value]) -> bool:
    """Whether terms are the global position along an axis, possibly plus whole sizes of the launch (a strided loop)."""
    grid, thread = positions.get(f"cuda.grid.{axis}"), positions.get(f"cuda.threadIdx.{axis}")
    size = positions.get(f"cuda.gridsize.{axis}")
    block, width = positions.get(f"cuda.blockIdx.{axis}"), positions.get(f"cuda.blockDim.{axis}")
    seen = set()
    for s, c in terms:
        if c != 1:
            return False
        factors = (
            s.op.args
            if s.op is not None and s.op.kind == "apply" and s.op.attrs["fn"] == "mul"
            else []
        )
        if s is grid or s is thread:
            seen.add("grid" if s is grid else "thread")
        elif block is not None and width is not None and {*factors} == {block, width}:
            seen.add("block")
        elif size is not None and size in factors and "stride" not in seen:
            seen.add("stride")
        else:
            return False
    return seen - {"stride"} in ({"grid"}, {"thread", "block"})
