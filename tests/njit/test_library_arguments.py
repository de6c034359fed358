"""Arguments of NumPy's functions that are not covered are refused, and never left out silently."""

from __future__ import annotations

import pytest
from python_mode import call
from test_library import ARGS, function_of

import nbgrad as ng

REFUSED = {
    "axis": [
        "np.average(a, 0)",
        "np.nanvar(a, axis=0)",
        "np.insert(v, 1, x, 0)",
        "np.unwrap(a, axis=0)",
        "np.sort(a, axis=0)",
        "np.roll(a, 1, axis=0)",
        "np.linalg.norm(a, axis=0)",
    ],
    "dtype": ["np.mean(v, dtype=np.float32)", "np.prod(a, dtype=np.float32)"],
    "ddof": ["np.std(v, ddof=1)", "v.var(ddof=1)"],
    "initial": ["np.sum(v, initial=1.0)", "np.max(v, initial=1.0)"],
    "order": ["np.zeros(3, order='F')", "np.copy(v, order='F')", "t.reshape((6, 4), order='F')"],
    "out": ["np.exp(v, out=w)", "np.concatenate((v, w), out=v)", "np.nanstd(v, out=w)"],
    "where": ["np.exp(v, where=v > 0)", "np.sum(v, where=v > 0)"],
    "copy": ["v.astype(np.float32, copy=False)", "np.array(v, copy=False)"],
    "2": ["v.copy('F')", "np.ravel(a, 'F')"],
    "flatten": ["v.flatten('F')"],
    "endpoint": ["np.linspace(0.0, x, 3, endpoint=False)"],
    "default": ["max(v, default=1.0)"],
    "polyval": ["polynomial.polyval(x, s)"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_are_not_covered(name):
    """They are refused at the user's line, and never left out silently."""
    for line in REFUSED[name]:
        with pytest.raises(ng.errors.UnsupportedError) as caught:
            call(ng.njit.grad(function_of([f"[{line}]"])), *ARGS)
        message = str(caught.value)
        assert name in message and line in message and "<library" in message, message
