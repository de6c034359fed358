"""Time of kernels_cpu.vecmath against NumPy, SciPy and torch on one core.

    python benchmarks/bench_vecmath.py [name ...] [--size N] [--repeats K]

Each repeat runs every contestant once, in turn, and the median over repeats is reported, in
nanoseconds per element; a ratio above 1 means vecmath is faster.  ``copy`` is the memory floor.
Packed instructions in the loop's assembly are counted, and scalar calls out of it (expected 0).
"""

import argparse
import re
import statistics
import time

import numpy as np
import scipy.special as sc
from numba import njit

from kernels_cpu import vecmath

try:
    import torch
except ImportError:
    torch = None

NUMPY = {
    "sigmoid": sc.expit,
    "softplus": lambda x, out: np.logaddexp(0.0, x, out=out, dtype=x.dtype),
    "erf": sc.erf,
    "erfc": sc.erfc,
    "pow": np.power,
    "atan2": np.arctan2,
    **{f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
TORCH = {"softplus": "special.softplus", "cbrt": None}
CALL = re.compile(r"\bcallq?\b|^\s+bl\s", re.M)


def samples(name, dtype, size):
    """Arguments in the middle of the domain of ``name``."""
    rng = np.random.default_rng(0)
    if name in ("log", "log2", "log10", "pow", "acosh", "log1p"):
        first = rng.uniform(1.01, 30.0, size)
    elif name in ("asin", "acos", "atanh"):
        first = rng.uniform(-0.99, 0.99, size)
    else:
        first = rng.normal(size=size) * 3.0
    arrays = [first, rng.uniform(-3.0, 3.0, size)] if name in vecmath.BINARY else [first]
    return [a.astype(dtype) for a in arrays]


def array_loop(scalar, arity):
    """The loop a code generator emits, compiled without any fast-math flag."""
    if arity == 2:

        @njit(error_model="numpy")
        def loop(x, y, out):
            for i in range(out.size):
                out[i] = scalar(x[i], y[i])
    else:

        @njit(error_model="numpy")
        def loop(x, out):
            for i in range(out.size):
                out[i] = scalar(x[i])

    return loop


def torch_call(name, arrays, out):
    """A call of torch's function of that name on the same memory, or None."""
    if torch is None or name == "cbrt":
        return None
    inputs = [torch.from_numpy(a) for a in arrays]
    if name == "softplus":
        return lambda: torch.nn.functional.softplus(inputs[0], threshold=1e9)
    target = torch.from_numpy(out)
    function = getattr(torch, name)
    return lambda: function(*inputs, out=target)


def measure(calls, repeats, size):
    """Median nanoseconds per element of each call, the calls taking turns."""
    times = {name: [] for name in calls}
    inner = max(1, 200_000 // size)
    for _ in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(inner):
                call()
            times[name].append((time.perf_counter() - start) / inner / size * 1e9)
    return {name: statistics.median(series[1:]) for name, series in times.items()}


def vector_shape(loop):
    """``(widest register, packed arithmetic, calls in the loop body)`` from the assembly."""
    assembly = next(iter(loop.inspect_asm().values()))
    body = re.search(r"^_ZN(?!7cpython)\w*loop.*?^\.Lfunc_end", assembly, re.S | re.M)[0]
    width = next((w for w in ("zmm", "ymm", "xmm") if w in body), "scalar")
    packed = len(re.findall(r"\bv\w+p[sd]\b.*%[yz]mm|\bf\w+\s+v\d+\.[24][sd]", body))
    return width, packed, len(CALL.findall(body))


def report(name, dtype, size, repeats):
    arrays = samples(name, dtype, size)
    out = np.empty_like(arrays[0])
    loop = array_loop(vecmath.TABLE[name, dtype], len(arrays))
    numpy_function = NUMPY.get(name) or getattr(np, name)
    calls = {
        "vecmath": lambda: loop(*arrays, out),
        "numpy": lambda: numpy_function(*arrays, out=out),
        "copy": lambda: np.copyto(out, arrays[0]),
    }
    torch_function = torch_call(name, arrays, np.empty_like(out))
    if torch_function is not None:
        calls["torch"] = torch_function
    medians = measure(calls, repeats, size)
    ours = medians["vecmath"]
    width, packed, called = vector_shape(loop)
    ratios = {k: f"{medians[k] / ours:5.1f}x" for k in ("numpy", "torch") if k in medians}
    print(
        f"{name:9s}{dtype:8s} {ours:6.2f} ns  numpy {medians['numpy']:6.2f} {ratios['numpy']}"
        f"  torch {medians.get('torch', float('nan')):6.2f} {ratios.get('torch', '    -')}"
        f"  copy {medians['copy']:5.2f}  {width} packed {packed} calls {called}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*vecmath.UNARY, *vecmath.BINARY])
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    if torch is not None:
        torch.set_num_threads(1)
    for name in options.names:
        for dtype in ("float64", "float32"):
            report(name, dtype, options.size, options.repeats)


if __name__ == "__main__":
    main()
