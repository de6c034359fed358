"""How each operator hands index sets on.

Operators that move elements are run on arrays of labels instead of values, so that one rule serves all views, joins and
gathers; adjoints of moving operators (sums, scatters) run the moving operator to learn where each element goes. An
operator without a rule depends on everything its inputs depend on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..layout import broadcast_shapes
from ..op import REGISTRY
from ..op.base import Operator
from ..op.elementwise import Elementwise
from ..state import state
from ..tensor import Tensor
from .rows import (
    Labels,
    Sets,
    broadcast,
    everything,
    join,
    labels,
    merge_axes,
    merged_shape,
    send,
    stack,
    take,
    union,
)

# a constant operand of a product is looked at entry by entry up to this many scalar products
PRODUCT_LIMIT = 1 << 25


class Call(NamedTuple):
    """One instruction: its operator, parameters, shapes, and the index sets of its operands.

    ``known(i)`` is the value of operand i if it is a constant of the trace, else None; ``rely(i)`` notes
    that the result is right only while that constant keeps its value.
    """

    op: Operator
    params: dict
    shapes: Sequence[tuple[int, ...]]
    out_shapes: Sequence[tuple[int, ...]]
    sets: Sequence[Sets]
    known: Callable[[int], np.ndarray | None]
    rely: Callable[[int], None]


Rule = Callable[[Call], Sets]


# -- elementwise ------------------------------------------------------------------------------------


@functools.cache
def is_flat(op: Any, i: int) -> bool:
    """Whether an elementwise operator's derivative in argument i is identically zero (floor, comparisons)."""
    if not op.defined[i]:
        return True
    rule = op.partials[i]
    if rule is None or op.linear or op.multilinear:
        return False
    one = Tensor(np.ones(()))
    previous = state.set_off(0)
    try:
        found = rule(*(one,) * op.nin, one)
    finally:
        state.set_off(previous)
    return isinstance(found, int | float) and found == 0


def elementwise(c: Call) -> Sets:
    """Every element depends on the elements it is broadcast from."""
    out = c.out_shapes[0]
    terms = []
    for i, (sets, shape) in enumerate(zip(c.sets, c.shapes, strict=True)):
        if sets is None or is_flat(c.op, i):
            continue
        chosen = _chosen(c, i)
        if chosen is None:
            terms.append(broadcast(sets, shape, out))
        else:
            where = np.broadcast_to(labels(shape), out)
            terms.append(take(sets, np.where(np.broadcast_to(chosen, out), where, 0)))
    return union(terms)


def _chosen(c: Call, i: int) -> np.ndarray | None:
    """Where operand i counts at all, as far as constants tell: unmasked, or times something not zero."""
    name = c.op.name
    if name in ("mul", "zmul"):
        other = c.known(1 - i)
        if other is None or np.all(other):
            return None
        c.rely(1 - i)
        return other != 0
    if name not in ("where", "keep", "drop") or i == 0:
        return None
    mask = c.known(0)
    if mask is None:
        return None
    c.rely(0)
    return mask == (i == 1) if name == "where" else mask == (name == "keep")


# -- operators that move elements -------------------------------------------------------------------


def moved(c: Call) -> Sets:
    """The operator itself says where each element comes from; what it fills in comes from nowhere."""
    marks, start = [], 1
    for sets, shape in zip(c.sets, c.shapes, strict=True):
        size = math.prod(shape)
        marks.append(np.zeros(shape, np.int64) if sets is None else labels(shape, start))
        start += size
    lengths = [math.prod(s) for s in c.shapes]
    return take(stack(c.sets, lengths), np.asarray(c.op.forward(marks, c.params)))


def same(c: Call) -> Sets:
    """A copy."""
    return c.sets[0]


def summed(c: Call) -> Sets:
    """``sum``, ``prod``, ``amax``, norms and the like: unions along the axes."""
    return merge_axes(c.sets[0], c.shapes[0], c.params["axes"])


def reduced_along(c: Call) -> Sets:
    """``max_along``: unions along one axis."""
    return merge_axes(c.sets[0], c.shapes[0], (c.params["axis"],))


def unviewed(c: Call) -> Sets:
    """The adjoint of a strided view: elements go where the view has them from."""
    base = c.params["base_layout"].shape
    targets = REGISTRY["strided_view"].forward([labels(base)], c.params)
    return send(c.sets[0], targets, math.prod(base))


# -- indexing -----------------------------------------------------------------------------------------


