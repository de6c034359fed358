"""Check a tape: single assignment, definition before use, known operators, inferred types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import TraceError
from ..op import REGISTRY
from .show import separate_tapes

if TYPE_CHECKING:
    from .program import Tape


def verify(tape: Tape) -> None:
    """Raise TraceError at the first violation; see `Tape.verify`."""
    defined = {*tape.inputs, *tape.captured}
    if len(defined) != len(tape.inputs) + len(tape.captured):
        raise TraceError(
            "verify: an input is also a captured variable, or an input is listed twice"
        )
    for position, (name, ins, params, outs) in enumerate(tape.instructions):
        where = f"instruction {position} ({name})"
        op = REGISTRY.get(name)
        if op is None:
            raise TraceError(f"verify: {where}: no operator of that name is registered")
        for v in ins:
            if v not in defined:
                raise TraceError(f"verify: {where}: %{v} is used before it is defined")
        for label, inner in separate_tapes(params)[1]:
            try:
                verify(inner)
            except TraceError as error:
                raise TraceError(f"{error} (in {label} of {where})") from None
        got = op.infer_out([tape.specs[v] for v in ins], params)
        specs = got if type(got) is tuple else (got,)
        if len(specs) != len(outs):
            raise TraceError(
                f"verify: {where}: {len(outs)} outputs; the operator gives {len(specs)}"
            )
        for v, s in zip(outs, specs, strict=True):
            if v in defined:
                raise TraceError(f"verify: {where}: %{v} is assigned twice")
            have = tape.specs[v]
            if tuple(have.shape) != tuple(s.shape) or have.dtype != s.dtype:
                raise TraceError(
                    f"verify: {where}: %{v} is declared {have.dtype.name}{list(have.shape)}; the operator "
                    f"gives {s.dtype.name}{list(s.shape)}"
                )
            defined.add(v)
    for v in tape.outputs:
        if v not in defined:
            raise TraceError(f"verify: output %{v} is never defined")
    for g in tape.guards:
        if g.var not in defined:
            raise TraceError(f"verify: a guard reads %{g.var}, which is never defined")
