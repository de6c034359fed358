"""Layouts of scattered values: where the elements of a cotangent lie inside its base."""

from __future__ import annotations

from ..layout import Layout


def scatter_layout(layout: Layout, base: Layout, row: int | None) -> Layout | None:
    """The layout of a view of ``base`` inside storage that keeps dimension ``row`` apart.

    None where a dimension of the view runs through several dimensions of the base (a diagonal), or cuts the rows.
    """
    if row is None:
        return layout
    from .axes import ROW, marked

    found = window_layout(layout, base, marked(base.shape, row))
    if found is None or found.offset >= ROW // 2:
        return None
    rows = [(n, s) for n, s in zip(found.shape, found.strides, strict=True) if abs(s) >= ROW // 2]
    return found if all(s == ROW and n == base.shape[row] for n, s in rows) else None


def window_layout(layout: Layout, base: Layout, stored: Layout) -> Layout | None:
    """Where a window ``layout`` of a value laid out as ``base`` lies if the value is stored as ``stored``.

    None where a dimension of the window runs through several dimensions of the value.
    """
    starts = _indices(layout.offset - base.offset, base)
    if starts is None:
        return None
    strides = []
    for n, s in zip(layout.shape, layout.strides, strict=True):
        if n == 1 or s == 0:
            strides.append(0)
            continue
        d = _dimension(n, s, base, starts)
        if d is None:
            return None
        strides.append(s // base.strides[d] * stored.strides[d])
    offset = stored.offset + sum(i * s for i, s in zip(starts, stored.strides, strict=True))
    return Layout(tuple(layout.shape), tuple(strides), offset)


def _indices(offset: int, base: Layout) -> list[int] | None:
    """The multi-index of an element of a contiguous base."""
    found = [0] * len(base.shape)
    for d in sorted(range(len(base.shape)), key=lambda d: -base.strides[d]):
        if base.shape[d] > 1 and base.strides[d]:
            found[d], offset = divmod(offset, base.strides[d])
            if not 0 <= found[d] < base.shape[d]:
                return None
    return found if offset == 0 else None


def _dimension(n: int, s: int, base: Layout, starts: list[int]) -> int | None:
    """The base dimension that a view dimension of ``n`` steps of ``s`` stays in."""
    for d in range(len(base.shape)):
        t = base.strides[d]
        if base.shape[d] > 1 and t and s % t == 0:
            last = starts[d] + (n - 1) * (s // t)
            if 0 <= last < base.shape[d]:
                return d
    return None
