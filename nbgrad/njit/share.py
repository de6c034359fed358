"""Common subexpressions: the same pure operation, or a load of memory that was not written in between, is done once."""

from __future__ import annotations

from typing import Any

from . import ir
from .alias import Aliases, apart, written


def share(f: ir.Function) -> None:
    """Use the first of equal operations for all, in place."""
    aliases = Aliases(f)
    mapping: dict[ir.Value, ir.Value] = {}

    def final(v: ir.Value) -> ir.Value:
        while v in mapping:
            v = mapping[v]
        return v

    def key(op: ir.Op) -> Any:
        if op.kind not in ("apply", "cast", "shape", "view", "load"):
            return None
        args = tuple(
            (a.value, str(a.type), str(a.value)) if isinstance(a, ir.Const) else a for a in op.args
        )
        extra = op.attrs.get("fn") or op.attrs.get("spec") or op.attrs.get("axis")
        return (op.kind, extra, args, op.result.type if op.kind == "cast" else None)

    def forget(known: list[dict], op: ir.Op) -> None:
        targets = [
            t
            for t in (written(o) for o in (op, *(x for b in op.blocks for x in ir.walk(b))))
            if t is not None
        ]
        for scope in known:
            for k in [k for k in scope if k[0] == "load"]:
                if not all(apart(aliases, k[2][0], t) for t in targets):
                    del scope[k]

    def visit(block: ir.Block, known: list[dict], in_loop: bool) -> None:
        scopes = [*known, {}]
        if in_loop:  # what an iteration loads may have been written by the one before
            scopes = [{k: v for k, v in s.items() if k[0] != "load"} for s in known] + [{}]
        kept = []
        for op in block.ops:
            op.args = [final(a) for a in op.args]
            k = key(op)
            found = (
                next((s[k] for s in reversed(scopes) if k in s), None) if k is not None else None
            )
            if found is not None and found.type == op.result.type:
                mapping[op.result] = found
                if op.attrs.get("singular") and found.op is not None:
                    found.op.attrs["singular"] = True
                continue
            if k is not None:
                scopes[-1][k] = op.result
            for b in op.blocks:
                visit(b, scopes, op.kind in ir.LOOPS)
                b.yields = [final(v) for v in b.yields]
            if op.blocks or written(op) is not None:
                forget(scopes, op)
            kept.append(op)
        block.ops = kept

    visit(f.body, [], False)
    f.body.yields = [final(v) for v in f.body.yields]
