"""The operator ``scan``: a loop of known length with a carry, slices in and slices out.

Operands are the body's constants, the initial carry and the stacked xs; results the final carry and the stacked ys. Its
vjp is a scan of the body's adjoint in the other direction over stored carries, or `scan_reverse`, which recomputes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import TraceError
from ..op import Spec
from ..op.base import OUT
from ..ops.view import expand, permute, to_front
from ..state import state
from ..tape import Tape
from ..tensor import Tensor
from .base import Control, as_tuple, taylor, zero
from .body import in_specs, out_specs, remember, traced
from .derive import (
    Mask,
    batched,
    is_float,
    lift,
    lifted,
    lifted_sizes,
    lower,
    pull,
    reached,
    select_inputs,
    settle,
    used_inputs,
)
from .runner import owned, scan_function


class Scan(Control):
    """Parameters: ``body`` (a tape ``(constants, carry, x) -> (carry, y)``), ``n_consts``, ``n_carry``, ``n_xs``,
    ``length``, ``reverse``, ``stored`` (the last so many ys are the carries each step began with; set by the engine
    where a gradient will need them) and ``snapshots`` (None: store every carry; else how many the backward may hold).
    """

    def __init__(self) -> None:
        super().__init__(
            "scan", scan_kernel, nin=None, n_out=lambda params: len(params["body"].outputs)
        )

    def graph_call(self, args: Sequence[Tensor], params: dict) -> tuple:
        if params["snapshots"] is not None or params["stored"] or not params["n_carry"]:
            return self.interpret(args, params)
        full = with_history(params["body"], params["n_consts"], params["n_carry"])
        out = self.interpret(args, {**params, "body": full, "stored": params["n_carry"]})
        visible = out[: len(out) - params["n_carry"]]
        for t in visible:  # the node reads the history alone: the caller may write to its results
            t._ver = list(t._ver)
        return visible

    def push(self, order: int, rows: Any, inputs: Any, params: dict) -> tuple[list, list]:
        groups = sizes(params)
        mask, outs = settled(params["body"], groups, [r is not None for r in rows])
        full = full_rows(rows, inputs, mask, order)
        out_groups = (groups[1], len(params["body"].outputs) - groups[1])
        body = lifted(params["body"], groups, mask, order, outs, out_groups)
        n = lifted_sizes(groups, mask, order)
        given = {**params, "body": body, "n_consts": n[0], "n_carry": n[1], "n_xs": n[2]}
        got = self(*lift(groups, inputs, full, mask), **{**given, "stored": 0})
        values, found = lower(out_groups, got, outs, order)
        return values, [found.get(i) for i in range(len(values))]

    def run_batch(self, dims: Any, inputs: Any, params: dict) -> tuple:
        n_consts, n_carry, _ = groups = sizes(params)
        size, how = batch_of(dims, inputs)
        body, mask, outs = batched_loop(params["body"], groups, dims, size, how)
        args = [
            batch_operand(x, d, m, size, int(i >= n_consts + n_carry))
            for i, (x, d, m) in enumerate(zip(inputs, dims, mask, strict=True))
        ]
        got = self(*args, **{**params, "body": body})
        places = tuple(int(k >= n_carry) if m else None for k, m in enumerate(outs))
        return got, places


def scan_kernel(*arrays, body, n_consts, n_carry, n_xs, length, reverse, stored, snapshots):
    """Run the loop on arrays."""
    from ..memory import host

    run = scan_function(body, n_consts, n_carry)
    ys = tuple(host.empty((length, *s.shape), s.dtype) for s in out_specs(body)[n_carry:])
    order = range(length - 1, -1, -1) if reverse else range(length)
    lead = n_consts + n_carry
    with np.errstate(all="ignore"):
        carry = run(order, arrays[:lead], arrays[lead:], ys)
    return (*owned(carry, arrays, body), *ys)


SCAN = Scan()
taylor(SCAN)
SCAN.saves = lambda needs, params: (
    range(len(needs))
    if params["snapshots"] is not None
    else (
        *range(params["n_consts"]),
        *range(params["n_consts"] + params["n_carry"], len(needs)),
        OUT,
    )
)


def sizes(params: dict) -> tuple[int, int, int]:
    """Numbers of constants, carries and stacked inputs."""
    return params["n_consts"], params["n_carry"], params["n_xs"]


@SCAN.infer
def _(*specs, body, n_consts, n_carry, n_xs, length, **_):
    check_operands("scan", body, specs, n_consts + n_carry, length)
    outs = out_specs(body)
    return (*outs[:n_carry], *(Spec((length, *s.shape), s.dtype) for s in outs[n_carry:]))


def check_operands(op: str, body: Tape, specs: Sequence[Spec], lead: int, length: int) -> None:
    """Raise unless operands have the types the body's inputs ask for (a tape edited by hand, say)."""
    want = in_specs(body)
    full = [*want[:lead], *(Spec((length, *s.shape), s.dtype) for s in want[lead:])]
    have = [(tuple(s[0]), s[1]) for s in specs]
    if have != [(s.shape, s.dtype) for s in full]:
        raise TraceError(f"{op}: operands of types {have}; the body takes {full}")


