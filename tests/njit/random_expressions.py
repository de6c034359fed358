"""Random expressions over the variables in scope: numbers, integers, conditions, complex numbers."""

from __future__ import annotations

import random


class Scope:
    """What may be read, by kind; arrays with their shapes. A name may be any text that can be read, as ``t[0]``."""

    def __init__(self):
        self.floats: list[str] = []
        self.ints: list[str] = []
        self.complexes: list[str] = []
        self.complex_arrays: list[str] = []  # of three elements
        self.arrays: dict[str, tuple] = {}
        self.frozen: set[str] = set()  # what is not written to: loop counters, for instance
        self.single: set[str] = set()  # arrays that may be float32

    def copy(self):
        new = Scope()
        new.floats, new.ints = self.floats[:], self.ints[:]
        new.complexes, new.arrays = self.complexes[:], dict(self.arrays)
        new.complex_arrays = self.complex_arrays[:]
        new.frozen, new.single = set(self.frozen), set(self.single)
        return new

    def writable(self, names):
        return [n for n in names if n not in self.frozen]

    def vectors(self):
        return [n for n, shape in self.arrays.items() if len(shape) == 1]


class Expressions:
    """Random expressions; arrays are added by a subclass."""

    functions = ("math.sin", "math.cos", "math.tanh", "np.sin", "np.arctan", "math.atan")

    def __init__(self, rng: random.Random, helpers: dict[str, str]):
        self.r, self.helpers, self.scope = rng, helpers, Scope()
        self.names = 0

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def integer(self) -> str:
        r, ints = self.r, self.scope.ints
        if not ints or r.random() < 0.2:
            return str(r.randint(0, 6))
        i, j, c = r.choice(ints), r.choice(ints), r.randint(1, 4)
        if r.random() < 0.1:
            return self.derived()
        return r.choice(
            [i, f"{i} + {c}", f"{i} * {c} - 1", f"{i} + {j}", f"{i} // {c + 1}", f"{c} - {i}"]
        )

    def derived(self) -> str:
        """An integer made from numbers or arrays."""
        choices = [f"int({self.r.choice(self.scope.floats)} * 3.0)"] if self.scope.floats else []
        vectors = self.scope.vectors()
        if vectors:
            v = self.r.choice(vectors)
            choices += [f"len({v})", f"{v}.size", f"np.argmax({v})", f"np.sum({v} > 0.1)"]
        return self.r.choice(choices or ["2"])

    def index(self, size) -> str:
        if isinstance(size, int) and self.r.random() < 0.3:
            return str(self.r.randint(-size, size - 1))
        return f"({self.integer()}) % {size}"

    def item(self, written: bool = False) -> str:
        arrays = self.scope.arrays
        name = self.r.choice(self.scope.writable(arrays) if written else list(arrays))
        return f"{name}[{', '.join(self.index(n) for n in arrays[name])}]"

    def leaf(self) -> str:
        r, s = self.r, self.scope
        choices = [f"{r.uniform(-1, 1):.2f}"]
        choices += [r.choice(s.floats)] * 4 if s.floats else []
        choices += [self.item()] * 3 if s.arrays else []
        choices += [f"{r.choice(s.ints)} * 0.1"] if s.ints else []
        if s.complexes:
            z = r.choice(s.complexes)
            choices += [f"{z}.real", f"{z}.imag"]
        return r.choice(choices)

    def real(self, depth: int = 2) -> str:
        r = self.r
        if depth == 0 or r.random() < 0.2:
            return self.leaf()
        k = r.random()
        x, y = self.real(depth - 1), self.real(depth - 1)
        if k < 0.3:
            return f"({x} {r.choice('+-')} {y})"
        if k < 0.5:
            return f"{x} * {y} * 0.5"
        if k < 0.66:
            return f"{r.choice(self.functions)}({x})"
        if k < 0.72:
            return f"({x} / (1.5 + ({y}) ** 2))"
        if k < 0.78:
            return r.choice([f"max({x}, {y})", f"min({x}, {y})", f"abs({x})", f"(-{x})"])
        if k < 0.82:
            return self.smooth(x, y)
        if k < 0.86:
            return f"({x} if {self.condition()} else {y})"
        return self.special(x, y)

    def smooth(self, x: str, y: str) -> str:
        """Functions with restricted domains, powers, remainders."""
        choices = [
            f"math.exp(-abs({x}))",
            f"math.sqrt(1.1 + ({x}) ** 2)",
            f"math.log(1.5 + ({x}) ** 2)",
            f"(1.2 + ({x}) ** 2) ** math.tanh({y})",
            f"math.tanh({x}) ** {self.r.randint(0, 3)}",
            f"({x}) % 1.7",
            f"({x} - {y} // 0.8)",
            f"math.hypot({x}, 1.0 + abs({y}))",
            f"math.atan2({x}, 1.2 + ({y}) ** 2)",
        ]
        if self.scope.ints:
            choices.append(f"math.tanh({x}) ** (({self.integer()}) % 3)")
        return self.r.choice(choices)

    def special(self, x: str, y: str) -> str:
        """Calls of helpers, tuples, complex numbers."""
        r, s = self.r, self.scope
        k = r.randint(0, 2)
        choices = [f"({x}, {y}, 0.3)[{k}]", f"({x}, ({y}, 0.3))[1][{k % 2}]"]
        choices += [f"abs(complex({x}, 0.4 + ({y}) ** 2))"]
        if "float" in self.helpers.values():
            h = self.helper("float")
            choices += [f"{h}({x}, {y})", r.choice([f"{h}({x})", f"{h}(q={x}, p={y})"])]
        if s.complexes:
            z = r.choice(s.complexes)
            choices += [
                f"abs({z})",
                f"({z} * {r.choice(s.complexes)}).imag",
                f"np.exp(1j * {z}).real",
            ]
        return r.choice(choices)

    def helper(self, kind: str) -> str:
        return self.r.choice([n for n, k in self.helpers.items() if k == kind])

    def condition(self) -> str:
        r, s = self.r, self.scope
        choices = [
            f"{self.leaf()} > {r.uniform(-1, 1):.2f}",
            f"{self.leaf()} < {self.leaf()}",
            f"-0.8 < {self.leaf()} <= {r.uniform(0, 1):.2f}",
        ]
        if s.ints:
            i = r.choice(s.ints)
            choices += [f"{i} % {r.randint(2, 3)} == {r.randint(0, 1)}", f"{i} < {r.randint(1, 3)}"]
        c = r.choice(choices)
        if r.random() < 0.25:
            c = f"({c} {r.choice(['and', 'or'])} {r.choice(choices)})"
        return f"not ({c})" if r.random() < 0.1 else c

    def complex(self) -> str:
        s, r = self.scope, self.r
        z = r.choice(s.complexes) if s.complexes else "(0.3 + 0.4j)"
        w = r.choice(s.complexes) if s.complexes else "1j"
        x = self.real(1)
        return r.choice(
            [
                f"complex({x}, {self.leaf()})",
                f"{z} * {w} * 0.4",
                f"({z} + {x}) * 0.5",
                f"{z} / (2.5 + {x} * {x}) - {w}.conjugate() * 0.5",
                f"np.sin({z} * 0.3) + {w} * 0.2",
                f"({z} if {self.condition()} else {w})",
            ]
        )
