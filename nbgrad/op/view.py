"""The view category: a layout map and an adjoint; no kernel, no copy.

A view tensor remembers its base and its layout inside the base's buffer, so that in-place operations can
rewrite the base's history and siblings can be refreshed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.graph import OpNode
from ..layout import Layout, contiguous, extent
from ..state import state
from ..tensor import Meta, Tensor, Value
from .base import Operator, Spec
from .dispatch import apply


class ViewOp(Operator):
    """``layout_map(layout, **params) -> Layout``; linear; the vjp is the declared adjoint."""

    category = "view"

    def __init__(self, name: str, layout_map: Callable[..., Layout], **options: Any):
        super().__init__(name, None, nin=1, linear=(0,), **options)
        self.layout_map = layout_map
        # an operator with a forward of its own may have to copy first
        self.always_a_view = type(self).forward is ViewOp.forward

    def __call__(self, x: Tensor, **params: Any) -> Tensor:
        known = x._meta
        if (
            self.always_a_view
            and state.fast > 0
            and type(x._data) is np.ndarray
            and (known is None or (known.ordinary(x._ver[0]) and not known.no_grad))
        ):
            base = x if known is None or known.base is None else known.base
            if type(base._data) is np.ndarray:
                return self._quick(x, base, known, params)
        out = apply(self, (x,), params)
        meta = Meta()
        base = x
        layout = layout_of(x)
        if x._meta is not None and x._meta.base is not None:
            base = x._meta.base
        meta.base, meta.layout = base, self.layout_map(layout, **params)
        meta.seen = x._ver[0]
        if out._meta is not None:
            meta.inference = out._meta.inference
        if x._node is not None and out._node is None:
            meta.no_grad = True
        if x._meta is not None:
            meta.inference = meta.inference or x._meta.inference
            meta.no_grad = meta.no_grad or x._meta.no_grad
        if meta.no_grad and base._node is not None:
            meta.history = base._node.seq
        out._meta, out._ver = meta, x._ver
        for recorder in state.recorders:
            recorder.adopt(out)
        return out

    def _quick(self, x: Tensor, base: Tensor, known: Meta | None, params: dict) -> Tensor:
        """The common case: a view of plain memory while gradients are recorded."""
        own = known.layout if known is not None else None
        meta = Meta()
        meta.base = base
        meta.layout = layout = self.layout_map(
            array_layout(x._data) if own is None else own, **params
        )
        meta.seen = x._ver[0]
        node = None
        if x._node is not None and self.differentiable:
            specs = [(x._data.shape, x._data.dtype)]
            nrs = (x._nr,) if x._nr else None
            node = OpNode(self, params, (x._node,), nrs, (), (), 0, specs, 1, 0)
        return Tensor(strided(base._data, layout), node, 0, x._ver, meta)

    def forward(self, arrays: Sequence[Any], params: dict) -> Any:
        (a,) = arrays
        if type(a) is not np.ndarray:
            return a.restride(self.layout_map(a.layout, **params))
        layout = self.layout_map(array_layout(a), **params)
        return strided(a, layout)

    def infer_out(self, specs: Sequence[Spec], params: dict) -> Spec:
        x = specs[0]
        return Spec(self.layout_map(contiguous(x.shape), **params).shape, x.dtype)


def view(name: str | None = None, **options: Any) -> Callable[[Callable], ViewOp]:
    """Decorator: declare a view operator from its layout map."""

    def make(fn: Callable) -> ViewOp:
        return ViewOp(name or fn.__name__, fn, doc=fn.__doc__ or "", **options)

    return make


def array_layout(a: np.ndarray) -> Layout:
    """Layout of an array relative to its own first element."""
    size = a.itemsize
    return Layout(a.shape, tuple(s // size for s in a.strides), 0)


def layout_of(x: Tensor) -> Layout:
    """Layout of a tensor inside its base's buffer (the base itself: relative to its first element)."""
    if x._meta is not None and x._meta.layout is not None:
        return x._meta.layout
    data = x._data
    if type(data) is np.ndarray:
        return array_layout(data)
    return contiguous(data.shape) if isinstance(data, Value) else data.layout


class _Window:
    """Exports memory of another array through ``__array_interface__`` and keeps it alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: np.ndarray, layout: Layout):
        interface = dict(owner.__array_interface__)
        address, readonly = interface["data"]
        size = owner.itemsize
        interface["data"] = (address + layout.offset * size, readonly)
        interface["shape"] = layout.shape
        interface["strides"] = tuple(s * size for s in layout.strides)
        interface.pop("offset", None)
        self.__array_interface__ = interface
        self.owner = owner


def strided(a: np.ndarray, layout: Layout) -> np.ndarray:
    """A NumPy view of ``a``'s memory; the layout is relative to ``a``'s first element."""
    size = a.itemsize
    if a.flags.c_contiguous and a.size and layout.offset >= 0:
        low, high = extent(layout)
        if low >= 0 and high <= a.size:
            return np.ndarray(
                layout.shape,
                a.dtype,
                a,
                layout.offset * size,
                tuple([s * size for s in layout.strides]),
            )
    if 0 in layout.shape or not a.size:
        return np.empty(layout.shape, a.dtype)
    return np.asarray(_Window(a, layout))
