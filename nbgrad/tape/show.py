"""Tapes as text and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..layout import Layout
from ..op.dispatch import CONSTANT
from ..utils.picture import Box, Digraph

if TYPE_CHECKING:
    from .program import Tape

_SHORT = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "complex128": "c128",
    "complex64": "c64",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "bool",
}


def type_text(spec: Any) -> str:
    """``f64[3,2]``."""
    return f"{_SHORT[spec.dtype.name]}[{','.join(map(str, spec.shape))}]"


def param_text(params: dict) -> str:
    """Parameters in source form."""
    return "".join(f", {k}={_value_text(v)}" for k, v in params.items())


def separate_tapes(params: dict) -> tuple[dict, list[tuple[str, Any]]]:
    """Ordinary parameters, and the tapes among them (also in tuples) with their names."""
    from .program import Tape

    plain, tapes = {}, []
    for name, value in params.items():
        if isinstance(value, Tape):
            tapes.append((name, value))
        elif isinstance(value, tuple) and value and all(isinstance(v, Tape) for v in value):
            tapes += [(f"{name}[{k}]", v) for k, v in enumerate(value)]
        else:
            plain[name] = value
    return plain, tapes


def _value_text(v: Any) -> str:
    if isinstance(v, Layout):
        return f"<{list(v.shape)} strides {list(v.strides)} offset {v.offset}>"
    return v.name if isinstance(v, np.dtype) else str(v)


def constant_text(tensor: Any) -> str:
    """How a captured variable prints: small constants with their value."""
    data = tensor._data
    if tensor._meta is not None and tensor._meta.name == CONSTANT and data.size:
        flat = data.reshape(-1)
        if bool((flat == flat[0]).all()):
            return f"const {flat[0].item()!r}"
    return "captured"


def text(tape: Tape) -> str:
    """The whole program, one line an instruction; the sub-tapes of one stand indented under it."""
    lines = [f"tape({', '.join(f'%{v} {type_text(tape.specs[v])}' for v in tape.inputs)}):"]
    for v, t in tape.captured.items():
        lines.append(f"  %{v} {type_text(tape.specs[v])} = {constant_text(t)}")
    guards = list(tape.guards)
    for i, ins in enumerate(tape.instructions):
        while guards and guards[0].position <= i:
            lines.append(_guard_text(guards.pop(0)))
        outs = ", ".join(f"%{v} {type_text(tape.specs[v])}" for v in ins.outputs)
        args = ", ".join(f"%{v}" for v in ins.inputs)
        plain, inner = separate_tapes(ins.params)
        lines.append(f"  {outs} = {ins.op}({args}{param_text(plain)})")
        for name, sub in inner:
            lines += [f"    {line}" for line in f"{name}: {text(sub)}".splitlines()]
    lines += [_guard_text(g) for g in guards]
    lines.append(f"  return {', '.join(f'%{v}' for v in tape.outputs)}")
    return "\n".join(lines)


def _guard_text(g: Any) -> str:
    return f"  guard %{g.var} == {g.value.tolist()!r}  ({g.what})"


def picture(tape: Tape) -> Digraph:
    """The tape as a graph: inputs, constants, operations, outputs."""
    boxes: list[Box] = []
    source: dict[int, int] = {}
    for v in tape.inputs:
        source[v] = len(boxes)
        boxes.append(Box(f"input %{v}\n{type_text(tape.specs[v])}", "input"))
    for v, t in tape.captured.items():
        source[v] = len(boxes)
        boxes.append(Box(f"{constant_text(t)} %{v}\n{type_text(tape.specs[v])}", "constant"))
    edges = []
    for ins in tape.instructions:
        at = len(boxes)
        final = any(v in tape.outputs for v in ins.outputs)
        types = " ".join(type_text(tape.specs[v]) for v in ins.outputs)
        boxes.append(Box(f"{ins.op}\n%{ins.outputs[0]} {types}", "output" if final else "op"))
        edges += [(source[v], at) for v in dict.fromkeys(ins.inputs)]
        source.update(dict.fromkeys(ins.outputs, at))
    return Digraph(boxes, edges, "tape")


def show(tape: Tape, path: Any = None) -> Any:
    """Text when no path is given; else a picture file (``.svg`` needs nothing, ``.pdf``/``.png`` graphviz)."""
    return text(tape) if path is None else picture(tape).write(path)
