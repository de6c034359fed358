"""Random array expressions of a given shape, parts of arrays, and numbers made from arrays."""

from __future__ import annotations

from random_expressions import Expressions

ELEMENTWISE = ("sin", "cos", "tanh", "arctan")


def known(shape) -> bool:
    return all(isinstance(n, int) for n in shape)


class Arrays(Expressions):
    """Expressions with arrays."""

    def special(self, x: str, y: str) -> str:
        s, vectors = self.scope, self.scope.vectors()
        choices = [super().special(x, y)] * 2
        if "number" in self.helpers.values() and vectors:
            choices += [f"{self.helper('number')}({self.r.choice(vectors)}, {x})"]
        if s.arrays:
            choices += [self.reduced(), self.reduced()]
        if s.complex_arrays:
            g = self.r.choice(s.complex_arrays)
            choices += [
                f"np.sum(np.abs({g} + 2.0)) * 0.2",
                f"({g} * np.conj({g})).real.sum() * 0.2",
            ]
            choices += [f"{g}.imag[{self.index(3)}]", f"np.sum({g} * {self.base((3,))}).imag * 0.3"]
        return self.r.choice(choices)

    def reduced(self) -> str:
        """A number made from arrays."""
        r, s = self.r, self.scope
        shape = s.arrays[r.choice(list(s.arrays))]
        a, b = self.array(shape, 1), self.array(shape, 0)
        choices = [f"np.sum({a}) * 0.2", f"({a}).mean()", f"({a}).max()", f"np.min({a})"]
        choices += [f"np.sum({a} * {b}) * 0.3", f"({a}).var()", f"np.sqrt(1.0 + ({a}).sum() ** 2)"]
        if len(shape) == 1:
            choices += [
                f"np.dot({self.contiguous(a)}, {self.contiguous(b)}) * 0.3",
                f"np.linalg.norm({self.contiguous(a)} + 1.5)",
                f"np.cumsum({a})[{self.index(shape[0])}] * 0.4",
                f"np.prod(np.tanh({a}))",
            ]
        if len(shape) == 2:
            k = r.randint(0, 1)
            choices += [
                f"np.sum({a}, axis={k})[{self.index(shape[1 - k])}] * 0.4",
                f"({a}).sum(axis={k})[{self.index(shape[1 - k])}] * 0.4",
                f"np.trace({b})",
            ]
        return r.choice(choices)

    def contiguous(self, a: str) -> str:
        """An array that np.dot takes: contiguous, of float64."""
        if any(name in a for name in self.scope.single):
            return f"(1.0 * {a})"
        return f"np.ascontiguousarray({a})"

    # -- pieces of a wanted shape ------------------------------------------------------------------------------

    def base(self, shape: tuple) -> str:
        """Something that is there of that shape, or a constant array."""
        r, s = self.r, self.scope
        same = [n for n, other in s.arrays.items() if other == shape]
        choices = [r.choice(same)] * 4 if same else []
        if same and len(shape) == 1:
            choices += [f"{r.choice(same)}[::-1]"]
        if len(shape) == 2:
            choices += [f"{n}.T" for n, o in s.arrays.items() if o == shape[::-1]]
        if shape == (3,):
            choices += [f"{g}.{r.choice(['real', 'imag'])}" for g in s.complex_arrays]
        for name, other in s.arrays.items():
            choices += self.parts_of(name, other, shape)
        return r.choice(choices) if choices else f"np.full({shape}, {self.real(1)})"

    def parts_of(self, name: str, other: tuple, shape: tuple) -> list[str]:
        """Slices of a larger array that have the shape."""
        if not known(other) or not known(shape):
            return []
        if len(shape) == len(other) == 1 and other[0] > shape[0]:
            n, d = shape[0], self.r.randint(0, other[0] - shape[0])
            choices = [f"{name}[{d}:{d + n}]", f"{name}[{d - other[0]}:][:{n}]"]
            choices += [f"{name}[{d + n - 1}:{d - 1 if d else ''}:-1]"]
            if other[0] >= 2 * n:
                choices += [f"{name}[:{2 * n}:2]", f"{name}[{2 * n - 1}::-2]"]
            return [self.r.choice(choices)]
        if len(other) == len(shape) + 1:
            axes = [k for k in range(len(other)) if other[:k] + other[k + 1 :] == shape]
            if axes:
                k = self.r.choice(axes)
                at = [":"] * k + [self.index(other[k])]
                return [f"{name}[{', '.join(at)}]"]
        return []

    def spread(self, shape: tuple) -> str | None:
        """A smaller array that is broadcast to the shape."""
        if len(shape) < 2 or not known(shape):
            return None
        if len(shape) == 2 and self.r.random() < 0.5:
            column = self.base(shape[:1])
            return f"{column}[:, None]" if self.r.random() < 0.5 else f"{column}[:, np.newaxis]"
        return self.base(shape[1:])

    def array(self, shape: tuple, depth: int = 2) -> str:
        """An array expression of that shape; the outermost node is always an array."""
        r, base = self.r, self.base(shape)
        if depth == 0 or r.random() < 0.25:
            return base
        other = self.array(shape, depth - 1)
        k = r.random()
        spread = self.spread(shape) if k < 0.3 else None
        if spread:
            return f"({other} + 0.3 * {spread})" if k < 0.15 else f"{other} * {spread} * 0.5"
        if k < 0.35:
            return f"({other} {r.choice('+-')} {base})"
        if k < 0.55:
            return f"{other} * {base} * 0.5"
        if k < 0.67:
            return f"np.{r.choice(ELEMENTWISE)}({other})"
        if k < 0.79:
            return f"({self.real(1)}) * {other}"
        if k < 0.86:
            return self.chosen_elements(shape, other, base)
        if k < 0.96 and len(shape) <= 2 and known(shape):
            return self.moved(shape, other, base)
        return f"{other} / (1.5 + {base} ** 2)"

    def chosen_elements(self, shape, other, base):
        return self.r.choice(
            [
                f"np.where({base} > {self.r.uniform(-1, 1):.2f}, {other}, {base})",
                f"np.maximum({other}, {base})",
                f"np.minimum({other}, {self.r.uniform(-1, 1):.2f})",
            ]
        )

    def moved(self, shape, other, base):
        """NumPy functions that give arrays."""
        r, n = self.r, shape[0]
        if len(shape) == 2:
            u, v = self.contiguous(self.base(shape[:1])), self.contiguous(self.base(shape[1:]))
            return r.choice(
                [f"0.5 * np.outer({u}, {v})", f"np.ascontiguousarray({base}.T).reshape({shape})"]
            )
        choices = [f"np.cumsum({other}) * 0.4", f"np.roll({other}, {r.randint(-2, 2)})"]
        if n > 2:
            choices += [f"np.concatenate((({other})[:{n - 1}], {base}[1:2]))"]
            choices += [f"np.diff(np.concatenate(({other}, {base}[:1])))"]
        matrices = [m for m, o in self.scope.arrays.items() if len(o) == 2 and o[:1] == shape]
        for m in matrices:
            v = self.contiguous(self.base(self.scope.arrays[m][1:]))
            choices += [f"0.4 * np.dot({self.contiguous(m)}, {v})"]
            choices += [f"0.4 * ({self.contiguous(m)} @ {v})", f"np.sum({m}, axis=1) * 0.4"]
        return r.choice(choices)

    # -- parts of arrays, to be written or named ------------------------------------------------------------

    def part(self, written: bool = False):
        """A part of an array, its shape, and the array's name."""
        r = self.r
        arrays = self.scope.arrays
        name = r.choice(self.scope.writable(arrays) if written else list(arrays))
        shape = arrays[name]
        n = shape[0]
        if not known(shape):
            return f"{name}[:]", shape, name
        if n < 3:
            return f"{name}[::-1]", shape, name
        if len(shape) == 1:
            at, size = self.slice(n)
            return f"{name}[{at}]", (size,), name
        rest = shape[2:]
        i, (at, size) = r.randint(0, shape[1] - 1), self.slice(n)
        text, found = r.choice(
            [
                (f"{name}[{self.index(n)}]", shape[1:]),
                (f"{name}[:, {i}]", shape[:1] + rest),
                (f"{name}[1:, :{i + 1}]", (n - 1, i + 1, *rest)),
                (f"{name}[{at}]", (size, *shape[1:])),
                (f"{name}[..., {r.randint(0, shape[-1] - 1)}]", shape[:-1]),
            ]
        )
        return text, found, name

    def slice(self, n: int) -> tuple[str, int]:
        """A slice of a dimension of three or more, and its length."""
        r = self.r
        start, stop = r.randint(0, n - 3), r.randint(n - 2, n)
        text, size = r.choice(
            [
                (f"{start}:{stop}", slice(start, stop)),
                (f"{start}:{stop}:2", slice(start, stop, 2)),
                (f"{start - n}:", slice(start, None)),
                (f":{stop}", slice(stop)),
                (f"{n - 1}:{start}:-1", slice(n - 1, start, -1)),
                ("::-1", slice(None)),
                ("::-2", slice(None, None, -2)),
                (f":-{n - 1}:-1", slice(None, -(n - 1), -1)),
            ]
        )
        return text, len(range(n)[size])
