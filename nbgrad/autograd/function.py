"""``autograd.Function``: operations with a derivative of the user's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..errors import AutogradError, UnsupportedError, message
from ..state import state
from ..tensor import Tensor
from .context import FunctionCtx
from .custom import Call
from .custom_op import OPERATOR, finish

__all__ = ["Function", "FunctionCtx", "VmapInfo", "once_differentiable"]


class VmapInfo(NamedTuple):
    """What a custom ``vmap`` gets first: the batch size and vmap's ``randomness``."""

    batch_size: int
    randomness: str


class Function:
    """Base class of custom operations; use them by ``MyFunction.apply(*args)``.

    Define static methods:

    ``forward(ctx, *args)``, or ``forward(*args)`` and ``setup_context(ctx, inputs, output)``
        computes the result (a tensor, or a tuple with tensors) from tensors and anything else; nothing in it is recorded.
    ``backward(ctx, *grad_outputs)`` (or ``vjp``)
        one cotangent per argument of forward (None for arguments that are no tensors). Written with nbgrad
        operations it can be differentiated again, batched and traced. It should depend on the inputs through
        ``ctx.saved_tensors`` only: anything else that forward computed from them has an unknown derivative, and a
        second derivative along it raises.
    ``jvp(ctx, *tangents)``
        one tangent per output, for forward and Taylor mode.
    ``vmap(info, in_dims, *args)``
        ``(outputs, out_dims)`` on batched arguments; without it vmap batches forward and backward by their own operations
        (``generate_vmap_rule`` is accepted and has no further effect). Needs ``setup_context``.
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result (to be defined by the subclass)."""
        raise UnsupportedError("Function.forward: define a static method 'forward' in the subclass")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Any) -> None:
        """Save for backward (to be defined by the subclass if forward takes no ctx)."""

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """Compute the cotangents of the arguments (to be defined by the subclass)."""
        raise UnsupportedError("Function.backward")

    vjp = backward

    @staticmethod
    def jvp(ctx: FunctionCtx, *tangents: Any) -> Any:
        """Compute the tangents of the outputs (to be defined by the subclass)."""
        raise UnsupportedError("Function.jvp")

    @staticmethod
    def vmap(info: VmapInfo, in_dims: tuple, *args: Any) -> tuple:
        """Compute on batched arguments (to be defined by the subclass)."""
        raise UnsupportedError("Function.vmap")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run the function; gradients go through `backward`.

        Raises
        ------
        AutogradError : an input changed in place but not marked dirty, a leaf that requires grad changed in place.
        """
        call = Call(cls, args)
        tensors = [a for a in args if isinstance(a, Tensor)]
        call.inplace = not state.recorders  # a tape needs the value before and the value after
        flat = OPERATOR(*tensors, call=call)
        return finish(call, tensors, flat)

    # -- called by `custom` --------------------------------------------------------------------------
    @classmethod
    def _separate(cls) -> bool:
        """Whether the subclass has its own ``setup_context``."""
        return cls.setup_context is not Function.setup_context

    @classmethod
    def _has_vmap(cls) -> bool:
        return cls.vmap is not Function.vmap

    @classmethod
    def _run_forward(cls, ctx: FunctionCtx, args: list) -> Any:
        if not cls._separate():
            return cls.forward(ctx, *args)
        result = cls.forward(*args)
        cls.setup_context(ctx, tuple(args), result)
        return result

    @classmethod
    def _run_backward(cls, ctx: FunctionCtx, given: list, template: tuple) -> list:
        rule = cls.backward if cls.backward is not Function.backward else cls.vjp
        if rule is Function.backward:
            raise UnsupportedError(
                f"{cls.__name__}: no backward is defined; it has no gradient in reverse mode. Define a static method "
                "'backward'."
            )
        got = rule(ctx, *given)
        got = list(got) if isinstance(got, tuple | list) else [got]
        while len(got) > len(template) and got[-1] is None:
            got.pop()
        if len(got) != len(template):
            raise AutogradError(
                message(
                    f"{cls.__name__}.backward",
                    "the number of gradients returned",
                    len(got),
                    f"{len(template)}, one per argument of forward",
                    "Return None for arguments that need none.",
                )
            )
        for i, (g, r) in enumerate(zip(got, template, strict=True)):
            if r is not None and g is not None:
                raise AutogradError(
                    message(
                        f"{cls.__name__}.backward",
                        f"the gradient of argument {i}",
                        "a tensor",
                        "None, because the argument is no tensor",
                    )
                )
        return [g for g, r in zip(got, template, strict=True) if r is None]

    @classmethod
    def _run_jvp(cls, ctx: FunctionCtx, tangents: Sequence[Any], frame: Any) -> list:
        if cls.jvp is Function.jvp:
            raise UnsupportedError(
                f"{cls.__name__}: no jvp is defined, which forward mode (jvp, jacfwd, dual numbers) and Taylor mode need; "
                "define a static method 'jvp(ctx, *tangents)', or use reverse mode."
            )
        got = cls.jvp(ctx, *tangents)
        got = list(got) if isinstance(got, tuple | list) else [got]
        if len(got) != len(frame.outputs):
            raise AutogradError(
                message(
                    f"{cls.__name__}.jvp",
                    "the number of tangents returned",
                    len(got),
                    f"{len(frame.outputs)}, one per output",
                )
            )
        return [t for t, r in zip(got, frame.outputs, strict=True) if r.kind == "out"]

    @classmethod
    def _run_vmap(cls, size: int, randomness: str, in_dims: tuple, args: list) -> tuple:
        if not cls._separate():
            raise UnsupportedError(
                f"{cls.__name__}: a custom vmap needs the two-part style; define forward without ctx and setup_context."
            )
        got = cls.vmap(VmapInfo(size, randomness), in_dims, *args)
        if not isinstance(got, tuple) or len(got) != 2:
            raise AutogradError(
                message(
                    f"{cls.__name__}.vmap", "the result", type(got).__name__, "(outputs, out_dims)"
                )
            )
        return got


def _bare(t: Any) -> Any:
    """A tensor without history, so that NumPy may read it."""
    return Tensor(t._data, None, 0, t._ver) if isinstance(t, Tensor) else t


def once_differentiable(backward: Callable) -> Callable:
    """Decorator for a backward that cannot be differentiated again (e.g. because it uses NumPy).

    A second derivative through it raises instead of being silently wrong.
    """

    @functools.wraps(backward)
    def wrapped(ctx: FunctionCtx, *grads: Any) -> Any:
        # values of lower levels go on recording what an outer transform needs
        previous = state.set_off(min(state.off, ctx._level))
        ctx._saved = tuple(_bare(t) for t in ctx._saved)
        try:
            out = backward(ctx, *(_bare(g) for g in grads))
        finally:
            state.set_off(previous)
        ctx._once = True
        return out

    return wrapped
