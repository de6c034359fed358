"""Functions with derivative rules of their own, and hints to the adjoint.

Each object made here is an ``@njit`` function for ordinary use; the front end meets its ``_nbgrad_front`` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit as numba_njit
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.extending import overload

from ..errors import ArgumentError, AutogradError, DTypeError, message
from . import ir, rules, scalars
from .called import Remade, as_kind
from .front.objects import Lazy, Py, Range, Tup, leaves, rebuild


def _dispatcher(name: str, f: Any) -> Any:
    """A new dispatcher for a function, so that rules do not stick to the original."""
    py = getattr(f, "py_func", f)
    if not hasattr(py, "__code__"):
        raise DTypeError(
            message(
                f"njit.{name}", "the function", type(f).__name__, "an @njit function or a plain one"
            )
        )
    return numba_njit(**_options(f))(py)


def _options(f: Any) -> dict[str, Any]:
    return {k: v for k, v in getattr(f, "targetoptions", {}).items() if k != "nopython"}


def _compiled(f: Any) -> Any:
    return f if isinstance(f, Dispatcher) else numba_njit(f)


def custom_vjp(f: Callable) -> Any:
    """A function whose reverse derivative is given: ``f = custom_vjp(f); f.defvjp(fwd, bwd)``.

    ``fwd(*args)`` returns ``(value, residuals)``; ``bwd(residuals, cotangent)`` returns a tuple of cotangents, one an argument
    (anything for an integer). Both are in the differentiable language if second derivatives are wanted. ``fwd`` runs in place
    of ``f`` inside derivatives. Forward mode needs `custom_jvp`'s ``defjvp`` too.

    Raises
    ------
    AutogradError : a derivative is asked for before ``defvjp``, or forward mode without ``defjvp``.
    """
    made = _dispatcher("custom_vjp", f)
    return _with_rules(made)


def custom_jvp(f: Callable) -> Any:
    """A function whose forward derivative is given: ``f = custom_jvp(f); f.defjvp(rule)``.

    ``rule(args, tangents)`` returns ``(value, tangent)``, linear in the tangents; both arguments are tuples. Reverse mode
    transposes it, so one rule serves both modes.

    Raises
    ------
    AutogradError : a derivative is asked for before ``defjvp``.
    """
    return _with_rules(_dispatcher("custom_jvp", f))


def _with_rules(made: Any) -> Any:
    made._nbgrad_rules = {}
    options = _options(made)

    def defvjp(fwd: Callable, bwd: Callable) -> None:
        """Set the reverse rule."""
        made._nbgrad_rules.update(fwd=_compiled(fwd), bwd=_compiled(bwd))

    def defjvp(rule: Callable) -> Callable:
        """Set the forward rule."""
        made._nbgrad_rules["jvp"] = _compiled(rule)
        return rule

    made.defvjp, made.defjvp = defvjp, defjvp
    as_kind(made, Remade, lambda: (_with_given_rules, made.py_func, options, made._nbgrad_rules))
    made._nbgrad_front = lambda it, args, kwargs, node: _call(made, it, args, kwargs, node)
    made._nbgrad_identity = _Identity(made)
    return made


def _with_given_rules(function: Any, options: dict, given: dict) -> Any:
    """A function with rules, made again in another process."""
    made = _with_rules(numba_njit(**options)(function))
    made._nbgrad_rules.update(given)
    return made


class _Identity:
    """What a function with rules depends on, for content hashes."""

    def __init__(self, made: Any):
        self.made = made

    @property
    def _nbgrad_identity(self) -> tuple:
        return (
            self.made.py_func,
            *[(k, v.py_func) for k, v in sorted(self.made._nbgrad_rules.items())],
        )


def _call(made: Any, it: Any, args: list[Any], kwargs: dict, node: Any) -> Any:
    """A call of a function with rules, inside a derivative."""
    given = made._nbgrad_rules
    name = made.py_func.__name__
    if not given:
        raise AutogradError(
            f"njit: '{name}' is marked custom_vjp or custom_jvp and has no rules yet; call {name}.defvjp(fwd, bwd) or "
            f"{name}.defjvp(rule) before differentiating."
        )
    args = it.arguments_of(made.py_func, args, kwargs, node)
    it.deps.update(dict.fromkeys(given.values()))
    if "fwd" not in given:
        rule = rules.Rule(made, Transposed(given["jvp"]), JvpRule(given["jvp"]))
        return it.opaque(rule, args, node)
    jvp = JvpRule(given["jvp"]) if "jvp" in given else Missing(name)
    out = it.opaque(rules.Rule(given["fwd"], Backward(given["fwd"], given["bwd"]), jvp), args, node)
    if not isinstance(out, Tup) or len(out.items) != 2:
        raise ArgumentError(
            message(f"{name}.defvjp", "what fwd returns", "no pair", "(value, residuals)")
        )
    return out.items[0]


class Backward:
    """A reverse rule given as ``bwd(residuals, cotangent)``; ``out`` is the pair fwd returned.

    In a second derivative the residuals have cotangents too; they go back through the text of ``fwd``.
    """

    def __init__(self, fwd: Any, bwd: Any):
        self.fwd, self.bwd = fwd, bwd

    def write(self, it: Any, args: Any, out: Any, cotangent: Any) -> Any:
        """The cotangents of the arguments."""
        active = it.active_results[len(leaves(out.items[0]) or ()) :]
        got = it.call_rule(self.bwd, [out.items[1], cotangent.items[0]])
        if not isinstance(got, Tup) or len(got.items) != len(args.items):
            raise ArgumentError(
                message(
                    "njit.custom_vjp",
                    "what bwd returns",
                    f"{len(leaves(got) or ())} values",
                    f"a tuple of {len(args.items)} cotangents, one an argument",
                )
            )
        return self.with_residuals(it, args, out, cotangent, got) if any(active) else got

    def with_residuals(self, it: Any, args: Any, out: Any, cotangent: Any, got: Tup) -> Tup:
        """Add what comes back through the residuals."""
        from . import derive

        where = _wanted(args)
        seeds = Tup((zero_like(it, out.items[0]), cotangent.items[1]))
        more = (
            derive.pullback(it, self.fwd, list(args.items), seeds, where, "custom_vjp")
            .items[1]
            .items
        )
        found = dict(zip(where, more))
        return Tup(
            tuple(_sum(it, c, found[k]) if k in found else c for k, c in enumerate(got.items))
        )


def _sum(it: Any, x: Any, y: Any) -> Any:
    """The sum of two objects of one structure."""
    from .derive import NODE

    if isinstance(x, Tup):
        return Tup(tuple(_sum(it, a, b) for a, b in zip(x.items, y.items)), x.cls)
    if not ir.is_float(y.type):
        return x
    return it.materialise(it.elementwise("add", [x, y], NODE))


class JvpRule:
    """A forward rule given as ``rule(args, tangents) -> (value, tangent)``."""

    def __init__(self, rule: Any):
        self.rule = rule

    def write(self, it: Any, args: Any, out: Any, tangents: Any) -> Any:
        """The tangent of the result."""
        got = it.call_rule(self.rule, [args, tangents])
        if not isinstance(got, Tup) or len(got.items) != 2:
            raise ArgumentError(
                message("njit.custom_jvp", "what the rule returns", "no pair", "(value, tangent)")
            )
        return got.items[1]


class Transposed:
    """A forward rule run backwards: the adjoint with respect to the tangents of a map that is linear in them."""

    def __init__(self, rule: Any):
        self.rule = rule

    def write(self, it: Any, args: Any, out: Any, cotangent: Any) -> Any:
        """The cotangents of the arguments."""
        from . import derive

        parts = leaves(args) or []
        zeros = [_zero(it, p) for p in parts]
        tangents = rebuild(args, zeros)
        got = derive.pullback(
            it,
            self.rule,
            [args, tangents],
            Tup((zero_like(it, out), cotangent)),
            (1,),
            "custom_jvp",
        )
        return got.items[1].items[0]


def _zero(it: Any, p: ir.Value) -> ir.Value:
    return it.alloc(it.shape(p), p.type.dtype, 0) if ir.is_array(p) else scalars.zero(p.type)


def zero_like(it: Any, x: Any) -> Any:
    """Zeros with the structure of an object."""
    return rebuild(x, [_zero(it, p) for p in leaves(x) or []])


class Missing:
    """Where a forward rule would be needed."""

    def __init__(self, name: str):
        self.name = name

    def write(self, it: Any, args: Any, out: Any, tangents: Any) -> Any:
        """Raise."""
        raise AutogradError(
            f"njit: forward mode (jvp, hvp, hessian) through '{self.name}', which has only a vjp; expected a forward rule. "
            f"Give it one with {self.name}.defjvp(rule), or use grad of grad."
        )


# -- hints -----------------------------------------------------------------------------------------------------------


@numba_njit
def stop_gradient(x):
    """``x`` itself, without derivative: a constant for every derivative around."""
    return x


def _stop(it: Any, args: list[Any], kwargs: dict, node: Any) -> Any:
    x = args[0]
    if isinstance(x, Tup):
        return Tup(tuple(_stop(it, [i], {}, node) for i in x.items), x.cls)
    if isinstance(x, ir.Value) and not ir.is_float(x.type):
        return x
    out = it.elementwise("stop", [x], node)
    return it.materialise(out) if isinstance(out, Lazy) else out


stop_gradient._nbgrad_front = _stop
as_kind(stop_gradient, Remade, lambda: (_stop_gradient,))


def _stop_gradient() -> Any:
    return stop_gradient


def checkpoint(f: Any, every: int = 0) -> Any:
    """Trade memory for time in the reverse sweep.

    ``checkpoint(f)`` is ``f`` for all purposes, but nothing inside is kept for the reverse sweep: it is computed again there
    from the arguments. ``f`` must not write to its arguments. ``for t in checkpoint(range(T), every=k)`` keeps the state of
    a loop every k iterations and computes the iterations in between again.
    """
    if isinstance(f, range):  # in Python, without Numba
        return f
    made = _dispatcher("checkpoint", f)
    made._nbgrad_front = lambda it, args, kwargs, node: _recomputed(made, it, args, kwargs, node)
    made._nbgrad_identity = ("checkpoint", made.py_func)
    return as_kind(made, Remade, lambda: (checkpoint, f))


@overload(checkpoint)
def _checkpoint_range(f, every=0):
    if isinstance(f, types.RangeType):
        return lambda f, every=0: f
    return None


def _checkpoint(it: Any, args: list[Any], kwargs: dict, node: Any) -> Any:
    """``checkpoint`` called inside a function: of a range."""
    every = args[1] if len(args) > 1 else kwargs.get("every", it.integer(0))
    if not isinstance(args[0], Range):
        raise it.refuse(
            node,
            "checkpoint of something else than a range",
            "Write checkpoint(range(n), every=k).",
        )
    return args[0]._replace(every=every)


checkpoint._nbgrad_front = _checkpoint  # type: ignore[attr-defined]


def _recomputed(made: Any, it: Any, args: list[Any], kwargs: dict, node: Any) -> Any:
    """A call that is computed again in the reverse sweep."""
    args = it.arguments_of(made.py_func, args, kwargs, node)
    it.deps[made.py_func] = None
    return it.opaque(rules.Rule(made, Recompute(made.py_func), Forward(made.py_func)), args, node)


def _wanted(args: Any) -> tuple[int, ...]:
    """Arguments with floating-point parts."""
    return tuple(
        k
        for k, a in enumerate(args.items)
        if not isinstance(a, Py) and any(ir.is_float(p.type) for p in leaves(a) or ())
    )


class Recompute:
    """The vjp of a function, run forwards and backwards where it is needed."""

    def __init__(self, function: Any):
        self.function = function

    def write(self, it: Any, args: Any, out: Any, cotangent: Any) -> Any:
        """The cotangents of the arguments."""
        from . import derive

        where = _wanted(args)
        got = (
            derive.pullback(it, self.function, list(args.items), cotangent, where, "checkpoint")
            .items[1]
            .items
        )
        found = dict(zip(where, got))
        return Tup(tuple(found.get(k, a) for k, a in enumerate(args.items)))


class Forward:
    """The jvp of a function."""

    def __init__(self, function: Any):
        self.function = function

    def write(self, it: Any, args: Any, out: Any, tangents: Any) -> Any:
        """The tangent of the result."""
        from . import derive

        where = _wanted(args)
        dirs = Tup(tuple(tangents.items[k] for k in where))
        return derive.pushforward(
            it, self.function, list(args.items), dirs, where, 1, "checkpoint"
        ).items[1]
