"""Derivatives as @njit functions.

A derivative is a Numba function with the signature of its transformation. Its body calls a stub that Numba types by
asking here: for the types of a call the derivative program is written, printed and compiled. So derivatives are
typed lazily like any other Numba function, from Python and from compiled code. Machine code is kept on disk (`storage`).
"""

from __future__ import annotations

import inspect
import linecache
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numba import njit, prange, typeof, types

from . import fuse, ir, order, parallel, runtime
from .emit import Source, emit
from .front.build import Interpreter
from .front.objects import Py, Tup, leaves
from .pipeline import Generated
from .share import share
from .simplify import simplify
from .storage import Storage
from .tidy import fold

OPTIONS: Any = {"error_model": "numpy", "nogil": True}
_lock = threading.RLock()
_texts: dict[str, str] = {}


class Transformation(NamedTuple):
    """A derivative of a function: ``handler(interpreter, objects, node)`` writes a call of it."""

    name: str
    function: Any
    handler: Callable
    parameters: list[inspect.Parameter]
    options: tuple


class Compiled(NamedTuple):
    """One derivative program: its text, and the intermediate form's statistics."""

    source: Source
    program: ir.Function
    result: Any
    parallel: bool
    notes: list[str]


def program(t: Transformation, arg_types: Sequence[Any]) -> tuple[Compiled, list[Any]]:
    """The derivative program for the types of a call, and the objects its parameters are made of."""
    it = Interpreter(t.name)
    objects = [it.argument(a, p.name) for a, p in zip(arg_types, t.parameters, strict=True)]
    result = t.handler(it, objects)
    it.fn.body.yields = list(leaves(result) or []) if not isinstance(result, Py) else []
    fn, notes = finish(it.fn, it.uses_parallel)
    uses_prange = any(op.attrs.get("prange") for op in ir.walk(fn.body))
    taken = [p.name for p, o in zip(t.parameters, objects) if not isinstance(o, ir.Value)]
    return Compiled(
        emit(fn, uses_prange, taken, not options_of(t.function).get("boundscheck")),
        fn,
        result,
        uses_prange,
        notes,
    ), objects


def finish(fn: ir.Function, uses_parallel: bool = False) -> tuple[ir.Function, list[str]]:
    """The passes on a derivative program before it is printed, in place; notes on what runs in parallel and what not."""
    fold(fn)
    simplify(fn)
    share(fn)
    fuse.apply(fn)
    notes: list[str] = []
    if uses_parallel:
        notes = parallel.apply(simplify(fn))
        share(fn)
    order.apply(fn)
    return simplify(fn), notes


def dispatcher(t: Transformation, cache: bool = True) -> Any:
    """The derivative as an @njit function."""
    made = _make(t, cache)
    made._nbgrad_transformation = t
    made._nbgrad_front = lambda it, args, kwargs, node: t.handler(
        it, _bound(it, t, args, kwargs, node)
    )
    made._nbgrad_identity = (t.name, t.function, t.options)
    return made


def _bound(it: Interpreter, t: Transformation, args: list, kwargs: dict, node: Any) -> list[Any]:
    """Arguments of a call in the order of the parameters, defaults filled in."""
    out = [it.materialise(a) for a in args]
    kwargs = {k: it.materialise(a) for k, a in kwargs.items()}
    for k, p in enumerate(t.parameters):
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            out[k:] = [Tup(tuple(out[k:]))]
        elif k < len(out):
            continue
        elif p.name in kwargs:
            out.append(kwargs[p.name])
        elif p.default is not inspect.Parameter.empty:
            out.append(it.wrap(p.default, p.name, node))
        else:
            raise it.refuse(node, f"'{t.name}' misses its argument '{p.name}'", "Pass it.")
    return out


