"""Names and sizes shared by generated loops and the code that writes them."""

from __future__ import annotations

import numpy as np

TILE = 512  # elements a tile of the elementwise loop holds; 16 KiB for four float64 operands

KINDS = {
    "f8": "float64",
    "f4": "float32",
    "c16": "complex128",
    "c8": "complex64",
    "i8": "int64",
    "i4": "int32",
    "i2": "int16",
    "i1": "int8",
    "u1": "uint8",
    "b1": "bool",
}


def code(dtype: np.dtype) -> str:
    """Short name of a dtype in generated code: kind and size, e.g. ``f8``."""
    return dtype.kind + str(dtype.itemsize)
