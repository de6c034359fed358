"""Hooks on what a graph saves, hooks over several tensors, and the small tools of ``autograd.graph``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..errors import ArgumentError, AutogradError, DTypeError, message
from ..op.inplace import bump
from ..state import state
from ..tensor import Tensor
from .graph import Node, RemovableHandle

__all__ = [
    "GradientEdge",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks:
    """Context manager: what operations save for backward goes through two hooks.

    ``pack(tensor)`` is called when a value is saved and may return anything; ``unpack(packed)`` is called when backward
    needs it and must return a tensor with the same values. With hooks no version check is made: if the saved
    tensor may be changed in place later, pack must copy it. Hooks nest; the innermost pair is used.
    """

    def __init__(self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]):
        if not callable(pack) or not callable(unpack):
            raise DTypeError(
                message(
                    "saved_tensors_hooks",
                    "an argument",
                    "not callable",
                    "two functions (pack, unpack)",
                )
            )
        self.pack, self.unpack = pack, unpack

    def __enter__(self) -> saved_tensors_hooks:
        if state.hooks_disabled:
            raise AutogradError(state.hooks_disabled)
        state.saved_hooks = (*state.saved_hooks, (self.pack, self.unpack))
        state.refresh()
        return self

    def __exit__(self, *exc: object) -> None:
        state.saved_hooks = state.saved_hooks[:-1]
        state.refresh()


class save_on_cpu(saved_tensors_hooks):
    """Context manager: saved tensors wait in host memory (as copies) and come back to their device for backward.

    Parameters
    ----------
    pin_memory : accepted for PyTorch's signature; host memory of this library is never pinned.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__(self._to_host, self._to_device)

    @staticmethod
    def _to_host(t: Tensor) -> tuple:
        return t.device, t.detach().to("cpu", copy=True)

    @staticmethod
    def _to_device(packed: tuple) -> Tensor:
        device, t = packed
        return t.to(device)


class disable_saved_tensors_hooks:
    """Context manager: entering `saved_tensors_hooks` inside raises an error with this text."""

    def __init__(self, error_message: str):
        self.error_message = error_message
        self.previous = ""

    def __enter__(self) -> None:
        self.previous, state.hooks_disabled = state.hooks_disabled, self.error_message

    def __exit__(self, *exc: object) -> None:
        state.hooks_disabled = self.previous


class GradientEdge(NamedTuple):
    """A place in the graph: ``autograd.grad`` takes it as an input or output instead of a tensor."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that gradients of ``tensor`` flow into.

    Raises
    ------
    AutogradError : a tensor that does not require grad.
    """
    from .api import edge

    return GradientEdge(*edge(tensor, "get_gradient_edge"))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tell autograd that the tensor's memory was changed behind its back (through NumPy, say)."""
    for t in [tensor] if isinstance(tensor, Tensor) else list(tensor):
        bump(t, "increment_version")


class _MultiHandle(RemovableHandle):
    """Removes the hooks of several tensors."""

    __slots__ = ("handles",)

    def __init__(self, handles: Sequence[RemovableHandle]):
        super().__init__({}, 0)
        self.handles = tuple(handles)

    def remove(self) -> None:
        for h in self.handles:
            h.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all"
) -> RemovableHandle:
    """Call ``fn`` when gradients of several tensors have been computed.

    ``mode="all"``: once per backward, ``fn(grads)`` with one entry per tensor (None for those this backward does not
    reach), when the last one is there. ``mode="any"``: ``fn(grad)`` for the first one.

    Raises
    ------
    ArgumentError : another mode. AutogradError : a tensor that does not require grad.
    """
    if mode not in ("all", "any"):
        raise ArgumentError(
            message("register_multi_grad_hook", "argument 'mode'", mode, "'all' or 'any'")
        )
    tensors = list(tensors)
    edges = [get_gradient_edge(t) for t in tensors]
    watch = _Watch(edges, fn, mode)
    return _MultiHandle([t.register_hook(watch.hook(i)) for i, t in enumerate(tensors)])


class _Watch:
    """Collects the gradients of one backward pass."""

    def __init__(self, edges: Sequence[GradientEdge], fn: Callable, mode: str):
        # nodes that are kept here keep their graph alive, as the hooks on them do
        self.edges, self.fn, self.mode = edges, fn, mode
        self.passes: dict[int, tuple[dict, int]] = {}

    def hook(self, i: int) -> Callable:
        """The hook of tensor ``i``."""

        def receive(g: Tensor) -> None:
            sweep = state.sweep
            if id(sweep) not in self.passes:
                self.passes[id(sweep)] = ({}, self._expected(sweep))
                sweep.at_end.append(lambda: self.passes.pop(id(sweep), None))
            found, expected = self.passes[id(sweep)]
            found[i] = g
            if self.mode == "any":
                if len(found) == 1:
                    self.fn(g)
            elif len(found) == expected:
                self.fn([found.get(k) for k in range(len(self.edges))])

        return receive

    def _expected(self, sweep: Any) -> int:
        """How many of the tensors this backward reaches."""
        reached = sweep.reached()
        return sum(e.node in reached for e in self.edges)


def saved_by_name(node: Any, name: str) -> Any:
    """``grad_fn._saved_self``, ``_saved_other``, ``_saved_result`` and ``_saved_<position>``."""
    values = saved_values(node)
    key: Any = name.removeprefix("_saved_")
    key = {"self": 0, "input": 0, "other": 1, "result": "out", "output": "out"}.get(key, key)
    if isinstance(key, str) and key.isdigit():
        key = int(key)
    if key not in values:
        raise AttributeError(f"{node.name()} saved no {name.removeprefix('_saved_')!r}")
    return values[key]


def saved_values(node: Any) -> dict:
    """What a node saved: input position (or ``"out"``) to tensor, with history."""
    if hasattr(node, "plan"):
        inputs, out = node.plan.restore(node)
    elif hasattr(node, "op"):
        from ..op.base import restore

        inputs, out = restore(node)
    elif hasattr(node, "saved_user_tensors"):
        return dict(enumerate(node.saved_user_tensors()))
    else:
        return {}
    found: dict[Any, Any] = {i: x for i, x in enumerate(inputs) if isinstance(x, Tensor)}
    if out is not None:
        found["out"] = out
    return found
