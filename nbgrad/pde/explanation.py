"""`explain`: which way an operator is differentiated at some arguments, and what each way would cost."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from ..op import REGISTRY
from ..random import fork_rng
from ..tape import Tape, trace
from .cost import METHODS
from .fields import Field
from .operator import FieldOperator

MOVES_NOTHING = frozenset({"alias", "detach", "expand", "permute", "reshape", "slice"})


class Count(NamedTuple):
    """Instructions of a traced program, and its floating-point operations (one an element, two a multiply-add)."""

    instructions: int
    flops: int


class Row(NamedTuple):
    """One method: the model's estimate in evaluations of the field, and the counted program."""

    method: str
    estimate: float | None
    count: Count


class Explanation(NamedTuple):
    """What `explain` returns; print it for the table."""

    operator: str
    chosen: str
    why: str
    field: Count
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        lines = [f"{self.operator}: {self.chosen} ({self.why})"]
        head = (
            f"{'method':<22}{'estimate':>10}{'instructions':>14}{'flops':>14}{'of the field':>14}"
        )
        lines.append(head)
        for r in self.rows:
            estimate = "" if r.estimate is None else f"{r.estimate:.1f}"
            ratio = r.count.flops / max(self.field.flops, 1)
            lines.append(
                f"{r.method:<22}{estimate:>10}{r.count.instructions:>14}{r.count.flops:>14}{ratio:>14.1f}"
            )
        return "\n".join(lines)


def count(tape: Tape) -> Count:
    """Operations of a program after simplification."""
    tape = tape.simplify()
    flops = 0
    for ins in tape.instructions:
        shapes = [tape.specs[v].shape for v in ins.inputs]
        outs = sum(prod(tape.specs[v].shape) for v in ins.outputs)
        if ins.op == "matmul":
            flops += 2 * outs * shapes[0][-1]
        elif ins.op == "sum":
            flops += prod(shapes[0])
        elif ins.op not in MOVES_NOTHING and REGISTRY[ins.op].category != "view":
            flops += outs
    return Count(len(tape.instructions), flops)


def explain(fn: Callable, *args: Any, **kwargs: Any) -> Explanation:
    """How an operator is evaluated at these arguments and why, with the costs of every method.

    ``fn`` is what an operator of this package returned, e.g. ``explain(laplacian(u), x)``; any other function is traced and
    counted only. Estimates are in evaluations of the field (the model behind ``method="auto"``); instructions and
    floating-point operations are counted on the traced programs, without their further derivatives.
    """
    if not isinstance(fn, FieldOperator):
        counted = _counted(fn, args, kwargs)
        name = getattr(fn, "__name__", repr(fn))
        why = "a plain function: nothing to choose"
        return Explanation(name, "as it is", why, counted, (Row("as it is", None, counted),))
    field = Field(fn.name, fn.u, fn.argnums, args, kwargs)
    with fork_rng():  # looking at a sampling operator draws nothing from the user's stream
        return _explained(fn, field, args, kwargs)


def _explained(fn: FieldOperator, field: Field, args: tuple, kwargs: dict) -> Explanation:
    _, choice = fn.chosen(field)
    rows = tuple(
        Row(m, choice.costs[m], _counted(fn.using(m), args, kwargs))
        for m in METHODS
        if m in choice.costs
    )
    return Explanation(
        fn.name, choice.method, _why(fn, choice.method), _counted(fn.u, args, kwargs), rows
    )


def _why(fn: FieldOperator, method: str) -> str:
    if fn.method != "auto":
        return "as asked for"
    return "least estimated cost; of equals the one that is listed first"


def _counted(fn: Callable, args: tuple, kwargs: dict) -> Count:
    return count(trace(lambda *a: fn(*a, **kwargs))(*args))
