"""Padding: constant, reflect, replicate, circular."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError, message
from ..op import Spec, as_tensor, operator
from ..op.batching import front
from ..op.public import public
from ..op.samples import Sample, draw
from ..tensor import Tensor
from .elementwise import where
from .index import index
from .view import slice_


def _samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    return [
        Sample((draw(rng, dtype, (2, 3), -2, 2),), {"widths": w})
        for w in (((0, 0), (1, 2)), ((1, 0), (0, 3)))
    ]


@operator(
    linear=(0,), tests=_samples, reference=lambda x, widths: np.pad(x, widths) if x.ndim else x
)
def pad_zero(x, *, widths):
    """Zeros before and after along every axis: ``widths[i] = (before, after)``."""
    out = np.zeros(_padded(x.shape, widths), x.dtype)
    out[_inside(x.shape, widths)] = x
    return out


def _padded(shape: tuple, widths: tuple) -> tuple:
    return tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))


def _inside(shape: tuple, widths: tuple) -> tuple:
    return tuple(slice(a, a + n) for n, (a, _) in zip(shape, widths, strict=True))


@pad_zero.vjp
def _(g, out, x, *, needs, widths):
    items = tuple((a, n, 1) for n, (a, _) in zip(x.shape, widths, strict=True))
    return (slice_(g, items=items),)


@pad_zero.batch
def _(dims, x, *, widths):
    return pad_zero(front(x, dims[0]), widths=((0, 0), *widths)), 0


@pad_zero.infer
def _(x, *, widths):
    return Spec(_padded(x.shape, widths), x.dtype)


def _constant(x: Tensor, widths: list, value: float) -> Tensor:
    cut = [
        (max(-a, 0), n - max(-a, 0) - max(-b, 0)) for n, (a, b) in zip(x.shape, widths, strict=True)
    ]
    if any(length < 0 for _, length in cut):
        raise ShapeError(
            message("pad", "argument 'pad'", widths, "not to remove more than there is")
        )
    if any(a < 0 or b < 0 for a, b in widths):
        x = slice_(x, items=tuple((start, length, 1) for start, length in cut))
    grown = tuple((max(a, 0), max(b, 0)) for a, b in widths)
    out = pad_zero(x, widths=grown)
    if value == 0:
        return out
    mask = np.zeros(out.shape, bool)
    mask[_inside(x.shape, grown)] = True
    return where(Tensor(mask), out, value)


def _sources(n: int, a: int, b: int, mode: str) -> np.ndarray:
    """Which element each padded position repeats."""
    at = np.arange(-a, n + b)
    if mode == "replicate":
        return np.clip(at, 0, n - 1)
    if mode == "circular":
        return at % n
    at = np.abs(at)
    return np.where(at >= n, 2 * (n - 1) - at, at)


@public(method=False)
def pad(x: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Grow (or, with negative widths, crop) the last dimensions.

    Parameters
    ----------
    pad : ``(before, after)`` of the last dimension, then of the one before it, and so on.
    mode : 'constant', 'reflect' (without repeating the edge), 'replicate' or 'circular'.
    value : the constant (0 by default).

    Raises
    ------
    ArgumentError : an unknown mode, a value with another mode, or an odd number of widths.
    ShapeError : more widths than dimensions, or wider than the mode allows.
    """
    x = as_tensor(x, "pad")
    flat = tuple(int(p) for p in pad)
    if len(flat) % 2 or len(flat) > 2 * x.ndim:
        raise ShapeError(
            message("pad", "argument 'pad'", flat, f"pairs for at most {x.ndim} dimensions")
        )
    if mode not in ("constant", "reflect", "replicate", "circular") or (
        mode != "constant" and value
    ):
        raise ArgumentError(
            message(
                "pad",
                "argument 'mode'",
                f"{mode!r} with value {value}",
                "constant, reflect, replicate or circular, and a value only with constant",
            )
        )
    widths = [(0, 0)] * (x.ndim - len(flat) // 2)
    widths += [(flat[i], flat[i + 1]) for i in range(len(flat) - 2, -1, -2)]
    if mode == "constant":
        return _constant(x, widths, value or 0)
    for axis, (a, b) in enumerate(widths):
        if (a, b) == (0, 0):
            continue
        n = x.shape[axis]
        limit = {"reflect": n - 1, "circular": n, "replicate": max(a, b) if n else -1}[mode]
        if min(a, b) < 0 or max(a, b) > limit:
            raise ShapeError(
                message(
                    "pad",
                    f"the widths of dimension {axis}",
                    (a, b),
                    f"between 0 and {limit} in mode '{mode}' (its size is {n})",
                )
            )
        x = index(x, Tensor(_sources(n, a, b, mode)), axes=(axis,))
    return x
