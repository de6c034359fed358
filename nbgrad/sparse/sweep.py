"""The compressed sweeps: programs that are traced once and run at every point.

A forward program maps the inputs and k tangent seeds to the outputs and k products ``J s``; a reverse program maps
them and k cotangent seeds to the outputs and k products ``J^T s``. Seeds are sums of unit vectors of one colour.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes as dt
from ..device import beside
from ..func.flat import flat_jvp, flat_vjp, flat_vmap
from ..op import Spec, cast
from ..op.public import PUBLIC
from ..ops.join import cat
from ..tape.program import Tape
from ..tape.record import trace_flat
from ..tensor import Tensor
from .coloring import count
from .compress import Compression

# bytes that one chunk of seeds may keep alive
MEMORY = 1 << 29


class Problem(NamedTuple):
    """The traced function, which of its inputs vary, and the sizes of its Jacobian."""

    tape: Tape
    wrt: tuple[int, ...]

    def in_specs(self) -> list[Spec]:
        """All inputs."""
        return [self.tape.specs[v] for v in self.tape.inputs]

    def columns(self) -> list[Spec]:
        """The varying inputs."""
        specs = self.in_specs()
        return [specs[i] for i in self.wrt]

    def rows(self) -> list[Spec]:
        """The outputs."""
        return [self.tape.specs[v] for v in self.tape.outputs]

    def shape(self) -> tuple[int, int]:
        """Shape of the Jacobian."""
        return size(self.rows()), size(self.columns())


def size(specs: Sequence[Spec]) -> int:
    """Elements of all leaves."""
    return sum(math.prod(s.shape) for s in specs)


def memory(tape: Tape) -> tuple[int, int]:
    """Bytes of all variables, and of those alive at once when each is freed after its last use."""
    sizes = {v: math.prod(s.shape) * s.dtype.itemsize for v, s in tape.specs.items()}
    alive = peak = sum(sizes[v] for v in tape.inputs)
    last = tape._last_uses()
    for position, ins in enumerate(tape.instructions):
        alive += sum(sizes[v] for v in ins.outputs)
        peak = max(peak, alive)
        alive -= sum(sizes[v] for v in last.get(position, ()))
    return sum(sizes.values()), peak


INTERPRETED = 2  # runs before a sweep is worth compiling (some 0.1 s)
_runs: weakref.WeakKeyDictionary[Tape, int] = weakref.WeakKeyDictionary()
_compiled: weakref.WeakKeyDictionary[Tape, Any] = weakref.WeakKeyDictionary()


def execute(program: Tape, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Run a traced sweep: the first times as `Tape.run`, then as machine code."""
    count = _runs[program] = _runs.get(program, 0) + 1
    if count <= INTERPRETED:
        return program.run(inputs)
    if program not in _compiled:
        from ..compiler.tapes import CompiledTape

        _compiled[program] = CompiledTape(program, "sparse_jacobian")
    return _compiled[program].run(program.checked(inputs))


