"""Statements: assignments, conditions, loops."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from .. import ir, scalars
from .base import UNROLL_COPIES, UNROLL_NODES, UNROLL_TRIPS, Base, describe
from .objects import (
    Lazy,
    Py,
    Range,
    Record,
    Tup,
    Undefined,
    Zip,
    leaves,
    rebuild,
    same_structure,
    unified,
)


class _Retry(Exception):
    """A loop has to be interpreted again with wider types of what it carries."""


def assigned(nodes: list[ast.stmt]) -> list[str]:
    """Names that statements assign."""
    found: dict[str, None] = {}
    for s in nodes:
        for n in ast.walk(s):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                found[n.id] = None
            flag = getattr(n, "exit_flag", None)
            if flag:
                found[flag] = None
    return list(found)


class Statements(Base):
    """Executes statements."""

    def run(self, stmts: list[ast.stmt]) -> None:
        """Execute statements in order."""
        for s in stmts:
            method = getattr(self, "do_" + type(s).__name__, None)
            if method is None:
                raise self.refuse(s, *_instead(s))
            self.at(s)
            method(s)

    def do_Pass(self, s: ast.Pass) -> None:
        """Nothing."""

    def do_Expr(self, s: ast.Expr) -> None:
        """An expression for its effect."""
        x = self.eval(s.value)
        if isinstance(x, Lazy):
            self.materialise(x)

    def do_Assign(self, s: ast.Assign) -> None:
        """``target = value``."""
        v = self.eval(s.value)
        if isinstance(v, Lazy) and not (len(s.targets) == 1 and isinstance(s.targets[0], ast.Subscript)):
            v = self.materialise(v, s.targets[0])
        for t in s.targets:
            self.assign(t, v)

    def do_AnnAssign(self, s: ast.AnnAssign) -> None:
        """An annotated assignment."""
        if s.value is not None:
            v = self.eval(s.value)
            self.assign(s.target, self.materialise(v) if isinstance(v, Lazy) else v)

    def assign(self, target: ast.expr, v: Any) -> None:
        """Bind a target."""
        if isinstance(target, ast.Name):
            if isinstance(v, Lazy):
                v = self.materialise(v, target)
            if isinstance(v, ir.Value) and not isinstance(v, ir.Const) and not v.name:
                v.name = target.id
            self.frame.env[target.id] = v
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, v)
        elif isinstance(target, ast.Subscript):
            self.store_item(target, v)
        elif isinstance(target, ast.Attribute):
            self.store_field(target, v)
        else:
            raise self.refuse(target, "this assignment target is not supported", "Assign to names or elements.")

    def unpack(self, target: Any, v: Any) -> None:
        """``a, b = v``."""
        if isinstance(v, Lazy):
            v = self.materialise(v)
        if isinstance(v, ir.Value) and ir.is_array(v):
            items: Any = [self.element(v, [self.integer(k)], target) for k in range(len(target.elts))]
        elif isinstance(v, Tup):
            items = v.items
        else:
            raise self.refuse(target, f"{describe(v)} cannot be unpacked", "Unpack a tuple or an array.")
        stars = [k for k, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
        if stars:
            k, extra = stars[0], len(items) - len(target.elts) + 1
            items = [*items[:k], Tup(tuple(items[k : k + extra])), *items[k + extra :]]
        if len(items) != len(target.elts):
            raise self.refuse(
                target, f"{len(items)} values for {len(target.elts)} names", "Unpack as many as there are."
            )
        for t, x in zip(target.elts, items):
            self.assign(t.value if isinstance(t, ast.Starred) else t, x)

    def do_AugAssign(self, s: ast.AugAssign) -> None:
        """``target op= value``."""
        if isinstance(s.target, ast.Name):
            old = self.lookup(s.target.id, s.target)
            v = self.eval(s.value)
            if isinstance(old, ir.Value) and ir.is_array(old):
                self.update_array(old, s.op, v, s)
                return
            v = self.binary(type(s.op), old, v, s)
            self.assign(s.target, v)
        elif isinstance(s.target, ast.Subscript):
            self.update_item(s.target, s.op, s.value, s)
        else:
            old = self.eval(_as_load(s.target))
            self.store_field(s.target, self.binary(type(s.op), old, self.eval(s.value), s))

    # -- conditions --------------------------------------------------------------------------------------
    def do_If(self, s: ast.If) -> None:
        """A condition; a known one takes its branch only."""
        test = self.truth(self.eval(s.test), s.test)
        if isinstance(test, bool):
            self.run(s.body if test else s.orelse)
            return
        self.either(test, lambda: self.run(s.body), lambda: self.run(s.orelse), s)

    def either(self, test: ir.Value, then: Any, other: Any, node: ast.AST) -> tuple[Any, Any]:
        """Both branches, and the names they leave behind."""
        op = self.nested("if", [test], blocks=[ir.Block(), ir.Block()])
        before = self.frame.env
        envs, values = [], []
        for block, f in zip(op.blocks, (then, other), strict=True):
            self.frame.env = dict(before)
            with self.inside(block):
                values.append(f())
            envs.append(self.frame.env)
        self.frame.env = dict(before)
        a, b = envs
        for name in dict.fromkeys([*a, *b]):
            x, y = a.get(name, Undefined()), b.get(name, Undefined())
            self.frame.env[name] = x if x is y else self.merge(op, x, y, name, node)
        result = self.merge(op, *values, "", node) if values[0] is not None else None
        return op, result

    def merge(self, op: ir.Op, x: Any, y: Any, name: str, node: ast.AST) -> Any:
        """One object for what either branch gives a name."""
        if x is y:
            return x
        if isinstance(x, Py) and isinstance(y, Py) and x.value is y.value:
            return x
        if isinstance(x, Py) and isinstance(y, Py) and x.value == y.value and type(x.value) is type(y.value):
            return x
        for u, v in ((x, y), (y, x)):
            if isinstance(u, Undefined) and isinstance(v, Py):
                return v
        x, y = self.settled(op.blocks[0], x), self.settled(op.blocks[1], y)
        if isinstance(x, Undefined) or isinstance(y, Undefined):
            x, y = self.filled(x, y), self.filled(y, x)
            if name.startswith("$"):  # a value returned on one path only is not looked at on the other
                x, y = self.empty_in(op.blocks[0], x, y), self.empty_in(op.blocks[1], y, x)
            if isinstance(x, Undefined) or isinstance(y, Undefined):
                return Undefined()
        if not same_structure(x, y):
            return Undefined(f"it is {describe(x)} in one branch and {describe(y)} in the other")
        out = []
        for u, v in zip(leaves(x) or (), leaves(y) or (), strict=True):
            out.append(u if u is v or _equal(u, v) else self.join(op, u, v, name))
            if out[-1] is None:
                return Undefined(f"it is {describe(u)} in one branch and {describe(v)} in the other")
        return rebuild(x, out)

    def settled(self, block: ir.Block, x: Any) -> Any:
        """An array expression computed inside its branch."""
        if isinstance(x, Lazy):
            with self.resumed(block):
                return self.materialise(x)
        return x

    def resumed(self, block: ir.Block) -> Any:
        """Write into a block again."""
        known = self.known.get(block, {})
        manager = self.inside(block)
        outer = self

        class _Resume:
            def __enter__(self) -> None:
                manager.__enter__()
                outer.known[block] = known

            def __exit__(self, *a: Any) -> None:
                manager.__exit__(*a)

        return _Resume()

    def empty_in(self, block: ir.Block, x: Any, like: Any) -> Any:
        """A placeholder made in a branch."""
        if not isinstance(x, Undefined) or leaves(like) is None:
            return x
        with self.resumed(block):
            return self.placeholder(like)

    @staticmethod
    def filled(x: Any, like: Any) -> Any:
        """Zeros in place of numbers that one branch leaves undefined (Numba reads zeros or garbage there)."""
        if not isinstance(x, Undefined) or isinstance(like, Undefined):
            return x
        parts = leaves(like)
        if parts is None or any(ir.is_array(p) for p in parts):
            return x
        return rebuild(like, [scalars.zero(p.type) for p in parts])

    def join(self, op: ir.Op, u: ir.Value, v: ir.Value, name: str) -> ir.Value | None:
        """A result of a condition."""
        t = unified(u.type, v.type)
        if t is None:
            return None
        for block, w in zip(op.blocks, (u, v), strict=True):
            with self.resumed(block):
                block.yields.append(w if ir.is_array(w) else self.cast(w, t))
        (r,) = self.add_results(op, [t], [name or u.name])
        if isinstance(t, types.Array):
            self.roots[r] = self.root(u) if self.root(u) is self.root(v) else None
            if self.shape(u) == self.shape(v):
                self.sizes[r] = self.shape(u)
        return r

    # -- loops ------------------------------------------------------------------------------------------------
    def do_For(self, s: ast.For) -> None:
        """A loop over a range, a tuple, arrays, zip or enumerate."""
        it = self.iterable(self.eval(s.iter), s)
        flag = getattr(s, "exit_flag", None)
        count = self.trips(it, s)
        if isinstance(it, Tup) or (isinstance(it, Zip) and any(isinstance(x, Tup) for x in it.items)):
            self.unroll(s, it, int(count.value), flag)  # type: ignore[attr-defined]
            return
        if isinstance(count, ir.Const) and self.small(s, count.value):
            self.unrolled *= max(count.value, 1)
            self.unroll(s, it, count.value, flag)
            self.unrolled //= max(count.value, 1)
            return
        plain = isinstance(it, Range) and ir.is_const(it.step, 1)
        lo, hi = (it.start, it.stop) if plain else (self.integer(0), count)  # type: ignore[union-attr]
        attrs: dict[str, Any] = {}
        if isinstance(it, Range):
            attrs = {"parallel": it.parallel, "every": it.every}
            self.uses_parallel |= it.parallel

        def enter(iv: ir.Value) -> None:
            self.assign(s.target, iv if plain else self.item(it, iv, s))

        self.carry(s, flag, lo, hi, {k: v for k, v in attrs.items() if v}, enter)

    def small(self, s: ast.For, count: int) -> bool:
        """Whether a loop of known length is written out."""
        nodes = sum(1 for n in ast.walk(s) if isinstance(n, ast.expr | ast.stmt))
        return count <= UNROLL_TRIPS and self.unrolled * count <= UNROLL_COPIES and nodes * count <= UNROLL_NODES

    def unroll(self, s: ast.For, it: Any, count: int, flag: str | None) -> None:
        """Write the iterations one after another."""

        def once(k: int) -> None:
            self.assign(s.target, self.item(it, self.integer(k), s))
            self.run(s.body)

        def rest(k: int) -> None:
            if k == count:
                return
            if k and flag:
                left = self.truth(self.lookup(flag, s), s)
                if left is True:
                    return
                if left is not False:
                    stay = self.apply("not", left)
                    self.either(stay, lambda: rest_now(k), lambda: None, s)
                    return
            rest_now(k)

        def rest_now(k: int) -> None:
            once(k)
            rest(k + 1)

        if flag:
            rest(0)
        else:
            for k in range(count):
                once(k)

    def carry(self, s: Any, flag: str | None, lo: Any, hi: Any, attrs: dict, enter: Any) -> None:
        """Interpret a loop's body until the types of what it carries stand still."""
        before = self.frame.env
        names = [n for n in assigned([*s.body, *([s] if isinstance(s, ast.For) else [])])]
        ops, known = len(self.b.block.ops), dict(self.known[self.b.block])
        wider = self.loop_types.setdefault((*self.path, id(s)), {})
        for _ in range(12):
            try:
                self.frame.env = dict(before)
                self.attempt(s, flag, lo, hi, attrs, enter, names, before, wider)
                return
            except _Retry:
                del self.b.block.ops[ops:]
                self.known[self.b.block] = dict(known)
        raise self.refuse(s, "the types this loop carries do not settle", "Give the variables one type.")

    def attempt(
        self, s: Any, flag: str | None, lo: Any, hi: Any, attrs: dict, enter: Any, names: list, before: dict, wider: dict
    ) -> None:
        """One interpretation of a loop."""
        carried: dict[str, Any] = {}
        for n in names:
            start = before.get(n)
            if start is None or isinstance(start, Undefined):
                start = wider.get(("start", n))
                start = start if start is None else self.placeholder(start)
            if start is None or isinstance(start, Undefined | Py) or leaves(start) is None:
                continue
            if n == flag or n == "$done":
                start = ir.Const(False, types.boolean)
            carried[n] = start
        inits, shapes = [], []
        for n, obj in carried.items():
            for k, v in enumerate(leaves(obj) or ()):
                t = wider.get((n, k), v.type)
                if ir.is_array(v):
                    self.shape(v)  # sizes are read before the loop
                inits.append(v if ir.is_array(v) else self.cast(v, t))
                shapes.append((t, n))
        block = ir.Block([*([(types.intp, "i")] if lo is not None else []), *shapes])
        blocks = [block] if lo is not None else [block, ir.Block()]
        op = self.nested("for" if lo is not None else "while", [*((lo, hi) if lo is not None else ()), *inits],
                         attrs=dict(attrs), blocks=blocks)
        phis = iter(op.phis)
        for n, obj in carried.items():
            inner = rebuild(obj, [next(phis) for _ in leaves(obj) or ()])
            self.enter_phis(n, obj, inner, wider)
            self.frame.env[n] = ir.Const(False, types.boolean) if n in (flag, "$done") else inner
        for n in names:
            if n not in carried:
                old = before.get(n)
                self.frame.env[n] = old if isinstance(old, Py) else Undefined(
                    "in the first iteration it has no value")
        self.body(s, op, enter)
        self.close(s, op, flag, carried, names, before, wider)

    def placeholder(self, like: Any) -> Any:
        """What a name holds that is first assigned inside a loop: zeros, and arrays without elements."""
        zero = self.integer(0)
        parts = [
            self.alloc([zero] * p.type.ndim, p.type.dtype) if ir.is_array(p) else scalars.zero(p.type)
            for p in leaves(like) or ()
        ]
        return rebuild(like, parts)

    def enter_phis(self, name: str, obj: Any, inner: Any, wider: dict) -> None:
        """What is known of carried arrays: sizes, unless an iteration has changed them."""
        for k, (v, p) in enumerate(zip(leaves(obj) or (), leaves(inner) or (), strict=True)):
            if ir.is_array(p):
                self.roots[p] = None
                if not wider.get(("sizes", name, k)):
                    self.sizes[p] = self.shape(v)

    def body(self, s: Any, op: ir.Op, enter: Any) -> None:
        """Interpret the body of a loop."""
        if op.kind == "for":
            with self.inside(op.blocks[0]):
                enter(op.blocks[0].params[0])
                self.run(s.body)
            return
        with self.inside(op.blocks[0]):
            test = self.truth(self.eval(s.test), s.test)
            test = ir.Const(test, types.boolean) if isinstance(test, bool) else test
            flag = getattr(s, "exit_flag", None)
            if flag:  # a loop that has been left: the flag is carried
                test = self.apply("and", self.apply("not", self.flag_phi(op, flag)), test)
            op.blocks[0].yields = [test]
        op.blocks[1].parent = op
        self.known[op.blocks[1]] = dict(self.known[op.blocks[0]])
        old, self.b.block = self.b.block, op.blocks[1]
        try:
            self.run(s.body)
        finally:
            self.b.block = old

    def flag_phi(self, op: ir.Op, flag: str) -> ir.Value:
        """The carried exit flag of a while loop."""
        return next(p for p in op.phis if p.name == flag)

    def close(self, s: Any, op: ir.Op, flag: str | None, carried: dict, names: list, before: dict, wider: dict) -> None:
        """Set what a loop yields, and the names after it."""
        env = self.frame.env
        last = op.blocks[-1]
        yields: list[ir.Value] = []
        retry = False
        for n, obj in carried.items():
            new = env.get(n)
            if isinstance(new, Lazy):
                with self.resumed(last):
                    new = self.materialise(new)
            if not isinstance(new, Undefined | Py | None) and not same_structure(obj, new):
                raise self.refuse(s, f"'{n}' is {describe(obj)} before this loop and {describe(new)} after an iteration",
                                  "Use two names, or give it one kind from the start.")
            if isinstance(new, Undefined | Py | None):
                new = rebuild(obj, leaves(obj) or ())
                self.frame.env[n] = Undefined("the loop leaves it without a value")
            retry |= self.widen(s, n, obj, new, wider, op, len(yields))
            yields += leaves(new) or ()
        retry |= self.late(s, names, carried, env, wider)
        if retry:
            raise _Retry
        with self.resumed(last):
            last.yields = [y if ir.is_array(y) else self.cast(y, p.type) for y, p in zip(yields, op.phis, strict=True)]
            if flag and op.kind == "for":
                last.yields.append(self.cast(self.lookup_flag(env, flag), types.boolean))
                op.attrs["exit"] = True
        results = iter(self.add_results(op, [p.type for p in op.phis], [p.name for p in op.phis]))
        self.after(op, carried, names, env, before, results)

    @staticmethod
    def lookup_flag(env: dict, flag: str) -> ir.Value:
        """The exit flag at the end of an iteration."""
        return env[flag]

    def widen(self, s: Any, n: str, obj: Any, new: Any, wider: dict, op: ir.Op, first: int) -> bool:
        """Whether carried values need a wider type, or arrays change their sizes."""
        retry = False
        for k, (v, w) in enumerate(zip(leaves(obj) or (), leaves(new) or (), strict=True)):
            p = op.phis[first + k]
            t = unified(p.type, w.type)
            if t is None:
                raise self.refuse(
                    s, f"'{n}' is {p.type} before this loop and {w.type} after an iteration", "Give it one type."
                )
            if t != p.type:
                wider[n, k] = t
                retry = True
            if ir.is_array(p) and p in self.sizes and not _same_sizes(self.sizes[p], self.shape(w)):
                wider["sizes", n, k] = True
                retry = True
        return retry

    def late(self, s: Any, names: list, carried: dict, env: dict, wider: dict) -> bool:
        """Names first assigned inside the loop become carried numbers, so that they can be read after it."""
        retry = False
        for n in names:
            v = env.get(n)
            if n in carried or v is None or isinstance(v, Undefined | Py | Lazy) or ("start", n) in wider:
                continue
            if not self.read_outside(n, s):
                continue
            if leaves(v) is None:
                continue
            wider["start", n] = v
            retry = True
        return retry

    def read_outside(self, name: str, loop: ast.AST) -> bool:
        """Whether a name is read anywhere but in a loop."""
        if name.startswith("$"):
            return True
        return _loads(name, self.frame.source.body) > _loads(name, [loop])

    def after(self, op: ir.Op, carried: dict, names: list, env: dict, before: dict, results: Any) -> None:
        """Names behind a loop."""
        new = dict(before)
        for n, obj in carried.items():
            obj2 = rebuild(obj, [next(results) for _ in leaves(obj) or ()])
            for v, p, r in zip(leaves(obj) or (), _phis_of(op, carried, n), leaves(obj2) or (), strict=True):
                if ir.is_array(r):
                    self.roots[r] = None
                    if p in self.sizes:
                        self.sizes[r] = self.shape(v)
            new[n] = env[n] if isinstance(env.get(n), Undefined) else obj2
        for n in names:
            if n not in carried:
                v = env.get(n)
                if isinstance(v, Py) or n not in before:
                    new[n] = v if isinstance(v, Py) else Undefined(
                        "it is an array made inside a loop; make it before the loop")
        self.frame.env = new

    def do_While(self, s: ast.While) -> None:
        """A loop with a condition."""
        self.carry(s, getattr(s, "exit_flag", None), None, None, {}, None)

    # -- checks -------------------------------------------------------------------------------------------------
    def do_Assert(self, s: ast.Assert) -> None:
        """A checked condition."""
        test = self.truth(self.eval(s.test), s.test)
        if test is True:
            return
        text = s.msg.value if isinstance(s.msg, ast.Constant) else ""
        v = ir.Const(False, types.boolean) if test is False else test
        self.b.op("check", [v], attrs={"error": "AssertionError", "message": str(text)})

    def do_Raise(self, s: ast.Raise) -> None:
        """An error raised on this path."""
        name, text = "RuntimeError", ""
        exc = s.exc
        if isinstance(exc, ast.Call):
            text = exc.args[0].value if exc.args and isinstance(exc.args[0], ast.Constant) else ""
            exc = exc.func
        if isinstance(exc, ast.Name):
            name = exc.id
        self.b.op("check", [ir.Const(False, types.boolean)], attrs={"error": name, "message": str(text)})


