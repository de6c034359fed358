"""The tape: a static single-assignment program over operators.

``%5 f64[64,20] = tanh(%4)``: every line names its result, its type, the operator, its operands and parameters. Inputs
are the arguments of the traced function; captured tensors are used by reference, so a replay sees their present
values; guards repeat what the recording read on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ShapeError, TraceError, message
from ..op import REGISTRY, Spec, as_tensor, cast
from ..op.public import PUBLIC
from ..state import state
from ..tensor import Tensor
from ..utils import pytree


class Instruction(NamedTuple):
    """One operation: ``outputs = op(*inputs, **params)`` on variable numbers."""

    op: str
    inputs: tuple[int, ...]
    params: dict
    outputs: tuple[int, ...]


class Guard(NamedTuple):
    """A host read made while recording: on replay, variable ``var`` must still have this value."""

    var: int
    value: np.ndarray
    what: str
    position: int


class Tape:
    """A recorded program.

    Record eagerly with ``with ng.Tape(x) as tape:`` (values stay concrete), or abstractly with
    ``ng.trace(f)(x)``. All transforms return a new tape.
    """

    def __init__(self, *inputs: Tensor):
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.instructions: list[Instruction] = []
        self.specs: dict[int, Spec] = {}
        self.count = 0  # variables ever made: numbers are not used twice
        self.captured: dict[int, Tensor] = {}
        self.guards: list[Guard] = []
        self.frozen: dict[int, np.ndarray] = {}
        self.environment: list[tuple] = []
        self.writes: set[int] = set()  # inputs the traced function wrote in place
        self.in_tree: Any = None
        self.out_tree: Any = None
        self._recorder: Any = None
        self._given = inputs

    # -- building -------------------------------------------------------------------------------
    def new_var(self, spec: Spec) -> int:
        """A fresh variable."""
        var, self.count = self.count, self.count + 1
        self.specs[var] = Spec(tuple(spec[0]), spec[1])
        return var

    def add(
        self, op: str, inputs: Sequence[int], params: dict, specs: Sequence[Spec]
    ) -> tuple[int, ...]:
        """Append an instruction; returns its output variables."""
        outs = tuple(self.new_var(s) for s in specs)
        self.instructions.append(Instruction(op, tuple(inputs), params, outs))
        return outs

    def __enter__(self) -> Tape:
        from .record import Recorder

        self._recorder = Recorder(self, [as_tensor(x, "Tape") for x in self._given])
        state.recorders = (*state.recorders, self._recorder)
        state.refresh()
        return self

    def __exit__(self, *exc: object) -> None:
        state.recorders = tuple(r for r in state.recorders if r is not self._recorder)
        state.refresh()
        self._recorder.finish()

    def output(self, *tensors: Tensor) -> None:
        """Name the outputs of an eager recording (default: the last result)."""
        if self._recorder is None:
            raise TraceError(
                "Tape.output: the tape is not recording; call it inside the with block."
            )
        self.outputs = [self._recorder.var(t) for t in tensors]
        tree: Any = tensors if len(tensors) != 1 else tensors[0]
        self.out_tree = pytree.flatten(tree)[1]

    # -- running --------------------------------------------------------------------------------
    def replay(self, *args: Any) -> Any:
        """Run the program on new inputs (same shapes and dtypes) and the present captured tensors.

        Raises
        ------
        ShapeError, DTypeError : inputs unlike the recorded ones.
        TraceError : a guard fails (a captured array, a Python number or a branch has changed).
        """
        leaves, treedef = pytree.flatten(args)
        if self.in_tree is not None and treedef != self.in_tree:
            raise TraceError(
                message(
                    "replay",
                    "the arguments' structure",
                    treedef,
                    f"the recorded one, {self.in_tree}",
                )
            )
        outs = self.run([as_tensor(x, "replay") for x in leaves])
        return outs[0] if self.out_tree is None and len(outs) == 1 else self._shape_outputs(outs)

    __call__ = replay

    def _shape_outputs(self, outs: list[Tensor]) -> Any:
        return tuple(outs) if self.out_tree is None else pytree.unflatten(self.out_tree, outs)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Interpret the instructions on tensors (of any level); returns the flat outputs."""
        env = self._bind(inputs)
        last = self._last_uses()
        guards = iter([*self.guards, None])
        guard = next(guards)
        for position, (name, ins, params, outs) in enumerate(self.instructions):
            while guard is not None and guard.position <= position:
                self._check(guard, env)
                guard = next(guards)
            got = REGISTRY[name](*[env[v] for v in ins], **params)
            for var, value in zip(outs, got if isinstance(got, tuple) else (got,), strict=True):
                env[var] = value
            for var in last.get(position, ()):
                del env[var]
        while guard is not None:
            self._check(guard, env)
            guard = next(guards)
        return [env[v] for v in self.outputs]

    def call(self, *inputs: Tensor) -> list[Tensor]:
        """`run` with the flat inputs as arguments."""
        return self.run(inputs)

    def checked(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Flat inputs in the recorded dtypes, after the checks of `replay`."""
        env = self._bind(inputs)
        return [env[v] for v in self.inputs]

    def _bind(self, inputs: Sequence[Tensor]) -> dict[int, Tensor]:
        if len(inputs) != len(self.inputs):
            raise TraceError(
                message(
                    "replay",
                    "the number of inputs",
                    len(inputs),
                    f"{len(self.inputs)}, as recorded",
                )
            )
        env: dict[int, Tensor] = {}
        for i, (var, x) in enumerate(zip(self.inputs, inputs, strict=True)):
            spec = self.specs[var]
            if tuple(x.shape) != spec.shape:
                raise ShapeError(
                    message(
                        "replay",
                        f"input {i}'s shape",
                        tuple(x.shape),
                        f"{spec.shape}, the recorded one",
                        "Record again for another shape.",
                    )
                )
            env[var] = x if x.dtype == spec.dtype else cast(x, spec.dtype)
        self._check_aliases(inputs)
        for var, frozen in self.frozen.items():
            now = self.captured[var]._data
            if not np.array_equal(now, frozen, equal_nan=True):
                raise TraceError(
                    f"replay: a captured NumPy array (%{var}) has changed since recording; pass it as an input, "
                    "make it a tensor, or record again."
                )
        for holder, key, value, where in self.environment:
            if not _unchanged(holder, key, value):
                raise TraceError(
                    f"replay: {where} '{key}' has changed since recording; make it a tensor or an input, or "
                    "record again."
                )
        env.update(self.captured)
        return env

    def _check_aliases(self, inputs: Sequence[Tensor]) -> None:
        """A function that wrote one argument in place means something else when another one shares its memory."""
        for var in self.writes:
            i = self.inputs.index(var)
            for j, other in enumerate(inputs):
                if j != i and _share_memory(inputs[i], other):
                    raise TraceError(
                        f"replay: inputs {i} and {j} share memory, and the traced function wrote input {i} in place; "
                        "pass a clone() of one of them."
                    )

    def _last_uses(self) -> dict[int, list[int]]:
        keep = {*self.inputs, *self.outputs, *self.captured, *(g.var for g in self.guards)}
        last: dict[int, int] = {}
        for position, ins in enumerate(self.instructions):
            for v in (*ins.inputs, *ins.outputs):
                last[v] = position
        table: dict[int, list[int]] = {}
        for v, position in last.items():
            if v not in keep:
                table.setdefault(position, []).append(v)
        return table

    @staticmethod
    def _check(guard: Guard, env: dict[int, Tensor]) -> None:
        data = env[guard.var]._data
        if not isinstance(data, np.ndarray) or not np.array_equal(
            data, guard.value, equal_nan=True
        ):
            raise TraceError(
                f"replay: the recording read %{guard.var} on the host ({guard.what}) and may have branched on "
                "it; its value is different now. Record again, or use ng.where."
            )

    # -- transforms ---------------------------------------------------------------------------------
    def vjp(self) -> Tape:
        """``(inputs, cotangents) -> (outputs, input cotangents)``."""
        from .transform import vjp

        return vjp(self)

    def jvp(self) -> Tape:
        """``(inputs, tangents) -> (outputs, output tangents)``."""
        from .transform import jvp

        return jvp(self)

    def taylor(self, order: int) -> Tape:
        """``(inputs, x1 ... xk) -> (outputs, y1 ... yk)``: Taylor coefficients up to ``order``."""
        from .transform import taylor

        return taylor(self, order)

    def vmap(self, size: int, in_dims: Sequence[int | None] | int | None = 0) -> Tape:
        """The program over a batch of ``size`` inputs (dimension 0 of the outputs)."""
        from .transform import vmap

        return vmap(self, size, in_dims)

    def grad(self, wrt: int | Sequence[int] = 0) -> Tape:
        """The gradient of a scalar-valued tape with respect to its inputs ``wrt``."""
        from .transform import grad

        return grad(self, wrt)

    def compile(self) -> Any:
        """The tape as machine code: a function that takes and gives what `replay` does, see ``ng.compile``.

        A tape with guards, or over captured NumPy arrays, is interpreted.
        """
        from ..compiler.tapes import CompiledTape

        return CompiledTape(self)

    def simplify(self) -> Tape:
        """Dead code removed, common subexpressions shared, trivial operations dropped."""
        from .simplify import simplify

        return simplify(self)

    def verify(self) -> Tape:
        """Check that every variable is defined once before use and has the type its operator gives."""
        from .verify import verify

        verify(self)
        return self

    # -- showing and keeping ------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self.instructions)

    def __str__(self) -> str:
        from .show import text

        return text(self)

    def show(self, path: Any = None) -> Any:
        """The program as text, or a picture written to ``path`` (``.svg``, ``.dot``, ``.pdf``, ``.png``)."""
        from .show import show

        return show(self, path)

    def _repr_svg_(self) -> str:
        from .show import picture

        return picture(self).svg()

    def __repr__(self) -> str:
        return f"<Tape: {len(self.inputs)} inputs, {len(self)} instructions, {len(self.outputs)} outputs>"

    def save(self, path: Any) -> None:
        """Write to a ``.npz`` file (a JSON program and the captured arrays; no pickle)."""
        from .io import save

        save(self, path)

    @staticmethod
    def load(path: Any) -> Tape:
        """Read a tape that `save` wrote."""
        from .io import load

        return load(path)


def _share_memory(a: Tensor, b: Tensor) -> bool:
    one, two = a._data, b._data
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return bool(np.may_share_memory(one, two))
    return one is two


def _unchanged(holder: Any, key: str, value: Any) -> bool:
    now = (
        holder.get(key, value)
        if isinstance(holder, dict)
        else getattr(holder, "cell_contents", value)
    )
    return now is value or (type(now) is type(value) and bool(now == value))


def trace(fn: Any) -> Any:
    """``ng.trace(f)(*args)`` records ``f`` on abstract values of the arguments' shapes and dtypes.

    Python code that reads a traced value raises at once; captured tensors are used by reference.
    Given a matrix instead of a function, it is the sum of the main diagonal, as in PyTorch.
    """
    from .record import trace_call

    if not callable(fn):
        return PUBLIC["trace"](fn)

    def tracer(*args: Any) -> Tape:
        return trace_call(fn, args)

    return tracer
