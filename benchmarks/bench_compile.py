"""Speed of compiled programs against JAX, PyTorch, folx and the hand-written C++ of GradBench, in one run.

    python benchmarks/bench_compile.py [--rounds 9] [--check] [--explain] [CASE ...]

Every peer runs in a process of its own with two threads (see `peers`); all peers' values must agree before anything is
timed; a peer's time is that of its fastest formulation. ``--check`` stops after the comparison of values. Peers that are
not installed are skipped. The C++ programs are looked for in ``$GRADBENCH_TOOLS`` (GradBench's folder ``tools``, with
``manual`` and ``tapenade`` built there: ``make bin/gmm MULTITHREADED=yes``).
"""

from __future__ import annotations

import argparse
import functools
import time
from typing import Any

import numpy as np
from common import Table
from compile_cases import CASES, Case
from compile_cases.processes import PROCESSES
from peers import PeerError, Workers, installed, measure


@functools.cache
def bandwidth() -> float:
    """Bytes a second of ``a = b + s * c`` on 1e7 elements, compiled by Numba with two threads (24 bytes an element)."""
    import numba

    numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))

    @numba.njit(parallel=True, fastmath=True)
    def triad(a: Any, b: Any, c: Any, s: float) -> None:
        for i in numba.prange(a.size):
            a[i] = b[i] + s * c[i]

    n = 10_000_000
    a, b, c = np.zeros(n), np.ones(n), np.ones(n)
    best = np.inf
    for _ in range(12):
        start = time.perf_counter()
        triad(a, b, c, 3.0)
        best = min(best, time.perf_counter() - start)
    return 24 * n / best


def check(workers: Workers, case: Case) -> list[tuple[str, str]]:
    """Build all formulations and compare their values with the first one's; those that may be timed."""
    ways: list[tuple[str, str]] = []
    reference: list[np.ndarray] | None = None
    for peer in case.peers:
        if not installed(peer):
            print(f"    {peer}: not installed, skipped")
            continue
        try:
            names = workers.of(peer).ask("setup", case.name, peer)
        except PeerError as error:
            print(f"    {peer}: FAILED to build\n{error}")
            continue
        for way in names:
            try:
                got = workers.of(peer).ask("values", peer, way)
            except PeerError as error:
                print(f"    {peer}, {way}: FAILED\n{error}")
                continue
            if reference is None:
                reference = got
            wrong = (peer, way) not in case.scale and difference(got, reference) > case.tolerance
            if wrong:
                print(f"    {peer}, {way}: WRONG VALUES, off by {difference(got, reference):.1e}")
            else:
                ways.append((peer, way))
    return ways


def difference(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """The largest difference, relative to the largest element of each array (or 1)."""
    if len(got) != len(want):
        return np.inf
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        if a.size != b.size:
            return np.inf
        scale = max(1.0, float(np.abs(b).max(initial=0.0)))
        worst = max(worst, float(np.abs(a.ravel() - b.ravel()).max(initial=0.0)) / scale)
    return worst


def wanted(case: Case, peer: str) -> str:
    """The goal and the aim against a peer in words."""
    least = f"{peer} >= {case.goals[peer]:g}x" if peer in case.goals else f"{peer}"
    return least + (f" (aim {case.aims[peer]:g}x)" if peer in case.aims else "")


def run(workers: Workers, case: Case, table: Table, args: argparse.Namespace) -> None:
    """Check, measure and report one case."""
    print(f"{case.name}: {case.title}", flush=True)
    ways = check(workers, case)
    if args.explain:
        for peer, way in ways:
            if peer == "nbgrad":
                print(f"    {way}: {workers.of(peer).ask('explain', peer, way)}")
    if args.check or not ways or ways[0][0] != "nbgrad":
        return
    times = measure(workers, ways, args.rounds, args.target)
    times = {way: t * case.scale.get(way, 1.0) for way, t in times.items()}
    best: dict[str, float] = {}
    for (peer, way), t in times.items():
        print(f"    {peer:9s} {way:28s} {t * 1e3:12.4f} ms")
        best[peer] = min(best.get(peer, np.inf), t)
    goal = ", ".join(wanted(case, peer) for peer in {**case.goals, **case.aims})
    row = table.add_factors(case.name, best, goal)
    row["formulations"] = {f"{peer}: {way}": t for (peer, way), t in times.items()}
    if case.traffic:
        part = case.traffic / best["nbgrad"] / bandwidth()
        table.note(
            f"{case.name}: part of {bandwidth() / 1e9:.1f} GB/s", part, "", ">= 0.7 (aim 0.85)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="the compiler against its peers")
    parser.add_argument("cases", nargs="*", help=f"of {', '.join([*CASES, *PROCESSES])}")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--target", type=float, default=0.05, help="seconds a measurement")
    parser.add_argument("--check", action="store_true", help="compare values only")
    parser.add_argument("--explain", action="store_true", help="say how nbgrad runs them")
    args = parser.parse_args()
    chosen = args.cases or [*CASES, *PROCESSES]
    unknown = [c for c in chosen if c not in CASES and c not in PROCESSES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join([*CASES, *PROCESSES])}")
    table, workers = Table("compile" if not args.cases else "compile_part"), Workers()
    try:
        for name in chosen:
            if name in CASES:
                run(workers, CASES[name], table, args)
            elif not args.check:
                PROCESSES[name](table, args.rounds)
    finally:
        workers.close()
        if not args.check:
            table.save()


if __name__ == "__main__":
    main()
