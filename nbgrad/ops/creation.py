"""Making tensors: from data, filled, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.graph import AccumulateGrad
from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..memory import host
from ..memory.scope import register
from ..op.dispatch import scalar_dtype
from ..state import state
from ..tensor import Meta, Tensor


def zeros_plain(shape: tuple, dtype: np.dtype) -> Tensor:
    """Zeros without any option (used inside rules)."""
    return Tensor(np.zeros(shape, dtype))


def finish(data: np.ndarray, requires_grad: bool, op: str, device: Any = None) -> Tensor:
    """Wrap a fresh array, with gradient if asked for, on the device asked for."""
    t = Tensor(data)
    if device is not None and str(device) != "cpu":
        from ..cuda import to_device

        t = to_device(t, device)
    if requires_grad:
        require_grad(t, op)
    if state.inference:
        t._meta = t._meta or Meta()
        t._meta.inference = True
    if state.scopes:
        register(t)
    return t


def require_grad(t: Tensor, op: str = "requires_grad_") -> Tensor:
    """Make a tensor without history a leaf that accumulates ``.grad``."""
    if t._data.dtype.kind not in "fc":
        raise DTypeError(
            message(
                op,
                "argument 'requires_grad=True' with dtype",
                t._data.dtype.name,
                "a floating or complex dtype",
                "Pass dtype=ng.float64, or convert with .to(ng.float64).",
            )
        )
    if t._node is None:
        t._node = AccumulateGrad(t)
        t._nr = 0
    return t


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor that copies ``data`` (numbers, nested sequences, arrays, tensors).

    Python floats get the default dtype, integers int64, bools bool; arrays keep their dtype.

    Raises
    ------
    ShapeError : ragged nested sequences.
    DTypeError : data that is not numeric, or ``requires_grad`` with an integer dtype.
    """
    if isinstance(data, Tensor):
        array = np.array(data.detach().cpu().numpy())
    elif isinstance(data, np.ndarray | np.generic):
        array = np.array(data)
    else:
        array = _from_python(data)
    target = dt.as_dtype(array.dtype, "tensor") if dtype is None else dt.as_dtype(dtype, "tensor")
    if array.dtype is not target:
        array = array.astype(target)
    return finish(array, requires_grad, "tensor", device)


def _from_python(data: Any) -> np.ndarray:
    if isinstance(data, bool | int | float | complex):
        return _scalar(data)
    if isinstance(data, list | tuple) and any(isinstance(x, Tensor) for x in data):
        data = [x.detach().cpu().numpy() if isinstance(x, Tensor) else x for x in data]
    try:
        array = np.array(data)
    except ValueError:
        raise ShapeError(
            message("tensor", "argument 'data'", "a ragged nested sequence", "rows of equal length")
        ) from None
    if array.dtype.kind not in "biufc":
        raise DTypeError(
            message("tensor", "argument 'data'", f"of kind {type(data).__name__}", "numbers")
        )
    if array.size == 0 or (array.dtype.kind == "f" and not _has_numpy(data)):
        return array.astype(dt.get_default_dtype())
    if array.dtype.kind == "c" and not _has_numpy(data):
        return array.astype(dt.to_complex(dt.get_default_dtype()))
    return array


def _scalar(x: Any) -> np.ndarray:
    try:
        return np.asarray(x, scalar_dtype(x))
    except OverflowError:
        raise ArgumentError(
            message("tensor", "argument 'data'", x, "a number that fits int64", "Pass a float.")
        ) from None


