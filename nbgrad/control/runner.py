"""Sub-tapes as Python functions on arrays: straight-line calls of kernels, no tensors and no checks.

The loops of `scan` and `while_loop` contain the body's lines, so that a step costs its kernels and little else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import layout as lay
from ..autograd.engine import owns_memory
from ..layout import Layout
from ..op import REGISTRY, Elementwise, Operator, ViewOp
from ..op.fastpath import BIG, call
from ..tape import Instruction, Tape
from .body import remember


class Source:
    """Lines of a function under construction, with the objects they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"asarray": np.asarray, "call": call}

    def bind(self, value: Any) -> str:
        """A name for an object."""
        name = f"o{len(self.scope)}"
        self.scope[name] = value
        return name

    def add(self, line: str, depth: int = 1) -> None:
        """Append an indented line."""
        self.lines.append("    " * depth + line)

    def tape(self, tape: Tape, names: dict[int, str], prefix: str, depth: int) -> list[str]:
        """The tape's instructions on named inputs; returns the names of its outputs."""
        for var, t in tape.captured.items():
            names[var] = self.bind(t._data)
        last = _big_last_uses(tape)
        for position, ins in enumerate(tape.instructions):
            args = [names[v] for v in ins.inputs]
            for v in ins.outputs:
                names[v] = f"{prefix}{v}"
            targets = ", ".join(names[v] for v in ins.outputs)
            comma = "," if _gives_tuple(tape, ins) else ""
            self.add(f"{targets}{comma} = {self.expression(tape, ins, args)}", depth)
            for v in last.get(position, ()):
                self.add(f"del {names[v]}", depth)
        return [names[v] for v in tape.outputs]

    def expression(self, tape: Tape, ins: Instruction, args: list[str]) -> str:
        """One kernel call."""
        op, specs = REGISTRY[ins.op], [tape.specs[v] for v in ins.inputs]
        joined = ", ".join(args)
        if isinstance(op, Elementwise) and all(s.dtype is not dt.float16 for s in specs):
            out = tape.specs[ins.outputs[0]]
            kernel = self.bind(op.kernel(tuple(s.dtype for s in specs)))
            if any(_size(s) > BIG for s in (*specs, out)):
                return f"call({kernel}, ({joined},))"
            text = f"{kernel}({joined})"
            return text if out.ndim else f"asarray({text})"
        special = _SPECIAL.get(ins.op)
        if special is not None:
            found = special(ins.params, specs[0])
            if found is not None:
                return found(self, joined)
        if type(op).forward is Operator.forward:
            return f"{self.bind(partial(_kernel(op), **ins.params))}({joined})"
        tail = "," if len(args) == 1 else ""
        return f"{self.bind(op.forward)}(({joined}{tail}), {self.bind(ins.params)})"

    def build(self, header: str, name: str) -> Callable:
        """Compile the lines under a ``def`` line."""
        text = "\n".join([header, *self.lines])
        exec(compile(text, f"<nbgrad {name}>", "exec"), self.scope)
        return self.scope["run"]


def _kernel(op: Operator) -> Callable:
    assert op._forward is not None
    return op._forward


def _gives_tuple(tape: Tape, ins: Instruction) -> bool:
    """Whether the kernel returns a tuple (of one result, perhaps)."""
    op = REGISTRY[ins.op]
    if isinstance(op, Elementwise | ViewOp):
        return False
    return type(op.infer_out([tape.specs[v] for v in ins.inputs], ins.params)) is tuple


def _size(spec: Any) -> int:
    n = 1
    for s in spec.shape:
        n *= s
    return n


def _big_last_uses(tape: Tape) -> dict[int, list[int]]:
    """Large intermediate values by the instruction after which nothing needs them."""
    made = {v for ins in tape.instructions for v in ins.outputs}
    last: dict[int, int] = {}
    for position, ins in enumerate(tape.instructions):
        for v in (*ins.inputs, *ins.outputs):
            if v in made and v not in tape.outputs and _size(tape.specs[v]) > BIG:
                last[v] = position
    table: dict[int, list[int]] = {}
    for v, position in last.items():
        table.setdefault(position, []).append(v)
    return table


# -- views without layout arithmetic at run time ------------------------------------------------------


def _slice(params: dict, spec: Any) -> Callable:
    key: list[Any] = []
    for item in params["items"]:
        if item is None or isinstance(item, int):
            key.append(item)
            continue
        start, length, by = item
        stop = start + length * by
        if not length:
            key.append(slice(0, 0))
        else:
            key.append(slice(start, stop if stop >= 0 else None, by))
    index = (*key, ...) if all(isinstance(k, int) for k in key) else tuple(key)
    return lambda source, x: f"{x}[{source.bind(index)}]"


def _permute(params: dict, spec: Any) -> Callable:
    return lambda source, x: f"{x}.transpose({source.bind(params['dims'])})"


def _reshape(params: dict, spec: Any) -> Callable:
    return lambda source, x: f"{x}.reshape({source.bind(params['shape'])})"


