"""Statements: assignments, conditions, loops."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from .. import ir, scalars
from . import source
from .base import describe
from .loops import Loops, equal
from .objects import (
    Closure,
    Lazy,
    Py,
    Tup,
    Undefined,
    leaves,
    rebuild,
    same_python,
    same_structure,
    unified,
)


class Statements(Loops):
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
        if isinstance(v, Lazy) and not (
            len(s.targets) == 1 and isinstance(s.targets[0], ast.Subscript)
        ):
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
            raise self.refuse(
                target, "this assignment target is not supported", "Assign to names or elements."
            )

    def unpack(self, target: Any, v: Any) -> None:
        """``a, b = v``."""
        if isinstance(v, Lazy):
            v = self.materialise(v)
        if isinstance(v, ir.Value) and ir.is_array(v):
            items: Any = [
                self.element(v, [self.integer(k)], target) for k in range(len(target.elts))
            ]
        elif isinstance(v, Tup):
            items = v.items
        else:
            raise self.refuse(
                target, f"{describe(v)} cannot be unpacked", "Unpack a tuple or an array."
            )
        stars = [k for k, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
        if stars:
            k, extra = stars[0], len(items) - len(target.elts) + 1
            items = [*items[:k], Tup(tuple(items[k : k + extra])), *items[k + extra :]]
        if len(items) != len(target.elts):
            raise self.refuse(
                target,
                f"{len(items)} values for {len(target.elts)} names",
                "Unpack as many as there are.",
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

    def do_FunctionDef(self, s: ast.FunctionDef) -> None:
        """A function defined inside."""
        if s.decorator_list:
            raise self.refuse(
                s.decorator_list[0], "a decorated function defined inside", "Define it outside."
            )
        self.frame.env[s.name] = self.closure(s)

    def on_Lambda(self, e: ast.Lambda) -> Py:
        """A function defined inside, as an expression."""
        return self.closure(e)

    def closure(self, node: Any) -> Py:
        """A function that sees the names of the one around it as they are when it is called."""
        a = node.args
        if a.kwonlyargs or a.kwarg:
            raise self.refuse(
                node, "a function inside with arguments by keyword only", "Give them positions."
            )
        defaults = [self.materialise(self.eval(d)) for d in a.defaults]
        return Py(Closure(source.inner(node, self.frame.source), defaults, self.frame))

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
        result = self.merge(op, values[0], values[1], "", node) if values[0] is not None else None
        return op, result

    def merge(self, op: ir.Op, x: Any, y: Any, name: str, node: ast.AST) -> Any:
        """One object for what either branch gives a name."""
        if x is y:
            return x
        if isinstance(x, Py) and isinstance(y, Py) and same_python(x.value, y.value):
            return x
        for u, v in ((x, y), (y, x)):
            if isinstance(u, Undefined) and isinstance(v, Py):
                return v
        x, y = self.settled(op.blocks[0], x), self.settled(op.blocks[1], y)
        if isinstance(x, Undefined) or isinstance(y, Undefined):
            x, y = self.filled(x, y), self.filled(y, x)
            if name.startswith(
                "$"
            ):  # a value returned on one path only is not looked at on the other
                x, y = self.empty_in(op.blocks[0], x, y), self.empty_in(op.blocks[1], y, x)
            if isinstance(x, Undefined) or isinstance(y, Undefined):
                return Undefined()
        if not same_structure(x, y):
            return Undefined(f"it is {describe(x)} in one branch and {describe(y)} in the other")
        out = []
        for u, v in zip(leaves(x) or (), leaves(y) or (), strict=True):
            out.append(u if u is v or equal(u, v) else self.join(op, u, v, name))
            if out[-1] is None:
                return Undefined(
                    f"it is {describe(u)} in one branch and {describe(v)} in the other"
                )
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

    # -- checks -------------------------------------------------------------------------------------------------
    def do_Assert(self, s: ast.Assert) -> None:
        """A checked condition."""
        test = self.truth(self.eval(s.test), s.test)
        if test is True:
            return
        v = ir.Const(False, types.boolean) if test is False else test
        text = "" if s.msg is None else _words(s.msg)
        self.b.op("check", [v], attrs={"error": "AssertionError", "message": text})

    def do_Raise(self, s: ast.Raise) -> None:
        """An error raised on this path; values in its text stay expressions."""
        call = s.exc if isinstance(s.exc, ast.Call) else None
        error: Any = RuntimeError
        if s.exc is not None:
            found = self.eval(call.func if call is not None else s.exc)
            error = found.value if isinstance(found, Py) else None
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            raise self.refuse(s, "what is raised is no class of exceptions", "Raise ValueError.")
        text = ", ".join(map(_words, call.args)) if call is not None else ""
        name = error.__name__ if error.__module__ == "builtins" else error
        attrs = {"error": name, "message": text}
        self.b.op("check", [ir.Const(False, types.boolean)], attrs=attrs)

    def do_Delete(self, s: ast.Delete) -> None:
        """``del name``."""
        for t in s.targets:
            if not isinstance(t, ast.Name):
                raise self.refuse(s, "'del' of something else than a name", "Leave it out.")
            self.frame.env[t.id] = Undefined("it has been deleted")


def _words(e: ast.expr) -> str:
    """The text of an exception's argument."""
    if isinstance(e, ast.Constant):
        return str(e.value)
    return ast.unparse(e)[2:-1] if isinstance(e, ast.JoinedStr) else ast.unparse(e)


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)  # type: ignore[attr-defined]


def _instead(s: ast.stmt) -> tuple[str, str]:
    kind = type(s).__name__
    known = {
        "Try": (
            "try/except has no derivative",
            "Test the condition with 'if' before the operation.",
        ),
        "With": (
            "'with' (objmode) has no derivative",
            "Do this outside the differentiated function.",
        ),
        "ClassDef": ("a class defined inside", "Define it outside."),
        "Import": ("an import inside", "Import at the top of the file."),
        "ImportFrom": ("an import inside", "Import at the top of the file."),
        "Global": ("'global' is not supported", "Pass the value as an argument."),
        "Nonlocal": ("'nonlocal' is not supported", "Return the value."),
        "Match": ("'match' is not supported", "Use if/elif."),
    }
    return known.get(
        kind, (f"the statement {kind} is not supported", "Use assignments, if, for and while.")
    )