def _axes(c: Call) -> tuple[int, ...]:
    return tuple(c.params["axes"]) if "axes" in c.params else (c.params["dim"],)


def _indices(c: Call, positions: Sequence[int]) -> list[np.ndarray] | None:
    """The index operands, if all of them are constants."""
    found = [c.known(i) for i in positions]
    if any(i is None for i in found):
        return None
    for i in positions:
        c.rely(i)
    return [i for i in found if i is not None]


def _read(marks: Labels, c: Call, positions: Sequence[int], idx: Sequence[np.ndarray]) -> Labels:
    """The labels that the indices of the call pick."""
    name = "index" if "axes" in c.params else "gather_"
    params = {k: v for k, v in c.params.items() if k in ("axes", "dim")}
    return REGISTRY[name].forward([marks, *idx], params)


def _reach(c: Call, shape: Sequence[int], positions: Sequence[int]) -> tuple[Labels, tuple]:
    """For every picked element the label it may touch, and the shape that is labelled.

    With unknown indices the indexed axes are merged: every element of a line may be meant.
    """
    idx = _indices(c, positions)
    if idx is not None:
        return _read(labels(shape), c, positions, idx), tuple(shape)
    kept = merged_shape(shape, _axes(c))
    zeros = [np.zeros(c.shapes[i], np.int64) for i in positions]
    return _read(labels(kept), c, positions, zeros), kept


def gathered(c: Call) -> Sets:
    """``index`` and ``gather``."""
    shape = c.shapes[0]
    where, kept = _reach(c, shape, range(1, len(c.shapes)))
    lines = c.sets[0] if kept == tuple(shape) else merge_axes(c.sets[0], shape, _axes(c))
    return take(lines, where)


def _scattered(c: Call, source: int, positions: Sequence[int]) -> Sets:
    """What arrives at each element of the result from operand ``source``."""
    out = c.out_shapes[0]
    where, kept = _reach(c, out, positions)
    sent = broadcast(c.sets[source], c.shapes[source], where.shape)
    return broadcast(send(sent, where, math.prod(kept)), kept, out)


def unindexed(c: Call) -> Sets:
    """The adjoint of ``index``."""
    return _scattered(c, 0, range(1, len(c.shapes)))


def added_at(c: Call) -> Sets:
    """``scatter_add`` and the scatters of extremes: the elements stay, and others join them."""
    return union([c.sets[0], _scattered(c, 2, (1,))])


def written_at(c: Call) -> Sets:
    """``scatter``: written elements replace those that were there (if the places are known)."""
    if c.known(1) is None:
        return added_at(c)
    c.rely(1)
    size = math.prod(c.shapes[0])
    marks = [labels(c.shapes[0]), c.known(1), labels(c.shapes[2], size + 1)]
    lengths = [size, math.prod(c.shapes[2])]
    return take(stack([c.sets[0], c.sets[2]], lengths), c.op.forward(marks, c.params))


def put(c: Call) -> Sets:
    """``index_put``, adding or replacing."""
    positions = range(2, len(c.shapes))
    idx = None if c.params["accumulate"] else _indices(c, positions)
    if idx is None:
        return union([c.sets[0], _scattered(c, 1, positions)])
    size = math.prod(c.shapes[0])
    marks = [labels(c.shapes[0]), labels(c.shapes[1], size + 1), *idx]
    lengths = [size, math.prod(c.shapes[1])]
    return take(stack(c.sets[:2], lengths), c.op.forward(marks, c.params))


# -- along an axis ------------------------------------------------------------------------------------


def scanned(c: Call) -> Sets:
    """Running sums and recurrences: everything up to the element, found by doubling steps."""
    sets, shape = union(c.sets), c.out_shapes[0]
    if sets is None or not shape:
        return sets
    axis, n = c.params["axis"], shape[c.params["axis"]]
    marks = np.moveaxis(labels(shape), axis, 0)
    step = 1
    while step < n:
        back = np.zeros_like(marks)
        if c.params.get("reverse"):
            back[:-step] = marks[step:]
        else:
            back[step:] = marks[:-step]
        sets = union([sets, take(sets, np.moveaxis(back, 0, axis))])
        step *= 2
    return sets


def normalized(c: Call) -> Sets:
    """``softmax``: every element of a line depends on the whole line."""
    shape, axes = c.shapes[0], (c.params["axis"],)
    return broadcast(merge_axes(c.sets[0], shape, axes), merged_shape(shape, axes), shape)


