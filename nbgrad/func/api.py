"""``ng.func``: gradients, products with Jacobians, linearisation and Taylor mode over pytrees.

The transforms compose freely and to any order; Jacobians are in `jacobian`, batching in `vmap`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..op import as_tensor
from ..tensor import Tensor
from ..utils import pytree
from .flat import flat_jvp, flat_vjp, flat_vmap
from .trees import Flat, select

__all__ = [
    "flat_jvp",
    "flat_vjp",
    "flat_vmap",
    "grad",
    "grad_and_value",
    "hvp",
    "jet",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
]


def _check_scalar(outs: Sequence[Tensor]) -> None:
    if len(outs) != 1 or outs[0].size_() != 1:
        raise ShapeError(
            message(
                "func.grad",
                "the function's result",
                f"of shapes {[tuple(o.shape) for o in outs]}",
                "one scalar",
                "Reduce it with .sum(), or use jacrev or vjp.",
            )
        )
    if outs[0].dtype.kind != "f":
        raise DTypeError(
            message(
                "func.grad",
                "the function's result",
                f"of dtype {outs[0].dtype.name}",
                "a real floating scalar",
                "Take .real or .abs(), or use vjp.",
            )
        )


def value_and_grad(
    fn: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable:
    """``fn`` with ``(value, gradient)`` results; ``fn`` must return a real scalar.

    Parameters
    ----------
    argnums : the positional argument(s) to differentiate; a tuple gives a tuple of gradients.
    has_aux : ``fn`` returns ``(value, aux)``; the result is then ``((value, aux), gradient)``.

    Raises
    ------
    ShapeError, DTypeError : a result that is no real scalar, an integer argument.
    ArgumentError : ``argnums`` out of range.
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat = Flat(fn, args, kwargs, select(args, argnums, "grad"), has_aux)
        outs, pull = flat_vjp(flat, flat.leaves, "grad")
        _check_scalar(outs)
        got = pull([outs[0].ones_like_()])
        value = (outs[0], flat.stripped_aux()) if has_aux else outs[0]
        return value, flat.pack_in(got, isinstance(argnums, int))

    return wrapped


