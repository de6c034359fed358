"""Checks that need a real CUDA device, in one script: ``python tests/gpu/run.py [--quick] [--out FILE]``.

Correctness of every kernel category against the CPU, the pool, and what the kernels reach: bandwidth of copies,
elementwise loops and reductions, matrix products, launch overhead. Prints a JSON summary, exits non-zero on a failure and stops
starting new checks after six minutes. Importing it needs no device.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nbgrad as ng
from nbgrad.autograd import grad
from nbgrad.op import REGISTRY, Elementwise
from nbgrad.tensor import Tensor

DEADLINE = 360.0  # seconds after which no further check starts
CHECKS: dict[str, Callable[[], Any]] = {}
SPEED: dict[str, Callable[[], Any]] = {}


def check(fn: Callable) -> Callable:
    """Register a correctness check: it raises, or returns what to report."""
    CHECKS[fn.__name__] = fn
    return fn


def speed(fn: Callable) -> Callable:
    """Register a measurement: it returns numbers by name."""
    SPEED[fn.__name__] = fn
    return fn


def generator() -> np.random.Generator:
    """A seeded generator."""
    return np.random.default_rng(1)


def both(fn: Callable, *arrays: np.ndarray, rtol: float = 1e-10) -> None:
    """Compare a function on the device with the CPU."""
    want = fn(*[ng.tensor(a) for a in arrays])
    got = fn(*[ng.tensor(a, device="cuda") for a in arrays])
    many = isinstance(want, (list, tuple))
    for g, w in zip(got if many else [got], want if many else [want], strict=True):
        assert g.dtype == w.dtype, (g.dtype, w.dtype)
        a, b = g.detach().cpu().numpy(), w.detach().numpy()
        scale = np.abs(np.where(np.isfinite(b), b, 0)).max(initial=0.0)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(float(scale), 1e-3))


# -- correctness --------------------------------------------------------------------------------------


@check
def elementwise() -> str:
    """Every operator on its own samples: forward and first derivatives in float64, forward in float32."""
    done, failed = 0, []
    for name, op in sorted(REGISTRY.items()):
        if not isinstance(op, Elementwise) or not op.tests:
            continue
        try:
            _operator(op)
            done += 1
        except Exception as error:
            failed.append(f"{name}: {str(error).strip().splitlines()[0]}")
    assert not failed, failed
    return f"{done} operators"


def _operator(op: Elementwise) -> None:
    integral = op.promotion in ("integral", "logical")
    dtype = ng.int64 if integral else ng.float64
    arrays = [np.asarray(a) for a in op.tests(generator(), dtype)[0].args]

    def run(*xs: Tensor) -> list[Tensor]:
        leaves = [x.requires_grad_() if x.dtype.kind in "fc" else x for x in xs]
        out = op(*leaves)
        wanted = [x for x, d in zip(leaves, op.defined, strict=True) if d and x.requires_grad]
        if not out.requires_grad or not wanted:
            return [out]
        seed = ng.full(tuple(out.shape), 0.7, dtype=out.dtype, device=out.device)
        return [out, *grad(out, wanted, grad_outputs=seed)]

    both(run, *arrays, rtol=1e-9)
    if not integral:
        narrow = [a.astype("float32") if a.dtype.kind == "f" else a for a in arrays]
        both(lambda *xs: op(*xs), *narrow, rtol=1e-4)


@check
def layouts() -> None:
    """Contiguous, misaligned, strided, reversed, broadcast, 0-d and empty operands; large ones too."""
    x = generator().standard_normal((257, 130))
    for view in (
        lambda t: t,
        lambda t: t[1:, 1:],
        lambda t: t.transpose(0, 1),
        lambda t: t[::-1, ::3],
        lambda t: t[:, 5],
        lambda t: t[:, :1].expand(257, 130),
        lambda t: t[3, 4],
        lambda t: t[9:9],
    ):
        for dtype in ("float64", "float32", "float16"):
            tol = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3}[dtype]
            both(lambda t, v=view: ng.exp(-v(t) * v(t)) + v(t) * 2, x.astype(dtype), rtol=tol)
    both(lambda t: t[:, None, :, None] * t[0, :2], x[:40, :30])
    both(lambda t: t + 1, np.arange(3_000_001, dtype="float32"))


@check
def reductions() -> None:
    """All reductions, axes, one and two passes."""
    r = generator()
    for shape in ((1_000_003,), (1000, 1001), (3, 100_001), (100_001, 3), (17, 5, 300), (0, 4), ()):
        x = r.standard_normal(shape)
        axes: list[Any] = [(), None, *range(len(shape))]
        for name in ("sum", "mean", "amax", "amin", "any", "all"):
            for dim in axes:
                if name in ("amax", "amin") and x.size == 0:
                    continue
                both(lambda t, n=name, d=dim: getattr(ng, n)(t, d), x, rtol=1e-11)
        both(lambda t: t.sum(), x.astype("float32"), rtol=1e-6)
    both(lambda t: t.prod(1), 1 + r.random((9, 500)) / 100)
    both(lambda t: t.transpose(0, 2).sum((0, 1)), r.random((30, 40, 50)))
    both(lambda t: ng.amax(t, 1), np.where(r.random((20, 300)) < 0.01, np.nan, 1.0))


@check
def copies() -> None:
    """Transfers, conversions, transposes, assignment through views."""
    x = generator().standard_normal((300, 211)) * 50
    for src in ("float64", "float32", "float16", "int64", "int8", "bool", "complex128"):
        a = np.abs(x).astype(src)
        assert np.array_equal(ng.tensor(a, device="cuda").cpu().numpy(), a)
        for dst in ("float64", "float32", "int32", "bool"):
            both(lambda t, d=dst: t.to(getattr(ng, d)), a, rtol=1e-3)
    both(lambda t: t.transpose(0, 1).contiguous(), x)
    both(lambda t: t[None].expand(3, 300, 211).permute(2, 0, 1).clone(), x)

    def assign(t: Tensor) -> Tensor:
        t = t.clone()
        t[1:, ::2] = t[:-1, ::2] * 2
        t[0] = 5.0
        return t

    both(assign, x)


@check
def products() -> None:
    """Matrix products: shapes around the tile sizes, strides, batches, dtypes."""
    r = generator()
    for m, k, n in (
        (1, 1, 1),
        (63, 64, 65),
        (128, 16, 128),
        (300, 517, 129),
        (1, 1000, 1),
        (5, 0, 7),
    ):
        a, b = r.standard_normal((m, k)), r.standard_normal((k, n))
        both(ng.matmul, a, b, rtol=1e-11)
        both(
            lambda s, t: s.mT @ t.mT,
            np.ascontiguousarray(a.T),
            np.ascontiguousarray(b.T),
            rtol=1e-11,
        )
        both(ng.matmul, a.astype("float32"), b.astype("float32"), rtol=1e-4)
    both(ng.matmul, r.random((2, 1, 70, 30)), r.random((5, 30, 20)))
    both(ng.matmul, r.random((33, 40)) + 1j, r.random((40, 35)) + 2j)
    both(ng.matmul, r.integers(-9, 9, (33, 40)), r.integers(-9, 9, (40, 35)))


@check
def indexing() -> None:
    """Gather, scatter with repeats, assignment."""
    r = generator()
    x, i = r.standard_normal((500, 40)), r.integers(-500, 500, 2000)
    both(lambda t: t[ng.tensor(i, device=t.device)], x)

    def gradient(t: Tensor) -> Tensor:
        t = t.clone().requires_grad_()
        y = t[ng.tensor(i, device=t.device)]
        return grad((y * y).sum(), t)[0]

    both(gradient, x, rtol=1e-10)
    both(gradient, x.astype("float32"), rtol=1e-4)

    def put(t: Tensor) -> Tensor:
        t = t.clone()
        t[ng.tensor(i, device=t.device)] = ng.arange(2000, dtype=t.dtype, device=t.device)[:, None]
        return t

    both(put, x)


@check
def derivatives() -> None:
    """A small network: gradients, second derivatives, backward accumulation, vmap of grad."""
    r = generator()
    arrays = [r.standard_normal(s) for s in ((200, 3), (3, 32), (32,), (32, 1))]

    def run(*given: Tensor) -> list[Tensor]:
        x, w, b, v = (t.clone().requires_grad_() for t in given)
        u = ng.tanh(x @ w + b) @ v
        (du,) = grad(u.sum(), x, create_graph=True)
        loss = (du * du).sum() + (u * u).mean()
        return list(grad(loss, [w, b, v, x]))

    both(run, *arrays, rtol=1e-9)
    both(lambda t: ng.func.vmap(ng.func.grad(lambda s: (s * s * s).sum()))(t), arrays[0])


@check
def pool() -> dict[str, int]:
    """Reuse, statistics, and recovery when the device is full."""
    ng.cuda.synchronize()
    gc.collect()
    before = ng.cuda.memory_stats()
    for _ in range(200):
        x = ng.zeros(1 << 20, device="cuda")
        del x
    after = ng.cuda.memory_stats()
    assert after["allocated_bytes"] == before["allocated_bytes"]
    assert after["num_chunk_allocs"] - before["num_chunk_allocs"] <= 1
    ng.cuda.set_limit(ng.cuda.memory_reserved() + (1 << 20))
    try:
        ng.empty(1 << 30, device="cuda")
        raise AssertionError("the limit did not hold")
    except ng.errors.OutOfMemoryError:
        pass
    finally:
        ng.cuda.set_limit(None)
    (ng.ones(1000, device="cuda") * 2).sum().item()
    ng.cuda.empty_cache()
    return {k: after[k] for k in ("reserved_bytes", "num_allocs", "num_chunk_allocs")}


@check
def streams() -> None:
    """Work on a second stream, joined through record_stream."""
    s = ng.cuda.Stream()
    x = ng.ones(1 << 20, device="cuda")
    ng.cuda.synchronize()
    with ng.cuda.stream(s):
        y = x * 3
        s.record_stream(x)
    s.synchronize()
    assert (y.sum() / (1 << 20)).item() == 3.0


@check
def interchange() -> None:
    """`__cuda_array_interface__` shares memory with numba's arrays."""
    from numba import cuda

    x = ng.arange(10, dtype=ng.float64, device="cuda")[::2]
    seen = cuda.as_cuda_array(x._data)
    assert seen.copy_to_host().tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


