"""Comparing a program's ways of running with eager execution.

Results agree when they differ by a few roundings of the largest entry. Where they do not, the program is run eagerly a few
times more with every step rounded at random: what eager execution itself does not determine (a tie decided by the last bit, a
cancellation) is not asked of the compiled program either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from programs import Program

import nbgrad as ng
from kernels_cpu import threads
from nbgrad.errors import NbgradError, UnsupportedError
from nbgrad.utils.pytree import flatten

F = ng.func
ROUNDINGS = 200  # units in the last place of an array's largest finite entry
REPEATS = 12  # noisy runs that estimate the conditioning


def arrays(tree: Any) -> list[np.ndarray]:
    """The leaves as arrays."""
    return [ng.as_tensor(x).detach().numpy() for x in flatten(tree)[0]]


def tensors(inputs: Sequence[np.ndarray]) -> list[ng.Tensor]:
    """The inputs as tensors that share their memory and layout."""
    return [ng.from_numpy(x) for x in inputs]


def allowance(want: np.ndarray) -> float:
    """The difference that roundings explain."""
    if want.dtype.kind not in "fc" or not want.size:
        return 0.0
    finite = np.abs(want[np.isfinite(want)])
    return ROUNDINGS * float(np.finfo(want.dtype).eps) * (1.0 + finite.max(initial=0.0))


def differences(got: np.ndarray, want: np.ndarray, allowed: Any) -> np.ndarray:
    """Where two arrays differ by more than is allowed; NaN equals NaN."""
    if want.dtype.kind not in "fc":
        return np.asarray(got != want)
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= allowed
        return ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))


def spread(want: Sequence[np.ndarray], again: Callable[[Any], Any]) -> list[Any]:
    """How far noisy eager runs are from the results (infinite where NaN or infinities move)."""
    far: list[Any] = [np.zeros(w.shape) for w in want]
    for k in range(REPEATS):
        noisy = arrays(again(np.random.default_rng(k)))
        for i, (n, w) in enumerate(zip(noisy, want, strict=True)):
            with np.errstate(all="ignore"):
                d = np.abs(n.astype(complex) - w.astype(complex))
            unsure = differences(n, w, np.inf)
            d = np.where(unsure, np.inf, np.where(np.isfinite(d), d, 0.0))
            far[i] = np.maximum(far[i], d)
    return far


def agree(what: str, got: Any, want: Any, again: Callable[[Any], Any] | None = None) -> None:
    """Raise AssertionError where ``got`` is not ``want`` (trees of arrays or tensors).

    ``again`` runs the eager computation with a generator for noise.
    """
    g, w = arrays(got), arrays(want)
    assert len(g) == len(w), f"{what}: {len(g)} results, expected {len(w)}"
    far: list[Any] | None = None
    for i, (a, b) in enumerate(zip(g, w, strict=True)):
        label = f"{what} [{i}]"
        assert a.shape == b.shape, f"{label}: shape {a.shape}, expected {b.shape}"
        assert a.dtype == b.dtype, f"{label}: dtype {a.dtype}, expected {b.dtype}"
        bad = differences(a, b, allowance(b))
        if bad.any() and again is not None:
            far = far or spread(w, again)
            bad &= differences(a, b, allowance(b) + 50 * far[i].max(initial=0.0))
            bad &= ~np.isinf(far[i])
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            raise AssertionError(
                f"{label}: at {at} {a[at]!r}, expected {b[at]!r}; {int(bad.sum())} of {bad.size} differ"
            )


class Checks:
    """A random program with everything that is compared."""

    def __init__(self, program: Program):
        self.program = program
        self.inputs = tensors(program.inputs)
        self.which = tuple(range(len(self.inputs)))
        rng = np.random.default_rng(7)
        self.directions = [
            ng.tensor(rng.uniform(-1, 1, x.shape).astype(x.dtype)) for x in program.inputs
        ]

    def values(self) -> None:
        """Replay, compiled code with all threads and with one, and a second call."""
        p, xs = self.program, self.inputs
        want = p.run(*xs)
        again = lambda noise: p.run(*xs, noise=noise)
        agree("replay", ng.trace(p.run)(*xs).replay(*xs), want, again)
        compiled = ng.compile(p.run)
        got = compiled(*xs)
        agree("compiled", got, want, again)
        self.bitwise("a second call", compiled(*xs), got)
        self.bitwise("one thread", alone(lambda: compiled(*xs)), got)

    @staticmethod
    def bitwise(what: str, got: Any, want: Any) -> None:
        """Equal bit for bit (NaN for NaN)."""
        for a, b in zip(arrays(got), arrays(want), strict=True):
            assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), f"{what} gives other bits"

    def native(self) -> bool:
        """The program called from Numba code, where all of it is native."""
        p, xs = self.program, self.inputs
        found = ng.compile(p.run).program(*xs)
        try:
            fn = found.njit
        except UnsupportedError:
            return False
        plain = [np.ascontiguousarray(x) if x.ndim else x[()] for x in p.inputs]
        again = lambda noise: p.run(*xs, noise=noise)
        got = fn(*plain)
        got = got if isinstance(got, tuple) else (got,)
        dtypes = [s.dtype for s in found.out_specs]  # Numba hands float32 numbers back as floats
        got = [np.asarray(g, d) for g, d in zip(got, dtypes, strict=True)]
        agree("njit", got, p.run(*xs), again)
        return True

    def gradient(self) -> None:
        """Compiled gradients: of a compiled function, and compiled as a whole."""
        p, xs = self.program, self.inputs
        want = F.grad(p.loss, self.which)(*xs)
        again = lambda noise: F.grad(lambda *a: p.loss(*a, noise=noise), self.which)(*xs)
        compiled = ng.compile(p.loss)
        agree("gradient of compiled", F.grad(compiled, self.which)(*xs), want, again)
        whole = ng.compile(F.grad(p.loss, self.which))
        agree("compiled gradient", whole(*xs), want, again)
        self.bitwise("gradient with one thread", alone(lambda: whole(*xs)), whole(*xs))

    def resized(self) -> None:
        """One compiled function for batches of several sizes, against eager execution of each."""
        p, n = self.program, self.program.inputs[0].shape[0]
        compiled, gradient = ng.compile(p.run), ng.compile(F.grad(p.loss, self.which))
        for size in (n, n + 7, 3 * n + 1, n, max(n - 1, 0), 40):
            xs = tensors([with_rows(x, n, size) for x in p.inputs])
            try:
                want, slopes = p.run(*xs), F.grad(p.loss, self.which)(*xs)
            except (NbgradError, ValueError, IndexError):
                continue  # a step whose indices or shapes were drawn for n rows
            agree(f"{size} rows", compiled(*xs), want, self.noisy(p.run, xs))
            rerun = self.noisy(p.loss, xs, lambda f: F.grad(f, self.which))
            agree(f"gradient for {size} rows", gradient(*xs), slopes, rerun)

    @staticmethod
    def noisy(fn: Callable, xs: Sequence, transform: Callable = lambda f: f) -> Callable:
        """The eager computation as a function of a generator for noise."""
        return lambda noise: transform(lambda *a: fn(*a, noise=noise))(*xs)

    def tangent(self) -> None:
        """Forward mode through a compiled function."""
        p, xs, vs = self.program, self.inputs, self.directions
        want = F.jvp(p.loss, tuple(xs), tuple(vs))
        again = lambda noise: F.jvp(lambda *a: p.loss(*a, noise=noise), tuple(xs), tuple(vs))
        agree("jvp of compiled", F.jvp(ng.compile(p.loss), tuple(xs), tuple(vs)), want, again)

    def second(self) -> None:
        """Hessian-vector products: compiled as a whole, and by the derived programs of a compiled function."""
        p, xs, vs = self.program, self.inputs, self.directions

        def product(f: Callable) -> Callable:
            grad = F.grad(f, self.which)
            return lambda *a: F.jvp(grad, tuple(a), tuple(vs))[1]

        want = product(p.loss)(*xs)
        again = lambda noise: product(lambda *a: p.loss(*a, noise=noise))(*xs)
        agree("compiled hvp", ng.compile(product(p.loss))(*xs), want, again)
        agree("hvp of compiled", product(ng.compile(p.loss))(*xs), want, again)


def with_rows(x: np.ndarray, old: int, new: int) -> np.ndarray:
    """The array with its axes of length ``old`` cut or repeated to ``new`` (rows stay as they are where there are enough)."""
    for axis, length in enumerate(x.shape):
        if length == old:
            index = np.arange(new) % max(old, 1) if old else np.zeros(new, int)
            x = (
                np.take(x, index, axis)
                if old
                else np.ones([*x.shape[:axis], new, *x.shape[axis + 1 :]], x.dtype)
            )
    return x


def alone(fn: Callable) -> Any:
    """Run with a single thread."""
    before = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        return fn()
    finally:
        threads.set_num_threads(before)
