"""The oracle against finite differences, on the whole corpus."""

import corpus_arrays  # noqa: F401
import corpus_calls  # noqa: F401
import corpus_mixed  # noqa: F401
import corpus_values  # noqa: F401
import dual
import mpmath
import numpy as np
import oracle
import pytest
from corpus import PROGRAMS, copied

FUNCTIONS = {
    **{
        name: name
        for name in [
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "atanh",
        ]
    },
    **{
        name: name
        for name in [
            "exp",
            "expm1",
            "log",
            "log10",
            "log1p",
            "sqrt",
            "cbrt",
            "erf",
            "erfc",
            "gamma",
        ]
    },
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "acosh": lambda x: mpmath.acosh(x),
    "lgamma": "loggamma",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementary_functions(name):
    """First derivatives, and second ones by nesting, against arbitrary precision."""
    exact = FUNCTIONS[name]
    exact = getattr(mpmath, exact) if isinstance(exact, str) else exact
    x = 1.7 if name == "acosh" else 0.6
    with mpmath.workdps(40):
        first, second = (float(mpmath.diff(exact, mpmath.mpf(x), n)) for n in (1, 2))
    function = getattr(dual, name)
    np.testing.assert_allclose(function(dual.Dual(x, 1.0)).d, first, rtol=1e-13)
    if name not in ("gamma", "lgamma"):
        nested = function(dual.Dual(dual.Dual(x, 1.0), dual.Dual(1.0, 0.0)))
        np.testing.assert_allclose(nested.d.d, second, rtol=1e-12)


def moved(args, nums, tangents, h):
    """The arguments a step along the tangents."""
    tangents = dict(zip(nums, tangents))

    def step(x, t):
        if isinstance(x, np.ndarray) and x.dtype.names:
            out = x.copy()
            for name in x.dtype.names:
                out[name] += (h * t[name]).astype(x.dtype[name])
            return out
        return x + h * t if oracle.is_inexact(x) or isinstance(x, np.ndarray) else x

    return tuple(
        oracle.tree(step, a, tangents[i]) if i in tangents else a for i, a in enumerate(args)
    )


def random_tangents(p, args, seed):
    """Normal tangents shaped like the differentiated arguments."""
    rng = np.random.default_rng(seed)

    def tangent(x):
        if isinstance(x, np.ndarray) and x.dtype.names:
            out = np.zeros_like(x)
            for name in x.dtype.names:
                if x.dtype[name].kind == "f":
                    out[name] = rng.standard_normal(x.shape)
            return out
        t = rng.standard_normal(np.shape(x))
        if np.iscomplexobj(x):
            t = t + 1j * rng.standard_normal(np.shape(x))
        if isinstance(x, np.ndarray):
            return t.astype(x.dtype)
        return type(x)(t)

    return tuple(oracle.tree(tangent, args[i]) for i in p.nums)


def in_double(args):
    """Single precision widened, for differences that can be trusted."""

    def widen(x):
        if isinstance(x, np.ndarray | np.float32) and x.dtype == np.float32:
            return x.astype(float)
        return x

    return tuple(oracle.tree(widen, a) for a in args)


def value_of(p, args):
    """All the numbers that a plain call gives or writes."""
    args = copied(args)
    with np.errstate(all="ignore"):
        out = p.function.py_func(*args)
    out = args[0] if p.output == "written" else out
    return np.concatenate([np.ravel(x) for x in oracle.flat_output(out)]).real


def central(function, h):
    """A fourth-order difference quotient."""
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


@pytest.mark.parametrize("name", PROGRAMS)
def test_oracle_agrees_with_differences(name):
    p = PROGRAMS[name]
    args = in_double(p.args())
    tangents = random_tangents(p, args, 1)
    quotient = central(lambda h: value_of(p, moved(args, p.nums, tangents, h)), 1e-4)
    given = tangents[0] if isinstance(p.argnums, int) else tangents
    if p.output == "written":
        weights = np.random.default_rng(2).standard_normal(args[0].shape)
        gradients = oracle.value_and_vjp(p.function, args, weights, p.argnums)[1]
        assert np.isclose(dot(gradients, tangents), weights @ quotient, rtol=1e-7)
        return
    value, tangent = oracle.directional(p.function, args, given, p.argnums)
    assert np.allclose(
        np.concatenate([np.ravel(v) for v in oracle.flat_output(value)]), value_of(p, args)
    )
    flat = np.concatenate([np.ravel(t) for t in oracle.flat_output(tangent)])
    np.testing.assert_allclose(flat, quotient, rtol=1e-7, atol=1e-9)
    if p.output == "number":
        g = oracle.gradient(p.function, args, p.argnums)
        g = (g,) if isinstance(p.argnums, int) else g
        np.testing.assert_allclose(dot(g, tangents), flat[0], rtol=1e-10)


def dot(a, b):
    """Re(conj(a) b), summed over trees."""
    pairs = zip(all_items(a), all_items(b))
    return sum((np.conj(x) * y).real for x, y in pairs if oracle.is_inexact(x))


def all_items(tree):
    return [n for x in tree for n in oracle.items_of(x)]


@pytest.mark.parametrize(
    "name", [n for n, p in PROGRAMS.items() if p.curved and p.output == "number"]
)
def test_oracle_hvp_agrees_with_differences_of_gradients(name):
    p = PROGRAMS[name]
    args = in_double(p.args())
    tangents = random_tangents(p, args, 3)
    given = tangents[0] if isinstance(p.argnums, int) else tangents

    def slope(h):
        g = oracle.gradient(p.function, moved(args, p.nums, tangents, h), p.argnums)
        g = (g,) if isinstance(p.argnums, int) else g
        return np.array([x for x in all_items(g) if oracle.is_inexact(x)])

    out = oracle.hvp(p.function, args, given, p.argnums)
    out = (out,) if isinstance(p.argnums, int) else out
    flat = np.array([x for x in all_items(out) if oracle.is_inexact(x)])
    np.testing.assert_allclose(flat, central(slope, 1e-4), rtol=1e-6, atol=1e-8)