def forward_program(problem: Problem, k: int) -> Tape:
    """``(inputs..., seeds...) -> (outputs..., products of shape (k, rows))``."""

    def push(xs: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[Tensor]:
        tangents: list[Any] = [None] * len(xs)
        for i, s in zip(problem.wrt, seeds, strict=True):
            tangents[i] = s
        outs, dots = flat_jvp(problem.tape.call, xs, tangents)
        return [*outs, *dots]

    return _program(problem, k, push, problem.columns(), len(problem.tape.outputs))


def reverse_program(problem: Problem, k: int) -> Tape:
    """``(inputs..., seeds...) -> (outputs..., products of shape (k, columns))``.

    A pullback gives conjugate transposed products, so that complex results are conjugated back.
    """

    def pull(xs: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[Tensor]:
        moving = [xs[i] for i in problem.wrt]

        def moved(*leaves: Tensor) -> list[Tensor]:
            full = list(xs)
            for i, leaf in zip(problem.wrt, leaves, strict=True):
                full[i] = leaf
            return problem.tape.call(*full)

        outs, pullback = flat_vjp(moved, moving)
        return [*outs, *(PUBLIC["conj"](g) if g.dtype.kind == "c" else g for g in pullback(seeds))]

    return _program(problem, k, pull, problem.rows(), len(problem.wrt))


def _program(
    problem: Problem, k: int, sweep: Callable, seeded: Sequence[Spec], n_products: int
) -> Tape:
    """Trace ``sweep(inputs, seeds) -> (outputs..., products...)`` over a batch of k seeds."""
    inputs = problem.in_specs()
    n, n_outs = len(inputs), len(problem.tape.outputs)
    batched = [Spec((k, *s.shape), s.dtype) for s in seeded]

    def fn(*args: Tensor) -> list[Any]:
        got = flat_vmap(
            lambda *seeds: sweep(args[:n], seeds),
            args[n:],
            [0] * len(batched),
            k,
            [None] * n_outs + [0] * n_products,
        )
        parts = [p.reshape((k, math.prod(p.shape[1:]))) for p in got[n_outs:]]
        return [*got[:n_outs], parts[0] if len(parts) == 1 else cat(parts, 1)]

    program = trace_flat(fn, [*inputs, *batched], "sparse_jacobian").simplify()
    program.environment = list(problem.tape.environment)
    return program


class Direction(NamedTuple):
    """Sweeps of one mode: the program for a chunk of colours, the colours of what is seeded, the products' length."""

    program: Tape
    chunks: list[range]
    colors: np.ndarray
    seeded: list[Spec]
    length: int


class Sweeps:
    """All sweeps of a compression, in chunks of seeds bounded by memory."""

    def __init__(self, problem: Problem, compression: Compression):
        self.problem = problem
        self.directions: list[Direction] = []
        rows, columns = problem.rows(), problem.columns()
        held, peak = memory(problem.tape)
        if compression.forward:  # values, tangents and their terms
            self._add(forward_program, compression.columns, columns, size(rows), 3 * peak)
        if compression.reverse:
            self._add(reverse_program, compression.rows, rows, size(columns), held)

    def _add(
        self, make: Callable, colors: np.ndarray, seeded: list[Spec], length: int, weight: int
    ) -> None:
        """Chunks of one size, so that one program serves; the last may be filled up with zero seeds."""
        most = max(1, MEMORY // max(weight, 1))
        n = count(colors)
        chunks = -(-n // most)
        k = -(-n // chunks)
        ranges = [range(i * k, (i + 1) * k) for i in range(chunks)]
        self.directions.append(Direction(make(self.problem, k), ranges, colors, seeded, length))

    def run(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], Tensor | None]:
        """The outputs of the function, and the compressed results of all sweeps, flat (None: there are none)."""
        outs: Any = None
        parts: list[Tensor] = []
        like = inputs[self.problem.wrt[0]] if self.problem.wrt else None
        for d in self.directions:
            left = count(d.colors) * d.length
            for chunk in d.chunks:
                seeds = [beside(like, s) for s in _seeds(d.colors, d.seeded, chunk)]
                *outs, product = execute(d.program, [*inputs, *seeds])
                here = min(left, len(chunk) * d.length)
                parts.append(product.reshape((len(chunk) * d.length,)).narrow(0, 0, here))
                left -= here
        if outs is None:
            outs = execute(self.problem.tape, inputs)
        return outs, _joined(parts)


def _joined(parts: Sequence[Tensor]) -> Tensor | None:
    if not parts:
        return None
    dtype = parts[0].dtype
    for p in parts[1:]:
        dtype = dt.promote(dtype, p.dtype)
    return cast(parts[0], dtype) if len(parts) == 1 else cat([cast(p, dtype) for p in parts], 0)


def _seeds(colors: np.ndarray, specs: Sequence[Spec], chunk: range) -> list[Tensor]:
    """The sums of unit vectors of the chunk's colours, leaf by leaf."""
    seeds, start = [], 0
    wanted = np.asarray(chunk)[:, None]
    for s in specs:
        n = math.prod(s.shape)
        mine = colors[None, start : start + n] == wanted
        seeds.append(Tensor(mine.astype(s.dtype).reshape((len(chunk), *s.shape))))
        start += n
    return seeds
