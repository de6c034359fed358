"""Forward mode with dual numbers: ``dual_level``, ``make_dual``, ``unpack_dual``.

One level at a time, as in PyTorch; `func.jvp` nests freely. Tangents are ordinary tensors: where the primal or the tangent
requires grad, reverse mode differentiates the tangent of the result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import AutogradError, DTypeError, ShapeError, message
from ..op.interpreter import new_level, own
from ..state import state
from ..tensor import Level, Tensor
from .dual import DUAL, Dual

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

NAME = "forward_ad.dual_level"


class UnpackedDualTensor(NamedTuple):
    """Primal and tangent; the tangent is None where it is zero."""

    primal: Tensor
    tangent: Tensor | None


def _current() -> Level | None:
    for level in reversed(state.levels):
        if level.name == NAME:
            return level
    return None


class dual_level:
    """Context manager: dual numbers made inside live until its end.

    Raises
    ------
    AutogradError : inside another ``dual_level`` (use `func.jvp` to nest).
    """

    def __enter__(self) -> int:
        if _current() is not None:
            raise AutogradError(
                "forward_ad.dual_level: levels of dual numbers cannot be nested; use func.jvp inside func.jvp for "
                "higher derivatives."
            )
        self._context = new_level(NAME, DUAL)
        self._context.__enter__()
        return 0

    def __exit__(self, *exc: Any) -> None:
        self._context.__exit__(*exc)


_entered: list[dual_level] = []


def enter_dual_level() -> int:
    """Enter a `dual_level` by hand; leave it with `exit_dual_level`."""
    level = dual_level()
    index = level.__enter__()
    _entered.append(level)
    return index


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level that `enter_dual_level` entered."""
    if not _entered:
        raise AutogradError("forward_ad.exit_dual_level: no level was entered.")
    _entered.pop().__exit__(None, None, None)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with a tangent; operations on it propagate both.

    Raises
    ------
    AutogradError : outside a `dual_level`, or a tensor that has a tangent already.
    ShapeError, DTypeError : a tangent unlike the tensor, an integer tensor.
    """
    now = _current()
    if now is None:
        raise AutogradError("forward_ad.make_dual: use it inside 'with forward_ad.dual_level():'.")
    for what, t in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(t, Tensor):
            raise DTypeError(
                message("make_dual", f"argument '{what}'", type(t).__name__, "a tensor")
            )
        if t.dtype.kind not in "fc":
            raise DTypeError(
                message("make_dual", f"the dtype of '{what}'", t.dtype.name, "floating or complex")
            )
        t.refresh_()
        if own(now, t) and t._data.tangent is not None:
            raise AutogradError(f"make_dual: argument '{what}' has a tangent already.")
    if tangent.shape != tensor.shape:
        raise ShapeError(
            message(
                "make_dual", "the tangent's shape", tuple(tangent.shape), f"{tuple(tensor.shape)}"
            )
        )
    if tangent.dtype != tensor.dtype:
        raise DTypeError(
            message("make_dual", "the tangent's dtype", tangent.dtype.name, tensor.dtype.name)
        )
    primal = tensor._data.primal if own(now, tensor) else tensor
    return Tensor(Dual(now, primal, tangent))


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Primal and tangent of a tensor of the current level (no tangent for others, or outside a level)."""
    now = _current()
    tensor.refresh_()
    if now is None or not own(now, tensor):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(tensor._data.primal, tensor._data.tangent)
