"""Tensor attributes and methods that are not operators: state, conversion, gradient bookkeeping.

`install` puts them, and every registered method, on `Tensor` once, when nbgrad is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes as dt
from .autograd import api
from .autograd.graph import AccumulateGrad, RemovableHandle
from .device import array_under, on_device
from .errors import AutogradError, DeviceError, DTypeError, TraceError, message
from .layout import is_contiguous, normalize_axis
from .memory.scope import watch
from .op import cast
from .op.dispatch import CONSTANT, tag
from .op.inplace import bump, check_writable, refresh
from .op.public import METHODS
from .op.view import array_layout, layout_of
from .ops.creation import require_grad, zeros_plain
from .ops import view as view_ops
from .state import state
from .tensor import EPOCH, Freed, Meta, Tensor, Value, level_of


def method(fn: Any) -> Any:
    """Register a function (or property) as a Tensor attribute under its own name."""
    METHODS[fn.fget.__name__ if isinstance(fn, property) else fn.__name__] = fn
    return fn


def _scope_depth(depth: int) -> None:
    state.scopes = depth
    state.refresh()


def install() -> None:
    """Put everything registered on the Tensor class."""
    watch(_scope_depth)
    for name, fn in METHODS.items():
        setattr(Tensor, name, fn)
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]


# -- autograd state -------------------------------------------------------------------------------


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
    import weakref

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


# -- shape, memory and conversion -------------------------------------------------------------------


@method
def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size of one dimension."""
    return self.shape if dim is None else self.shape[normalize_axis(dim, self.ndim, "size")]


@method
def dim(self: Tensor) -> int:
    """Number of dimensions."""
    return self.ndim


@method
def numel(self: Tensor) -> int:
    """Number of elements."""
    return self._data.size


METHODS["nelement"] = numel


@method
def element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


METHODS["itemsize"] = property(element_size)
METHODS["nbytes"] = property(lambda self: self._data.size * self.dtype.itemsize)


def _layout(self: Tensor) -> Any:
    data = self._data
    return array_layout(data) if type(data) is np.ndarray else layout_of(self)


@method
def stride(self: Tensor, dim: int | None = None) -> Any:
    """Strides in elements, or the stride of one dimension."""
    strides = _layout(self).strides
    return strides if dim is None else strides[normalize_axis(dim, self.ndim, "stride")]


def _root(a: np.ndarray) -> np.ndarray:
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


@method
def storage_offset(self: Tensor) -> int:
    """Elements between the start of the storage and the first element."""
    data = self._data
    if type(data) is not np.ndarray:
        return layout_of(self).offset
    return (address(data) - address(_root(data))) // data.itemsize


def address(a: np.ndarray) -> int:
    """Address of an array's first element in bytes."""
    return a.__array_interface__["data"][0]


@method
def data_ptr(self: Tensor) -> int:
    """Address of the first element."""
    data = self._data
    if isinstance(data, Value):
        raise TraceError("data_ptr: a traced or transformed value has no memory address.")
    return address(data) if type(data) is np.ndarray else data.pointer


@method
def is_contiguous_(self: Tensor) -> bool:
    """Row-major without gaps."""
    return is_contiguous(_layout(self))


METHODS["is_contiguous"] = METHODS.pop("is_contiguous_")


class UntypedStorage:
    """The memory under a tensor, shared by all its views."""

    def __init__(self, root: np.ndarray):
        self._root = root

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return address(self._root)

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._root.nbytes

    def __len__(self) -> int:
        return self._root.nbytes

    def __repr__(self) -> str:
        return f"<UntypedStorage of {self.nbytes()} bytes>"


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory under this tensor."""
    return UntypedStorage(_root(_concrete(self, "untyped_storage")))


def _concrete(t: Tensor, op: str) -> np.ndarray:
    """The NumPy array of a concrete tensor, else an error that says what is in the way."""
    refresh(t)
    data = t._data
    if isinstance(data, Value):
        level = level_of(data)
        raise TraceError(
            f"{op}: the value is not known inside {level.name if level else 'a transform'}; Python code cannot "
            "read it here. Use ng.where for a choice by value, or compute it outside."
        )
    if on_device(data):
        if op not in ("item", "bool", "tolist", "pickle"):
            raise DeviceError(
                message(op, "the tensor's device", data.device, "cpu", "Call .cpu() first.")
            )
        data = data.to_numpy()
    for recorder in state.recorders:
        recorder.host_read(t, data, op)
    if state.tracer is not None:
        state.tracer.interpreter.host_read(t, data)
    return data


@method
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The tensor's memory as a NumPy array, without a copy.

    Raises
    ------
    AutogradError : the tensor requires grad (the array could not carry it): use ``detach().numpy()``.
    """
    if force:
        return np.array(self.detach().cpu().numpy())
    if self.requires_grad:
        raise AutogradError(
            "numpy: the tensor requires grad and NumPy cannot record; call detach().numpy() to leave the graph."
        )
    return _concrete(self, "numpy")


@method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    a = self.numpy()
    if dtype is not None and a.dtype != dtype:
        return a.astype(dtype)
    return a.copy() if copy else a


@method
def item(self: Tensor) -> Any:
    """The only element as a Python number."""
    if self._data.size != 1:
        raise AutogradError(
            message(
                "item", "the tensor's shape", tuple(self.shape), "one element", "Index it first."
            )
        )
    return _concrete(self, "item").item()


