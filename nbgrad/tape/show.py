"""Tapes as text and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    return "".join(f", {k}={v.name if hasattr(v, 'name') else v}" for k, v in params.items())


def text(tape: Tape) -> str:
    """The whole program, one line an instruction."""
    lines = [f"tape({', '.join(f'%{v} {type_text(tape.specs[v])}' for v in tape.inputs)}):"]
    for v in tape.captured:
        lines.append(f"  %{v} {type_text(tape.specs[v])} = captured")
    guards = list(tape.guards)
    for i, ins in enumerate(tape.instructions):
        while guards and guards[0].position <= i:
            g = guards.pop(0)
            lines.append(f"  guard %{g.var} == {g.value!r}  ({g.what})")
        outs = ", ".join(f"%{v} {type_text(tape.specs[v])}" for v in ins.outputs)
        args = ", ".join(f"%{v}" for v in ins.inputs)
        lines.append(f"  {outs} = {ins.op}({args}{param_text(ins.params)})")
    lines += [f"  guard %{g.var} == {g.value!r}  ({g.what})" for g in guards]
    lines.append(f"  return {', '.join(f'%{v}' for v in tape.outputs)}")
    return "\n".join(lines)
