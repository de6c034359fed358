"""Loops: the values they carry, interpreted until their types stand still; short ones are written out."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from .. import ir, scalars
from .base import UNROLL_COPIES, UNROLL_NODES, UNROLL_TRIPS, Base, describe
from .jumps import outside_functions
from .objects import (
    Lazy,
    Py,
    Range,
    Tup,
    Undefined,
    Zip,
    leaves,
    rebuild,
    same_structure,
    unified,
)


class _RetryError(Exception):
    """A loop has to be interpreted again with wider types of what it carries."""


def assigned(nodes: list[ast.stmt]) -> list[str]:
    """Names that statements assign."""
    found: dict[str, None] = {}
    for s in nodes:
        for n in outside_functions(s):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                found[n.id] = None
            if isinstance(n, ast.FunctionDef):
                found[n.name] = None
            flag = getattr(n, "exit_flag", None)
            if flag:
                found[flag] = None
    return list(found)


class Loops(Base):
    """Executes loops."""

    def do_For(self, s: ast.For) -> None:
        """A loop over a range, a tuple, arrays, zip or enumerate."""
        it = self.iterable(self.eval(s.iter), s)
        flag = getattr(s, "exit_flag", None)
        count = self.trips(it, s)
        if isinstance(it, Tup) or (
            isinstance(it, Zip) and any(isinstance(x, Tup) for x in it.items)
        ):
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
        return (
            count <= UNROLL_TRIPS
            and self.unrolled * count <= UNROLL_COPIES
            and nodes * count <= UNROLL_NODES
        )

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
        names = assigned([*s.body, *([s] if isinstance(s, ast.For) else [])])
        ops, known = len(self.b.block.ops), dict(self.known[self.b.block])
        wider = self.loop_types.setdefault((*self.path, id(s)), {})
        for _ in range(12):
            try:
                self.frame.env = dict(before)
                self.attempt(s, flag, lo, hi, attrs, enter, names, before, wider)
                return
            except _RetryError:
                del self.b.block.ops[ops:]
                self.known[self.b.block] = dict(known)
        raise self.refuse(
            s, "the types this loop carries do not settle", "Give the variables one type."
        )

    def attempt(
        self,
        s: Any,
        flag: str | None,
        lo: Any,
        hi: Any,
        attrs: dict,
        enter: Any,
        names: list,
        before: dict,
        wider: dict,
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
        op = self.nested(
            "for" if lo is not None else "while",
            [*((lo, hi) if lo is not None else ()), *inits],
            attrs=dict(attrs),
            blocks=blocks,
        )
        phis = iter(op.phis)
        for n, obj in carried.items():
            inner = rebuild(obj, [next(phis) for _ in leaves(obj) or ()])
            self.enter_phis(n, obj, inner, wider)
            self.frame.env[n] = ir.Const(False, types.boolean) if n in (flag, "$done") else inner
        for n in names:
            if n not in carried:
                old = before.get(n)
                self.frame.env[n] = (
                    old
                    if isinstance(old, Py)
                    else Undefined("in the first iteration it has no value")
                )
        self.body(s, op, enter)
        self.close(s, op, flag, carried, names, before, wider)

    def placeholder(self, like: Any) -> Any:
        """What a name holds that is first assigned inside a loop: zeros, and arrays without elements."""
        zero = self.integer(0)
        parts = [
            self.alloc([zero] * p.type.ndim, p.type.dtype)
            if ir.is_array(p)
            else scalars.zero(p.type)
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

    def close(
        self,
        s: Any,
        op: ir.Op,
        flag: str | None,
        carried: dict,
        names: list,
        before: dict,
        wider: dict,
    ) -> None:
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
                raise self.refuse(
                    s,
                    f"'{n}' is {describe(obj)} before this loop and {describe(new)} after an iteration",
                    "Use two names, or give it one kind from the start.",
                )
            if isinstance(new, Undefined | Py | None):
                new = rebuild(obj, leaves(obj) or ())
                self.frame.env[n] = Undefined("the loop leaves it without a value")
            retry |= self.widen(s, n, obj, new, wider, op, len(yields))
            yields += leaves(new) or ()
        retry |= self.late(s, names, carried, env, wider)
        if retry:
            raise _RetryError
        with self.resumed(last):
            last.yields = [
                y if ir.is_array(y) else self.cast(y, p.type)
                for y, p in zip(yields, op.phis, strict=True)
            ]
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
        for k, w in enumerate(leaves(new) or ()):
            p = op.phis[first + k]
            t = unified(p.type, w.type)
            if t is None:
                raise self.refuse(
                    s,
                    f"'{n}' is {p.type} before this loop and {w.type} after an iteration",
                    "Give it one type.",
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
            if (
                n in carried
                or v is None
                or isinstance(v, Undefined | Py | Lazy)
                or ("start", n) in wider
            ):
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

    def after(
        self, op: ir.Op, carried: dict, names: list, env: dict, before: dict, results: Any
    ) -> None:
        """Names behind a loop."""
        new = dict(before)
        for n, obj in carried.items():
            obj2 = rebuild(obj, [next(results) for _ in leaves(obj) or ()])
            for v, p, r in zip(
                leaves(obj) or (), _phis_of(op, carried, n), leaves(obj2) or (), strict=True
            ):
                if ir.is_array(r):
                    self.roots[r] = None
                    if p in self.sizes:
                        self.sizes[r] = self.shape(v)
            new[n] = env[n] if isinstance(env.get(n), Undefined) else obj2
        for n in names:
            if n not in carried:
                v = env.get(n)
                if isinstance(v, Py) or n not in before:
                    new[n] = (
                        v
                        if isinstance(v, Py)
                        else Undefined("it is an array made inside a loop; make it before the loop")
                    )
        self.frame.env = new

    def do_While(self, s: ast.While) -> None:
        """A loop with a condition."""
        self.carry(s, getattr(s, "exit_flag", None), None, None, {}, None)


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
    return all(x is y or equal(x, y) for x, y in zip(a, b, strict=True))


def equal(u: ir.Value, v: ir.Value) -> bool:
    """Whether two values are one, or equal constants."""
    if not (isinstance(u, ir.Const) and isinstance(v, ir.Const)):
        return u is v
    same = u.value == v.value or (u.value != u.value and v.value != v.value)
    return same and u.type == v.type and str(u.value) == str(v.value)
