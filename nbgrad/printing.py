"""Printing tensors as PyTorch does: ``tensor([[1., 2.]], requires_grad=True)``."""

from __future__ import annotations

import numpy as np

from . import dtypes as dt
from .autograd.graph import AccumulateGrad
from .errors import ArgumentError, message
from .tensor import Tensor, Value

_options = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80}


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
) -> None:
    """Digits, number of elements before summarising, edge items and line width of printed tensors."""
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    for name, value in given.items():
        if value is not None and (not isinstance(value, int) or value < 0):
            raise ArgumentError(
                message("set_printoptions", f"argument '{name}'", repr(value), "an integer >= 0")
            )
    _options.update({k: v for k, v in given.items() if v is not None})


def tensor_repr(t: Tensor) -> str:
    """The text ``repr(tensor)`` gives."""
    data = t._data
    if isinstance(data, Value):
        body = f"<{data.level.name} {data.dtype.name}{list(data.shape)}>"
    else:
        array = data if type(data) is np.ndarray else data.to_numpy()
        if not array.size:
            body = "[]"
        else:
            body = np.array2string(
                array,
                separator=", ",
                prefix="tensor(",
                precision=_options["precision"],
                threshold=_options["threshold"],
                edgeitems=_options["edgeitems"],
                max_line_width=_options["linewidth"],
                floatmode="maxprec",
            )
    parts = [body]
    if not data.size and not isinstance(data, Value):
        parts.append(f"size={tuple(data.shape)}")
    natural = (dt.get_default_dtype(), dt.int64, dt.bool_, dt.to_complex(dt.get_default_dtype()))
    if data.dtype not in natural:
        parts.append(f"dtype={data.dtype.name}")
    if type(data) is not np.ndarray and not isinstance(data, Value):
        parts.append(f"device='{t.device}'")
    if t._node is not None:
        leaf = isinstance(t._node, AccumulateGrad)
        parts.append("requires_grad=True" if leaf else f"grad_fn=<{t._node.name()}>")
    return f"tensor({', '.join(parts)})"
