"""The syntax tree of a function, found through its source file."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types as pytypes
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import UnsupportedError
from .jumps import without_jumps


class Source(NamedTuple):
    """A parsed function: its tree without jumps, the lines of its text, and where they are."""

    name: str
    file: str
    first: int
    lines: tuple[str, ...]
    args: ast.arguments
    body: list[ast.stmt]


def python_function(f: Any) -> pytypes.FunctionType:
    """The Python function of a dispatcher, a ufunc made by ``vectorize``, or itself."""
    f = getattr(f, "py_func", f)
    f = getattr(getattr(f, "_dispatcher", None), "py_func", f)
    return f


@lru_cache(maxsize=1024)
def parse(f: pytypes.FunctionType) -> Source:
    """Parse a function.

    Raises
    ------
    UnsupportedError : the source text is not to be found (a function made by ``exec``, or by a generated lambda).
    """
    try:
        lines, first = inspect.getsourcelines(f)
    except (OSError, TypeError):
        raise UnsupportedError(
            f"njit: the source of '{f.__name__}' is not available; derivatives are made from the source text. "
            "Put the function into a file (or a notebook cell) instead of making it with exec or eval."
        ) from None
    tree = _tree("".join(lines))
    node = _find(tree, f)
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
    else:
        body = node.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    name = getattr(f, "__name__", "function")
    text = tuple(x.rstrip("\n") for x in lines)
    source = Source(name, f.__code__.co_filename, first, text, node.args, [])
    return source._replace(body=without_jumps(body, source))


def inner(node: Any, outer: Source) -> Source:
    """A function defined inside another."""
    if not hasattr(node, "nbgrad_body"):  # made once: loops are known by their nodes
        short = isinstance(node, ast.Lambda)
        body = [ast.copy_location(ast.Return(node.body), node)] if short else node.body
        node.nbgrad_body = without_jumps(body, outer)  # type: ignore[arg-type]
    name = getattr(node, "name", "<lambda>")
    return outer._replace(name=name, args=node.args, body=node.nbgrad_body)


def stand_in(f: pytypes.FunctionType) -> Source:
    """The place of a function whose text is not read."""
    names = [ast.arg(n) for n in f.__code__.co_varnames[: f.__code__.co_argcount]]
    args = ast.arguments([], names, None, [], [], None, [])
    return Source(f.__name__, f.__code__.co_filename, f.__code__.co_firstlineno, (), args, [])


def _tree(text: str) -> ast.Module:
    text = textwrap.dedent(text)
    try:
        return ast.parse(text)
    except SyntaxError:  # a lambda inside a longer expression
        for cut in range(len(text), 0, -1):
            start = text.find("lambda")
            try:
                return ast.parse(text[start:cut].rstrip().rstrip(","))
            except SyntaxError:
                continue
        raise


def _find(tree: ast.Module, f: pytypes.FunctionType) -> Any:
    """The definition in a piece of text that compiles to the function."""
    wanted = f.__code__.co_varnames[: f.__code__.co_argcount]
    found = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef | ast.Lambda)
        and getattr(n, "name", "<lambda>") == f.__code__.co_name
        and tuple(a.arg for a in (*n.args.posonlyargs, *n.args.args)) == wanted
    ]
    if len(found) > 1 and f.__code__.co_name == "<lambda>":
        alike = [
            n
            for n in found
            if isinstance(n, ast.Lambda) and _signature(_code_of(n)) == _signature(f.__code__)
        ]
        exact = [n for n in alike if _code_of(n).co_code == f.__code__.co_code]
        found = exact or alike or found
        if len({ast.dump(n) for n in found}) > 1:
            raise UnsupportedError(
                f"njit: line {f.__code__.co_firstlineno} of {f.__code__.co_filename} has several lambdas that cannot "
                "be told apart; write them as functions with def."
            )
    if not found:
        raise UnsupportedError(
            f"njit: the text of '{f.__name__}' in {f.__code__.co_filename} does not match the function that runs; "
            "was the file edited since it was imported? Import it again."
        )
    return found[0]


def _code_of(node: ast.Lambda) -> pytypes.CodeType:
    return compile(ast.fix_missing_locations(ast.Expression(node)), "<lambda>", "eval").co_consts[0]


def _signature(code: pytypes.CodeType) -> tuple:
    """What tells a lambda from most others on its line, however it was compiled."""
    return code.co_names, tuple(c for c in code.co_consts if not isinstance(c, pytypes.CodeType))


def freevars(f: pytypes.FunctionType) -> dict[str, Any]:
    """The names a function sees outside itself: globals and closure."""
    import builtins

    names = dict(vars(builtins))
    names.update(f.__globals__)
    for n, c in zip(f.__code__.co_freevars, f.__closure__ or ()):
        try:
            names[n] = c.cell_contents
        except ValueError:  # not yet assigned
            continue
    return names