@SCAN.vjp
def _(g, out, *inputs, needs, **params):
    body, n_carry, stored = params["body"], params["n_carry"], params["stored"]
    groups, cotangents = sizes(params), as_tuple(g)
    if params["snapshots"] is not None:
        from .sweep import SWEEP, sweep_params

        given = tuple(c is not None for c in cotangents)
        live = [c for c in cotangents if c is not None]
        found = iter(SWEEP(*inputs, *live, **sweep_params(params, needs, given)))
        return tuple(next(found) if n else None for n in needs)
    given = tuple(c is not None for c in cotangents[n_carry:])
    back = reversal(body, groups, tuple(needs), given)
    history = as_tuple(out)[len(body.outputs) - stored :]
    consts, xs = inputs[: groups[0]], inputs[groups[0] + n_carry :]
    start = [
        zero(body.specs[body.outputs[k]]) if cotangents[k] is None else cotangents[k]
        for k in back.carry
    ]
    sums = [zero(inputs[i]) for i in back.consts]
    rows = [*history, *xs, *(c for c in cotangents[n_carry:] if c is not None)]
    got = SCAN(
        *(consts[i] for i in back.used_consts),
        *start,
        *sums,
        *(rows[i] for i in back.used_rows),
        body=back.tape,
        n_consts=len(back.used_consts),
        n_carry=len(start) + len(sums),
        n_xs=len(back.used_rows),
        length=params["length"],
        reverse=not params["reverse"],
        stored=0,
        snapshots=None,
    )
    return back.distribute(got, len(needs), needs)


class Reversal(NamedTuple):
    """The adjoint of a scan's body as the body of the reverse scan.

    ``tape(constants, carry cotangents, sums, rows) -> (carry cotangents, sums, x cotangents)`` where rows are stored
    carries, xs and cotangents of ys. Positions: ``carry`` of the active carries among the carries, ``consts``
    and ``xs`` of the needed ones among all operands.
    """

    tape: Tape
    used_consts: tuple[int, ...]
    used_rows: tuple[int, ...]
    carry: tuple[int, ...]
    consts: tuple[int, ...]
    xs: tuple[int, ...]
    n_lead: int

    def distribute(self, got: Sequence[Tensor], n: int, needs: Sequence[bool]) -> tuple:
        """The reverse scan's results as cotangents of the operands."""
        out: list[Any] = [None] * n
        places = [*(self.n_lead + k for k in self.carry), *self.consts, *self.xs]
        for i, c in zip(places, got, strict=True):
            out[i] = c if needs[i] else None
        return tuple(out)


def reversal(body: Tape, groups: tuple[int, int, int], needs: Mask, given: Mask) -> Reversal:
    """The reverse scan's body for needed operands and given cotangents of ys."""
    return remember(
        body, ("reversal", groups, needs, given), lambda: _reversal(body, groups, needs, given)
    )


