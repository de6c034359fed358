"""View primitives: layout maps and their adjoints, and the strided operators in-place writes are expressed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import layout as lay
from ..errors import UnsupportedError
from ..layout import Layout
from ..op import Spec, ViewOp, operator, view
from ..op.samples import calls
from ..op.view import array_layout, layout_of, strided


class Reshape(ViewOp):
    """``reshape`` copies first where the layout needs it (a replayed tape may meet other strides)."""

    def __call__(self, x: Any, **params: Any) -> Any:
        data = x._data
        if type(data) is np.ndarray:
            layout = array_layout(data)
        else:
            layout = getattr(data, "layout", None) or layout_of(x)
        if lay.reshape(layout, params["shape"]) is None:
            x = contiguous_copy(x)
        return super().__call__(x, **params)


def _reshape_layout(layout: Layout, *, shape: tuple) -> Layout:
    found = lay.reshape(layout, shape)
    assert found is not None, "reshape of a layout that needs a copy"
    return found


reshape = Reshape(
    "reshape",
    _reshape_layout,
    doc="The same elements in a new shape.",
    tests=calls(
        (((2, 3),), {"shape": (3, 2)}),
        (((),), {"shape": (1, 1)}),
        (((0, 3),), {"shape": (3, 0, 2)}),
    ),
    reference=lambda x, shape: np.reshape(x, shape),
)


@reshape.vjp
def _(g, out, x, *, needs, shape):
    return (_reshape(g, x.shape),)


@reshape.batch
def _(dims, x, *, shape):
    x = to_front(x, dims[0])
    return _reshape(x, (x.shape[0], *shape)), 0


def _reshape(x: Any, shape: tuple) -> Any:
    """Reshape a tensor, copying only where its layout needs it."""
    shape = tuple(shape)
    if tuple(x.shape) == shape:
        return x
    return reshape(x, shape=shape)


def _reshape_view(x: Any, shape: tuple) -> Any:
    """Insert or drop dimensions of size 1: always a view."""
    shape = tuple(shape)
    return alias(x) if tuple(x.shape) == shape else reshape(x, shape=shape)


@view(
    "permute",
    tests=calls((((2, 3, 4),), {"dims": (2, 0, 1)}), (((),), {"dims": ()})),
    reference=lambda x, dims: np.transpose(x, dims),
)
def permute(layout: Layout, *, dims: tuple) -> Layout:
    """Reorder the dimensions."""
    return lay.permute(layout, dims)


@permute.vjp
def _(g, out, x, *, needs, dims):
    return (permute(g, dims=inverse(dims)),)


@permute.batch
def _(bdims, x, *, dims):
    x = to_front(x, bdims[0])
    return permute(x, dims=(0, *[d + 1 for d in dims])), 0


def inverse(dims: tuple) -> tuple:
    """The inverse permutation."""
    out = [0] * len(dims)
    for i, d in enumerate(dims):
        out[d] = i
    return tuple(out)


def to_front(x: Any, dim: int | None) -> Any:
    """Move a batch dimension to the front."""
    if not dim:
        return x
    order = (dim, *[i for i in range(x.ndim) if i != dim])
    return permute(x, dims=order)


@view(
    "expand",
    tests=calls(
        (((3, 1),), {"shape": (2, 3, 4)}),
        (((),), {"shape": (2,)}),
        (((1, 3),), {"shape": (0, 3)}),
    ),
    reference=lambda x, shape: np.broadcast_to(x, shape),
)
def expand(layout: Layout, *, shape: tuple) -> Layout:
    """Broadcast with zero strides."""
    return lay.expand(layout, shape)


@expand.vjp
def _(g, out, x, *, needs, shape):
    return (g,)  # the engine sums a cotangent to its input's shape


@expand.batch
def _(dims, x, *, shape):
    x = to_front(x, dims[0])
    missing = len(shape) + 1 - x.ndim
    x = _reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))
    return expand(x, shape=(x.shape[0], *shape)), 0


def _slice_reference(x: np.ndarray, items: tuple) -> np.ndarray:
    """Basic indexing by explicit index lists."""
    axis = 0
    for item in items:
        if item is None:
            x = np.expand_dims(x, axis)
        elif isinstance(item, int):
            x = np.take(x, item, axis)
            continue
        else:
            x = np.take(x, [item[0] + k * item[2] for k in range(item[1])], axis)
        axis += 1
    return x


@view(
    "slice",
    tests=calls(
        (((4, 5),), {"items": ((1, 2, 1), (4, 3, -2))}),
        (((3, 4),), {"items": (2, None, (0, 4, 1))}),
        (((3,),), {"items": (1,)}),
        (((3, 2),), {"items": ((0, 0, 1), (0, 2, 1))}),
    ),
    reference=_slice_reference,
)
def slice_(layout: Layout, *, items: tuple) -> Layout:
    """Basic indexing: one item per result or dropped dimension.

    An item is ``(start, length, step)``, an integer (drops the dimension) or None (a new dimension).
    """
    shape, strides, offset, axis = [], [], layout.offset, 0
    for item in items:
        if item is None:
            shape.append(1)
            strides.append(0)
            continue
        step = layout.strides[axis]
        if isinstance(item, int):
            offset += item * step
        else:
            start, length, by = item
            offset += start * step if length else 0
            shape.append(length)
            strides.append(step * by)
        axis += 1
    return Layout(tuple(shape), tuple(strides), offset)


@slice_.vjp
def _(g, out, x, *, needs, items):
    base = lay.contiguous(x.shape)
    return (unview(g, layout=slice_.layout_map(base, items=items), base_layout=base),)


@slice_.batch
def _(dims, x, *, items):
    x = to_front(x, dims[0])
    return slice_(x, items=((0, x.shape[0], 1), *items)), 0


@view(
    "diagonal",
    tests=calls(
        (((3, 4),), {"offset": 0, "dim1": 0, "dim2": 1}),
        (((2, 3, 4),), {"offset": -1, "dim1": 2, "dim2": 0}),
        (((2, 2),), {"offset": 5, "dim1": 0, "dim2": 1}),
    ),
    reference=lambda x, offset, dim1, dim2: np.diagonal(x, offset, dim1, dim2),
)
def diagonal(layout: Layout, *, offset: int, dim1: int, dim2: int) -> Layout:
    """A diagonal of two dimensions as the last dimension."""
    return lay.diagonal(layout, offset, dim1, dim2)


@diagonal.vjp
def _(g, out, x, *, needs, **params):
    base = lay.contiguous(x.shape)
    return (unview(g, layout=diagonal.layout_map(base, **params), base_layout=base),)


@diagonal.batch
def _(dims, x, *, offset, dim1, dim2):
    return diagonal(to_front(x, dims[0]), offset=offset, dim1=dim1 + 1, dim2=dim2 + 1), 0


@view(
    "unfold",
    tests=calls(
        (((2, 6),), {"dim": 1, "size": 3, "step": 2}),
        (((5, 2),), {"dim": 0, "size": 3, "step": 1}),
    ),
    reference=lambda x, dim, size, step: np.lib.stride_tricks.sliding_window_view(
        x, size, axis=dim
    )[(slice(None),) * dim + (slice(None, None, step),)],
)
def unfold(layout: Layout, *, dim: int, size: int, step: int) -> Layout:
    """Sliding windows as the last dimension."""
    return lay.unfold(layout, dim, size, step)


@unfold.vjp
def _(g, out, x, *, needs, **params):
    base = lay.contiguous(x.shape)
    return (unview(g, layout=unfold.layout_map(base, **params), base_layout=base),)


@unfold.batch
def _(dims, x, *, dim, size, step):
    return unfold(to_front(x, dims[0]), dim=dim + 1, size=size, step=step), 0


@view("alias", tests=calls((((2, 3),), {}), (((),), {})), reference=lambda x: x)
def alias(layout: Layout) -> Layout:
    """A new tensor over the same elements."""
    return layout


@alias.vjp
def _(g, out, x, *, needs):
    return (g,)


@alias.batch
def _(dims, x):
    return alias(x), dims[0]


@view(
    "detach",
    differentiable=False,
    tests=calls((((2, 3),), {}), (((),), {})),
    reference=lambda x: x,
)
def detach(layout: Layout) -> Layout:
    """The same elements as a constant, in reverse, forward and Taylor mode."""
    return layout


@detach.batch
def _(dims, x):
    return detach(x), dims[0]


# -- strided operators over a base with a known memory layout ---------------------------------------


def image(x: np.ndarray, base: Layout, copy: bool) -> np.ndarray:
    """``x`` stored with the strides of ``base``, so that layouts relative to the base apply."""
    low, high = lay.extent(base)
    buffer = np.zeros(high - low, x.dtype)
    out = strided(buffer, Layout(base.shape, base.strides, -low))
    if copy:
        out[...] = x
    return out


def _matches(x: np.ndarray, base: Layout) -> bool:
    return array_layout(x).strides == base.strides


class StridedView(ViewOp):
    """``strided_view``: any layout over a base's memory (``as_strided``, refreshed views)."""

    def __call__(self, x: Any, **params: Any) -> Any:
        out = super().__call__(x, **params)
        known = x._meta
        moved = type(x._data) is np.ndarray and not _matches(x._data, params["base_layout"])
        if moved or (known is not None and known.base is not None):
            return clone(out)  # the memory is not laid out as base_layout says: no view of it
        return out

    def forward(self, arrays: Any, params: dict) -> Any:
        (x,) = arrays
        layout, base = params["layout"], params["base_layout"]
        if type(x) is not np.ndarray:
            return x.window(layout, base)
        return strided(x if _matches(x, base) else image(x, base, True), layout)


