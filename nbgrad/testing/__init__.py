"""Tools to test derivatives: properties of functions, and Hypothesis strategies for tensors.

``ng.testing.check_grads(f, args)`` checks a function to any order and in both modes; the single properties
(`dot_product_test`, `taylor_remainder_test`, ...) can be used on their own. The strategies need the optional package
``hypothesis`` (``pip install 'nbgrad[test]'``) and are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..autograd.check import gradcheck, gradgradcheck
from ..autograd.diagnose import GradcheckError
from .checks import (
    assert_close,
    check_grads,
    dot_product_test,
    forward_vs_reverse,
    hessian_symmetry,
    inputs_unmodified,
    tape_agrees,
    taylor_remainder_test,
    vmap_agrees,
)

if TYPE_CHECKING:
    from .strategies import broadcastable_shapes as broadcastable_shapes
    from .strategies import shapes as shapes
    from .strategies import tensors as tensors

_STRATEGIES = ("broadcastable_shapes", "shapes", "tensors")

# the strategies are left out, so that a star import does not need Hypothesis
__all__ = [
    "GradcheckError",
    "assert_close",
    "check_grads",
    "dot_product_test",
    "forward_vs_reverse",
    "gradcheck",
    "gradgradcheck",
    "hessian_symmetry",
    "inputs_unmodified",
    "tape_agrees",
    "taylor_remainder_test",
    "vmap_agrees",
]


def __getattr__(name: str) -> Any:
    if name in _STRATEGIES:
        return getattr(importlib.import_module(".strategies", __name__), name)
    raise AttributeError(f"module 'nbgrad.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_STRATEGIES})
