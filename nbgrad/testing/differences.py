"""What the property tests stand on: functions of flat arrays, directions, and trustworthy finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.diagnose import GradcheckError
from ..errors import ArgumentError, message
from ..func.api import flat_jvp, flat_vjp
from ..op import as_tensor
from ..tensor import Tensor
from ..utils import pytree

Arrays = list[np.ndarray]


class Function:
    """A user's function seen as one of its floating and complex tensor arguments.

    ``points`` are copies of their values; integer and bool arguments stay as they are. ``rng`` is the function's own
    generator, so that a property neither reads nor changes any global random state.
    """

    def __init__(self, op: str, f: Callable, args: Any, seed: int | np.random.Generator):
        self.op, self.f = op, f
        args = (args,) if isinstance(args, Tensor | np.ndarray) else tuple(args)
        leaves, self.tree = pytree.flatten(args)
        self.leaves = [as_tensor(x, op).detach() for x in leaves]
        self.which = [i for i, t in enumerate(self.leaves) if t.dtype.kind in "fc"]
        if not self.which:
            raise ArgumentError(
                message(
                    op, "argument 'args'", "without a floating or complex tensor", "at least one"
                )
            )
        self.points: Arrays = [self.leaves[i].numpy().copy() for i in self.which]
        self.rng = np.random.default_rng(seed)

    def outputs(self, *xs: Tensor) -> list[Tensor]:
        """All outputs as tensors."""
        full = list(self.leaves)
        for i, x in zip(self.which, xs, strict=True):
            full[i] = x
        got = pytree.flatten(self.f(*pytree.unflatten(self.tree, full)))[0]
        return [as_tensor(o, self.op) for o in got]

    def __call__(self, *xs: Tensor) -> list[Tensor]:
        """The floating and complex outputs."""
        found = [o for o in self.outputs(*xs) if o.dtype.kind in "fc"]
        if not found:
            raise ArgumentError(
                message(
                    self.op, "the function's result", "not floating or complex", "a tensor that is"
                )
            )
        return found

    def directions(self) -> Arrays:
        """Random directions like the points."""
        return [dense(self.rng, x) for x in self.points]

    def cotangents(self) -> Arrays:
        """Random cotangents like the outputs."""
        return [dense(self.rng, data(o)) for o in self(*tensors(self.points))]


def dense(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Random numbers in +-[0.3, 1] (never 0, so that no zero hides an error)."""

    def one() -> np.ndarray:
        return rng.uniform(0.3, 1.0, like.shape) * rng.choice([-1.0, 1.0], like.shape)

    x = one() + 1j * one() if like.dtype.kind == "c" else one()
    return np.asarray(x).astype(like.dtype)


def tensors(values: Sequence[Any]) -> list[Tensor]:
    """Arrays as tensors over the same memory."""
    return [Tensor(np.asarray(v)) for v in values]


def data(t: Tensor) -> np.ndarray:
    """A tensor's values as an array."""
    return np.asarray(t.detach().numpy())


def arrays(ts: Sequence[Tensor]) -> Arrays:
    """`data` of several tensors."""
    return [data(t) for t in ts]


def moved(xs: Sequence[np.ndarray], ds: Sequence[np.ndarray], t: float) -> list[Tensor]:
    """The point ``x + t d``."""
    return tensors([x + t * d for x, d in zip(xs, ds, strict=True)])


def inner(a: Sequence[np.ndarray], b: Sequence[Any]) -> float:
    """The real inner product ``Re sum conj(a) b`` that defines cotangents; None counts as zero."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        if y is not None:
            total += float(np.real(np.sum(np.conj(x) * np.asarray(y))))
    return total


def scale(*values: Any) -> float:
    """The largest finite magnitude, at least 1."""
    top = 1.0
    for v in values:
        a = np.abs(np.asarray(v))
        a = a[np.isfinite(a)]
        if a.size:
            top = max(top, float(a.max()))
    return top


def magnitude(vs: Sequence[Any]) -> float:
    """Sum of absolute values: the size that a rounding error of ``<v, .>`` scales with."""
    return sum(float(np.abs(np.asarray(v)).sum()) for v in vs)


def push(fn: Callable, xs: Sequence[np.ndarray], ds: Sequence[np.ndarray]) -> Arrays:
    """Output tangents by forward mode."""
    return arrays(flat_jvp(fn, tensors(xs), tensors(ds))[1])


def pull(fn: Callable, xs: Sequence[np.ndarray], vs: Sequence[np.ndarray]) -> Arrays:
    """Input cotangents by reverse mode."""
    return arrays(flat_vjp(fn, tensors(xs))[1](tensors(vs)))


def tangent_function(fn: Callable, ds: Sequence[np.ndarray]) -> Callable:
    """``x -> J(x) d`` as a function of tensors."""
    return lambda *xs: flat_jvp(fn, xs, tensors(ds))[1]


def gradient_function(fn: Callable, vs: Sequence[np.ndarray]) -> Callable:
    """``x -> J(x)^T v`` as a function of tensors."""
    return lambda *xs: flat_vjp(fn, xs)[1](tensors(vs))


def ridders(g: Callable[[float], float], h: float = 0.04, levels: int = 7) -> tuple[float, float]:
    """``g'(0)`` by central differences extrapolated to step 0, and an error estimate.

    C. J. F. Ridders, Adv. Eng. Software 4 (1982) 75; the steps halve, non-finite ones are dropped.
    """
    best, err = np.nan, np.inf
    table: list[list[float]] = []
    for k in range(levels):
        step = h / 2**k
        d = (g(step) - g(-step)) / (2 * step)
        if not np.isfinite(d):
            table.clear()
            continue
        row = [d]
        for m in range(1, len(table) + 1):
            row.append(row[-1] + (row[-1] - table[-1][m - 1]) / (4**m - 1))
            e = max(abs(row[m] - row[m - 1]), abs(row[m] - table[-1][m - 1]))
            if e < err:
                best, err = row[m], e
        table.append(row)
    return best, err


def matches(
    what: str,
    got: float,
    g: Callable[[float], float],
    size: float,
    atol: float = 1e-8,
    rtol: float = 1e-8,
) -> None:
    """A derivative agrees with extrapolated differences of ``g``, which themselves must have converged.

    Raises
    ------
    GradcheckError : they disagree, or the differences do not converge (a kink, the edge of the domain).
    """
    with np.errstate(all="ignore"):
        want, err = ridders(g)
    if not err <= max(1e-5, rtol) * scale(size, want):
        raise GradcheckError(
            f"{what}: finite differences do not converge (estimate {want:.6g}, error {err:.1e}); the point lies on or "
            "near a kink, or at the edge of the function's domain."
        )
    limit = atol * scale(size) + rtol * abs(want) + 20 * err
    if not abs(got - want) <= limit:
        ratio = f"; their ratio is {got / want:.6g}" if want else ""
        raise GradcheckError(
            f"{what}: the directional derivative is {got:.12g} by autograd and {want:.12g} +- {err:.1e} by finite "
            f"differences (allowed difference {limit:.1e}){ratio}"
        )
