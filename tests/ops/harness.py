"""What the generic operator checks stand on: samples as cases, comparisons, and reference derivatives.

Reference derivatives come from Ridders' extrapolated central differences, whose error estimate is part of the
tolerance.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nbgrad import dtypes as dt
from nbgrad.autograd import grad
from nbgrad.op import Elementwise, Operator
from nbgrad.op.samples import Sample
from nbgrad.tensor import Tensor

F64, F32 = dt.float64, dt.float32
WIDE = {dt.float64: dt.float64, dt.float32: dt.float64, dt.complex64: dt.complex128}
NARROW = {dt.float64: dt.float32, dt.complex128: dt.complex64}


class Case(NamedTuple):
    """One sample of an operator, with the arguments that may be differentiated and a generator."""

    op: Operator
    sample: Sample
    which: tuple[int, ...]
    rng: np.random.Generator
    position: int = 0

    def __str__(self) -> str:
        args = ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in arrays(self.sample))
        params = "".join(f", {k}={v}" for k, v in self.sample.params.items())
        return f"{self.op.name}({args}{params})"

    def at(self, args: Sequence[np.ndarray]) -> Case:
        """The same call on other arguments."""
        return self._replace(sample=Sample(tuple(args), self.sample.params))

    def at_points(self, points: Sequence[Tensor]) -> Case:
        """The same call with other values of the differentiable arguments."""
        args = arrays(self.sample)
        for i, x in zip(self.which, points, strict=True):
            args[i] = data(x)
        return self.at(args)

    def run(self, tensors: Sequence[Any]) -> list[Tensor]:
        """Outputs of the operator on tensors."""
        out = self.op(*tensors, **self.sample.params)
        return list(out) if isinstance(out, tuple) else [out]

    def fn(self, given: Sequence[Tensor] | None = None) -> Callable[..., list[Tensor]]:
        """The differentiable outputs as a function of the differentiable arguments."""
        args = map_tensor(arrays(self.sample)) if given is None else given

        def call(*xs: Tensor) -> list[Tensor]:
            full = list(args)
            for i, x in zip(self.which, xs, strict=True):
                full[i] = x
            return [o for o in self.run(full) if o.dtype.kind in "fc"]

        return call

    def points(self) -> list[np.ndarray]:
        """Values of the differentiable arguments."""
        given = arrays(self.sample)
        return [given[i] for i in self.which]

    def directions(self) -> list[np.ndarray]:
        """Random directions like the differentiable arguments, of size about 1."""
        return [noise(self.rng, x.shape, x.dtype) for x in self.points()]

    def cotangents(self) -> list[np.ndarray]:
        """Random cotangents of the differentiable outputs."""
        outs = self.fn()(*map_tensor(self.points()))
        return [noise(self.rng, tuple(o.shape), o.dtype) for o in outs]

    def draws(self, size: int) -> list[list[np.ndarray]]:
        """``size`` argument lists: other draws of the maker where they fit this sample, else copies."""
        rows = [arrays(self.sample)]
        for salt in range(1, size):
            others = cases(self.op, salt=salt)
            twin = others[self.position] if len(others) > self.position else self
            rows.append(
                [a.copy() for a in arrays((twin if str(twin) == str(self) else self).sample)]
            )
        return rows


def arrays(sample: Sample) -> list[np.ndarray]:
    """The sample's arguments as arrays."""
    return [np.asarray(a) for a in sample.args]


def map_tensor(values: Sequence[np.ndarray]) -> list[Tensor]:
    """Arrays as tensors over the same memory and strides."""
    return [Tensor(np.asarray(v)) for v in values]


def data(t: Tensor) -> np.ndarray:
    """A result as an array."""
    return np.asarray(t.detach().numpy())


