"""The register of small programs that test the language of the Numba door, one or more a feature.

The programs themselves are in ``corpus_values`` (numbers and control flow), ``corpus_arrays`` (arrays, views,
functions of arrays) and ``corpus_calls`` (calls, tuples, records, closures).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

PROGRAMS: dict[str, Program] = {}


class Program(NamedTuple):
    """A function of one real output, the makers of its arguments, and the numbers of those differentiated."""

    name: str
    feature: str
    function: Any
    makers: tuple
    argnums: int | tuple[int, ...] = 0
    rtol: float = 1e-9
    curved: bool = True  # second derivatives exist and are worth a test
    output: str = "number"  # or "written" (into arrays), "several" (a tuple)

    def args(self, seed: int = 0) -> tuple:
        rng = np.random.default_rng(seed)
        return tuple(make(rng) if callable(make) else make for make in self.makers)

    @property
    def nums(self) -> tuple[int, ...]:
        return (self.argnums,) if isinstance(self.argnums, int) else self.argnums


def program(feature: str, *makers: Any, **options: Any) -> Callable:
    """Register the decorated @njit function."""

    def register(function):
        name = function.__name__
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(name, feature, function, makers, **options)
        return function

    return register


def normal(*shape: int, dtype: Any = float, order: str = "C") -> Callable:
    """Standard normal entries, kept off zero, where several functions have a kink or a pole."""

    def make(rng):
        x = rng.standard_normal(shape)
        x = np.where(np.abs(x) < 0.05, 0.3, x)
        return np.asarray(x, dtype, order=order)

    return make


def positive(*shape: int) -> Callable:
    return lambda rng: rng.uniform(0.4, 1.6, shape)


def complex_normal(*shape: int) -> Callable:
    return lambda rng: rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def strided(*shape: int) -> Callable:
    """Every second entry of a larger array, with one axis running backwards."""

    def make(rng):
        x = rng.standard_normal(tuple(2 * n for n in shape))
        return x[tuple(slice(None, None, -2 if i == 0 else 2) for i in range(len(shape)))]

    return make


def definite(n: int) -> Callable:
    """A well-conditioned symmetric positive definite matrix."""

    def make(rng):
        x = rng.standard_normal((n, n))
        return x @ x.T + n * np.eye(n)

    return make


def same_bytes(before: Any, after: Any) -> bool:
    """Whether two arguments agree to the last bit."""
    if isinstance(before, tuple):
        return all(map(same_bytes, before, after))
    if isinstance(before, np.ndarray):
        return before.tobytes() == after.tobytes()
    return before == after


def copied(args: tuple) -> tuple:
    """Copies of the arguments that keep the layout."""

    def copy(x):
        if isinstance(x, tuple):
            parts = [copy(y) for y in x]
            return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
        return x.copy(order="K") if isinstance(x, np.ndarray) and contiguous(x) else fresh(x)

    return tuple(map(copy, args))


def contiguous(x: np.ndarray) -> bool:
    return x.flags.c_contiguous or x.flags.f_contiguous


def fresh(x: Any) -> Any:
    """A strided array in new memory with the same strides."""
    if not isinstance(x, np.ndarray):
        return x
    larger = np.empty(tuple(2 * n for n in x.shape), x.dtype)
    out = larger[tuple(slice(None, None, -2 if i == 0 else 2) for i in range(x.ndim))]
    out[...] = x
    return out