# a reversed window of a 3 x 4 buffer, and sliding windows that share elements
_BASE = lay.contiguous((3, 4))
_WINDOW = {"layout": Layout((2, 3), (4, -1), 6), "base_layout": _BASE}
_OVERLAP = {"layout": Layout((4, 3), (2, 1), 1), "base_layout": _BASE}


def _addresses(layout: Layout) -> np.ndarray:
    """The element address of every index of a layout."""
    return layout.offset + sum(
        (
            s * np.arange(n).reshape((n, *(1,) * (len(layout.shape) - k - 1)))
            for k, (n, s) in enumerate(zip(layout.shape, layout.strides, strict=True))
        ),
        np.zeros(layout.shape, np.int64),
    )


strided_view = StridedView(
    "strided_view",
    lambda layout, *, layout_: layout_,
    doc="Elements of a base at a layout.",
    tests=calls((((3, 4),), _WINDOW), (((3, 4),), _OVERLAP)),
    reference=lambda x, layout, base_layout: x.reshape(-1)[_addresses(layout)],
)
strided_view.layout_map = lambda _, *, layout, base_layout: layout


@strided_view.vjp
def _(g, out, x, *, needs, layout, base_layout):
    return (unview(g, layout=layout, base_layout=base_layout),)


@strided_view.batch
def _(dims, x, *, layout, base_layout):
    x = to_front(x, dims[0])
    params = batched_layouts(x.shape[0], layout, base_layout)
    return strided_view(x, **params), 0