def _loads(name: str, nodes: list) -> int:
    return sum(
        1
        for root in nodes
        for n in ast.walk(root)
        if isinstance(n, ast.Name)
        and n.id == name
        and (isinstance(n.ctx, ast.Load) or isinstance(getattr(n, "parent", None), ast.AugAssign))
    )


def _phis_of(op: ir.Op, carried: dict, name: str) -> list[ir.Value]:
    k = 0
    for n, obj in carried.items():
        width = len(leaves(obj) or ())
        if n == name:
            return op.phis[k : k + width]
        k += width
    return []


def _same_sizes(a: list, b: list) -> bool:
    return all(x is y or _equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(u: ir.Value, v: ir.Value) -> bool:
    if not (isinstance(u, ir.Const) and isinstance(v, ir.Const)):
        return u is v
    same = u.value == v.value or (u.value != u.value and v.value != v.value)
    return same and u.type == v.type and str(u.value) == str(v.value)


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)  # type: ignore[attr-defined]


def _instead(s: ast.stmt) -> tuple[str, str]:
    kind = type(s).__name__
    known = {
        "Try": ("try/except has no derivative", "Test the condition with 'if' before the operation."),
        "With": ("'with' (objmode) has no derivative", "Do this outside the differentiated function."),
        "FunctionDef": ("a function defined inside", "Define it outside with @njit and pass what it captures."),
        "Delete": ("'del' is not supported", "Leave it out: arrays are freed when the function ends."),
        "Import": ("an import inside", "Import at the top of the file."),
        "ImportFrom": ("an import inside", "Import at the top of the file."),
        "Global": ("'global' is not supported", "Pass the value as an argument."),
        "Nonlocal": ("'nonlocal' is not supported", "Return the value."),
        "Match": ("'match' is not supported", "Use if/elif."),
    }
    return known.get(kind, (f"the statement {kind} is not supported", "Use assignments, if, for and while."))


__all__ = ["Record", "Statements", "assigned"]
