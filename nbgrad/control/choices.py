"""``ng.cond`` and ``ng.switch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, message
from ..op import as_tensor
from ..state import state
from ..tensor import Tensor
from ..utils import pytree
from .body import close, out_specs, share_captured, spec_of, type_name
from .branch import COND, SWITCH
from .checks import flat_tensors, same_structure, same_types, truth


def cond(pred: Any, true_fn: Callable, false_fn: Callable, *operands: Any) -> Any:
    """``true_fn(*operands)`` where ``pred`` holds, else ``false_fn(*operands)``; only the chosen one runs.

    With a value that is known now, the chosen function is simply called. In a trace (and an eager recording) both are
    traced and one instruction is recorded; under vmap with a choice per member both run and the results are
    selected, as ``ng.where`` does: what was not chosen contributes 0 to derivatives.

    Raises
    ------
    DTypeError : ``pred`` is not one bool.
    ArgumentError, ShapeError, DTypeError : (when both are traced) results of different structure, shape or dtype.
    """
    if isinstance(pred, bool | np.bool_):
        return _call((true_fn, false_fn)[0 if pred else 1], operands, "cond")
    choice = truth("cond", pred, "argument 'pred'")
    if _known(choice):
        return _call((true_fn, false_fn)[0 if choice._data else 1], operands, "cond")
    return _branch(COND, choice, (true_fn, false_fn), operands)


def switch(index: Any, branches: Sequence[Callable], *operands: Any) -> Any:
    """``branches[index](*operands)``; an index outside is taken to the nearest branch, as in JAX.

    Everything else as `cond`.

    Raises
    ------
    ArgumentError : no branches. DTypeError : ``index`` is not one integer.
    """
    fns = tuple(branches)
    if not fns:
        raise ArgumentError(
            message("switch", "argument 'branches'", "empty", "at least one function")
        )
    choice = as_tensor(index, "switch", "index")
    if choice.dtype.kind not in "iu" or choice.ndim:
        given = type_name(spec_of(choice))
        raise DTypeError(message("switch", "argument 'index'", given, "one integer"))
    if not isinstance(index, Tensor) or _known(choice):
        at = min(max(int(choice._data), 0), len(fns) - 1)
        return _call(fns[at], operands, "switch")
    return _branch(SWITCH, choice, fns, operands)


def _known(choice: Tensor) -> bool:
    """Whether a choice can be made now: nobody will replay this on other values."""
    choice.refresh_()
    return type(choice._data) is np.ndarray and state.tracer is None and not state.recorders


def _call(fn: Any, operands: tuple, op: str) -> Any:
    if not callable(fn):
        raise ArgumentError(message(op, "the branch", repr(fn), "a callable"))
    return pytree.tree_map(lambda x: as_tensor(x, op, "the branch's result"), fn(*operands))


def _branch(op: Any, choice: Tensor, fns: Sequence[Callable], operands: tuple) -> Any:
    flat, tree = flat_tensors(operands, op.name, "operands")
    specs = [spec_of(t) for t in flat]
    bodies = [close(fn, tree, specs, op.name) for fn in fns]
    first = bodies[0]
    for k, body in enumerate(bodies[1:], 1):
        of, what = "as the first branch gives", f"the result of branch {k}"
        same_structure(op.name, what, body.out_tree, first.out_tree, of)
        have, want = out_specs(body.tape), out_specs(first.tape)
        same_types(op.name, what, body.out_tree, have, want, of)
    captured = share_captured(bodies)
    out = op(choice, *captured, *flat, branches=tuple(b.tape for b in bodies))
    return pytree.unflatten(first.out_tree, out)
