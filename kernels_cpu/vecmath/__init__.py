"""Vectorisable elementary functions for Numba: at most 2 ulp, no branches, no libm calls.

Three ways to use them:

* ``vecmath.exp_f64``, ``vecmath.exp_f32`` ...: Numba dispatchers for one type each.  Called in an
  ``@njit`` loop they are inlined and LLVM vectorises the loop.
* ``TABLE['exp', 'float64']``: the same dispatchers, for code generators.
* ``vecmath.exp`` ...: chooses by the argument's type, in ``@njit`` code and in plain Python.
  float32 stays float32; integers and booleans become float64; mixed floats become float64.

Accuracy: ``tests/kernels/test_vecmath.py``; speed: ``benchmarks/bench_vecmath.py``.  Nothing compiles
at import.
"""

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import types
from numba.extending import overload

from kernels_cpu.vecmath import _erf, _exp, _float32, _inverse, _log, _parts, _power, _trig

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # the names that _publish defines


__all__ = ["BINARY", "TABLE", "UNARY", "source_digest"]

_MODULES = {
    _exp: ("exp", "exp2", "expm1", "sigmoid", "tanh", "sinh", "cosh"),
    _log: ("log", "log2", "log10", "log1p", "softplus", "asinh", "acosh", "atanh"),
    _trig: ("sin", "cos", "tan"),
    _inverse: ("atan", "asin", "acos", "atan2"),
    _erf: ("erf", "erfc"),
    _power: ("pow", "cbrt", "hypot"),
}
_FLOAT32: type = np.float32  # a plain class to static checkers, which see a generic one
_SUFFIX = {"float64": "f64", "float32": "f32"}

BINARY = ("atan2", "pow", "hypot")
UNARY = tuple(n for names in _MODULES.values() for n in names if n not in BINARY)

TABLE = {
    (name, dtype): getattr(module, f"{name}_{suffix}", None)
    or getattr(_float32, f"{name}_{suffix}")
    for module, names in _MODULES.items()
    for name in names
    for dtype, suffix in _SUFFIX.items()
}


def _suffix_of(numba_types):
    """The implementation that serves these argument types, None if there is none."""
    if not all(isinstance(t, (types.Float, types.Integer, types.Boolean)) for t in numba_types):
        return None
    return "float32" if all(t == types.float32 for t in numba_types) else "float64"


def _generic_unary(name):
    f32, f64 = TABLE[name, "float32"], TABLE[name, "float64"]

    def generic(x):
        return f32(x) if isinstance(x, _FLOAT32) else f64(float(x))

    @overload(generic, jit_options=_parts.JIT_OPTIONS)
    def choose(x):
        dtype = _suffix_of([x])
        if dtype is None:
            return None
        if x in (types.float32, types.float64):
            return TABLE[name, dtype].py_func
        return lambda x: f64(np.float64(x))

    return generic


def _generic_binary(name):
    f32, f64 = TABLE[name, "float32"], TABLE[name, "float64"]

    def generic(x, y):
        single = isinstance(x, _FLOAT32) and isinstance(y, _FLOAT32)
        return f32(x, y) if single else f64(float(x), float(y))

    @overload(generic, jit_options=_parts.JIT_OPTIONS)
    def choose(x, y):
        dtype = _suffix_of([x, y])
        if dtype is None:
            return None
        if dtype == "float32":
            return lambda x, y: f32(x, y)
        return lambda x, y: f64(np.float64(x), np.float64(y))

    return generic


def _publish():
    """Define ``name``, ``name_f64`` and ``name_f32`` for every function of the table."""
    for (name, dtype), dispatcher in TABLE.items():
        globals()[f"{name}_{_SUFFIX[dtype]}"] = dispatcher
    for name in (*UNARY, *BINARY):
        generic = (_generic_binary if name in BINARY else _generic_unary)(name)
        generic.__name__ = generic.__qualname__ = name
        generic.__doc__ = f"``{name}`` of float64 or float32, by the arguments' type."
        globals()[name] = generic
        __all__.extend((name, f"{name}_f64", f"{name}_f32"))


_publish()


@functools.cache
def source_digest() -> str:
    """sha256 of the sources a compiled call depends on, for keys of on-disk caches."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in [*sorted(here.glob("*.py")), here.parent / "intrinsics.py"]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
