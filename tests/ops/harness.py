"""What the generic operator checks stand on: samples as cases, and comparisons.

Reference derivatives are `nbgrad.testing`'s extrapolated differences.
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
from nbgrad.testing.differences import data, dense, scale
from nbgrad.testing.differences import tensors as map_tensor

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
        return [dense(self.rng, x) for x in self.points()]

    def cotangents(self) -> list[np.ndarray]:
        """Random cotangents of the differentiable outputs."""
        outs = self.fn()(*map_tensor(self.points()))
        return [dense(self.rng, data(o)) for o in outs]

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
