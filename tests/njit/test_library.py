"""Every function of NumPy and math that the Numba door knows: values, first and second derivatives.

Each line of the tables is an expression of the arguments below. NumPy gives its value and its differences along random
directions; the programs of the gradient and of the Hessian-vector product run as plain Python, which they are. A few
functions at the end go through the compiler too.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable

import numba
import numpy as np
import pytest
from numba.np.extensions import cross2d
from numpy.polynomial import polynomial
from python_mode import call

import nbgrad as ng
from nbgrad.njit import library, rules

NAMES = "v w a s t x"
rng = np.random.default_rng(7)
ARGS = (
    rng.normal(size=6),
    rng.uniform(0.5, 1.5, 6),
    rng.normal(size=(4, 3)),
    rng.normal(size=(4, 4)) + 3 * np.eye(4),
    rng.normal(size=(2, 3, 4)),
    0.7,
)
DIRECTIONS = [tuple(0.5 * rng.normal(size=np.shape(x))[()] for x in ARGS) for _ in range(2)]
CONSTANTS = {
    "index": np.array([3, 0, -1, 3]),
    "order": np.array([[2, 0, 1, 1], [0, 1, 2, 0], [1, 1, 0, 2]]),
    "places": np.array([0, 2, 1, 2, 5, 1]),
    "nan": np.nan,
    "knots": np.linspace(-3.0, 3.0, 6),
}


@numba.njit
def mixed(r):
    """A number that depends on every entry of an array, and not linearly."""
    flat = r.ravel()
    total = 0.0
    for i in range(flat.size):
        total += np.sin(flat[i]) * (1.0 + 0.1 * i)
    return total


@numba.njit
def mixed_complex(r):
    """The same for complex entries."""
    return mixed(r.real.copy()) + 0.5 * mixed(r.imag.copy())


@numba.njit
def with_nan(v):
    """A copy with a NaN put in."""
    out = v.copy()
    out[2] = np.nan
    return out


@numba.njit
def complex_of(a):
    """A complex array from a real one."""
    return a * (1.0 + 0.5j) + 0.25j


@numba.njit
def crossed(a, b):
    """Numba's own function, which Python cannot run."""
    return cross2d(a, b)


FUNCTIONS = {
    "np": np,
    "math": math,
    "polynomial": polynomial,
    "crossed": crossed,
    "mixed": mixed,
    "mixed_complex": mixed_complex,
    "with_nan": with_nan,
    "complex_of": complex_of,
}


def function_of(lines: list[str], names: str = NAMES) -> Callable:
    """The @njit function that adds up what the lines leave in ``total``."""
    params = ", ".join(names.split())
    body = "".join(f"    {line}\n" for line in statements(lines))
    text = f"def f({params}):\n    total = 0.0\n{body}    return total\n"
    name = f"<library {abs(hash(text)):x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {**FUNCTIONS, **CONSTANTS}
    exec(compile(text, name, "exec"), namespace)
    return numba.njit(namespace["f"])


def statements(lines: list[str]) -> list[str]:
    """``e`` is a number, ``[e]`` an array, ``<e>`` a complex array; what has a ``;`` is statements."""
    found = []
    for line in lines:
        *before, last = line.split("; ")
        found += before
        shown = {"[": f"mixed({last[1:-1]})", "<": f"mixed_complex({last[1:-1]})"}
        found.append(f"total += {shown.get(last[0], f'np.sin({last})')}")
    return found


def moved(args, tangents, step):
    return tuple(x + step * d for x, d in zip(args, tangents, strict=True))


def slope(f, args, tangents, h=1e-3):
    """The derivative of f along the tangents by differences of sixth order."""
    d = [f(*moved(args, tangents, k * h)) - f(*moved(args, tangents, -k * h)) for k in (1, 2, 3)]
    return (45 * d[0] - 9 * d[1] + d[2]) / (60 * h)


