"""Rules derived from other rules: transposition, linearity, fitting cotangents to their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device import on_device
from ..errors import UnsupportedError
from ..state import ON, state
from ..tensor import Tensor, Value

if TYPE_CHECKING:
    from .base import Operator, Spec


def fit_cotangents(got: Sequence[Any], specs: Sequence[Any], needs: Sequence[bool]) -> tuple:
    """Sum out broadcasting and project to the input's dtype (a real input gets the real part)."""
    return tuple(
        None if g is None or not need else fit(g, spec[0], spec[1])
        for g, spec, need in zip(got, specs, needs, strict=True)
    )


def fit(g: Tensor, shape: tuple, dtype: np.dtype) -> Tensor:
    """One cotangent brought to the shape and dtype of its input."""
    if g._data.shape != shape:
        g = sum_to(g, shape)
    if g._data.dtype is not dtype and g._data.dtype != dtype:
        from .dispatch import cast

        g = cast(g, dtype)
    return g


def sum_to(g: Tensor, shape: tuple) -> Tensor:
    """Sum over the dimensions that broadcasting added or stretched."""
    from .base import REGISTRY

    have = g._data.shape
    lead = len(have) - len(shape)
    axes = tuple(range(lead)) + tuple(
        i + lead for i, n in enumerate(shape) if n == 1 and have[i + lead] != 1
    )
    if axes:
        g = REGISTRY["sum"](g, axes=axes, keepdim=False)
    if g._data.shape != shape:
        g = REGISTRY["reshape"](g, shape=tuple(shape))
    return g


def sum_to_raw(g: np.ndarray, shape: tuple) -> np.ndarray:
    """`sum_to` on an array."""
    from .base import REGISTRY

    have = g.shape
    lead = len(have) - len(shape)
    axes = tuple(range(lead)) + tuple(
        i + lead for i, n in enumerate(shape) if n == 1 and have[i + lead] != 1
    )
    if axes:
        g = g if on_device(g) else np.asarray(g)
        g = REGISTRY["sum"].forward((g,), {"axes": axes, "keepdim": False})
    return g if g.shape == shape else g.reshape(shape)


def zeros_like(t: Tensor | Spec) -> Tensor:
    """A plain zero tensor of the same shape and dtype."""
    data: Any = getattr(t, "_data", None)
    if on_device(data):
        return Tensor(data.zeros_like())
    return Tensor(np.zeros(t.shape, t.dtype))


def run_jvp(
    op: Operator, tangents: Sequence[Any], out: Any, inputs: Sequence[Any], params: dict
) -> Any:
    """The jvp rule, or the one that follows from linearity or from the vjp."""
    if op.jvp_rule is not None:
        return op.jvp_rule(tangents, out, *inputs, **params)
    linear = op.linear_args(len(inputs))
    if linear:
        args = [
            (zeros_like(x) if tangents[i] is None else tangents[i]) if i in linear else x
            for i, x in enumerate(inputs)
        ]
        return op(*args, **params)
    if op.multilinear:
        total: Any = None
        for i in op.multilinear:
            if tangents[i] is not None:
                term = op(*[tangents[i] if j == i else x for j, x in enumerate(inputs)], **params)
                total = term if total is None else total + term
        return total
    if op.vjp_rule is None:
        raise UnsupportedError(
            f"{op.name}: no jvp and no vjp rule is declared; forward mode needs one"
        )
    return _transpose_vjp(op, tangents, out, inputs, params)


def _transpose_vjp(op: Operator, tangents, out, inputs, params: dict) -> Any:
    """jvp from vjp: the vjp is linear in its cotangent v, so its own transpose applied to the tangents."""
    from ..autograd.api import grad

    outs = out if isinstance(out, tuple) else (out,)
    previous = state.set_off(ON)
    try:
        vs = tuple(lift_leaf(zeros_like(o)) if o.dtype.kind in "fc" else None for o in outs)
        needs = tuple(t is not None for t in tangents)
        g = vs if isinstance(out, tuple) else vs[0]
        assert op.vjp_rule is not None
        rows = op.vjp_rule(g, out, *inputs, needs=needs, **params)
        specs = [(x.shape, x.dtype) for x in inputs]
        rows = fit_cotangents(rows, specs, needs)
        pairs = [
            (r, t) for r, t in zip(rows, tangents, strict=True) if r is not None and t is not None
        ]
        live = [v for v in vs if v is not None]
        got = grad(
            [r for r, _ in pairs],
            live,
            grad_outputs=[t for _, t in pairs],
            create_graph=True,
            allow_unused=True,
        )
    finally:
        state.set_off(previous)
    found = iter(got)
    res = tuple(None if v is None else next(found) for v in vs)
    return res if isinstance(out, tuple) else res[0]


def lift_leaf(t: Tensor) -> Tensor:
    """A fresh leaf that requires grad, at the innermost live level."""
    from ..autograd.graph import AccumulateGrad

    if state.levels:
        level = state.levels[-1]
        data = level.interpreter.lift(level, t)
        t = Tensor(data) if isinstance(data, Value) else data
    leaf = Tensor(t._data)
    leaf._node = AccumulateGrad(leaf)
    return leaf


def transpose_jvp(
    op: Operator, g: Any, out: Any, inputs: Sequence[Any], needs, params: dict
) -> tuple:
    """vjp from jvp: differentiate the (linear) jvp with respect to its tangents."""
    from ..autograd.api import grad

    if op.jvp_rule is None and not op.linear and not op.multilinear:
        raise UnsupportedError(f"{op.name}: no vjp rule is declared; this operator has no gradient")
    previous = state.set_off(ON)
    try:
        leaves = [
            lift_leaf(zeros_like(x)) if need else None
            for x, need in zip(inputs, needs, strict=True)
        ]
        outs = op.run_jvp(leaves, out, inputs, params)
        pairs = [
            (o, c)
            for o, c in zip(
                outs if isinstance(outs, tuple) else (outs,),
                g if isinstance(g, tuple) else (g,),
                strict=True,
            )
            if o is not None and c is not None
        ]
        got = grad(
            [o for o, _ in pairs],
            [t for t in leaves if t is not None],
            grad_outputs=[c for _, c in pairs],
            create_graph=True,
            allow_unused=True,
        )
    finally:
        state.set_off(previous)
    found = iter(got)
    return tuple(next(found) if need else None for need in needs)
