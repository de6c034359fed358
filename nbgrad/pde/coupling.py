"""Does the field couple its points? Then no way to differentiate all points at once is right.

Pushing a direction through all points gives, for a field in which u at point i depends on point j as well, the sum over
j; the gradient of ``u.sum()`` gives the sum over i. The check follows the points' axes on the tape of u (`batch_axes`).
Where that finds no verdict, a probe decides: moving half of the points must not change u at the other half. The result
is kept per code of u, shapes and plain values it reads.
"""

from __future__ import annotations

import copy
import functools
import threading
import types
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .. import random
from ..errors import AutogradError, NbgradError, message
from ..op import Spec
from ..state import ON, state
from ..tape.record import trace_flat
from ..tensor import Tensor
from ..utils import pytree
from .batch_axes import NONE, Axes, Verdict, follow
from .fields import Field


class CouplingError(AutogradError):
    """The field couples the points it is evaluated at."""


class Facts(NamedTuple):
    """What is known of a field at a signature: its verdict and how many components its results have in all."""

    verdict: Verdict
    components: int


_known: OrderedDict[Any, Facts] = OrderedDict()
_lock = threading.Lock()
CAPACITY = 512


def facts(field: Field) -> Facts:
    """The facts of a field at its arguments' shapes, computed once per signature."""
    shapes = tuple((tuple(x.shape), x.dtype.name) for x in field.primals)
    key = (field.packed, field.which, shapes, fingerprint((field.u, field.args, field.kwargs)))
    with _lock:
        found = _known.get(key)
        if found is not None:
            _known.move_to_end(key)
            return found
    found = _examine(field)  # runs user code: not under the lock
    with _lock:
        _known[key] = found
        while len(_known) > CAPACITY:
            _known.popitem(last=False)
    return found


def check(field: Field, coupled: str) -> Facts:
    """Facts of a field; raise if it couples its points and that is not allowed.

    Raises
    ------
    CouplingError : the field couples its points and ``coupled`` is not "allow".
    """
    found = facts(field)
    if found.verdict.kind == "coupled" and coupled != "allow":
        raise CouplingError(
            message(
                field.op,
                "the field",
                f"one that couples its points (through '{found.verdict.op}')",
                "the value at a point to depend on that point only",
                "Derivatives would silently be sums over points. Freeze the statistics over points (compute them "
                "outside, or .detach() them), map a one-point field with ng.func.vmap, or pass coupled='allow' to "
                "get those sums.",
            )
        )
    return found


# -- finding out --------------------------------------------------------------------------------------
def _examine(field: Field) -> Facts:
    labels = _labels(field)
    with random.fork_rng(), _recording():
        try:
            tape = trace_flat(field, [Spec(tuple(x.shape), x.dtype) for x in field.primals], "pde")
        except NbgradError:
            tape = None  # u reads values in Python, or raises: the evaluation itself will tell
    if tape is None:
        return Facts(_probe(field) if labels else Verdict("free"), 1)
    trails = [field.trailing(tape.specs[v].shape) for v in tape.outputs]
    components = sum(int(np.prod(t)) for t in trails)
    if not labels:
        return Facts(Verdict("free"), components)
    wanted = [_wanted(labels, tape.specs[v].shape) for v in tape.outputs]
    verdict = follow(tape, [labels] * len(field.primals), wanted)
    return Facts(_probe(field) if verdict.kind == "unknown" else verdict, components)


def _labels(field: Field) -> Axes:
    """Labels of the coordinates' axes; empty if there is a single point."""
    labels = tuple(frozenset({i}) if n > 1 else NONE for i, n in enumerate(field.points))
    if not any(labels):
        return ()
    return (*labels, NONE) if field.packed else labels


def _wanted(labels: Axes, shape: tuple[int, ...]) -> Axes:
    """The labels a result must have: the points' axes first."""
    return tuple(labels[i] if i < len(labels) else NONE for i in range(len(shape)))


@contextmanager
def _recording() -> Iterator[None]:
    """Derivatives are recorded whatever the caller's grad mode: under no_grad a tape detaches everything."""
    previous = state.set_off(ON)
    try:
        yield
    finally:
        state.set_off(previous)


