"""Recording: abstract tracing (a transform level) and eager recording (a listener on dispatch)."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError
from ..op import Spec, as_tensor
from ..op.dispatch import ARRAY
from ..op.interpreter import Listener, new_level, own
from ..op.view import layout_of
from ..state import state
from ..tensor import Level, Tensor, Value, level_of
from ..utils import pytree
from .program import Guard, Tape


class TapeValue(Value):
    """A variable of a tape under construction."""

    __slots__ = ("var",)

    def __init__(self, level: Level, var: int, spec: Spec):
        self.level, self.var, self.shape, self.dtype = level, var, spec.shape, spec.dtype


class Tracer:
    """The interpreter of a tracing level: appends instructions, computes nothing."""

    records_all = True

    def __init__(self, tape: Tape):
        self.tape = tape
        self.constants: dict[int, int] = {}

    def lift(self, level: Level, t: Tensor) -> TapeValue:
        """A captured tensor as a variable."""
        var = self.capture(t)
        return TapeValue(level, var, self.tape.specs[var])

    def capture(self, t: Tensor) -> int:
        """The variable of a tensor from outside."""
        var = self.constants.get(id(t))
        if var is None:
            var = self.constants[id(t)] = self.tape.new_var(Spec(t._data.shape, t._data.dtype))
            self.tape.captured[var] = t
            freeze(self.tape, var, t)
        return var

    def before_write(self, level: Level, t: Tensor) -> None:
        """A traced value is about to be written in place: remember it if it is an argument."""
        if own(level, t) and t._data.var in self.tape.inputs:
            self.tape.writes.add(t._data.var)

    def swap_captured(self, t: Tensor) -> None:
        """``t`` is about to be written: keep its present value under another object."""
        var = self.constants.pop(id(t), None)
        if var is not None:
            self.tape.captured[var] = Tensor(t._data, t._node, t._nr, t._ver)

    def host_read(self, t: Tensor, data: np.ndarray) -> None:
        """Python read a captured tensor while tracing: replay must find the same value."""
        self.tape.frozen[self.capture(t)] = np.array(data)

    def process(self, level: Level, op: Any, args: Sequence[Tensor], params: dict) -> Any:
        """Record one operator."""
        ins = [t._data.var if own(level, t) else self.capture(t) for t in args]
        out = op.infer_out([Spec(t._data.shape, t._data.dtype) for t in args], params)
        multi = type(out) is tuple
        specs = out if multi else (out,)
        outs = without_gradient(self.tape, op, self.tape.add(op.name, ins, params, specs))
        values = tuple(TapeValue(level, v, self.tape.specs[v]) for v in outs)
        return values if multi else values[0]


def without_gradient(tape: Tape, op: Any, outs: tuple[int, ...]) -> tuple[int, ...]:
    """Results made under the user's ``no_grad`` (not within a backward pass) are constants to derivatives."""
    if state.off > 0 or state.sweep is not None or not op.differentiable or op.name == "detach":
        return outs
    return tuple(
        tape.add("detach", [v], {}, [tape.specs[v]])[0] if tape.specs[v].dtype.kind in "fc" else v
        for v in outs
    )


def freeze(tape: Tape, var: int, t: Tensor) -> None:
    """Keep a copy of a captured user array, to notice changes on replay."""
    if t._meta is not None and t._meta.name == ARRAY:
        tape.frozen[var] = np.array(t._data)


def trace_flat(
    fn: Callable, specs: Sequence[Spec], name: str = "trace", kind: type[Tracer] = Tracer
) -> Tape:
    """Trace ``fn(*tensors) -> sequence of tensors`` on variables of the given specs."""
    tape = Tape()
    tracer = kind(tape)
    with new_level(name, tracer) as level:
        args = []
        for s in specs:
            var = tape.new_var(s)
            tape.inputs.append(var)
            args.append(Tensor(TapeValue(level, var, tape.specs[var])))
        outs = list(fn(*args))
        for t in outs:
            t = as_tensor(t, name)
            t.refresh_()
            tape.outputs.append(t._data.var if own(level, t) else tracer.capture(t))
    return tape


class LinearTracer(Tracer):
    """Records only what depends on the inputs; everything else is computed and captured."""

    records_all = False


def linear_tape(fn: Callable, specs: Sequence[Spec]) -> Tape:
    """A tape of a linear function whose coefficients are computed now (for ``linearize``)."""
    return trace_flat(fn, specs, "func.linearize", LinearTracer)


def trace_call(fn: Callable, args: tuple) -> Tape:
    """Trace a function of pytrees at example arguments."""
    leaves, in_tree = pytree.flatten(args)
    tensors = [as_tensor(x, "trace") for x in leaves]
    box: list[Any] = []

    def flat(*xs: Tensor) -> list[Any]:
        out, tree = pytree.flatten(fn(*pytree.unflatten(in_tree, xs)))
        box.append(tree)
        return out

    tape = trace_flat(flat, [Spec(tuple(t.shape), t.dtype) for t in tensors])
    tape.in_tree, tape.out_tree = in_tree, box[0]
    tape._check_aliases(tensors)
    tape.environment = captured_numbers(fn)
    return tape


_PLAIN = (bool, int, float, complex, str)


