"""Every operator of the registry goes through the same checks, driven by its own declaration."""

import importlib
import pkgutil

import harness
import operator_checks
import pytest

import nbgrad as ng
import nbgrad.njit  # registers njit_call
from nbgrad.op import REGISTRY

for _module in pkgutil.iter_modules(ng.ops.__path__):
    importlib.import_module(f"nbgrad.ops.{_module.name}")
importlib.import_module("nbgrad.autograd.function")
importlib.import_module("nbgrad.compiler.program")  # loaded with the first compiled function
importlib.import_module("nbgrad.autograd.custom_op")  # loaded with the first custom function

# differentiable operators that are checked through others, with the reason
INTERNAL: dict[str, str] = {
    "compiled_call": "its rules are compiled programs (tests/compile)",
    "custom_function": "its rules are the user's (tests/autograd/test_function)",
    **dict.fromkeys(
        ("scan", "scan_reverse", "while_loop", "within_limit", "cond", "switch"),
        "its rules are those of its sub-tapes (tests/control)",
    ),
    "njit_call": "its rules are derivatives of Numba functions (tests/njit/test_operator)",
    "svd_full": "its rules only raise (test_linalg)",
    "qr_complete": "its rules only raise (test_linalg)",
}

WITH_TESTS = sorted(name for name, op in REGISTRY.items() if op.tests is not None)
CASES = [
    (name, check)
    for name in WITH_TESTS
    for check in operator_checks.CHECKS
    if operator_checks.applies(REGISTRY[name], check)
]


@pytest.mark.parametrize("name, check", CASES, ids=[f"{n}-{c}" for n, c in CASES])
def test_operator(name, check):
    operator_checks.run_check(REGISTRY[name], check)


def test_every_differentiable_operator_has_samples():
    missing = [
        name
        for name, op in sorted(REGISTRY.items())
        if op.differentiable and op.tests is None and name not in INTERNAL
    ]
    assert not missing, f"operators without tests= in their declaration: {', '.join(missing)}"


def test_the_list_of_exceptions_is_current():
    stale = [n for n in INTERNAL if n not in REGISTRY or REGISTRY[n].tests is not None]
    assert not stale, f"remove from INTERNAL: {stale}"


@pytest.mark.parametrize("name", WITH_TESTS)
def test_samples_are_reproducible(name):
    op = REGISTRY[name]
    first, second = harness.cases(op), harness.cases(op)
    assert first, f"{name}: tests= gives no float64 sample"
    for a, b in zip(first, second, strict=True):
        assert str(a) == str(b)
        for x, y in zip(harness.arrays(a.sample), harness.arrays(b.sample), strict=True):
            assert x.tobytes() == y.tobytes()
