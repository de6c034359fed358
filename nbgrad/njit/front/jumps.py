"""Break, continue and early return, rewritten as structured code.

What follows a jump moves into the other branch of its condition; where a condition only sometimes jumps, a flag guards
what follows. A loop that may be left early carries the name of its exit flag, which is tested at the end of its body.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import Any

from ...errors import UnsupportedError

RETURN, DONE = "$return", "$done"


def without_jumps(body: list[ast.stmt], source: Any) -> list[ast.stmt]:
    """The statements of a function with no jump but by structure; its value is assigned to ``$return``."""
    if not _always(body) and any(
        isinstance(n, ast.Return) for s in body for n in outside_functions(s)
    ):
        end = ast.copy_location(ast.Return(ast.Constant(None)), body[-1])
        body = [*body, ast.fix_missing_locations(end)]
    return _Rewriter(source).block(body, None, ())


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a piece of text, without those of functions defined in it."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.Lambda):
        for n in ast.iter_child_nodes(node):
            yield from outside_functions(n)


def _returns(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) for n in outside_functions(node))


def _jumps(node: ast.AST, inside: bool = False) -> bool:
    """Whether a statement holds a return, or a break or continue of a loop around it."""
    if isinstance(node, ast.Return) or (not inside and isinstance(node, ast.Break | ast.Continue)):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return False
    if isinstance(node, ast.For | ast.While):  # what is in its else belongs to the loop around
        own = any(_jumps(n, True) for n in node.body)
        return own or any(_jumps(n, inside) for n in node.orelse)
    return any(_jumps(n, inside) for n in ast.iter_child_nodes(node))


def _leaves(node: ast.AST) -> bool:
    """Whether a statement of a loop's body leaves that loop."""
    if isinstance(node, ast.Break | ast.Return):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return False
    if isinstance(node, ast.For | ast.While):
        return _returns(node) or any(_leaves(n) for n in node.orelse)
    return any(_leaves(n) for n in ast.iter_child_nodes(node))


def _always(stmts: list[ast.stmt]) -> bool:
    """Whether control never reaches the end of the statements."""
    if not stmts:
        return False
    last = stmts[-1]
    if isinstance(last, ast.Return | ast.Break | ast.Continue | ast.Raise):
        return True
    if isinstance(last, ast.While):
        endless = isinstance(last.test, ast.Constant) and bool(last.test.value)
        return endless and not any(_breaks(s) for s in last.body)
    return isinstance(last, ast.If) and _always(last.body) and _always(last.orelse)


def _breaks(node: ast.AST) -> bool:
    """Whether a statement of a loop's body ends that loop by break."""
    if isinstance(node, ast.Break):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return False
    if isinstance(node, ast.For | ast.While):
        return any(_breaks(n) for n in node.orelse)
    return any(_breaks(n) for n in ast.iter_child_nodes(node))


def _set(name: str, value: ast.expr | bool, at: ast.AST) -> ast.stmt:
    v = ast.Constant(value) if isinstance(value, bool) else value
    node = ast.Assign([ast.Name(name, ast.Store())], v)
    return ast.fix_missing_locations(ast.copy_location(node, at))


def _if(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], at: ast.AST) -> ast.If:
    node = ast.If(test, body or [ast.copy_location(ast.Pass(), at)], orelse)
    return ast.fix_missing_locations(ast.copy_location(node, at))


def _unless(name: str, body: list[ast.stmt], at: ast.AST) -> ast.If:
    return _if(ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load())), body, [], at)


def _tested_inside(st: ast.While) -> ast.While:
    """A loop whose condition assigns names, with the condition as its first statement."""
    end = ast.copy_location(ast.Break(), st)
    leave = _if(ast.UnaryOp(ast.Not(), st.test), [*st.orelse, end], [], st)
    new = ast.While(ast.Constant(True), [leave, *st.body], [])
    return ast.fix_missing_locations(ast.copy_location(new, st))