def curvature(f, args, tangents, h=2e-3):
    """The second derivative of f along the tangents."""
    d = [f(*moved(args, tangents, k * h)) + f(*moved(args, tangents, -k * h)) for k in (1, 2, 3)]
    return (270 * d[0] - 27 * d[1] + 2 * d[2] - 490 * f(*args)) / (180 * h * h)


def mixed_curvature(f, args, s, t):
    """s^T H t."""
    plus = moved(s, t, 1.0)
    minus = moved(s, t, -1.0)
    return (curvature(f, args, plus) - curvature(f, args, minus)) / 4


def inner(gradients, tangents):
    return sum(np.sum(g * d) for g, d in zip(gradients, tangents, strict=True))


def check(lines: list[str], args=ARGS, directions=DIRECTIONS, names=NAMES) -> None:
    """Value, gradient and Hessian-vector product of what the lines add up to."""
    f = function_of(lines, names)
    active = tuple(range(len(args)))
    s, t = directions
    value, gradient = call(ng.njit.value_and_grad(f, active), *args)
    np.testing.assert_allclose(value, f.py_func(*args), rtol=1e-11, atol=1e-11)
    expected = slope(f.py_func, args, t)
    np.testing.assert_allclose(
        inner(gradient, t), expected, rtol=1e-7, atol=1e-7, err_msg="gradient"
    )
    product = call(ng.njit.hvp(f, active), args, t)
    expected = mixed_curvature(f.py_func, args, s, t)
    np.testing.assert_allclose(
        inner(product, s), expected, rtol=2e-6, atol=2e-6, err_msg="second order"
    )


def check_group(table: dict[str, list[str]], **options) -> None:
    """Every line of a table by itself."""
    for name, lines in table.items():
        for line in lines:
            try:
                check([line], **options)
            except Exception as error:
                raise AssertionError(f"{name}: {line}: {error}") from error


