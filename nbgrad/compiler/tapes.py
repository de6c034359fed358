"""``tape.compile()``: a recorded tape as a compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import TraceError, message
from ..op import as_tensor
from ..state import state
from ..tape.program import Tape
from ..tensor import Tensor
from ..utils import pytree
from .program import Program, check_pure, close, compiled_call

NOTHING_INSIDE = 1 << 62  # no captured tensor is younger: only marked constants are constants


class CompiledTape:
    """A tape that replays as machine code; captured tensors are read at every call.

    ``compiled(*args)`` is ``tape.replay(*args)``: same structure of arguments and results, and part of autograd.
    """

    def __init__(self, tape: Tape, name: str = "tape"):
        check_pure(tape, name)
        self.tape = tape
        closed, self.captured = close(tape, NOTHING_INSIDE)
        self.program = Program(closed, name, self.captured)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Flat outputs for flat inputs."""
        if state.tracer is not None or self.tape.guards or self.tape.frozen:
            return self.tape.run(inputs)
        every = [*inputs, *self.captured]
        if any(isinstance(t._data, np.ndarray) is False for t in every):
            return self.tape.run(inputs)  # values of a transform, device arrays
        return list(compiled_call(*every, program=self.program))

    def __call__(self, *args: Any) -> Any:
        leaves, tree = pytree.flatten(args)
        if self.tape.in_tree is not None and tree != self.tape.in_tree:
            raise TraceError(
                message(
                    "Tape.compile",
                    "the arguments' structure",
                    tree,
                    f"the recorded one, {self.tape.in_tree}",
                )
            )
        tensors = self.tape.checked([as_tensor(x, "Tape.compile") for x in leaves])
        outs = self.run(tensors)
        if self.tape.out_tree is None:
            return outs[0] if len(outs) == 1 else tuple(outs)
        return pytree.unflatten(self.tape.out_tree, outs)
