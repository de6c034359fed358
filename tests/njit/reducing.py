"""Makes a failing program smaller: drops statements and parts of expressions as long as it fails the same way."""

from __future__ import annotations

import ast
import copy
import signal
from collections.abc import Callable, Iterator


def reduced(text: str, fails: Callable[[str], bool], attempts: int = 2000) -> str:
    """The smallest program found for which ``fails`` still holds; it must hold for ``text``."""
    text, again = ast.unparse(ast.parse(text)), True
    while again:
        again = False
        for candidate in smaller(text):
            attempts -= 1
            if attempts < 0:
                return text
            if len(candidate) < len(text) and holds(fails, candidate):
                text, again = candidate, True
                break
    return text


def holds(fails, text, seconds=10):
    """Whether it fails; a loop that does not end any more is stopped (where there is a timer)."""

    def stop(*_):
        raise TimeoutError

    timed = hasattr(signal, "setitimer")
    if timed:
        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return fails(text)
    except Exception:
        return False
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def smaller(text: str) -> Iterator[str]:
    """Programs with one thing less: whole statements first, then blocks instead of their heads, then expressions."""
    tree = ast.parse(text)
    for make in (without_statement, with_block_only, with_simpler_expression):
        for position in range(sum(1 for _ in ast.walk(tree))):
            new = copy.deepcopy(tree)
            if make(new, position):
                yield ast.unparse(ast.fix_missing_locations(new))


def node_at(tree, position):
    return list(ast.walk(tree))[position]


def without_statement(tree, position):
    """Drop one half of a block, or one statement of it."""
    node = node_at(tree, position)
    for parent in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and node in block:
                if isinstance(node, ast.Import | ast.ImportFrom | ast.Return) and parent is tree:
                    return False
                block.remove(node)
                if not block and field == "body":
                    block.append(ast.Pass())
                return not isinstance(node, ast.Pass)
    return False


def with_block_only(tree, position):
    """Replace a branch or a loop by what is inside."""
    node = node_at(tree, position)
    if not isinstance(node, ast.If | ast.While | ast.For):
        return False
    for parent in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and node in block:
                i = block.index(node)
                block[i : i + 1] = node.body
                return True
    return False


def with_simpler_expression(tree, position):
    """Replace an expression by one of its operands."""
    node = node_at(tree, position)
    operands = []
    if isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
    elif isinstance(node, ast.IfExp):
        operands = [node.body, node.orelse]
    elif isinstance(node, ast.Call):
        operands = node.args[:1]
    elif isinstance(node, ast.BoolOp):
        operands = node.values[:1]
    elif isinstance(node, ast.UnaryOp):
        operands = [node.operand]
    for operand in operands[:1] if position % 2 else operands[-1:]:
        for parent in ast.walk(tree):
            for field, value in ast.iter_fields(parent):
                if value is node:
                    setattr(parent, field, operand)
                    return True
                if isinstance(value, list) and node in value:
                    value[value.index(node)] = operand
                    return True
    return False
