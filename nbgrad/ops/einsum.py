"""Einstein summation, lowered onto diagonal views, sums, broadcasting products and matmul.

Every derivative rule follows from those operators. With three operands or more the order of contractions comes
from opt_einsum if it is installed, else from NumPy's planner.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import ArgumentError, ShapeError, message
from ..op import as_tensor, cast
from ..op.public import public
from ..tensor import Tensor
from . import basic
from .elementwise import mul
from .view import _reshape, diagonal, permute

Labels = tuple[Any, ...]
ELLIPSIS = "..."


@public(method=False)
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sum of products over labelled dimensions, as NumPy's and PyTorch's ``einsum``.

    Takes ``einsum("ij,jk->ik", a, b)`` or the sublist form ``einsum(a, [0, 1], b, [1, 2], [0, 2])``. A repeated label inside
    one operand takes the diagonal (a view); ``...`` stands for any dimensions and broadcasts; a labelled dimension of size 1
    broadcasts too. Without ``->`` the labels that occur once form the output, in alphabetical order, after those of ``...``.

    Raises
    ------
    ArgumentError : a malformed equation. ShapeError : operands that do not fit it.
    """
    inputs, output, values = _parse(equation, operands)
    tensors = [as_tensor(x, "einsum", f"operand {i}") for i, x in enumerate(values)]
    dtype = functools.reduce(dt.promote, (t.dtype for t in tensors))
    tensors = [cast(t, dtype) for t in tensors]
    terms, out = _expand_ellipsis(inputs, output, [t.ndim for t in tensors])
    sizes = _sizes(terms, [tuple(t.shape) for t in tensors])
    _check_output(out, sizes)
    work = [_diagonals(t, labels) for t, labels in zip(tensors, terms, strict=True)]
    for step in _path(tuple(w[1] for w in work), out, tuple(sizes.items())):
        picked = [work[i] for i in step]
        work = [w for i, w in enumerate(work) if i not in step]
        later = set(out).union(*(labels for _, labels in work))
        first, *rest = picked
        for k, other in enumerate(rest):
            first = _contract(first, other, later.union(*(labels for _, labels in rest[k + 1 :])))
        work.append(_sum_out(*first, later))
    return _arrange(*work[0], out)


# -- parsing ------------------------------------------------------------------------------------------


def _parse(equation: Any, operands: tuple) -> tuple[list[Labels], Labels | None, list[Any]]:
    """Labels of every operand and of the output (None: implicit)."""
    if not isinstance(equation, str):
        return _parse_sublists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    names = left.split(",")
    if len(names) != len(operands) or not operands:
        raise ArgumentError(
            message(
                "einsum",
                "the number of operands",
                len(operands),
                f"{len(names)}, as the equation {equation!r} names",
            )
        )
    inputs = [_labels(n, equation) for n in names]
    return inputs, _labels(right, equation) if arrow else None, list(operands)


def _labels(text: str, equation: str) -> Labels:
    parts = text.split(ELLIPSIS)
    if len(parts) > 2 or not all(p == "" or (p.isalpha() and p.isascii()) for p in parts):
        raise ArgumentError(
            message(
                "einsum",
                "argument 'equation'",
                repr(equation),
                "letters, ',', at most one '...' a term, and '->'",
            )
        )
    return tuple(parts[0]) if len(parts) == 1 else (*parts[0], ELLIPSIS, *parts[1])


def _parse_sublists(args: tuple) -> tuple[list[Labels], Labels | None, list[Any]]:
    if len(args) < 2:
        raise ArgumentError(
            message(
                "einsum",
                "the call",
                f"{len(args)} argument",
                "an equation string, or operands each with a list of labels",
            )
        )
    explicit = len(args) % 2 == 1
    end = len(args) - 1 if explicit else len(args)
    inputs = [_sublist(args[i]) for i in range(1, end, 2)]
    return inputs, _sublist(args[-1]) if explicit else None, list(args[:end:2])