class _Rewriter:
    def __init__(self, source: Any):
        self.source = source
        self.count = itertools.count()

    def block(
        self, stmts: list[ast.stmt], loop: str | None, skips: tuple[str, ...]
    ) -> list[ast.stmt]:
        """Rewrite statements; ``loop`` is the exit flag of the loop around, ``skips`` the flags a jump sets."""
        out: list[ast.stmt] = []
        for k, st in enumerate(stmts):
            rest = stmts[k + 1 :]
            if isinstance(st, ast.Return | ast.Break | ast.Continue):
                out += self.jump(st, loop, skips)
                return out
            if isinstance(st, ast.If) and _jumps(st):
                return out + self.branch(st, rest, loop, skips)
            if isinstance(st, ast.If):
                st = _if(
                    st.test,
                    self.block(st.body, loop, skips),
                    self.block(st.orelse, loop, skips),
                    st,
                )
            if isinstance(st, ast.For | ast.While):
                done = self.loop(st, rest, loop, skips)
                out += done[0]
                if done[1]:
                    return out
                continue
            out.append(st)
        return out

    def jump(self, st: Any, loop: str | None, skips: tuple[str, ...]) -> list[ast.stmt]:
        out = [_set(s, True, st) for s in skips]
        if isinstance(st, ast.Return):
            out.append(_set(RETURN, st.value or ast.Constant(None), st))
            if loop is not None:
                out.append(_set(DONE, True, st))
        if loop is not None and not isinstance(st, ast.Continue):
            out.append(_set(loop, True, st))
        return out

    def branch(
        self, st: ast.If, rest: list, loop: str | None, skips: tuple[str, ...]
    ) -> list[ast.stmt]:
        """A condition with jumps inside, and what follows it."""
        if _always(st.body):
            other = self.block([*st.orelse, *rest], loop, skips)
            return [_if(st.test, self.block(st.body, loop, skips), other, st)]
        if st.orelse and _always(st.orelse):
            body = self.block([*st.body, *rest], loop, skips)
            return [_if(st.test, body, self.block(st.orelse, loop, skips), st)]
        flag = f"$skip{next(self.count)}"
        inner = (*skips, flag)
        out = [_set(flag, False, st)]
        out.append(
            _if(st.test, self.block(st.body, loop, inner), self.block(st.orelse, loop, inner), st)
        )
        if rest:
            out.append(_unless(flag, self.block(rest, loop, skips), st))
        return out

    def loop(
        self, st: Any, rest: list, loop: str | None, skips: tuple[str, ...]
    ) -> tuple[list, bool]:
        """A loop, and whether what follows it has been taken in."""
        if isinstance(st, ast.While) and any(
            isinstance(n, ast.NamedExpr) for n in outside_functions(st.test)
        ):
            st = _tested_inside(st)
        leaves = any(_leaves(s) for s in st.body)
        flag = f"$exit{next(self.count)}" if leaves else None
        returns = _returns(st)
        out: list[ast.stmt] = []
        if flag is not None:
            out.append(_set(flag, False, st))
        if returns:
            out.append(_set(DONE, False, st))
        # within the body a jump ends the iteration, so flags of conditions around the loop do not matter there
        body = self.block(st.body, flag, ()) or [ast.copy_location(ast.Pass(), st)]
        if flag is None and any(_jumps(s) for s in st.body):
            flag = None
        if isinstance(st, ast.For):
            node: Any = ast.For(st.target, st.iter, body, [])
        else:
            node = ast.While(st.test, body, [])
        ast.copy_location(node, st)
        node.exit_flag = flag
        out.append(node)
        if st.orelse:
            rest = [
                _unless(flag, st.orelse, st)
                if flag
                else _if(ast.Constant(True), st.orelse, [], st),
                *rest,
            ]
        if not returns:
            if st.orelse:
                out += self.block(rest, loop, skips)
                return out, True
            return out, False
        leave = [_set(s, True, st) for s in skips] + (
            [_set(loop, True, st)] if loop is not None else []
        )
        follow = self.block(rest, loop, skips)
        out.append(_if(ast.Name(DONE, ast.Load()), leave, follow, st))
        return out, True


def refuse(source: Any, node: ast.AST, what: str, instead: str) -> UnsupportedError:
    """The error for a statement or an expression that has no derivative here: place, text, and what to write instead."""
    line = source.first + getattr(node, "lineno", 1) - 1
    index = getattr(node, "lineno", 1) - 1
    text = source.lines[index].strip() if 0 <= index < len(source.lines) else ""
    return UnsupportedError(
        f"njit: {what} (in '{source.name}', {source.file}, line {line}: `{text}`). {instead}"
    )
