"""What norms and standard deviations share: quotients that are 0 over 0, and squares that are smooth at 0.

The gradient of a norm (and of a standard deviation) where it is 0 is 0. The square of one is smooth there, and its
second derivative is given back to it: see `smooth_square`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..codegen.expr import m
from ..op import REGISTRY, Spec, elementwise, operator
from ..op.batching import materialize
from ..op.samples import Sample, draw, uniform
from ..state import state
from ..tensor import Meta, Tensor, Value
from .basic import sum_
from .common import count, unreduce
from .elementwise import cj, keep, real, zmul
from .view import expand


@elementwise(
    partials=(lambda a, b, out: one_over0(b), lambda a, b, out: -out * one_over0(b)),
    hidden=True,
    tests=uniform((-2, 2), (0.5, 2)),
    reference=np.divide,
)
def ratio0(a, b):
    """``a / b``, and 0 (with all its derivatives) where b is 0."""
    return m.select(b == 0, m.const(0, a), a / b)


@elementwise(
    partials=(lambda x, out: -out * out,),
    hidden=True,
    tests=uniform((0.5, 2)),
    reference=np.reciprocal,
)
def one_over0(x):
    """``1 / x``, and 0 where x is 0."""
    return m.select(x == 0, m.const(0, x), 1 / x)


def real_dot(x: Any, t: Any, axes: tuple, keepdim: bool) -> Any:
    """``sum(real(conj(x) t))`` over axes."""
    term = zmul(t, cj(x))
    return sum_(real(term) if x.dtype.kind == "c" else term, axes=axes, keepdim=keepdim)


def centred(x: Any, axes: tuple) -> Any:
    """x minus its mean over axes."""
    n = count(x.shape, axes)
    return x - sum_(x, axes=axes, keepdim=True) / n if n else x


def scale(x: Any, axes: tuple, correction: float) -> float:
    """One over the degrees of freedom (NaN where there are none)."""
    free = count(x.shape, axes) - correction
    return 1.0 / free if free > 0 else math.nan


# -- the square of a norm at 0 ----------------------------------------------------------------------


def _root_samples(rng: np.random.Generator, dtype: np.dtype) -> list[Sample]:
    x = draw(rng, dtype, (2, 3), -2, 2)
    n = np.sqrt((np.abs(x) ** 2).sum(1)).astype(dt.to_real(dtype))
    return [Sample((x, n), {"axes": (1,), "keepdim": False})]


@operator(
    "square_at_zero",
    nin=2,
    nondiff=(1,),
    saves=(0, 1),
    tests=_root_samples,
    reference=lambda x, n, axes, keepdim: np.zeros_like(n),
)
def square_at_zero(x, n, *, axes, keepdim):
    """0, with the derivatives of ``sum(|x|**2)`` where the norm n is 0, and none elsewhere.

    A norm's gradient at 0 is 0 by convention, so the chain rule finds no curvature in its square there, although
    that is ``sum(|x|**2)`` with Hessian 2I. Added to the square, this operator supplies it.
    """
    return np.zeros(n.shape, n.dtype)


@square_at_zero.vjp
def _(g, out, x, n, *, needs, axes, keepdim):
    back = lambda v: unreduce(v, x.shape, axes, keepdim)
    return keep(expand(back(n == 0), shape=tuple(x.shape)), zmul(back(g), 2 * x)), None


@square_at_zero.jvp
def _(tangents, out, x, n, *, axes, keepdim):
    return keep(n == 0, 2 * real_dot(x, tangents[0], axes, keepdim))


@square_at_zero.infer
def _(x, n, *, axes, keepdim):
    return Spec(n.shape, n.dtype)


@square_at_zero.batch
def _(dims, x, n, *, axes, keepdim):
    _, (x, n) = materialize(dims, (x, n))
    return square_at_zero(x, n, axes=tuple(a + 1 for a in axes), keepdim=keepdim), 0


class Root:
    """Remembers what a norm was taken of, so that its square can be differentiated twice at 0."""

    __slots__ = ("axes", "correction", "keepdim", "versions", "x")

    def __init__(self, x: Tensor, n: Tensor, axes: tuple, keepdim: bool, correction: Any = None):
        self.x, self.axes, self.keepdim, self.correction = x, axes, keepdim, correction
        self.versions = (x._ver[0], n._ver[0])

    def fits(self, n: Tensor) -> bool:
        """Whether neither the norm nor its argument has been written since."""
        return self.versions == (self.x._ver[0], n._ver[0])

    def curvature(self, n: Tensor) -> Tensor:
        """The term that gives the square its second derivative at 0."""
        x = self.x if self.correction is None else centred(self.x, self.axes)
        out = square_at_zero(x, n, axes=self.axes, keepdim=self.keepdim)
        return out if self.correction is None else out * scale(x, self.axes, self.correction)


def remember(n: Tensor, x: Tensor, axes: tuple, keepdim: bool, correction: Any = None) -> Tensor:
    """Attach a `Root` to a norm that may be differentiated."""
    if x._node is not None or isinstance(x._data, Value):
        n._meta = n._meta or Meta()
        n._meta.root = Root(x, n, axes, keepdim, correction)
    return n


def smooth_square(n: Any, squared: Any) -> Any:
    """``squared()``, completed by the curvature at 0 where n is the norm or deviation of something.

    Where a plain eager norm is nowhere 0 there is nothing to complete.
    """
    root = n._meta.root
    out = squared()
    if not root.fits(n):
        return out
    plain = type(n._data) is np.ndarray and not state.recorders
    if plain and n._data.all():
        return out
    return out + root.curvature(n)


def _rooted(n: Any) -> bool:
    return isinstance(n, Tensor) and n._meta is not None and n._meta.root is not None


def _square_rule(name: str, is_square: Any) -> None:
    """Make operator ``name`` complete the squares that ``is_square`` recognises."""
    op = REGISTRY[name]

    def rule(args: tuple) -> Any:
        if not (args and _rooted(args[0]) and is_square(*args)):
            return None
        return smooth_square(args[0], lambda: op.apply(op.coerce(args)))

    op.rewrite = rule


_square_rule("pow", lambda n, p: isinstance(p, int | float) and p == 2)
_square_rule("square", lambda n: True)
_square_rule("mul", lambda n, other: other is n)
