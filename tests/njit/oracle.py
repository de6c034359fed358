"""An exact oracle of derivatives: the plain Python text of a function, run on dual numbers.

``make_plain`` rebuilds a function (and every function it calls) with the stand-ins of ``oracle_numpy`` in place of
``math``, ``np`` and the builtins. Nothing of nbgrad takes part, and no finite difference.
"""

from __future__ import annotations

import types
import warnings

import numba
import numpy as np
from dual import INCIDENTS, Dual, plain
from object_arrays import Objects, elementwise, objects
from oracle_numpy import BUILTINS, STAND_INS

PLAIN: dict = {}


def make_plain(function):
    """The same code with other globals; dispatchers and vectorized functions become what they were made of."""
    python = getattr(function, "py_func", function)
    if python not in PLAIN:
        new_globals = {"__builtins__": BUILTINS, "__name__": python.__module__}
        cells = tuple(types.CellType(replaced(c.cell_contents)) for c in python.__closure__ or ())
        new = types.FunctionType(
            python.__code__, new_globals, python.__name__, python.__defaults__, cells
        )
        new.__kwdefaults__ = python.__kwdefaults__
        PLAIN[python] = new
        for name in names_in(python.__code__):
            if name in python.__globals__:
                new_globals[name] = replaced(python.__globals__[name])
    return PLAIN[python]


def names_in(code):
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def replaced(x):
    """The stand-in of a global or captured object."""
    if isinstance(x, types.ModuleType):
        return STAND_INS.get(x, x)
    if isinstance(x, types.FunctionType) or hasattr(x, "py_func"):
        return range if x is numba.prange else stand_in_of_function(x)
    if isinstance(x, numba.np.ufunc.dufunc.DUFunc):
        python = x._dispatcher.py_func
        return elementwise(make_plain(python), python.__code__.co_argcount)
    if isinstance(x, type) and x is numba.prange:
        return range
    if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
        return objects(x)
    return x


def stand_in_of_function(x):
    for module, stand_in in STAND_INS.items():
        if getattr(module, x.__name__, None) is x:
            return getattr(stand_in, x.__name__)
    return make_plain(x)


# --- inputs and outputs: trees of numbers and arrays -------------------------------------------------------------


def tree(function, x, *others):
    """``function`` on every number and array of a nest of tuples."""
    if isinstance(x, tuple):
        parts = [tree(function, *items) for items in zip(x, *others)]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return function(x, *others)


def is_inexact(x):
    return isinstance(x, float | complex | np.floating | np.complexfloating)


def items_of(x):
    """The numbers of an argument in order; a record array gives those of its fields, record by record."""
    if isinstance(x, tuple):
        return [n for part in x for n in items_of(part)]
    if isinstance(x, np.ndarray) and x.dtype.names:
        return [n for record in x.ravel() for n in record.tolist()]
    return list(np.ravel(x).tolist()) if isinstance(x, np.ndarray) else [x]


class Seeds:
    """Turns arguments into arguments of duals; the items are numbered across all differentiated arguments."""

    def __init__(self, active):
        self.active, self.position = active, 0

    def number(self, x):
        if not is_inexact(x):
            return x
        x = complex(x) if isinstance(x, complex | np.complexfloating) else float(x)
        self.position += 1
        return self.active(x, self.position - 1)

    def argument(self, x):
        if isinstance(x, np.ndarray) and x.dtype.names:
            kinds = [(n, object if x.dtype[n].kind in "fc" else x.dtype[n]) for n in x.dtype.names]
            rows = [tuple(self.number(v) for v in record.tolist()) for record in x.ravel()]
            return np.array(rows, kinds).reshape(x.shape).view(np.recarray)
        if isinstance(x, np.ndarray):
            return self.array(x) if x.dtype.kind in "fc" else x.copy()
        return self.number(x)

    def array(self, x):
        out = np.empty(x.shape, object)
        for index in np.ndindex(*x.shape):
            out[index] = self.number(x[index])
        return out.view(Objects)


def seeded(args, argnums, active):
    """Arguments for a run; those not in ``argnums`` become plain objects."""
    seeds = Seeds(active)
    fixed = Seeds(lambda x, i: x)
    return [tree(seeds.argument if i in argnums else fixed.argument, a) for i, a in enumerate(args)]


def run(function, args):
    INCIDENTS.clear()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return make_plain(function)(*args)


def nums(argnums):
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def count(args, argnums):
    return [sum(map(is_inexact, items_of(args[i]))) for i in nums(argnums)]


def is_complex(args, argnums):
    return [
        isinstance(x, complex) for i in nums(argnums) for x in items_of(args[i]) if is_inexact(x)
    ]


