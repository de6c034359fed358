"""``ng.compile``: one specialisation per signature, found again by a cheap key."""

from __future__ import annotations

import functools
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import ArgumentError, message
from ..op import Spec, as_tensor
from ..state import state
from ..tape.program import Tape
from ..tape.record import trace_flat
from ..tensor import Tensor, new_epoch
from ..utils import pytree
from .generic import Family
from .program import Program, check_pure, close, compiled_call, gradients_on
from .watch import Watch

STORM = 8  # specialisations of one function after which a warning says why


class RecompilationWarning(UserWarning):
    """A compiled function is specialised again and again."""


class Specialisation:
    """A function compiled for one signature: the program and what the trace assumed."""

    def __init__(self, program: Program, captured: list[Tensor], tape: Tape, watch: Watch):
        self.program, self.captured = program, captured
        self.out_tree = tape.out_tree
        self.frozen = [(tape.captured[v], a) for v, a in tape.frozen.items()]
        self.watch = watch

    def stale(self) -> str:
        """Why the trace no longer describes the function, or an empty string."""
        changed = self.watch.changed(self.captured)
        if changed:
            return changed
        for t, frozen in self.frozen:
            if not np.array_equal(t._data, frozen, equal_nan=True):
                return "a captured NumPy array has changed"
        for t, spec in zip(
            self.captured, self.program.in_specs[-len(self.captured) :], strict=False
        ):
            if tuple(t.shape) != tuple(spec.shape) or t.dtype != spec.dtype:
                return "a captured tensor has another shape or dtype"
        return ""