def _make(t: Transformation, cache: bool) -> Any:
    name = _identifier(t.name)
    text = f"def {name}({_signature(t)}):\n    raise NotImplementedError\n"
    made = _function(text, name, {})
    made.__defaults__ = (
        tuple(p.default for p in t.parameters if p.default is not inspect.Parameter.empty) or None
    )
    made.__doc__ = (
        f"{t.name}: a derivative of '{getattr(t.function, '__name__', 'f')}' made by nbgrad.njit."
    )
    out: Any = njit(pipeline_class=Generated, **options_of(t.function), **OPTIONS)(made)
    made._nbgrad_body = lambda arg_types: _implement(t, arg_types, out._cache.suffix)
    out._cache = Storage(made, lambda: (t.name, t.function, t.options, text), cache)
    return out


def _signature(t: Transformation) -> str:
    """The parameters as text."""
    star = {inspect.Parameter.VAR_POSITIONAL: "*"}
    return ", ".join(star.get(p.kind, "") + p.name for p in t.parameters)


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def _function(text: str, name: str, space: dict[str, Any], suffix: str = "") -> Any:
    """A Python function made from text."""
    file = f"<nbgrad.njit {name} {len(_texts)}>"
    _texts[file] = text
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    import math

    import numpy as np

    full = {"np": np, "math": math, "prange": prange, "__name__": runtime.__name__, **space}
    exec(compile(text, file, "exec"), full)
    if suffix:
        full[name].__qualname__ = f"{name}_{suffix}"
    return full[name]


def options_of(function: Any) -> dict[str, Any]:
    """The options a derivative takes over from a function."""
    given = getattr(function, "targetoptions", {})
    return {k: given[k] for k in ("fastmath", "boundscheck") if given.get(k)}


def _implement(t: Transformation, arg_types: list[Any], suffix: str) -> Any:
    """What Numba compiles for a call with these types; ``suffix`` makes the names of its functions unique."""
    with _lock:
        compiled, objects = program(t, [_plain(a) for a in arg_types])
    source = compiled.source
    names = [p.name for p in t.parameters]
    flat = [text for n, o in zip(names, objects) for text in _paths(o, n)]
    space: dict[str, Any] = dict(source.names)
    lines = [f"    {p} = {x}" for p, x in zip(source.params, flat, strict=True) if p != x]
    result = _rebuilt(compiled.result, iter(source.results), space)
    head = f"def implementation({_signature(t)}):"
    text = "\n".join([head, *lines, *source.lines, f"    return {result}"]) + "\n"
    made = _function(text, "implementation", space, suffix)
    made._nbgrad_parallel = compiled.parallel
    return made


def _plain(t: Any) -> Any:
    """A literal number is a number, a float as default an argument like others: the program serves all values.

    Flags, whole numbers, texts and None left out are known: kinds may hang on them, as for Numba.
    """
    if isinstance(t, types.Omitted) and not isinstance(t.value, int | str | None):
        t = typeof(t.value)
    return types.unliteral(t) if isinstance(t, types.IntegerLiteral | types.BooleanLiteral) else t


def _paths(obj: Any, text: str) -> list[str]:
    """How the parameters of the program are found in an argument."""
    if isinstance(obj, ir.Value):
        return [] if isinstance(obj, ir.Const) else [text]
    if isinstance(obj, Tup):
        return [p for k, x in enumerate(obj.items) for p in _paths(x, f"{text}[{k}]")]
    return []


def _rebuilt(obj: Any, it: Any, space: dict[str, Any]) -> str:
    """The text that builds the result from the values of the program."""
    if isinstance(obj, ir.Value):
        return next(it)
    if isinstance(obj, Py):
        if obj.value is None or isinstance(obj.value, str):
            return repr(obj.value)
        name = f"object_{len(space)}"
        space[name] = obj.value
        return name
    items = [_rebuilt(x, it, space) for x in obj.items]
    if obj.cls not in (None, tuple) and hasattr(obj.cls, "_fields"):
        name = f"cls_{obj.cls.__name__}"
        space[name] = obj.cls
        return f"{name}({', '.join(items)})"
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