def _probe(field: Field) -> Verdict:
    """Move some of the points and look at the others, until every pair of points has been told apart."""
    concrete = all(isinstance(x._data, np.ndarray) for x in field.primals)
    rng = np.random.default_rng(0)
    base = [
        x._data if concrete else rng.standard_normal(tuple(x.shape)).astype(x.dtype)
        for x in field.primals
    ]
    steps = [(1 + np.abs(x)) * rng.uniform(0.1, 0.5, x.shape) for x in base]
    number = np.arange(int(np.prod(field.points))).reshape(field.points)
    with random.fork_rng(), _bare():
        generator = random.get_rng_state()
        try:
            first = _values(field, base)
            for bit in range(int(number.size - 1).bit_length()):
                for side in (0, 1):
                    mask = (number >> bit) & 1 == side
                    random.set_rng_state(generator)
                    second = _values(field, _moved(field, base, steps, mask))
                    if any(_differ(a, b, ~mask) for a, b in zip(first, second, strict=True)):
                        what = "a probe: moving some points changed the values at others"
                        return Verdict("coupled", what)
        except (NbgradError, ArithmeticError):
            return Verdict("unknown", "a field that could not be evaluated for a probe")
    return Verdict("free")


def _moved(field: Field, base: list, steps: list, mask: np.ndarray) -> list[np.ndarray]:
    where = mask[..., None] if field.packed else mask
    return [np.where(where, x + s, x).astype(x.dtype) for x, s in zip(base, steps, strict=True)]


def _differ(a: np.ndarray, b: np.ndarray, still: np.ndarray) -> bool:
    """Whether values changed at points that did not move."""
    while a.shape[: still.ndim] != still.shape:  # columns (n, 1) whose result is (n,) or (n, m)
        still = still[..., 0]
    return not np.array_equal(a[still], b[still], equal_nan=True)


def _values(field: Field, coordinates: list[np.ndarray]) -> list[np.ndarray]:
    """The field's values on arrays; arguments without values (of a trace) are drawn at random."""
    rng = np.random.default_rng(1)
    leaves, tree = pytree.flatten((field.args, field.kwargs))
    plain = []
    for x in leaves:
        if isinstance(x, Tensor) and not isinstance(x._data, np.ndarray):
            drawn = rng.standard_normal(tuple(x.shape)).astype(x.dtype)
            plain.append(Tensor(np.asarray(drawn)))
        else:
            plain.append(x)
    args, kwargs = pytree.unflatten(tree, plain)
    twin = copy.copy(field)
    twin.args, twin.kwargs = args, kwargs
    outs = twin(*[Tensor(x) for x in coordinates])
    if not all(isinstance(o._data, np.ndarray) for o in outs):
        raise AutogradError("pde: a field that closes over traced values cannot be probed")
    return [o._data for o in outs]


@contextmanager
def _bare() -> Iterator[None]:
    """No transform, no recorder, no gradients: a plain evaluation on the side."""
    kept = state.levels, state.tracer, state.recorders
    state.levels, state.tracer, state.recorders = (), None, ()
    previous = state.set_off(0)
    try:
        yield
    finally:
        state.levels, state.tracer, state.recorders = kept
        state.set_off(previous)


# -- the signature ------------------------------------------------------------------------------------
def fingerprint(x: Any, depth: int = 6) -> Any:
    """A hashable description of everything about ``x`` that can change how points couple.

    Functions are known by their code and what they close over, arrays by shape and dtype, plain values by value, other
    objects by identity and their plain attributes (a module's ``training``).
    """
    if isinstance(x, bool | int | float | complex | str | bytes | type(None)):
        return (type(x).__name__, x if x == x else "nan")
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and dtype is not None:
        return ("array", tuple(shape), str(dtype))
    if depth == 0:
        return id(x)
    if isinstance(x, tuple | list):
        return (type(x).__name__, *(fingerprint(v, depth - 1) for v in x))
    if isinstance(x, dict):
        return ("dict", *((str(k), fingerprint(v, depth - 1)) for k, v in x.items()))
    if isinstance(x, types.FunctionType):
        return (x.__code__, *_closure(x, depth - 1))
    if isinstance(x, types.MethodType):
        return (x.__func__.__code__, fingerprint(x.__self__, depth - 1))
    if isinstance(x, functools.partial):
        return ("partial", *(fingerprint(v, depth - 1) for v in (x.func, x.args, x.keywords)))
    content = getattr(x, "__dict__", None)
    if isinstance(content, dict) and not isinstance(x, types.ModuleType | type):
        return (type(x), id(x), fingerprint(content, depth - 1))
    return (type(x), id(x))


def _closure(fn: types.FunctionType, depth: int) -> Iterator[Any]:
    """What a function reads: cells, defaults, and the plain values and functions among its globals."""
    for cell in fn.__closure__ or ():
        try:
            yield fingerprint(cell.cell_contents, depth)
        except ValueError:
            yield "empty"
    yield fingerprint(fn.__defaults__, depth)
    for name in fn.__code__.co_names:
        value = fn.__globals__.get(name)
        if isinstance(value, bool | int | float | complex | str):
            yield (name, value)
        elif isinstance(value, types.FunctionType) and value.__module__ == fn.__module__:
            yield (name, fingerprint(value, min(depth, 2)))