def _same(params: dict, spec: Any) -> Callable:
    return lambda source, x: x


def _unview(params: dict, spec: Any) -> Callable | None:
    """Zeros with the operand written at a layout, where that is a plain window of contiguous memory."""
    layout, base = params["layout"], params["base_layout"]
    if 0 in layout.shape or lay.self_overlaps(layout) or base != lay.contiguous(base.shape):
        return None
    kernel = partial(_place, shape=base.shape, layout=_in_bytes(layout, spec.dtype.itemsize))
    return lambda source, x: f"{source.bind(kernel)}({x})"


def _in_bytes(layout: Layout, size: int) -> Layout:
    return Layout(layout.shape, tuple(s * size for s in layout.strides), layout.offset * size)


def _place(g: np.ndarray, shape: tuple, layout: Layout) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    np.ndarray(layout.shape, g.dtype, out, layout.offset, layout.strides)[...] = g
    return out


_SPECIAL: dict[str, Callable[[dict, Any], Callable | None]] = {
    "slice": _slice,
    "permute": _permute,
    "reshape": _reshape,
    "alias": _same,
    "detach": _same,
    "unview": _unview,
}


# -- functions ----------------------------------------------------------------------------------------


def _unpack(source: Source, names: Sequence[str], what: str) -> None:
    if names:
        source.add(f"{', '.join(names)}, = {what}")


def tape_function(tape: Tape) -> Callable[..., tuple]:
    """``run(*arrays) -> tuple of arrays``."""

    def build() -> Callable:
        source = Source()
        names = {v: f"v{v}" for v in tape.inputs}
        header = f"def run({', '.join(names[v] for v in tape.inputs)}):"
        outs = source.tape(tape, names, "v", 1)
        source.add(f"return ({''.join(n + ', ' for n in outs)})")
        return source.build(header, "branch")

    return remember(tape, "tape", build)


def scan_function(tape: Tape, n_consts: int, n_carry: int) -> Callable[..., tuple]:
    """``run(order, constants and carry, xs, ys) -> carry``; writes row i of every array of ys."""

    def build() -> Callable:
        source = Source()
        names = {v: f"v{v}" for v in tape.inputs}
        lead, rest = tape.inputs[: n_consts + n_carry], tape.inputs[n_consts + n_carry :]
        n_ys = len(tape.outputs) - n_carry
        _unpack(source, [names[v] for v in lead], "held")
        _unpack(source, [f"x{k}" for k in range(len(rest))], "xs")
        _unpack(source, [f"y{k}" for k in range(n_ys)], "ys")
        source.add("for i in order:")
        for k, v in enumerate(rest):
            source.add(f"{names[v]} = x{k}[i{'' if tape.specs[v].shape else ', ...'}]", 2)
        outs = source.tape(tape, names, "v", 2)
        for k, name in enumerate(outs[n_carry:]):
            source.add(f"y{k}[i] = {name}", 2)
        carry = [names[v] for v in lead[n_consts:]]
        if carry:
            source.add(f"{', '.join(carry)}, = {', '.join(outs[:n_carry])},", 2)
        if not (carry or n_ys):
            source.add("pass", 2)
        source.add(f"return ({''.join(c + ', ' for c in carry)})")
        return source.build("def run(order, held, xs, ys):", "scan")

    return remember(tape, ("scan", n_consts, n_carry), build)


def while_function(cond: Tape, body: Tape, n_cond: int, n_body: int) -> Callable[..., tuple | None]:
    """``run(limit, operands) -> carry``, or None where the condition still holds after ``limit`` steps."""

    def build() -> Callable:
        source = Source()
        lead = [f"a{k}" for k in range(n_cond)]
        consts = [f"b{k}" for k in range(n_body)]
        carry = [f"c{k}" for k in range(len(body.outputs))]
        _unpack(source, [*lead, *consts, *carry], "operands")
        source.add("while True:")
        (test,) = source.tape(cond, dict(zip(cond.inputs, [*lead, *carry], strict=True)), "p", 2)
        source.add(f"if not {test}:", 2)
        source.add(f"return ({''.join(c + ', ' for c in carry)})", 3)
        source.add("if limit == 0:", 2)
        source.add("return None", 3)
        source.add("limit -= 1", 2)
        outs = source.tape(body, dict(zip(body.inputs, [*consts, *carry], strict=True)), "v", 2)
        if carry:
            source.add(f"{', '.join(carry)}, = {', '.join(outs)},", 2)
        return source.build("def run(limit, operands):", "while_loop")

    return remember(body, ("while", cond, n_cond), build)


def owned(results: Sequence[Any], inputs: Sequence[Any], *tapes: Tape) -> tuple:
    """Results as arrays of their own: a body may return an operand, a view or a constant."""
    seen = {id(a) for a in inputs}
    seen.update(id(t._data) for tape in tapes for t in tape.captured.values())
    out = []
    for a in results:
        out.append(a if owns_memory(a) and id(a) not in seen else a.copy())
        seen.add(id(out[-1]))
    return tuple(out)
