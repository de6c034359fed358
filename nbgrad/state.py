"""Thread-local state that every operator reads.

``state.fast`` condenses everything into one integer for the hot path: ``1`` plain eager with gradients on, ``0`` plain
eager with gradients off, ``-1`` something unusual is active (a recorder, anomaly mode, a memory scope,
a tape trace, saved-tensor hooks, inference mode), so the operator must take the general path.

``state.births`` holds, per running transform, the birth mark and the node number at its start; ``state.protected``
the identities of version cells that a custom function's forward must not write.

``state.off`` is the lowest transform level that must *not* record gradients: `ON` when all record, 0 under
``no_grad``. While a backward pass of level L runs without ``create_graph`` it is L, so that the tensors below
(which an outer transform differentiates) go on recording.
"""

from __future__ import annotations

import threading
from typing import Any

ON = 1 << 30


class State(threading.local):
    """Per-thread switches; the class attributes are the defaults of a new thread."""

    fast: int = 1
    off: int = ON
    inference: bool = False
    anomaly: Any = None
    recorders: tuple = ()
    saved_hooks: tuple = ()
    levels: tuple = ()
    tracer: Any = None
    scopes: int = 0
    births: tuple = ()
    protected: frozenset = frozenset()
    hooks_disabled: str = ""
    sweep: Any = None

    def refresh(self) -> None:
        """Recompute ``fast`` after a switch has changed."""
        unusual = (
            self.inference
            or self.anomaly is not None
            or self.recorders
            or self.tracer is not None
            or self.saved_hooks
            or self.scopes
        )
        self.fast = -1 if unusual else int(self.off > 0)

    def set_off(self, off: int) -> int:
        """Set the lowest level that does not record; returns the previous value."""
        previous, self.off = self.off, off
        self.refresh()
        return previous


state = State()
