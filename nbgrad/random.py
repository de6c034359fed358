"""Random numbers: counter-based (Philox), reproducible, recorded on tapes with their key.

Every draw is an operator on a key ``[seed, position]``, so that a recomputation (checkpointing, tape replay) gives the
same numbers. A `Generator` hands out keys; the default one is per process and seeded by ``manual_seed``.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes as dt
from .autograd.batched import BatchInterpreter, wrap
from .errors import ArgumentError, DTypeError, ShapeError, message
from .op import Spec, as_tensor, operator
from .op.dispatch import CONSTANT, tag
from .op.public import METHODS
from .ops.creation import finish, require_grad, shape_of
from .state import state
from .tensor import Tensor


class Generator:
    """A stream of random numbers: a seed and a position.

    ``get_state()`` and ``set_state()`` save and restore the position; generators are thread-safe.
    """

    def __init__(self, device: Any = "cpu"):
        self.device = device
        self._lock = threading.Lock()
        self._seed, self._position = 0, 0
        self.seed()

    def manual_seed(self, seed: int) -> Generator:
        """Restart from a given seed."""
        if not isinstance(seed, int | np.integer):
            raise ArgumentError(message("manual_seed", "argument 'seed'", repr(seed), "an integer"))
        with self._lock:
            self._seed, self._position = int(seed) & (2**63 - 1), 0
        return self

    def seed(self) -> int:
        """Restart from a seed drawn from the operating system; returns it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        return self._seed

    def initial_seed(self) -> int:
        """The seed of this generator."""
        return self._seed

    def get_state(self) -> tuple[int, int]:
        """Seed and position."""
        return self._seed, self._position

    def set_state(self, value: tuple[int, int]) -> None:
        """Restore what `get_state` returned."""
        if not isinstance(value, tuple) or len(value) != 2:
            raise ArgumentError(
                message("set_rng_state", "the state", repr(value), "what get_rng_state() returned")
            )
        with self._lock:
            self._seed, self._position = value

    def next_key(self) -> Tensor:
        """A fresh key, as an int64 tensor of two elements."""
        with self._lock:
            key = np.array([self._seed, self._position], np.int64)
            self._position += 1
        return tag(Tensor(key), CONSTANT)


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> tuple[int, int]:
    """State of the default generator."""
    return default_generator.get_state()


def set_rng_state(value: tuple[int, int]) -> None:
    """Restore the default generator."""
    default_generator.set_state(value)


class fork_rng:
    """Context manager: the default generator's state is restored on exit."""

    def __enter__(self) -> fork_rng:
        self._saved = get_rng_state()
        return self

    def __exit__(self, *exc: object) -> None:
        set_rng_state(self._saved)


def _numpy_generator(key: np.ndarray) -> np.random.Generator:
    seed_, position = (int(v) for v in key)
    return np.random.Generator(np.random.Philox(key=seed_, counter=[0, 0, position, 0]))


_KINDS: dict[str, Callable] = {
    "uniform": lambda g, shape, dtype: g.random(shape, dtype),
    "normal": lambda g, shape, dtype: g.standard_normal(shape, dtype),
    "exponential": lambda g, shape, dtype: g.standard_exponential(shape, dtype),
}


@operator("random", nin=1, differentiable=False)
def random(key, *, kind, shape, dtype):
    """Numbers of a standard distribution, determined by the key."""
    wide = dt.float32 if dtype in (dt.float32, dt.float16) else dt.float64
    return np.asarray(_KINDS[kind](_numpy_generator(key), shape, wide)).astype(dtype, copy=False)


@random.infer
def _(key, *, kind, shape, dtype):
    return Spec(shape, dtype)


@operator("random_integers", nin=1, differentiable=False)
def random_integers(key, *, low, high, shape, dtype):
    """Integers in ``[low, high)``, determined by the key."""
    return np.asarray(_numpy_generator(key).integers(low, high, shape)).astype(dtype, copy=False)


@random_integers.infer
def _(key, *, low, high, shape, dtype):
    return Spec(shape, dtype)


@operator("random_permutation", nin=1, differentiable=False)
def random_permutation(key, *, n):
    """A permutation of ``0 .. n-1``, determined by the key."""
    return _numpy_generator(key).permutation(n).astype(np.int64)


@random_permutation.infer
def _(key, *, n):
    return Spec((n,), dt.int64)


