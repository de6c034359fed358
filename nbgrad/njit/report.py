"""What a derivative program keeps and calls, in words."""

from __future__ import annotations

from typing import Any

from . import ir


def explain(t: Any, compiled: Any) -> str:
    """A report on a derivative program."""
    fn = compiled.program
    lines = [
        f"{t.name}: {sum(1 for _ in ir.walk(fn.body))} operations, {compiled.source.text.count(chr(10))} lines"
    ]
    for op in ir.walk(fn.body):
        where = f" (line {op.line[1]})" if op.line else ""
        name = op.results[0].name if op.results else ""
        if op.kind == "alloc" and ir.is_kept(op.result):
            lines.append(
                f"  kept on an array, one place an iteration: {name[2:]} ({op.result.type.dtype})"
            )
        elif op.kind == "tape":
            lines.append(f"  kept on a stack that grows: {op.result.type.dtype}")
        elif op.kind == "copy" and op.args[0].name == "kept":
            lines.append(
                f"  copied for the reverse sweep: an array of {op.args[0].type.dtype}{where}"
            )
        elif op.kind == "call":
            f = op.attrs["rule"].function
            lines.append(
                f"  called as it is, with its own rules: {getattr(f, '__name__', f)}{where}"
            )
        elif op.kind == "check" and "share memory" in str(op.attrs["message"]):
            lines.append(
                "  arguments the function writes to are copied, and must not share memory with others"
            )
    lines += [f"  {note}" for note in compiled.notes]
    return "\n".join(dict.fromkeys(lines))
