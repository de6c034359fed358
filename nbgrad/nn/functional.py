"""Activation and loss functions under PyTorch's names and signatures; the operators live in ``nbgrad.ops``."""

from __future__ import annotations

from typing import Any

from ..dtypes import to_inexact
from ..errors import ArgumentError, ShapeError, message
from ..op import as_tensor, cast
from ..op.inplace import inplace as _in_place
from ..op.public import PUBLIC
from ..ops import activation as _act
from ..ops.activation import logsigmoid, softplus
from ..ops.elementwise import maximum, sub
from ..ops.logistic import sigmoid
from ..ops.softmax import normalized, softmax_
from ..ops.trigonometric import tanh

__all__ = [
    "elu",
    "gelu",
    "hardtanh",
    "l1_loss",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mse_loss",
    "normalize",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "tanh",
]


def _maybe(fn: Any, name: str, input: Any, inplace: bool, *args: Any) -> Any:
    return _in_place(fn, name, input, *args) if inplace else fn(input, *args)


def relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0); the derivative at 0 is 0."""
    return _maybe(_act.relu, "relu", input, inplace)


def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(x, 0), 6); derivative 0 on both bounds."""
    return _maybe(_act.relu6, "relu6", input, inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """min(max(x, min_val), max_val); derivative 0 on both bounds."""
    return _maybe(_act.hardtanh, "hardtanh", input, inplace, min_val, max_val)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where positive, else ``negative_slope * x``."""
    return _maybe(_act.leaky_relu, "leaky_relu", input, inplace, negative_slope)


def prelu(input: Any, weight: Any) -> Any:
    """`leaky_relu` with a learnable slope: one number, or one per channel (dimension 1).

    Raises
    ------
    ShapeError : several slopes that do not match the number of channels.
    """
    x, w = as_tensor(input, "prelu"), as_tensor(weight, "prelu", "weight")
    if w.ndim == 1 and w.shape[0] != 1 and x.ndim > 1:
        if w.shape[0] != x.shape[1]:
            raise ShapeError(
                message(
                    "prelu", "the number of slopes", w.shape[0], f"1 or {x.shape[1]} (channels)"
                )
            )
        w = w.reshape(w.shape[0], *[1] * (x.ndim - 2))
    return _act.leaky_relu(x, w)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where positive, else ``alpha * (exp(x) - 1)``."""
    return _maybe(_act.elu, "elu", input, inplace, alpha)


def selu(input: Any, inplace: bool = False) -> Any:
    """Self-normalising exponential linear unit."""
    return _maybe(_act.selu, "selu", input, inplace)


def silu(input: Any, inplace: bool = False) -> Any:
    """x*sigmoid(x)."""
    return _maybe(_act.silu, "silu", input, inplace)


def gelu(input: Any, approximate: str = "none") -> Any:
    """Gaussian error linear unit; ``approximate='tanh'`` uses the tanh formula."""
    return _act.gelu(input, approximate)


def _given(dim: int | None, op: str) -> int:
    """The dimension; leaving it out is an error, because any choice would be a guess."""
    if dim is None:
        raise ArgumentError(
            message(op, "argument 'dim'", "not given", "a dimension", "Pass dim=-1 for the last.")
        )
    return dim


def softmax(input: Any, dim: int | None = None, dtype: Any = None) -> Any:
    """exp(x)/sum(exp(x)) along ``dim``, without overflow.

    Raises
    ------
    ArgumentError : no ``dim``. DTypeError : a complex tensor, or a ``dtype`` that is not floating.
    """
    return PUBLIC["softmax"](input, _given(dim, "softmax"), dtype=dtype)


def softmin(input: Any, dim: int | None = None, dtype: Any = None) -> Any:
    """`softmax` of -x; raises as it does."""
    x = as_tensor(input, "softmin")
    x = cast(x, to_inexact(x.dtype))  # -x wraps in unsigned integers
    return normalized(-x, _given(dim, "softmin"), dtype, "softmin", softmax_)


def log_softmax(input: Any, dim: int | None = None, dtype: Any = None) -> Any:
    """log(softmax(x)) along ``dim``, without overflow; raises as `softmax` does."""
    return PUBLIC["log_softmax"](input, _given(dim, "log_softmax"), dtype=dtype)


def _reduce(values: Any, reduction: str, op: str) -> Any:
    if reduction == "none":
        return values
    if reduction not in ("mean", "sum"):
        raise ArgumentError(
            message(op, "argument 'reduction'", repr(reduction), "'mean', 'sum' or 'none'")
        )
    return values.mean() if reduction == "mean" else values.sum()


def _difference(input: Any, target: Any, op: str) -> Any:
    x, y = as_tensor(input, op), as_tensor(target, op, "target")
    if tuple(x.shape) != tuple(y.shape):
        raise ShapeError(
            message(
                op,
                "the target's shape",
                tuple(y.shape),
                f"the input's shape {tuple(x.shape)}",
                "Broadcast one of them explicitly: a silent broadcast here is usually a mistake.",
            )
        )
    return sub(x, y)


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Squared differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``.

    Raises
    ------
    ShapeError : shapes differ. ArgumentError : an unknown reduction.
    """
    return _reduce(_difference(input, target, "mse_loss").square(), reduction, "mse_loss")


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Absolute differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``.

    Raises
    ------
    ShapeError : shapes differ. ArgumentError : an unknown reduction.
    """
    return _reduce(_difference(input, target, "l1_loss").abs(), reduction, "l1_loss")


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """``input @ weight.T + bias`` with ``weight`` of shape (out, in) or (in,)."""
    w = as_tensor(weight, "linear", "weight")
    y = as_tensor(input, "linear") @ (w.transpose(0, 1) if w.ndim == 2 else w)
    return y if bias is None else y + bias


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """``x / max(norm_p(x, dim), eps)``."""
    x = as_tensor(input, "normalize")
    size = PUBLIC["norm"](x, p, dim, keepdim=True)
    return x / maximum(size, eps)
