"""Hypothesis strategies for tensors of many shapes, dtypes and memory layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import ArgumentError, message, missing_extra
from ..tensor import Tensor

try:
    from hypothesis import assume
    from hypothesis import strategies as st
except ImportError as e:
    raise missing_extra("hypothesis", "test", "nbgrad.testing's strategies") from e

LAYOUTS = ("contiguous", "transposed", "sliced", "reversed", "expanded")


def shapes(
    *, min_dims: int = 0, max_dims: int = 3, min_side: int = 0, max_side: int = 4
) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes: 0-d and zero-size ones included by default."""
    sides = st.integers(min_side, max_side)
    return st.lists(sides, min_size=min_dims, max_size=max_dims).map(tuple)


default_shapes = shapes


@st.composite
def broadcastable_shapes(
    draw: Callable, count: int = 2, *, max_dims: int = 3, min_side: int = 0, max_side: int = 4
) -> tuple[tuple[int, ...], ...]:
    """``count`` shapes that broadcast against each other (dimensions dropped or set to 1)."""
    full = draw(shapes(max_dims=max_dims, min_side=min_side, max_side=max_side))
    found = []
    for _ in range(count):
        drop = draw(st.integers(0, len(full)))
        found.append(tuple(1 if draw(st.booleans()) else n for n in full[drop:]))
    return tuple(found)


@st.composite
def tensors(
    draw: Callable,
    shapes: Any = None,
    dtypes: Any = dt.float64,
    *,
    layouts: Sequence[str] = LAYOUTS,
    elements: Any = None,
    low: float = -2.0,
    high: float = 2.0,
    away_from: Sequence[float] = (),
    margin: float = 0.05,
    requires_grad: bool = True,
) -> Tensor:
    """Tensors with reproducible values in ``[low, high]``.

    Parameters
    ----------
    shapes : a shape, or a strategy of shapes (default `shapes()`).
    dtypes : a dtype, a sequence of them to choose from, or a strategy.
    layouts : allowed memory layouts, of ``contiguous, transposed, sliced, reversed, expanded``. An expanded tensor
        has stride 0 in one dimension, so its elements repeat; derivative checks that perturb elements need it left
        out (``requires_grad`` leaves it out).
    elements : a strategy of numbers for the single elements (instead of ``low`` and ``high``).
    away_from : kinks and singular points; elements keep a distance of ``margin`` from each (from their real parts
        and imaginary parts if complex).
    requires_grad : make floating and complex tensors leaves that require grad.

    Values come from one drawn seed unless ``elements`` is given, so that large tensors stay cheap to draw and to shrink.
    """
    shape = _draw(draw, default_shapes() if shapes is None else shapes)
    dtype = _dtype(draw, dtypes)
    wanted = requires_grad and dtype.kind in "fc"
    unknown = set(layouts) - set(LAYOUTS)
    if unknown:
        raise ArgumentError(
            message("tensors", "argument 'layouts'", sorted(unknown), f"some of {LAYOUTS}")
        )
    allowed = [k for k in layouts if not (wanted and k == "expanded")] or ["contiguous"]
    layout = draw(st.sampled_from(allowed))
    values = _values(draw, shape, dtype, elements, low, high)
    values = keep_away(values, away_from, margin)
    if elements is not None and away_from:
        assume(np.isfinite(values).all())
    out = Tensor(arrange(values, layout))
    return out.requires_grad_() if wanted else out


def _draw(draw: Callable, given: Any) -> Any:
    return draw(given) if isinstance(given, st.SearchStrategy) else given


def _dtype(draw: Callable, given: Any) -> np.dtype:
    if isinstance(given, list | tuple):
        given = st.sampled_from(list(given))
    return dt.as_dtype(_draw(draw, given), "tensors")


def _values(
    draw: Callable, shape: tuple, dtype: np.dtype, elements: Any, low: float, high: float
) -> np.ndarray:
    size = int(np.prod(shape, dtype=int))
    if elements is not None:
        flat = draw(st.lists(elements, min_size=size, max_size=size))
        return np.array(flat, dtype=dtype).reshape(shape)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        floor = max(int(np.ceil(low)), 0) if dtype.kind == "u" else int(np.ceil(low))
        return rng.integers(floor, max(int(high), floor) + 1, shape).astype(dtype)
    x = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(low, high, shape)
    return np.asarray(x).astype(dtype)


def keep_away(values: np.ndarray, points: Sequence[float], margin: float) -> np.ndarray:
    """Push values that are closer than ``margin`` to one of the points out to that distance."""
    if values.dtype.kind == "c":
        real, imag = (
            keep_away(v, points, margin) for v in (values.real.copy(), values.imag.copy())
        )
        return (real + 1j * imag).astype(values.dtype)
    if values.dtype.kind != "f":
        return values
    out = np.array(values)
    for p in sorted(points):
        near = np.abs(out - p) < margin
        out[near] = np.where(out >= p, p + margin, p - margin)[near]
    return out


def arrange(values: np.ndarray, layout: str) -> np.ndarray:
    """The values in a memory layout (an expanded one repeats the first entry of its last dimension)."""
    if not values.ndim or layout == "contiguous":
        return np.ascontiguousarray(values).reshape(values.shape)
    if layout == "transposed":
        return np.asfortranarray(values)
    if layout == "sliced":
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1] + 1), values.dtype)
        wide[..., 1::2] = values
        return wide[..., 1::2]
    if layout == "reversed":
        flip = (slice(None, None, -1),) * values.ndim
        return np.ascontiguousarray(values[flip])[flip]
    return np.broadcast_to(values[..., :1], values.shape)
