"""Eager speed: small-operation chains, large elementwise work, graph memory, start-up.

Run ``python benchmarks/bench_eager.py`` with the ``bench`` extra installed; every figure is a ratio measured
alternately in this run. float64 throughout; PyTorch uses as many threads as nbgrad.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import tracemalloc

import numpy as np
from common import Table, compare

import nbgrad as ng
from kernels_cpu import threads


def chain_peers(double: bool) -> dict:
    """100 operations (50 products, 50 sines) on 16 elements, forward and backward."""
    import autograd
    import autograd.numpy as anp
    import torch

    rng = np.random.default_rng(0)
    a, b = rng.random(16), rng.random(16)

    def run(lib, x, w):
        y = x
        for _ in range(50):
            y = lib.sin(y * w)
        return y

    nx, nw = ng.tensor(a, requires_grad=True), ng.tensor(b, requires_grad=True)
    tx, tw = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    one_n, one_t = ng.ones(16), torch.ones(16, dtype=torch.float64)

    def engine(lib, x, w, one):
        def single():
            x.grad = w.grad = None
            run(lib, x, w).backward(one)

        def twice():
            x.grad = w.grad = None
            (g,) = lib.autograd.grad(run(lib, x, w), x, one, create_graph=True)
            g.backward(one)

        return twice if double else single

    grad = autograd.grad(lambda x, w: anp.sum(run(anp, x, w)), (0, 1))
    peers = {"nbgrad": engine(ng, nx, nw, one_n), "torch": engine(torch, tx, tw, one_t)}
    if double:
        outer = autograd.grad(lambda x, w: anp.sum(grad(x, w)[0]), (0, 1))
        peers["autograd"] = lambda: outer(a, b)
    else:
        peers["autograd"] = lambda: grad(a, b)
    return peers


def large_peers(kind: str) -> dict:
    """Elementwise work on 1e6 elements, forward and backward."""
    import torch

    rng = np.random.default_rng(0)
    x, w, b = rng.standard_normal((3, 1_000_000))

    def make(lib, tensor):
        xs = [tensor(v) for v in (x, w, b)]

        def affine():
            for t in xs:
                t.grad = None
            lib.tanh(xs[0] * xs[1] + xs[2]).sum().backward()

        def gauss():
            xs[0].grad = None
            (lib.exp(-xs[0] * xs[0]) * lib.sin(xs[0])).sum().backward()

        return affine if kind == "affine" else gauss

    return {
        "nbgrad": make(ng, lambda v: ng.tensor(v, requires_grad=True)),
        "torch": make(torch, lambda v: torch.tensor(v, requires_grad=True)),
    }


def graph_memory(n: int) -> tuple[float, float]:
    """Bytes per node of a chain on scalars, and backward seconds per node."""
    x = ng.tensor(1.0, requires_grad=True)
    y = x * 1.0
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(n):
        y = y * 1.0000001
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    start = time.perf_counter()
    y.backward()
    return used / n, (time.perf_counter() - start) / n


def process_times(code: str, rounds: int = 7) -> float:
    """Median of what a fresh process prints (seconds)."""
    out = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        out.append(float(done.stdout))
    return float(np.median(out))


IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
FIRST = (
    "import nbgrad as ng, time; t = time.perf_counter(); x = ng.tensor([1.0], requires_grad=True); "
    "(x * x).sin().sum().backward(); print(time.perf_counter() - t)"
)


def main() -> None:
    import torch

    torch.set_num_threads(threads.get_num_threads())
    table = Table("eager")
    table.add(
        "chain of 100 ops, 16 elements, fwd+bwd",
        compare(chain_peers(False)),
        "torch <= 1.0 (aim 0.7), autograd <= 0.2",
    )
    table.add(
        "the same, double backward",
        compare(chain_peers(True)),
        "torch <= 1.0 (aim 0.7), autograd <= 0.2",
    )
    table.add("tanh(x*w+b).sum(), 1e6, fwd+bwd", compare(large_peers("affine")), "torch <= 0.7")
    table.add("exp(-x*x)*sin(x), 1e6, fwd+bwd", compare(large_peers("gauss")), "torch <= 0.7")
    small, large = graph_memory(10_000), graph_memory(100_000)
    table.note("bytes per node, 1e5 nodes", large[0], "B", "<= 1024")
    table.note(
        "backward time per node, 1e5 over 1e4 nodes", large[1] / small[1], "x", "about 1 (linear)"
    )
    process_times(FIRST, 1)
    ours, numba = (process_times(IMPORT.format(m)) for m in ("nbgrad", "numba"))
    table.note("import nbgrad / import numba", ours / numba, "x", "<= 1.3")
    table.note(
        "first operations, fresh process, warm cache", process_times(FIRST) * 1e3, "ms", "<= 60"
    )
    table.save()


if __name__ == "__main__":
    main()
