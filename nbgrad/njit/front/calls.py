"""Calls: builtins, array makers, reductions, methods, substitutes, rules, and other functions, which are inlined."""

from __future__ import annotations

import ast
import cmath
import inspect
import math
import operator
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.np.numpy_support import from_dtype
from numba.np.ufunc.dufunc import DUFunc

from .. import ir, rules, scalars
from ..calls import Fixed
from . import pieces, source
from .arrays import Arrays
from .base import Frame, describe
from .objects import Indices, Lazy, Method, Py, Range, Record, Tup, Undefined, Zip, leaves

CMATH = ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh")
HANDLERS: dict[Any, str] = {
    range: "range",
    numba.prange: "prange",
    len: "len",
    enumerate: "enumerate",
    zip: "zip",
    int: "int",
    float: "float",
    bool: "bool",
    complex: "complex",
    max: "extreme",
    min: "extreme",
    sum: "builtin_sum",
    abs: "scalar",
    round: "round",
    divmod: "divmod",
    tuple: "tuple",
    isinstance: "isinstance",
    print: "print",
    pow: "scalar",
    slice: "slice",
    math.floor: "whole",
    math.ceil: "whole",
    math.trunc: "whole",
    math.isnan: "scalar",
    np.empty: "make",
    np.zeros: "make",
    np.ones: "make",
    np.full: "make",
    np.empty_like: "make_like",
    np.zeros_like: "make_like",
    np.ones_like: "make_like",
    np.full_like: "make_like",
    np.arange: "arange",
    np.linspace: "linspace",
    np.copy: "copy",
    np.array: "array",
    np.asarray: "array",
    np.ascontiguousarray: "array",
    np.sum: "sum",
    np.where: "where",
    np.transpose: "transpose",
    np.reshape: "reshape",
    np.ravel: "ravel",
    np.shape: "shape",
    np.ndim: "ndim",
    np.size: "size",
    np.ndindex: "ndindex",
    np.ndenumerate: "ndenumerate",
    cmath.phase: "phase",
    **{getattr(cmath, n): "cmath" for n in CMATH},
}
DTYPES = (np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32, np.uint64,
          np.complex128, np.complex64, np.bool_, np.intp)
MAX_DEPTH = 60


