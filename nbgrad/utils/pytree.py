"""Pytrees: nested tuples, lists, dicts and named tuples of tensors; None is an empty tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import ArgumentError, message


class TreeDef(NamedTuple):
    """Structure of a tree: ``kind`` and, per container, keys and children."""

    kind: Any
    keys: tuple
    children: tuple[TreeDef, ...]

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.kind == "leaf" else sum(c.num_leaves for c in self.children)

    def __str__(self) -> str:
        if not self.children:
            return {"leaf": "*", "none": "None"}.get(self.kind, "()")
        if self.keys:
            inner = ", ".join(f"{k!r}: {c}" for k, c in zip(self.keys, self.children, strict=True))
            return f"{{{inner}}}"
        inner = ", ".join(str(c) for c in self.children)
        return f"[{inner}]" if self.kind is list else f"({inner})"


LEAF = TreeDef("leaf", (), ())


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """Leaves in order, and the structure."""
    leaves: list[Any] = []
    return leaves, _walk(tree, leaves)


def _walk(tree: Any, leaves: list[Any]) -> TreeDef:
    if tree is None:
        return TreeDef("none", (), ())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return TreeDef(type(tree), (), tuple(_walk(x, leaves) for x in tree))
    if type(tree) in (tuple, list):
        return TreeDef(type(tree), (), tuple(_walk(x, leaves) for x in tree))
    if isinstance(tree, dict):
        keys = tuple(tree)
        return TreeDef(dict, keys, tuple(_walk(tree[k], leaves) for k in keys))
    leaves.append(tree)
    return LEAF


def unflatten(treedef: TreeDef, leaves: Any) -> Any:
    """Rebuild a tree from its structure and leaves."""
    return _build(treedef, iter(leaves))


def _build(t: TreeDef, leaves: Any) -> Any:
    if t.kind == "leaf":
        return next(leaves)
    if t.kind == "none":
        return None
    children = [_build(c, leaves) for c in t.children]
    if t.kind is dict:
        return dict(zip(t.keys, children, strict=True))
    if t.kind in (tuple, list):
        return t.kind(children)
    return t.kind(*children)


def tree_map(fn: Callable, tree: Any, *rest: Any) -> Any:
    """Apply ``fn`` to corresponding leaves of trees of one structure."""
    leaves, treedef = flatten(tree)
    others = []
    for r in rest:
        more, td = flatten(r)
        if td != treedef:
            raise ArgumentError(
                message("tree_map", "a tree's structure", td, f"{treedef}, as the first one")
            )
        others.append(more)
    return unflatten(treedef, [fn(*xs) for xs in zip(leaves, *others, strict=True)])
