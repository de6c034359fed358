"""Random statements and blocks."""

from __future__ import annotations

from random_arrays import Arrays, known

RANGES = ("3", "4", "1, 4", "3, -1, -1", "0, 6, 2", "5, 0, -2", "({c}) % 4", "1, 2 + ({c}) % 3")


class Statements(Arrays):
    """Statements, blocks; lines of text."""

    def __init__(self, rng, helpers, budget, returns):
        super().__init__(rng, helpers)
        self.lines: list[str] = []
        self.indent, self.loops, self.budget, self.returns = 1, 0, budget, returns
        self.kinds = [
            (self.assign_float, 20), (self.augment_float, 10), (self.assign_item, 18),
            (self.assign_integer, 4), (self.assign_slice, 8), (self.new_array, 12),
            (self.assign_complex, 6), (self.unpack, 5), (self.call_helper, 6),
            (self.make_tuple, 3), (self.by_mask, 3),
        ]  # fmt: skip
        self.nested = [(self.branch, 12), (self.chosen, 3)]
        self.looping = [
            (self.for_loop, 14), (self.while_loop, 4), (self.iterate, 4), (self.rows, 2)
        ]  # fmt: skip

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def damped(self) -> str:
        return f"math.tanh({self.real()}) * 1.3" if self.r.random() < 0.5 else self.real()

    def statement(self, depth: int) -> None:
        self.budget -= 1
        kinds = [*self.kinds, (self.jump, 14 if self.loops else 4)]
        if depth > 0:
            kinds += self.nested
            if self.loops < 3:
                kinds += self.looping
        functions, weights = zip(*kinds)
        self.r.choices(functions, weights)[0](depth)

    # -- numbers -----------------------------------------------------------------------------------------------

    def assign_float(self, depth):
        s = self.scope
        mine = s.writable(s.floats)
        if mine and self.r.random() < 0.6:
            self.put(f"{self.r.choice(mine)} = {self.damped()}")
            return
        name = self.name("v")
        also = f"{self.r.choice(mine)} = " if mine and self.r.random() < 0.1 else ""
        self.put(f"{name} = {also}{self.damped()}")
        s.floats.append(name)

    def augment_float(self, depth):
        mine = self.scope.writable(self.scope.floats)
        if mine:
            operation = self.r.choice(["+=", "-=", "*="])
            value = self.real(1)
            if operation == "*=" and self.loops > 1:
                value = f"math.tanh({value})"
            self.put(f"{self.r.choice(mine)} {operation} {value}")

    def assign_integer(self, depth):
        mine = self.scope.writable(self.scope.ints)
        if mine and self.r.random() < 0.6:
            self.put(f"{self.r.choice(mine)} = ({self.integer()}) % 5")
        else:
            name = self.name("k")
            self.put(f"{name} = ({self.integer()}) % 5")
            self.scope.ints.append(name)

    def assign_complex(self, depth):
        s = self.scope
        mine = s.writable(s.complexes)
        if s.complex_arrays and self.r.random() < 0.3:
            self.complex_array()
            return
        if mine and self.r.random() < 0.5:
            self.put(f"{self.r.choice(mine)} = {self.complex()}")
        else:
            name = self.name("z")
            self.put(f"{name} = {self.complex()} + 0j")
            s.complexes.append(name)

    def complex_array(self):
        """A statement with a complex array."""
        r, s = self.r, self.scope
        g = r.choice(s.complex_arrays)
        value = r.choice([f"np.tanh({self.base((3,))})", self.complex(), f"{g}[::-1] * 0.5"])
        name = self.name("g")
        if r.random() < 0.6:
            part, value = r.choice([(g, value), (f"{g}[1:]", self.complex()), (g, f"0.3 * {g}")])
            self.put(f"{part}[:] {r.choice(['=', '+='])} {value}")
            return
        self.put(f"{name} = {r.choice([f'{g}[::-1]', f'{g} * {self.complex()}', f'{g}.copy()'])}")
        s.complex_arrays.append(name)
        s.complexes += [f"{name}[0]", f"{name}[n % 3]"] if "n" in s.ints else [f"{name}[-1]"]

    def unpack(self, depth):
        r, s = self.r, self.scope
        names = [n for n in s.writable(s.arrays) if n.isidentifier() and n not in s.single]
        pairs = [(p, q) for p in names for q in names if p < q and s.arrays[p] == s.arrays[q]]
        mine = s.writable(s.floats)
        if pairs and r.random() < 0.4:
            p, q = r.choice(pairs)
            self.put(f"{p}, {q} = {q}, {p}")
        elif len(mine) > 1:
            p, q = r.sample(mine, 2)
            if "pair" in self.helpers.values() and r.random() < 0.5:
                self.put(f"{p}, {q} = {self.helper('pair')}({q}, {self.real(1)})")
            else:
                self.put(f"{p}, {q} = {q}, {self.damped()}")

    # -- arrays -----------------------------------------------------------------------------------------------

    def assign_item(self, depth):
        if self.scope.writable(self.scope.arrays):
            operation = self.r.choice(["=", "=", "+=", "-=", "*="])
            value = f"math.tanh({self.real()})" if operation != "+=" else self.real(1)
            self.put(f"{self.item(True)} {operation} {value}")

    def assign_slice(self, depth):
        if not self.scope.writable(self.scope.arrays):
            return
        target, shape, _ = self.part(True)
        operation = self.r.choice(["=", "+=", "*="])
        value = self.array(shape, 1) if self.r.random() < 0.7 else self.real(1)
        if operation == "+=" and self.r.random() < 0.5:
            value = f"0.3 * {value}"
        if self.loops > 1 or operation == "*=":
            value = f"np.tanh({value})"
        self.put(f"{target} {operation} {value}")

    def by_mask(self, depth):
        """Elements chosen by a condition or by numbers."""
        r, s = self.r, self.scope
        vectors = [n for n in s.vectors() if n not in s.frozen and isinstance(s.arrays[n][0], int)]
        if not vectors:
            return
        v = r.choice(vectors)
        n = s.arrays[v][0]
        if r.random() < 0.5:
            self.put(f"{v}[{v} > {r.uniform(-1, 1):.2f}] {r.choice(['=', '*='])} {self.real(1)}")
        elif n > 1:
            some = r.sample(range(n), 2)
            value = r.choice([self.real(1), self.array((2,), 1)])
            self.put(f"{v}[np.array({some})] {r.choice(['=', '+='])} {value}")

    def new_array(self, depth):
        r, s = self.r, self.scope
        if not s.arrays:
            return
        name, (view, part_shape, viewed) = self.name("u"), self.part()
        base = r.choice(list(s.arrays))
        shape = s.arrays[base]
        sizes = f"({', '.join(map(str, shape))},)"
        value, shape, origin = r.choice(
            [
                *self.reshaped(base, shape),
                (view, part_shape, viewed),
                (view, part_shape, viewed),
                (f"{base}.copy()", shape, None),
                (f"np.zeros({sizes})", shape, None),
                (f"np.full({sizes}, {self.real(1)})", shape, None),
                (f"np.ones_like({base}) * {self.real(1)}", shape, None),
                (f"1.0 * {self.array(shape)}", shape, None),
            ]
        )
        if any(n == 0 for n in shape):
            return
        self.put(f"{name} = {value}")
        s.arrays[name] = shape
        if s.single & {base, viewed} or any(n in value for n in s.single):
            s.single.add(name)
        if origin is not None:
            self.viewed(name, origin)

    def reshaped(self, base, shape):
        """Views and copies of another shape, and whose memory they are."""
        if shape == (6,):
            return [(f"np.ascontiguousarray({base}).copy().reshape(2, 3)", (2, 3), None)]
        if len(shape) == 2:
            size = shape[0] * shape[1]
            return [(f"{base}.T", shape[::-1], base)] * 2 + [
                (f"{base}.copy().ravel()", (size,), None),
                (f"np.transpose({base})", shape[::-1], base),
                (f"{base}.copy().reshape(-1)", (size,), None),
            ]
        if len(shape) == 3:
            return [
                (f"{base}.transpose(2, 0, 1)", (shape[2], *shape[:2]), base),
                (f"{base}.copy().reshape({shape[0]}, -1)", (shape[0], shape[1] * shape[2]), None),
            ]
        return []

    def make_tuple(self, depth):
        """Nested and named tuples; their parts are read by index and by name."""
        r, s = self.r, self.scope
        name = self.name("t")
        v = r.choice(list(s.arrays)) if s.arrays else None
        if v is None or r.random() < 0.4:
            self.put(f"{name} = ({self.real(1)}, ({self.leaf()}, {self.real(1)}))")
            floats = [f"{name}[0]", f"{name}[1][0]", f"{name}[-1][1]"]
        elif r.random() < 0.5:
            self.put(f"{name} = Pair({self.real(1)}, {v})")
            floats = [f"{name}.first"]
            self.also(f"{name}.second", v)
        else:
            self.put(f"{name} = ({self.real(1)}, Pair(first={v}, second={self.real(1)}))")
            floats = [f"{name}[0]", f"{name}[1].second"]
            self.also(f"{name}[1][0]", v)
        s.floats += floats
        s.frozen.update(floats)

    def also(self, name, v):
        """One more name of an array."""
        s = self.scope
        s.arrays[name] = s.arrays[v]
        s.single |= {name} if v in s.single else set()
        self.viewed(name, v)

    def viewed(self, name, origin):
        """Two names of one memory: what must not be written by one name must not by the other."""
        if origin in self.scope.frozen:
            self.scope.frozen.add(name)

    def call_helper(self, depth):
        r, s = self.r, self.scope
        kinds = set(self.helpers.values())
        vectors = s.vectors()
        if not vectors:
            return
        v, mine = r.choice(vectors), s.writable(vectors)
        if "write" in kinds and mine and r.random() < 0.6:
            self.put(f"{self.helper('write')}({r.choice(mine)}, {self.real(1)})")
        elif "array" in kinds:
            name = self.name("u")
            p = r.choice(["", f", {self.real(1)}", f", p={self.real(1)}"])
            self.put(f"{name} = {self.helper('array')}({v}{p})")
            s.arrays[name] = s.arrays[v]
            s.single |= {name} if v in s.single else set()
        elif kinds & {"alias", "choose"} and r.random() < 0.7:
            self.call_for_alias(v)
        elif "both" in kinds:
            name, number = self.name("u"), self.name("v")
            self.put(f"{name}, {number} = {self.helper('both')}({v}, {self.real(1)})")
            s.arrays[name] = s.arrays[v]
            s.floats.append(number)
            s.single |= {name} if v in s.single else set()

    def call_for_alias(self, v):
        """A function that returns an array it was given, or a view of it."""
        r, s = self.r, self.scope
        name = self.name("u")
        if "alias" in self.helpers.values():
            self.put(f"{name} = {self.helper('alias')}({v}, {self.real(1)})")
            self.also(name, v)
            return
        same = [n for n in s.vectors() if s.arrays[n] == s.arrays[v]]
        w = r.choice([n for n in same if (n in s.single) == (v in s.single)])
        self.put(f"{name} = {self.helper('choose')}({v}, {w}, {self.real(1)})")
        self.also(name, v)
        self.viewed(name, w)

    # -- control ----------------------------------------------------------------------------------------------

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
        """A variable that two branches assign, or one of two values."""
        s, r = self.scope, self.r
        names = [n for n in s.arrays if n not in s.single]
        if not names:
            return
        name, base = self.name("w"), r.choice(names)
        shape = s.arrays[base]
        second = r.choice([n for n in names if s.arrays[n] == shape])
        frozen = bool(s.frozen & {base, second})
        if r.random() < 0.3:
            self.put(f"{name} = {base} if {self.condition()} else {second}")
        else:
            other = r.choice([second, f"1.0 * {self.array(shape, 1)}"])
            self.put(f"if {self.condition()}:")
            self.put(f"    {name} = {base}")
            self.put("else:")
            self.put(f"    {name} = {other}")
        s.arrays[name] = shape
        s.frozen |= {name} if frozen else set()

    def for_loop(self, depth):
        i = self.name("i")
        bounds = self.r.choice(RANGES).format(c=self.integer())
        self.put(f"for {i} in range({bounds}):")
        self.loop_block(depth, [i])
        self.otherwise(depth)

    def otherwise(self, depth):
        if self.r.random() < 0.06:
            self.put("else:")
            self.block(depth - 1)

    def while_loop(self, depth):
        i, r = self.name("i"), self.r
        self.put(f"{i} = 0")
        extra = f" and {r.choice(self.scope.floats)} < 4.0" if self.scope.floats else ""
        if r.random() < 0.2:
            self.put("while True:")
            self.put(f"    if {i} >= {r.randint(2, 4)}:")
            self.put("        break")
        else:
            self.put(f"while {i} < {r.randint(2, 4)}{extra}:")
        self.put(f"    {i} += 1")
        self.loop_block(depth, [i])

    def iterate(self, depth):
        r, vectors = self.r, self.scope.vectors()
        if not vectors:
            return
        i, v, w = self.name("i"), self.name("v"), self.name("v")
        a, b = r.choice(vectors), r.choice(vectors)
        head, ints, floats = r.choice(
            [
                (f"{i}, {v} in enumerate({a})", [i], [v]),
                (f"{v}, {w} in zip({a}, {b})", [], [v, w]),
                (f"{i}, ({v}, {w}) in enumerate(zip({a}, {b}))", [i], [v, w]),
                (f"{v} in {a}", [], [v]),
                (f"{v} in ({self.real(1)}, {self.real(1)}, {self.leaf()})", [], [v]),
            ]
        )
        self.put(f"for {head}:")
        self.loop_block(depth, ints, floats)

    def rows(self, depth):
        """The rows of a matrix, which are views."""
        s = self.scope
        matrices = [n for n, shape in s.arrays.items() if len(shape) == 2 and known(shape)]
        if not matrices:
            return
        name, m = self.name("u"), self.r.choice(matrices)
        self.put(f"for {name} in {m}:")
        outer = s.copy()
        self.also(name, m)
        s.arrays[name] = s.arrays[m][1:]
        self.loop_block(depth, [])
        self.scope = outer

    def loop_block(self, depth, ints, floats=()):
        outer = self.scope.copy()
        self.scope.ints += ints
        self.scope.frozen.update(ints)
        self.scope.floats += floats
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
