"""Random programs: gradients, tangents and second derivatives agree with the oracle.

Most run as plain Python (see ``python_mode``), a few compiled. ``NBGRAD_FUZZ=N`` runs N programs, one in twenty of them
compiled; ``python tests/njit/test_random_njit.py SEED`` checks one, and prints it reduced when it fails.
"""

import contextlib
import os
import sys

import numpy as np
import oracle
import pytest
import python_mode
from comparing import SecondOrder, assert_trees_close
from corpus import copied, same_bytes
from random_found import SERIAL
from random_programs import argnums_of, arguments, cotangent_of, is_single, load, text_of
from random_runs import Programs
from reducing import reduced

import nbgrad as ng
from nbgrad.errors import NbgradError
from nbgrad.njit import regions

LONG = int(os.environ.get("NBGRAD_FUZZ", "0"))
GROUPS = 8  # tests, so that several processes share the work
PROGRAMS = (LONG or 240) // GROUPS
COMPILED = LONG // 20 or 6
SECOND = 4  # every fourth program is checked for its second derivatives
WAYS = ("forward_over_reverse", "reverse_over_reverse", "reverse_over_forward")


def expected_of(f, args, argnums, cotangent=1.0):
    """Value and gradient by the oracle; a reason to skip: exact kinks, overflow."""
    try:
        value, gradient = oracle.value_and_vjp(f, args, cotangent, argnums)
    except ZeroDivisionError:
        return None, "pole"
    if oracle.INCIDENTS:
        return None, oracle.INCIDENTS[0]
    flat = oracle.items_of((value, gradient))
    if not np.isfinite(flat).all() or max(map(abs, flat)) > 1e6:
        return None, "large or not finite"
    return (value, gradient), ""


def tangents_of(args, argnums, seed):
    rng = np.random.default_rng(seed + 1)

    def tangent(x):
        t = rng.standard_normal(np.shape(x))
        t = t + 1j * rng.standard_normal(np.shape(x)) if np.iscomplexobj(x) else t
        return t.astype(x.dtype) if np.ndim(x) else type(x)(t)

    return tuple(oracle.tree(tangent, args[i]) for i in argnums)


def directly(derivative, *args):
    return derivative(*args)


def check(f, args, argnums, seed, run, second, rtol=1e-9, cotangent=None) -> str:
    """What became of a program: ``right``, or ``skipped: ...``; a wrong derivative raises.

    With a cotangent the program returns a tuple of numbers and arrays.
    """
    expected, reason = expected_of(f, args, argnums, 1.0 if cotangent is None else cotangent)
    if expected is None:
        return f"skipped: {reason}"
    before, tangents = copied(args), tangents_of(args, argnums, seed)
    if cotangent is None:
        got = run(ng.njit.value_and_grad(f, argnums), *args)
    else:
        got = run(ng.njit.vjp(f, argnums), args, cotangent)
    slope = run(ng.njit.jvp(f, argnums), args, tangents)
    assert_trees_close(got, expected, rtol, "value and gradient")
    assert_trees_close(slope, oracle.directional(f, args, tangents, argnums), rtol, "tangent")
    if second and cotangent is None:
        product = oracle.hvp(f, args, tangents, argnums)
        ways = SecondOrder(f, args, argnums, run)
        for way in WAYS:
            assert_trees_close(getattr(ways, way)(tangents), product, 10 * rtol, way)
    assert same_bytes(before, args), "the arguments were modified"
    return "right"


def judged(*case, **options) -> str:
    """The same, with ``rejected: ...`` and ``wrong: ...`` for errors."""
    try:
        return check(*case, **options)
    except NbgradError as error:
        return f"rejected: {error}"
    except Exception as error:
        return f"wrong: {type(error).__name__}: {error}"


def outcome(text: str, seed: int, run=python_mode.call, second: bool = False) -> str:
    rtol = 1e-5 if is_single(seed) else 1e-9
    case = load(text), arguments(seed), argnums_of(seed), seed, run, second
    with stretches_of(seed):
        return judged(*case, rtol=rtol, cotangent=cotangent_of(seed))


@contextlib.contextmanager
def stretches_of(seed):
    """Time loops in stretches of a few iterations, for some of the seeds."""
    before = regions.STRETCH_BYTES
    regions.STRETCH_BYTES = 1 if seed % 8 in (0, 3) else before
    try:
        yield
    finally:
        regions.STRETCH_BYTES = before


RANDOM = Programs(text_of, argnums_of, outcome)


@pytest.mark.parametrize("what", SERIAL)
def test_programs_that_were_wrong(what):
    seed, text = SERIAL[what]
    assert outcome(text, seed, second=True) == "right"


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs(group):
    seeds = range(group * PROGRAMS, (group + 1) * PROGRAMS)
    counts = RANDOM.run_all(seeds, python_mode.call, SECOND)
    assert counts["rejected"] <= 0.05 * len(seeds), counts
    assert counts["skipped"] <= 0.15 * len(seeds), counts


@pytest.mark.parametrize("half", range(2))
def test_compiled_random_programs(half):
    counts = RANDOM.run_all(range(half, COMPILED, 2), directly, SECOND)
    assert counts["right"] >= COMPILED // 4, counts


def test_a_wrong_derivative_is_found(monkeypatch):
    """The check itself: a gradient that is off by one part in a million does not pass."""

    def slightly_wrong(f, argnums):
        def derivative(*args):
            value, gradient = oracle.value_and_gradient(f, args, argnums)
            return value, oracle.tree(lambda g: g * (1 + 1e-6), gradient)

        return derivative

    monkeypatch.setattr(ng.njit, "value_and_grad", slightly_wrong)
    monkeypatch.setattr(ng.njit, "jvp", lambda f, argnums: lambda args, tangents: None)
    assert outcome(text_of(0), 0, directly).startswith("wrong: AssertionError")


def test_failing_programs_become_small():
    text = next(t for t in map(text_of, range(100)) if "while" in t)
    small = reduced(text, lambda t: "def f(" in t and "while" in t)
    assert len(small.splitlines()) < 10 and "while" in small


if __name__ == "__main__":
    run = directly if "compiled" in sys.argv else python_mode.call
    print(RANDOM.shown(int(sys.argv[1]), run))
