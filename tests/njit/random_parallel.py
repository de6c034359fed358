"""Random programs with prange loops: every iteration writes elements of its own, and to sums."""

from __future__ import annotations

import random

import numpy as np
from random_programs import HEADER, Statements, helper_text

N = 12
SHAPES = {"a": (N,), "b": (N,), "m": (N, 3), "c": (5,)}
REDUCTIONS = ("{s} += {x}", "{s} -= {x}", "{s} = {s} + {x}", "{s} = max({s}, {x} + 0.013 * {i})")
OFFSETS = (-2, -1, -1, 0, 0, 0, 1, 1, 2)


class Parallel(Statements):
    """A function whose statements are prange loops, loops around them, and some serial statements."""

    def __init__(self, rng, helpers, budget, permuted):
        super().__init__(rng, helpers, budget, None)
        self.permuted = permuted  # whether k[i] are all different
        self.counter, self.low, self.high = "", 0, N
        self.forms: dict[str, str] = {}
        self.serial, self.nested = (self.nested, self.looping), []
        self.looping = []

    # -- inside an iteration -----------------------------------------------------------------------------------

    def index(self, size) -> str:
        """Often the iteration's own element, or a neighbour's; negative ones count from the end."""
        r = self.r
        if self.counter and size == N and r.random() < 0.7:
            d = r.choice([d for d in OFFSETS if self.high + d <= N and self.low + d >= -N])
            return f"{self.counter} {'-' if d < 0 else '+'} {abs(d)}" if d else self.counter
        if self.counter and size == N and r.random() < 0.3:
            return f"k[{self.counter}]"
        return super().index(size)

    def jump(self, depth):
        """A prange loop has no ``break``."""
        if self.loops > 1:
            super().jump(depth)
        elif self.counter:
            self.put(f"if {self.condition()}:")
            self.put("    continue")

    # -- prange loops -------------------------------------------------------------------------------------------

    def parallel_loop(self, depth):
        r, outer = self.r, self.scope.copy()
        s = self.scope
        self.low, self.high = r.choice([(0, N), (0, N), (1, N), (0, N - 1), (2, N - 2), (0, 6)])
        high = r.choice(["n", f"{r.choice('ab')}.shape[0]"]) if self.high == N else str(self.high)
        if 6 < self.high < N:
            high = r.choice([f"n - {N - self.high}", high])
        self.counter, start = self.name("i"), len(self.lines) + 1
        i = self.counter
        self.put(f"for {i} in prange({f'{self.low}, ' if self.low else ''}{high}):")
        owned, sums = self.owned_arrays(), self.sums()
        s.frozen.update([*s.floats, *s.ints, *s.complexes, *s.arrays, i])
        s.floats = [n for n in s.floats if n not in sums]
        s.ints.append(i)
        self.indent, self.loops = self.indent + 1, self.loops + 1
        for name in owned:
            self.own(name, i)
        s.arrays = {n: shape for n, shape in s.arrays.items() if n not in owned}
        self.body(sums, start)
        self.indent, self.loops = self.indent - 1, self.loops - 1
        self.counter, self.scope = "", outer

    def owned_arrays(self):
        """Arrays that the loop writes to."""
        names = [n for n, shape in self.scope.arrays.items() if shape[0] in (N, 2 * N)]
        names = self.scope.writable(names)
        return self.r.sample(names, self.r.randint(0, min(2, len(names))))

    def own(self, name, i):
        """Elements, or the row, of this iteration."""
        s, r = self.scope, self.r
        d = r.choice([0, 0, 0, 1, -1, None, "k"])
        text = f"{i} + {d}"
        if name == "w":
            s.floats += [f"w[2 * {i}]", f"w[2 * {i} + 1]"]
            return
        if d is None:
            text = f"n - 1 - {i}"
        elif d == "k":
            text = f"k[{i}]" if self.permuted else i
        elif not d or self.high + d > N or self.low + d < 0:
            text = i
        shape = s.arrays[name]
        if len(shape) > 1:
            row = self.name("u")
            self.put(f"{row} = {name}[{text}]")
            s.arrays[row] = shape[1:]
        else:
            s.floats.append(f"{name}[{text}]")

    def sums(self):
        names = self.scope.writable(n for n in self.scope.floats if n.isidentifier())
        return self.r.sample(names, self.r.randint(0, min(2, len(names))))

    def body(self, sums, start):
        """Statements of an iteration, with contributions to the sums among them."""
        r = self.r
        left, self.budget = self.budget, r.randint(2, 7)
        self.nested, self.looping = self.serial
        self.looping = [*self.looping, (self.inner, 4)]
        self.forms = {s: r.choice(REDUCTIONS) for s in sums}
        if r.random() < 0.15:
            self.forms["e"] = "e += 0.1 * {e}"
        while self.budget > 0:
            self.statement(2)
        for s in self.forms:
            self.contribute(s)
        if len(self.lines) == start:
            self.put("pass")
        self.forms = {}
        self.budget = left - 3
        self.nested, self.looping = [], []

    def inner(self, depth):
        """A prange loop in an iteration, which is serial."""
        rows = [n for n in self.scope.writable(self.scope.arrays) if self.scope.arrays[n] == (3,)]
        if rows and self.counter:
            j = self.name("j")
            self.put(f"for {j} in prange(3):")
            self.put(f"    {self.r.choice(rows)}[{j}] = {self.real(1)} + 0.1 * {j}")

    def statement(self, depth):
        if self.forms and self.r.random() < 0.15:
            self.contribute(self.r.choice(list(self.forms)))
        super().statement(depth)

    def contribute(self, s):
        """Add to a sum, perhaps under a condition."""
        e = self.array((5,), 1) if s == "e" else ""
        line = self.forms[s].format(s=s, x=self.real(1), e=e, i=self.counter)
        if self.r.random() < 0.3:
            self.put(f"if {self.condition()}:")
            line = "    " + line
        self.put(line)

    def viewed(self, name, origin):
        """Outside the loops, what has two names is not written to any more."""
        if not self.counter:
            self.scope.frozen |= {name, origin}
        super().viewed(name, origin)

    # -- around ---------------------------------------------------------------------------------------------------

    def steps(self, depth):
        """A loop in time: prange loops, arrays swapped."""
        r, outer = self.r, self.scope.copy()
        i = self.name("i")
        self.put(f"for {i} in range({r.choice(['2', '3', 'n % 5'])}):")
        self.scope.ints.append(i)
        self.scope.frozen.add(i)
        self.indent += 1
        if r.random() < 0.3:
            self.put(f"w{i} = np.{r.choice(['empty', 'zeros'])}_like(a)")
            self.put(f"w{i}[:] = b")
            self.scope.arrays[f"w{i}"] = (N,)
        for _ in range(r.randint(1, 2)):
            self.parallel_loop(1)
        if r.random() < 0.6:
            p, q = r.choice([("a", "b"), ("m", "v"), ("a", "o")])
            if not self.scope.frozen & {p, q}:
                self.put(f"{p}, {q} = {q}, {p}")
        self.indent -= 1
        self.scope = outer

    def function(self) -> list[str]:
        r, s = self.r, self.scope
        s.floats, s.ints, s.frozen = ["x", "y"], ["n"], {"n", "c"}
        s.arrays = dict(SHAPES)
        self.put(r.choice(["o = np.linspace(0.0, 0.9, n)", "o = a * b"]))
        self.put(
            r.choice(
                ["v = np.linspace(-0.5, 0.9, 3 * n).reshape(n, 3)", "v = m.copy()", "v = 0.3 * m"]
            )
        )
        self.put("w = np.linspace(-1.0, 1.0, 2 * n)")
        self.put("e = np.zeros(5)")
        self.put("s = 0.0")
        s.arrays |= {"o": (N,), "v": (N, 3), "w": (2 * N,)}
        s.floats.append("s")
        while self.budget > 0:
            if r.random() < 0.2:
                self.statement(0)
            elif r.random() < 0.2:
                self.steps(1)
            else:
                self.parallel_loop(1)
        self.put("for q in range(n):")
        self.put("    s += (a[q] - o[q]) * (q + 1) * 0.3 + b[q] * b[q] * 0.5 + m[q, 1] * v[q, 2]")
        self.put("s += (e * c).sum() + (w * w).sum()")
        self.put(f"return s + {self.real(1)}")
        return self.lines


