"""Elementwise operators on vector operands: the operator's body, primitive by primitive."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels_cpu.llvm import scalars
from kernels_cpu.llvm.text import Function, lanes_of

from ..codegen.expr import Expr
from ..op import REGISTRY
from ..op.kernels import trace_body


@functools.lru_cache(4096)
def body(op: str, dtypes: tuple) -> tuple[list[Expr], Expr, list[Expr]]:
    """Inputs, result and all nodes of a body in an order in which they can be computed."""
    xs, out = trace_body(REGISTRY[op], dtypes)  # type: ignore[arg-type]
    order: list[Expr] = []
    done: set[int] = set()
    stack = [out]
    while stack:
        e = stack[-1]
        pending = [a for a in e.args if id(a) not in done]
        if pending:
            stack.extend(reversed(pending))
            continue
        stack.pop()
        if id(e) not in done:
            done.add(id(e))
            order.append(e)
    return xs, out, order


def body_primitives(op: str, dtypes: tuple) -> list[str]:
    """Names of the primitives a body consists of."""
    return [e.op for e in body(op, dtypes)[2] if e.op not in ("const", "input")]


def evaluate(
    fn: Function, op: str, dtypes: Sequence[np.dtype], out_dtype: Any, args: Sequence[Any]
) -> Any:
    """Append one operator applied to operands of one width.

    Raises
    ------
    scalars.NoVectorFormError : the body has no vector form for the dtypes.
    """
    if op == "clone":
        return args[0]
    if op == "to_dtype":
        return scalars.primitive(fn, "cast", out_dtype, list(args))
    xs, out, order = body(op, tuple(dtypes))
    known: dict[int, Any] = {id(x): a for x, a in zip(xs, args, strict=True)}
    lanes = lanes_of(_first(args).type)
    for e in order:
        if id(e) in known:
            continue
        if e.op == "const":
            known[id(e)] = scalars.constant(e.value, e.dtype, lanes)
        else:
            known[id(e)] = scalars.primitive(fn, e.op, e.dtype, [known[id(a)] for a in e.args])
    return known[id(out)]


def _first(args: Sequence[Any]) -> Any:
    return args[0].re if isinstance(args[0], scalars.Pair) else args[0]
