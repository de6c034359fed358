"""Every program of the corpus: derivatives agree with the oracle, whichever way they are made.

Gradients are compiled, called from Python and from compiled code. The other derivatives run as plain Python (see
``python_mode``), and for a share of the programs compiled as well; with ``NBGRAD_FUZZ`` set, for all.
"""

import os

import comparing
import corpus_arrays  # noqa: F401
import corpus_calls  # noqa: F401
import corpus_mixed  # noqa: F401
import corpus_values  # noqa: F401
import numpy as np
import oracle
import pytest
import python_mode
from comparing import SecondOrder, assert_trees_close
from corpus import PROGRAMS, copied, same_bytes
from test_oracle import random_tangents

import nbgrad as ng

NUMBERS = [name for name, p in PROGRAMS.items() if p.output == "number"]
CURVED = [name for name in NUMBERS if PROGRAMS[name].curved]
WAYS = ("forward_over_reverse", "reverse_over_reverse", "reverse_over_forward")
LONG = bool(os.environ.get("NBGRAD_FUZZ"))
SHARE = {"tangents": 1 if LONG else 8, "second": 1 if LONG else 16}


def plain_value(p, args):
    args = copied(args)
    out = p.function.py_func(*args)
    return args[0] if p.output == "written" else out


@pytest.mark.parametrize("name", NUMBERS)
def test_value_and_gradient(name):
    p = PROGRAMS[name]
    args = p.args()
    before = copied(args)
    derivative = ng.njit.value_and_grad(p.function, p.argnums)
    names = ", ".join(f"x{i}" for i in range(len(args)))
    text = f"def f({names}):\n    return derivative({names})\n"
    value, gradient = comparing.compiled(text, derivative=derivative)(*args)
    assert_trees_close(value, plain_value(p, args), p.rtol, "value")
    assert_trees_close(gradient, oracle.gradient(p.function, args, p.argnums), p.rtol, "gradient")
    assert_trees_close(derivative(*args), (value, gradient), 1e-15, "called from Python")
    assert same_bytes(before, args)


def given_tangents(p, args, seed):
    tangents = random_tangents(p, args, seed)
    return tangents[0] if isinstance(p.argnums, int) else tangents


def directly(derivative, *args):
    return derivative(*args)


def check_tangent(p, run):
    args = p.args(1)
    before, tangents = copied(args), given_tangents(p, args, 2)
    value, tangent = run(ng.njit.jvp(p.function, p.argnums), args, tangents)
    expected = oracle.directional(p.function, args, tangents, p.argnums)
    assert_trees_close(value, expected[0], p.rtol, "value")
    assert_trees_close(tangent, expected[1], p.rtol, "tangent")
    assert same_bytes(before, args)


@pytest.mark.parametrize("name", [n for n, p in PROGRAMS.items() if p.output != "written"])
def test_tangent(name):
    check_tangent(PROGRAMS[name], python_mode.call)


@pytest.mark.parametrize("name", NUMBERS[:: SHARE["tangents"]])
def test_compiled_tangent(name):
    check_tangent(PROGRAMS[name], directly)


@pytest.mark.parametrize("name", [n for n, p in PROGRAMS.items() if p.output != "number"])
def test_vjp(name):
    p = PROGRAMS[name]
    args = p.args(1)
    before, rng = copied(args), np.random.default_rng(3)
    value = plain_value(p, args)
    cotangent = oracle.tree(
        lambda y: rng.standard_normal(y.shape) if np.ndim(y) else float(rng.standard_normal()),
        value,
    )
    got = ng.njit.vjp(p.function, p.argnums)(args, cotangent)
    assert_trees_close(got[0], value, p.rtol, "value")
    expected = oracle.value_and_vjp(p.function, args, cotangent, p.argnums)[1]
    assert_trees_close(got[1], expected, p.rtol, "gradients")
    assert same_bytes(before, args)


def check_second_order(p, way, run):
    args = p.args(4)
    before, tangents = copied(args), given_tangents(p, args, 5)
    got = getattr(SecondOrder(p.function, args, p.argnums, run), way)(tangents)
    assert_trees_close(got, oracle.hvp(p.function, args, tangents, p.argnums), 10 * p.rtol, way)
    assert same_bytes(before, args)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CURVED)
def test_second_order(name, way):
    check_second_order(PROGRAMS[name], way, python_mode.call)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CURVED[:: SHARE["second"]])
def test_compiled_second_order(name, way):
    check_second_order(PROGRAMS[name], way, directly)
