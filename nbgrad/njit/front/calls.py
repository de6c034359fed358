"""Calls: builtins, array makers, reductions, methods, substitutes, rules, and other functions, which are inlined."""

from __future__ import annotations

import ast
import inspect
import operator
from typing import Any

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.np.numpy_support import as_dtype
from numba.np.ufunc.dufunc import DUFunc

from .. import functions, ir, rules, scalars
from ..calls import Fixed
from . import pieces, source
from .base import Frame, describe
from .handlers import (
    ARGUMENTS,
    HANDLERS,
    METHOD_ARGUMENTS,
    METHODS,
    WITH_KEYWORDS,
    is_number,
    name_of,
)
from .makers import Makers
from .objects import Closure, Lazy, Method, Py, Tup, Undefined, leaves

MAX_DEPTH, MAX_RANK = 60, 4


class Calls(Makers):
    """Calls of functions and methods."""

    def on_Call(self, e: ast.Call) -> Any:
        """A call."""
        f = self.eval(e.func)
        args: list[Any] = []
        for a in e.args:
            v = self.eval(a.value if isinstance(a, ast.Starred) else a)
            args += v.items if isinstance(a, ast.Starred) and isinstance(v, Tup) else [v]
        if any(k.arg is None for k in e.keywords):
            raise self.refuse(e, "arguments given by '**'", "Write them out.")
        kwargs = {k.arg: self.eval(k.value) for k in e.keywords if k.arg}
        if isinstance(f, Method):
            return self.call_method(f, args, kwargs, e)
        if not isinstance(f, Py):
            raise self.refuse(e, f"{describe(f)} is called", "Call functions.")
        return self.call_function(f.value, args, kwargs, e)

    def call_function(self, f: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """Call a Python object known now."""
        special = getattr(f, "_nbgrad_front", None)
        if special is not None:
            return special(self, args, kwargs, node)
        try:
            handler = HANDLERS.get(f)
        except TypeError:
            handler = None
        if handler is not None:
            args, kwargs = self.in_order(f, handler, args, kwargs, node)
            try:
                return getattr(self, "call_" + handler)(f, args, kwargs, node)
            except (TypeError, IndexError) as e:
                if f in rules.SUBSTITUTES:
                    self.check_rank(f, args, node)
                    return self.inline(rules.SUBSTITUTES[f], args, kwargs, node)
                raise self.refuse(
                    node, f"this form of '{name_of(f)}' ({e})", "Use its plain form."
                ) from None
        if f in rules.SUBSTITUTES:
            self.check_rank(f, args, node)
            return self.inline(rules.SUBSTITUTES[f], args, kwargs, node)
        if f is np.dot and len(args) == 3:
            self.assign_array(args[2], self.call_function(f, args[:2], kwargs, node), node)
            return args[2]
        if f in rules.RULES:
            return self.opaque(rules.RULES[f], self.positional(f, args, kwargs, node), node)
        if f in functions.FROM_PYTHON and not kwargs:
            return self.call_scalar(f, args, kwargs, node)
        return self.call_user(f, args, kwargs, node)

    def in_order(
        self, f: Any, handler: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of what is handled here, by position where they can be; what it does not take is refused."""
        names = ARGUMENTS.get(f, "").split()
        args, kwargs = list(args), dict(kwargs)
        while len(args) < len(names) and names[len(args)] in kwargs:
            args.append(kwargs.pop(names[len(args)]))
        known = names[len(args) :] if handler in WITH_KEYWORDS else ()
        for k in kwargs:
            if k not in known:
                raise self.refuse(
                    node,
                    f"the argument '{k}' of '{name_of(f)}'",
                    f"It takes {', '.join(names) or 'no keywords'} here.",
                )
        if names and len(args) > len(names):
            raise self.refuse(
                node, f"{len(args)} arguments for '{name_of(f)}'", f"It takes {', '.join(names)}."
            )
        return args, kwargs

    def check_rank(self, f: Any, args: list[Any], node: ast.AST) -> None:
        """Raise for arrays of more dimensions than NumPy's functions are written out for."""
        for a in args:
            if (
                isinstance(a, ir.Value | Lazy)
                and not is_number(a)
                and len(self.shape(a)) > MAX_RANK
            ):
                raise self.refuse(
                    node,
                    f"'{name_of(f)}' of a {len(self.shape(a))}-D array",
                    f"Reshape it to at most {MAX_RANK} dimensions.",
                )

    def call_user(self, f: Any, args: list[Any], kwargs: dict, node: ast.AST) -> Any:
        """Dispatchers, ufuncs, types, classes."""
        if isinstance(f, Dispatcher):
            return self.inline(f, args, kwargs, node)
        if isinstance(f, DUFunc):
            return self.vectorized(f, args, node)
        if isinstance(f, types.Type) and not isinstance(f, types.Array):
            return self.converted(args[0], f, node)
        if f in (np.finfo, np.iinfo):
            return Py(f(as_dtype(self.dtype_of(args[0], None, node))))
        if isinstance(f, type) and issubclass(f, np.generic):
            return self.converted(args[0], scalars.type_of(np.dtype(f)), node)
        if isinstance(f, np.dtype):
            return self.converted(args[0], scalars.type_of(f), node)
        if isinstance(f, type) and issubclass(f, tuple) and hasattr(f, "_fields"):
            names = f._fields  # type: ignore[attr-defined]
            items = [*args, *(kwargs[n] for n in names[len(args) :])]
            return Tup(tuple(self.materialise(x) if isinstance(x, Lazy) else x for x in items), f)
        if (getattr(f, "__module__", None) or "").startswith("nbgrad.njit.") and hasattr(
            f, "__code__"
        ):
            return self.inline(f, args, kwargs, node)
        module = getattr(f, "__module__", None) or ""
        owner = getattr(getattr(f, "__self__", None), "__class__", type(None)).__module__ or ""
        if "random" in module.split(".") or "random" in owner:
            raise self.refuse(
                node,
                f"'{name_of(f)}' draws random numbers",
                "Draw them outside and pass them as an argument.",
            )
        if kwargs and f in functions.FROM_PYTHON:
            raise self.refuse(
                node,
                f"the argument '{next(iter(kwargs))}' of '{name_of(f)}'",
                "Assign the result: out[:] = f(x).",
            )
        if type(f).__name__ in ("StencilFunc", "GUFunc"):
            raise self.refuse(
                node, f"a call of a {type(f).__name__}", "Write its loops in an @njit function."
            )
        if hasattr(f, "__code__"):
            raise self.refuse(
                node, f"'{name_of(f)}' is a plain Python function", "Decorate it with @njit."
            )
        raise self.refuse(
            node,
            f"'{name_of(f)}' has no derivative here",
            "Write it out with supported functions, or give it rules with nbgrad.njit.custom_vjp.",
        )

    # -- inlining ------------------------------------------------------------------------------------------
    def inline(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """Interpret another function here."""
        owner, function = function, source.python_function(function)
        closure = isinstance(function, Closure)
        if any(fr.function is function for fr in self.frames):
            raise self.refuse(
                node, f"'{function.__name__}' calls itself", "Write the recursion as a loop."
            )
        if len(self.frames) > MAX_DEPTH:
            raise self.refuse(node, "calls are nested too deep", "Flatten them.")
        if not closure:
            self.deps[function] = None
        src = function.source if closure else source.parse(function)
        args = [self.materialise(a) if isinstance(a, Lazy) else a for a in args]
        kwargs = {k: self.materialise(a) if isinstance(a, Lazy) else a for k, a in kwargs.items()}
        env = self.bind(function, src, args, kwargs, node)
        self.path.append(id(node))
        line = self.b.line
        self.frames.append(Frame(function, src, env, owner, node))
        try:
            self.run(src.body)
            result = self.frame.env.get("$return", Py(None))
        finally:
            self.frames.pop()
            self.path.pop()
            self.b.line = line
        if isinstance(result, Undefined):
            raise self.refuse(
                node,
                f"the result of '{function.__name__}' is not one kind of object: {result.why}",
                "Return the same kind on every path.",
            )
        return result

    def bind(
        self, function: Any, src: source.Source, args: list, kwargs: dict, node: ast.AST
    ) -> dict[str, Any]:
        """Names of a function's parameters."""
        a = src.args
        names = [x.arg for x in (*a.posonlyargs, *a.args)]
        env: dict[str, Any] = {}
        if len(args) > len(names) and a.vararg is None:
            raise self.refuse(
                node,
                f"{len(args)} arguments for '{function.__name__}', which takes {len(names)}",
                "Pass what it takes.",
            )
        env.update(zip(names, args))
        if a.vararg is not None:
            env[a.vararg.arg] = Tup(tuple(args[len(names) :]))
        defaults = dict(
            zip(names[len(names) - len(function.__defaults__ or ()) :], function.__defaults__ or ())
        )
        defaults.update(function.__kwdefaults__ or {})
        for k, v in kwargs.items():
            if k in env or k not in (*names, *(x.arg for x in a.kwonlyargs)):
                raise self.refuse(
                    node,
                    f"the argument '{k}' of '{function.__name__}'",
                    f"It takes {', '.join((*names, *(x.arg for x in a.kwonlyargs)))}.",
                )
            env[k] = v
        for n in (*names, *(x.arg for x in a.kwonlyargs)):
            if n not in env:
                if n not in defaults:
                    raise self.refuse(
                        node, f"'{function.__name__}' misses its argument '{n}'", "Pass it."
                    )
                closure = isinstance(function, Closure)
                env[n] = defaults[n] if closure else self.wrap(defaults[n], n, node)
        return env

    def vectorized(self, f: DUFunc, args: list[Any], node: ast.AST) -> Any:
        """A function made with @vectorize, element by element."""
        function = source.python_function(f)
        if all(isinstance(a, ir.Value) and not ir.is_array(a) for a in args):
            return self.inline(function, args, {}, node)
        args = [self.materialise(a) if isinstance(a, Lazy) else a for a in args]
        sizes = self.broadcast([self.shape(a) for a in args if ir.is_array(a)], node)
        operands = [self.operand(a, sizes) for a in args]
        start = len(self.b.block.ops)
        probe = ir.Block()
        probe.parent = ir.Op("if", [], [])
        probe.parent.block = self.b.block
        with self.inside(probe):  # once for the type of the result
            zeros = [self.integer(0)] * len(sizes)
            t = self.scalar(
                self.inline(function, [g(zeros) for g in operands], {}, node), node
            ).type
        del self.b.block.ops[start:]
        out = self.alloc(sizes, t, None)
        with self.for_each(sizes) as index:
            v = self.scalar(self.inline(function, [g(index) for g in operands], {}, node), node)
            self.b.store(out, index, self.cast(v, t))
        return out

    def positional(
        self, f: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST
    ) -> list[Any]:
        """Arguments in order, keywords put where the function has them."""
        if not kwargs:
            return args
        try:
            parameters = list(inspect.signature(f).parameters.values())
        except ValueError:
            parameters = []
        out = list(args)
        last = max((k for k, p in enumerate(parameters) if p.name in kwargs), default=-1)
        for p in parameters[len(args) : last + 1]:
            out.append(kwargs[p.name] if p.name in kwargs else self.wrap(p.default, p.name, node))
        unknown = set(kwargs) - {p.name for p in parameters}
        if unknown:
            raise self.refuse(
                node, f"the argument '{min(unknown)}' of '{name_of(f)}'", "Pass it by position."
            )
        return out

    def opaque(self, rule: rules.Rule, args: list[Any], node: ast.AST) -> Any:
        """A call kept as it is, with its rules."""
        args = [self.materialise(a) if isinstance(a, Lazy) else a for a in args]
        flat: list[ir.Value] = []
        for a in args:
            found = [] if isinstance(a, Py) else leaves(a)
            if found is None:
                raise self.refuse(
                    node,
                    f"{describe(a)} is passed to '{name_of(rule.function)}'",
                    "Pass numbers and arrays.",
                )
            flat += found
        kinds = self.result_kinds(rule.function, args, node)
        attrs = {"rule": rule, "structure": _shape_of(args), "type": kinds[0]}
        op = self.b.op("call", flat, kinds[1], attrs=attrs)
        for r in op.results:
            if ir.is_array(r):
                self.roots[r] = r
        self.call_sizes(rule.function, args, op)
        return of_type(kinds[0], iter(op.results))

    def call_sizes(self, f: Any, args: list[Any], op: ir.Op) -> None:
        """Sizes of results that follow from those of the arguments."""
        if f in (np.dot, operator.matmul) and op.results and ir.is_array(op.results[0]):
            a, b = args
            sizes = (self.shape(a)[:-1] if a.type.ndim > 1 else []) + (
                self.shape(b)[1:] if b.type.ndim > 1 else []
            )
            self.sizes[op.results[0]] = sizes
        elif f in (np.linalg.inv, np.linalg.cholesky):
            self.sizes[op.results[0]] = self.shape(args[0])
        elif f is np.linalg.solve:
            self.sizes[op.results[0]] = self.shape(args[1])

    def result_kinds(self, f: Any, args: list[Any], node: ast.AST) -> tuple[Any, list]:
        """Types of what an opaque function returns, asked of Numba."""
        from ..numba_types import return_type

        t = return_type(f, [_type_of(a) for a in args])
        if t is None:
            kinds = ", ".join(describe(a) for a in args)
            raise self.refuse(
                node,
                f"'{name_of(f)}' of {kinds} is not supported by Numba",
                "Convert the arguments.",
            )
        return t, _flat_types(t)

    # -- methods -----------------------------------------------------------------------------------------------------------
    def call_method(self, m: Method, args: list, kwargs: dict, node: ast.AST) -> Any:
        """A method of an array, a number or a tuple."""
        x = m.owner
        if isinstance(x, Tup):
            return self.tuple_method(x, m.name, args, node)
        if isinstance(x, ir.Value) and not ir.is_array(x):
            return x if m.name == "item" else self.elementwise("conj", [x], node)
        if m.name in METHOD_ARGUMENTS:
            self.check_method(m.name, args, kwargs, node)
        if m.name in ("reshape", "transpose") and len(args) > 1:
            args = [Tup(tuple(args))]
        if m.name in rules.SUBSTITUTES and m.name != "sum":
            return self.inline(rules.SUBSTITUTES[m.name], [x, *args], kwargs, node)
        if m.name in METHODS:
            return self.call_function(METHODS[m.name], [x, *args], kwargs, node)
        if m.name == "flatten":
            return self.inline(pieces.flat_copy, [x], {}, node)
        if m.name == "astype":
            return self.as_type(x, self.dtype_of(args[0], None, node), node)
        if m.name == "fill":
            self.assign_array(x, args[0], node)
            return Py(None)
        if m.name == "item":
            return self.element(x, args if args else [self.integer(0)] * x.type.ndim)
        f = getattr(np, m.name, None)
        if f is not None and f in rules.SUBSTITUTES:
            return self.inline(rules.SUBSTITUTES[f], [x, *args], kwargs, node)
        raise self.refuse(
            node, f"the array method '{m.name}'", "Write it out with supported functions."
        )

    def check_method(self, name: str, args: list, kwargs: dict, node: ast.AST) -> None:
        """Raise for arguments that a method of arrays does not take here."""
        names = METHOD_ARGUMENTS[name].split()
        if kwargs or len(args) != len(names):
            given = f"'{next(iter(kwargs))}'" if kwargs else f"number {len(args)}"
            raise self.refuse(
                node,
                f"the argument {given} of the method '{name}'",
                f"It takes {', '.join(names) or 'no arguments'}, by position.",
            )

    def tuple_method(self, x: Tup, name: str, args: list, node: ast.AST) -> Any:
        """``_replace`` and the like are not Numba's; ``count`` and ``index`` are."""
        total: Any = self.integer(0)
        for item in x.items:
            total = self.elementwise(
                "add", [total, self.compare(ast.Eq(), item, args[0], node)], node
            )
        if name == "count":
            return total
        raise self.refuse(node, f"the tuple method '{name}'", "Write a loop.")


def _type_of(x: Any) -> Any:
    if isinstance(x, Tup):
        return types.Tuple([_type_of(i) for i in x.items])
    if isinstance(x, Py):
        return types.none if x.value is None else types.literal(x.value)
    if isinstance(x, ir.Const) and isinstance(x.type, types.Integer):
        return types.literal(x.value)
    return x.type


def _flat_types(t: Any) -> list:
    """The types of the numbers and arrays in a type."""
    if isinstance(t, types.BaseTuple):
        return [x for i in t.types for x in _flat_types(i)]
    return [] if isinstance(t, types.NoneType) else [t]


def of_type(t: Any, values: Any) -> Any:
    """An object of a type made of values."""
    if isinstance(t, types.BaseTuple):
        return Tup(tuple(of_type(i, values) for i in t.types), getattr(t, "instance_class", tuple))
    return Py(None) if isinstance(t, types.NoneType) else next(values)


def _shape_of(args: list[Any]) -> list[Any]:
    """How flat values are grouped into arguments: a number is one value, a list a tuple."""
    return [
        _shape_of(list(a.items))
        if isinstance(a, Tup)
        else Fixed(a.value)
        if isinstance(a, Py)
        else 1
        for a in args
    ]
