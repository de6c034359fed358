"""Pictures of directed graphs: DOT text, or a self-contained SVG with a small layered layout.

The layout is the classic one of Sugiyama et al. (1981): longest-path layers, barycentre ordering, then coordinates.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ArgumentError, message, missing_extra

_CHAR, _LINE, _PAD, _GAP_X, _GAP_Y = 7.0, 15.0, 8.0, 18.0, 42.0
_FILL = {
    "input": "#d8ecff",
    "output": "#ffe3c2",
    "constant": "#eeeeee",
    "op": "#ffffff",
    "leaf": "#d9f2d9",
}


class Box(NamedTuple):
    """A node: text (lines separated by newlines) and a kind that chooses the colour."""

    text: str
    kind: str = "op"


class Digraph:
    """Boxes and the arrows between them (by position)."""

    def __init__(self, boxes: Sequence[Box], edges: Sequence[tuple[int, int]], title: str = ""):
        self.boxes, self.edges, self.title = list(boxes), list(edges), title

    def dot(self) -> str:
        """Graphviz source."""
        lines = ["digraph {", '  node [shape=box, style="filled,rounded", fontname="Helvetica"];']
        for i, b in enumerate(self.boxes):
            text = b.text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            lines.append(f'  n{i} [label="{text}", fillcolor="{_FILL[b.kind]}"];')
        lines += [f"  n{a} -> n{b};" for a, b in self.edges]
        return "\n".join([*lines, "}"])

    def svg(self) -> str:
        """A self-contained SVG document."""
        place, width, height = layout(self.boxes, self.edges)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
            f"<title>{html.escape(self.title)}</title>",
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        ]
        for a, b in self.edges:
            xa, ya, _, ha = place[a]
            xb, yb, _, hb = place[b]
            y0, y1 = ya + ha / 2, yb - hb / 2
            mid = (y0 + y1) / 2
            parts.append(
                f'<path d="M{xa:.1f} {y0:.1f}C{xa:.1f} {mid:.1f} {xb:.1f} {mid:.1f} {xb:.1f} {y1:.1f}" '
                'fill="none" stroke="#555" marker-end="url(#a)"/>'
            )
        for b, (x, y, w, h) in zip(self.boxes, place, strict=True):
            parts.append(
                f'<rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="5" '
                f'fill="{_FILL[b.kind]}" stroke="#777"/>'
            )
            lines = b.text.split("\n")
            top = y - (len(lines) - 1) * _LINE / 2 + 4
            for k, line in enumerate(lines):
                parts.append(
                    f'<text x="{x:.1f}" y="{top + k * _LINE:.1f}" text-anchor="middle">{html.escape(line)}</text>'
                )
        return "\n".join([*parts, "</svg>"]) + "\n"

    def write(self, path: Any) -> Path:
        """Write ``.svg`` or ``.dot``; other endings (pdf, png) go through the graphviz package."""
        target = Path(path)
        kind = target.suffix.lstrip(".")
        if kind == "svg":
            target.write_text(self.svg())
        elif kind in ("dot", "gv"):
            target.write_text(self.dot())
        elif kind in ("pdf", "png"):
            try:
                import graphviz  # pyright: ignore[reportMissingImports]
            except ImportError:
                raise missing_extra("graphviz", "plot", f"Drawing a .{kind} picture") from None
            target.write_bytes(graphviz.Source(self.dot()).pipe(format=kind))
        else:
            raise ArgumentError(
                message(
                    "show", "the file's ending", repr(target.suffix), ".svg, .dot, .pdf or .png"
                )
            )
        return target

    def _repr_svg_(self) -> str:
        """Shown by notebooks."""
        return self.svg()


def layers_of(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest-path layer of every node of an acyclic graph."""
    children: list[list[int]] = [[] for _ in range(n)]
    waiting = [0] * n
    for a, b in edges:
        children[a].append(b)
        waiting[b] += 1
    layer = [0] * n
    ready = [i for i in range(n) if not waiting[i]]
    while ready:
        a = ready.pop()
        for b in children[a]:
            layer[b] = max(layer[b], layer[a] + 1)
            waiting[b] -= 1
            if not waiting[b]:
                ready.append(b)
    return layer


def _order(n: int, edges: Sequence[tuple[int, int]], layer: Sequence[int]) -> list[list[int]]:
    """Nodes of each layer, ordered by barycentre sweeps to have few crossings."""
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for i in range(n):
        rows[layer[i]].append(i)
    near: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    for sweep in range(6):
        where = {i: k / max(len(r), 1) for r in rows for k, i in enumerate(r)}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(
                key=lambda i: sum(where[j] for j in near[i]) / len(near[i]) if near[i] else where[i]
            )
            where.update({i: k / len(row) for k, i in enumerate(row)})
    return rows


def layout(
    boxes: Sequence[Box], edges: Sequence[tuple[int, int]]
) -> tuple[list[tuple[float, float, float, float]], float, float]:
    """Centre, width and height of every box, and the size of the picture."""
    sizes = []
    for b in boxes:
        lines = b.text.split("\n")
        sizes.append((max(map(len, lines)) * _CHAR + 2 * _PAD, len(lines) * _LINE + _PAD))
    rows = _order(len(boxes), edges, layers_of(len(boxes), edges))
    widths = [sum(sizes[i][0] for i in r) + _GAP_X * (len(r) - 1) for r in rows]
    total = max(widths, default=0.0) + 2 * _GAP_X
    place: list[Any] = [None] * len(boxes)
    y = _GAP_X
    for row, width in zip(rows, widths, strict=True):
        tall = max(sizes[i][1] for i in row)
        x = (total - width) / 2
        for i in row:
            w, h = sizes[i]
            place[i] = (x + w / 2, y + tall / 2, w, h)
            x += w + _GAP_X
        y += tall + _GAP_Y
    return place, total, y - _GAP_Y + _GAP_X


def graph(*outputs: Any, names: dict[str, Any] | None = None) -> Digraph:
    """The autograd graph of tensors as a picture: operations and leaves (named if given in ``names``)."""
    from ..autograd.graph import AccumulateGrad

    labels = {id(t._node): name for name, t in (names or {}).items()}
    boxes: list[Box] = []
    number: dict[int, int] = {}
    edges = []
    stack = [t._node for t in outputs if t._node is not None]
    roots = {id(n) for n in stack}
    keep = list(stack)
    while stack:
        node = stack.pop()
        if id(node) in number:
            continue
        number[id(node)] = len(boxes)
        leaf = isinstance(node, AccumulateGrad)
        text = node.name() if not leaf else f"{labels.get(id(node), 'leaf')}\n{list(node.shape)}"
        boxes.append(Box(text, "leaf" if leaf else "output" if id(node) in roots else "op"))
        children = [c for c in node.edges if c is not None]
        edges += [(id(c), id(node)) for c in children]
        stack += children
        keep += children
    return Digraph(boxes, [(number[a], number[b]) for a, b in edges], "autograd graph")
