"""What the bodies of loops and branches must give, checked when they are traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..op import Spec, as_tensor
from ..tensor import Tensor
from ..utils import pytree
from .body import leaf_paths, spec_of, type_name


def flat_tensors(tree: Any, op: str, arg: str) -> tuple[list[Tensor], pytree.TreeDef]:
    """The leaves of an argument as tensors."""
    leaves, treedef = pytree.flatten(tree)
    return [as_tensor(x, op, arg) for x in leaves], treedef


def same_structure(op: str, what: str, given: Any, expected: Any, of: str) -> None:
    """Raise unless two trees have one structure."""
    if given != expected:
        raise ArgumentError(message(op, f"the structure of {what}", given, f"{expected}, {of}"))


def same_types(
    op: str,
    what: str,
    tree: pytree.TreeDef,
    given: Sequence[Spec],
    expected: Sequence[Spec],
    of: str,
) -> None:
    """Raise at the first leaf whose shape or dtype differs."""
    for path, have, want in zip(leaf_paths(tree), given, expected, strict=True):
        if tuple(have.shape) != tuple(want.shape):
            fix = "A loop cannot change shapes." if of.startswith("as the") else ""
            raise ShapeError(
                message(op, f"{what}{path}", type_name(have), f"{type_name(want)}, {of}", fix)
            )
        if have.dtype != want.dtype:
            fix = f"Convert one of them, e.g. with .to(ng.{_common(have, want)})."
            raise DTypeError(
                message(op, f"{what}{path}", type_name(have), f"{type_name(want)}, {of}", fix)
            )


def _common(a: Spec, b: Spec) -> str:
    return np.promote_types(a.dtype, b.dtype).name


def loop_length(xs: Sequence[Tensor], tree: pytree.TreeDef, length: Any) -> int:
    """The number of steps, from the xs and the argument ``length``."""
    found: int | None = None
    for path, x in zip(leaf_paths(tree), xs, strict=True):
        if not x.ndim:
            raise ShapeError(
                message("scan", f"argument 'xs'{path}", "0-d", "a leading dimension to loop over")
            )
        if found is not None and x.shape[0] != found:
            raise ShapeError(
                message(
                    "scan",
                    f"the length of argument 'xs'{path}",
                    x.shape[0],
                    f"{found}, that of the first leaf",
                )
            )
        found = x.shape[0]
    if length is None:
        if found is None:
            raise ArgumentError(
                message(
                    "scan", "argument 'length'", "None and xs has no leaves", "a number of steps"
                )
            )
        return found
    n = whole("scan", "length", length)
    if found is not None and found != n:
        raise ShapeError(message("scan", "argument 'length'", n, f"{found}, the length of xs"))
    return n


def whole(op: str, arg: str, value: Any) -> int:
    """A non-negative Python integer."""
    number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not number or value < 0:
        raise ArgumentError(message(op, f"argument '{arg}'", repr(value), "an integer >= 0"))
    return int(value)


def snapshots_for(checkpoint: Any, carry: Sequence[Tensor], length: int) -> int | None:
    """How many carries a backward may hold: None for all of them."""
    if checkpoint is None or checkpoint == "store":
        return None
    if checkpoint == "binomial":
        count = max(length, 1).bit_length() + 1
    elif isinstance(checkpoint, int) and not isinstance(checkpoint, bool):
        size = sum(t._data.size * t.dtype.itemsize for t in carry)
        count = checkpoint // size if size else length
        if count < 1:
            raise ArgumentError(
                message(
                    "scan",
                    "argument 'checkpoint'",
                    f"{checkpoint} bytes",
                    f"at least {size}, the size of one carry",
                )
            )
    else:
        raise ArgumentError(
            message(
                "scan",
                "argument 'checkpoint'",
                repr(checkpoint),
                "None, 'store', 'binomial' or a number of bytes",
            )
        )
    return None if count >= length else count


def truth(op: str, value: Any, what: str) -> Tensor:
    """A 0-d bool tensor."""
    t = as_tensor(value, op, what)
    if t.dtype.kind != "b" or t.ndim:
        raise DTypeError(
            message(
                op,
                what,
                type_name(spec_of(t)),
                "one bool",
                "Compare it (x > 0), or reduce it with .any() or .all().",
            )
        )
    return t