class Calls(Arrays):
    """Calls of functions and methods."""

    def on_Call(self, e: ast.Call) -> Any:
        """A call."""
        f = self.eval(e.func)
        args: list[Any] = []
        for a in e.args:
            v = self.eval(a.value if isinstance(a, ast.Starred) else a)
            args += v.items if isinstance(a, ast.Starred) and isinstance(v, Tup) else [v]
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
            try:
                return getattr(self, "call_" + handler)(f, args, kwargs, node)
            except (TypeError, IndexError) as e:
                if f in rules.SUBSTITUTES:
                    return self.inline(rules.SUBSTITUTES[f], args, kwargs, node)
                raise self.refuse(node, f"this form of '{_name(f)}' ({e})", "Use its plain form.") from None
        if f in rules.SUBSTITUTES:
            return self.inline(rules.SUBSTITUTES[f], args, kwargs, node)
        if f in rules.RULES:
            return self.opaque(rules.RULES[f], self.positional(f, args, kwargs, node), node)
        if f in scalars.FROM_PYTHON and not kwargs:
            return self.call_scalar(f, args, kwargs, node)
        return self.call_user(f, args, kwargs, node)

    def call_user(self, f: Any, args: list[Any], kwargs: dict, node: ast.AST) -> Any:
        """Dispatchers, ufuncs, types, classes."""
        if isinstance(f, Dispatcher):
            return self.inline(f, args, kwargs, node)
        if isinstance(f, DUFunc):
            return self.vectorized(f, args, node)
        if isinstance(f, types.Type) and not isinstance(f, types.Array):
            return self.converted(args[0], f, node)
        if isinstance(f, type) and issubclass(f, np.generic):
            return self.converted(args[0], from_dtype(np.dtype(f)), node)
        if isinstance(f, np.dtype):
            return self.converted(args[0], from_dtype(f), node)
        if isinstance(f, type) and issubclass(f, tuple) and hasattr(f, "_fields"):
            names = f._fields  # type: ignore[attr-defined]
            items = [*args, *(kwargs[n] for n in names[len(args) :])]
            return Tup(tuple(self.materialise(x) if isinstance(x, Lazy) else x for x in items), f)
        if (getattr(f, "__module__", None) or "").startswith("nbgrad.njit.") and hasattr(f, "__code__"):
            return self.inline(f, args, kwargs, node)
        module = getattr(f, "__module__", None) or ""
        owner = getattr(getattr(f, "__self__", None), "__class__", type(None)).__module__ or ""
        if "random" in module.split(".") or "random" in owner:
            raise self.refuse(node, f"'{_name(f)}' draws random numbers", "Draw them outside and pass them as an argument.")
        if kwargs and f in scalars.FROM_PYTHON:
            raise self.refuse(node, f"the argument '{next(iter(kwargs))}' of '{_name(f)}'",
                              "Assign the result: out[:] = f(x).")
        if hasattr(f, "__code__"):
            raise self.refuse(node, f"'{_name(f)}' is a plain Python function", "Decorate it with @njit.")
        raise self.refuse(node, f"'{_name(f)}' has no derivative here",
                          "Write it out with supported functions, or give it rules with nbgrad.njit.custom_vjp.")

    # -- inlining ------------------------------------------------------------------------------------------
    def inline(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """Interpret another function here."""
        owner, function = function, source.python_function(function)
        if any(fr.function is function for fr in self.frames):
            raise self.refuse(node, f"'{function.__name__}' calls itself", "Write the recursion as a loop.")
        if len(self.frames) > MAX_DEPTH:
            raise self.refuse(node, "calls are nested too deep", "Flatten them.")
        self.deps[function] = None
        src = source.parse(function)
        args = [self.materialise(a) if isinstance(a, Lazy) else a for a in args]
        kwargs = {k: self.materialise(a) if isinstance(a, Lazy) else a for k, a in kwargs.items()}
        env = self.bind(function, src, args, kwargs, node)
        self.path.append(id(node))
        line = self.b.line
        self.frames.append(Frame(function, src, env, owner))
        try:
            self.run(src.body)
            result = self.frame.env.get("$return", Py(None))
        finally:
            self.frames.pop()
            self.path.pop()
            self.b.line = line
        if isinstance(result, Undefined):
            raise self.refuse(node, f"the result of '{function.__name__}' is not one kind of object: {result.why}",
                              "Return the same kind on every path.")
        return result

    def bind(self, function: Any, src: source.Source, args: list, kwargs: dict, node: ast.AST) -> dict[str, Any]:
        """Names of a function's parameters."""
        a = src.args
        names = [x.arg for x in (*a.posonlyargs, *a.args)]
        env: dict[str, Any] = {}
        if len(args) > len(names) and a.vararg is None:
            raise self.refuse(node, f"{len(args)} arguments for '{function.__name__}', which takes {len(names)}",
                              "Pass what it takes.")
        env.update(zip(names, args))
        if a.vararg is not None:
            env[a.vararg.arg] = Tup(tuple(args[len(names) :]))
        defaults = dict(zip(names[len(names) - len(function.__defaults__ or ()) :], function.__defaults__ or ()))
        defaults.update(function.__kwdefaults__ or {})
        for k, v in kwargs.items():
            if k in env or k not in (*names, *(x.arg for x in a.kwonlyargs)):
                raise self.refuse(node, f"the argument '{k}' of '{function.__name__}'", "Check its parameters.")
            env[k] = v
        for n in (*names, *(x.arg for x in a.kwonlyargs)):
            if n not in env:
                if n not in defaults:
                    raise self.refuse(node, f"'{function.__name__}' misses its argument '{n}'", "Pass it.")
                env[n] = self.wrap(defaults[n], n, node)
        return env

    def vectorized(self, f: DUFunc, args: list[Any], node: ast.AST) -> Any:
        """A function made with @vectorize, element by element."""
        function = source.python_function(f)
        if all(isinstance(a, ir.Value) and not ir.is_array(a) for a in args):
            return self.inline(function, args, {}, node)
        args = [self.materialise(a) if isinstance(a, Lazy) else a for a in args]
        sizes = self.broadcast([self.shape(a) for a in args if ir.is_array(a)], node)
        operands = [self.operand(a, sizes) for a in args]
        out: list[Any] = []
        start = len(self.b.block.ops)
        probe = ir.Block()
        probe.parent = ir.Op("if", [], [])
        probe.parent.block = self.b.block
        with self.inside(probe):  # once for the type of the result
            zeros = [self.integer(0)] * len(sizes)
            t = self.scalar(self.inline(function, [g(zeros) for g in operands], {}, node), node).type
        del self.b.block.ops[start:]
        out = self.alloc(sizes, t, None)
        with self.for_each(sizes) as index:
            v = self.scalar(self.inline(function, [g(index) for g in operands], {}, node), node)
            self.b.store(out, index, self.cast(v, t))
        return out

    def positional(self, f: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> list[Any]:
        """Arguments in order, keywords put where the function has them."""
        if not kwargs:
            return args
        parameters = list(inspect.signature(f).parameters.values())
        out = list(args)
        last = max((k for k, p in enumerate(parameters) if p.name in kwargs), default=-1)
        for p in parameters[len(args) : last + 1]:
            out.append(kwargs[p.name] if p.name in kwargs else self.wrap(p.default, p.name, node))
        unknown = set(kwargs) - {p.name for p in parameters}
        if unknown:
            raise self.refuse(node, f"the argument '{unknown.pop()}' of '{_name(f)}'", "Check its parameters.")
        return out

    def opaque(self, rule: rules.Rule, args: list[Any], node: ast.AST) -> Any:
        """A call kept as it is, with its rules."""
        args = [self.materialise(a) if isinstance(a, Lazy) else a for a in args]
        flat: list[ir.Value] = []
        for a in args:
            found = [] if isinstance(a, Py) else leaves(a)
            if found is None:
                raise self.refuse(node, f"{describe(a)} is passed to '{_name(rule.function)}'", "Pass numbers and arrays.")
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
            sizes = (self.shape(a)[:-1] if a.type.ndim > 1 else []) + (self.shape(b)[1:] if b.type.ndim > 1 else [])
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
            raise self.refuse(node, f"'{_name(f)}' of {kinds} is not supported by Numba", "Convert the arguments.")
        return t, _flat_types(t)

    # -- builtins ------------------------------------------------------------------------------------------------
    def call_range(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Range:
        """``range``."""
        parts = [self.scalar(a, node) for a in args]
        for p in parts:
            if not isinstance(p.type, types.Integer):
                raise self.refuse(node, f"a range over {p.type}", "Use integers.")
        zero, one = self.integer(0), self.integer(1)
        full = {1: lambda: (zero, parts[0], one), 2: lambda: (*parts, one), 3: lambda: tuple(parts)}[len(parts)]()
        return Range(*[self.cast(p, types.intp) for p in full])

    def call_prange(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Range:
        """``prange``."""
        return self.call_range(f, args, kwargs, node)._replace(parallel=self.frame.parallel)

    def call_len(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``len``."""
        (x,) = args
        if isinstance(x, Py) and isinstance(x.value, str):
            return self.integer(len(x.value))
        return self.integer(len(x.items)) if isinstance(x, Tup) else (
            self.range_length(x, node) if isinstance(x, Range) else self.shape(x)[0])

    def call_enumerate(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Zip:
        """``enumerate``."""
        x = self.materialise(args[0]) if isinstance(args[0], Lazy) else args[0]
        start = args[1] if len(args) > 1 else kwargs.get("start", self.integer(0))
        return Zip((x,), start)

    def call_zip(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Zip:
        """``zip``."""
        return Zip(tuple(self.materialise(a) if isinstance(a, Lazy) else a for a in args))

    def call_int(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``int(x)``."""
        return self.converted(args[0] if args else self.integer(0), types.int64, node)

    def call_float(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``float(x)``."""
        if args and isinstance(args[0], Py) and isinstance(args[0].value, str):
            return ir.Const(float(args[0].value), types.float64)
        return self.converted(args[0] if args else self.integer(0), types.float64, node)

    def call_bool(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``bool(x)``."""
        return self.boolean(args[0], node)

    def call_complex(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``complex(re, im)``."""
        if len(args) == 2:
            return self.apply("complex", *[self.scalar(a, node) for a in args])
        return self.converted(args[0], types.complex128, node)

    def converted(self, x: Any, t: Any, node: ast.AST) -> Any:
        """A number (or array) converted to a type."""
        if isinstance(x, Lazy) or (isinstance(x, ir.Value) and ir.is_array(x) and x.type.ndim):
            return self.as_type(x, t, node)
        v = self.scalar(x, node)
        if isinstance(v, ir.Const) and isinstance(t, types.Integer) and isinstance(v.value, float):
            return ir.Const(int(v.value), t)
        return self.cast(v, t)

    def as_type(self, x: Any, t: Any, node: ast.AST) -> Any:
        """An array converted."""
        if isinstance(x, Lazy):
            return self.materialise(x._replace(element=lambda i: self.cast(x.element(i), t), dtype=t))
        return self.copied(x, t)

    def call_scalar(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """An elementwise function."""
        name = "isnan" if f is math.isnan else "pow" if f is pow else scalars.FROM_PYTHON[f]
        if name == "pow" and f is not pow and isinstance(args[1], ir.Const) and isinstance(args[1].value, float):
            if args[1].value.is_integer() and abs(args[1].value) <= 4 and args[1].value > 0:
                args = [args[0], self.integer(int(args[1].value))]
        if f in (np.power, math.pow, np.float_power) or name in ("floor", "ceil", "trunc", "round"):
            args = [self.cast(a, types.float64) if _integer(a) and f is not np.power else a for a in args]
        if len(args) != scalars.arity(name):
            raise self.refuse(node, f"{len(args)} arguments for '{_name(f)}'", "Pass what it takes; no out=.")
        if name == "angle":
            return self.angle(args[0], node)
        return self.elementwise(name, args, node)

    def angle(self, x: Any, node: ast.AST) -> Any:
        """``np.angle``: of the parts, so that it has derivatives."""
        return self.elementwise("atan2", [self.elementwise("imag", [x], node), self.elementwise("real", [x], node)], node)

    def call_cmath(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """A function of ``cmath``: of a complex number."""
        return self.apply(f.__name__, self.cast(self.scalar(args[0], node), types.complex128))

    def call_phase(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``cmath.phase``."""
        return self.angle(args[0], node)

    def call_ndindex(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Indices:
        """``np.ndindex``."""
        items = args[0].items if len(args) == 1 and isinstance(args[0], Tup) else args
        return Indices(tuple(self.scalar(a, node) for a in items))

    def call_ndenumerate(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Indices:
        """``np.ndenumerate``."""
        a = self.as_array(args[0], node)
        return Indices(tuple(self.shape(a)), a)

    def call_whole(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``math.floor`` and ``math.ceil``: integers."""
        x = self.scalar(args[0], node)
        if isinstance(x.type, types.Integer):
            return x
        return self.cast(self.apply(scalars.FROM_PYTHON[f], x), types.int64)

    def call_extreme(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``max`` and ``min``."""
        items: Any = args[0].items if len(args) == 1 and isinstance(args[0], Tup) else args
        if len(items) == 1 and isinstance(items[0], ir.Value | Lazy) and (isinstance(items[0], Lazy) or ir.is_array(items[0])):
            return self.call_function(np.max if f is max else np.min, [items[0]], {}, node)
        out = items[0]
        for x in items[1:]:
            out = self.elementwise(f.__name__, [out, x], node)
        return out

    def call_builtin_sum(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``sum`` of a tuple or an array."""
        if isinstance(args[0], Tup):
            out = args[1] if len(args) > 1 else self.integer(0)
            for x in args[0].items:
                out = self.elementwise("add", [out, x], node)
            return out
        return self.call_sum(np.sum, args[:1], {}, node)

    def call_round(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``round(x)`` to an integer, ``round(x, n)`` to n digits."""
        x = self.scalar(args[0], node)
        if len(args) == 1:
            return self.cast(self.apply("round", self.cast(x, types.float64)), types.int64)
        scale = self.apply("pow", ir.Const(10.0, types.float64), self.scalar(args[1], node))
        return self.apply("div", self.apply("round", self.apply("mul", x, scale)), scale)

    def call_divmod(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Tup:
        """``divmod``."""
        return Tup((self.elementwise("floordiv", args, node), self.elementwise("mod", args, node)))

    def call_tuple(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Tup:
        """``tuple(t)``."""
        if not args:
            return Tup(())
        if isinstance(args[0], Tup):
            return Tup(args[0].items)
        raise TypeError("of an array: its length is not known")

    def call_isinstance(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``isinstance``, decided now."""
        from ..numba_types import is_instance

        classes = args[1].items if isinstance(args[1], Tup) else (args[1],)
        found = any(is_instance(args[0], c.value) for c in classes)
        return ir.Const(found, types.boolean)

    def call_print(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Py:
        """``print`` of numbers and texts, in the forward sweep."""
        texts = [repr(a.value) if isinstance(a, Py) else "{}" for a in args]
        values = [self.materialise(a) for a in args if not isinstance(a, Py)]
        self.b.op("effect", values, attrs={"text": f"print({', '.join(texts)})"})
        return Py(None)

    def call_slice(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``slice(a, b, c)``."""
        from .objects import SliceOf

        parts = [None if isinstance(a, Py) and a.value is None else a for a in args]
        return SliceOf(None, parts[0], None) if len(parts) == 1 else SliceOf(*parts, *([None] * (3 - len(parts))))

    # -- arrays ---------------------------------------------------------------------------------------------------------
    def dtype_of(self, x: Any, default: Any, node: ast.AST) -> Any:
        """A dtype argument as Numba's type."""
        if x is None or (isinstance(x, Py) and x.value is None):
            return default
        v = x.value if isinstance(x, Py) else x
        if isinstance(v, types.Type):
            return v.dtype if isinstance(v, types.DType | types.NumberClass) else v
        known = {float: types.float64, int: types.int64, bool: types.boolean, complex: types.complex128}
        try:
            return known[v] if v in known else from_dtype(np.dtype(v))
        except TypeError:
            raise self.refuse(node, f"the dtype {describe(x)}", "Use NumPy's or Numba's types.") from None

    def sizes_of(self, x: Any, node: ast.AST) -> list[ir.Value]:
        """A shape argument."""
        items = x.items if isinstance(x, Tup) else (x,)
        return [self.cast(self.scalar(i, node, "a size"), types.intp) for i in items]

    def call_make(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> ir.Value:
        """``np.empty``, ``zeros``, ``ones``, ``full``."""
        name = f.__name__
        sizes = self.sizes_of(args[0] if args else kwargs["shape"], node)
        rest = args[1:]
        value: Any = {"ones": 1.0}.get(name)
        if name == "full":
            value = rest[0] if rest else kwargs["fill_value"]
            rest = rest[1:]
        default = types.float64 if name != "full" else self.scalar(value, node).type
        dtype = self.dtype_of(rest[0] if rest else kwargs.get("dtype"), default, node)
        return self.filled_array(sizes, dtype, 0 if name == "zeros" else None, value, node)

    def filled_array(self, sizes: list, dtype: Any, fill: Any, value: Any, node: ast.AST) -> ir.Value:
        """A new array, all elements equal to ``value`` unless None."""
        out = self.alloc(sizes, dtype, fill)
        if value is not None:
            v = value if isinstance(value, ir.Value) else scalars.constant(value)
            v = self.cast(v, dtype)
            with self.for_each(sizes) as index:
                self.b.store(out, index, v)
        return out

    def call_make_like(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.zeros_like`` and the others."""
        like = args[0]
        if _number(like):
            value = {"zeros_like": 0, "ones_like": 1, "empty_like": 0}[f.__name__]
            return self.cast(scalars.constant(value), like.type)
        rest = args[1:]
        value = {"ones_like": 1.0}.get(f.__name__)
        if f.__name__ == "full_like":
            value = rest[0] if rest else kwargs["fill_value"]
            rest = rest[1:]
        own = like.dtype if isinstance(like, Lazy) else like.type.dtype
        dtype = self.dtype_of(rest[0] if rest else kwargs.get("dtype"), own, node)
        return self.filled_array(self.shape(like), dtype, 0 if f.__name__ == "zeros_like" else None, value, node)

    def call_arange(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.arange``."""
        dtype = kwargs.pop("dtype", None)
        if len(args) == 4:
            dtype = args.pop()
        zero, one = self.integer(0), self.integer(1)
        full = {1: lambda: [zero, args[0], one], 2: lambda: [*args, one], 3: lambda: args}[len(args)]()
        floating = any(ir.is_float(a.type) for a in full)
        out = self.inline(pieces.arange_float if floating else pieces.arange_int, full, {}, node)
        t = self.dtype_of(dtype, out.type.dtype, node)
        return out if t == out.type.dtype else self.copied(out, t)

    def call_linspace(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.linspace``."""
        return self.inline(pieces.linspace, args, kwargs, node)

    def call_copy(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.copy``."""
        x = args[0]
        return self.materialise(x) if isinstance(x, Lazy) else x if _number(x) else self.copied(x)

    def call_array(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.array`` of tuples and arrays, ``np.asarray``, ``np.ascontiguousarray``."""
        x, rest = args[0], args[1:]
        dtype = rest[0] if rest else kwargs.get("dtype")
        if isinstance(x, Lazy):
            x = self.materialise(x)
        if isinstance(x, Tup):
            return self.array_of(x, dtype, node)
        if _number(x):
            return self.filled_array([], self.dtype_of(dtype, x.type, node), None, x, node)
        t = self.dtype_of(dtype, x.type.dtype, node)
        if f is np.array or t != x.type.dtype or (f is np.ascontiguousarray and x.type.layout != "C"):
            return self.copied(x, t)
        return x

    def array_of(self, x: Tup, dtype: Any, node: ast.AST) -> ir.Value:
        """An array of the numbers in (nested) tuples."""
        sizes, level = [], x
        while isinstance(level, Tup):
            sizes.append(len(level.items))
            level = level.items[0] if level.items else None
        flat = leaves(x) or []
        if any(ir.is_array(v) for v in flat):
            raise TypeError("of a tuple of arrays: use np.stack")
        t = scalars.result_type("add", tuple(v.type for v in flat)) if flat else types.float64
        if all(isinstance(v.type, types.Boolean) for v in flat) and flat:
            t = types.boolean
        t = self.dtype_of(dtype, t, node)
        out = self.alloc([self.integer(n) for n in sizes], t, None)
        for k, v in enumerate(flat):
            index = [self.integer(int(i)) for i in np.unravel_index(k, sizes)]
            self.b.store(out, index, self.cast(v, t))
        return out

    def on_List(self, e: ast.List) -> Any:
        """A list display, which only ``np.array`` and its kind understand: a tuple."""
        return self.on_Tuple(ast.copy_location(ast.Tuple(e.elts, ast.Load()), e))

    def call_sum(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.sum`` of all elements."""
        if len(args) > 1 or kwargs:
            raise TypeError("with an axis")
        x = args[0]
        if _number(x):
            return x
        sizes = self.shape(x)
        dtype = scalars.result_type("add", (x.dtype if isinstance(x, Lazy) else x.type.dtype,))
        get = x.element if isinstance(x, Lazy) else lambda i: self.element(x, list(i))
        return self.fold_loop(sizes, scalars.zero(dtype), lambda acc, i: self.cast(self.apply("add", acc, get(i)), dtype))

    def fold_loop(self, sizes: list, init: ir.Value, step: Any, index: tuple = ()) -> ir.Value:
        """A loop nest that carries one number."""
        if not sizes:
            return step(init, index)
        op = self.b.loop(self.integer(0), sizes[0], [init], f"k{len(index)}")
        with self.inside(op.blocks[0]):
            iv, acc = op.blocks[0].params
            acc.name = "acc"
            op.blocks[0].yields = [self.fold_loop(sizes[1:], acc, step, (*index, iv))]
        return op.result

    def call_where(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.where(c, a, b)``."""
        if len(args) != 3:
            raise TypeError("with one argument")
        c = args[0]
        if not (isinstance(c, Lazy) and isinstance(c.dtype, types.Boolean)) and not _boolean(c):
            args = [self.elementwise("ne", [c, self.integer(0)], node), *args[1:]]
        return self.elementwise("where", args, node)

    def call_transpose(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.transpose``."""
        a = self.as_array(args[0], node)
        rest = args[1:] or ([kwargs["axes"]] if "axes" in kwargs else [])
        if not rest:
            return self.transposed(a, tuple(reversed(range(a.type.ndim))))
        items = rest[0].items if isinstance(rest[0], Tup) else rest
        return self.transposed(a, tuple(i.value % a.type.ndim for i in items))

    def call_reshape(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.reshape``."""
        a = self.as_array(args[0], node)
        rest = args[1] if len(args) == 2 else Tup(tuple(args[1:]))
        return self.reshaped(a, self.sizes_of(rest, node), node)

    def call_ravel(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.ravel``."""
        return self.flat(self.as_array(args[0], node), node)

    def call_shape(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.shape``."""
        return Tup(tuple(self.shape(args[0])) if not _number(args[0]) else ())

    def call_ndim(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.ndim``."""
        return self.integer(0 if _number(args[0]) else len(self.shape(args[0])))

    def call_size(self, f: Any, args: list, kwargs: dict, node: ast.AST) -> Any:
        """``np.size``."""
        return self.integer(1) if _number(args[0]) else self.array_attribute(args[0], "size", node)

    # -- methods -----------------------------------------------------------------------------------------------------------
    def call_method(self, m: Method, args: list, kwargs: dict, node: ast.AST) -> Any:
        """A method of an array, a number or a tuple."""
        x = m.owner
        if isinstance(x, Tup):
            return self.tuple_method(x, m.name, args, node)
        if isinstance(x, ir.Value) and not ir.is_array(x):
            return x if m.name == "item" else self.elementwise("conj", [x], node)
        simple = {"reshape": np.reshape, "ravel": np.ravel, "transpose": np.transpose, "copy": np.copy, "sum": np.sum,
                  "conj": np.conj, "conjugate": np.conj, "dot": np.dot, "max": np.max, "min": np.min}
        if m.name in rules.SUBSTITUTES and m.name != "sum":
            return self.inline(rules.SUBSTITUTES[m.name], [x, *args], kwargs, node)
        if m.name in simple:
            return self.call_function(simple[m.name], [x, *args], kwargs, node)
        if m.name == "flatten":
            return self.inline(pieces.flat_copy, [x], {}, node)
        if m.name == "astype":
            return self.as_type(x, self.dtype_of(args[0], None, node), node)
        if m.name == "fill":
            self.assign_array(x, args[0], node)
            return Py(None)
        if m.name == "item":
            return self.element(x, [self.integer(0)] * x.type.ndim if not args else args)
        f = getattr(np, m.name, None)
        if f is not None and f in rules.SUBSTITUTES:
            return self.inline(rules.SUBSTITUTES[f], [x, *args], kwargs, node)
        raise self.refuse(node, f"the array method '{m.name}'", "Write it out with supported functions.")

    def tuple_method(self, x: Tup, name: str, args: list, node: ast.AST) -> Any:
        """``_replace`` and the like are not Numba's; ``count`` and ``index`` are."""
        total: Any = self.integer(0)
        for item in x.items:
            total = self.elementwise("add", [total, self.compare(ast.Eq(), item, args[0], node)], node)
        if name == "count":
            return total
        raise self.refuse(node, f"the tuple method '{name}'", "Write a loop.")


def _name(f: Any) -> str:
    return getattr(f, "__name__", str(f))


def _number(x: Any) -> bool:
    return isinstance(x, ir.Value) and not ir.is_array(x)


def _integer(x: Any) -> bool:
    return isinstance(x, ir.Value) and isinstance(x.type, types.Integer | types.Boolean)


def _boolean(x: Any) -> bool:
    if not isinstance(x, ir.Value):
        return False
    return isinstance(x.type.dtype if ir.is_array(x) else x.type, types.Boolean)


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
    return [_shape_of(list(a.items)) if isinstance(a, Tup) else Fixed(a.value) if isinstance(a, Py) else 1 for a in args]


__all__ = ["Calls", "Record"]