def captured_numbers(fn: Callable) -> list[tuple]:
    """Plain Python values a function reads from its closure and globals, with where they live."""
    found = []
    code = getattr(fn, "__code__", None)
    if code is None:
        return []
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if isinstance(value, _PLAIN):
            found.append((cell, name, value, "the closure variable"))
        elif isinstance(value, types.FunctionType) and value is not fn:
            found += captured_numbers(value)
    scope = getattr(fn, "__globals__", {})
    for name in code.co_names:
        value = scope.get(name)
        if isinstance(value, _PLAIN):
            found.append((scope, name, value, "the global"))
    return found


class Recorder(Listener):
    """Records concrete operations of one thread into a tape.

    Values are known by their memory and version, not by the Tensor object: the backward pass makes new
    tensors over saved memory.
    """

    def __init__(self, tape: Tape, inputs: Sequence[Tensor]):
        self.tape = tape
        self.vars: dict[int, tuple[Any, int, int]] = {}
        self.last: int | None = None
        for t in inputs:
            if id(t._data) in self.vars:
                raise TraceError(
                    "Tape: one tensor was given as two inputs; pass a clone() for one of them."
                )
            var = tape.new_var(Spec(tuple(t.shape), t.dtype))
            tape.inputs.append(var)
            self.vars[id(t._data)] = (t._data, var, t._ver[0])

    def var(self, t: Tensor) -> int:
        """The variable that holds a tensor's present value."""
        known = self.vars.get(id(t._data))
        if known is not None and known[2] == t._ver[0]:
            return known[1]
        if known is not None and t._meta is not None and t._meta.base is not None:
            return self._view_of_base(t)
        if known is not None:
            raise TraceError(
                "Tape: a recorded tensor was changed behind the tape's back (through NumPy or a detached "
                "alias); use nbgrad's in-place operations on the tensor itself."
            )
        base = t._meta.base if t._meta is not None else None
        if base is not None and id(base._data) in self.vars:
            return self._view_of_base(t)
        var = self.tape.new_var(Spec(tuple(t.shape), t.dtype))
        self.tape.captured[var] = t
        freeze(self.tape, var, t)
        return self.bind(t, var)

    def bind(self, t: Tensor, var: int) -> int:
        """Say that a tensor now holds a variable."""
        self.vars[id(t._data)] = (t._data, var, t._ver[0])
        return var

    def _view_of_base(self, t: Tensor) -> int:
        assert t._meta is not None and t._meta.base is not None
        base, layout = t._meta.base, t._meta.layout
        params = {"layout": layout, "base_layout": layout_of(base)}
        spec = Spec(tuple(t.shape), t.dtype)
        return self.bind(t, self.tape.add("strided_view", [self.var(base)], params, [spec])[0])

    def record(self, op: Any, args: Sequence[Tensor], params: dict, outs: Sequence[Tensor]) -> None:
        """Called by dispatch after a concrete operation."""
        if any(level_of(t._data) is not None for t in args):
            return
        ins = [self.var(t) for t in args]
        specs = [Spec(tuple(o.shape), o.dtype) for o in outs]
        made = self.tape.add(op.name, ins, params, specs)
        for o, v in zip(outs, without_gradient(self.tape, op, made), strict=True):
            self.last = self.bind(o, v)

    def adopt(self, t: Tensor) -> None:
        """A new view has joined its base's version cell: know it under that version."""
        known = self.vars.get(id(t._data))
        if known is not None:
            self.bind(t, known[1])

    def alias(self, new: Tensor, old: Tensor) -> None:
        """``new`` holds the same value as ``old``."""
        self.bind(new, self.var(old))

    def written(self, t: Tensor, result: Tensor, base: Tensor | None) -> None:
        """``result`` was written into ``t`` (a view of ``base``, if given)."""
        var = self.var(result)
        if base is not None:
            known = self.vars.get(id(base._data))
            params = {"layout": t._meta.layout, "base_layout": layout_of(base)}  # type: ignore[union-attr]
            assert known is not None  # before_write saw to it
            old = known[1]
            spec = Spec(tuple(base.shape), base.dtype)
            self.last = self.bind(
                base, self.tape.add("strided_scatter", [old, var], params, [spec])[0]
            )
        self.bind(t, var)

    def before_write(self, t: Tensor) -> None:
        """Memory is about to change: captured tensors that look at it keep their present values."""
        if id(t._data) not in self.vars:
            self.var(t)
        for var, c in self.tape.captured.items():
            data = c._data
            if (
                isinstance(data, np.ndarray)
                and isinstance(t._data, np.ndarray)
                and np.may_share_memory(data, t._data)
            ):
                self.tape.captured[var] = Tensor(data.copy())

    def host_read(self, t: Tensor, data: np.ndarray, what: str) -> None:
        """The program read a value in Python: replay must see the same one."""
        known = self.vars.get(id(t._data))
        if known is not None and known[2] == t._ver[0] and known[1] not in self.tape.captured:
            self.tape.guards.append(
                Guard(known[1], np.array(data), what, len(self.tape.instructions))
            )

    def finish(self) -> None:
        """End of recording: the last result is the output unless some were named."""
        if not self.tape.outputs and self.last is not None:
            self.tape.outputs = [self.last]
        self.vars.clear()