def _next_key(generator: Any) -> Tensor:
    if generator is not None and not isinstance(generator, Generator):
        raise DTypeError(
            message(
                "random",
                "argument 'generator'",
                repr(generator),
                "a Generator",
                "Use ng.Generator().",
            )
        )
    return (generator or default_generator).next_key()


def _check_values(t: Tensor, ok: Callable, op: str, arg: str, expected: str) -> None:
    """Raise on a parameter out of range (values of a transform are not known and pass)."""
    if type(t._data) is np.ndarray and not ok(t._data).all():
        raise ArgumentError(message(op, f"argument '{arg}'", t._data, expected))


def _draw(op: Any, shape: tuple, generator: Generator | None, **params: Any) -> Tensor:
    """Draw at the innermost level; under vmap as its ``randomness`` says."""
    batch = [v for v in state.levels if isinstance(v.interpreter, BatchInterpreter)]
    hidden = []
    for level in batch:
        how = level.interpreter.randomness
        if how == "error":
            raise ArgumentError(
                "random: a random operator was called inside vmap, where it could mean one draw for the whole batch "
                "or one for each member; pass randomness='same' or 'different' to vmap."
            )
        if how == "different":
            hidden.append(level)
    full = (*(v.interpreter.size for v in hidden), *shape)
    out = op(_next_key(generator), shape=full, **params)
    for level in hidden:
        out = wrap(level, out, 0)
    return out


def _standard(
    kind: str,
    op: str,
    size: tuple,
    dtype: Any,
    generator: Generator | None,
    requires_grad: bool,
    device: Any = None,
) -> Tensor:
    target = dt.get_default_dtype() if dtype is None else dt.as_dtype(dtype, op)
    shape = shape_of(size, op)
    if target.kind == "c":
        real = _draw(random, shape, generator, kind=kind, dtype=dt.to_real(target))
        imag = _draw(random, shape, generator, kind=kind, dtype=dt.to_real(target))
        out = (
            real * math.sqrt(0.5) + imag * (1j * math.sqrt(0.5))
            if kind == "normal"
            else real + imag * 1j
        )
    elif target.kind != "f":
        raise ArgumentError(
            message(op, "argument 'dtype'", target.name, "a floating or complex dtype")
        )
    else:
        out = _draw(random, shape, generator, kind=kind, dtype=target)
    if device is not None and str(device) != "cpu":
        out = out.to(device)
    return require_grad(out, op) if requires_grad else out


def rand(*size: Any, dtype=None, generator=None, requires_grad=False, device=None) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return _standard("uniform", "rand", size, dtype, generator, requires_grad, device)


def randn(*size: Any, dtype=None, generator=None, requires_grad=False, device=None) -> Tensor:
    """Standard normal numbers (complex: unit variance in all)."""
    return _standard("normal", "randn", size, dtype, generator, requires_grad, device)


def rand_like(x: Any, *, dtype=None, generator=None, requires_grad=False) -> Tensor:
    """Uniform numbers in [0, 1) with the shape and dtype of ``x``."""
    return rand(
        tuple(x.shape), dtype=dtype or x.dtype, generator=generator, requires_grad=requires_grad
    )


def randn_like(x: Any, *, dtype=None, generator=None, requires_grad=False) -> Tensor:
    """Standard normal numbers with the shape and dtype of ``x``."""
    return randn(
        tuple(x.shape), dtype=dtype or x.dtype, generator=generator, requires_grad=requires_grad
    )


def randint(low: int, high: Any = None, size: Any = None, *, dtype=None, generator=None) -> Tensor:
    """Integers in ``[low, high)``: ``randint(high, size)`` or ``randint(low, high, size)``."""
    if size is None:
        low, high, size = 0, low, high
    if (
        not isinstance(low, int | np.integer)
        or not isinstance(high, int | np.integer)
        or low >= high
    ):
        raise ArgumentError(
            message("randint", "the range", f"[{low}, {high})", "integers low < high")
        )
    target = dt.int64 if dtype is None else dt.as_dtype(dtype, "randint")
    shape = shape_of(size if isinstance(size, tuple | list) else (size,), "randint")
    return _draw(random_integers, shape, generator, low=int(low), high=int(high), dtype=target)