def grad(fn: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """The gradient function of a scalar function (``(gradient, aux)`` with ``has_aux``)."""
    both = value_and_grad(fn, argnums, has_aux)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return wrapped


def grad_and_value(
    fn: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable:
    """PyTorch's order of `value_and_grad`: ``(gradient, value)``."""
    both = value_and_grad(fn, argnums, has_aux)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return g, value

    return wrapped


def vjp(fn: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """``(outputs, pullback)``; the pullback maps a cotangent of the outputs to one per primal (a tuple).

    Raises
    ------
    ArgumentError, ShapeError : (by the pullback) cotangents unlike the outputs.
    """
    flat = Flat(fn, primals, {}, range(len(primals)), has_aux)
    outs, pull = flat_vjp(flat, flat.leaves, "vjp")

    def pullback(*cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        cots, tree = pytree.flatten(given)
        if tree != flat.out_tree:
            raise ArgumentError(
                message(
                    "vjp",
                    "the cotangent's structure",
                    tree,
                    f"{flat.out_tree}, that of the outputs",
                )
            )
        for c, o in zip(cots, outs, strict=True):
            shape = tuple(as_tensor(c).shape)
            if shape != tuple(o.shape):
                raise ShapeError(
                    message("vjp", "a cotangent's shape", shape, f"{tuple(o.shape)}, its output's")
                )
        return flat.pack_in(pull(cots), False)

    result = flat.pack_out(outs)
    return (result, pullback, flat.stripped_aux()) if has_aux else (result, pullback)


def jvp(fn: Callable, primals: tuple, tangents: tuple, *, has_aux: bool = False) -> tuple:
    """``(outputs, output tangents)`` of ``fn`` at ``primals`` along ``tangents``.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError : tangents unlike the primals, integer primals.
    """
    if not isinstance(primals, list | tuple) or not isinstance(tangents, list | tuple):
        raise ArgumentError("jvp: 'primals' and 'tangents' must be tuples, one entry an argument.")
    primals, tangents = tuple(primals), tuple(tangents)
    flat = Flat(fn, primals, {}, range(len(primals)), has_aux)
    dots, tree = pytree.flatten(tangents)
    if tree != flat.in_tree:
        raise ArgumentError(
            message("jvp", "the tangents' structure", tree, f"{flat.in_tree}, that of primals")
        )
    for x, t in zip(flat.leaves, dots, strict=True):
        if tuple(as_tensor(t).shape) != tuple(x.shape):
            raise ShapeError(
                message(
                    "jvp",
                    "a tangent's shape",
                    tuple(as_tensor(t).shape),
                    f"{tuple(x.shape)}, its primal's",
                )
            )
    outs, out_dots = flat_jvp(flat, flat.leaves, dots)
    result = (flat.pack_out(outs), flat.pack_out(out_dots))
    return (*result, flat.primal_aux()) if has_aux else result


def linearize(fn: Callable, *primals: Any) -> tuple:
    """``(outputs, f_jvp)``: ``f_jvp(*tangents)`` is the derivative at ``primals``, as often as wanted.

    ``fn`` runs once; only what depends on the tangents is recorded (a linear tape over the values met on the way).
    """
    from ..op import Spec
    from ..tape.record import linear_tape

    flat = Flat(fn, primals, {}, range(len(primals)))
    box: list[Any] = []

    def push(*tangents: Tensor) -> list[Any]:
        outs, dots = flat_jvp(flat, flat.leaves, tangents)
        box.extend(outs)
        return dots

    tape = linear_tape(push, [Spec(tuple(x.shape), x.dtype) for x in flat.leaves])

    def f_jvp(*tangents: Any) -> Any:
        dots, tree = pytree.flatten(tangents)
        if tree != flat.in_tree:
            raise ArgumentError(
                message(
                    "linearize", "the tangents' structure", tree, f"{flat.in_tree}, that of primals"
                )
            )
        return flat.pack_out(tape.run([as_tensor(t) for t in dots]))

    return flat.pack_out(box), f_jvp


def hvp(fn: Callable, primals: tuple, tangents: tuple) -> tuple:
    """``(gradient, Hessian-vector product)`` of a scalar function, forward over reverse."""
    if not isinstance(primals, list | tuple) or not isinstance(tangents, list | tuple):
        raise ArgumentError("hvp: 'primals' and 'tangents' must be tuples, one entry an argument.")
    which = tuple(range(len(primals)))
    g, h = jvp(grad(fn, which), tuple(primals), tuple(tangents))
    return (g, h) if len(primals) > 1 else (g[0], h[0])


def jet(fn: Callable, primals: tuple, series: tuple) -> tuple:
    """Taylor mode: derivatives of ``t -> fn(x(t))`` at 0.

    ``series[i]`` lists the derivatives ``x', x'', ...`` of argument i (not divided by factorials); returns the output and
    the list of its derivatives (one list per output, if there are several), as ``jax.experimental.jet``.
    """
    from ..tape.taylor import flat_jet

    if not isinstance(primals, list | tuple) or not isinstance(series, list | tuple):
        raise ArgumentError("jet: 'primals' and 'series' must be tuples, one entry an argument.")
    flat = Flat(fn, tuple(primals), {}, range(len(primals)))
    if len(series) != len(flat.leaves) or not all(isinstance(s, list | tuple) for s in series):
        what = [len(s) if isinstance(s, list | tuple) else type(s).__name__ for s in series]
        wanted = f"{len(flat.leaves)} tuples, the derivatives x', x'', ... of every argument"
        raise ArgumentError(message("jet", "argument 'series'", f"of lengths {what}", wanted))
    for x, s in zip(flat.leaves, series, strict=True):
        for c in s:
            given = tuple(as_tensor(c, "jet", "series").shape)
            if given != tuple(x.shape):
                wanted = f"{tuple(x.shape)}, its argument's"
                raise ShapeError(
                    message("jet", "the shape of a derivative in 'series'", given, wanted)
                )
    scaled = [
        [as_tensor(c) / factorial(k) if k > 1 else as_tensor(c) for k, c in enumerate(s, 1)]
        for s in series
    ]
    outs, rows = flat_jet(flat, flat.leaves, scaled)
    derivs = [[c * factorial(k) if k > 1 else c for k, c in enumerate(r, 1)] for r in rows]
    if len(outs) == 1:
        return flat.pack_out(outs), derivs[0]
    return flat.pack_out(outs), derivs