@check
def kernel_adjoints() -> str:
    """Adjoints of CUDA kernels against gradients of their twins on the CPU."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "njit" / "sim"))
    from cuda_kernels import cases, expected, shadows

    done = 0
    for case in cases():
        where, seeds, want = expected(case)
        got = shadows(case, where, seeds)
        args = [np.copy(a) if isinstance(a, np.ndarray) else a for a in case.args]
        ng.njit.cuda.vjp(case.kernel, where, **case.options)[case.launch](*args, *got)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, np.broadcast_to(w, g.shape), rtol=1e-9, atol=1e-11)
        done += 1
    return f"{done} kernels"


# -- speed ----------------------------------------------------------------------------------------------


def seconds(fn: Callable[[], Any], repeats: int = 20) -> float:
    """Time of one call, median over batches that are long against the synchronisation."""
    fn()
    ng.cuda.synchronize()
    found = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            fn()
        ng.cuda.synchronize()
        found.append((time.perf_counter() - start) / repeats)
    return float(np.median(found))


def peak_bandwidth() -> float | None:
    """Bytes per second from the device's own clocks (None where it does not say)."""
    from numba import cuda

    device = cuda.get_current_device()
    clock = getattr(device, "MEMORY_CLOCK_RATE", 0)  # kHz
    width = getattr(device, "GLOBAL_MEMORY_BUS_WIDTH", 0)  # bits
    return 2.0 * clock * 1e3 * width / 8 if clock and width else None


