"""Adjoints of random kernels: in the simulator, and thread after thread in a random order with every access watched.

``NBGRAD_FUZZ=N`` runs N kernels. ``NUMBA_ENABLE_CUDASIM=1 python tests/njit/sim/sim_random.py SEED`` checks one and prints it.
"""

import collections
import os
import random
import sys
import types
import warnings
from pathlib import Path

import numpy as np
from numba import cuda

sys.path.append(str(Path(__file__).parent.parent))

import oracle
import random_kernels as kernels
from parallel_mode import WATCH, watched
from random_programs import loaded

import nbgrad as ng
from kernels_cuda import _compat
from nbgrad.errors import NbgradError

assert _compat.simulated(), "run through tests/njit/test_cuda_random.py"

PROGRAMS = int(os.environ.get("NBGRAD_FUZZ", "0")) or 100
TAPE = 300


def outcome(text: str, twin: str, seed: int) -> str:
    """What became of a kernel: ``right``, ``rejected: ...``, ``skipped: ...`` or ``wrong: ...``."""
    try:
        return check(text, twin, seed)
    except NbgradError as error:
        return f"rejected: {error}"
    except Exception as error:
        return f"wrong: {type(error).__name__}: {error}"


def check(text: str, twin: str, seed: int) -> str:
    args, argnums = kernels.arguments(seed), kernels.argnums_of(seed)
    f = loaded(twin, cuda=kernels.SERIAL_CUDA)["f"]
    with np.errstate(all="ignore"):
        _, want = oracle.value_and_vjp(f, args, kernels.cotangents_of(seed), argnums)
    flat = [n for part in want for n in oracle.items_of(part)]
    if oracle.INCIDENTS or not np.isfinite(flat).all() or max(map(abs, flat)) > 1e6:
        return "skipped: a kink, or large"
    adjoint = ng.njit.cuda.vjp(loaded(text, cuda=cuda)["kernel"], argnums, tape=TAPE)
    for run in (simulated, thread_by_thread):
        with warnings.catch_warnings():  # of the simulator's threads as well
            warnings.simplefilter("ignore", RuntimeWarning)
            got = run(adjoint, seed, args, argnums)
        for k, g, w in zip(argnums, got, want, strict=True):
            scale = max(1.0, float(np.max(np.abs(w))))
            np.testing.assert_allclose(
                g, np.broadcast_to(w, g.shape), rtol=1e-9, atol=1e-9 * scale, err_msg=f"{run} {k}"
            )
    return "right"


def shadows(seed, argnums):
    """Cotangents of what is written, zeros for the others."""
    given = dict(zip(kernels.WRITTEN, kernels.cotangents_of(seed), strict=True))
    names = [kernels.ARGUMENTS[k] for k in argnums]
    return [given.get(n, np.zeros(kernels.SHAPES.get(n, 1))).copy() for n in names]


def copies(args):
    return [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]


def simulated(adjoint, seed, args, argnums):
    got = shadows(seed, argnums)
    adjoint[kernels.launch_of(seed)](*copies(args), *got)
    return got


# -- thread after thread ---------------------------------------------------------------------------------------------


class Position:
    """``numba.cuda`` for one thread of a launch."""

    def __init__(self, blocks, width):
        one = types.SimpleNamespace
        self.gridDim, self.blockDim = (
            one(**dict(zip("xyz", blocks))),
            one(**dict(zip("xyz", width))),
        )
        self.local, self.atomic = one(array=self.array), one(add=self.add, max=None)
        self.threads = [
            (one(x=bx, y=by, z=0), one(x=tx, y=ty, z=0))
            for bx, by in np.ndindex(*blocks[:2])
            for tx, ty in np.ndindex(*width[:2])
        ]

    def enter(self, number):
        """Be one of the threads."""
        self.blockIdx, self.threadIdx = self.threads[number]

    def grid(self, dimensions):
        assert dimensions == 1
        return self.blockIdx.x * self.blockDim.x + self.threadIdx.x

    def gridsize(self, dimensions):
        return self.blockDim.x * self.gridDim.x

    @staticmethod
    def array(shape, dtype):
        return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 77, dtype)

    @staticmethod
    def add(array, index, value):
        array.note("summed", index)
        np.ndarray.__setitem__(array, index, np.ndarray.__getitem__(array, index) + value)


def thread_by_thread(adjoint, seed, args, argnums):
    blocks, width = (
        ((x, 1, 1) if isinstance(x, int) else (*x, 1)) for x in kernels.launch_of(seed)
    )
    kinds = [ng.njit.cuda.kind_of(a) for a in args]
    program = adjoint.program(kinds, "xy" if blocks[1] * width[1] > 1 else "x")
    position, given = Position(blocks, width), [watched(a) for a in copies(args)]
    got = [watched(s) for s in shadows(seed, argnums)]
    order = list(range(len(position.threads)))
    buffers = [np.full((TAPE, len(order)), np.nan, b.dtype.name) for b in program.kernel.buffers]
    last = [TAPE, np.zeros(1, np.int64)] if program.kernel.bounded else []
    space = {k: getattr(v, "fn", v) for k, v in program.function.__globals__.items()}
    space["cuda"] = position
    exec(compile(program.kernel.text, "<kernel>", "exec"), space)
    random.Random(seed).shuffle(order)
    WATCH.__init__(seed)
    for number in order:
        WATCH.iteration = number
        position.enter(number)
        with np.errstate(all="ignore"):
            space[program.kernel.name](*given, *got, *map(watched, buffers), *last)
    WATCH.iteration = None
    return [np.asarray(g) for g in got]


def test_random_kernels():
    counts, wrong = collections.Counter(), []
    for seed in range(PROGRAMS):
        result = outcome(*kernels.text_of(seed), seed)
        counts[result.split(":")[0]] += 1
        if result.startswith("wrong"):
            wrong.append(f"seed {seed}: {result}\n{kernels.text_of(seed)[0]}")
    assert not wrong, f"{len(wrong)} of {PROGRAMS}\n" + "\n".join(wrong[:2])
    assert counts["rejected"] <= 0.05 * PROGRAMS, counts
    assert counts["skipped"] <= 0.15 * PROGRAMS, counts


if __name__ == "__main__":
    for part in (
        *kernels.text_of(int(sys.argv[1])),
        outcome(*kernels.text_of(int(sys.argv[1])), int(sys.argv[1])),
    ):
        print(part)
