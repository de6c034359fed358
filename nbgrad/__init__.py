"""nbgrad: automatic differentiation for NumPy and Numba, with PyTorch's autograd vocabulary."""

from . import autograd, func, memory, methods, ops
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .device import Device as device
from .dtypes import (
    bool_,
    complex64,
    complex128,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from .op.public import PUBLIC as _PUBLIC
from .ops.creation import (
    arange,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from .printing import set_printoptions
from .tape import Tape, trace
from .tensor import Size, Tensor

globals().update(_PUBLIC)
methods.install()
bool = bool_
double, float, half, long = float64, float32, float16, int64
cdouble, cfloat = complex128, complex64