def _sublist(given: Any) -> Labels:
    if not isinstance(given, list | tuple) or any(
        i is not Ellipsis and not isinstance(i, int | np.integer) for i in given
    ):
        raise ArgumentError(
            message("einsum", "a sublist", given, "a list of integers and at most one Ellipsis")
        )
    if sum(i is Ellipsis for i in given) > 1:
        raise ArgumentError(message("einsum", "a sublist", given, "at most one Ellipsis"))
    return tuple(ELLIPSIS if i is Ellipsis else int(i) for i in given)


def _expand_ellipsis(
    inputs: Sequence[Labels], output: Labels | None, ranks: Sequence[int]
) -> tuple[list[Labels], Labels]:
    """Replace ``...`` by labels ``(-1,), (-2,) ..`` counted from the right, so that they broadcast."""
    terms, widest = [], 0
    for i, (labels, rank) in enumerate(zip(inputs, ranks, strict=True)):
        named = len(labels) - (ELLIPSIS in labels)
        if named > rank or (named < rank and ELLIPSIS not in labels):
            raise ShapeError(
                message(
                    "einsum",
                    f"operand {i}",
                    f"{rank}-dimensional",
                    f"{named} dimensions, as its labels say",
                )
            )
        widest = max(widest, rank - named)
        terms.append(_fill(labels, rank - named))
    if output is None:
        every = [x for labels in inputs for x in labels if x != ELLIPSIS]
        once = sorted(x for x in set(every) if every.count(x) == 1)
        return terms, (*_dots(widest), *once)
    if ELLIPSIS not in output and widest:
        raise ArgumentError(
            message(
                "einsum",
                "the output",
                "".join(map(str, output)),
                "'...', which stands for dimensions of the operands",
            )
        )
    return terms, _fill(output, widest)


def _dots(n: int) -> Labels:
    return tuple((-k,) for k in range(n, 0, -1))


def _fill(labels: Labels, n: int) -> Labels:
    if ELLIPSIS not in labels:
        return labels
    at = labels.index(ELLIPSIS)
    return (*labels[:at], *_dots(n), *labels[at + 1 :])


def _name(label: Any) -> str:
    return "..." if isinstance(label, tuple) else repr(label)


def _sizes(terms: Sequence[Labels], shapes: Sequence[tuple]) -> dict[Any, int]:
    """The size of every label; size 1 broadcasts between operands, not inside one."""
    sizes: dict[Any, int] = {}
    for i, (labels, shape) in enumerate(zip(terms, shapes, strict=True)):
        own: dict[Any, int] = {}
        for label, n in zip(labels, shape, strict=True):
            if own.setdefault(label, n) != n:
                raise ShapeError(
                    message(
                        "einsum",
                        f"the sizes of the repeated label {_name(label)} in operand {i}",
                        f"{own[label]} and {n}",
                        "equal sizes",
                    )
                )
        for label, n in own.items():
            known = sizes.get(label, 1)
            if known != 1 and n not in (1, known):
                raise ShapeError(
                    message(
                        "einsum",
                        f"the size of label {_name(label)} in operand {i}",
                        n,
                        f"{known} as in another operand (or 1)",
                    )
                )
            sizes[label] = n if known == 1 else known
    return sizes


def _check_output(out: Labels, sizes: dict) -> None:
    for label in out:
        if label not in sizes:
            raise ArgumentError(
                message(
                    "einsum",
                    f"the output label {_name(label)}",
                    "in no operand",
                    "labels of the operands",
                )
            )
        if out.count(label) > 1:
            raise ArgumentError(
                message(
                    "einsum",
                    f"the output label {_name(label)}",
                    "repeated",
                    "each label at most once",
                )
            )


@functools.lru_cache(maxsize=512)
def _path(terms: tuple[Labels, ...], out: Labels, sizes: tuple) -> list[tuple[int, ...]]:
    """Which operands to contract, step by step (each result goes to the end of the list)."""
    n = len(terms)
    if n < 3:
        return [tuple(range(n))]
    size = dict(sizes)
    letters = {label: chr(0x100 + k) for k, label in enumerate(size)}

    def spell(labels: Labels) -> str:
        return "".join(letters[x] for x in labels)

    shapes = [tuple(size[x] for x in labels) for labels in terms]
    try:
        import opt_einsum
    except ImportError:
        if len(size) > 52:
            return [(0, 1)] * (n - 1)
        letters = {x: chr((65 if k < 26 else 71) + k) for k, x in enumerate(size)}
        equation = f"{','.join(map(spell, terms))}->{spell(out)}"
        arrays = [np.broadcast_to(np.float64(0), s) for s in shapes]
        steps = np.einsum_path(equation, *arrays, optimize="greedy")[0][1:]
    else:
        equation = f"{','.join(map(spell, terms))}->{spell(out)}"
        steps = opt_einsum.contract_path(equation, *shapes, shapes=True)[0]
    return [tuple(sorted(s)) for s in steps]