# -- products and linear algebra ------------------------------------------------------------------------


def product(c: Call) -> Sets:
    """``matmul``: row i of one and column j of the other, without the zeros of a constant operand."""
    a, b = c.shapes
    a = (1, *a) if len(a) == 1 else a
    b = (*b, 1) if len(b) == 1 else b
    lead = broadcast_shapes(a[:-2], b[:-2], op="matmul")
    out = (*lead, a[-2], b[-1])
    left = _factor(c, 0, a, b, out)
    right = _factor(c, 1, b, a, out)
    return union([left, right])


def _factor(c: Call, i: int, own: tuple, other: tuple, out: tuple) -> Sets:
    """What a product takes from operand i (0 the left one)."""
    sets, summed_axis = c.sets[i], len(own) - 1 - i
    if sets is None:
        return None
    value = c.known(1 - i)
    if value is not None and not np.all(value):
        value = np.broadcast_to(value.reshape(other), (*out[:-2], *other[-2:]))
        if np.count_nonzero(value) * own[-2 + i] <= PRODUCT_LIMIT:
            c.rely(1 - i)
            return _structured(sets, i, own, value, out)
    merged = merge_axes(sets, own, (summed_axis,))
    return broadcast(merged, merged_shape(own, (summed_axis,)), out)


def _structured(sets: Sets, i: int, own: tuple, value: np.ndarray, out: tuple) -> Sets:
    """The exact product with a constant that has zeros."""
    places = labels(out).reshape(-1, *out[-2:]) - 1
    mine = np.broadcast_to(labels(own) - 1, (*out[:-2], *own[-2:])).reshape(-1, *own[-2:])
    batch, p, q = np.nonzero(value.reshape(-1, *value.shape[-2:]))
    if i == 0:  # value[p, q] carries mine[:, p] to places[:, q]
        rows, members = places[batch, :, q], mine[batch, :, p]
    else:  # value[p, q] carries mine[q, :] to places[p, :]
        rows, members = places[batch, p, :], mine[batch, q, :]
    return join(sets, rows.reshape(-1), members.reshape(-1), math.prod(out))


def matrixwise(c: Call) -> Sets:
    """Solves, inverses and factorisations: matrices of a batch are independent of each other."""
    lead = broadcast_shapes(*(s[:-2] for s in c.shapes), op=c.op.name)
    terms = []
    for sets, shape in zip(c.sets, c.shapes, strict=True):
        last = (len(shape) - 2, len(shape) - 1)
        merged = merge_axes(sets, shape, last)
        terms.append(broadcast(merged, shape[:-2], lead))
    ones = (1,) * (len(c.out_shapes[0]) - len(lead))
    return broadcast(union(terms), (*lead, *ones), c.out_shapes[0])


def mixed(c: Call) -> Sets:
    """Everything depends on everything."""
    return broadcast(everything(c.sets), (), c.out_shapes[0])


# -- the table --------------------------------------------------------------------------------------------


RULES: dict[str, Rule] = {
    **dict.fromkeys(("cat", "pad_zero", "strided_scatter"), moved),
    **dict.fromkeys(("clone", "to_dtype"), same),
    "unview": unviewed,
    **dict.fromkeys(
        ("sum", "prod", "amax", "amin", "norm", "norm_p", "logsumexp", "var", "std"), summed
    ),
    **dict.fromkeys(("max_along", "min_along"), reduced_along),
    **dict.fromkeys(("index", "gather_"), gathered),
    "unindex": unindexed,
    **dict.fromkeys(("scatter_add_", "scatter_extreme"), added_at),
    "scatter_": written_at,
    "index_put": put,
    **dict.fromkeys(("cumsum", "cumprod", "linear_scan", "logcumsumexp"), scanned),
    **dict.fromkeys(("softmax", "log_softmax"), normalized),
    "matmul": product,
    **dict.fromkeys(
        (
            *("solve", "inv", "triangular_solve", "det", "slogdet", "cofactor", "cholesky"),
            *("matrix_exp", "pinv", "lstsq", "lu_factor", "eigh", "eig", "svd", "svd_full"),
            *("qr", "qr_complete"),
        ),
        matrixwise,
    ),
}


def rule_of(op: Operator) -> Rule:
    """The rule of an operator; `mixed` where there is none."""
    if op.name in RULES:
        return RULES[op.name]
    if isinstance(op, Elementwise):
        return elementwise
    return moved if op.category == "view" else mixed
