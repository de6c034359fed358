"""Tensor attributes and methods of automatic differentiation: leaves, gradients, history, hooks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .autograd import api
from .autograd.graph import AccumulateGrad, RemovableHandle
from .device import array_under
from .errors import AutogradError, DTypeError, message
from .op.dispatch import CONSTANT, tag
from .op.inplace import refresh
from .op.public import METHODS
from .ops import view as view_ops
from .ops.creation import require_grad, zeros_plain
from .state import state
from .tensor import EPOCH, Meta, Tensor, Value


def method(fn: Any) -> Any:
    """Register a function (or property) as a Tensor attribute under its own name."""
    METHODS[getattr(fn, "fget", fn).__name__] = fn
    return fn


@method
@property
def requires_grad(self: Tensor) -> bool:
    """Whether operations on this tensor are recorded."""
    refresh(self)
    return self._node is not None


@requires_grad.setter
def requires_grad(self: Tensor, value: bool) -> None:
    requires_grad_(self, value)


METHODS["requires_grad"] = requires_grad


@method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Make a leaf record gradients, or stop it from doing so."""
    if requires_grad:
        if self._meta is not None and self._meta.inference and not state.inference:
            raise AutogradError(
                "requires_grad_: an inference tensor cannot require grad outside inference_mode; clone() it."
            )
        refresh(self)
        kept = None if self._node is not None else self.grad
        require_grad(self)
        if kept is not None:
            self.grad = kept
        return self
    if self._node is not None and not isinstance(self._node, AccumulateGrad):
        raise AutogradError(
            "requires_grad_: requires_grad=False can be set only on a leaf; use detach() to get a tensor that "
            "does not require grad."
        )
    if self._node is not None:
        saved = self._node.grad
        self._node = None
        if saved is not None:
            _meta(self).grad = saved
    return self


@method
def zero_grad(self: Tensor, set_to_none: bool = True) -> None:
    """Forget the accumulated gradient: ``.grad`` becomes None, or zeros with ``set_to_none=False``."""
    old = self.grad
    if old is not None:
        self.grad = None if set_to_none else Tensor(np.zeros(old.shape, old.dtype))


def _meta(t: Tensor) -> Meta:
    if t._meta is None:
        t._meta = Meta()
    return t._meta


@method
@property
def grad(self: Tensor) -> Tensor | None:
    """The accumulated gradient of a leaf (of a non-leaf only after ``retain_grad()``), or None."""
    if isinstance(self._node, AccumulateGrad):
        return self._node.grad
    return self._meta.grad if self._meta is not None else None


@grad.setter
def grad(self: Tensor, value: Tensor | None) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise DTypeError(
                message("grad", "the value assigned", type(value).__name__, "a tensor or None")
            )
        if tuple(value.shape) != tuple(self.shape):
            raise AutogradError(
                message(
                    "grad",
                    "the assigned gradient's shape",
                    tuple(value.shape),
                    tuple(self.shape).__repr__(),
                )
            )
        if value.dtype != self.dtype:
            raise DTypeError(
                message("grad", "the assigned gradient's dtype", value.dtype.name, self.dtype.name)
            )
    if isinstance(self._node, AccumulateGrad):
        self._node.grad = value
    else:
        _meta(self).grad = value


METHODS["grad"] = grad


@method
@property
def grad_fn(self: Tensor) -> Any:
    """The node that made this tensor, or None for leaves."""
    refresh(self)
    return None if isinstance(self._node, AccumulateGrad) else self._node


@method
@property
def is_leaf(self: Tensor) -> bool:
    """True for tensors without history."""
    refresh(self)
    return self._node is None or isinstance(self._node, AccumulateGrad)


@method
@property
def output_nr(self: Tensor) -> int:
    """Which output of ``grad_fn`` this tensor is."""
    return self._nr


@method
@property
def _version(self: Tensor) -> int:
    """How often the storage has been written in place."""
    return self._ver[0] % EPOCH


@method
@property
def _base(self: Tensor) -> Tensor | None:
    """The tensor a view looks at, or None."""
    return self._meta.base if self._meta is not None else None