# -- contracting ----------------------------------------------------------------------------------------


def _diagonals(x: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """Repeated labels inside one operand as diagonal views."""
    while len(set(labels)) < len(labels):
        label = next(x for x in labels if labels.count(x) > 1)
        i = labels.index(label)
        j = labels.index(label, i + 1)
        x = diagonal(x, offset=0, dim1=i, dim2=j)
        labels = (*(v for k, v in enumerate(labels) if k not in (i, j)), label)
    return x, labels


def _sum_out(x: Tensor, labels: Labels, keep: set) -> tuple[Tensor, Labels]:
    """Sum over labels that nobody needs any more."""
    axes = tuple(i for i, v in enumerate(labels) if v not in keep)
    if axes:
        x = basic.sum_(x, axes=axes, keepdim=False)
        labels = tuple(v for v in labels if v in keep)
    return x, labels


def _order(x: Tensor, labels: Labels, wanted: Labels) -> Tensor:
    """Dimensions in the wanted order; missing ones are inserted with size 1."""
    present = tuple(labels.index(v) for v in wanted if v in labels)
    if present != tuple(range(len(labels))):
        x = permute(x, dims=present)
    it = iter(x.shape)
    return _reshape(x, tuple(next(it) if v in labels else 1 for v in wanted))


def _contract(
    a: tuple[Tensor, Labels], b: tuple[Tensor, Labels], later: set
) -> tuple[Tensor, Labels]:
    """One pairwise contraction: a matmul, or a product where nothing is summed."""
    (x, p), (y, q) = a, b
    x, p = _sum_out(x, p, later | set(q))
    y, q = _sum_out(y, q, later | set(p))
    sx, sy = dict(zip(p, x.shape, strict=True)), dict(zip(q, y.shape, strict=True))
    shared = [v for v in p if v in q and v not in later]
    stretched = {
        v for v in shared if sx[v] != sy[v]
    }  # one side is 1 there: the other is summed alone
    x, p = _squeeze_stretched(x, p, stretched)
    y, q = _squeeze_stretched(y, q, stretched)
    summed = tuple(v for v in shared if v not in stretched)
    batch = tuple(v for v in p if v in q and v in later)
    left = tuple(v for v in p if v not in q)
    right = tuple(v for v in q if v not in p)
    if not summed:
        order = (*batch, *left, *right)
        return mul(_order(x, p, order), _order(y, q, order)), order
    m = _order(x, p, (*batch, *left, *summed))
    n = _order(y, q, (*batch, *summed, *right))
    nb, nl, ns = len(batch), len(left), len(summed)
    m_shape, n_shape = tuple(m.shape), tuple(n.shape)
    rows, inner, cols = (
        _product(s) for s in (m_shape[nb : nb + nl], m_shape[nb + nl :], n_shape[nb + ns :])
    )
    m = _reshape(m, (*m_shape[:nb], rows, inner))
    n = _reshape(n, (*n_shape[:nb], inner, cols))
    out = basic.matmul(m, n)
    shape = (*out.shape[:nb], *m_shape[nb : nb + nl], *n_shape[nb + ns :])
    return _reshape(out, shape), (*batch, *left, *right)


def _product(sizes: Sequence[int]) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def _squeeze_stretched(x: Tensor, labels: Labels, stretched: set) -> tuple[Tensor, Labels]:
    return _sum_out(x, labels, set(labels) - stretched) if stretched else (x, labels)


def _arrange(x: Tensor, labels: Labels, out: Labels) -> Tensor:
    """The result in the order of the output labels."""
    order = tuple(labels.index(v) for v in out)
    return x if order == tuple(range(len(out))) else permute(x, dims=order)
