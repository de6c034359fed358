"""The generic operator checks are able to fail: each finds the error planted for it, and only errors."""

import numpy as np
import operator_checks
import pytest

from nbgrad.errors import NbgradError
from nbgrad.op import REGISTRY, Operator, Spec
from nbgrad.op.samples import Sample, calls


def square(x):
    with np.errstate(all="ignore"):
        return x * x


def rule(g, out, x, *, needs):
    return (g * x * 2.0,)


def make(forward=square, **rules):
    """A temporary operator; ``rules`` replace the right ones."""
    op = Operator("planted", forward, saves=(0,), tests=calls((((2, 3),), {}), (((),), {})))
    op.vjp_rule = rules.get("vjp", rule)
    op.jvp_rule = rules.get("jvp", lambda ts, out, x: ts[0] * x * 2.0)
    op.batch_rule = rules.get("batch", lambda dims, x: (op(x), dims[0]))
    op.infer_rule = rules.get("infer", lambda x: x)
    op.taylor_rule = rules.get("taylor")
    op.reference = rules.get("reference", lambda x: x**2)
    return op


@pytest.fixture
def planted():
    yield make
    REGISTRY.pop("planted", None)


SKIPPED = ("complex", "shapes")  # the rules above are real; not elementwise


def test_a_right_operator_passes_every_check(planted):
    op = planted()
    for check in operator_checks.CHECKS:
        if check not in SKIPPED:
            operator_checks.run_check(op, check)


def in_place(x):
    x *= 2
    return x * x / 4


def memory_order(x):
    flat = np.frombuffer(np.ascontiguousarray(x.ravel(order="K")).tobytes(), x.dtype)
    return (flat * flat).reshape(x.shape)


def always_float64(x):
    return np.asarray(x, np.float64) ** 2


def refuses_nan(x):
    if np.isnan(x).any():
        raise ValueError("NaN")
    return x * x


def wrong_series(level, series, firsts, first):
    from nbgrad.tape.taylor import Series

    x = series[0]
    return Series(level, first, lambda k: firsts[0] * x.term(k) * 2.0)


WRONG = {
    "values": [{"reference": lambda x: x**2 + 1e-6}, {"forward": in_place}],
    "layouts": [{"forward": memory_order}],
    "infer": [{"infer": lambda x: Spec((*x.shape, 1), x.dtype)}],
    "nonfinite": [{"forward": refuses_nan}, {"forward": lambda x: x * x}],
    "float32": [{"forward": always_float64}],
    "tape": [{"infer": lambda x: Spec(x.shape, np.dtype("float32"))}],
    "vmap": [{"batch": lambda dims, x: (x, dims[0])}],
    "vjp": [{"vjp": lambda g, out, x, *, needs: (g * x,)}, {"vjp": lambda *a, **k: (a[0] * 0.0,)}],
    "jvp": [{"jvp": lambda ts, out, x: ts[0] * x}],
    "second": [
        {"vjp": lambda g, out, x, *, needs: (g * x.detach() * 2.0,)},
        {"jvp": lambda ts, out, x: ts[0] * x.detach() * 2.0},
        {"vjp": lambda g, out, x, *, needs: (g.detach() * x * 2.0,)},
    ],
    "taylor": [{"taylor": wrong_series}],
}


@pytest.mark.parametrize(
    "check, rules",
    [pytest.param(c, r, id=f"{c}-{k}") for c, rs in WRONG.items() for k, r in enumerate(rs)],
)
def test_a_planted_error_is_found(planted, check, rules):
    op = planted(**rules)
    with pytest.raises((AssertionError, NbgradError, Warning)):
        operator_checks.run_check(op, check)


def test_a_missing_conjugate_is_found(planted):
    op = planted()
    op.jvp_rule = lambda ts, out, x: ts[0] * x * 2.0
    with pytest.raises(AssertionError, match="vjp"):
        operator_checks.run_check(op, "complex")
    op.vjp_rule = lambda g, out, x, *, needs: (g * (x * 2.0).conj(),)
    operator_checks.run_check(op, "complex")


def test_samples_on_a_kink_are_reported_as_such(planted):
    op = planted(lambda x: np.abs(x) ** 0.5 * (x > 0), vjp=lambda g, out, x, *, needs: (g,))
    op.tests = lambda rng, dtype: [Sample((np.zeros(2, dtype),))]
    with pytest.raises(AssertionError, match="kink"):
        operator_checks.run_check(op, "vjp")
