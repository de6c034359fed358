"""Random expressions over the variables in scope: numbers, integers, conditions, complex numbers, arrays."""

from __future__ import annotations

import random


class Scope:
    """The variables that may be read, by kind; arrays with their shapes."""

    def __init__(self):
        self.floats: list[str] = []
        self.ints: list[str] = []
        self.complexes: list[str] = []
        self.arrays: dict[str, tuple] = {}
        self.frozen: set[str] = set()  # loop counters are not assigned

    def copy(self):
        new = Scope()
        new.floats, new.ints = self.floats[:], self.ints[:]
        new.complexes, new.arrays = self.complexes[:], dict(self.arrays)
        new.frozen = set(self.frozen)
        return new


class Expressions:
    """Random expressions over the variables in scope."""

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
        return r.choice(
            [i, f"{i} + {c}", f"{i} * {c} - 1", f"{i} + {j}", f"{i} // {c + 1}", f"{c} - {i}"]
        )

    def index(self, size) -> str:
        if isinstance(size, int) and self.r.random() < 0.3:
            return str(self.r.randint(-size, size - 1))
        return f"({self.integer()}) % {size}"

    def item(self) -> str:
        name = self.r.choice(list(self.scope.arrays))
        return f"{name}[{', '.join(self.index(n) for n in self.scope.arrays[name])}]"

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
        if k < 0.68:
            f = r.choice(["math.sin", "math.cos", "math.tanh", "np.sin", "np.arctan", "math.atan"])
            return f"{f}({x})"
        if k < 0.74:
            return f"({x} / (1.5 + ({y}) ** 2))"
        if k < 0.8:
            return r.choice([f"max({x}, {y})", f"min({x}, {y})", f"abs({x})", f"(-{x})"])
        if k < 0.83:
            return r.choice(
                [
                    f"math.exp(-abs({x}))",
                    f"math.sqrt(1.1 + ({x}) ** 2)",
                    f"math.log(1.5 + ({x}) ** 2)",
                ]
            )
        if k < 0.86:
            return f"({x} if {self.condition()} else {y})"
        return self.special(x, y)

    def special(self, x: str, y: str) -> str:
        """Calls of helpers, reductions, products, complex numbers, tuples."""
        r, s = self.r, self.scope
        vectors = [n for n, shape in s.arrays.items() if len(shape) == 1]
        choices = [f"({x}, {y}, 0.3)[{r.randint(0, 2)}]", f"abs(complex({x}, 0.4 + ({y}) ** 2))"]
        if "float" in self.helpers.values():
            choices += [f"{self.helper('float')}({x}, {y})"] * 2
        if "number" in self.helpers.values() and vectors:
            choices += [f"{self.helper('number')}({r.choice(vectors)}, {x})"] * 2
        if s.arrays:
            name = r.choice(list(s.arrays))
            a = self.array(s.arrays[name], 1)
            choices += [f"np.sum({a}) * 0.2", f"({a}).mean()", f"({a}).max()", f"np.min({a})"]
        if vectors:
            v = r.choice(vectors)
            others = [n for n in vectors if s.arrays[n] == s.arrays[v]]
            w = r.choice(others)
            choices += [f"np.sum({v} * {w}) * 0.3"] + [f"np.sum({v}[::-1] * {w}) * 0.3"]
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
        choices = [f"{self.leaf()} > {r.uniform(-1, 1):.2f}", f"{self.leaf()} < {self.leaf()}"]
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

    def array(self, shape: tuple, depth: int = 2) -> str:
        """An array expression of that shape; the outermost node is always an array."""
        r, s = self.r, self.scope
        same = [n for n, other in s.arrays.items() if other == shape]
        base = r.choice(same) if same else f"np.full({shape}, {self.real(1)})"
        if r.random() < 0.2 and len(shape) == 1 and same:
            base = f"{base}[::-1]"
        if len(shape) == 2 and (shape[1], shape[0]) in s.arrays.values() and r.random() < 0.3:
            base = f"{r.choice([n for n, o in s.arrays.items() if o == shape[::-1]])}.T"
        if depth == 0 or r.random() < 0.25:
            return base
        other = self.array(shape, depth - 1)
        k = r.random()
        if k < 0.35:
            return f"({other} {r.choice('+-')} {base})"
        if k < 0.6:
            return f"{other} * {base} * 0.5"
        if k < 0.75:
            return f"np.{r.choice(['sin', 'cos', 'tanh', 'arctan'])}({other})"
        if k < 0.88:
            return f"({self.real(1)}) * {other}"
        if k < 0.93:
            return f"np.where({base} > {r.uniform(-1, 1):.2f}, {other}, {base})"
        matrices = [n for n, o in s.arrays.items() if len(o) == 2 and o[:1] == shape]
        if k < 0.97 and len(shape) == 1 and matrices:
            matrix = r.choice(matrices)
            vector = self.array(s.arrays[matrix][1:], 0)
            return f"0.4 * np.dot({matrix}.copy(), {vector}.copy())"
        return f"{other} / (1.5 + {base} ** 2)"
