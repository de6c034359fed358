"""Every operator of the registry goes through the same checks (`harness`), driven by its own declaration."""

import importlib
import pkgutil

import harness
import pytest

import nbgrad as ng
from nbgrad.op import REGISTRY

for _module in pkgutil.iter_modules(ng.ops.__path__):
    importlib.import_module(f"nbgrad.ops.{_module.name}")

# differentiable operators that are checked through others, with the reason
INTERNAL: dict[str, str] = {}

WITH_TESTS = sorted(name for name, op in REGISTRY.items() if op.tests is not None)
CASES = [(name, check) for name in WITH_TESTS for check in harness.CHECKS]


def _applicable():
    for name, check in CASES:
        if harness.applies(REGISTRY[name], check):
            yield pytest.param(name, check, id=f"{name}-{check}")


@pytest.mark.parametrize("name, check", _applicable())
def test_operator(name, check):
    harness.CHECKS[check](REGISTRY[name])


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
