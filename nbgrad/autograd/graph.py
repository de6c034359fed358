"""Graph nodes. A node holds edges ``(node, output number)``, never its input tensors.

Saved values are raw values plus the version cells they were read under; saved inputs get their edge back when
they are unpacked, saved outputs get this node, so no reference cycle exists and the graph dies by reference counting.
"""

from __future__ import annotations

import itertools
import weakref
from _thread import allocate_lock
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device import on_device
from ..errors import AutogradError, DeviceError
from ..state import state
from ..tensor import Tensor

if TYPE_CHECKING:
    from ..op import Operator
    from ..op.kernels import Plan

next_seq = itertools.count(1).__next__

# `autograd.graph` is PyTorch's name for these; they live in `hooks`, which needs the operators
_IN_HOOKS = (
    "GradientEdge",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
)


def __getattr__(name: str) -> Any:
    if name in _IN_HOOKS:
        from . import hooks

        return getattr(hooks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class NodeMeta:
    """Hooks, retained gradients and the creation stack of a node; absent on ordinary nodes."""

    __slots__ = ("hooks", "next_key", "post", "pre", "retain", "stack")

    def __init__(self) -> None:
        self.hooks: dict[int, tuple[int, Callable]] = {}
        self.pre: dict[int, Callable] = {}
        self.post: dict[int, Callable] = {}
        self.retain: dict[int, weakref.ref] = {}
        self.stack: Any = None
        self.next_key = itertools.count()


class RemovableHandle:
    """Returned by the ``register_*hook`` functions; ``remove()`` or leaving a ``with`` block unregisters."""

    __slots__ = ("_key", "_table")

    def __init__(self, table: dict, key: int):
        self._table, self._key = table, key

    def remove(self) -> None:
        """Unregister the hook; safe to call twice."""
        self._table.pop(self._key, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def freed_error(name: str) -> AutogradError:
    """The error of a second backward through released buffers."""
    return AutogradError(
        f"{name}: trying to backward through the graph a second time; its saved values were freed by "
        "the first backward. Pass retain_graph=True to the first call if you need two, or detach() a "
        "state carried over from an earlier iteration."
    )


class Node:
    """One recorded operation."""

    __slots__ = ("__weakref__", "edges", "meta", "nrs", "saved", "seq", "vers", "vnum")
    n_outputs = 1

    edges: tuple[Node | None, ...]
    nrs: tuple[int, ...] | None
    saved: tuple | None
    vers: tuple
    vnum: int
    meta: NodeMeta | None

    # -- what the engine calls ---------------------------------------------------------------
    def vjp_raw(self, g: Any) -> tuple:
        """Cotangents of the inputs as arrays (None where not needed), from an array cotangent."""
        out = self.vjp(wrap_grads(g))
        return tuple(None if t is None else t._data for t in out)

    def vjp(self, g: Any) -> tuple:
        """The same on tensors, in operator vocabulary, so that it can be differentiated again."""
        raise NotImplementedError

    def release(self) -> None:
        """Drop the saved values."""
        self.saved = None
        self.vers = ()

    @property
    def level(self) -> int:
        """The transform level whose values this node differentiates."""
        return 0

    # -- what users see ---------------------------------------------------------------------
    def name(self) -> str:
        """Name of the node, e.g. ``MulBackward``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple:
        """Pairs ``(node, output number)`` of the inputs, as in PyTorch."""
        nrs = self.nrs or (0,) * len(self.edges)
        return tuple(zip(self.edges, nrs, strict=True))

    @property
    def saved_tensors(self) -> tuple:
        """What the node saved for its backward, as tensors with their history.

        Raises
        ------
        AutogradError : freed by a backward, or changed in place since.
        """
        from .hooks import saved_values

        return tuple(saved_values(self).values())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            from .hooks import saved_by_name

            return saved_by_name(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def metadata(self) -> dict:
        """A dict for the user's own notes on this node (anomaly mode keeps its stack there)."""
        return {"stack": self.meta.stack} if self.meta is not None else {}

    def ensure_meta(self) -> NodeMeta:
        """The node's meta record, made on first use."""
        if self.meta is None:
            self.meta = NodeMeta()
        return self.meta

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(grad_outputs) -> grad_outputs | None`` before the node runs."""
        meta = self.ensure_meta()
        key = next(meta.next_key)
        meta.pre[key] = hook
        return RemovableHandle(meta.pre, key)

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs) -> grad_inputs | None`` after the node ran."""
        meta = self.ensure_meta()
        key = next(meta.next_key)
        meta.post[key] = hook
        return RemovableHandle(meta.post, key)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    def check_versions(self) -> None:
        """Raise if a saved value was changed in place after it was saved."""
        total = 0
        for cell in self.vers:
            total += cell[0]
        if total != self.vnum:
            culprit = next((c[1] for c in self.vers if len(c) > 1), "an in-place operation")
            raise AutogradError(
                f"{self.name()}: a tensor needed for this gradient was changed in place by {culprit}() "
                "after it was used; use the out-of-place form, or clone() the tensor before changing it."
            )

    def unpack(self) -> tuple:
        """The saved values, checked; runs the unpack hooks of ``saved_tensors_hooks``."""
        saved = self.saved
        if saved is None:
            raise freed_error(self.name())
        if self.vers:
            self.check_versions()
        for s in saved:
            if type(s) is Packed:
                return tuple(s.restore() if type(s) is Packed else s for s in saved)
        return saved


class Packed:
    """A saved value that went through the pack hook of ``saved_tensors_hooks``."""

    __slots__ = ("dtype", "payload", "shape", "unpack")

    def __init__(self, value: Any, pack: Callable, unpack: Callable):
        tensor = Tensor(value._data if isinstance(value, Tensor) else value)
        self.shape, self.dtype = tensor._data.shape, tensor._data.dtype
        previous = state.set_off(0)
        try:
            self.payload, self.unpack = pack(tensor), unpack
        finally:
            state.set_off(previous)

    def restore(self) -> Any:
        """The value the unpack hook gives back."""
        out = self.unpack(self.payload)
        if not isinstance(out, Tensor):
            raise AutogradError(
                f"saved_tensors_hooks: the unpack hook returned {type(out).__name__}; expected a tensor"
            )
        if out._data.shape != self.shape or out._data.dtype != self.dtype:
            raise AutogradError(
                f"saved_tensors_hooks: the unpack hook returned {out._data.dtype}{list(out._data.shape)}; expected "
                f"{self.dtype}{list(self.shape)}, as was packed"
            )
        return out._data


def wrap_grads(g: Any) -> Any:
    """Arrays to tensors, for one cotangent or a tuple of them."""
    if type(g) is tuple:
        return tuple(None if x is None else wrap_grads(x) for x in g)
    return Tensor(g if on_device(g) else np.asarray(g))


class AccumulateGrad(Node):
    """The leaf's end of the graph: it owns ``.grad``, so that the graph need not hold the tensor."""

    __slots__ = ("dtype", "grad", "lock", "post_acc", "shape", "tensor", "where")

    def __init__(self, tensor: Tensor):
        self.edges, self.nrs, self.saved = (), None, ()
        self.vers, self.vnum, self.meta = (), 0, None
        self.seq = next_seq()
        self.grad: Tensor | None = None
        self.lock = allocate_lock()
        self.shape, self.dtype = tensor._data.shape, tensor._data.dtype
        self.tensor = weakref.ref(tensor)
        self.post_acc: dict[int, Callable] | None = None
        value_level = getattr(tensor._data, "level", None)
        self.where = 0 if value_level is None else value_level.index

    @property
    def level(self) -> int:
        return self.where

    @property
    def variable(self) -> Tensor | None:
        """The leaf tensor, if it is still alive."""
        return self.tensor()

    def release(self) -> None:
        """Nothing is saved here."""


class ElementwiseNode(Node):
    """Backward of an elementwise operator: one fused kernel ``g * partial`` for all needed inputs."""

    __slots__ = ("plan", "shapes")

    def __init__(self, plan: Plan, edges, nrs, saved, vers, vnum, shapes):
        self.plan = plan
        self.edges = edges
        self.nrs = nrs
        self.saved = saved
        self.vers = vers
        self.vnum = vnum
        self.shapes = shapes
        self.seq = next_seq()
        self.meta = None

    def name(self) -> str:
        return self.plan.op.node_name

    def vjp_raw(self, g: Any) -> tuple:
        saved = self.saved
        if saved is None:
            raise freed_error(self.name())
        vers = self.vers
        if vers:
            total = vers[0][0]
            if len(vers) > 1:
                total += vers[1][0]
            if total != self.vnum or len(vers) > 2:
                self.check_versions()
        try:
            return self.plan.raw(g, saved, self.shapes)
        except DeviceError:  # a 0-d operation on the CPU whose result was used on a device
            return self.vjp_device(g)

    def vjp_device(self, g: Any) -> tuple:
        """`vjp_raw` for a cotangent on a device: one fused kernel there."""
        from ..cuda import kernels

        if not kernels.can_fuse(self.plan, g):
            return Node.vjp_raw(self, g)
        return kernels.elementwise_vjp(self.plan, g, self.unpack(), self.shapes)

    def vjp(self, g: Tensor) -> tuple:
        return self.plan.vjp(self, g)


class OpNode(Node):
    """Backward of any other operator: runs its declared vjp rule."""

    __slots__ = ("n_outputs", "op", "params", "specs", "where")

    def __init__(
        self, op: Operator, params: dict, edges, nrs, saved, vers, vnum, specs, n_out, where
    ):
        self.op, self.params = op, params
        self.edges, self.nrs = edges, nrs
        self.saved, self.vers, self.vnum = saved, vers, vnum
        self.specs, self.n_outputs, self.where = specs, n_out, where
        self.seq = next_seq()
        self.meta = None

    @property
    def level(self) -> int:
        return self.where

    def name(self) -> str:
        return self.op.node_name

    def vjp(self, g: Any) -> tuple:
        return self.op.run_vjp(self, g)


class LevelElementwiseNode(ElementwiseNode):
    """An elementwise node over values of a transform level."""

    __slots__ = ("where",)

    @property
    def level(self) -> int:
        return self.where

    def vjp_raw(self, g: Any) -> tuple:
        return self.vjp_device(g) if on_device(g) else Node.vjp_raw(self, g)
