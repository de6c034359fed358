"""nbgrad: automatic differentiation for NumPy and Numba, with PyTorch's autograd vocabulary.

The conventional alias is ``import nbgrad as ng``. Ordinary ``torch.autograd`` code runs with ``import nbgrad as torch``.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from . import autograd, dtypes, errors, func, interop, memory, methods, ops, random, tape
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .compiler import cache_info, clear_cache, compile
from .control import cond, fori_loop, scan, switch, while_loop
from .device import Device as device
from .device import get_num_threads, set_num_threads
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
from .interop import as_tensor_public as as_tensor
from .interop import asarray, from_dlpack, is_tensor
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
from .random import (
    Generator,
    bernoulli,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from .sparse import (
    hessian_operator,
    hessian_sparsity,
    jacobian_operator,
    jacobian_sparsity,
    sparse_hessian,
    sparse_jacobian,
)
from .tape import Tape, trace
from .tensor import Size, Tensor

__version__ = "0.1.0"

methods.install()
globals().update(_PUBLIC)
trace = tape.trace  # of a function: a tape; of a matrix: the sum of its diagonal

# PyTorch's dtype names
bool, half, float, double = bool_, float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128
inf, nan, pi, e = dtypes.INF, dtypes.NAN, dtypes.PI, dtypes.E
newaxis = None

_LAZY = ("cuda", "linalg", "njit", "nn", "pde", "testing", "utils")


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        try:
            return _importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module 'nbgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
