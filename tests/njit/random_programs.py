"""Random programs of the language, each from a seed, as text.

Values stay moderate (products are damped, assignments often go through tanh), integers are reduced by ``%``, and a
variable is only read where it is assigned; so almost every program runs, and compiles, as it is.
"""

from __future__ import annotations

import linecache
import random
import zlib

import numba
import numpy as np
from random_expressions import Expressions

HEADER = "import math\n\nimport numpy as np\nfrom numba import njit\n\n\n"
SHAPES = {"a": (6,), "b": (6,), "m": (3, 4)}


class Generator(Expressions):
    """Statements, blocks, and the whole function."""

    def __init__(self, rng, helpers, budget, returns):
        super().__init__(rng, helpers)
        self.lines: list[str] = []
        self.indent, self.loops, self.budget, self.returns = 1, 0, budget, returns

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def damped(self) -> str:
        return f"math.tanh({self.real()}) * 1.3" if self.r.random() < 0.5 else self.real()

    def statement(self, depth: int) -> None:
        self.budget -= 1
        kinds = [
            (self.assign_float, 20),
            (self.augment_float, 10),
            (self.assign_item, 18),
            (self.assign_integer, 4),
            (self.assign_slice, 8),
            (self.new_array, 12),
            (self.assign_complex, 6),
            (self.unpack, 5),
            (self.call_helper, 6),
            (self.jump, 14 if self.loops else 4),
        ]
        if depth > 0:
            kinds += [(self.branch, 12), (self.chosen, 3)]
            if self.loops < 3:
                kinds += [(self.for_loop, 14), (self.while_loop, 4), (self.iterate, 3)]
        functions, weights = zip(*kinds)
        self.r.choices(functions, weights)[0](depth)

    def assign_float(self, depth):
        s = self.scope
        if s.floats and self.r.random() < 0.6:
            self.put(f"{self.r.choice(s.floats)} = {self.damped()}")
        else:
            name = self.name("v")
            self.put(f"{name} = {self.damped()}")
            s.floats.append(name)

    def augment_float(self, depth):
        if self.scope.floats:
            operation = self.r.choice(["+=", "-=", "*="])
            self.put(f"{self.r.choice(self.scope.floats)} {operation} {self.real(1)}")

    def assign_item(self, depth):
        if self.scope.arrays:
            operation = self.r.choice(["=", "=", "+=", "-=", "*="])
            value = f"math.tanh({self.real()})" if operation != "+=" else self.real(1)
            self.put(f"{self.item()} {operation} {value}")

    def assign_integer(self, depth):
        mine = [i for i in self.scope.ints if i not in self.scope.frozen]
        if mine and self.r.random() < 0.6:
            self.put(f"{self.r.choice(mine)} = ({self.integer()}) % 5")
        else:
            name = self.name("k")
            self.put(f"{name} = ({self.integer()}) % 5")
            self.scope.ints.append(name)

    def part(self):
        """A part of an array and its shape."""
        r = self.r
        name = r.choice(list(self.scope.arrays))
        shape = self.scope.arrays[name]
        n = shape[0]
        if not isinstance(n, int):
            return f"{name}[:]", shape
        if n < 3:
            return f"{name}[::-1]", shape
        if len(shape) == 1:
            start, stop, step = r.randint(0, n - 3), r.randint(n - 2, n), r.choice([1, 1, 2, -1])
            if step < 0:
                return f"{name}[{n - 1}:{start}:-1]", (n - 1 - start,)
            return f"{name}[{start}:{stop}:{step}]", (len(range(start, stop, step)),)
        i = r.randint(0, shape[1] - 1)
        return r.choice(
            [
                (f"{name}[{self.index(n)}]", shape[1:]),
                (f"{name}[:, {i}]", shape[:1]),
                (f"{name}[1:, :{i + 1}]", (n - 1, i + 1)),
                (f"{name}[::-1]", shape),
            ]
        )

    def assign_slice(self, depth):
        if not self.scope.arrays:
            return
        target, shape = self.part()
        operation = self.r.choice(["=", "+=", "*="])
        value = self.array(shape, 1) if self.r.random() < 0.7 else self.real(1)
        if operation == "+=" and self.r.random() < 0.5:
            value = f"0.3 * {value}"
        self.put(f"{target} {operation} {value}")

    def new_array(self, depth):
        r, s = self.r, self.scope
        if not s.arrays:
            return
        name, (view, part_shape) = self.name("u"), self.part()
        base = r.choice(list(s.arrays))
        shape = s.arrays[base]
        sizes = f"({', '.join(map(str, shape))},)"
        choices = self.reshaped(base, shape)
        value, shape = r.choice(
            [
                *choices,
                (view, part_shape),
                (f"{base}.copy()", shape),
                (f"np.zeros({sizes})", shape),
                (f"np.full({sizes}, {self.real(1)})", shape),
                (f"np.ones_like({base}) * {self.real(1)}", shape),
                (f"1.0 * {self.array(shape)}", shape),
            ]
        )
        if all(n != 0 for n in shape):
            self.put(f"{name} = {value}")
            s.arrays[name] = shape

    def reshaped(self, base, shape):
        """Views and copies of another shape."""
        if shape == (6,):
            return [(f"{base}.copy().reshape(2, 3)", (2, 3))]
        if len(shape) == 2:
            size = shape[0] * shape[1]
            return [(f"{base}.T", shape[::-1])] * 2 + [(f"{base}.copy().ravel()", (size,))]
        return []

    def assign_complex(self, depth):
        s = self.scope
        if s.complexes and self.r.random() < 0.5:
            self.put(f"{self.r.choice(s.complexes)} = {self.complex()}")
        else:
            name = self.name("z")
            self.put(f"{name} = {self.complex()} + 0j")
            s.complexes.append(name)

    def unpack(self, depth):
        r, s = self.r, self.scope
        pairs = [(p, q) for p in s.arrays for q in s.arrays if p < q and s.arrays[p] == s.arrays[q]]
        if pairs and r.random() < 0.4:
            p, q = r.choice(pairs)
            self.put(f"{p}, {q} = {q}, {p}")
        elif len(s.floats) > 1:
            p, q = r.sample(s.floats, 2)
            if "pair" in self.helpers.values() and r.random() < 0.5:
                self.put(f"{p}, {q} = {self.helper('pair')}({q}, {self.real(1)})")
            else:
                self.put(f"{p}, {q} = {q}, {self.damped()}")

    def call_helper(self, depth):
        r, s = self.r, self.scope
        vectors = [n for n, shape in s.arrays.items() if len(shape) == 1]
        kinds = set(self.helpers.values())
        if not vectors:
            return
        v = r.choice(vectors)
        if "write" in kinds and r.random() < 0.6:
            self.put(f"{self.helper('write')}({v}, {self.real(1)})")
        elif "array" in kinds:
            name = self.name("u")
            self.put(f"{name} = {self.helper('array')}({v}, {self.real(1)})")
            s.arrays[name] = s.arrays[v]

    def jump(self, depth):
        r = self.r
        if self.loops and r.random() < 0.65:
            self.put(f"if {self.condition()}:")
            self.put(f"    {r.choice(['break', 'continue'])}")
        elif self.returns and r.random() < 0.6:
            self.put(f"if {self.condition()}:")
            self.put(f"    return {self.returns(self)}")

    def branch(self, depth):
        self.put(f"if {self.condition()}:")
        self.block(depth - 1)
        if self.r.random() < 0.25:
            self.put(f"elif {self.condition()}:")
            self.block(depth - 1)
        if self.r.random() < 0.6:
            self.put("else:")
            self.block(depth - 1)

    def chosen(self, depth):
        """A variable that two branches assign."""
        if not self.scope.arrays:
            return
        name, base = self.name("w"), self.r.choice(list(self.scope.arrays))
        shape = self.scope.arrays[base]
        others = [n for n, s in self.scope.arrays.items() if s == shape]
        second = self.r.choice([self.r.choice(others), f"1.0 * {self.array(shape, 1)}"])
        self.put(f"if {self.condition()}:")
        self.put(f"    {name} = {base}")
        self.put("else:")
        self.put(f"    {name} = {second}")
        self.scope.arrays[name] = shape

    def for_loop(self, depth):
        i, c = self.name("i"), self.integer()
        ranges = [
            "3",
            "4",
            "1, 4",
            "3, -1, -1",
            "0, 6, 2",
            "5, 0, -2",
            f"({c}) % 4",
            f"1, 2 + ({c}) % 3",
        ]
        self.put(f"for {i} in range({self.r.choice(ranges)}):")
        self.loop_block(depth, i)

    def while_loop(self, depth):
        i = self.name("i")
        self.put(f"{i} = 0")
        extra = f" and {self.r.choice(self.scope.floats)} < 4.0" if self.scope.floats else ""
        self.put(f"while {i} < {self.r.randint(2, 4)}{extra}:")
        self.put(f"    {i} += 1")
        self.loop_block(depth, i)

    def iterate(self, depth):
        vectors = [n for n, shape in self.scope.arrays.items() if len(shape) == 1]
        if vectors:
            i, v = self.name("i"), self.name("v")
            self.put(f"for {i}, {v} in enumerate({self.r.choice(vectors)}):")
            self.loop_block(depth, i, v)

    def loop_block(self, depth, counter, item=None):
        outer = self.scope.copy()
        self.scope.ints.append(counter)
        self.scope.frozen.add(counter)
        self.scope.floats += [item] if item else []
        self.loops += 1
        self.block(depth - 1)
        self.loops -= 1
        self.scope = outer

    def block(self, depth):
        outer = self.scope.copy()
        self.indent += 1
        start = len(self.lines)
        for _ in range(self.r.randint(1, 4)):
            if self.budget > 0:
                self.statement(depth)
        if len(self.lines) == start:
            self.put("pass")
        self.indent -= 1
        self.scope = outer