def _reversal(body: Tape, groups: tuple[int, int, int], needs: Mask, given: Mask) -> Reversal:
    n_consts, n_carry, _ = groups
    lead, ins, outs = n_consts + n_carry, in_specs(body), out_specs(body)
    mask, _ = settled(body, groups, needs)
    carry = tuple(k for k in range(n_carry) if mask[n_consts + k])
    consts = tuple(i for i in range(n_consts) if needs[i])
    xs = tuple(i for i in range(lead, len(ins)) if needs[i])
    wanted = [*(n_consts + k for k in carry), *consts, *xs]
    y_specs = [s for s, m in zip(outs[n_carry:], given, strict=True) if m]
    specs = [*ins[:n_consts], *(outs[k] for k in carry), *(ins[i] for i in consts)]
    n_state = len(carry) + len(consts)

    def fn(*args: Tensor) -> list[Tensor]:
        constants, cots = args[:n_consts], args[n_consts : n_consts + len(carry)]
        sums, rows = args[n_consts + len(carry) : n_consts + n_state], args[n_consts + n_state :]
        values = [*constants, *rows[: len(ins) - n_consts]]
        ct_y = iter(rows[len(ins) - n_consts :])
        ct_carry: list[Any] = [None] * n_carry
        for k, c in zip(carry, cots, strict=True):
            ct_carry[k] = c
        got = pull(body, values, wanted, [*ct_carry, *(next(ct_y) if m else None for m in given)])
        n = len(carry)
        added = [s + c for s, c in zip(sums, got[n:n_state], strict=True)]
        return [*got[:n], *added, *got[n_state:]]

    tape = traced(fn, [*specs, *ins[n_consts:], *y_specs], "the adjoint of a scan")
    used = used_inputs(tape)
    used_consts = tuple(i for i in range(n_consts) if used[i])
    used_rows = tuple(
        i - n_consts - n_state for i in range(n_consts + n_state, len(used)) if used[i]
    )
    keep = [
        *used_consts,
        *range(n_consts, n_consts + n_state),
        *(i + n_consts + n_state for i in used_rows),
    ]
    return Reversal(select_inputs(tape, keep), used_consts, used_rows, carry, consts, xs, n_consts)


# -- masks, batches and histories ---------------------------------------------------------------------


def settled(body: Tape, groups: Sequence[int], mask: Sequence[bool]) -> tuple[Mask, Mask]:
    """Which operands and outputs of the loop vary with the marked operands."""
    n_consts, n_carry = groups[0], groups[1]
    live = [m and is_float(s) for m, s in zip(mask, in_specs(body), strict=True)]
    carry = live[n_consts : n_consts + n_carry]
    return settle(n_consts, carry, live, lambda full: reached(body, full))


def full_rows(rows: Sequence[Any], inputs: Sequence[Any], mask: Mask, order: int) -> list[Any]:
    """Coefficients for every marked operand: zeros where a carry starts to vary later."""
    return [
        ([zero(x)] * order if r is None else r) if m else []
        for r, x, m in zip(rows, inputs, mask, strict=True)
    ]


def batch_of(dims: Sequence[int | None], inputs: Sequence[Any]) -> tuple[int, str]:
    """The batch size, and how random numbers are drawn for its members."""
    size = next(x.shape[d] for x, d in zip(inputs, dims, strict=True) if d is not None)
    here = state.levels[-1].interpreter if state.levels else None
    return size, getattr(here, "randomness", "error")


def batched_loop(
    body: Tape, groups: Sequence[int], dims: Sequence[Any], size: int, how: str
) -> tuple[Tape, Mask, Mask]:
    """The batched body, and which operands and outputs carry the batch."""
    n_consts, n_carry = groups[0], groups[1]
    mask = [d is not None for d in dims]
    carry = mask[n_consts : n_consts + n_carry]
    full, outs = settle(n_consts, carry, mask, lambda m: batched(body, tuple(m), size, how)[1])
    return batched(body, full, size, how, outs)[0], full, outs


def batch_operand(x: Any, dim: int | None, wanted: bool, size: int, place: int) -> Any:
    """An operand with its batch at ``place`` (expanded if it has none)."""
    if not wanted:
        return x
    if dim is None:
        x, dim = expand(x, shape=(size, *x.shape)), 0
    if not place:
        return to_front(x, dim)
    rest = [i for i in range(x.ndim) if i != dim]
    order = (rest[0], dim, *rest[1:])
    return x if order == tuple(range(x.ndim)) else permute(x, dims=order)


def with_history(body: Tape, n_consts: int, n_carry: int) -> Tape:
    """The body with its incoming carry as further outputs."""

    def make() -> Tape:
        return traced(
            lambda *args: [*body.call(*args), *args[n_consts : n_consts + n_carry]],
            in_specs(body),
            "a body with its carry",
        )

    return remember(body, ("history", n_consts, n_carry), make)