def randperm(n: int, *, dtype=None, generator=None) -> Tensor:
    """A random permutation of ``0 .. n-1``."""
    if not isinstance(n, int | np.integer) or n < 0:
        raise ArgumentError(message("randperm", "argument 'n'", repr(n), "an integer >= 0"))
    out = random_permutation(_next_key(generator), n=int(n))
    return out if dtype is None else out.to(dtype)


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator=None) -> Tensor:
    """Normal numbers ``mean + std * randn``; differentiable in ``mean`` and ``std``."""
    mean, std = as_tensor(mean, "normal", "mean"), as_tensor(std, "normal", "std")
    _check_values(std, lambda s: s >= 0, "normal", "std", "numbers >= 0")
    shape = (
        np.broadcast_shapes(mean.shape, std.shape) if size is None else tuple(np.atleast_1d(size))
    )
    noise = randn(
        tuple(int(n) for n in shape), dtype=dt.to_inexact(mean.dtype), generator=generator
    )
    return mean + std * noise


def bernoulli(p: Any, *, generator=None) -> Tensor:
    """0 or 1 with probability ``p`` of 1 (no gradient)."""
    p = as_tensor(p, "bernoulli", "p")
    _check_values(p, lambda v: (v >= 0) & (v <= 1), "bernoulli", "p", "probabilities in [0, 1]")
    u = rand(tuple(p.shape), dtype=dt.to_inexact(p.dtype), generator=generator)
    return (u < p.detach()).to(dt.to_inexact(p.dtype))


def multinomial(
    weights: Any, num_samples: int, replacement: bool = False, *, generator=None
) -> Tensor:
    """Indices drawn with the given weights (last dimension); no gradient."""
    w = as_tensor(weights, "multinomial", "weights").detach().numpy()
    if not w.ndim:
        raise ShapeError(
            message("multinomial", "argument 'weights' of shape", (), "at least 1 dimension")
        )
    rng = _numpy_generator(_next_key(generator)._data)
    rows = w.reshape(-1, w.shape[-1])
    if not ((rows >= 0) & np.isfinite(rows)).all() or (rows.sum(-1) <= 0).any():
        raise ArgumentError(
            message(
                "multinomial",
                "argument 'weights'",
                "negative, not finite or all zero",
                "finite weights >= 0, some > 0",
            )
        )
    if not replacement and (np.count_nonzero(rows, -1) < num_samples).any():
        raise ArgumentError(
            message(
                "multinomial",
                "argument 'num_samples'",
                num_samples,
                "at most the number of weights > 0",
            )
        )
    picks = [rng.choice(w.shape[-1], num_samples, replacement, r / r.sum()) for r in rows]
    return finish(
        np.array(picks, np.int64).reshape((*w.shape[:-1], num_samples)), False, "multinomial"
    )


def _filled(self: Tensor, values: Tensor, name: str) -> Tensor:
    from .op.inplace import check_writable, write

    check_writable(self, name)
    return write(self, values, name)


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator=None) -> Tensor:
    """Fill with normal numbers, in place."""
    _check_values(
        as_tensor(std, "normal_", "std"), lambda s: s >= 0, "normal_", "std", "a number >= 0"
    )
    return _filled(self, randn_like(self, generator=generator) * std + mean, "normal")


def uniform_(self: Tensor, a: float = 0.0, b: float = 1.0, *, generator=None) -> Tensor:
    """Fill with uniform numbers in [a, b), in place."""
    if a > b:
        raise ArgumentError(message("uniform_", "the range", f"[{a}, {b})", "numbers a <= b"))
    return _filled(self, rand_like(self, generator=generator) * (b - a) + a, "uniform")


def exponential_(self: Tensor, lambd: float = 1.0, *, generator=None) -> Tensor:
    """Fill with exponential numbers of rate ``lambd``, in place."""
    drawn = _standard("exponential", "exponential", tuple(self.shape), self.dtype, generator, False)
    return _filled(self, drawn / lambd, "exponential")


def random_(self: Tensor, low: int = 0, high: int = 2, *, generator=None) -> Tensor:
    """Fill with integers in [low, high), in place."""
    return _filled(
        self, randint(low, high, tuple(self.shape), generator=generator).to(self.dtype), "random"
    )


for _fn in (normal_, uniform_, exponential_, random_):
    METHODS[_fn.__name__] = _fn
