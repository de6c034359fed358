"""Random programs: gradients, tangents and second derivatives agree with the oracle.

``NBGRAD_FUZZ=N`` runs N programs; ``python tests/njit/test_random_njit.py SEED`` checks one, and prints it reduced
when it fails.
"""

import collections
import os
import sys

import numpy as np
import oracle
from comparing import SecondOrder, assert_trees_close
from corpus import copied, same_bytes
from random_programs import argnums_of, arguments, load, text_of
from reducing import reduced

import nbgrad as ng
from nbgrad.errors import NbgradError

LONG = int(os.environ.get("NBGRAD_FUZZ", "0"))
COMPILED = LONG or 24
SECOND = 8  # every eighth of the compiled programs is checked for its second derivatives


def expected_of(f, args, argnums):
    """Value and gradient by the oracle; a reason to skip: exact kinks, overflow."""
    value, gradient = oracle.value_and_gradient(f, args, argnums)
    if oracle.INCIDENTS:
        return None, oracle.INCIDENTS[0]
    flat = [n for part in gradient for n in oracle.items_of(part)]
    if not np.isfinite(value) or not np.isfinite(flat).all() or max(map(abs, flat)) > 1e6:
        return None, "large or not finite"
    return (value, gradient), ""


def tangents_of(args, argnums, seed):
    rng = np.random.default_rng(seed + 1)

    def tangent(x):
        t = rng.standard_normal(np.shape(x))
        t = t + 1j * rng.standard_normal(np.shape(x)) if np.iscomplexobj(x) else t
        return t if np.ndim(x) else type(x)(t)

    return tuple(tangent(args[i]) for i in argnums)


def check(text: str, seed: int, second: bool = False) -> str:
    """What became of a program: ``right``, ``rejected: ...``, or ``skipped: ...``; a wrong derivative raises."""
    f, args, argnums = load(text), arguments(seed), argnums_of(seed)
    expected, reason = expected_of(f, args, argnums)
    if expected is None:
        return f"skipped: {reason}"
    before, tangents = copied(args), tangents_of(args, argnums, seed)
    try:
        got = ng.njit.value_and_grad(f, argnums)(*args)
        slope = ng.njit.jvp(f, argnums)(args, tangents)
    except NbgradError as error:
        return f"rejected: {error}"
    assert_trees_close(got, expected, 1e-9, "value and gradient")
    assert_trees_close(slope, oracle.directional(f, args, tangents, argnums), 1e-9, "tangent")
    if second:
        check_second_order(f, args, argnums, tangents)
    assert same_bytes(before, args), "the arguments were modified"
    return "right"


def check_second_order(f, args, argnums, tangents):
    product = oracle.hvp(f, args, tangents, argnums)
    ways = SecondOrder(f, args, argnums)
    for way in ("forward_over_reverse", "reverse_over_reverse", "reverse_over_forward"):
        assert_trees_close(getattr(ways, way)(tangents), product, 1e-8, way)


def outcome(text: str, seed: int, second: bool = False) -> str:
    try:
        return check(text, seed, second)
    except Exception as error:
        return f"wrong: {type(error).__name__}: {error}"


def shown(seed: int, second: bool = False) -> str:
    """A failing program, reduced, and how it fails."""
    text = text_of(seed)
    kind = outcome(text, seed, second)[:30]
    text = reduced(text, lambda t: outcome(t, seed, second)[:30] == kind, attempts=300)
    return f"seed {seed}, argnums {argnums_of(seed)}: {outcome(text, seed, second)}\n{text}\n"


def test_random_programs():
    counts, wrong = collections.Counter(), []
    for seed in range(COMPILED):
        result = outcome(text_of(seed), seed, second=seed % SECOND == 0)
        counts[result.split(":")[0]] += 1
        if result.startswith("wrong"):
            wrong.append(seed)
    assert not wrong, "\n".join(shown(s, s % SECOND == 0) for s in wrong[:3])
    assert counts["rejected"] <= 0.05 * COMPILED, counts
    assert counts["skipped"] <= 0.1 * COMPILED, counts


def test_a_wrong_derivative_is_found(monkeypatch):
    """The check itself: a gradient that is off by one part in a million does not pass."""

    def slightly_wrong(f, argnums):
        def derivative(*args):
            value, gradient = oracle.value_and_gradient(f, args, argnums)
            return value, tuple(g * (1 + 1e-6) for g in gradient)

        return derivative

    monkeypatch.setattr(ng.njit, "value_and_grad", slightly_wrong)
    monkeypatch.setattr(ng.njit, "jvp", lambda f, argnums: lambda args, tangents: None)
    assert outcome(text_of(0), 0).startswith("wrong: AssertionError")


def test_failing_programs_become_small():
    small = reduced(text_of(3), lambda t: "def f(" in t and "a[(3 - n) % 6]" in t)
    assert len(small.splitlines()) < 8 and "a[(3 - n) % 6]" in small


if __name__ == "__main__":
    print(shown(int(sys.argv[1]), second="second" in sys.argv))
