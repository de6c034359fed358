"""dtypes, promotion, the default dtype and tolerances per dtype.

nbgrad's dtypes *are* NumPy dtypes (``ng.float64 is np.dtype('float64')``), so they compare and hash like
NumPy's and can be handed to NumPy unchanged. Promotion follows the array-API standard between arrays;
a Python scalar is weak: it never widens a tensor, except that a float (complex) scalar lifts an integer
tensor to the default floating (complex) dtype.
"""

from __future__ import annotations

import numpy as np

from .errors import DTypeError, message

float64 = np.dtype("float64")
float32 = np.dtype("float32")
float16 = np.dtype("float16")
complex128 = np.dtype("complex128")
complex64 = np.dtype("complex64")
int64 = np.dtype("int64")
int32 = np.dtype("int32")
int16 = np.dtype("int16")
int8 = np.dtype("int8")
uint8 = np.dtype("uint8")
bool_ = np.dtype("bool")

ALL = (float64, float32, float16, complex128, complex64, int64, int32, int16, int8, uint8, bool_)
_BY_NAME = {d.name: d for d in ALL} | {
    "float": float32,
    "double": float64,
    "half": float16,
    "long": int64,
    "int": int32,
    "short": int16,
    "cfloat": complex64,
    "cdouble": complex128,
    "bool_": bool_,
}
_CANON = {d: d for d in ALL}
_default = float64

_COMPLEX_OF = {float64: complex128, float32: complex64, float16: complex64}
_REAL_OF = {complex128: float64, complex64: float32}


def as_dtype(spec: object, op: str = "dtype") -> np.dtype:
    """Return the canonical dtype for a dtype, a NumPy scalar type, a name, or ``float/int/bool/complex``.

    Raises
    ------
    DTypeError : the dtype is not one of nbgrad's.
    """
    if spec is float:
        return _default
    if spec is complex:
        return _COMPLEX_OF[_default]
    if spec is int:
        return int64
    if spec is bool:
        return bool_
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec]
    try:
        found = _CANON.get(np.dtype(spec))  # type: ignore[arg-type]
    except TypeError:
        found = None
    if found is None:
        names = ", ".join(d.name for d in ALL)
        raise DTypeError(message(op, "argument 'dtype'", repr(spec), f"one of {names}"))
    return found


def get_default_dtype() -> np.dtype:
    """The dtype of factories and of Python floats (float64 unless changed)."""
    return _default


def set_default_dtype(dtype: object) -> None:
    """Set the default floating dtype (``float32`` or ``float64``)."""
    global _default
    found = as_dtype("None" if dtype is None else dtype, "set_default_dtype")
    if found.kind != "f" or found is float16:
        raise DTypeError(
            message("set_default_dtype", "argument 'dtype'", found.name, "float32 or float64")
        )
    _default = found


def to_real(dtype: np.dtype) -> np.dtype:
    """The real counterpart of a complex dtype; other dtypes unchanged."""
    return _REAL_OF.get(dtype, dtype)


def to_complex(dtype: np.dtype) -> np.dtype:
    """The complex counterpart of a floating dtype."""
    return _COMPLEX_OF.get(dtype, dtype)


def to_inexact(dtype: np.dtype) -> np.dtype:
    """Integer and bool dtypes become the default dtype; others unchanged."""
    return dtype if dtype.kind in "fc" else _default


_promoted: dict[tuple[np.dtype, np.dtype], np.dtype] = {}


def promote(a: np.dtype, b: np.dtype) -> np.dtype:
    """Array-API promotion of two array dtypes.

    Mixed integer and floating arrays give the floating dtype (as PyTorch does), never a wider one:
    int64 with float32 is float32.
    """
    if a is b:
        return a
    key = (a, b)
    found = _promoted.get(key)
    if found is None:
        rank = "biufc"
        inexact = {a.kind, b.kind} & {"f", "c"}
        if inexact and (a.kind in "biu" or b.kind in "biu"):
            found = a if rank.index(a.kind) > rank.index(b.kind) else b
        else:
            found = np.promote_types(a, b)
        found = _promoted[key] = _CANON[found]
    return found


def promote_scalar(dtype: np.dtype, scalar: object) -> np.dtype:
    """Promotion of an array dtype with a (weak) Python scalar."""
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, int):
        return int64 if dtype.kind == "b" else dtype
    if isinstance(scalar, float):
        return to_inexact(dtype)
    if isinstance(scalar, complex):
        return to_complex(to_inexact(dtype))
    raise DTypeError(message("promotion", "a scalar operand", type(scalar).__name__, "a number"))


class FInfo:
    """Machine limits of a floating dtype (``eps, tiny, max, min, bits, dtype``), as ``torch.finfo``."""

    def __init__(self, dtype: object = None):
        self.dtype = to_real(as_dtype(_default if dtype is None else dtype, "finfo"))
        if self.dtype.kind != "f":
            raise DTypeError(
                message(
                    "finfo",
                    "argument 'dtype'",
                    self.dtype.name,
                    "a floating dtype",
                    "Use ng.iinfo.",
                )
            )
        info = np.finfo(self.dtype)
        self.eps, self.tiny = float(info.eps), float(info.tiny)
        self.smallest_normal = self.tiny
        self.max, self.min, self.bits = float(info.max), float(info.min), int(info.bits)
        self.resolution = float(info.resolution)


finfo = FInfo


def iinfo(dtype: object) -> np.iinfo:
    """Machine limits of an integer dtype, as ``torch.iinfo``."""
    found = as_dtype(dtype, "iinfo")
    if found.kind not in "iu":
        raise DTypeError(
            message("iinfo", "argument 'dtype'", found.name, "an integer dtype", "Use ng.finfo.")
        )
    return np.iinfo(found)


_TOL = {float64: 1e-9, complex128: 1e-9, float32: 1e-4, complex64: 1e-4, float16: 1e-2}


def tolerance(dtype: np.dtype) -> float:
    """Comparison tolerance (relative and absolute) used by the test tools for values of a dtype."""
    return _TOL.get(dtype, 0.0)


INF, NAN, PI, E = float("inf"), float("nan"), 3.141592653589793, 2.718281828459045
