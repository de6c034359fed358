"""The operator ``scan_reverse``: cotangents of a scan's operands, with few carries kept.

Its derivatives are sweeps again. With ``g = J(x)^T w`` the tangent is ``dg = J^T dw + (sum_k w_k H_k) dx``; because the
Hessians are symmetric, both terms are the cotangents of x in the reversed *tangent* scan ``(x, dx) -> (y, J dx)``
for the cotangents ``(dw, w)``. The same sweep with ``(0, w)`` pulls a cotangent of g back to x, and the tangent scan along
it pulls it back to w. So memory stays bounded at every order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..op import Spec
from ..ops.view import to_front
from ..tensor import Tensor
from .base import Control, as_tuple, one_by_one, zero
from .body import out_specs
from .derive import Mask, lift, lifted, lifted_sizes, select_outputs
from .revolve import Report, revolve
from .runner import owned, scan_function, tape_function
from .scan import (
    SCAN,
    Reversal,
    batch_of,
    batch_operand,
    batched_loop,
    check_operands,
    full_rows,
    reversal,
    settled,
    sizes,
)

_OWN = ("wanted", "given")


def sweep_params(params: dict, needs: Sequence[bool], given: Mask) -> dict:
    """Parameters of the sweep of a scan: its own, the needed operands, the results that have a cotangent."""
    kept = {k: v for k, v in params.items() if k != "stored" and k not in _OWN}
    return {**kept, "wanted": tuple(needs), "given": given}


class Sweep(Control):
    """Operands: those of the scan, then the cotangents of its ``given`` results. Parameters: those of the scan,
    ``wanted`` (the operands whose cotangents are asked for) and ``given``.
    """

    def __init__(self) -> None:
        super().__init__(
            "scan_reverse", sweep_kernel, nin=None, n_out=lambda params: sum(params["wanted"])
        )

    def push(self, order: int, rows: Any, inputs: Any, params: dict) -> tuple[list, list]:
        assert order == 1, "Taylor mode integrates the first derivative"
        n = len(params["wanted"])
        tangent = Tangent(params, inputs[:n], rows[:n])
        dots = {k: r[0] for k, r in zip(_places(params), rows[n:], strict=True) if r is not None}
        values = dict(zip(_places(params), inputs[n:], strict=True))
        found = tangent.reverse(dots, values, params["wanted"])
        return list(self(*inputs, **params)), [[d] for d in found]

    def run_batch(self, dims: Any, inputs: Any, params: dict) -> tuple:
        n, needs, groups = len(params["wanted"]), params["wanted"], sizes(params)
        size, how = batch_of(dims, inputs)
        # a cotangent is the batch member's own only where its operand is
        own = [0 if need else d for d, need in zip(dims[:n], needs, strict=True)]
        body, mask, outs = batched_loop(params["body"], groups, own, size, how)
        lead = groups[0] + groups[1]
        args = [
            batch_operand(x, d, m, size, int(i >= lead))
            for i, (x, d, m) in enumerate(zip(inputs[:n], dims[:n], mask, strict=True))
        ]
        for k, c, d in zip(_places(params), inputs[n:], dims[n:], strict=True):
            if d is not None and not outs[k]:  # a result that no needed operand reaches
                c, d = to_front(c, d)[0], None
            args.append(batch_operand(c, d, outs[k], size, int(k >= groups[1])))
        got = self(*args, **{**params, "body": body})
        return got, tuple(int(i >= lead) for i in range(n) if needs[i])


def _places(params: dict) -> list[int]:
    """Which results of the scan the cotangent operands belong to."""
    return [k for k, g in enumerate(params["given"]) if g]


class Tangent:
    """The tangent scan of a sweep's scan at operands ``inputs`` along ``rows``."""

    def __init__(self, params: dict, inputs: Sequence[Any], rows: Sequence[Any]):
        body, self.groups = params["body"], sizes(params)
        self.mask, self.outs = settled(body, self.groups, [r is not None for r in rows])
        n_carry = self.groups[1]
        self.out_groups = (n_carry, len(body.outputs) - n_carry)
        full = full_rows(rows, inputs, self.mask, 1)
        self.operands = lift(self.groups, inputs, full, self.mask)
        n = lifted_sizes(self.groups, self.mask, 1)
        self.params = {
            **{k: v for k, v in params.items() if k not in _OWN},
            "body": lifted(body, self.groups, self.mask, 1, self.outs, self.out_groups),
            "n_consts": n[0],
            "n_carry": n[1],
            "n_xs": n[2],
        }

    def reverse(self, primal: dict[int, Any], tangent: dict[int, Any], needs: Mask) -> list[Tensor]:
        """Cotangents of the (undifferentiated) operands for cotangents of values and of tangents, by result."""
        n = len(self.outs)
        rows = [[tangent.get(k)] for k in range(n)]
        cots = lift(self.out_groups, [primal.get(k) for k in range(n)], rows, self.outs)
        wanted = lift(self.groups, list(needs), [[False]] * len(needs), self.mask)
        given = tuple(c is not None for c in cots)
        live = [c for c in cots if c is not None]
        return list(SWEEP(*self.operands, *live, **sweep_params(self.params, wanted, given)))

    def forward(self) -> dict[int, Tensor]:
        """Tangents of the results that vary."""
        got = iter(SCAN(*self.operands, **self.params, stored=0))
        found: dict[int, Tensor] = {}
        at = 0
        for n in self.out_groups:
            for _ in range(n):
                next(got)
            for k in range(at, at + n):
                if self.outs[k]:
                    found[k] = next(got)
            at += n
        return found