REDUCTIONS = {
    "np.sum": ["np.sum(v * w)", "[np.sum(a, 0)]", "[np.sum(t, axis=1)]", "[t.sum(-1)]"],
    "np.prod": ["np.prod(w)", "a.prod()"],
    "np.mean": ["np.mean(a)", "t.mean()"],
    "np.average": ["np.average(v)", "np.average(v, weights=w)"],
    "np.var": ["np.var(a)", "v.var()"],
    "np.std": ["np.std(a)", "v.std()"],
    "np.max": ["np.max(v)", "a.max()", "np.amax(t)"],
    "np.min": ["np.min(v)", "a.min()", "np.amin(t)"],
    "np.ptp": ["np.ptp(a)"],
    "np.trace": ["np.trace(a)", "np.trace(s, 1)", "np.trace(s, offset=-2)"],
    "builtins": ["sum(v)", "max(v)", "min(w)", "max(x, v[0])", "abs(v[1])"],
}
RUNNING = {
    "np.cumsum": ["[np.cumsum(v)]", "[np.cumsum(a)]", "[np.cumsum(t, axis=1)]", "[a.cumsum()]"],
    "np.cumprod": ["[np.cumprod(w)]", "[w.cumprod()]"],
    "np.diff": ["[np.diff(v)]", "[np.diff(a)]", "[np.diff(t, 2)]"],
    "np.ediff1d": ["[np.ediff1d(v)]", "[np.ediff1d(v, w, x)]"],
    "np.trapezoid": ["np.trapezoid(v)", "np.trapezoid(v, w)", "[np.trapezoid(a, None, x)]"],
    "np.unwrap": ["[np.unwrap(v * 4)]"],
    "np.sinc": ["np.sinc(x)", "[np.sinc(a)]", "[np.sinc(v * 0.01)]"],
}
NANS = {
    "np.nansum": ["np.nansum(with_nan(v))"],
    "np.nanprod": ["np.nanprod(with_nan(w))"],
    "np.nanmean": ["np.nanmean(with_nan(v))"],
    "np.nanvar": ["np.nanvar(with_nan(v))"],
    "np.nanstd": ["np.nanstd(with_nan(v))"],
    "np.nanmax": ["np.nanmax(with_nan(v))"],
    "np.nanmin": ["np.nanmin(with_nan(v))"],
    "np.nancumsum": ["[np.nancumsum(with_nan(v))]"],
    "np.nancumprod": ["[np.nancumprod(with_nan(v))]"],
    "np.nanmedian": ["np.nanmedian(with_nan(v))"],
    "np.nanquantile": ["np.nanquantile(with_nan(v), 0.3)"],
    "np.nanpercentile": ["np.nanpercentile(with_nan(v), 35.0)"],
    "np.nan_to_num": ["[np.nan_to_num(with_nan(v))]", "np.nan_to_num(x)"],
}
ORDER = {
    "np.sort": ["[np.sort(v)]", "[np.sort(a)]", "c = v * 2.0; c.sort(); [c]"],
    "np.partition": ["[np.sort(np.partition(v, 2)[:2])]"],
    "np.median": ["np.median(v)", "np.median(a)"],
    "np.quantile": ["np.quantile(a, 0.3)", "[np.quantile(v, w * 0.3)]"],
    "np.percentile": ["np.percentile(v, 35.0)", "[np.percentile(a, (10.0, 50.0))]"],
    "np.unique": ["[np.unique(a)]"],
    "np.union1d": ["[np.union1d(v, w)]"],
    "np.extract": ["[np.extract(a > 0, a)]"],
    "np.select": ["[np.select((v > 0.5, v > -0.5), (v * w, w), 2.0)]"],
    "np.take": [
        "[np.take(v, index)]",
        "[np.take(a, index, 0)]",
        "np.take(v, 2)",
        "[a.take(index)]",
    ],
    "np.take_along_axis": ["[np.take_along_axis(a.T, order, 1)]"],
    "nonzero": ["v[np.nonzero(a > 0.0)[0][0]]", "v[np.nonzero(t)[2][3]]", "v[a.nonzero()[1][1]]"],
    "indices": [
        "v[np.argmax(w)]",
        "v[np.argsort(w)[0]]",
        "v[w.argmin()]",
        "v[np.searchsorted(knots, x)]",
    ],
    "np.where": [
        "[np.where(a > 0, a * a, 2 * a)]",
        "[v[np.where(w > 1)[0]]]",
        "[v[np.nonzero(w > 1)[0]]]",
    ],
}
PRODUCTS = {
    "np.outer": ["[np.outer(v, w)]"],
    "np.kron": ["[np.kron(v, w)]", "[np.kron(a, s)]"],
    "np.convolve": [
        "[np.convolve(v, w[:4])]",
        "[np.convolve(v[:3], w, 'same')]",
        "[np.convolve(v, w[:3], 'valid')]",
    ],
    "np.correlate": [
        "[np.correlate(v, w[:4])]",
        "[np.correlate(v, w[:3], 'same')]",
        "[np.correlate(v, w, 'full')]",
    ],
    "np.cross": ["[np.cross(v[:3], w[3:])]", "[np.cross(a, w[:3])]"],
    "cross2d": ["[crossed(s[:, :2].copy(), s[:, 2:].copy())]"],
    "np.vander": ["[np.vander(v)]", "[np.vander(v, 3, True)]"],
    "polynomial": [
        "[polynomial.polyval(v, w)]",
        "polynomial.polyval(x, w)",
        "[polynomial.polyadd(v, w[:3])]",
        "[polynomial.polysub(v, w[:3])]",
        "[polynomial.polymul(v, w[:3])]",
        "[polynomial.polyint(v, 2)]",
    ],
    "np.interp": [
        "np.interp(x, knots, v)",
        "[np.interp(v, knots, w)]",
        "[np.interp(v, np.cumsum(w) - 3.0, v)]",
    ],
    "np.bincount": ["[np.bincount(places, v)]", "[np.bincount(places, weights=w, minlength=8)]"],
    "np.cov": [
        "[np.cov(a.T)]",
        "[np.cov(a, rowvar=False)]",
        "[np.cov(v, w)]",
        "[np.cov(a, bias=True)]",
    ],
    "np.corrcoef": ["[np.corrcoef(s)]"],
}
SHAPES = {
    "np.concatenate": [
        "[np.concatenate((v, w))]",
        "[np.concatenate((a, s), axis=1)]",
        "[np.concatenate((t, t * x), -1)]",
    ],
    "np.stack": ["[np.stack((v, w))]", "[np.stack((a, a * x), axis=1)]"],
    "np.hstack": ["[np.hstack((v, w))]", "[np.hstack((a, s))]"],
    "np.vstack": ["[np.vstack((v, w))]", "[np.vstack((s, s * x))]"],
    "np.column_stack": ["[np.column_stack((v, w))]"],
    "np.dstack": ["[np.dstack((v, w))]", "[np.dstack((a, a * x))]"],
    "np.append": ["[np.append(v, w)]", "[np.append(a, a * x, 0)]"],
    "np.delete": ["[np.delete(v, 2)]", "[np.delete(v, index)]"],
    "np.insert": ["[np.insert(v, 2, x)]", "[np.insert(v, index, w[:4])]"],
    "np.roll": ["[np.roll(v, 2)]", "[np.roll(a, -5)]"],
    "np.flip": ["[np.flip(a)]", "[np.flipud(a)]", "[np.fliplr(a)]", "[np.flip(v)]"],
    "np.rot90": ["[np.rot90(a)]", "[np.rot90(a, 2)]", "[np.rot90(a, 3)]"],
    "np.repeat": ["[np.repeat(v, 2)]", "[np.repeat(v, places)]"],
    "np.resize": ["[np.resize(v, (2, 5))]"],
    "np.broadcast_to": ["[np.broadcast_to(w, (2, 6))]"],
    "np.split": [
        "[np.split(v, 3)[1]]",
        "[np.array_split(v, 4)[0]]",
        "[np.hsplit(a, (1, 2))[2]]",
        "[np.vsplit(s, 2)[1]]",
    ],
}
VIEWS = {
    "np.swapaxes": ["[np.swapaxes(t, 0, 2)]", "[np.swapaxes(a, 0, 1)]"],
    "np.moveaxis": ["[np.moveaxis(t, 0, 2)]", "[np.moveaxis(t, -1, 0)]"],
    "np.expand_dims": ["[np.expand_dims(a, 1)]", "[np.expand_dims(v, -1) * w]"],
    "np.atleast": ["[np.atleast_1d(v)]", "[np.atleast_2d(v)]", "[np.atleast_3d(a)]"],
    "np.reshape": [
        "[np.reshape(t, (4, 6))]",
        "[a.reshape(2, -1)]",
        "[np.ravel(t)]",
        "[t.flatten()]",
    ],
    "np.transpose": [
        "[np.transpose(a)]",
        "[np.transpose(t, (1, 2, 0))]",
        "[t.transpose(2, 0, 1)]",
        "[a.T]",
    ],
    "np.copy": [
        "[np.copy(a)]",
        "[a.copy()]",
        "[np.array((x, v[0]))]",
        "[np.asarray(a)]",
        "[a.astype(np.float64)]",
    ],
    "contiguous": ["[np.ascontiguousarray(a.T)]", "[np.asfortranarray(a)]"],
    "np.diag": ["[np.diag(v)]", "[np.diag(a, -1)]", "[np.diagflat(w[:3], 1)]"],
    "np.fill_diagonal": ["c = s.copy(); np.fill_diagonal(c, x); [c]"],
    "np.tril": ["[np.tril(s)]", "[np.triu(s, 1)]", "[np.tril(t, -1)]"],
    "np.linspace": [
        "[np.linspace(x, v[0], 5)]",
        "[np.logspace(x, v[0], 4)]",
        "[np.geomspace(x, w[0], 4)]",
    ],
    "np.arange": [
        "[np.arange(x, 4.0, 1.0)]",
        "[np.eye(4) * s]",
        "[np.tri(3) * x]",
        "[np.identity(4) * s]",
    ],
    "np.full": [
        "[np.full(3, x)]",
        "[np.full_like(v, x)]",
        "[np.zeros_like(v) + x]",
        "[np.ones_like(v) * x]",
    ],
    "np.clip": ["[np.clip(v, -0.5, x)]", "[a.clip(-0.5, 0.5)]", "np.clip(x, 0.0, 1.0)"],
    "np.round": ["[np.round(v * 0.5) + v]", "[np.around(a, 0) + a]", "[np.round(a * 0.01, 1) + a]"],
    "np.trim_zeros": ["[np.trim_zeros(np.maximum(v - 0.1, 0.0))]"],
}
COMPLEX = {
    "kinds": [
        "x if np.isrealobj(v) else v[0]",
        "v[1] if np.iscomplexobj(complex_of(v)) else x",
        "x if (v > 9).any() or (w > 0).all() else v[0]",
    ],
    "np.angle": ["[np.angle(complex_of(v))]", "[0.01 * np.angle(complex_of(v), True)]"],
    "reductions": [
        "[np.abs(np.cumprod(complex_of(w)))]",
        "np.var(complex_of(v))",
        "np.abs(np.prod(complex_of(w)))",
    ],
    "np.conj": [
        "<np.conj(complex_of(a))>",
        "<complex_of(a).conj()>",
        "[np.real(complex_of(v))]",
        "[np.imag(complex_of(v))]",
    ],
    "products": [
        "<np.outer(complex_of(v), complex_of(w))>",
        "<np.kron(complex_of(v), complex_of(w))>",
    ],
    "np.correlate": [
        "<np.correlate(complex_of(v), complex_of(w[:3]))>",
        "<np.convolve(complex_of(v), complex_of(w))>",
    ],
    "shapes": [
        "<np.concatenate((complex_of(v), complex_of(w)))>",
        "<np.roll(complex_of(v), 2)>",
        "<np.diag(complex_of(v))>",
    ],
    "np.cov": ["<np.cov(complex_of(a))>"],
    "np.trapezoid": [
        "np.trapezoid(complex_of(v)).imag",
        "<np.diff(complex_of(v))>",
        "<np.vander(complex_of(v), 3)>",
    ],
}
TABLES = {
    "reductions": REDUCTIONS,
    "running": RUNNING,
    "nans": NANS,
    "order": ORDER,
    "products": PRODUCTS,
    "shapes": SHAPES,
    "views": VIEWS,
    "complex": COMPLEX,
}