def rebuilt(flat, args, argnums):
    """A flat gradient in the shape of the differentiated arguments."""
    flat = iter(flat)

    def part(x):
        if isinstance(x, np.ndarray) and x.dtype.names:
            rows = [
                tuple(next(flat) if is_inexact(v) else 0 for v in r.tolist()) for r in x.ravel()
            ]
            return np.array(rows, x.dtype).reshape(x.shape)
        if isinstance(x, np.ndarray):
            kind = complex if x.dtype.kind == "c" else float
            return np.array([next(flat) for _ in range(x.size)], kind).reshape(x.shape)
        value = next(flat)
        return value if isinstance(x, complex | np.complexfloating) else float(np.real(value))

    out = tuple(tree(part, args[i]) for i in nums(argnums))
    return out[0] if isinstance(argnums, int) else out


# --- derivatives ---------------------------------------------------------------------------------------------------


def directions(args, argnums):
    """One row a number: the directions 1 (and 1j for complex numbers), and the map from rows to gradient items."""
    flags = is_complex(args, argnums)
    width = sum(2 if c else 1 for c in flags)
    rows = np.zeros((len(flags), width), complex if any(flags) else float)
    column = 0
    for i, c in enumerate(flags):
        rows[i, column] = 1.0
        if c:
            rows[i, column + 1] = 1j
        column += 2 if c else 1
    return rows, flags


def collected(derivative, rows, flags):
    """Gradient items: df/dx, and df/dx + i df/dy for a complex number."""
    d = np.broadcast_to(np.asarray(derivative, rows.dtype), rows.shape[1])
    out, column = [], 0
    for c in flags:
        out.append(complex(d[column].real, d[column + 1].real) if c else float(d[column].real))
        column += 2 if c else 1
    return out


def part(x, name):
    return getattr(x, name) if isinstance(x, Dual) else (x if name == "v" else 0.0)


def flat_output(out):
    """The numbers of an output, in order."""
    if isinstance(out, tuple):
        return [n for x in out for n in flat_output(x)]
    if isinstance(out, np.ndarray) and out.dtype.names:
        return items_of(out)
    return list(np.ravel(out)) if isinstance(out, np.ndarray) else [out]


def inner_product(cotangent, out):
    """Re(conj(cotangent) * out), summed: the scalar whose gradient a vjp is."""
    total = 0.0
    for c, y in zip(flat_output(cotangent), flat_output(out)):
        product = np.conj(c) * y
        total = total + (product.real if isinstance(plain(product), complex) else product)
    return total


def value_and_gradient(function, args, argnums=0):
    """The value and the exact gradient of a function with one real output."""
    return value_and_vjp(function, args, 1.0, argnums)


def value_and_vjp(function, args, cotangent, argnums=0):
    """The output (plain) and the gradient of its inner product with the cotangent.

    Without an output, that of the arrays written: pass the numbers of these arguments as ``written``.
    """
    rows, flags = directions(args, argnums)
    active = seeded(args, nums(argnums), lambda x, i: Dual(x, rows[i]))
    out = run(function, active)
    if out is None:
        before = [tree(lambda x: x, a) for a in args]
        out = tuple(a for a, b in zip(active, before) if changed(a, b))
        out = out[0] if len(out) == 1 else out
    gradient = collected(part(inner_product(cotangent, out), "d"), rows, flags)
    return tree(plain_of, out), rebuilt(gradient, args, argnums)


def changed(active, before):
    if not isinstance(before, np.ndarray):
        return False
    return any(plain(a) != b for a, b in zip(active.ravel(), before.ravel()))


def plain_of(x):
    return np.array([plain(v) for v in x.ravel()]).reshape(x.shape) if np.ndim(x) else plain(x)


def gradient(function, args, argnums=0):
    return value_and_gradient(function, args, argnums)[1]


def directional(function, args, tangents, argnums=0):
    """The value and the derivative along the tangents (one for an int argnums, else a tuple)."""
    tangents = (tangents,) if isinstance(argnums, int) else tangents
    flat = [t for tangent in tangents for t in items_of(tangent) if is_inexact(t)]
    out = run(function, seeded(args, nums(argnums), lambda x, i: Dual(x, flat[i])))
    tangent = tree(lambda x: elementwise(lambda y: part(y, "d"))(x), out)
    return tree(plain_of, out), tree(lambda x: plain_of(x) if np.ndim(x) else x, tangent)


def hvp(function, args, tangents, argnums=0):
    """The derivative of the gradient along the tangents."""
    tangents = (tangents,) if isinstance(argnums, int) else tangents
    flat = [t for tangent in tangents for t in items_of(tangent) if is_inexact(t)]
    rows, flags = directions(args, argnums)
    active = seeded(
        args, nums(argnums), lambda x, i: Dual(Dual(x, rows[i]), Dual(flat[i], 0.0 * rows[i]))
    )
    out = run(function, active)
    return rebuilt(collected(part(part(out, "d"), "d"), rows, flags), args, argnums)


def hessian(function, args, argnums=0):
    """The matrix of second derivatives: out[i, j] over the numbers of one real argument."""
    n = count(args, argnums)[0]
    shape = np.shape(args[argnums])
    out = [
        hvp(function, args, np.reshape(np.eye(n)[i], shape) if shape else 1.0, argnums)
        for i in range(n)
    ]
    return np.reshape(out, shape + shape)
