"""Random CUDA kernels in which every thread works by itself, each with a serial twin: the same text in a loop.

Threads write elements of their own (``o``, rows of ``q``, and ``b`` in place), read any element of ``a``, ``m`` and ``c``,
and add atomically to ``e``.
"""

from __future__ import annotations

import random
import types

import numpy as np
from random_expressions import Expressions
from random_statements import Statements

N = 8
ARGUMENTS = ("a", "b", "m", "c", "k", "x", "y", "n", "o", "q", "e")
SHAPES = {"a": (N,), "b": (N,), "m": (N, 3), "c": (5,), "o": (N,), "q": (N, 3), "e": (4,)}
WRITTEN = ("b", "o", "q", "e")
DIFFERENTIATED = (0, 1, 2, 3, 5, 6, 8, 9, 10)
HEADER = "import math\n\nimport numpy as np\n{imports}\n\n\n"


class Kernel(Statements):
    """Statements of one thread; there are no array expressions."""

    functions = ("math.sin", "math.cos", "math.tanh", "math.atan")

    def __init__(self, rng, helpers, budget, jumps, plane=False):
        super().__init__(rng, helpers, budget, None)
        self.jumps, self.plane = jumps, plane
        self.kinds = [
            (self.assign_float, 20), (self.augment_float, 12), (self.assign_item, 14),
            (self.assign_integer, 4), (self.unpack, 4), (self.local_array, 4), (self.atomic, 8),
        ]  # fmt: skip
        self.nested = [(self.branch, 12)]
        self.looping = [(self.for_loop, 12), (self.while_loop, 4), (self.sizes_loop, 4)]

    special = Expressions.special

    def smooth(self, x, y):
        f = self.r.choice(
            ["sinh", "erf", "erfc", "expm1", "log1p", "acosh", "asinh", "acos", "lgamma", "gamma"]
        )
        shift = {"log1p": 1.0, "acosh": 1.3, "lgamma": 1.1, "gamma": 1.1}.get(f, 0.0)
        x = f"math.tanh({x})" + (f" ** 2 + {shift}" if shift else " * 0.9")
        choices = [super().smooth(x, y), f"math.{f}({x})", f"math.pow(1.5 + {x}, {y})"]
        return self.r.choice([*choices, f"math.copysign({x}, {y})", f"math.floor({x} * 3.0) * {y}"])

    def derived(self) -> str:
        return f"int({self.leaf()} * 3.0)"

    def index(self, size) -> str:
        r = self.r
        if size == N and r.random() < 0.6:
            return r.choice(["i", "i", "i", "(i + 1) % n", "i - 1", "k[i]", "n - 1 - i"])
        if size == 3 and self.plane and r.random() < 0.6:
            return r.choice(["r", "r - 1", "2 - r"])
        return super().index(size)

    def local_array(self, depth):
        name = self.name("t")
        size = self.r.randint(2, 4)
        if self.r.random() < 0.3:
            self.put(f"{name} = cuda.local.array(({size}, 2), np.float64)")
            self.put(f"for j in range({size}):")
            self.put(f"    {name}[j, 0] = {self.real(1)}")
            self.put(f"    {name}[j, 1] = {self.leaf()} * j")
            self.scope.arrays[name] = (size, 2)
            return
        self.put(f"{name} = cuda.local.array({size}, np.float64)")
        self.put(f"for j in range({size}):")
        self.put(f"    {name}[j] = {self.real(1)} + 0.1 * j")
        self.scope.arrays[name] = (size,)

    def atomic(self, depth):
        """A sum over threads, often in a place that depends on the thread."""
        self.put(f"cuda.atomic.add(e, ({self.integer()}) % 4, {self.real(1)})")

    def sizes_loop(self, depth):
        """A loop whose length the launch knows, or the thread."""
        j = self.name("j")
        self.put(f"for {j} in range({self.r.choice(['c.shape[0]', 'i', 'n - i', 'k[i] % 4'])}):")
        self.loop_block(depth, [j])

    def jump(self, depth):
        if self.loops:
            super().jump(depth)
        elif self.jumps and self.r.random() < 0.5:
            self.put(f"if {self.condition()}:")
            self.put(f"    {self.jumps}")

    def otherwise(self, depth):
        pass

    def thread(self, indent: int) -> list[str]:
        r, s = self.r, self.scope
        self.indent = indent
        s.floats = ["x", "y", "o[i]", "b[i]", *(f"q[i, {j}]" for j in range(3))]
        s.ints = ["i", "n"]
        if self.plane:
            s.floats, s.ints = ["x", "y", "q[i, r]", "q[i, r]"], ["i", "n", "r"]
        s.arrays = {"a": (N,), "m": (N, 3), "c": (5,)}
        s.frozen = {"a", "m", "c", "i", "n", "r", "x", "y"}
        while self.budget > 0:
            self.statement(3)
        if r.random() < 0.5:
            self.put(f"{'q[i, r]' if self.plane else 'o[i]'} = {self.real(1)}")
        if not self.lines:
            self.put("pass")
        return self.lines


