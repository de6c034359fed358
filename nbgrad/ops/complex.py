"""Modulus, argument and parts of complex numbers; sign."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..codegen.complexes import join
from ..codegen.expr import Expr, m
from ..dtypes import to_complex
from ..op import as_tensor, cast, elementwise
from ..op.public import METHODS, PUBLIC, public
from ..tensor import Tensor
from .arithmetic import mul
from .sampling import REAL, SIDES, elements
from .selection import conj, drop, real, zmul
from .trigonometric import cos, sin


def _like(t: Any, x: Any) -> Any:
    """t in the dtype of x."""
    return m.cast(t, x.dtype) if isinstance(t, Expr) else cast(t, x.dtype)


@elementwise(
    alias=("absolute",),
    diagonal=(lambda t, x, out: zmul(sgn(x), _like(t, x)),),
    wirtinger=(lambda x, out: (0.5 * conj(sgn(x)), 0.5 * sgn(x)),),
    tests=elements(SIDES),
    reference=np.abs,
)
def abs(x):
    """Absolute value; the derivative at 0 is 0."""
    if x.dtype.kind == "c":
        return m.cabs(x)
    if x.dtype.kind == "f":
        return m.fabs(x)
    return x if x.dtype.kind in "bu" else m.select(x < 0, -x, x)


@elementwise(
    alias=("sign",),
    partials=(lambda x, out: 0,),
    wirtinger=(lambda x, out: _sgn_wirtinger(x, out),),
    tests=elements(SIDES),
    reference=lambda x: x / np.abs(x),
)
def sgn(x):
    """x/|x|, and 0 at 0; the sign for real tensors."""
    if x.dtype.kind == "c":
        r = m.cabs(x)
        safe = m.cast(m.select(r == 0, m.const(1, r), r), x.dtype)
        return m.select(r == 0, m.const(0, x), x / safe)
    if x.dtype.kind == "b":
        return x
    one, zero = m.const(1, x), m.const(0, x)
    sign = m.select(x > 0, one, m.select(x < 0, -one if x.dtype.kind != "u" else zero, zero))
    return m.select(x == x, sign, x) if x.dtype.kind == "f" else sign


def _sgn_wirtinger(x: Any, out: Any) -> Any:
    """d(z/|z|) = (dz - z^2/|z|^2 dzbar) / (2|z|), taken as 0 at 0."""
    r = abs(x)
    half = _like(drop(r == 0, 0.5 / r), x)
    return half, -out * out * half


@elementwise(
    partials=(lambda x, out: 0,),
    wirtinger=(lambda x, out: (-0.5j, 0.5j),),
    method=False,
    inplace=False,
    linear="all",
    tests=elements(REAL),
    reference=np.imag,
)
def imag(x):
    """Imaginary part (zeros for real tensors)."""
    return m.imag(x) if x.dtype.kind == "c" else m.const(0, x)


@elementwise(
    promotion="float",
    partials=(lambda x, out: 0,),
    wirtinger=(lambda x, out: _angle_wirtinger(x),),
    inplace=False,
    tests=elements(SIDES),
    reference=np.angle,
)
def angle(x):
    """The argument in [-pi, pi] (0 or pi for real tensors); the derivative at 0 is 0."""
    if x.dtype.kind == "c":
        return m.carg(x)
    flat = m.select(x < 0, m.const(math.pi, x), m.const(0, x))
    return m.select(x == x, flat, x)


def _angle_wirtinger(x: Any) -> Any:
    """The argument is the imaginary part of log z."""
    half = drop(x == 0, 0.5 / x)
    return -1j * half, 1j * conj(half)


@elementwise(
    "complex",
    promotion="float",
    complex_ok=False,
    method=False,
    inplace=False,
    linear="all",
    contributions=(lambda ct, re, im, out: real(ct), lambda ct, re, im, out: imag(ct)),
    tests=elements(REAL, REAL),
    reference=lambda re, im: np.asarray(re + 1j * im).astype(
        np.result_type(re.dtype, np.complex64)
    ),
)
def make_complex(re, im):
    """The complex tensor with these real and imaginary parts."""
    return join(re, im, to_complex(re.dtype))


@public(method=False)
def polar(abs: Any, angle: Any) -> Any:
    """The complex tensor ``abs * exp(i angle)`` from real tensors."""
    return make_complex(mul(abs, cos(angle)), mul(abs, sin(angle)))


@public
def is_complex(input: Any) -> bool:
    """True for complex dtypes."""
    return as_tensor(input, "is_complex")._data.dtype.kind == "c"


@public
def isreal(input: Any) -> Any:
    """True where the imaginary part is 0."""
    return imag(input) == 0


def _part(fn: Any, doc: str) -> Any:
    """A part of a complex tensor is a copy: it is read-only, so that no write to it is lost unseen."""

    @functools.wraps(fn)
    def get(x: Any) -> Any:
        out = fn(x)
        if type(x) is Tensor and x._data.dtype.kind == "c" and isinstance(out._data, np.ndarray):
            out._data.flags.writeable = False
        return out

    get.__doc__ = doc
    return get


PUBLIC["real"] = _part(real, "The real part, read-only (the tensor's values if it is real).")
PUBLIC["imag"] = _part(imag, "The imaginary part, read-only (zeros for real tensors).")
METHODS["real"] = property(PUBLIC["real"])
METHODS["imag"] = property(PUBLIC["imag"])
