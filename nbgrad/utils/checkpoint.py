"""Checkpointing: trade computation for memory by recomputing what backward needs.

A checkpointed call is recorded as usual, except that nothing it saves is kept. The first time backward asks for a saved
value, the call runs once more and refills them. So gradients reach everything the function uses (also captured
parameters), and second derivatives work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.graph import AccumulateGrad
from ..autograd.hooks import saved_tensors_hooks
from ..errors import ArgumentError, AutogradError, message
from ..state import ON, state
from ..tensor import Tensor
from . import pytree

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool = False,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)`` without keeping what its operations save for backward.

    Parameters
    ----------
    use_reentrant : accepted for PyTorch's signature; both values recompute in the same way.
    preserve_rng_state : the recomputation draws the same random numbers.
    determinism_check : ``"default"`` compares shapes and dtypes of recomputed values, ``"none"`` does not.

    Raises
    ------
    AutogradError : (in backward) the recomputation differs, or an argument was changed in place meanwhile.
    """
    if determinism_check not in ("default", "none"):
        raise ArgumentError(
            message(
                "checkpoint",
                "argument 'determinism_check'",
                determinism_check,
                "'default' or 'none'",
            )
        )
    run = _Checkpoint(function, args, kwargs, preserve_rng_state, determinism_check == "default")
    with saved_tensors_hooks(run.pack, run.unpack):
        return function(*args, **kwargs)


class _Checkpoint:
    """One checkpointed call: what is needed to run it again, and the values it refilled."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict, rng: bool, check: bool):
        self.function = function
        self.leaves, self.tree = pytree.flatten((list(args), dict(kwargs)))
        self.versions = [x._ver[0] if isinstance(x, Tensor) else None for x in self.leaves]
        self.rng = _rng_state() if rng else None
        self.check = check
        self.specs: list[tuple] = []
        self.values: dict[int, Tensor] = {}

    def pack(self, t: Tensor) -> int:
        """Keep the number of a saved value instead of the value."""
        self.specs.append((t._data.shape, t._data.dtype))
        return len(self.specs) - 1

    def unpack(self, number: int) -> Tensor:
        """The value again; everything is recomputed when it is not there (any more)."""
        if number not in self.values:
            self._recompute()
        return self.values.pop(number)

    def _recompute(self) -> None:
        leaves = [self._fresh(i, x) for i, x in enumerate(self.leaves)]
        args, kwargs = pytree.unflatten(self.tree, leaves)
        found: list[Tensor] = []

        def pack(t: Tensor) -> int:
            found.append(Tensor(t._data, None, 0, t._ver))
            return len(found) - 1

        previous, saved = state.set_off(ON), _rng_state()
        try:
            if self.rng is not None:
                _restore_rng(self.rng)
            with saved_tensors_hooks(pack, found.__getitem__):
                self.function(*args, **kwargs)
        finally:
            _restore_rng(saved)
            state.set_off(previous)
        self._compare(found)
        self.values = dict(enumerate(found))

    def _fresh(self, i: int, x: Any) -> Any:
        """The argument without its history (it must be recorded again, but only inside)."""
        if not isinstance(x, Tensor):
            return x
        if x._ver[0] != self.versions[i]:
            raise AutogradError(
                f"checkpoint: tensor argument {i} was changed in place after the call, so the call cannot be repeated; use "
                "the out-of-place form, or clone() it."
            )
        leaf = Tensor(x._data, None, 0, x._ver)
        if x._node is not None:
            leaf._node = AccumulateGrad(leaf)
        return leaf

    def _compare(self, found: Sequence[Tensor]) -> None:
        specs = [(t._data.shape, t._data.dtype) for t in found]
        if len(specs) != len(self.specs) or (self.check and specs != self.specs):
            raise AutogradError(
                f"checkpoint: the recomputation saved {len(specs)} values, the call itself {len(self.specs)}, or their "
                "shapes differ; the function must do the same each time (the same branches, no changing state)."
            )


def _rng_state() -> Any:
    from .. import random

    return random.get_rng_state()


def _restore_rng(value: Any) -> None:
    from .. import random

    random.set_rng_state(value)


def checkpoint_sequential(
    functions: Sequence[Callable],
    segments: int,
    input: Any,
    use_reentrant: bool = False,
    **kwargs: Any,
) -> Any:
    """Apply functions one after the other in ``segments`` checkpointed pieces (the last one is kept).

    Raises
    ------
    ArgumentError : a number of segments below 1 or above that of the functions.
    """
    steps = list(functions)
    if not 1 <= segments <= len(steps):
        raise ArgumentError(
            message("checkpoint_sequential", "argument 'segments'", segments, f"1 to {len(steps)}")
        )
    size = len(steps) // segments

    def piece(lo: int, hi: int) -> Callable:
        def run(x: Any) -> Any:
            for f in steps[lo:hi]:
                x = f(x)
            return x

        return run

    for k in range(segments - 1):
        input = checkpoint(
            piece(k * size, (k + 1) * size), input, use_reentrant=use_reentrant, **kwargs
        )
    return piece((segments - 1) * size, len(steps))(input)
