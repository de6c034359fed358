"""``ctx``: what a custom Function's forward hands to its backward and jvp."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import DTypeError, message
from ..tensor import Tensor


class Ref(NamedTuple):
    """Where a value of a frame comes from: ``in``, ``out``, ``state`` (with a number) or ``value`` (itself)."""

    kind: str
    k: Any


class FunctionCtx:
    """The context of one call of a custom Function.

    Any attribute set in forward (or ``setup_context``) is there again in backward and jvp.

    Attributes
    ----------
    needs_input_grad : one bool per argument of forward.
    """

    needs_input_grad: tuple[bool, ...]

    def __init__(self, needs: tuple):
        self.needs_input_grad = needs
        self._saved: tuple = ()
        self._forward_saved: tuple | None = None
        self._dirty: tuple = ()
        self._nondiff: frozenset = frozenset()
        self._materialize = True
        self._once = False
        self._level = 0

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None) for backward; they are then in ``ctx.saved_tensors``.

        Save inputs and outputs where you can: only through them can the gradient be differentiated again.
        """
        self._saved = _tensors(tensors, "save_for_backward")

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None) for jvp; there they are in ``ctx.saved_tensors``."""
        self._forward_saved = _tensors(tensors, "save_for_forward")

    @property
    def saved_tensors(self) -> tuple:
        """The saved tensors, with their history where they are inputs or outputs."""
        return self._saved

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward changed in place; forward must return them."""
        self._dirty = _tensors(tensors, "mark_dirty")

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient (integer outputs never have one)."""
        self._keep = _tensors(tensors, "mark_non_differentiable")
        self._nondiff = frozenset(id(t) for t in self._keep)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward and jvp get zeros (True, the default) or None for missing gradients and tangents."""
        self._materialize = bool(value)

    def attributes(self) -> dict[str, Any]:
        """What the user put on the context."""
        hidden = {"needs_input_grad", "_saved", "_forward_saved", "_dirty", "_nondiff", "_keep"}
        hidden |= {"_materialize", "_once", "_level"}
        return {k: v for k, v in self.__dict__.items() if k not in hidden}


def _tensors(given: tuple, op: str) -> tuple:
    for t in given:
        if t is not None and not isinstance(t, Tensor):
            raise DTypeError(
                message(
                    f"ctx.{op}",
                    "an argument",
                    f"a {type(t).__name__}",
                    "a tensor or None",
                    "Set anything else as an attribute: ctx.name = value.",
                )
            )
    return given