HELPERS = {
    "float": ("p, q", lambda g: g.real(1)),
    "pair": ("p, q", lambda g: f"math.tanh({g.real(1)}), {g.leaf()}"),
    "number": ("u, p", lambda g: g.real(1)),
    "write": ("u, p", None),
    "array": ("u, p", lambda g: f"1.0 * {g.array(('u.shape[0]',), 1)}"),
}


def helper_text(rng, name, kind, earlier):
    signature, returns = HELPERS[kind]
    g = Generator(rng, earlier, rng.randint(1, 4), returns)
    g.scope.floats = [n for n in signature.split(", ") if n != "u"]
    if "u" in signature:
        g.scope.arrays["u"] = ("u.shape[0]",)
    while g.budget > 0:
        g.statement(1)
    if kind == "write":
        g.put(f"u[{g.index('u.shape[0]')}] += {g.real(1)}")
    else:
        g.put(f"return {returns(g)}")
    return f"@njit\ndef {name}({signature}):\n" + "\n".join(g.lines) + "\n\n\n"


def final(g):
    """What an early return gives."""
    return f"{g.real(1)} + {g.leaf()}"


def text_of(seed: int) -> str:
    """The module of a seed: helpers and the function ``f(a, b, m, x, y, z, n)``."""
    rng = random.Random(seed)
    out, helpers = HEADER, {}
    for i in range(rng.randint(0, 3)):
        kind = rng.choice(list(HELPERS))
        out += helper_text(rng, f"h{i}", kind, dict(helpers))
        helpers[f"h{i}"] = kind
    g = Generator(rng, helpers, rng.randint(6, 22), final)
    g.scope.floats, g.scope.ints, g.scope.complexes = ["x", "y"], ["n"], ["z"]
    g.scope.arrays = dict(SHAPES)
    g.scope.frozen = {"n"}
    while g.budget > 0:
        g.statement(3)
    g.put("s = x * y + z.real * z.imag")
    g.put("for q in range(6):")
    g.put("    s += a[q] * (q + 1) * 0.3 + b[q] * b[q] * 0.5 + m[q % 3, q % 4] * a[q]")
    g.put(f"return s + {g.real(1)}")
    return out + "@njit\ndef f(a, b, m, x, y, z, n):\n" + "\n".join(g.lines) + "\n"


def load(text: str):
    """The function ``f`` of a module's text, with a source that inspect finds."""
    name = f"<random program {zlib.crc32(text.encode()):08x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"np": np, "njit": numba.njit, "__name__": "random_program"}
    exec(compile(text, name, "exec"), namespace)
    return namespace["f"]


def arguments(seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    x, y, p, q = (float(v) for v in rng.standard_normal(4))
    return (*(rng.standard_normal(s) for s in SHAPES.values()), x, y, complex(p, q), 4)


def argnums_of(seed: int) -> tuple[int, ...]:
    """Often all that can be differentiated, else a part, so that activity matters."""
    rng = random.Random(seed + 1)
    if rng.random() < 0.5:
        return (0, 1, 2, 3, 4, 5)
    return tuple(sorted(rng.sample(range(6), rng.randint(1, 3))))