class Compiled:
    """A function that is traced, compiled and cached per signature. Made by `compile`."""

    def __init__(self, fn: Callable, static_argnums: tuple[int, ...], verbose: bool):
        functools.update_wrapper(self, fn)
        self.__name__ = getattr(fn, "__name__", None) or type(fn).__name__
        self.fn, self.static, self.verbose = fn, static_argnums, verbose
        self._known: dict[Any, Specialisation] = {}
        self._lock = threading.RLock()
        self._warned = False
        self._family = Family()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if state.tracer is not None:  # an outer trace sees through: it can fuse more
            return self.fn(*args, **kwargs)
        leaves, tensors, key = self._signature(args, kwargs)
        found = self._find(key, args, kwargs, leaves)
        inputs = [*tensors, *found.captured]
        if state.fast == 0 or (state.fast > 0 and all(_plain(t) for t in inputs)):
            outs = [Tensor(o) for o in found.program.run([t._data for t in inputs])]
        else:
            outs = compiled_call(*inputs, program=found.program)
        return pytree.unflatten(found.out_tree, outs)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program for the signature of these arguments (compiled if need be)."""
        leaves, _, key = self._signature(args, kwargs)
        return self._find(key, args, kwargs, leaves).program

    # -- signatures -----------------------------------------------------------------------------------
    def _signature(self, args: tuple, kwargs: dict) -> tuple[list[Any], list[Tensor], Any]:
        """Leaves with their roles, the dynamic ones as tensors, and the key of the signature."""
        static = self.static
        given = tuple(None if i in static else a for i, a in enumerate(args))
        leaves, tree = pytree.flatten((given, kwargs))
        tensors: list[Tensor] = []
        key: list[Any] = [tree, dt.get_default_dtype()]
        for i in static:
            key.append(self._hashable(args, i))
        weak = _weak_dtype(leaves)
        for x in leaves:
            t = _dynamic(x, weak)
            if t is None:
                key.append((type(x), x))
            else:
                tensors.append(t)
                key.append((tuple(t._data.shape), t._data.dtype))
        return leaves, tensors, tuple(key)

    def _hashable(self, args: tuple, i: int) -> Any:
        if i >= len(args):
            raise ArgumentError(
                message(
                    f"compile of '{self.__name__}'",
                    "argument 'static_argnums'",
                    self.static,
                    f"positions of the {len(args)} positional arguments",
                )
            )
        try:
            hash(args[i])
        except TypeError:
            raise ArgumentError(
                message(
                    f"compile of '{self.__name__}'",
                    f"static argument {i}",
                    f"a {type(args[i]).__name__}, which has no hash",
                    "a hashable value",
                    "Pass a tuple, or leave the position out of static_argnums.",
                )
            ) from None
        return ("static", i, type(args[i]), args[i])

    def _find(self, key: Any, args: tuple, kwargs: dict, leaves: list[Any]) -> Specialisation:
        found = self._look_up(key)
        why = found.stale() if found is not None else ""
        if found is not None and not why:
            return found
        with self._lock:
            if self._known.get(key) is found:
                self._warn(why or self._difference(key))
                self._known[key] = self._specialise(args, kwargs, leaves)
            return self._known[key]

    def _look_up(self, key: Any) -> Specialisation | None:
        try:
            return self._known.get(key)
        except TypeError:
            bad = next(e for e in key if not _has_hash(e))
            what = type(bad[-1] if isinstance(bad, tuple) else bad).__name__
            raise ArgumentError(
                message(
                    f"compile of '{self.__name__}'",
                    "a leaf of the arguments",
                    f"a {what}, which has no hash",
                    "tensors, arrays, numbers and hashable values",
                    "Pass a tuple instead.",
                )
            ) from None

    def _difference(self, key: Any) -> str:
        """What distinguishes a new signature from the last one."""
        if not self._known:
            return ""
        last = next(reversed(self._known))
        for old, new in zip(last, key, strict=False):
            if old != new:
                return f"an argument changed from {_shown(old)} to {_shown(new)}"
        return "the number of arguments changed"

    def _warn(self, reason: str) -> None:
        if self._family.compiled >= STORM and not self._warned:
            self._warned = True
            warnings.warn(
                f"compile: '{self.__name__}' has been compiled {self._family.compiled} times; the last reason: "
                f"{reason or 'another signature'}. "
                "Pass numbers that vary as tensors, pad arrays to a few fixed shapes, or leave it uncompiled.",
                RecompilationWarning,
                stacklevel=4,
            )

    def _specialise(self, args: tuple, kwargs: dict, leaves: list[Any]) -> Specialisation:
        birth = new_epoch()
        start = time.perf_counter()
        tape = self._trace(args, kwargs, leaves)
        traced = time.perf_counter() - start
        watch = Watch(self.fn)  # after the trace, which may count its own runs
        check_pure(tape, self.__name__)
        closed, captured = close(tape, birth)
        program = Program(closed, self.__name__, captured, self._family)
        program.timings["trace"] = traced
        if self.verbose:
            print(program.explain())
        return Specialisation(program, captured, tape, watch)

    def _check_results(self, out: list[Any]) -> None:
        for x in out:
            if not isinstance(x, Tensor | np.ndarray | np.generic | int | float | complex):
                raise ArgumentError(
                    message(
                        f"compile of '{self.__name__}'",
                        "a result",
                        f"a {type(x).__name__}",
                        "tensors, arrays and numbers, in tuples, lists and dicts",
                        "Return the tensors themselves.",
                    )
                )

    def _trace(self, args: tuple, kwargs: dict, leaves: list[Any]) -> Tape:
        given = tuple(None if i in self.static else a for i, a in enumerate(args))
        _, tree = pytree.flatten((given, kwargs))
        weak = _weak_dtype(leaves)
        tensors = [_dynamic(x, weak) for x in leaves]
        box: list[Any] = []

        def flat(*xs: Tensor) -> list[Any]:
            it = iter(xs)
            full = [x if t is None else next(it) for x, t in zip(leaves, tensors, strict=True)]
            positional, named = pytree.unflatten(tree, full)
            positional = [args[i] if i in self.static else a for i, a in enumerate(positional)]
            out, box_tree = pytree.flatten(self.fn(*positional, **named))
            self._check_results(out)
            box.append(box_tree)
            return out

        specs = [Spec(tuple(t._data.shape), t._data.dtype) for t in tensors if t is not None]
        with gradients_on():
            tape = trace_flat(flat, specs, f"compile of '{self.__name__}'")
        tape.out_tree = box[0]
        return tape


def _plain(t: Tensor) -> bool:
    """Whether a tensor is an array without history that can be used as it is."""
    return (
        t._node is None
        and type(t._data) is np.ndarray
        and (t._meta is None or t._meta.ordinary(t._ver[0]))
    )


def _dynamic(x: Any, weak: np.dtype) -> Tensor | None:
    """A leaf as a tensor of the traced function, or None for what is part of the signature."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, np.ndarray | np.generic):
        return as_tensor(x, "compile", "an argument")
    if isinstance(x, float):
        return Tensor(np.asarray(x, weak))
    if isinstance(x, complex):
        return Tensor(np.asarray(x, dt.to_complex(weak)))
    return None


def _weak_dtype(leaves: Sequence[Any]) -> np.dtype:
    """The dtype of Python floats: float32 beside nothing but float32, so that they widen no array."""
    found = {
        dt.to_real(x.dtype)
        for x in leaves
        if isinstance(x, Tensor | np.ndarray) and x.dtype.kind in "fc"
    }
    return dt.float32 if found == {dt.float32} else dt.get_default_dtype()


def _has_hash(entry: Any) -> bool:
    try:
        hash(entry)
    except TypeError:
        return False
    return True


def _shown(entry: Any) -> str:
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], np.dtype):
        return f"{entry[1].name}{list(entry[0])}"
    return repr(entry[-1] if isinstance(entry, tuple) else entry)
