"""Dispatch: run an operator at the highest live level among its arguments and record the graph node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd import anomaly
from ..autograd.graph import OpNode, Packed
from ..dtypes import as_dtype, get_default_dtype, to_complex
from ..errors import AutogradError, DTypeError, message
from ..memory.scope import register
from ..state import state
from ..tensor import Level, Meta, Tensor, level_of, shallow
from .base import OUT, Operator
from .symbolic import Symbolic

CONSTANT = "constant"  # a captured value made by nbgrad itself: a number, zeros, ones
ARRAY = "array"  # a captured NumPy array of the user's


def tag(t: Tensor, name: str) -> Tensor:
    """While something records, say where a constant comes from (tapes merge or guard it accordingly)."""
    if state.levels or state.recorders:
        t._meta = t._meta or Meta()
        t._meta.name = name
    return t


def as_tensor(x: Any, op: str = "as_tensor", arg: str = "input") -> Tensor:
    """A tensor as it is; arrays without a copy; Python numbers and lists as tensors.

    Raises
    ------
    DTypeError : something that is not numeric.
    """
    if isinstance(x, Tensor):
        return x
    if isinstance(x, bool | int | float | complex):
        return tag(Tensor(np.asarray(x, scalar_dtype(x))), CONSTANT)
    if isinstance(x, np.ndarray | np.generic):
        return tag(Tensor(np.asarray(x, as_dtype(x.dtype, op))), ARRAY)
    if isinstance(x, list | tuple):
        from ..ops.creation import tensor

        return tensor(x)
    what = arg if arg.startswith("argument ") else f"argument '{arg}'"
    raise DTypeError(message(op, what, f"a {type(x).__name__}", "a tensor, an array or a number"))


def scalar_dtype(x: Any) -> np.dtype:
    """The dtype a Python scalar gets on its own."""
    if isinstance(x, bool):
        return np.dtype("bool")
    if isinstance(x, int):
        return np.dtype("int64")
    return get_default_dtype() if isinstance(x, float) else to_complex(get_default_dtype())


def top_level(args: Sequence[Tensor]) -> Level | None:
    """The highest live level among the arguments, after refreshing views whose base changed."""
    top = None
    for t in args:
        meta = t._meta
        if meta is not None and meta.base is not None and meta.seen != t._ver[0]:
            from .inplace import refresh_view

            refresh_view(t)
        level = level_of(t._data)
        if level is not None and (top is None or level.index > top.index):
            top = level
    tracer = state.tracer
    # a trace records everything, also what depends on captured tensors only
    if tracer is not None and (top is None or top.index < tracer.index):
        return tracer
    return top


def recorded(t: Tensor, top: Level | None) -> bool:
    """Whether an operation at ``top`` has an edge to ``t``: same level, or captured by a trace."""
    if t._node is None:
        return False
    return level_of(t._data) is top or (top is not None and top is state.tracer)


def plain(args: Sequence[Tensor]) -> bool:
    """Whether nothing unusual is going on: no mode, only up-to-date tensors over NumPy arrays."""
    if state.fast < 0:
        return False
    for t in args:
        if type(t._data) is not np.ndarray:
            return False
        if t._meta is not None and not t._meta.ordinary(t._ver[0]):
            return False
    return True


def apply(op: Operator, args: Sequence[Tensor], params: dict) -> Any:
    """Run ``op`` on tensors with static ``params`` (the general path of every operator)."""
    top = None if plain(args) else top_level(args)
    if top is None:
        raw = op.forward([t._data for t in args], params)
    else:
        raw = top.interpreter.process(top, op, args, params)
    multi = isinstance(raw, tuple)
    outs = tuple(o if isinstance(o, Tensor) else Tensor(o) for o in (raw if multi else (raw,)))
    if op.differentiable and state.off > (0 if top is None else top.index):
        if top is None:
            needs = tuple([t._node is not None for t in args])
        else:
            needs = tuple([recorded(t, top) for t in args])
        if True in needs:
            record(op, args, outs, params, needs, top)
    if state.fast < 0:
        unusual(op, args, outs, params, top)
    return outs if multi else outs[0]


def record(
    op: Operator,
    args: Sequence[Tensor],
    outs: Sequence[Tensor],
    params: dict,
    needs: Sequence[bool],
    top: Level | None,
) -> None:
    """Attach a graph node to the outputs."""
    if op.nondiff:
        needs = tuple(n and i not in op.nondiff for i, n in enumerate(needs))
    flat = top is None  # then no argument or result belongs to a level
    live = [
        nr
        for nr, o in enumerate(outs)
        if o._data.dtype.kind in "fc" and (flat or level_of(o._data) is top)
    ]
    if not any(needs) or not live:
        return
    values: Any = []
    vers: list = []
    for i in op.saved_for(needs, params):
        for t in outs if i == OUT else (args[i],):
            same = flat or level_of(t._data) is top
            values.append(t._data if same else shallow(t))
            vers.append(t._ver)
            check_saved(t, op.name)
    if state.saved_hooks:
        values, vers = pack(values), []  # versions cannot be followed through hooks
    nrs = tuple(t._nr for t in args)
    node = OpNode(
        op,
        params,
        tuple(t._node if n else None for t, n in zip(args, needs, strict=True)),
        nrs if any(nrs) else None,
        tuple(values),
        tuple(vers),
        sum(v[0] for v in vers),
        [(t._data.shape, t._data.dtype) for t in args],
        len(outs),
        0 if top is None else top.index,
    )
    for nr in live:
        outs[nr]._node, outs[nr]._nr = node, nr


def check_saved(t: Tensor, op: str) -> None:
    """Raise if a tensor saved for backward was made in inference mode."""
    if t._meta is not None and t._meta.inference and not state.inference:
        raise AutogradError(
            f"{op}: an inference tensor cannot be saved for backward; clone() it outside inference_mode first."
        )


def pack(values: Sequence[Any]) -> tuple:
    """Send saved values through the innermost ``saved_tensors_hooks``, if any."""
    if not state.saved_hooks:
        return tuple(values)
    pack_hook, unpack_hook = state.saved_hooks[-1]
    return tuple(Packed(v, pack_hook, unpack_hook) for v in values)


def unusual(
    op: Operator, args: Sequence[Tensor], outs: Sequence[Tensor], params: dict, top
) -> None:
    """The rare modes: recorders, anomaly mode, memory scopes, inference mode."""
    if state.anomaly is not None:
        anomaly.check_forward(op.name, tuple(args), tuple(outs))
        node = outs[0]._node if outs else None
        if node is not None:
            node.ensure_meta().stack = anomaly.user_stack()
    if top is None:
        for recorder in state.recorders:
            recorder.record(op, args, params, outs)
    if state.scopes:
        for o in outs:
            register(o)
    if state.inference:
        for o in outs:
            o._meta = o._meta or Meta()
            o._meta.inference = True


def cast(x: Any, dtype: np.dtype) -> Tensor:
    """Convert the dtype; differentiable between floating and complex dtypes."""
    if isinstance(x, Symbolic):
        return x.cast(dtype)
    if x._data.dtype == dtype:
        return x
    from .base import REGISTRY

    return REGISTRY["to_dtype"](x, dtype=dtype)