@method
def tolist(self: Tensor) -> Any:
    """Nested Python lists of the elements."""
    return _concrete(self, "tolist").tolist()


@method
def __bool__(self: Tensor) -> bool:
    if self._data.size != 1:
        raise AutogradError(
            message(
                "bool",
                "the tensor's shape",
                tuple(self.shape),
                "one element",
                "Use .any() or .all().",
            )
        )
    return bool(_concrete(self, "bool").item())


@method
def __float__(self: Tensor) -> float:
    return float(item(self))


@method
def __int__(self: Tensor) -> int:
    return int(item(self))


@method
def __complex__(self: Tensor) -> complex:
    return complex(item(self))


@method
def __index__(self: Tensor) -> int:
    if self.dtype.kind not in "iub" or self._data.size != 1:
        raise DTypeError(
            message(
                "index", "the tensor", f"{self.dtype.name}{list(self.shape)}", "one integer element"
            )
        )
    return int(item(self))


@method
def __len__(self: Tensor) -> int:
    if not self.ndim:
        raise TypeError("len() of a 0-d tensor")
    return self.shape[0]


@method
def __iter__(self: Tensor) -> Any:
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter([self[i] for i in range(self.shape[0])])


@method
def to(
    self: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False
) -> Tensor:
    """Convert dtype and device: ``x.to(ng.float32)``, ``x.to("cuda")``, ``x.to(other)``."""
    for a in args:
        if isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif (isinstance(a, str) and a.split(":")[0] in ("cpu", "cuda")) or type(
            a
        ).__name__ == "Device":
            device = a
        else:
            dtype = a
    out = self
    if device is not None and str(device) != str(self.device):
        from .cuda import to_device

        out = to_device(out, device)
    if dtype is not None:
        out = cast(out, dt.as_dtype(dtype, "to"))
    return out.clone() if copy and out is self else out


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Converted to the dtype of another tensor."""
    if not isinstance(other, Tensor):
        raise DTypeError(message("type_as", "argument 'other'", repr(other), "a tensor", "Use .to(dtype)."))
    return cast(self, other.dtype)


def _dtype_method(name: str, dtype: np.dtype) -> None:
    def convert(self: Tensor) -> Tensor:
        return cast(self, dtype)

    convert.__name__ = name
    convert.__doc__ = f"Converted to {dtype.name}."
    METHODS[name] = convert


for _name, _dtype in {
    "double": dt.float64,
    "float": dt.float32,
    "half": dt.float16,
    "long": dt.int64,
    "int": dt.int32,
    "short": dt.int16,
    "bool": dt.bool_,
    "cdouble": dt.complex128,
    "cfloat": dt.complex64,
}.items():
    _dtype_method(_name, _dtype)


@method
def cpu(self: Tensor) -> Tensor:
    """On the CPU."""
    return self.to("cpu")


@method
def cuda(self: Tensor, device: Any = None) -> Tensor:
    """On a CUDA device (an index or a name; the first one by default)."""
    return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)


@method
def is_floating_point(self: Tensor) -> bool:
    """True for real floating dtypes."""
    return self.dtype.kind == "f"


@method
def is_complex(self: Tensor) -> bool:
    """True for complex dtypes."""
    return self.dtype.kind == "c"


@method
def _invalidate(self: Tensor) -> None:
    """Called when the memory scope that made this tensor ends."""
    self._data, self._node, self._meta = Freed(), None, None


@method
def __repr__(self: Tensor) -> str:
    from .printing import tensor_repr

    return tensor_repr(self)


@method
def __format__(self: Tensor, spec: str) -> str:
    return format(self.item(), spec) if spec and self._data.size == 1 else repr(self)


def _data_get(self: Tensor) -> Tensor:
    return self.detach()


def _data_set(self: Tensor, value: Tensor) -> None:
    if not isinstance(value, Tensor) or tuple(value.shape) != tuple(self.shape):
        raise AutogradError(
            message("data", "the value assigned", value, "a tensor of the same shape")
        )
    check_writable(self.detach(), "data")
    self._data[...] = value._data
    bump(self, "data")


METHODS["data"] = property(
    _data_get, _data_set, None, "The values without history; writes bypass autograd."
)


@method
def __setstate__(self: Tensor, saved: dict) -> None:
    self.__init__(saved["data"])
    if saved["requires_grad"]:
        require_grad(self)
        self.grad = saved["grad"]


@method
def __reduce__(self: Tensor) -> Any:
    if self._node is not None and not self.is_leaf:
        raise AutogradError(
            "pickle/deepcopy: only leaf tensors can be copied this way; call detach() first."
        )
    saved = {
        "data": np.array(_concrete(self, "pickle")),
        "requires_grad": self.requires_grad,
        "grad": self.grad,
    }
    return (object.__new__, (Tensor,), saved)


@method
def __deepcopy__(self: Tensor, memo: dict) -> Tensor:
    fn, args, saved = self.__reduce__()
    out = fn(*args)
    memo[id(self)] = out
    saved["grad"] = None if saved["grad"] is None else saved["grad"].__deepcopy__(memo)
    out.__setstate__(saved)
    return out


@method
@property
def device(self: Tensor) -> Any:
    """Where the data lives."""
    from .device import CPU

    return getattr(self._data, "device", None) if type(self._data) is not np.ndarray else CPU
