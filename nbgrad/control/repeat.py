"""The operator ``while_loop``: repeat a body while a condition on its carry holds.

Forward and Taylor mode run the tangent along in one loop. Reverse mode needs a bound: a loop with ``max_steps`` whose
operands are differentiated becomes a `scan` of that length, each step of which is a ``cond`` on the loop's condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, TraceError, UnsupportedError, message
from ..op import Spec, operator
from ..tape import Tape
from ..tensor import Tensor
from .base import Control, as_tuple, taylor
from .body import in_specs, out_specs, remember, traced
from .branch import COND, select
from .derive import batched, lift, lifted, lifted_sizes, lower, settle, widened
from .runner import owned, while_function
from .scan import SCAN, batch_of, batch_operand, full_rows, settled


class While(Control):
    """Operands: constants of the condition, constants of the body, carry. Parameters: ``cond`` (a tape ``(its
    constants, carry) -> bool``), ``body``, ``n_cond``, ``n_body``, ``n_carry``, ``max_steps`` (None: no bound).
    """

    def __init__(self) -> None:
        super().__init__("while_loop", while_kernel, nin=None, n_out=lambda p: p["n_carry"])

    def graph_call(self, args: Sequence[Tensor], params: dict) -> tuple:
        if params["max_steps"] is None:
            return self.interpret(args, params)
        return bounded(args, **params)

    def push(self, order: int, rows: Any, inputs: Any, params: dict) -> tuple[list, list]:
        n_cond, body = params["n_cond"], params["body"]
        groups = (params["n_body"], params["n_carry"])
        rows, lead, inputs = rows[n_cond:], inputs[:n_cond], inputs[n_cond:]
        mask, outs = settled(body, groups, [r is not None for r in rows])
        full = full_rows(rows, inputs, mask, order)
        n_body, n_carry = lifted_sizes(groups, mask, order)
        carry = [s for s, m in zip(out_specs(body), outs, strict=True) if m for _ in range(order)]
        got = self(
            *lead,
            *lift(groups, inputs, full, mask),
            cond=widened(params["cond"], carry) if carry else params["cond"],
            body=lifted(body, groups, mask, order, outs, groups[1:]),
            n_cond=n_cond,
            n_body=n_body,
            n_carry=n_carry,
            max_steps=params["max_steps"],
        )
        values, found = lower(groups[1:], got, outs, order)
        return values, [found.get(k) for k in range(len(values))]

    def run_batch(self, dims: Any, inputs: Any, params: dict) -> tuple:
        n_cond, n_body = params["n_cond"], params["n_body"]
        size, how = batch_of(dims, inputs)
        marks = [d is not None for d in dims]
        lead = n_cond + n_body

        def outcome(mask: Sequence[bool]) -> Sequence[bool]:
            test = (*mask[:n_cond], *mask[lead:])
            if batched(params["cond"], test, size, how)[1][0]:
                return (True,) * params["n_carry"]  # members stop at their own time
            return batched(params["body"], tuple(mask[n_cond:]), size, how)[1]

        mask, outs = settle(lead, marks[lead:], marks, outcome)
        args = [batch_operand(x, d, m, size, 0) for x, d, m in zip(inputs, dims, mask, strict=True)]
        test, own = batched(params["cond"], (*mask[:n_cond], *mask[lead:]), size, how)
        body = batched(params["body"], mask[n_cond:], size, how, outs)[0]
        places = tuple(0 if m else None for m in outs)
        if not own[0]:
            return self(*args, **{**params, "cond": test, "body": body}), places
        both = {**params, "cond": any_of(test), "body": masked(test, body, n_cond, n_body)}
        return self(*args[:n_cond], *args, **{**both, "n_body": lead}), places


def while_kernel(*arrays, cond, body, n_cond, n_body, n_carry, max_steps):
    """Run the loop on arrays."""
    run = while_function(cond, body, n_cond, n_body)
    with np.errstate(all="ignore"):
        carry = run(-1 if max_steps is None else max_steps, arrays)
    if carry is None:
        raise _too_few(max_steps)
    return owned(carry, arrays, cond, body)


def _too_few(steps: int | None) -> ArgumentError:
    return ArgumentError(
        message(
            "while_loop",
            "argument 'max_steps'",
            f"{steps}, after which the condition still holds",
            "a bound that the loop keeps",
            "Raise it, or check that the loop ends.",
        )
    )


WHILE = While()
taylor(WHILE)


@WHILE.infer
def _(*specs, cond, body, n_cond, n_body, n_carry, max_steps):
    have = [Spec(tuple(s[0]), s[1]) for s in specs]
    lead = n_cond + n_body
    if [*have[:n_cond], *have[lead:]] != in_specs(cond) or have[n_cond:] != in_specs(body):
        raise TraceError(
            f"while_loop: operands of types {have} do not fit the condition or the body"
        )
    return tuple(out_specs(body))


@WHILE.vjp
def _(g, out, *inputs, needs, **params):
    raise UnsupportedError(
        "while_loop: reverse mode must store every step, and their number is not known; pass max_steps=..., a bound "
        "of it, or use ng.scan or ng.fori_loop with fixed bounds, or forward mode (ng.func.jvp, ng.func.jacfwd)."
    )


# -- conditions and bodies of other loops ---------------------------------------------------------------


def any_of(cond: Tape) -> Tape:
    """Whether the condition holds for any member of the batch."""

    def make() -> Tape:
        return traced(
            lambda *args: [cond.call(*args)[0].any()], in_specs(cond), "a batched condition"
        )

    return remember(cond, "any", make)


def masked(cond: Tape, body: Tape, n_cond: int, n_body: int) -> Tape:
    """The batched body that leaves members alone whose condition no longer holds."""

    def make() -> Tape:
        specs = [*in_specs(cond)[:n_cond], *in_specs(body)]

        def fn(*args: Tensor) -> list[Tensor]:
            carry = args[n_cond + n_body :]
            here = cond.call(*args[:n_cond], *carry)[0]
            new = body.call(*args[n_cond:])
            return [select(here, a, b) for a, b in zip(new, carry, strict=True)]

        return traced(fn, specs, "a batched loop")

    return remember(body, ("masked", cond, n_cond), make)


def bounded(
    args: Sequence[Tensor],
    *,
    cond: Tape,
    body: Tape,
    n_cond: int,
    n_body: int,
    n_carry: int,
    max_steps: int,
) -> tuple:
    """The loop as a scan of ``max_steps`` steps, those beyond its end idle."""
    lead = n_cond + n_body
    step = bounded_step(cond, body, n_cond, n_body)
    out = SCAN(
        *args,
        body=step,
        n_consts=lead,
        n_carry=n_carry,
        n_xs=0,
        length=max_steps,
        reverse=False,
        stored=0,
        snapshots=None,
    )
    (running,) = cond.call(*args[:n_cond], *out)
    return within_limit(running, *out, n_carry=n_carry, max_steps=max_steps)


def bounded_step(cond: Tape, body: Tape, n_cond: int, n_body: int) -> Tape:
    """One step of a bounded loop: the body while the condition holds, then the carry as it is."""

    def make() -> Tape:
        specs = [*in_specs(cond)[:n_cond], *in_specs(body)]
        idle = traced(lambda *args: args[n_body:], in_specs(body), "an idle step")

        def fn(*args: Tensor) -> Sequence[Tensor]:
            test = cond.call(*args[:n_cond], *args[n_cond + n_body :])[0]
            return COND(test, *args[n_cond:], branches=(body, idle))

        return traced(fn, specs, "a bounded loop")

    return remember(body, ("bounded", cond, n_cond), make)


@operator(nin=None, nondiff=(0,), n_out=lambda params: params["n_carry"])
def within_limit(running, *carry, n_carry, max_steps):
    """The carry of a bounded loop, after checking that no member is still running."""
    if running.any():
        raise _too_few(max_steps)
    return carry


@within_limit.infer
def _(running, *carry, n_carry, max_steps):
    return carry


@within_limit.vjp
def _(g, out, running, *carry, needs, n_carry, max_steps):
    return (None, *as_tuple(g))


@within_limit.jvp
def _(tangents, out, running, *carry, n_carry, max_steps):
    return tuple(tangents[1:])


@within_limit.batch
def _(dims, running, *carry, n_carry, max_steps):
    return within_limit(running, *carry, n_carry=n_carry, max_steps=max_steps), tuple(dims[1:])