@speed
def bandwidth() -> dict[str, float]:
    """GB/s that copies, elementwise loops and reductions move, and the share of the peak."""
    n = 1 << 26
    x, y = (ng.ones(n, dtype=ng.float32, device="cuda") for _ in range(2))
    matrix = x.reshape(1 << 13, 1 << 13)
    found = {
        "copy float32": 2 * 4 * n / seconds(lambda: x.clone()),
        "x*y+x float32": 5 * 4 * n / seconds(lambda: x * y + x),
        "exp float32": 2 * 4 * n / seconds(lambda: ng.exp(x)),
        "sum float32": 4 * n / seconds(lambda: x.sum()),
        "sum of columns": 4 * n / seconds(lambda: matrix.sum(0)),
        "sum of rows": 4 * n / seconds(lambda: matrix.sum(1)),
        "transpose": 2 * 4 * n / seconds(lambda: matrix.mT.contiguous()),
        "broadcast add": 2 * 4 * n / seconds(lambda: matrix + matrix[0]),
    }
    out = {k: round(v / 1e9, 1) for k, v in found.items()}
    peak = peak_bandwidth()
    if peak:
        out["peak (estimate)"] = round(peak / 1e9, 1)
        out["copy / peak"] = round(found["copy float32"] / peak, 3)
    return out


