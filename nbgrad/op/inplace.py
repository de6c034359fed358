"""In-place writes: checks, the write itself, versions, and rewriting the history of a view's base.

An in-place operation is its out-of-place form followed by one write. For the graph, a write through a view is
``base = strided_scatter(base, new, layout)`` and every view of the base is ``strided_view(base, layout)`` again.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ..errors import AutogradError, DTypeError, ShapeError, TraceError, message
from ..layout import self_overlaps
from ..state import ON, state
from ..tensor import Level, Meta, Tensor, Value, level_of, shallow
from .base import REGISTRY
from .dispatch import cast, record, top_level
from .interpreter import check_inside, promote

_OVERLAP = (
    "{}_: several elements of the written tensor share one memory location "
    "(an expanded or overlapping view); clone() it before writing."
)
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def check_writable(t: Tensor, op: str, value: Tensor | None = None) -> None:
    """Raise before anything changes: leaves, overlapping memory, read-only memory, inference tensors."""
    from ..autograd.graph import AccumulateGrad

    refresh(t)
    level = level_of(t._data)
    index = 0 if level is None else level.index
    recording = state.off > index
    base = t._meta.base if t._meta is not None and t._meta.base is not None else t
    if state.births:
        check_inside(base, op)
    if state.protected and id(t._ver) in state.protected:
        raise ProtectedWriteError(op)
    if t._meta is not None and t._meta.detached and level is not None:
        raise TraceError(
            f"{op}_: a detached alias cannot be written in place inside {level.name}; clone() it first."
        )
    if t._meta is not None and t._meta.frozen:
        raise AutogradError(f"{op}_: {t._meta.frozen}.")
    if recording and isinstance(base._node, AccumulateGrad):
        what = "a leaf" if base is t else "a view of a leaf"
        raise AutogradError(
            f"{op}_: {what} tensor that requires grad cannot be changed in place while gradients are "
            "recorded; use the out-of-place form, or do it inside ng.no_grad()."
        )
    if recording and base._node is not None and t._meta is not None and t._meta.no_grad:
        raise AutogradError(
            f"{op}_: this view was made under no_grad, so it is unclear whether its base should record the write; "
            "make the view where gradients are recorded, or write under no_grad."
        )
    if t._meta is not None and t._meta.inference and not state.inference:
        raise AutogradError(
            f"{op}_: an inference tensor cannot be changed outside inference_mode; clone() it."
        )
    if type(t._data) is np.ndarray:
        from .view import array_layout

        if not t._data.flags.writeable:
            raise AutogradError(
                f"{op}_: the tensor's memory is read-only; clone() the tensor first."
            )
        if t._data.size > 1 and self_overlaps(array_layout(t._data)):
            raise AutogradError(_OVERLAP.format(op))
    elif not isinstance(t._data, Value) and t._data.size > 1 and self_overlaps(t._data.layout):
        raise AutogradError(_OVERLAP.format(op))
    if value is not None and _RANK[value.dtype.kind] > _RANK[t.dtype.kind]:
        raise DTypeError(
            message(
                op + "_",
                "the result's dtype",
                value.dtype.name,
                f"one that fits the tensor's {t.dtype.name}",
                "Convert the tensor with .to() first, or use the out-of-place form.",
            )
        )


class ProtectedWriteError(AutogradError):
    """A custom function's forward wrote an input that it may not change."""

    def __init__(self, op: str):
        super().__init__(
            f"{op}_: the forward of a custom Function wrote in place to an input that is a leaf requiring grad (or is "
            "shared with another level); clone() it in forward."
        )


