"""``nbgrad.njit``: transformations of Numba functions into Numba functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit as numba_njit
from numba import typeof, types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from ..errors import ArgumentError, DTypeError, UnsupportedError, message
from . import (  # noqa: F401  (the library registers NumPy's functions)
    derive,
    jacobians,
    library,
    report,
)
from .called import Derivative, as_kind
from .checks import kind_of
from .door import Transformation, dispatcher, program
from .front.objects import Tup
from .front.source import python_function

ArgNums = int | Sequence[int]


def _checked(name: str, f: Any, argnums: Any) -> tuple[Any, Any]:
    """The function as a dispatcher, and argnums as an int or a tuple."""
    if not isinstance(f, Dispatcher):
        if not inspect.isfunction(f):
            raise DTypeError(
                message(
                    f"njit.{name}",
                    "the function",
                    type(f).__name__,
                    "an @njit function or a plain one",
                )
            )
        f = numba_njit(f)
    parameters = inspect.signature(f.py_func).parameters.values()
    for p in parameters:
        if p.kind in (p.VAR_KEYWORD, p.KEYWORD_ONLY):
            raise UnsupportedError(
                f"njit.{name}: '{f.__name__}' takes '{p.name}' by keyword only; expected parameters that have "
                "positions, as Numba does. Remove the '*' or '**'."
            )
    open_end = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return f, _positions(name, f, argnums, None if open_end else len(parameters))


def _positions(name: str, f: Any, argnums: Any, count: int | None) -> Any:
    """Checked argnums: an int, or a tuple of different positions."""
    single = not isinstance(argnums, tuple | list)
    items = (argnums,) if single else tuple(argnums)
    for k in items:
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise ArgumentError(
                message(f"njit.{name}", "argnums", repr(argnums), "an int or a tuple of ints")
            )
        if count is not None and not -count <= k < count:
            raise ArgumentError(
                message(
                    f"njit.{name}",
                    "argnums",
                    k,
                    f"a position among the {count} arguments of '{f.__name__}'",
                )
            )
    places = [int(k) if count is None else int(k) % count for k in items]
    if not items or len(set(places)) != len(places):
        raise ArgumentError(message(f"njit.{name}", "argnums", argnums, "different positions"))
    return int(argnums) if single else tuple(map(int, items))


def _parameters(f: Any) -> list[inspect.Parameter]:
    """The parameters of a function, for a derivative called like it."""
    return [
        p if p.kind is p.VAR_POSITIONAL else p.replace(kind=p.POSITIONAL_OR_KEYWORD)
        for p in inspect.signature(python_function(f)).parameters.values()
    ]


def _named(*names: str) -> list[inspect.Parameter]:
    return [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]


def _transformation(
    name: str,
    f: Any,
    handler: Callable,
    parameters: list,
    options: tuple,
    cache: bool,
    maker: Callable,
) -> Any:
    """The derivative; ``maker(f, *options)`` makes it again."""
    if parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        inner = handler
        handler = lambda it, args: inner(it, [*args[:-1], *args[-1].items])
    t = Transformation(f"{name}_{f.__name__}", f, handler, parameters, options)
    made = dispatcher(t, cache)
    return as_kind(made, Derivative, lambda: (_again, maker, f, options, cache))


def _again(maker: Callable, f: Any, options: tuple, cache: bool) -> Any:
    return maker(f, *options, cache=cache)


def grad(f: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, cache: bool = True) -> Any:
    """The gradient of a function of numbers and arrays that returns one real number.

    Parameters
    ----------
    f : an ``@njit`` function, or a plain function that can be one.
    argnums : which arguments to differentiate with respect to: an int gives one gradient, a tuple a tuple of them.
    has_aux : ``f`` returns ``(value, aux)``; then ``(gradient, aux)`` is returned.
    cache : keep the machine code on disk (in nbgrad's cache directory).

    Returns
    -------
    An ``@njit`` function with the parameters of ``f``. The gradient of a float is a float, of an array an array of the same
    shape and dtype, of a tuple a tuple. Arguments are not modified: arrays that ``f`` writes to are copied.

    Raises
    ------
    UnsupportedError : something in ``f`` is not covered (when the types are known, at the first call).
    DTypeError : the result is not one real number, or an argument is not of floating dtype.
    ValueError : arguments share memory and ``f`` writes to one of them.
    """
    f, argnums = _checked("grad", f, argnums)

    def handler(it: Any, args: list[Any]) -> Any:
        return derive.gradient(it, f, args, argnums, has_aux, False, "grad")

    return _transformation("grad", f, handler, _parameters(f), (argnums, has_aux), cache, grad)


def value_and_grad(
    f: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, cache: bool = True
) -> Any:
    """Like `grad`; returns ``(value, gradient)``, with has_aux ``((value, aux), gradient)``."""
    f, argnums = _checked("value_and_grad", f, argnums)

    def handler(it: Any, args: list[Any]) -> Any:
        return derive.gradient(it, f, args, argnums, has_aux, True, "value_and_grad")

    return _transformation(
        "value_and_grad", f, handler, _parameters(f), (argnums, has_aux), cache, value_and_grad
    )


def vjp(f: Callable, argnums: ArgNums = 0, *, cache: bool = True) -> Any:
    """``v(args, cotangent) -> (value, cotangents of the chosen arguments)``.

    ``args`` is the tuple of all arguments, ``cotangent`` has the structure of the result. Of a function that returns
    None and writes to arrays, the cotangent is that of the written arrays' final contents (one array, or a tuple in the
    order of the arguments), and the value is these contents; the arguments themselves are not modified.
    """
    f, argnums = _checked("vjp", f, argnums)

    def handler(it: Any, args: list[Any]) -> Any:
        return derive.pullback(it, f, _items("vjp", args[0]), args[1], argnums)

    return _transformation("vjp", f, handler, _named("args", "cotangent"), (argnums,), cache, vjp)


def _items(name: str, x: Any) -> list[Any]:
    if not isinstance(x, Tup):
        raise ArgumentError(
            message(f"njit.{name}", "the first argument", kind_of(x), "the tuple of all arguments")
        )
    return list(x.items)


def jvp(f: Callable, argnums: ArgNums = 0, *, cache: bool = True) -> Any:
    """``j(args, tangents) -> (value, tangent)``: the derivative along a direction, by forward mode.

    ``args`` is the tuple of all arguments; ``tangents`` is like the argument for an int ``argnums``, else a tuple.
    """
    f, argnums = _checked("jvp", f, argnums)

    def handler(it: Any, args: list[Any]) -> Any:
        return derive.pushforward(it, f, _items("jvp", args[0]), args[1], argnums, 1, "jvp")

    return _transformation("jvp", f, handler, _named("args", "tangents"), (argnums,), cache, jvp)


def jet(f: Callable, order: int, argnums: ArgNums = 0, *, cache: bool = True) -> Any:
    """``j(args, tangents) -> (value, d1, ..., dk)``: derivatives of t -> f(x + t v) at 0, up to ``order``."""
    f, argnums = _checked("jet", f, argnums)
    if type(order) is not int or order < 1:
        raise ArgumentError(message("njit.jet", "order", repr(order), "an int of at least 1"))

    def handler(it: Any, args: list[Any]) -> Any:
        return derive.pushforward(it, f, _items("jet", args[0]), args[1], argnums, order, "jet")

    return _transformation(
        f"jet{order}", f, handler, _named("args", "tangents"), (order, argnums), cache, jet
    )


def hvp(f: Callable, argnums: ArgNums = 0, *, cache: bool = True) -> Any:
    """``h(args, v) -> H v``: the Hessian times a direction, as the tangent of the gradient."""
    f, argnums = _checked("hvp", f, argnums)

    def handler(it: Any, args: list[Any]) -> Any:
        return derive.hessian_product(it, f, _items("hvp", args[0]), args[1], argnums)

    return _transformation("hvp", f, handler, _named("args", "v"), (argnums,), cache, hvp)


def jacrev(f: Callable, argnums: ArgNums = 0, *, cache: bool = True) -> Any:
    """The Jacobian by reverse mode: ``J(*args)`` of shape ``value.shape + argument.shape``; one sweep an element of the value."""
    f, argnums = _checked("jacrev", f, argnums)

    def handler(it: Any, args: list[Any]) -> Any:
        return jacobians.jacrev(it, f, args, argnums)

    return _transformation("jacrev", f, handler, _parameters(f), (argnums,), cache, jacrev)


def jacfwd(f: Callable, argnums: ArgNums = 0, *, cache: bool = True) -> Any:
    """The Jacobian by forward mode: ``J(*args)`` of shape ``value.shape + argument.shape``; one run an element."""
    f, argnums = _checked("jacfwd", f, argnums)

    def handler(it: Any, args: list[Any]) -> Any:
        return jacobians.jacfwd(it, f, args, argnums)

    return _transformation("jacfwd", f, handler, _parameters(f), (argnums,), cache, jacfwd)


def hessian(f: Callable, argnums: ArgNums = 0, *, cache: bool = True) -> Any:
    """The Hessian of a function that returns one number: ``H(*args)`` of shape ``argument.shape + argument.shape``.

    With a tuple of argnums a tuple of rows of blocks. Forward over reverse: one gradient's tangent an element.
    """
    f, argnums = _checked("hessian", f, argnums)

    def handler(it: Any, args: list[Any]) -> Any:
        return jacobians.hessian(it, f, args, argnums)

    return _transformation("hessian", f, handler, _parameters(f), (argnums,), cache, hessian)


def show_source(g: Any, *args: Any) -> str:
    """The text of the program that a derivative made here runs for these arguments (or Numba types of them)."""
    return _program("show_source", g, args).source.text


def explain(g: Any, *args: Any) -> str:
    """What a derivative does with these arguments (or types): what is kept for the reverse sweep, what is computed again."""
    return report.explain(g._nbgrad_transformation, _program("explain", g, args))


def _program(name: str, g: Any, args: Sequence[Any]) -> Any:
    t = getattr(g, "_nbgrad_transformation", None)
    if t is None:
        raise DTypeError(
            message(
                f"njit.{name}",
                "the function",
                getattr(g, "__name__", type(g).__name__),
                "a derivative made by nbgrad.njit",
                "Pass grad(f), not f.",
            )
        )
    args = list(args)
    for k, p in enumerate(t.parameters):
        if p.kind is p.VAR_POSITIONAL:
            args[k:] = [types.Tuple([_type_of(name, a) for a in args[k:]])]
    full = args + [p.default for p in t.parameters[len(args) :]]
    if any(a is inspect.Parameter.empty for a in full) or len(full) > len(t.parameters):
        raise ArgumentError(
            message(
                f"njit.{name}",
                "the number of arguments",
                len(args),
                f"{len(t.parameters)}, those of a call",
            )
        )
    return program(t, [_type_of(name, a) for a in full])[0]


def _type_of(name: str, x: Any) -> Any:
    """Numba's type of an argument, or itself if it is one."""
    try:
        return x if isinstance(x, types.Type) else typeof(x)
    except (ValueError, NumbaError):
        raise DTypeError(
            message(
                f"njit.{name}",
                "an argument",
                f"a {type(x).__name__}",
                "numbers, NumPy arrays, tuples of them, or Numba types",
            )
        ) from None
