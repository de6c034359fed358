"""A compiled tape: runs on arrays, and derives its own vjp, jvp and batched programs on demand."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import ArgumentError, message
from ..func.flat import flat_jvp, flat_vjp, flat_vmap
from ..op import Operator, Spec
from ..state import ON, state
from ..tape.program import Tape
from ..tape.record import trace_flat
from ..tape.simplify import rebuild
from ..tensor import Tensor
from . import report
from .flatten import flatten
from .generic import Family
from .items import Host
from .lower import Schedule
from .prepare import Constants, prepare
from .run import Runner


def close(tape: Tape, birth: int) -> tuple[Tape, list[Tensor]]:
    """The tape with the captured tensors that may change as further inputs, and these tensors."""
    closed = rebuild(tape, tape.instructions, {})
    constants = Constants(closed, birth)
    moved = [v for v in closed.captured if v not in constants]
    tensors = [closed.captured.pop(v) for v in moved]
    closed.inputs += moved
    closed.frozen = {}
    closed.environment = []
    return closed, tensors


@contextmanager
def gradients_on() -> Iterator[None]:
    """Trace as if gradients were recorded: whether they are is decided at every call."""
    inference, off = state.inference, state.off
    state.inference = False
    state.set_off(ON)
    try:
        yield
    finally:
        state.inference = inference
        state.set_off(off)


class Program:
    """A closed tape (captured tensors are constants) with its machine code and its derivatives.

    ``run`` maps flat arrays to flat arrays. The derived programs are programs again, so that derivatives of any
    order are compiled.
    """

    def __init__(
        self, tape: Tape, name: str, captured: Sequence[Tensor] = (), family: Family | None = None
    ):
        self.tape, self.name, self.family = tape, name, family or Family()
        self.captured = list(captured)
        self.in_specs = [Spec(*tape.specs[v]) for v in tape.inputs]
        self.out_specs = [Spec(*tape.specs[v]) for v in tape.outputs]
        self._derived: dict[Any, Program] = {}
        self.timings: dict[str, float] = {}

    def __repr__(self) -> str:
        return self.name

    @functools.cached_property
    def prepared(self) -> tuple[Tape, Any]:
        """The simplified tape and its constants."""
        with self._timed("simplify"):
            tape, constants = prepare(self.tape)
            return flatten(tape, constants), constants

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[name] = time.perf_counter() - start

    @functools.cached_property
    def runner(self) -> Runner:
        """The schedule as a function of arrays."""
        tape, constants = self.prepared
        shared = self.family.shared(self)
        if shared is not None:
            return shared
        with self._timed("schedule"):
            schedule = Schedule(tape, constants)
        self.family.remember((tape, constants))
        with self._timed("emit"):
            return Runner(schedule, self.in_specs, self.out_specs)

    def compile(self) -> Program:
        """Make the machine code now rather than at the first run."""
        self.runner.compile()
        self.timings["machine code"] = self.runner.seconds
        return self

    @property
    def source(self) -> str:
        """The program as loop nests and products over tiles and arrays, in the order in which they run."""
        return report.source(self.runner)

    @property
    def llvm(self) -> str:
        """The emitted LLVM assembly."""
        return self.runner.layout.text

    def explain(self) -> str:
        """Regions, tiles, memory, operations, bytes, the least time they take, and the compile times."""
        self.compile()
        return report.explain(self)

    @functools.cached_property
    def native(self) -> Runner:
        """The schedule without host calls for large matrix products: what Numba code calls."""
        if not any(isinstance(s, Host) for s in self.runner.layout.steps):
            return self.runner
        tape, constants = self.prepared
        schedule = Schedule(tape, constants, native_only=True)
        return Runner(schedule, self.in_specs, self.out_specs)

    def _numba(self, into: bool) -> Any:
        from .numba_door import build

        runner = self.native
        runner.compile()
        for t in self.captured:
            if not t._data.flags.c_contiguous:
                raise ArgumentError(
                    message(
                        f"njit of '{self.name}'",
                        f"a captured tensor of shape {tuple(t.shape)}",
                        f"of strides {t._data.strides} bytes",
                        "C-contiguous",
                        "Capture a contiguous() copy, or pass it as an argument.",
                    )
                )
        return build(runner, self.name, [t._data for t in self.captured], into)

    @functools.cached_property
    def njit(self) -> Any:
        """The program as a Numba function of its flat inputs that returns new arrays (0-d results as numbers).

        Arrays must be C-contiguous and of the recorded dtype (an error when the caller is compiled) and shape
        (ValueError at the call); 0-d inputs are numbers. Captured tensors are read where they are in memory.

        Raises
        ------
        UnsupportedError : an operator without native code.
        """
        return self._numba(False)

    @functools.cached_property
    def njit_into(self) -> Any:
        """As `njit`, but ``(*inputs, *outputs, workspace) -> status``: writes into given arrays, allocates nothing.

        0-d results go to arrays of one element. The status is 0, or ``-1 - i`` where argument i has the wrong
        size (nothing is computed then). Every thread needs a `workspace` of its own.
        """
        return self._numba(True)

    def workspace(self) -> np.ndarray:
        """A workspace for `njit_into` (bytes)."""
        from .numba_door import workspace_bytes
        from .run import aligned

        return aligned(max(workspace_bytes(self.native), 1))

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs for inputs of the recorded shapes and dtypes (copied where they are not contiguous)."""
        ready = [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays]
        return self.runner(ready)

    # -- derived programs ------------------------------------------------------------------------------
    def _derive(self, key: Any, make: Any) -> Program:
        if key not in self._derived:
            fn, specs, name = make()
            with gradients_on():
                tape = trace_flat(fn, specs, name)
            self._derived[key] = Program(tape, name, family=self.family.child(key))
        return self._derived[key]

    def vjp(self, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Program:
        """``(inputs, cotangents that are given) -> cotangents that are needed``."""

        def make() -> tuple:
            wrt = [i for i, n in enumerate(needs) if n]

            def fn(*args: Tensor) -> list[Any]:
                inputs, rest = list(args[: len(needs)]), iter(args[len(needs) :])

                def part(*some: Tensor) -> list[Tensor]:
                    full = list(inputs)
                    for i, x in zip(wrt, some, strict=True):
                        full[i] = x
                    return self.tape.run(full)

                _, pull = flat_vjp(part, [inputs[i] for i in wrt])
                return pull([next(rest) if g else None for g in given])

            cotangents = [s for s, g in zip(self.out_specs, given, strict=True) if g]
            return fn, [*self.in_specs, *cotangents], f"vjp of {self.name}"

        return self._derive(("vjp", needs, given), make)

    def jvp(self, given: tuple[bool, ...]) -> Program:
        """``(inputs, tangents that are given) -> output tangents``."""

        def make() -> tuple:
            def fn(*args: Tensor) -> list[Any]:
                rest = iter(args[len(given) :])
                tangents = [next(rest) if g else None for g in given]
                return flat_jvp(self.tape.call, args[: len(given)], tangents)[1]

            tangents = [s for s, g in zip(self.in_specs, given, strict=True) if g]
            return fn, [*self.in_specs, *tangents], f"jvp of {self.name}"

        return self._derive(("jvp", given), make)

    def vmap(self, dims: tuple[int | None, ...], size: int) -> Program:
        """The program over a batch; outputs have it in front."""

        def make() -> tuple:
            specs = [
                s if d is None else Spec((*s.shape[:d], size, *s.shape[d:]), s.dtype)
                for s, d in zip(self.in_specs, dims, strict=True)
            ]
            return (
                lambda *args: flat_vmap(self.tape.call, args, dims, size),
                specs,
                f"vmap of {self.name}",
            )

        return self._derive(("vmap", dims, size), make)


class CompiledCall(Operator):
    """A call of a compiled program as one operator: every interpreter meets it as a step with compiled derivatives."""

    def __init__(self) -> None:
        super().__init__(
            "compiled_call",
            lambda *arrays, program: tuple(program.run(arrays)),
            nin=None,
            saves=lambda needs, params: tuple(range(len(needs))),
            n_out=lambda params: len(params["program"].out_specs),
            doc="A call of a compiled function.",
        )

    def __call__(self, *args: Any, **params: Any) -> tuple:
        got = super().__call__(*args, **params)
        return got if isinstance(got, tuple) else (got,)


compiled_call = CompiledCall()


@compiled_call.infer
def _(*specs, program):
    return tuple(program.out_specs)


@compiled_call.vjp
def _(g, out, *inputs, needs, program):
    gs = g if isinstance(g, tuple) else (g,)
    given = tuple(
        c is not None and s.dtype.kind in "fc" for c, s in zip(gs, program.out_specs, strict=True)
    )
    needs = tuple(
        bool(n) and s.dtype.kind in "fc" for n, s in zip(needs, program.in_specs, strict=True)
    )
    cotangents = [c for c, k in zip(gs, given, strict=True) if k]
    got = iter(compiled_call(*inputs, *cotangents, program=program.vjp(needs, given)))
    return tuple(next(got) if n else None for n in needs)


@compiled_call.jvp
def _(tangents, out, *inputs, program):
    given = tuple(t is not None for t in tangents)
    present = [t for t in tangents if t is not None]
    return compiled_call(*inputs, *present, program=program.jvp(given))


@compiled_call.batch
def _(dims, *inputs, program):
    size = next(x.shape[d] for x, d in zip(inputs, dims, strict=True) if d is not None)
    out = compiled_call(*inputs, program=program.vmap(tuple(dims), size))
    return out, (0,) * len(out)


def check_pure(tape: Tape, name: str) -> None:
    """Raise where a compiled function would not mean what it means when run by hand.

    Raises
    ------
    ArgumentError : it draws random numbers, or writes an argument in place.
    """
    for ins in tape.instructions:
        if ins.op.startswith("random"):
            raise ArgumentError(
                message(
                    "compile",
                    f"the function '{name}'",
                    "one that draws random numbers",
                    "one whose result depends on its arguments only",
                    "Draw outside and pass the tensor: a compiled draw would repeat itself at every call.",
                )
            )
    for var in tape.writes:
        raise ArgumentError(
            message(
                "compile",
                f"argument {tape.inputs.index(var)} of '{name}'",
                "written in place",
                "arguments that are only read",
                "Write to a clone() and return it.",
            )
        )