def batched_layouts(n: int, layout: Layout, base: Layout) -> dict:
    """Layouts with a leading batch dimension over ``n`` consecutive copies of the base's memory."""
    low, high = lay.extent(base)
    step = max(high - low, 1)
    return {
        "layout": Layout((n, *layout.shape), (step, *layout.strides), layout.offset),
        "base_layout": Layout((n, *base.shape), (step, *base.strides), base.offset),
    }


def _unview_reference(g: np.ndarray, layout: Layout, base_layout: Layout) -> np.ndarray:
    flat = np.zeros(base_layout.shape, g.dtype).reshape(-1)
    np.add.at(flat, _addresses(layout), g)
    return flat.reshape(base_layout.shape)


@operator(
    linear=(0,),
    tests=calls((((2, 3),), _WINDOW), (((4, 3),), _OVERLAP)),
    reference=_unview_reference,
)
def unview(g, *, layout, base_layout):
    """Adjoint of a strided view: zeros with the elements of g added at the layout."""
    out = image(g, base_layout, False)
    if 0 in layout.shape:
        return out
    target = strided(out, layout)
    if lay.self_overlaps(layout):
        index = strided(np.arange(out.size), _dense_index(out, layout))
        flat = np.zeros(out.size, g.dtype)
        np.add.at(flat, index.reshape(-1), g.reshape(-1))
        return flat.reshape(out.shape)
    target[...] = g
    return out


def _dense_index(out: np.ndarray, layout: Layout) -> Layout:
    if not lay.is_contiguous(array_layout(out)):
        raise UnsupportedError(
            "as_strided: the gradient of an overlapping view needs a contiguous base; call contiguous() on it first."
        )
    return layout


@unview.vjp
def _(ct, out, g, *, needs, layout, base_layout):
    return (strided_view(ct, layout=layout, base_layout=base_layout),)


@unview.batch
def _(dims, g, *, layout, base_layout):
    g = to_front(g, dims[0])
    return unview(g, **batched_layouts(g.shape[0], layout, base_layout)), 0


@unview.infer
def _(g, *, layout, base_layout):
    return Spec(base_layout.shape, g.dtype)


def _scatter_reference(base, src, layout: Layout, base_layout: Layout) -> np.ndarray:
    flat = base.reshape(-1).copy()
    flat[_addresses(layout)] = src
    return flat.reshape(base.shape)


@operator(
    nin=2,
    linear=(0, 1),
    tests=calls((((3, 4), (2, 3)), _WINDOW)),
    reference=_scatter_reference,
)
def strided_scatter(base, src, *, layout, base_layout):
    """A copy of ``base`` with ``src`` written at the layout."""
    out = image(base, base_layout, True)
    strided(out, layout)[...] = src
    return out


@strided_scatter.vjp
def _(g, out, base, src, *, needs, layout, base_layout):
    from .creation import zeros_plain

    params = {"layout": layout, "base_layout": base_layout}
    return (
        # expanded from 0-d: a number on the host goes beside any device
        strided_scatter(g, expand(zeros_plain((), src.dtype), shape=src.shape), **params)
        if needs[0]
        else None,
        strided_view(g, **params) if needs[1] else None,
    )


@strided_scatter.batch
def _(dims, base, src, *, layout, base_layout):
    from ..op.batching import materialize

    n, (base, src) = materialize(dims, (base, src))
    return strided_scatter(base, src, **batched_layouts(n, layout, base_layout)), 0


@strided_scatter.infer
def _(base, src, *, layout, base_layout):
    return Spec(base.shape, base.dtype)


@operator(
    linear=(0,), tests=calls((((2, 3),), {}), (((),), {}), (((0, 2),), {})), reference=lambda x: x
)
def clone(x):
    """A contiguous copy."""
    from ..memory import host

    out = host.empty(x.shape, x.dtype)
    np.copyto(out, x)
    return out


@clone.vjp
def _(g, out, x, *, needs):
    return (g,)


@clone.batch
def _(dims, x):
    return clone(x), dims[0]


@clone.infer
def _(x):
    return x


def contiguous_copy(x: Any) -> Any:
    """A contiguous copy of a tensor."""
    return clone(x)
