"""Tensor attributes and methods that are not operators: state, conversion, gradient bookkeeping.

`install` puts them, and every registered method, on `Tensor` once, when nbgrad is imported.
"""

from __future__ import annotations

import os
import traceback
from typing import Any

import numpy as np

from . import dtypes as dt
from .device import on_device
from .errors import AutogradError, DeviceError, DTypeError, TraceError, message
from .layout import existing_axis, is_contiguous, normalize_axis
from .memory.scope import watch
from .methods_autograd import method
from .op import cast
from .op.inplace import bump, check_writable, refresh
from .op.public import METHODS
from .op.view import array_layout, layout_of
from .ops.creation import require_grad
from .state import state
from .tensor import Freed, Tensor, Value, level_of


def _scope_depth(depth: int) -> None:
    state.scopes = depth
    state.refresh()


def install() -> None:
    """Put everything registered on the Tensor class."""
    watch(_scope_depth)
    for name, fn in METHODS.items():
        setattr(Tensor, name, fn)
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]


# -- shape, memory and conversion -------------------------------------------------------------------


@method
def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size of one dimension."""
    return self.shape if dim is None else self.shape[existing_axis(dim, self.ndim, "size")]


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
            f"read it here{_user_line()}. Use ng.where or ng.cond for a choice by value, ng.scan or ng.while_loop for "
            "a loop, or compute it outside."
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


def _user_line() -> str:
    """Where the user's code is, for messages: ``" (file.py:12: if x > 0:)"``."""
    package = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frames = [
        f for f in traceback.extract_stack() if not f.filename.startswith((package, "<nbgrad"))
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line})" if frames else ""


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
        raise DTypeError(
            message("type_as", "argument 'other'", repr(other), "a tensor", "Use .to(dtype).")
        )
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
    return self.to(
        "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
    )


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
    reduced: Any = self.__reduce__()
    fn, args, saved = reduced
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
