"""``nbgrad.njit.operator``: a Numba function as a differentiable operator on tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import typeof

from ..device import array_under
from ..errors import ArgumentError, DeviceError, DTypeError, message
from ..op import as_tensor
from ..tensor import Tensor
from .api import ArgNums, _checked
from .operands import Constants
from .routine import Function, call


class NjitOperator:
    """What `operator` makes: a function of tensors. ``function`` is the compiled function."""

    def __init__(self, fn: Any, argnums: Any, cache: bool):
        self.function, self.argnums, self.cache = fn, argnums, cache
        self.signature = inspect.signature(fn.py_func)
        kinds = [p.kind for p in self.signature.parameters.values()]
        self.variadic = inspect.Parameter.VAR_POSITIONAL in kinds
        self.routines: dict[tuple, Function] = {}
        functools.update_wrapper(self, fn.py_func)

    def __repr__(self) -> str:
        return f"<nbgrad.njit operator {self.function.__name__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != len(self.signature.parameters) or self.variadic:
            args = self._bound(args, kwargs)
        values = [self._argument(k, v) for k, v in enumerate(args)]
        template = tuple(isinstance(v, Tensor) for v in values)
        tensors = [v for v in values if isinstance(v, Tensor)]
        statics = Constants(tuple(v for v in values if not isinstance(v, Tensor)))
        routine = self.routines.get(template)
        if routine is None:
            routine = self.routines[template] = Function(self.function, template, self.cache)
        results, _ = routine.results([t._data for t in tensors], statics)
        return results.rebuilt(call(routine, tensors, statics))

    def _bound(self, args: tuple, kwargs: dict) -> tuple:
        """The arguments by position, defaults filled in."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as e:
            name, given = (
                self.function.__name__,
                f"{len(args)} by position, {sorted(kwargs)} by name",
            )
            expected = f"those of {name}{self.signature}"
            raise ArgumentError(message(name, "the arguments", given, expected, f"({e})")) from None
        bound.apply_defaults()
        return bound.args

    def _argument(self, k: int, value: Any) -> Any:
        """An argument as a tensor, or as a constant."""
        where = f"argument '{self._names(k)}'"
        if isinstance(value, np.ndarray | Tensor):
            t = as_tensor(value, self.function.__name__, where)
            self._check(t, k, where)
            fixed = self.argnums is not None and k not in self.argnums
            return t.detach() if fixed else t
        try:
            hash(value)
            typeof(value)
        except (TypeError, ValueError):
            given, expected = (
                type(value).__name__,
                "a tensor, an array, a number, or a tuple of numbers",
            )
            raise DTypeError(message(self.function.__name__, where, given, expected)) from None
        return value

    def _names(self, k: int) -> str:
        names = list(self.signature.parameters)
        return names[min(k, len(names) - 1)]

    def _check(self, t: Tensor, k: int, where: str) -> None:
        name = self.function.__name__
        there = array_under(t)
        if there is not None:
            fix = "Move it with .cpu(), or write the kernel with numba.cuda (nbgrad.njit.cuda)."
            raise DeviceError(message(name, where, f"on {there.device}", "on the CPU", fix))
        if t.dtype == np.float16:
            fix = "Convert it with .to(nbgrad.float32); Numba has no float16 on the CPU."
            raise DTypeError(message(name, where, "of dtype float16", "another dtype", fix))
        if self.argnums is not None and k in self.argnums and t.dtype.kind not in "fc":
            fix = "Convert it, or leave it out of argnums."
            raise DTypeError(message(name, where, f"of dtype {t.dtype}", "floating-point", fix))


def operator(f: Callable, argnums: ArgNums | None = None, *, cache: bool = True) -> NjitOperator:
    """Make a Numba function one differentiable operator on tensors.

    Parameters
    ----------
    f : an ``@njit`` function of arrays and numbers, or a plain function that can be one. It returns a number, an array or a
        tuple of them; or None, and then the result is what it has written to its arguments of floating dtype.
    argnums : the arguments to differentiate with respect to, the others are constants; all by default.
    cache : keep the machine code of derivatives on disk.

    Returns
    -------
    A function of tensors with the parameters of ``f``. A tensor without dimensions is a number to ``f``, others are its memory,
    without a copy; arrays that ``f`` writes to are copied, so that the operator modifies nothing. Arguments that are no tensors
    or arrays are passed on as constants. A call is one node of the graph; its backward is `vjp`, forward mode is
    `jvp`, derivatives of any order are derivatives of these. ``vmap`` runs it once for each member of the batch; tapes and
    ``compile`` keep it as one instruction (for the shapes of returned arrays it is run once on ones).

    Raises
    ------
    DTypeError, DeviceError, ArgumentError : arguments ``f`` does not take (at the call).
    UnsupportedError : something in ``f`` has no derivative (at the first call).
    """
    fn, chosen = _checked("operator", f, 0 if argnums is None else argnums)
    if argnums is None:
        return NjitOperator(fn, None, cache)
    count = len(inspect.signature(fn.py_func).parameters)
    places = (chosen,) if isinstance(chosen, int) else chosen
    return NjitOperator(fn, frozenset(k % count for k in places), cache)