@pytest.mark.parametrize("name", TABLES)
def test_functions_of_arrays(name):
    check_group(TABLES[name])


def test_every_substitute_stands_in_a_table():
    written = " ".join(
        line for table in TABLES.values() for lines in table.values() for line in lines
    )
    known = {
        f for f in rules.SUBSTITUTES if not isinstance(f, str) and f.__module__ != "numpy.linalg"
    }
    missing = [
        f.__name__
        for f in known
        if f"{f.__name__}(" not in written and f not in (np.dsplit, np.roots, cross2d)
    ]
    assert not missing
    methods = [m for m in rules.SUBSTITUTES if isinstance(m, str) and m not in ("ptp", "round")]
    assert not [m for m in methods if f".{m}(" not in written]


@numba.njit
def statistics(v, a):
    return np.sum(np.cov(a)) + np.median(v) * np.std(v) + np.interp(v[0], np.arange(6.0), v)


@numba.njit
def reshaped(v, a):
    b = np.concatenate((a, np.vstack((v[:3], v[3:]))))
    return np.sum(np.outer(v, np.sort(b.ravel())) ** 2) + np.linalg.norm(b)


@pytest.mark.parametrize("f", [statistics, reshaped])
def test_compiled(f):
    v, a = ARGS[0], ARGS[2]
    directions = tuple(x[:3:2] for x in DIRECTIONS)
    t = directions[0]
    value, gradient = ng.njit.value_and_grad(f, (0, 1))(v, a)
    np.testing.assert_allclose(value, f(v, a), rtol=1e-12)
    np.testing.assert_allclose(inner(gradient, t), slope(f, (v, a), t), rtol=1e-8)


def test_no_passive_function_has_rules():
    assert not library.PASSIVE & set(rules.SUBSTITUTES)
