"""Elementwise operators: arithmetic and the core transcendental functions."""

from __future__ import annotations

from ..codegen.expr import m
from ..op import elementwise
from ..op.public import operators


@elementwise(partials=(lambda x, y, out: 1, lambda x, y, out: 1), linear="all")
def add(x, y):
    """Sum of two tensors with broadcasting."""
    return x + y


@elementwise(partials=(lambda x, y, out: 1, lambda x, y, out: -1), linear="all")
def sub(x, y):
    """Difference of two tensors with broadcasting."""
    return x - y


@elementwise(partials=(lambda x, y, out: y, lambda x, y, out: x), multilinear=(0, 1))
def mul(x, y):
    """Product of two tensors with broadcasting."""
    return x & y if x.dtype.kind == "b" else x * y


@elementwise(
    contributions=(lambda ct, g, p, out: zmul(ct, cj(p)), lambda ct, g, p, out: zmul(cj(g), ct)),
    multilinear=(0, 1),
)
def zmul(g, p):
    """Product that is exactly 0 where its first factor is 0, whatever the second one is.

    Every derivative rule multiplies a cotangent with a partial through this bilinear operator, so that a branch that
    was masked out cannot poison the others with ``0 * inf``.
    """
    z = m.const(0, g)
    return m.select(g == 0, z, g * p)


@elementwise(
    partials=(lambda x, y, out: reciprocal(y), lambda x, y, out: -out / y), promotion="float"
)
def div(x, y):
    """Quotient (true division; integers give the default dtype)."""
    return x / y


@elementwise(partials=(lambda x, out: -1,), linear="all")
def neg(x):
    """Negation."""
    return -x


@elementwise(partials=(lambda x, out: -out * out,), promotion="float")
def reciprocal(x):
    """1/x."""
    return 1 / x


@elementwise(partials=(lambda x, out: 2 * x,))
def square(x):
    """x*x."""
    return x * x


@elementwise(partials=(lambda x, out: 0.5 / out,), promotion="float")
def sqrt(x):
    """Square root."""
    return m.sqrt(x)


@elementwise(partials=(lambda x, out: out,), promotion="float")
def exp(x):
    """Exponential."""
    return m.exp(x)


@elementwise(partials=(lambda x, out: reciprocal(x),), promotion="float")
def log(x):
    """Natural logarithm."""
    return m.log(x)


@elementwise(partials=(lambda x, out: cos(x),), promotion="float")
def sin(x):
    """Sine."""
    return m.sin(x)


@elementwise(partials=(lambda x, out: -sin(x),), promotion="float")
def cos(x):
    """Cosine."""
    return m.cos(x)


@elementwise(partials=(lambda x, out: 1 - out * out,), promotion="float")
def tanh(x):
    """Hyperbolic tangent."""
    return m.tanh(x)


@elementwise(
    contributions=(
        None,
        lambda ct, c, a, b, out: keep(c, ct),
        lambda ct, c, a, b, out: drop(c, ct),
    ),
    promotion="select",
    linear=(1, 2),
    inplace=False,
)
def where(c, a, b):
    """``a`` where the condition holds, else ``b``; the side not chosen gets gradient 0."""
    return m.select(c, a, b)


@elementwise(
    contributions=(None, lambda ct, c, a, out: keep(c, ct)),
    promotion="select",
    linear=(1,),
    hidden=True,
)
def keep(c, a):
    """``a`` where the condition holds, else 0."""
    return m.select(c, a, m.const(0, a))


@elementwise(
    contributions=(None, lambda ct, c, a, out: drop(c, ct)),
    promotion="select",
    linear=(1,),
    hidden=True,
)
def drop(c, a):
    """0 where the condition holds, else ``a``."""
    return m.select(c, m.const(0, a), a)


@elementwise(linear="all", wirtinger=(lambda x, out: (0, 1),), partials=(lambda x, out: 1,))
def conj(x):
    """Complex conjugate (the identity on real tensors)."""
    return m.conj(x)


@elementwise(linear="all", wirtinger=(lambda x, out: (0.5, 0.5),), partials=(lambda x, out: 1,))
def real(x):
    """Real part."""
    return m.real(x)