@speed
def gflops() -> dict[str, float]:
    """GFlop/s of square matrix products."""
    out = {}
    for dtype in ("float32", "float64"):
        for n in (256, 1024, 4096):
            a = ng.ones(n, n, dtype=getattr(ng, dtype), device="cuda")
            t = seconds(lambda a=a: a @ a, 20 if n < 4096 else 3)
            out[f"{dtype} {n}"] = round(2 * n**3 / t / 1e9, 1)
    return out


@speed
def overhead() -> dict[str, float]:
    """Microseconds of a small operation, launches queued; and of a forward and backward pass of a short chain."""
    x, y = (ng.ones(16, device="cuda") for _ in range(2))
    leaf = ng.ones(16, device="cuda", requires_grad=True)

    def chain() -> None:
        z = leaf
        for _ in range(10):
            z = ng.sin(z) * 1.01
        z.sum().backward()
        leaf.grad = None

    return {
        "x + y": round(seconds(lambda: x + y, 500) * 1e6, 1),
        "x * 2.0": round(seconds(lambda: x * 2.0, 500) * 1e6, 1),
        "sum": round(seconds(lambda: x.sum(), 500) * 1e6, 1),
        "10 x (sin, mul), backward": round(seconds(chain, 20) * 1e6, 1),
    }


# -- running --------------------------------------------------------------------------------------------


def run(quick: bool = False) -> dict[str, Any]:
    """Run everything and return the summary."""
    start = time.perf_counter()
    from numba import cuda

    summary: dict[str, Any] = {
        "device": ng.cuda.get_device_name(),
        "capability": ng.cuda.get_device_capability(),
        "numba-cuda": getattr(cuda, "__version__", "unknown"),
        "checks": {},
        "failed": [],
    }
    for name, fn in {**CHECKS, **({} if quick else SPEED)}.items():
        if time.perf_counter() - start > DEADLINE:
            summary["failed"].append(f"{name}: not run, out of time")
            continue
        began = time.perf_counter()
        try:
            result: Any = fn() or "ok"
        except Exception:
            result = traceback.format_exc(limit=-4)
            summary["failed"].append(name)
        took = round(time.perf_counter() - began, 2)
        summary["checks"][name] = {"seconds": took, "result": result}
        print(
            f"{name:12s} {took:7.2f} s  {'FAILED' if name in summary['failed'] else 'ok'}",
            flush=True,
        )
    summary["seconds"] = round(time.perf_counter() - start, 1)
    return summary


def main() -> int:
    """Command line: 0 if all is well, 1 after a failure, 2 without a device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="correctness only")
    parser.add_argument("--out", help="write the summary to a file too")
    options = parser.parse_args()
    if not ng.cuda.is_available():
        print("no CUDA device (or numba-cuda is not installed): nothing was checked")
        return 2
    summary = run(options.quick)
    text = json.dumps(summary, indent=2)
    print(text)
    if options.out:
        with open(options.out, "w") as f:
            f.write(text)
    return 1 if summary["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