def inplace(op: Any, name: str, t: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``t.name_(*args)``: run ``op`` out of place on t's current value and write the result into t."""
    if not isinstance(t, Tensor):
        raise DTypeError(message(name + "_", "the tensor written to", type(t).__name__, "a Tensor"))
    check_writable(t, name)
    result = op(snapshot(t), *args, **kwargs)
    return write(t, result, name)


def snapshot(t: Tensor) -> Tensor:
    """t's value under its present edge, safe to save: a copy where a graph may keep it."""
    data = t._data
    if type(data) is np.ndarray:
        data = data.copy() if state.off > 0 or state.fast < 0 else data
    elif not isinstance(data, Value):
        data = data.copy()
    out = Tensor(data, t._node, t._nr)
    for recorder in state.recorders:
        recorder.alias(out, t)
    return out


def write(t: Tensor, result: Tensor, name: str) -> Tensor:
    """Write ``result`` into t's memory and rewrite t's history."""
    if tuple(result.shape) != tuple(t.shape):
        raise ShapeError(
            message(
                name + "_",
                "the result's shape",
                result.shape,
                f"the shape {t.shape} of the tensor written to",
                "Use the out-of-place form if the tensor should grow.",
            )
        )
    check_writable(t, name, result)
    result = cast(result, t.dtype)
    base = t._meta.base if t._meta is not None and t._meta.base is not None else None
    level = top_level([t, result] if base is None else [t, base, result])
    for recorder in state.recorders:
        recorder.before_write(t if base is None else base)
    if level is not None and level is state.tracer:
        level.interpreter.before_write(level, t if base is None else base)
    if level is None:
        with np.errstate(all="ignore"):
            t._data[...] = result._data
    elif level_of(result._data) is not level:
        result = REGISTRY["clone"](result)  # a trace records this: then it is a value of the level
        if level_of(result._data) is not level:
            lifted = level.interpreter.lift(level, result)
            result = Tensor(lifted, None) if isinstance(lifted, Value) else lifted
    bump(t, name)
    if base is None:
        if level is not None:
            _promote(level, t)
            t._data = result._data
        if state.off > (0 if level is None else level.index):
            t._node, t._nr = result._node, result._nr
    else:
        assert t._meta is not None
        _rebase(base, t, result, level)
    for recorder in state.recorders:
        recorder.written(t, result, base)
    if base is not None:
        refresh_view(t)
        carry_retain(base)
    carry_retain(t)
    return t


def carry_retain(t: Tensor) -> None:
    """``retain_grad`` follows a tensor to its new node after a write."""
    if t._meta is not None and t._meta.retain and t._node is not None:
        t._node.ensure_meta().retain[t._nr] = weakref.ref(t)


def _promote(level: Level, t: Tensor) -> None:
    """Bookkeeping before a lower tensor gets a value of ``level``."""
    if level_of(t._data) is not level:
        promote(level, t)


def bump(t: Tensor, name: str) -> None:
    """Count a write on the storage and remember who wrote."""
    t._ver[0] += 1
    t._ver[1:] = (name + "_",)


def _rebase(base: Tensor, t: Tensor, result: Tensor, level: Level | None) -> None:
    """Give the base the history ``strided_scatter(base, result, layout)``."""
    from .view import layout_of

    assert t._meta is not None
    scatter = REGISTRY["strided_scatter"]
    params = {"layout": t._meta.layout, "base_layout": layout_of(base)}
    if level is None:
        needs = (base._node is not None, result._node is not None)
        if any(needs) and state.off > 0:
            old, out = shallow(base), Tensor(base._data)
            record(scatter, (old, result), (out,), params, needs, None)
            base._node, base._nr = out._node, out._nr
        return
    _promote(level, base)
    new = scatter(shallow(base), result, **params)
    base._data, base._node, base._nr = new._data, new._node, new._nr


def refresh(t: Tensor) -> None:
    """Refresh a view whose base was written through another alias."""
    if t._meta is not None and t._meta.base is not None and t._meta.seen != t._ver[0]:
        refresh_view(t)


def refresh_view(t: Tensor) -> None:
    """Make a view's edge (and, under transforms, its value) follow its base's present history."""
    from ..autograd.graph import AccumulateGrad
    from .view import layout_of

    meta = t._meta
    assert meta is not None and meta.base is not None
    base = meta.base
    plain = type(t._data) is type(base._data) and not isinstance(t._data, Value)
    if plain and base._node is None:
        meta.seen = t._ver[0]
        if not isinstance(t._node, AccumulateGrad):
            t._node, t._nr = None, 0
        return
    if plain and (meta.no_grad or isinstance(t._node, AccumulateGrad)):
        if base._node.seq == meta.history:  # written under no_grad only
            meta.seen = t._ver[0]
        elif state.off > 0:
            how = "made under no_grad" if meta.no_grad else "that is a leaf of its own"
            raise AutogradError(
                f"a view {how} is used after its base was changed in place with gradients recorded, so its own history "
                "is unclear; make the view again, or detach() it."
            )
        return
    meta.seen = t._ver[0]
    previous = state.set_off(
        ON
    )  # the view's history is its base's, wherever it happens to be looked at
    try:
        out = REGISTRY["strided_view"](
            shallow(base), layout=meta.layout, base_layout=layout_of(base)
        )
        if meta.detached:
            out = REGISTRY["detach"](out)
    finally:
        state.set_off(previous)
    t._data, t._node, t._nr = out._data, out._node, out._nr


def detach_meta(t: Tensor) -> Meta:
    """t's meta record, made on first use."""
    if t._meta is None:
        t._meta = Meta()
    return t._meta
