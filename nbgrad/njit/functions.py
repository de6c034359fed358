"""The scalar functions of the Numba door: names, texts, which of Python's functions they are, what is known of them.

Every function is an elementwise operator of the tensor engine under its name there.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..op.base import REGISTRY


def words(text: str) -> list[str]:
    """The names in a text."""
    return text.split()


# name -> text for Numba; operators without a text become helper functions made from their body
TEXT = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "div": "({} / {})",
    "neg": "(-{})",
    "pow": "({} ** {})",
    "floordiv": "({} // {})",
    "mod": "({} % {})",
    "and": "({} and {})",
    "or": "({} or {})",
    "not": "(not {})",
    "bitand": "({} & {})",
    "bitor": "({} | {})",
    "bitxor": "({} ^ {})",
    "shl": "({} << {})",
    "shr": "({} >> {})",
    "invert": "(~{})",
    "lt": "({} < {})",
    "le": "({} <= {})",
    "gt": "({} > {})",
    "ge": "({} >= {})",
    "eq": "({} == {})",
    "ne": "({} != {})",
    "where": "({1} if {0} else {2})",
    "max": "max({}, {})",
    "min": "min({}, {})",
    "abs": "abs({})",
    "real": "({}).real",
    "imag": "({}).imag",
    "conj": "np.conj({})",
    "complex": "complex({}, {})",
    "angle": "np.angle({})",
    "square": "({0} * {0})",
    "cube": "({0} * {0} * {0})",
    "reciprocal": "(1 / {})",
    "asin": "np.arcsin({})",
    "acos": "np.arccos({})",
    "atan": "np.arctan({})",
    "asinh": "np.arcsinh({})",
    "acosh": "np.arccosh({})",
    "atanh": "np.arctanh({})",
    "atan2": "np.arctan2({}, {})",
    "lgamma": "math.lgamma({})",
    "erf": "math.erf({})",
    "erfc": "math.erfc({})",
    "gamma": "math.gamma({})",
    "hypot": "np.hypot({}, {})",
    "fmod": "np.fmod({}, {})",
    "trunc": "np.trunc({})",
    "round": "np.rint({})",
    "sgn": "np.sign({})",
    "radd": "radd({}, {})",
    "stop": "{}",
    "zdiv": "zdiv({}, {})",
}
for _n in words(
    "sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt cbrt floor ceil"
):
    TEXT[_n] = f"np.{_n}({{}})"
for _n in words(
    "isnan isinf isfinite maximum minimum fmax fmin copysign logaddexp deg2rad rad2deg signbit"
):
    TEXT[_n] = (
        f"np.{_n}({', '.join(['{}'] * (2 if _n[0] in 'mc' or _n in ('fmax', 'fmin', 'logaddexp') else 1))})"
    )

# the operator whose rules a function has, where the names differ
RULES_OF = {
    "max": "maximum",
    "min": "minimum",
    "mod": "remainder",
    "floordiv": "floor_div",
    "radd": "add",
    "csgn": "sgn",
    "zdiv": "div",
}
# results that have no derivative
FLAT = frozenset(
    words(
        "floordiv and or not bitand bitor bitxor shl shr invert lt le gt ge eq ne isnan isinf isfinite "
        "signbit floor ceil trunc round sgn heaviside stop"
    )
)
BOOLEAN = frozenset(words("and or not lt le gt ge eq ne isnan isinf isfinite signbit"))
# partials of these may be infinite where the cotangent is zero: zero wins; other products are plain ones
SINGULAR = frozenset(
    words(
        "div reciprocal sqrt rsqrt cbrt log log2 log10 log1p pow asin acos acosh atanh hypot atan2 lgamma "
        "gamma digamma zdiv zmul xlogy xlog1py erfinv zeta tan remainder fmod ratio0 one_over0"
    )
)
# cheap enough to be computed again in the reverse sweep
CHEAP = frozenset(
    words(
        "add sub mul div neg floordiv mod and or not bitand bitor bitxor shl shr invert lt le gt ge eq ne "
        "where max min abs zdiv real imag conj complex square cube reciprocal isnan isinf isfinite maximum "
        "minimum copysign keep drop zmul radd floor ceil trunc stop sgn deg2rad rad2deg sqrt"
    )
)


def _mapping() -> dict[Any, str]:
    """Python's, math's and NumPy's functions -> names."""
    found: dict[Any, str] = {
        abs: "abs",
        math.fabs: "abs",
        np.abs: "abs",
        np.fabs: "abs",
        np.sign: "sgn",
        np.rint: "round",
        np.negative: "neg",
        np.power: "pow",
        np.float_power: "pow",
        math.pow: "pow",
        np.divide: "div",
        np.true_divide: "div",
        np.subtract: "sub",
        np.multiply: "mul",
        np.add: "add",
        np.mod: "mod",
        np.remainder: "mod",
        np.fmod: "fmod",
        math.fmod: "fmod",
        np.floor_divide: "floordiv",
        np.equal: "eq",
        np.not_equal: "ne",
        np.less: "lt",
        np.less_equal: "le",
        np.greater: "gt",
        np.greater_equal: "ge",
        np.logical_and: "and",
        np.logical_or: "or",
        np.logical_not: "not",
        np.logical_xor: "ne",
        np.bitwise_and: "bitand",
        np.bitwise_or: "bitor",
        np.bitwise_xor: "bitxor",
        np.invert: "invert",
        np.left_shift: "shl",
        np.right_shift: "shr",
        np.conj: "conj",
        np.conjugate: "conj",
        np.real: "real",
        np.imag: "imag",
        np.angle: "angle",
        np.radians: "deg2rad",
        np.degrees: "rad2deg",
        math.radians: "deg2rad",
        math.degrees: "rad2deg",
        math.floor: "floor",
        math.ceil: "ceil",
        math.trunc: "trunc",
        math.erf: "erf",
        math.erfc: "erfc",
        math.gamma: "gamma",
        math.lgamma: "lgamma",
        math.asin: "asin",
        math.acos: "acos",
        math.atan: "atan",
        math.asinh: "asinh",
        math.acosh: "acosh",
        math.atanh: "atanh",
        math.atan2: "atan2",
    }
    for short in ["asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2"]:
        found[getattr(np, "arc" + short[1:])] = short
    for name in REGISTRY:
        for module in (math, np):
            f = getattr(module, name, None)
            if f is not None and name in TEXT and callable(f):
                found.setdefault(f, name)
    for f in (operator.add, operator.sub, operator.mul, operator.neg, operator.pow):
        found[f] = f.__name__
    return found


FROM_PYTHON = _mapping()


INTEGRAL = frozenset(
    words(
        "add sub mul neg pow floordiv mod bitand bitor bitxor shl shr invert where max min abs maximum "
        "minimum fmax fmin square cube conj real imag sgn radd stop"
    )
)


def arity(name: str) -> int:
    """How many arguments a function takes."""
    text = TEXT.get(name)
    if text is None:
        return REGISTRY[name].nin or 1
    return text.count("{}") or len({c for c in "0123" if f"{{{c}}}" in text})