def sweep_kernel(*arrays, snapshots, wanted, body, length, **params):
    """Reverse the loop on arrays."""
    return reverse_loop(arrays, {**params, "body": body, "length": length}, wanted, snapshots)[0]


def reverse_loop(
    arrays: Sequence[Any], params: dict, needs: Mask, snapshots: int
) -> tuple[tuple, Report]:
    """Cotangents of the needed operands, and what the reversal took."""
    body, n_carry, length = params["body"], params["n_carry"], params["length"]
    groups, n, given = sizes(params), len(needs), params["given"]
    lead = groups[0] + n_carry
    back = reversal(body, groups, needs, given[n_carry:])
    cots = dict(zip(_places(params), arrays[n:], strict=True))
    consts, xs = arrays[: groups[0]], arrays[lead:n]
    rows = [*xs, *(cots[k] for k in range(n_carry, len(given)) if given[k])]
    n_state = len(back.carry) + len(back.consts)
    specs = out_specs(body)
    state = [
        *(cots[k] if k in cots else np.zeros(*specs[k]) for k in back.carry),
        *(np.zeros_like(arrays[i]) for i in back.consts),
    ]
    outs = [np.empty(arrays[i].shape, arrays[i].dtype) for i in back.xs]
    pull = tape_function(back.tape)
    used = [consts[i] for i in back.used_consts]
    steps = scan_function(select_outputs(body, range(n_carry)), groups[0], n_carry)

    def index(k: int) -> int:
        return length - 1 - k if params["reverse"] else k

    def advance(carry: tuple, lo: int, hi: int) -> tuple:
        order = map(index, range(lo, hi))
        return steps(order, (*consts, *carry), xs, ())

    def reverse(k: int, carry: tuple) -> None:
        i = index(k)
        row = (*carry, *(r[i, ...] for r in rows))
        got = pull(*used, *state, *(row[j] for j in back.used_rows))
        state[:] = got[:n_state]
        for out, c in zip(outs, got[n_state:], strict=True):
            out[i] = c

    with np.errstate(all="ignore"):
        report = revolve(length, snapshots, arrays[groups[0] : lead], advance, reverse)
    got = [*owned(state, arrays, back.tape), *outs]
    return _in_order(back, got, needs), report


def _in_order(back: Reversal, got: Sequence[np.ndarray], needs: Mask) -> tuple:
    every = back.distribute(got, len(needs), needs)  # type: ignore[arg-type]
    return tuple(c for c, n in zip(every, needs, strict=True) if n)


SWEEP = Sweep()
SWEEP.saves = lambda needs, params: range(len(needs))


@SWEEP.infer
def _(*specs, body, n_consts, n_carry, length, wanted, **_):
    check_operands("scan_reverse", body, specs[: len(wanted)], n_consts + n_carry, length)
    return tuple(Spec(*s) for s, w in zip(specs, wanted, strict=False) if w)


@SWEEP.vjp
def _(g, out, *inputs, needs, **params):
    n = len(params["wanted"])
    found = iter(as_tuple(g))
    rows: list[Any] = [None] * n
    for i, wanted in enumerate(params["wanted"]):
        c = next(found) if wanted else None
        rows[i] = None if c is None else [c]
    tangent = Tangent(params, inputs[:n], rows)
    values = dict(zip(_places(params), inputs[n:], strict=True))
    first: tuple = (None,) * n
    if any(needs[:n]):
        first = one_by_one(tuple(tangent.reverse({}, values, tuple(needs[:n]))), needs[:n])
    second: list[Any] = [None] * (len(inputs) - n)
    if any(needs[n:]):
        dots = tangent.forward()
        second = [
            (dots[k] if k in dots else zero(c)) if need else None
            for k, c, need in zip(_places(params), inputs[n:], needs[n:], strict=True)
        ]
    return (*first, *second)
