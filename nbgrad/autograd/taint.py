"""What a custom Function's backward depends on without nbgrad knowing how.

A backward may read tensors that forward computed and put on ``ctx``. Where such state was computed from the inputs, the
derivative of the gradient along it is unknown, and pretending it were zero would be silently wrong. So the forward
is watched (`Taint`): state that really depends on the inputs gets a `GuardNode` in the graph of a recorded
backward, which raises when (and only when) a second derivative would have to pass through it. Masks, random
numbers, integers and constants do not depend on the inputs differentiably and stay free; forward mode has `unknown`.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import AutogradError
from ..op.interpreter import Listener
from ..tensor import Level, Tensor, Value
from .graph import Node, next_seq


class Taint(Listener):
    """A recorder that follows which tensors of a forward depend on its inputs through real numbers."""

    def __init__(self, inputs: Sequence[Tensor]):
        self.marked: dict[int, weakref.ref] = {}
        self.leaked = ""
        for t in inputs:
            self._mark(t)

    def _mark(self, t: Tensor) -> None:
        if t._data.dtype.kind not in "fc":
            return
        # by identity: == of tensors is elementwise, so weak sets do not work
        key = id(t)
        self.marked[key] = weakref.ref(t, lambda _, m=self.marked, k=key: m.pop(k, None))
        parts = getattr(t._data, "parts", None)
        for p in parts() if parts is not None else ():
            self._mark(p)

    def depends(self, t: Tensor) -> bool:
        """Whether a tensor was computed from the inputs (integers and bools never count)."""
        if t._data.dtype.kind not in "fc":
            return False
        if id(t) in self.marked or (t._meta is not None and id(t._meta.base) in self.marked):
            return True
        tracer = getattr(getattr(t._data, "level", None), "interpreter", None)
        tape = getattr(tracer, "tape", None)
        if tape is not None and hasattr(t._data, "var"):
            return t._data.var in _reached(tape)
        parts = getattr(t._data, "parts", None)
        return parts is not None and any(self.depends(p) for p in parts())

    # -- the recorder's protocol ------------------------------------------------------------------
    def record(self, op: Any, args: Sequence[Tensor], params: dict, outs: Sequence[Tensor]) -> None:
        """After an operation: its real results depend on the inputs if an argument does."""
        if (op.differentiable or op.name == "detach") and any(self.depends(a) for a in args):
            for o in outs:
                self._mark(o)

    def alias(self, new: Tensor, old: Tensor) -> None:
        """``new`` holds the value of ``old``."""
        if self.depends(old):
            self._mark(new)

    def written(self, t: Tensor, result: Tensor, base: Tensor | None) -> None:
        """``result`` was written into ``t``."""
        if self.depends(result):
            self._mark(t)
            if base is not None:
                self._mark(base)

    def host_read(self, t: Tensor, data: Any, what: str) -> None:
        """Python or NumPy read a value: from now on anything may depend on the inputs."""
        if not self.leaked and self.depends(t):
            self.leaked = what

    # -- state on ctx that is no tensor -------------------------------------------------------------
    def suspicious(self, value: Any, known: Sequence[Any]) -> bool:
        """Whether a non-tensor on ``ctx`` may carry real numbers computed from the inputs."""
        if any(value is k for k in known) or isinstance(value, _PLAIN) or value is None:
            return False
        if isinstance(value, float | complex | np.floating | np.complexfloating):
            return bool(self.leaked)
        if isinstance(value, np.ndarray):
            return bool(self.leaked) and value.dtype.kind in "fcO"
        return any(self._bad(v, known) for v in _contents(value))

    def _bad(self, value: Any, known: Sequence[Any]) -> bool:
        if any(value is k for k in known):
            return False
        if isinstance(value, Tensor):
            return self.depends(value) or (bool(self.leaked) and value._data.dtype.kind in "fc")
        if isinstance(value, float | complex | np.ndarray):
            return self.suspicious(value, known)
        return False


_PLAIN = (
    bool,
    int,
    str,
    bytes,
    np.dtype,
    np.integer,
    np.bool_,
    slice,
    range,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
)


def _contents(value: Any, depth: int = 4) -> Iterator[Any]:
    """Tensors and numbers inside containers, closures, bound methods and plain objects."""
    if isinstance(value, Tensor | float | complex | np.ndarray):
        yield value
        return
    if depth == 0 or isinstance(value, _PLAIN) or value is None:
        return
    if isinstance(value, dict):
        inner: Any = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = value
    elif isinstance(value, types.FunctionType):
        cells = value.__closure__ or ()
        inner = [c.cell_contents for c in cells if _filled(c)] + list(value.__defaults__ or ())
    elif isinstance(value, types.MethodType):
        inner = [value.__self__, value.__func__]
    else:
        inner = (
            [getattr(value, "func", None), *getattr(value, "args", ())] if _partial(value) else ()
        )
        inner = [*inner, *getattr(value, "__dict__", {}).values()]
    for v in inner:
        yield from _contents(v, depth - 1)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises ValueError while empty
    except ValueError:
        return False
    return True


def _partial(value: Any) -> bool:
    return type(value).__name__ == "partial" and hasattr(value, "func")


def _reached(tape: Any) -> set[int]:
    """Variables of a tape that depend on its inputs through real numbers."""
    from ..op import REGISTRY

    found = {v for v in tape.inputs if tape.specs[v].dtype.kind in "fc"}
    for name, ins, _, outs in tape.instructions:
        op = REGISTRY[name]
        if (op.differentiable or name == "detach") and any(v in found for v in ins):
            found.update(v for v in outs if tape.specs[v].dtype.kind in "fc")
    return found


# -- reverse mode ------------------------------------------------------------------------------------


class GuardNode(Node):
    """Stands for a dependence whose derivative is unknown: reaching it in a backward pass is an error."""

    __slots__ = ("text", "where")

    def __init__(
        self, edges: Sequence[Node | None], nrs: Sequence[int] | None, text: str, where: int
    ):
        self.edges = tuple(edges)
        self.nrs = None if nrs is None else tuple(nrs)
        self.saved, self.vers, self.vnum, self.meta = (), (), 0, None
        self.text, self.where = text, where
        self.seq = next_seq()

    @property
    def level(self) -> int:
        return self.where

    def name(self) -> str:
        return "UnknownDependenceBackward"

    def vjp(self, g: Any) -> tuple:
        raise AutogradError(self.text)


class MarkNode(Node):
    """Passes a gradient on unchanged and, beside it, reports a dependence through a `GuardNode`."""

    __slots__ = ("where",)

    def __init__(self, edge: Node | None, nr: int, guard: GuardNode):
        self.edges, self.nrs = (edge, guard), (nr, 0)
        self.saved, self.vers, self.vnum, self.meta = (), (), 0, None
        self.where = guard.where
        self.seq = next_seq()

    @property
    def level(self) -> int:
        return self.where

    def name(self) -> str:
        return "CustomGradientBackward"

    def vjp(self, g: Any) -> tuple:
        return g, g


def marked(t: Tensor, guard: GuardNode) -> Tensor:
    """The same gradient, with the dependence that ``guard`` stands for in its history."""
    return Tensor(t._data, MarkNode(t._node, t._nr, guard), 0, t._ver)


# -- forward mode ------------------------------------------------------------------------------------


class Unknown(Value):
    """The tangent of state with an unknown dependence: any use raises."""

    __slots__ = ("text",)

    def __init__(self, like: Tensor, text: str):
        self.level, self.text = _UNKNOWN, text
        self.shape, self.dtype = like._data.shape, like._data.dtype


class _UnknownInterpreter:
    def lift(self, level: Level, t: Tensor) -> Any:
        """Everything stays what it is."""
        return t

    def process(self, level: Level, op: Any, args: Sequence[Tensor], params: dict) -> Any:
        """Refuse."""
        raise AutogradError(next(t._data.text for t in args if isinstance(t._data, Unknown)))


_UNKNOWN = Level(1 << 29, "an unknown dependence", _UnknownInterpreter())


def unknown(like: Tensor, text: str) -> Tensor:
    """A tangent (or Taylor coefficient) nobody knows."""
    return Tensor(Unknown(like, text))