def _has_numpy(data: Any) -> bool:
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return isinstance(data, np.ndarray | np.generic)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array (any strides, also negative).

    Raises
    ------
    DTypeError : a dtype nbgrad does not have, or not in native byte order.
    ShapeError : strides that are no multiple of the item size.
    """
    if not isinstance(array, np.ndarray):
        raise DTypeError(
            message(
                "from_numpy",
                "argument 'array'",
                type(array).__name__,
                "a numpy.ndarray",
                "Use ng.tensor.",
            )
        )
    dt.as_dtype(array.dtype, "from_numpy")
    if not array.dtype.isnative:
        raise DTypeError(
            message("from_numpy", "argument 'array'", "in foreign byte order", "native byte order")
        )
    if any(s % array.itemsize for s in array.strides):
        raise ShapeError(
            message(
                "from_numpy",
                "argument 'array'",
                f"strided by {array.strides} bytes",
                "multiples of the item size",
                "Pass np.ascontiguousarray(array).",
            )
        )
    return finish(np.asarray(array).view(np.ndarray), False, "from_numpy")


def shape_of(size: Any, op: str) -> tuple:
    """The shape from ``zeros(2, 3)`` or ``zeros((2, 3))``."""
    if len(size) == 1 and isinstance(size[0], list | tuple | np.ndarray):
        size = tuple(size[0])
    try:
        shape = tuple(n.__index__() for n in size)
    except AttributeError:
        raise ShapeError(message(op, "argument 'size'", size, "integers")) from None
    if any(n < 0 for n in shape):
        raise ShapeError(message(op, "argument 'size'", shape, "no negative size"))
    return shape


def _count(n: Any, op: str, arg: str) -> int:
    """A number of elements, checked."""
    if not hasattr(n, "__index__") or n.__index__() < 0:
        raise ArgumentError(message(op, f"argument '{arg}'", repr(n), "an integer >= 0"))
    return n.__index__()


def _number(x: Any, op: str, arg: str) -> Any:
    """One number (a 0-d tensor or array gives its value), checked."""
    if isinstance(x, Tensor | np.ndarray) and x.ndim == 0:
        x = x.item()
    if not isinstance(x, bool | int | float | complex | np.number | np.bool_):
        what = f"a {type(x).__name__}"
        raise DTypeError(message(op, f"argument '{arg}'", what, "one number", "Index it first."))
    return x


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad=False):
    """A tensor of the given shape filled with one number."""
    shape = shape_of(size if isinstance(size, tuple | list) else (size,), "full")
    fill_value = _number(fill_value, "full", "fill_value")
    target = scalar_dtype(fill_value) if dtype is None else dt.as_dtype(dtype, "full")
    data = host.empty(shape, target)
    data[...] = fill_value
    return finish(data, requires_grad, "full", device)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the given shape."""
    return _filled("zeros", size, 0, dtype, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the given shape."""
    return _filled("ones", size, 1, dtype, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised memory of the given shape."""
    return _filled("empty", size, None, dtype, device, requires_grad)


def _filled(
    op: str, size: tuple, value: Any, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    target = dt.get_default_dtype() if dtype is None else dt.as_dtype(dtype, op)
    data = host.empty(shape_of(size, op), target)
    if value is not None:
        data[...] = value
    return finish(data, requires_grad, op, device)


def _like(op: str, x: Any) -> tuple:
    """Shape, dtype and device of the tensor (or array) that another one is to be like."""
    if not isinstance(x, Tensor | np.ndarray):
        given = f"a {type(x).__name__}"
        raise DTypeError(
            message(op, "argument 'x'", given, "a tensor", f"Use {op[:-5]} with a shape.")
        )
    return tuple(x.shape), x.dtype, x.device if isinstance(x, Tensor) else None


def zeros_like(
    x: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros with the shape, dtype and device of ``x``."""
    shape, own, place = _like("zeros_like", x)
    return _filled("zeros_like", shape, 0, dtype or own, device or place, requires_grad)


def ones_like(
    x: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones with the shape, dtype and device of ``x``."""
    shape, own, place = _like("ones_like", x)
    return _filled("ones_like", shape, 1, dtype or own, device or place, requires_grad)


def empty_like(
    x: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Uninitialised memory with the shape, dtype and device of ``x``."""
    shape, own, place = _like("empty_like", x)
    return _filled("empty_like", shape, None, dtype or own, device or place, requires_grad)


def full_like(
    x: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad=False
):
    """One number with the shape, dtype and device of ``x``."""
    shape, own, place = _like("full_like", x)
    return full(
        shape,
        fill_value,
        dtype=dtype or own,
        device=device or place,
        requires_grad=requires_grad,
    )


def _bounds(args: tuple, named: dict) -> tuple:
    """``(start, end, step)`` of `arange` from what was given by position and by name."""
    given = {k: v for k, v in named.items() if v is not None}
    if not given:
        return args
    order = ("end",) if len(args) == 1 and "end" not in given else ("start", "end", "step")
    places = dict(zip(order, args, strict=False))
    if places.keys() & given.keys() or len(args) > 3 or "end" not in places | given:
        names = ", ".join(sorted(given))
        raise ArgumentError(
            message(
                "arange",
                "the call",
                f"{len(args)} numbers and {names}",
                "an end, and each of start, end and step once",
            )
        )
    return tuple(({"start": 0, "step": 1} | places | given)[k] for k in ("start", "end", "step"))


def arange(
    *args: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``arange(end)``, ``arange(start, end)`` or ``arange(start, end, step)``, each also by name."""
    args = _bounds(args, {"start": start, "end": end, "step": step})
    if not 1 <= len(args) <= 3:
        raise TypeError(f"arange() takes 1 to 3 positional arguments, got {len(args)}")
    args = tuple(_number(a, "arange", f"number {i}") for i, a in enumerate(args))
    if len(args) == 3 and args[2] == 0:
        raise ShapeError(message("arange", "argument 'step'", 0, "a number other than zero"))
    integral = all(isinstance(a, int | np.integer) for a in args)
    target = (
        (dt.int64 if integral else dt.get_default_dtype()) if dtype is None else dt.as_dtype(dtype)
    )
    return finish(np.arange(*args).astype(target), requires_grad, "arange", device)


def linspace(start, end, steps: int, *, dtype: Any = None, device: Any = None, requires_grad=False):
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included."""
    steps = _count(steps, "linspace", "steps")
    start, end = _number(start, "linspace", "start"), _number(end, "linspace", "end")
    target = dt.get_default_dtype() if dtype is None else dt.as_dtype(dtype)
    return finish(np.linspace(start, end, steps, dtype=target), requires_grad, "linspace", device)


def logspace(start, end, steps: int, base: float = 10.0, *, dtype: Any = None, requires_grad=False):
    """``base ** linspace(start, end, steps)``."""
    steps = _count(steps, "logspace", "steps")
    start, end = _number(start, "logspace", "start"), _number(end, "logspace", "end")
    target = dt.get_default_dtype() if dtype is None else dt.as_dtype(dtype)
    return finish(
        np.logspace(start, end, steps, base=base, dtype=target), requires_grad, "logspace"
    )


def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad=False
):
    """The identity matrix, ``n`` by ``m`` (square if ``m`` is not given)."""
    n, m = _count(n, "eye", "n"), None if m is None else _count(m, "eye", "m")
    target = dt.get_default_dtype() if dtype is None else dt.as_dtype(dtype)
    return finish(np.eye(n, m, dtype=target), requires_grad, "eye", device)