@elementwise(
    partials=(lambda x, out: sgn(x),),
    wirtinger=(lambda x, out: (0.5 * conj(sgn(x)), 0.5 * sgn(x)),),
)
def abs(x):
    """Absolute value; the derivative at 0 is 0."""
    if x.dtype.kind == "c":
        return m.cabs(x)
    if x.dtype.kind == "f":
        return m.fabs(x)
    return x if x.dtype.kind in "bu" else m.select(x < 0, -x, x)


@elementwise(
    partials=(lambda x, out: 0,),
    wirtinger=(lambda x, out: sgn_wirtinger(x, out),),
)
def sgn(x):
    """x/|x|, and 0 at 0; the sign for real tensors."""
    if x.dtype.kind == "c":
        r = m.cabs(x)
        safe = m.cast(m.select(r == 0, m.const(1, r), r), x.dtype)
        return m.select(r == 0, m.const(0, x), x / safe)
    one = m.const(1, x)
    return m.select(x > 0, one, m.select(x < 0, -one, x))


def sgn_wirtinger(x, out):
    """d(z/|z|) = (dz - z^2/|z|^2 dzbar) / (2|z|), taken as 0 at 0."""
    r = abs(x)
    half = where(r == 0, 0.0, 0.5 / r)
    return half, -out * out * half


@elementwise(
    partials=(
        lambda x, y, out: where(y == 0, 0.0, y * pow(x, y - 1)),
        lambda x, y, out: where((x == 0) & (real(y) >= 0), 0.0, out * log(x)),
    ),
)
def pow(x, y):
    """x to the power y; ``0**0 = 1``; derivatives are finite wherever they exist."""
    return m.ipow(x, y) if x.dtype.kind in "biu" else m.pow(x, y)


@elementwise(inplace=False)
def eq(x, y):
    """Elementwise equality."""
    return x == y


@elementwise(inplace=False)
def ne(x, y):
    """Elementwise inequality."""
    return x != y


@elementwise(complex_ok=False, inplace=False)
def lt(x, y):
    """Elementwise x < y."""
    return x < y


@elementwise(complex_ok=False, inplace=False)
def le(x, y):
    """Elementwise x <= y."""
    return x <= y


@elementwise(complex_ok=False, inplace=False)
def gt(x, y):
    """Elementwise x > y."""
    return x > y


@elementwise(complex_ok=False, inplace=False)
def ge(x, y):
    """Elementwise x >= y."""
    return x >= y


@elementwise(promotion="integral")
def bitwise_and(x, y):
    """Bitwise (logical for bool) and."""
    return x & y


@elementwise(promotion="integral")
def bitwise_or(x, y):
    """Bitwise (logical for bool) or."""
    return x | y


@elementwise(promotion="integral")
def bitwise_xor(x, y):
    """Bitwise (logical for bool) exclusive or."""
    return x ^ y


@elementwise(promotion="integral")
def bitwise_not(x):
    """Bitwise (logical for bool) not."""
    return ~x


@elementwise(
    partials=(
        lambda x, y, out: where(x == y, 0.5, where((x > y) | (x != x), 1.0, 0.0)),
        lambda x, y, out: where(x == y, 0.5, where((x > y) | (x != x), 0.0, 1.0)),
    ),
    complex_ok=False,
)
def maximum(x, y):
    """The larger of two; NaN wins; at a tie each gets half the gradient."""
    return m.select((x > y) | (x != x), x, y)


def cj(x):
    """Conjugate of a complex value, else the value itself."""
    return conj(x) if x.dtype.kind == "c" else x


operators(
    {
        "add": (add, True, True),
        "sub": (sub, True, True),
        "mul": (mul, True, True),
        "truediv": (div, True, True),
        "pow": (pow, True, True),
        "neg": (neg, False, False),
        "abs": (abs, False, False),
        "eq": (eq, False, False),
        "ne": (ne, False, False),
        "lt": (lt, False, False),
        "le": (le, False, False),
        "gt": (gt, False, False),
        "ge": (ge, False, False),
        "and": (bitwise_and, True, True),
        "or": (bitwise_or, True, True),
        "xor": (bitwise_xor, True, True),
        "invert": (bitwise_not, False, False),
    }
)
