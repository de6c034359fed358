"""Object arrays of numbers and duals, and what NumPy cannot do on them itself: reductions, linear algebra."""

from __future__ import annotations

import builtins

import dual
import numpy as np
from dual import Dual, plain


class Objects(np.ndarray):
    """An object array with the methods that NumPy has only for its own number types."""

    def astype(self, dtype, *args, **kwargs):
        kind = np.dtype(kind_of(dtype)).kind
        if kind in "fcO":
            return self.copy()
        return np.array([plain(x) for x in self.ravel()]).astype(dtype).reshape(self.shape)

    def __matmul__(self, other):
        return wrap(np.matmul(np.asarray(self), np.asarray(other)))

    def __rmatmul__(self, other):
        return wrap(np.matmul(np.asarray(other), np.asarray(self)))

    def item(self, *index):
        return self[index] if index else self.ravel()[0]

    def fill(self, value):
        self[...] = value

    real = property(lambda self: elementwise(lambda x: x.real)(self))
    imag = property(lambda self: elementwise(lambda x: x.imag)(self))
    T = property(lambda self: self.transpose())

    def conj(self):
        return elementwise(lambda x: x.conjugate())(self)

    conjugate = conj

    def dot(self, other):
        return np.dot(self, other)

    def sum(self, axis=None):
        return total(self, axis)

    def prod(self, axis=None):
        return fold(lambda x, y: x * y)(self, axis)

    def mean(self, axis=None):
        return mean(self, axis)

    def var(self, axis=None):
        return variance(self, axis)

    def std(self, axis=None):
        return deviation(self, axis)

    def max(self, axis=None):
        return fold(dual.maximum)(self, axis)

    def min(self, axis=None):
        return fold(dual.minimum)(self, axis)

    def argmax(self, axis=None):
        return values(self).argmax(axis)

    def argmin(self, axis=None):
        return values(self).argmin(axis)

    def argsort(self, axis=-1, kind=None):
        return values(self).argsort(axis, kind="stable")


def kind_of(dtype):
    return getattr(dtype, "dtype", dtype)


def values(a):
    """The values of an array of duals as an ordinary array."""
    return np.array([plain(x) for x in np.ravel(a)]).reshape(np.shape(a))


def objects(a):
    """An object array (a copy) with the items of ``a``."""
    a = np.asarray(a)
    out = np.empty(a.shape, object)
    out[...] = a
    return out.view(Objects)


def wrap(x):
    """What an object ufunc returned, as our arrays or as a number."""
    if isinstance(x, np.ndarray) and x.dtype == object:
        return x.view(Objects) if x.ndim else x.item()
    return x


def elementwise(function, inputs=1):
    ufunc = np.frompyfunc(function, inputs, 1)

    def apply(*args):
        out = ufunc(*(np.asarray(a) if isinstance(a, list | tuple) else a for a in args))
        return wrap(out)

    return apply


def predicate(function):
    apply = elementwise(lambda x: function(plain(x)))
    return lambda x: np.asarray(apply(x), bool) if np.ndim(x) else bool(apply(x))


def fold(function):
    """A reduction by a function of two numbers, over one axis or all."""

    def reduce(a, axis=None):
        a = np.asarray(a)
        a = a.ravel() if axis is None else np.moveaxis(a, axis, 0)
        out = a[0]
        for item in a[1:]:
            out = elementwise(function, 2)(out, item)
        return wrap(out)

    return reduce


def total(a, axis=None, **_):
    return wrap(np.add.reduce(np.asarray(a), axis)) if np.ndim(a) else a


def mean(a, axis=None):
    a = np.asarray(a)
    return total(a, axis) / (a.size if axis is None else a.shape[axis])


def variance(a, axis=None):
    a = np.asarray(a).view(Objects)
    centre = a.mean() if axis is None else np.expand_dims(a.mean(axis), axis)
    return mean(elementwise(lambda x: abs_squared(x))(a - centre), axis)


def abs_squared(z):
    return (z * z.conjugate()).real


def deviation(a, axis=None):
    return elementwise(dual.sqrt)(variance(a, axis))


