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
from library_tables import TABLES
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