@method
def _is_view(self: Tensor) -> bool:
    """Whether this tensor is a view of another one."""
    return self._meta is not None and self._meta.base is not None


@method
@property
def retains_grad(self: Tensor) -> bool:
    """Whether ``retain_grad()`` was called on a non-leaf."""
    return self._meta is not None and self._meta.retain


@method
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of a non-leaf tensor in ``.grad``."""
    refresh(self)
    if self._node is None:
        raise AutogradError(
            "retain_grad: the tensor does not require grad, so it will have no gradient."
        )
    if isinstance(self._node, AccumulateGrad):
        return
    _meta(self).retain = True
    self._node.ensure_meta().retain[self._nr] = weakref.ref(self)


@method
def detach(self: Tensor) -> Tensor:
    """The same memory without history: a constant in reverse, forward and Taylor mode."""
    refresh(self)
    if state.recorders or isinstance(self._data, Value):
        out = view_ops.detach(self)
        _meta(out).detached = True
        return out
    out = Tensor(self._data, None, 0, self._ver)
    if self._meta is not None and self._meta.inference:
        _meta(out).inference = True
    return out


@method
def detach_(self: Tensor) -> Tensor:
    """Cut this tensor from its history, in place."""
    if self._meta is not None and self._meta.base is not None:
        raise AutogradError("detach_: a view cannot be detached in place; use detach().")
    self._node, self._nr = None, 0
    if self._meta is not None:
        self._meta.retain = False
    return self


@method
def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate gradients of this tensor into the leaves; see ``autograd.backward``."""
    api.backward(
        [self], None if gradient is None else [gradient], retain_graph, create_graph, inputs
    )


def _check_hook(hook: Any, op: str) -> None:
    if not callable(hook):
        raise DTypeError(message(op, "argument 'hook'", repr(hook), "a callable"))


@method
def register_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call ``hook(grad) -> tensor | None`` when this tensor's gradient has been computed."""
    _check_hook(hook, "register_hook")
    refresh(self)
    if self._node is None:
        raise AutogradError(
            "register_hook: the tensor does not require grad, so the hook would never run."
        )
    meta = self._node.ensure_meta()
    key = next(meta.next_key)
    meta.hooks[key] = (self._nr, hook)
    return RemovableHandle(meta.hooks, key)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call ``hook(tensor)`` after ``.grad`` of this leaf has been accumulated."""
    _check_hook(hook, "register_post_accumulate_grad_hook")
    node = self._node
    if not isinstance(node, AccumulateGrad):
        raise AutogradError(
            "register_post_accumulate_grad_hook: the tensor is no leaf that requires grad; use register_hook."
        )
    if node.post_acc is None:
        node.post_acc = {}
    key = next(node.ensure_meta().next_key)
    node.post_acc[key] = hook
    return RemovableHandle(node.post_acc, key)


@method
def refresh_(self: Tensor) -> None:
    """Make a view follow writes to its base (internal)."""
    refresh(self)


@method
def zeros_like_(self: Tensor) -> Tensor:
    """Zeros of the same shape, dtype and device (internal)."""
    data = self._data
    if hasattr(data, "zeros_like"):
        return Tensor(data.zeros_like())
    there = array_under(self)
    if there is not None:
        return tag(Tensor(there.filled(data.shape, data.dtype, 0)), CONSTANT)
    return tag(zeros_plain(data.shape, data.dtype), CONSTANT)


@method
def ones_like_(self: Tensor) -> Tensor:
    """Ones of the same shape, dtype and device (internal)."""
    data = self._data
    if hasattr(data, "ones_like"):
        return Tensor(data.ones_like())
    there = array_under(self)
    if there is not None:
        return tag(Tensor(there.filled(data.shape, data.dtype, 1)), CONSTANT)
    return tag(Tensor(np.ones(data.shape, data.dtype)), CONSTANT)


@method
def size_(self: Tensor) -> int:
    """Number of elements (internal)."""
    return self._data.size
