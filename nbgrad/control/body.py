"""A user's function as a closed sub-tape: traced once, what it captured made operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, TraceError, message
from ..op import Spec, as_tensor
from ..op.dispatch import CONSTANT
from ..state import ON, state
from ..tape import Tape
from ..tape.record import trace_flat
from ..tape.show import separate_tapes
from ..tape.simplify import simplify
from ..tensor import Meta, Tensor
from ..utils import pytree

_MODES: dict[str, Any] = {
    "off": ON,
    "sweep": None,
    "recorders": (),
    "saved_hooks": (),
    "anomaly": None,
    "inference": False,
    "scopes": 0,
}


class Closed(NamedTuple):
    """``tape(captured..., arguments...)``, the captured tensors and the structure of the result."""

    tape: Tape
    captured: list[Tensor]
    out_tree: pytree.TreeDef


@contextmanager
def quiet() -> Iterator[None]:
    """Trace without the modes of the caller: a body is a program, whatever surrounds its first use."""
    previous = {name: getattr(state, name) for name in _MODES}
    for name, value in _MODES.items():
        setattr(state, name, value)
    state.refresh()
    try:
        yield
    finally:
        for name, value in previous.items():
            setattr(state, name, value)
        state.refresh()


def traced(fn: Callable, specs: Sequence[Spec], name: str) -> Tape:
    """The simplified tape of nbgrad's own code on tensors (it captures nothing but constants)."""
    with quiet():
        tape = trace_flat(fn, specs, name)
    for t in tape.captured.values():
        t._meta = t._meta or Meta()
        t._meta.name = CONSTANT
    return simplify(tape)


def remember(tape: Tape, key: Any, make: Callable[[], Any]) -> Any:
    """What was derived from a tape under a key, made on first use; it lives and dies with the tape."""
    table = vars(tape).setdefault("derived", {})
    if key not in table:
        table[key] = make()
    return table[key]


def close(fn: Callable, in_tree: pytree.TreeDef, specs: Sequence[Spec], name: str) -> Closed:
    """Trace ``fn(*arguments)`` of pytrees on abstract values.

    Raises
    ------
    ArgumentError : ``fn`` is not callable.
    TraceError : Python reads a traced value, or (in loops) random numbers are drawn.
    """
    if not callable(fn):
        raise ArgumentError(message(name, "the function", repr(fn), "a callable"))
    box: list[Any] = []

    def flat(*xs: Tensor) -> list[Any]:
        out, tree = pytree.flatten(fn(*pytree.unflatten(in_tree, xs)))
        box.append(tree)
        return [as_tensor(o, name, "the function's result") for o in out]

    with quiet():
        tape = trace_flat(flat, specs, name)
    _report_reads(tape)
    tape = simplify(tape)
    return Closed(tape, _hoist(tape), box[0])


def _report_reads(tape: Tape) -> None:
    """What Python read of captured tensors must stay the same for whoever records the whole."""
    for var, data in tape.frozen.items():
        if state.tracer is not None:
            state.tracer.interpreter.host_read(tape.captured[var], data)
        for recorder in state.recorders:
            recorder.host_read(tape.captured[var], data, "read by the body of a loop or branch")
    tape.frozen.clear()


def _hoist(tape: Tape) -> list[Tensor]:
    """Make captured tensors the first inputs of the tape; constants stay."""
    moved = {v: t for v, t in tape.captured.items() if not _is_constant(t)}
    for var in moved:
        del tape.captured[var]
    tape.inputs[:0] = moved
    tape.writes.clear()  # a body is functional: what it writes are its own copies
    return list(moved.values())


def _is_constant(t: Tensor) -> bool:
    plain = type(t._data) is np.ndarray and t._node is None
    return plain and t._meta is not None and t._meta.name == CONSTANT


def fresh_input(tape: Tape, spec: Spec) -> int:
    """A variable that no instruction uses, for an operand that the tape ignores."""
    var = max(tape.specs, default=-1) + 1
    tape.specs[var] = Spec(tuple(spec[0]), spec[1])
    return var


def share_captured(bodies: Sequence[Closed]) -> list[Tensor]:
    """Give several closed tapes the same leading operands; returns these."""
    union: dict[int, Tensor] = {id(t): t for b in bodies for t in b.captured}
    for body in bodies:
        own = dict(zip(map(id, body.captured), body.tape.inputs, strict=False))
        rest = body.tape.inputs[len(body.captured) :]
        body.tape.inputs = [
            own[k] if k in own else fresh_input(body.tape, spec_of(t)) for k, t in union.items()
        ] + rest
    return list(union.values())


def spec_of(t: Any) -> Spec:
    """Shape and dtype of a tensor."""
    return Spec(tuple(t._data.shape), t._data.dtype)


def out_specs(tape: Tape) -> list[Spec]:
    """Shapes and dtypes of a tape's results."""
    return [tape.specs[v] for v in tape.outputs]


def in_specs(tape: Tape) -> list[Spec]:
    """Shapes and dtypes of a tape's inputs."""
    return [tape.specs[v] for v in tape.inputs]


def refuse_random(tape: Tape, op: str) -> None:
    """Raise if a loop's body draws random numbers: the key was drawn once, with the trace."""
    for ins in tape.instructions:
        if ins.op.startswith("random"):
            raise TraceError(
                f"{op}: the body draws random numbers; it is traced once, so every step would draw the same ones. Draw "
                "them for all steps outside, and pass them as xs."
            )
        for _, inner in separate_tapes(ins.params)[1]:
            refuse_random(inner, op)


def leaf_paths(tree: pytree.TreeDef, prefix: str = "") -> list[str]:
    """Where each leaf sits in its tree, as Python would index it: ``['u'][0]``."""
    if tree.kind == "leaf":
        return [prefix]
    fields = getattr(tree.kind, "_fields", None)
    out = []
    for k, child in enumerate(tree.children):
        key = f".{fields[k]}" if fields else f"[{tree.keys[k] if tree.keys else k!r}]"
        if tree.keys:
            key = f"[{tree.keys[k]!r}]"
        out += leaf_paths(child, prefix + key)
    return out


def type_name(spec: Any) -> str:
    """``float64[3, 2]``."""
    return f"{spec.dtype.name}{list(spec.shape)}"