def noise(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Random numbers in +-[0.3, 1], never 0, so that nothing is hidden by a zero."""

    def one() -> np.ndarray:
        return rng.uniform(0.3, 1.0, shape) * rng.choice([-1.0, 1.0], shape)

    x = one() + 1j * one() if dtype.kind == "c" else one()
    return np.asarray(x).astype(dtype)


def differentiable(op: Operator, args: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Positions of the arguments an operator can be differentiated in."""
    if not op.differentiable:
        return ()
    defined = op.defined if isinstance(op, Elementwise) else [True] * len(args)
    return tuple(
        i for i, a in enumerate(args) if a.dtype.kind in "fc" and i not in op.nondiff and defined[i]
    )


def cases(op: Operator, dtype: np.dtype = F64, salt: int = 0) -> list[Case]:
    """The operator's samples in one dtype (none where it does not accept the dtype).

    The random numbers depend on the operator's name only, so that a failure repeats.
    """
    rng = np.random.default_rng([zlib.crc32(op.name.encode()), salt])
    samples = op.tests(rng, dtype)
    return [Case(op, s, differentiable(op, arrays(s)), rng, k) for k, s in enumerate(samples)]


# -- comparing -----------------------------------------------------------------------------------------


def scale(*values: Any) -> float:
    """The largest finite magnitude, at least 1."""
    top = 1.0
    for v in values:
        a = np.abs(np.asarray(v))
        a = a[np.isfinite(a)]
        if a.size:
            top = max(top, float(a.max()))
    return top


def same(what: str, got: Any, want: Any, tol: float) -> None:
    """Equal shapes, and values within ``tol`` of the larger magnitude; NaN and inf in the same places."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if not {got.dtype.kind, want.dtype.kind} & {"f", "c"}:
        assert np.array_equal(got, want), f"{what}: {got!r}, expected {want!r}"
        return
    limit = tol * scale(want)
    with np.errstate(all="ignore"):
        bad = ~((np.abs(got - want) <= limit) | (got == want) | (np.isnan(got) & np.isnan(want)))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise AssertionError(
            f"{what}: at {at} got {got[at]!r}, expected {want[at]!r} (allowed difference {limit:.1e}; "
            f"{int(bad.sum())} of {bad.size} entries differ)"
        )


def all_same(what: str, got: Sequence[Any], want: Sequence[Any], tol: float) -> None:
    """`same` on corresponding entries of two lists; None counts as zero."""
    assert len(got) == len(want), f"{what}: {len(got)} results, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        name = f"{what} [{i}]" if len(got) > 1 else what
        if g is not None or w is not None:
            g = np.zeros_like(w) if g is None else g
            same(name, g, np.zeros_like(g) if w is None else w, tol)


def inner(a: Sequence[np.ndarray], b: Sequence[Any]) -> float:
    """The real inner product ``Re sum conj(a) b`` that defines cotangents; None counts as zero."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        if y is not None:
            total += float(np.real(np.sum(np.conj(x) * np.asarray(y))))
    return total


# -- reference derivatives -----------------------------------------------------------------------------


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


def matches(what: str, got: float, g: Callable[[float], float], size: float) -> None:
    """A derivative agrees with differences of ``g``, which themselves must have converged."""
    with np.errstate(all="ignore"):
        want, err = ridders(g)
    assert err <= 1e-5 * scale(size, want), (
        f"{what}: finite differences do not converge (estimate {want}, error {err:.1e}): is a sample on a "
        "kink or at the edge of the domain?"
    )
    limit = 1e-8 * scale(size, want) + 20 * err
    assert abs(got - want) <= limit, f"{what}: {got!r}, by finite differences {want!r} +- {err:.1e}"


def moved(xs: Sequence[np.ndarray], ds: Sequence[np.ndarray], t: float) -> list[Tensor]:
    """The point ``x + t d`` as tensors."""
    return [Tensor(np.asarray(x + t * d)) for x, d in zip(xs, ds, strict=True)]


def eager_vjp(c: Case, vs: Sequence[np.ndarray], create_graph: bool = False) -> list[Any]:
    """Gradients by ``autograd.grad``; None where an argument is not used."""
    leaves = [x.requires_grad_() for x in map_tensor(c.points())]
    outs = zip(c.fn()(*leaves), map_tensor(vs), strict=True)
    live = [(o, v) for o, v in outs if o.requires_grad]
    if not live:
        return [None] * len(leaves)
    got = grad(
        [o for o, _ in live],
        leaves,
        [v for _, v in live],
        create_graph=create_graph,
        allow_unused=True,
    )
    return [None if g is None else data(g) for g in got]