def text_of(seed: int) -> str:
    """The module of a seed: helpers and the function ``f(a, b, m, c, k, x, y, n)``."""
    rng = random.Random(seed)
    out, helpers = HEADER.replace("import njit", "import njit, prange"), {}
    for i in range(rng.randint(0, 2)):
        kind = rng.choice(["float", "pair", "number", "array", "both"])
        out += helper_text(rng, f"h{i}", kind, dict(helpers), pure=True)
        helpers[f"h{i}"] = kind
    lines = Parallel(rng, helpers, rng.randint(3, 10), seed % 2 == 1).function()
    out += "@njit(parallel=True)\ndef f(a, b, m, c, k, x, y, n):\n"
    return out + "\n".join(lines) + "\n"


def arguments(seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    x, y = (float(v) for v in rng.standard_normal(2))
    k = rng.permutation(N) if seed % 2 else rng.integers(0, N, N)
    return (*(rng.standard_normal(s) for s in SHAPES.values()), k, x, y, N)


def argnums_of(seed: int) -> tuple[int, ...]:
    """Often all that can be differentiated, else a part."""
    rng = random.Random(seed + 1)
    everything = (0, 1, 2, 3, 5, 6)
    if rng.random() < 0.6:
        return everything
    return tuple(sorted(rng.sample(everything, rng.randint(1, 4))))