def helper_text(rng, name, kind):
    """A function of two numbers."""
    g = Kernel(rng, {}, rng.randint(1, 4), None)
    g.kinds = [(g.assign_float, 2), (g.augment_float, 1)]
    g.looping = [(g.for_loop, 1)]
    g.scope.floats = ["p", "q"]
    while g.budget > 0:
        g.statement(1)
    g.put(f"return {g.real(1)}" if kind == "float" else f"return {g.real(1)}, {g.leaf()}")
    return f"def {name}(p, q=0.4):\n" + "\n".join(g.lines) + "\n\n\n"


def text_of(seed: int) -> tuple[str, str]:
    """The texts of the modules with ``kernel`` and with its serial twin ``f``."""
    rng = random.Random(seed)
    kinds = [rng.choice(["float", "pair"]) for _ in range(rng.randint(0, 2))]
    names = {f"h{i}": kind for i, kind in enumerate(kinds)}
    helpers = [helper_text(rng, name, kind) for name, kind in names.items()]
    form = rng.choice(["guard", "leave", "stride", "computed", "plane"])
    jumps = "continue" if form == "stride" else "return"
    lines = Kernel(rng, names, rng.randint(3, 14), jumps, form == "plane").thread(2)
    given = ", ".join(ARGUMENTS)
    where = "i, r" if form == "plane" else "i"
    serial = [f"def thread({where}, {given}):", *(line[4:] for line in lines), "", ""]
    if form == "stride":
        serial = []
    serial += [f"def f({given}):", "    for i in range(n):"]
    if form == "stride":
        serial += lines
    elif form == "plane":
        serial += ["        for r in range(3):", f"            thread(i, r, {given})"]
    else:
        serial += [f"        thread(i, {given})"]
    serial += ["    return b, o, q, e"]
    head = {
        "guard": ["    i = cuda.grid(1)", "    if i < n:"],
        "leave": ["    i = cuda.grid(1)", "    if i >= n:", "        return"],
        "stride": ["    for i in range(cuda.grid(1), n, cuda.gridsize(1)):"],
        "computed": [
            "    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x",
            "    if i < n:",
        ],
        "plane": ["    i, r = cuda.grid(2)", "    if i < n and r < 3:"],
    }[form]
    if form == "leave":
        lines = [line[4:] for line in lines]
    kernel = ["@cuda.jit", f"def kernel({given}):", *head, *lines]
    device = "".join(f"@cuda.jit(device=True)\n{h}" for h in helpers)
    return (
        HEADER.format(imports="from numba import cuda") + device + "\n".join(kernel) + "\n",
        HEADER.format(imports="") + "".join(helpers) + "\n".join(serial) + "\n",
    )


def add(array, index, value):
    array[index] += value


def local(shape, dtype):
    return np.zeros(shape, object)


SERIAL_CUDA = types.SimpleNamespace(
    atomic=types.SimpleNamespace(add=add), local=types.SimpleNamespace(array=local)
)


def arguments(seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    x, y = (float(v) for v in rng.standard_normal(2))
    drawn = {name: rng.standard_normal(s) for name, s in SHAPES.items()}
    drawn |= {"k": rng.integers(0, N, N), "x": x, "y": y, "n": N}
    return tuple(drawn[name] for name in ARGUMENTS)


def argnums_of(seed: int) -> tuple[int, ...]:
    """What is written, and often all else that can be differentiated."""
    rng = random.Random(seed + 1)
    written = {ARGUMENTS.index(name) for name in WRITTEN}
    others = [k for k in DIFFERENTIATED if k not in written]
    if rng.random() < 0.4:
        others = rng.sample(others, rng.randint(1, len(others)))
    return tuple(sorted(written.union(others)))


def launch_of(seed: int) -> tuple:
    """Blocks, and threads in a block: as many as elements, or more; fewer, where the loop is strided."""
    text = text_of(seed)[0]
    if "cuda.grid(2)" in text:
        return (((2, 1), (4, 3)), ((4, 2), (3, 2)), ((1, 3), (8, 2)))[seed % 3]
    if "gridsize" in text:
        return ((1, 4), (1, 3), (2, 8))[seed % 3]
    return ((2, 4), (1, 8), (3, 4))[seed % 3]


def cotangents_of(seed: int) -> tuple:
    """Those of what is written."""
    rng = np.random.default_rng(seed + 2)
    return tuple(rng.standard_normal(SHAPES[name]) for name in WRITTEN)
