"""What a fresh process tells: compile times, the time to the first result, peak memory of a compiled residual step.

Each figure comes from a child process (``python -m compile_cases.processes NAME ARGUMENT ...``) that prints it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
LENGTHS = (500, 1000, 2000, 5000)
POINTS = (10_000, 100_000, 1_000_000)


def burgers_step(peer: str, points: int) -> Any:
    """The compiled Burgers step of the table, in each peer's best formulation."""
    from . import residuals

    arrays = residuals.data(points)()
    if peer == "nbgrad":
        return residuals.nbgrad_ways(residuals.burgers, 2)(arrays)["pde"]
    return residuals.jax_ways(residuals.burgers, 2)(arrays)["jvp of jvp"]


# -- in the child ----------------------------------------------------------------------------------------
def cold(peer: str) -> float:
    """Seconds of the first call, compilation included, less those of a later one."""
    if peer == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    step = burgers_step(peer, 10_000)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return times[0] - min(times[1:])


def first(peer: str) -> float:
    """Seconds from before the import to the first result of a step on 1000 points."""
    start = time.perf_counter()
    if peer == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    burgers_step(peer, 1000)()
    return time.perf_counter() - start


def growth(kind: str, length: str) -> float:
    """Seconds to trace and compile a program of about so many instructions."""
    import numpy as np

    import nbgrad as ng

    rng = np.random.default_rng(0)
    x = ng.tensor(rng.standard_normal((256, 20)))
    w, b = ng.tensor(rng.standard_normal((20, 20)) / 5), ng.tensor(rng.standard_normal(20))

    def elementwise(x: Any) -> Any:
        h = x
        for _ in range(int(length) // 4):
            h = ng.sin(h * b) * 0.5 + x
        return h

    def layers(x: Any) -> Any:
        h = x
        for _ in range(int(length) // 4):
            h = ng.tanh(h @ w + b) + x
        return h

    def gradient(x: Any) -> Any:
        def f(x: Any) -> Any:
            h = x
            for _ in range(int(length) // 9):  # five instructions of a step are the gradient's
                h = ng.tanh(h @ w + b) + x
            return h.sum()

        return ng.func.grad(f)(x)

    made = {"elementwise": elementwise, "layers": layers, "gradient": gradient}[kind]
    compiled = ng.compile(made)
    start = time.perf_counter()
    compiled(x)
    seconds = time.perf_counter() - start
    print("instructions", len(compiled.program(x).tape.instructions), file=sys.stderr)
    return seconds


def memory(points: str) -> float:
    """Bytes by which the peak resident size exceeds what stood before the call, in a step compiled before."""
    import resource

    def current() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    small = burgers_step("nbgrad", 1000)
    small()  # libraries are loaded, threads started
    step = burgers_step("nbgrad", int(points))
    step.fn.program(*step.args).runner.compile()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = current()
    step()
    status = Path("/proc/self/status").read_text()
    peak = 1024 * int(status.split("VmHWM:")[1].split()[0])
    return peak - before


# -- in the parent ---------------------------------------------------------------------------------------
def child(*arguments: str, cache: str | None = None) -> float:
    """What a child process prints."""
    from peers import environment

    env = environment()
    if cache is not None:
        env["NBGRAD_CACHE_DIR"] = cache
    command = [sys.executable, "-m", "compile_cases.processes", *arguments]
    done = subprocess.run(command, cwd=HERE, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def compile_cold(table: Any, rounds: int) -> None:
    """The Burgers step, alternately with JAX; nothing on disk for either."""
    from peers import installed

    peers = [p for p in ("nbgrad", "jax") if installed(p)]
    times: dict[str, list[float]] = {p: [] for p in peers}
    for _ in range(min(rounds, 5)):
        for p in peers:
            with tempfile.TemporaryDirectory() as empty:
                times[p].append(child("cold", p, cache=empty))
    medians = {p: statistics.median(t) for p, t in times.items()}
    table.add_factors("compile_cold", medians, "jax >= 0.67x (aim 1x)")


def warm_start(table: Any, rounds: int) -> None:
    """A second process with everything on disk."""
    with tempfile.TemporaryDirectory() as cache:
        child("first", "nbgrad", cache=cache)
        times = [child("first", "nbgrad", cache=cache) for _ in range(min(rounds, 7))]
    table.note("warm_start", 1e3 * statistics.median(times), "ms", "<= 150")


def compile_growth(table: Any, rounds: int) -> None:
    """Cold compile times over tape length, for three kinds of program."""
    for kind in ("elementwise", "layers", "gradient"):
        times = {}
        for length in LENGTHS:
            with tempfile.TemporaryDirectory() as empty:
                times[length] = child("growth", kind, str(length), cache=empty)
        for length, t in times.items():
            table.note(f"compile_growth, {kind}, {length} instructions", t, "s", "< 60 at 5000")
        ratio = times[LENGTHS[-1]] / times[LENGTHS[0]] * LENGTHS[0] / LENGTHS[-1]
        table.note(f"compile_growth, {kind}, per instruction", ratio, "x", "about 1 (linear)")


def peak_memory(table: Any, rounds: int) -> None:
    """Peak memory of a compiled Burgers step beyond its inputs."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        print("    peak_memory: needs Linux's /proc, skipped")
        return
    peaks = {n: child("memory", str(n)) for n in POINTS}
    for n, peak in peaks.items():
        table.note(f"peak_memory, {n:,} points", peak / 1e6, "MB", "the same for all")
    slope = (peaks[POINTS[-1]] - peaks[POINTS[0]]) / (POINTS[-1] - POINTS[0])
    table.note("peak_memory, a point more", slope, "B", "0")


PROCESSES: dict[str, Callable[[Any, int], None]] = {
    "compile_cold": compile_cold,
    "warm_start": warm_start,
    "compile_growth": compile_growth,
    "peak_memory": peak_memory,
}

if __name__ == "__main__":
    print(globals()[sys.argv[1]](*sys.argv[2:]))
