"""Where the axes of the points go in a tape, and which operation mixes points, if one surely does.

Every variable that depends on the coordinates carries, per axis, the set of points' axes it runs along. An operation that
reduces or contracts such an axis couples the points; one whose effect is not known here ends the analysis without a
verdict. Values without derivative (comparisons, indices, what is detached) do not count: nothing flows through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..op import REGISTRY
from ..op.elementwise import Elementwise
from ..tape.program import Instruction, Tape

Axes = tuple[frozenset, ...]
NONE: frozenset = frozenset()

ALONG = frozenset(
    {"sum", "prod", "amax", "amin", "var", "std", "norm", "norm_p", "max_along", "min_along"}
    | {"softmax", "log_softmax", "logsumexp", "cumsum", "cumprod", "logcumsumexp"}
)
SAME = frozenset({"alias", "clone", "to_dtype"})


class Verdict(NamedTuple):
    """``kind`` is "free", "coupled" or "unknown"; ``op`` the operation that decided."""

    kind: str
    op: str = ""


class MixingError(Exception):
    """The operation surely mixes points."""


class UnknownError(Exception):
    """What the operation does to the points' axes is not known."""


def follow(tape: Tape, given: Sequence[Axes], wanted: Sequence[Axes]) -> Verdict:
    """Follow the points' axes from the inputs (``given``) to the outputs, where they must be ``wanted``.

    Only what a result depends on counts: statistics over points that end in a ``detach`` do no harm.
    """
    held: dict[int, Axes | Verdict | None] = dict(zip(tape.inputs, given, strict=True))
    for ins in tape.instructions:
        found = _after(tape, ins, [held.get(v) for v in ins.inputs])
        for v in ins.outputs:
            held[v] = found
    results: list[Any] = [held.get(v) for v in tape.outputs]
    worst = _worst(results)
    if worst is not None:
        return worst
    for got, want in zip(results, wanted, strict=True):
        if got is not None and got != want:
            return Verdict("coupled", "the order of the result's axes")
    return Verdict("free")


def _worst(held: Sequence[Any]) -> Verdict | None:
    """The first certain coupling, else the first doubt."""
    verdicts = [h for h in held if isinstance(h, Verdict)]
    return min(verdicts, key=lambda v: v.kind != "coupled", default=None)


def _after(tape: Tape, ins: Instruction, held: list[Any]) -> Axes | Verdict | None:
    """What the results of an instruction carry: axes, a verdict already, or nothing of the coordinates."""
    if not REGISTRY[ins.op].differentiable or all(h is None for h in held):
        return None
    worst = _worst(held)
    if worst is not None:
        return worst
    try:
        return _through(tape, ins, held)
    except MixingError:
        return Verdict("coupled", ins.op)
    except UnknownError:
        return Verdict("unknown", ins.op)


def _through(tape: Tape, ins: Instruction, held: Sequence[Axes | None]) -> Axes:
    op = REGISTRY[ins.op]
    shapes = [tape.specs[v].shape for v in ins.inputs]
    out = tape.specs[ins.outputs[0]].shape
    if isinstance(op, Elementwise) or ins.op == "expand":
        return _distinct(_broadcast(held, len(out)))
    if ins.op == "matmul":
        return _distinct(_matmul(held, shapes, len(out)))
    if ins.op == "cat":
        return _cat(held, ins.params["axis"], len(out))
    if held[0] is None or any(a is not None for a in held[1:]):
        raise UnknownError
    a = held[0]
    if ins.op in SAME:
        return a
    if ins.op in ALONG:
        return _along(a, ins.params)
    if ins.op == "permute":
        return tuple(a[i] for i in ins.params["dims"])
    if ins.op == "reshape":
        return _reshaped(a, shapes[0], out)
    if ins.op == "slice":
        return _sliced(a, shapes[0], ins.params["items"])
    raise UnknownError


def _broadcast(held: Sequence[Axes | None], rank: int) -> Axes:
    found = [NONE] * rank
    for a in held:
        if a is not None:
            for i, labels in enumerate(a):
                at = rank - len(a) + i
                found[at] = found[at] | labels
    return tuple(found)


def _distinct(a: Axes) -> Axes:
    """One axis for one points' axis: else the elements are of pairs of points."""
    seen: set = set()
    for labels in a:
        if labels & seen or len(labels) > 1:
            raise MixingError
        seen |= labels
    return a


def _matmul(held: Sequence[Axes | None], shapes: Sequence[tuple], rank: int) -> Axes:
    a, b = (h if h is not None else (NONE,) * len(s) for h, s in zip(held, shapes, strict=True))
    if a[-1] or b[-2]:
        raise MixingError
    batch = _broadcast([a[:-2], b[:-2]], rank - 2)
    return (*batch, a[-2], b[-1])


def _cat(held: Sequence[Axes | None], axis: int, rank: int) -> Axes:
    found = _broadcast(held, rank)
    if found[axis]:
        raise UnknownError
    return _distinct(found)


def _along(a: Axes, params: dict) -> Axes:
    axes = params["axes"] if "axes" in params else (params["axis"],)
    if any(a[i] for i in axes):
        raise MixingError
    if params.get("keepdim", True):
        return a
    return tuple(labels for i, labels in enumerate(a) if i not in axes)


def _reshaped(a: Axes, old: tuple, new: tuple) -> Axes:
    """Axes that keep their size and place among the others keep their labels; ones come and go."""
    found = [NONE] * len(new)
    for olds, news in blocks(old, new):
        labelled = [i for i in olds if a[i]]
        if not labelled:
            continue
        if len([i for i in olds if old[i] != 1]) > 1 or len([j for j in news if new[j] != 1]) > 1:
            raise UnknownError
        target = next(j for j in news if new[j] != 1)
        found[target] = a[labelled[0]]
    return tuple(found)


def blocks(old: tuple, new: tuple) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of axes of two shapes with equal products."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        olds, news = ([i] if i < len(old) else []), ([j] if j < len(new) else [])
        p, q = (old[i] if olds else 1), (new[j] if news else 1)
        i, j = i + len(olds), j + len(news)
        while p != q:
            if p < q and i < len(old):
                olds.append(i)
                p, i = p * old[i], i + 1
            elif j < len(new):
                news.append(j)
                q, j = q * new[j], j + 1
            else:
                olds.append(i)
                p, i = p * old[i], i + 1
        found.append((olds, news))
    return found


def _sliced(a: Axes, shape: tuple, items: tuple) -> Axes:
    found, axis = [], 0
    for item in items:
        if item is None:
            found.append(NONE)
            continue
        whole: Any = (0, shape[axis], 1)
        if a[axis] and item != whole:
            raise UnknownError
        if not isinstance(item, int):
            found.append(a[axis])
        axis += 1
    return tuple(found)
