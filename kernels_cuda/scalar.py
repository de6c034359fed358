"""Source templates of the scalar primitives on CUDA, per dtype class.

Everything a template names keeps float32 in float32: typed constants, ``math`` functions (which have float32 forms on
CUDA), libdevice by its float32 name. In the simulator the same names are bound to NumPy's functions, because Python's
``math`` raises where a device returns NaN or infinity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernels_cpu.scalar import INFIX

from . import _compat

# integer division and remainder have a form of their own below, which gives 0 for a zero divisor
_INFIX = {op: sign for op, sign in INFIX.items() if op not in ("ifloordiv", "imod")}
_TYPES = (
    "float64",
    "float32",
    "float16",
    "complex128",
    "complex64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint32",
    "uint64",
)
# functions of Python's math module, which keep float32 in float32 on CUDA
_MATH = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "sqrt",
        "erf",
        "erfc",
        "lgamma",
        "gamma",
        "pow",
        "fmod",
        "hypot",
        "copysign",
        "floor",
        "ceil",
        "trunc",
        "fabs",
    ]
)
# primitive -> libdevice function; the float32 form has an f at the end
_LIBDEVICE = {
    "rint": "rint",
    "cbrt": "cbrt",
    "erfinv": "erfinv",
    "rsqrt": "rsqrt",
    "nextafter": "nextafter",
    "j0": "j0",
    "j1": "j1",
}


def template(op: str, dtype: np.dtype, arg_dtypes: list[np.dtype], args: list[str]) -> str:
    """Source text of primitive ``op`` with result ``dtype`` applied to the named arguments.

    Raises
    ------
    NotImplementedError : the primitive has no form on CUDA for this dtype.
    """
    kind = arg_dtypes[0].kind if arg_dtypes else dtype.kind
    t = dtype.name
    if op in _INFIX:
        text = f"{args[0]} {_INFIX[op]} {args[1]}"
        # the compiler widens small integers; wrap them back
        return f"{t}({text})" if dtype.kind in "iu" else text
    if op == "select":
        return f"{args[1]} if {args[0]} else {args[2]}"
    if op == "neg":
        return f"{t}(-{args[0]})" if dtype.kind in "iu" else f"-{args[0]}"
    if op == "invert":
        return f"{t}(~{args[0]})"
    if op == "not":
        return f"not {args[0]}"
    if op == "cast":
        return f"{args[0]} != 0" if dtype.kind == "b" else f"{t}({args[0]})"
    if op in ("ifloordiv", "imod"):
        sign = "//" if op == "ifloordiv" else "%"
        return f"{t}({args[0]} {sign} {args[1]}) if {args[1]} != 0 else {t}(0)"
    if op == "complex":
        return f"complex({args[0]}, {args[1]})"
    if kind == "c":
        return _complex_template(op, arg_dtypes[0], args)
    if op in ("conj", "real"):
        return args[0]
    return _real_template(op, dtype, args)


def _real_template(op: str, dtype: np.dtype, args: list[str]) -> str:
    listed = ", ".join(args)
    if op in helpers(dtype):
        return f"{op}_{dtype.name}({listed})"
    if dtype.kind == "f" and op in _MATH:
        return f"{dtype.name}(math.{op}({listed}))"
    if dtype.kind == "f" and op in _LIBDEVICE:
        return f"libdevice.{_LIBDEVICE[op]}{'f' if dtype.itemsize == 4 else ''}({listed})"
    raise NotImplementedError(f"primitive '{op}' has no CUDA form for {dtype.name}")


def _complex_template(op: str, given: np.dtype, args: list[str]) -> str:
    """Only the parts: every complex function is written in real primitives before it comes here."""
    if op in ("real", "imag"):
        return f"{args[0]}.{op}"
    if op == "conj":
        return f"{args[0]}.conjugate()"
    raise NotImplementedError(f"primitive '{op}' has no CUDA form for {given.name}")


# -- functions that are more than one expression ------------------------------------------------------

_INTEGER = """
def ipow_{t}(x, n):
    r = {t}(1)
    if n < {t}(0):
        odd = n & 1
        n = {t}(0)
        if x == {t}(-1):
            r = x if odd else r
        elif x != {t}(1):
            r = {t}(0)
    while n > 0:
        if n & 1:
            r = {t}(r * x)
        n = {t}(n >> 1)
        x = {t}(x * x)
    return r
