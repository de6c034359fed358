"""NumPy, array-API and DLPack protocols of tensors.

NumPy functions on tensors either run as nbgrad operators (and are differentiable) or refuse; nothing is silently
detached. ``np.add(array, tensor)`` and ``array + tensor`` give tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes as dt
from .errors import AutogradError, DTypeError, message
from .op import as_tensor
from .op.public import METHODS, PUBLIC
from .tensor import Tensor

# NumPy's name -> nbgrad's, where they differ
_UFUNC_NAMES = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "power": "pow",
    "float_power": "float_power",
    "negative": "neg",
    "absolute": "abs",
    "fabs": "abs",
    "conjugate": "conj",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "rint": "round",
    "mod": "remainder",
    "invert": "bitwise_not",
}
_FUNCTION_NAMES = {
    "amax": "amax",
    "amin": "amin",
    "max": "amax",
    "min": "amin",
    "concatenate": "cat",
    "round": "round",
    "around": "round",
    "transpose": "permute",
    "expand_dims": "unsqueeze",
    "clip": "clamp",
}
_REFUSED = {"save", "savez", "array_repr", "array_str", "copyto", "putmask", "place", "put"}


def _lookup(name: str, table: dict[str, str]) -> Callable | None:
    return PUBLIC.get(table.get(name, name))


def __array_ufunc__(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy ufuncs on tensors run as nbgrad operators."""
    name = ufunc.__name__
    fn = _lookup(name, _UFUNC_NAMES)
    out = kwargs.pop("out", None)
    if out is not None:
        raise DTypeError(
            message(
                name,
                "argument 'out'",
                "given",
                "no 'out' with tensors",
                "Use nbgrad's in-place form.",
            )
        )
    if method == "reduce" and name in ("add", "multiply", "maximum", "minimum"):
        fn = PUBLIC[{"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin"}[name]]
        axis = kwargs.get("axis", 0)
        return fn(as_tensor(inputs[0]), axis, bool(kwargs.get("keepdims", False)))
    if method != "__call__" or fn is None or kwargs:
        raise DTypeError(
            f"np.{name}: not available on tensors{' with ' + ', '.join(kwargs) if kwargs else ''}; call .detach()"
            ".numpy() to compute outside the graph, or use nbgrad's own function."
        )
    return fn(*inputs)


def __array_function__(self: Tensor, func: Any, types: Any, args: tuple, kwargs: dict) -> Any:
    """NumPy functions on tensors run as nbgrad functions, or refuse."""
    name = func.__name__
    module = getattr(func, "__module__", "") or ""
    fn = None
    if module.endswith("linalg"):
        from . import linalg

        fn = getattr(linalg, name, None)
    elif name not in _REFUSED:
        fn = _lookup(name, _FUNCTION_NAMES)
    if fn is None:
        raise DTypeError(
            f"np.{name}: not available on tensors; call .detach().numpy() to compute outside the graph, or use "
            "nbgrad's own function."
        )
    spelled = {"axis": "dim", "keepdims": "keepdim"}
    renamed: dict[str, Any] = {spelled.get(k) or k: v for k, v in kwargs.items()}
    if name in ("max", "min", "amax", "amin") and "dim" not in renamed and len(args) == 1:
        renamed["dim"] = None
    return fn(*args, **renamed)


def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """The array-API namespace: nbgrad itself."""
    import nbgrad

    return nbgrad


def __dlpack__(self: Tensor, *, stream: Any = None, max_version: Any = None, **kwargs: Any) -> Any:
    """Export the memory through DLPack, without a copy."""
    if self._node is not None:
        raise AutogradError(
            "__dlpack__: the tensor requires grad and DLPack cannot record; call detach() first."
        )
    if max_version is not None:
        kwargs["max_version"] = max_version
    return self.numpy().__dlpack__(**kwargs)


def __dlpack_device__(self: Tensor) -> tuple:
    """DLPack's device pair."""
    return self.numpy().__dlpack_device__()


def from_dlpack(x: Any) -> Tensor:
    """A tensor over the memory of any DLPack exporter on the CPU, without a copy."""
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(
            message(
                "from_dlpack", "the argument", f"a {type(x).__name__}", "an object with __dlpack__"
            )
        )
    array = np.from_dlpack(x)
    dt.as_dtype(array.dtype, "from_dlpack")
    return Tensor(array)


def asarray(x: Any, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor from anything array-like; shares memory with arrays unless ``copy`` is True."""
    if isinstance(x, np.ndarray) and not copy:
        out = as_tensor(np.asarray(x), "asarray")
    elif isinstance(x, Tensor):
        out = x.clone() if copy else x
    else:
        from .ops.creation import tensor

        out = tensor(x)
    if dtype is not None:
        out = out.to(dt.as_dtype(dtype, "asarray"))
    return out if device is None else out.to(device)


def as_tensor_public(x: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """As `asarray`: shares memory with NumPy arrays; tensors are returned as they are."""
    return asarray(x, dtype, device=device)


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a Tensor."""
    return isinstance(x, Tensor)


for _fn in (
    __array_ufunc__,
    __array_function__,
    __array_namespace__,
    __dlpack__,
    __dlpack_device__,
):
    METHODS[_fn.__name__] = _fn
METHODS["__array_priority__"] = 1000