def filled(value):
    """np.zeros and its like: a float or complex array holds objects."""

    def make(shape, dtype=float):
        kind = np.dtype(kind_of(dtype)).kind
        if kind not in "fcO":
            return np.full(shape, value, kind_of(dtype))
        return objects(np.full(shape, value, object))

    return make


def filled_like(value):
    return lambda a, dtype=None: filled(value)(np.shape(a), a.dtype if dtype is None else dtype)


def full(shape, value, dtype=None):
    if dtype is None and isinstance(value, int | np.integer | bool):
        return np.full(shape, value)
    if dtype is not None and np.dtype(kind_of(dtype)).kind not in "fcO":
        return np.full(shape, plain(value), kind_of(dtype))
    return objects(np.full(shape, value, object))


def array(a, dtype=None):
    out = np.array(a, dtype=object) if has_objects(a) else np.array(a, kind_of(dtype))
    return objects(out) if out.dtype.kind in "fcO" else out


def has_objects(a):
    if isinstance(a, list | tuple):
        return any(has_objects(x) for x in a)
    return isinstance(a, Dual) or (isinstance(a, np.ndarray) and a.dtype.kind == "O")


def floats(make):
    """np.arange and others: float results become objects."""

    def function(*args, **kwargs):
        args = [plain(a) if isinstance(a, Dual) else a for a in args]
        out = make(*args, **{k: kind_of(v) for k, v in kwargs.items()})
        return objects(out) if out.dtype.kind in "fc" else out

    return function


def linspace(start, stop, num=50):
    steps = objects(np.arange(num) / max(num - 1, 1))
    return start + steps * (stop - start)


def where(condition, *choices):
    if not choices:
        return np.where(np.asarray(condition, bool))
    return elementwise(lambda c, x, y: x if c else y, 3)(condition, *choices)


def clip(a, low, high):
    out = a
    if low is not None:
        out = elementwise(dual.maximum, 2)(out, low)
    return out if high is None else elementwise(dual.minimum, 2)(out, high)


def shaped(function):
    """A NumPy function that only moves items, or adds and multiplies them."""
    return lambda *args, **kwargs: wrap(function(*args, **kwargs))


def solve(a, b):
    """Gauss's elimination with pivots chosen by value."""
    a, b = np.array(a, object), np.array(b, object)
    n = len(a)
    for k in range(n):
        p = k + int(np.argmax(np.abs(values(a[k:, k]))))
        a[[k, p]], b[[k, p]] = a[[p, k]], b[[p, k]]
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i, k:] = a[i, k:] - a[k, k:] * factor
            b[i] = b[i] - b[k] * factor
    for k in reversed(range(n)):
        for i in range(k + 1, n):
            b[k] = b[k] - b[i] * a[k, i]
        b[k] = b[k] / a[k, k]
    return b.view(Objects)


def det(a):
    """By expansion along the first row: no pivots, so singular matrices are no exception."""
    a = np.asarray(a)
    if len(a) == 1:
        return a[0, 0]
    rest = np.delete(a, 0, 0)
    return builtins.sum(
        (-1.0) ** j * a[0, j] * det(np.delete(rest, j, 1)) for j in range(a.shape[1])
    )


def slogdet(a):
    d = det(a)
    return float(np.sign(plain(d))), dual.log(dual.absolute(d))


def cholesky(a):
    n = len(a)
    out = filled(0.0)((n, n))
    for j in range(n):
        for i in range(j, n):
            s = a[i, j] - builtins.sum(out[i, k] * conjugate(out[j, k]) for k in range(j))
            out[i, j] = dual.sqrt(s.real) if i == j else s / out[j, j]
    return out


def conjugate(x):
    return x.conjugate()


def norm(a, ord=None):
    a = np.asarray(a)
    if ord is None or (ord == 2 and a.ndim == 1):
        return dual.sqrt(total(elementwise(abs_squared)(a.ravel())))
    sizes = elementwise(dual.absolute)(a)
    if a.ndim == 1:
        if ord == np.inf:
            return fold(dual.maximum)(sizes)
        return dual.power(total(elementwise(lambda x: dual.power(x, ord))(sizes)), 1.0 / ord)
    return fold(dual.maximum)(total(sizes, 0 if ord == 1 else 1))