"""

_UNSIGNED = """
def ipow_{t}(x, n):
    r = {t}(1)
    while n > 0:
        if n & 1:
            r = {t}(r * x)
        n = {t}(n >> 1)
        x = {t}(x * x)
    return r
"""

_REAL = """
def sigmoid_{t}(x):
    e = math.exp(-math.fabs(x))
    return {t}(1) / ({t}(1) + e) if x >= {t}(0) else e / ({t}(1) + e)

def softplus_{t}(x):
    return (x if x > {t}(0) or x != x else {t}(0)) + math.log1p(math.exp(-math.fabs(x)))
"""


@functools.cache
def helpers(dtype: np.dtype) -> dict[str, str]:
    """Names of the real functions defined here for a dtype."""
    if dtype.kind in "iu":
        return {"ipow": "ipow"}
    return {"sigmoid": "sigmoid", "softplus": "softplus"} if dtype.kind == "f" else {}


class _SimMath:
    """NumPy's functions under the names of `math`, for the simulator."""

    def __init__(self) -> None:
        renamed = {
            "asin": "arcsin",
            "acos": "arccos",
            "atan": "arctan",
            "atan2": "arctan2",
            "asinh": "arcsinh",
            "acosh": "arccosh",
            "atanh": "arctanh",
            "pow": "power",
        }
        for name in _MATH:
            if name in ("erf", "erfc", "lgamma", "gamma"):
                setattr(self, name, _scalar(getattr(math, name)))
            else:
                setattr(self, name, getattr(np, renamed.get(name, name)))


def _scalar(fn: Callable) -> Callable:
    """A function of Python's math on NumPy scalars: same dtype out, NaN or infinity instead of an error."""

    def call(x: Any) -> Any:
        try:
            return x.dtype.type(fn(float(x)))
        except ValueError:  # a pole or outside the domain
            return x.dtype.type(math.inf if fn is math.lgamma else math.nan)
        except OverflowError:
            return x.dtype.type(math.inf)

    return call


class _SimLibdevice:
    """The few libdevice functions the templates name, for the simulator."""

    rint = rintf = staticmethod(np.rint)
    cbrt = cbrtf = staticmethod(np.cbrt)
    nextafter = nextafterf = staticmethod(np.nextafter)

    @staticmethod
    def rsqrt(x: Any) -> Any:
        """1/sqrt(x)."""
        return x.dtype.type(1) / np.sqrt(x)

    rsqrtf = rsqrt

    @staticmethod
    def erfinv(x: Any) -> Any:
        """Inverse error function by Newton's method from the middle; enough digits for a test."""
        y = float(x)
        if not -1 < y < 1:
            return x.dtype.type(math.copysign(math.inf, y) if abs(y) == 1 else math.nan)
        t = 0.0
        for _ in range(200):
            step = (math.erf(t) - y) * math.sqrt(math.pi) / 2 * math.exp(t * t)
            t -= max(min(step, 0.5), -0.5)
        return x.dtype.type(t)

    erfinvf = erfinv


@functools.cache
def namespace() -> dict[str, Any]:
    """The globals of generated kernels."""
    sim = _compat.simulated()
    names: dict[str, Any] = {t: getattr(np, t) for t in _TYPES}
    names.update(inf=math.inf, nan=math.nan)
    names["math"] = _SimMath() if sim else math
    if sim:
        names["libdevice"], names["complex"] = _SimLibdevice, _sim_complex
    else:
        from numba.cuda import libdevice

        names["libdevice"] = libdevice
    for t in ("float64", "float32"):
        _define(_REAL, names, t=t)
    for t in ("int64", "int32", "int16", "int8"):
        _define(_INTEGER, names, t=t)
    _define(_UNSIGNED, names, t="uint8")
    return names


def _sim_complex(re: Any, im: Any) -> Any:
    """Two real parts make the complex dtype of their width, as on a device."""
    wide = np.result_type(np.asarray(re).dtype, np.asarray(im).dtype)
    return (np.complex64 if wide == np.float32 else np.complex128)(complex(float(re), float(im)))


def _define(source: str, names: dict[str, Any], **parts: str) -> None:
    for text in source.format(**parts).strip().split("\n\n"):
        scope = dict(names)
        scope["__name__"] = __name__
        exec(compile(text, f"<nbgrad cuda function {parts}>", "exec"), scope)
        name = text.split("(")[0].removeprefix("def ")
        names[name] = _compat.device_function(scope[name])
