"""What a fresh process tells: compile times of gradients and programs, without and with a cache on disk; memory.

Each figure comes from a child process (``python -m njit_cases.processes WHAT NAME``) that prints it.
"""

from __future__ import annotations

import json
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


def program(name: str) -> tuple[Callable, tuple[int, ...], tuple]:
    """A program that Numba may keep on disk, what to differentiate for, and small arguments."""
    from numba import njit

    from . import classics, heat, particles

    known: dict[str, tuple] = {
        "rosenbrock": (classics.rosenbrock, (0,), classics.rosenbrock_data),
        "lorenz": (classics.lorenz, (0, 1), classics.lorenz_data),
        "burgers": (classics.burgers, (0, 4), classics.burgers_data),
        "heat_swap": (heat.heat_swap, (0, 1), heat.data(1000)),
        "lennard_jones": (particles.lennard_jones, (0, 1, 2), particles.data(400)),
    }
    plain, argnums, data = known[name]
    return njit(cache=True)(plain.py_func), argnums, data(True)


NAMES = ("rosenbrock", "lorenz", "burgers", "heat_swap", "lennard_jones")


# -- in the child ----------------------------------------------------------------------------------------
def first_calls(name: str) -> dict[str, float]:
    """Seconds of imports, of the program's first call and of its gradient's, Numba's own start aside."""
    from numba import njit

    njit(lambda x: x + 1.0)(1.0)  # Numba and LLVM start with the first function
    start = time.perf_counter()
    import nbgrad as ng

    value_and_grad = ng.njit.value_and_grad
    imported = time.perf_counter()
    fn, argnums, args = program(name)
    began = time.perf_counter()
    fn(*args)
    ran = time.perf_counter()
    value_and_grad(fn, argnums)(*args)
    done = time.perf_counter()
    return {"import": imported - start, "primal": ran - began, "gradient": done - ran}


def memory(steps: str) -> dict[str, float]:
    """Bytes by which the peak resident size grows in a gradient through so many steps, compiled before."""
    import resource

    import nbgrad as ng

    from . import heat

    def current() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    gradient = ng.njit.value_and_grad(heat.heat_swap, (0, 1))
    start, a, _ = heat.data(1)(False)
    gradient(start, a, 10)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = current()
    gradient(start, a, int(steps))
    peak = 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    return {"bytes": peak - before}


# -- in the parent ---------------------------------------------------------------------------------------
def child(what: str, name: str, cache: str) -> dict[str, float] | None:
    """What a child process prints, or nothing if it failed."""
    from peers import environment

    env = {**environment(), "NUMBA_CACHE_DIR": cache, "NBGRAD_CACHE_DIR": cache}
    command = [sys.executable, "-m", "njit_cases.processes", what, name]
    done = subprocess.run(command, cwd=HERE, env=env, capture_output=True, text=True)
    if done.returncode:
        print(f"    {name}: FAILED: {done.stderr.strip().splitlines()[-1][:300]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def compile_times(table: Any, rounds: int) -> None:
    """first calls of programs and gradients in a fresh process, with an empty cache, then with a filled one"""
    for name in NAMES:
        cold, warm = [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                found = [child("first_calls", name, cache) for _ in range(2)]
            if None in found:
                break
            cold.append(found[0])
            warm.append(found[1])
        if not warm:
            continue
        middle = lambda rows, key: statistics.median(row[key] for row in rows)
        primal, gradient = middle(cold, "primal"), middle(cold, "gradient")
        table.note(f"compile, {name}: primal", primal, "s", "-")
        table.note(f"compile, {name}: gradient", gradient, "s", "-")
        table.note(f"compile, {name}: gradient / primal", gradient / primal, "x", "<= 4")
        table.note(f"compile, {name}: gradient, cached", middle(warm, "gradient"), "s", "<= 0.1")
        table.note(f"compile, {name}: import of nbgrad", middle(warm, "import"), "s", "-")


def peak_memory(table: Any, rounds: int) -> None:
    """memory of the gradient of the heat equation, 1000 cells"""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        print("    needs Linux's /proc, left out")
        return
    for steps in (1000, 100_000):
        with tempfile.TemporaryDirectory() as cache:
            found = child("memory", str(steps), cache)
        if found is not None:
            title = f"peak memory, heat_swap, {steps} steps"
            table.note(title, found["bytes"] / 1e6, "MB", "<= 20")


PROCESSES: dict[str, Callable[[Any, int], None]] = {
    "compile_times": compile_times,
    "peak_memory": peak_memory,
}

if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "2")
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
