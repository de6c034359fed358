"""Derivatives of @njit programs against the programs themselves, hand-written derivatives and other tools, in one run.

    python benchmarks/bench_njit.py [--quick] [--peers] [--rounds 7] [CASE ...]

Every derivative is first checked on a small instance (differences, or the values that ADBench's tests expect), then compared
with the other ones on the instance that is timed. ``--peers`` adds JAX, PyTorch, NumPy and, found in ``$GRADBENCH_TOOLS`` (see
`bench_compile`), GradBench's C++ programs; ``--quick`` measures little. ADBench's instances are in ``$ADBENCH_DATA``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from bench_compile import difference
from common import Table
from njit_cases import CASES, NjitCase
from njit_cases.processes import PROCESSES
from njit_cases.workers import Workers
from peers import PeerError, installed, measure

OURS = "nbgrad"


def small_check(workers: Workers, case: NjitCase) -> dict[str, str]:
    """The formulations of ours that are wrong on a small instance, and how."""
    bad: dict[str, str] = {}
    if case.check is None:
        return bad
    for way in workers.of(OURS).ask("setup", case.name, OURS, True):
        if way == "primal":
            continue
        try:
            error = workers.of(OURS).ask("error", OURS, way)
        except PeerError as failure:
            bad[way] = f"FAILED: {last_line(failure)}"
            continue
        if not error <= case.check_tolerance:
            bad[way] = f"WRONG: off by {error:.1e}"
    return bad


def last_line(error: PeerError) -> str:
    """What an exception says, without its traceback."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    named = [
        k for k, line in enumerate(lines) if line.split(":")[0].endswith(("Error", "Exception"))
    ]
    return " ".join(lines[named[-1] :])[:400] if named else lines[-1][:400]


def build(
    workers: Workers, case: NjitCase, peers: list[str], bad: dict[str, str]
) -> list[tuple[str, str]]:
    """Formulations that agree with each other on the instance to be timed."""
    ways: list[tuple[str, str]] = []
    reference: list[np.ndarray] | None = None
    for peer in [OURS, *peers]:
        try:
            names = workers.of(peer).ask("setup", case.name, peer, False)
        except PeerError as failure:
            print(f"    {peer}: not built: {last_line(failure)}", flush=True)
            continue
        for way in names:
            if peer == OURS and way in bad:
                print(f"    {way}: {bad[way]}", flush=True)
                continue
            try:
                got = workers.of(peer).ask("values", peer, way)
            except PeerError as failure:
                print(f"    {peer}, {way}: FAILED: {last_line(failure)}", flush=True)
                continue
            compared = way != "primal" and (peer, way) not in case.scale
            reference = got if reference is None and compared else reference
            off = difference(got, reference) if compared and reference is not None else 0.0
            if off <= case.tolerance:
                ways.append((peer, way))
            else:
                print(f"    {peer}, {way}: WRONG VALUES, off by {off:.1e}", flush=True)
    return ways


def report(case: NjitCase, times: dict[tuple[str, str], float], table: Table) -> None:
    """A row: the primal, the best derivative, their ratio; the peers' derivatives."""
    primal = times[OURS, "primal"]
    for (peer, way), t in times.items():
        print(f"    {peer:9s} {way:28s} {t * 1e3:12.4f} ms  {t / primal:8.2f} x primal", flush=True)
    best: dict[str, float] = {}
    for (peer, way), t in times.items():
        if way != "primal":
            name = "by hand" if (peer, way) == (OURS, "by hand") else peer
            best[name] = min(best.get(name, np.inf), t)
    ours = best.get(OURS)
    row: dict[str, Any] = {"title": case.name, "primal": primal, "seconds": best}
    row["goal"] = case.goal
    row["formulations"] = {f"{p}: {w}": t for (p, w), t in times.items()}
    if ours is not None:
        row["ratio"] = ours / primal
        row["peer_over_ours"] = {k: t / ours for k, t in best.items() if k != OURS}
    table.rows.append(row)


def summary(rows: list[dict]) -> None:
    """All rows as a table; a peer's factor says how much slower than ours it is."""
    columns = ("primal", "derivative", "ratio", "goal", "by hand")
    print(f"\n{'case':20s}" + "".join(f"{c:>12s}" for c in columns) + "  peers")
    for row in rows:
        if "primal" not in row:
            print(f"{row['title']:52s} {row['value']:.3g} {row['unit']}   goal: {row['goal']}")
            continue
        best, wanted = row["seconds"], CASES[row["title"]].goals
        number = lambda v, unit="": "-" if v is None else f"{v:.3f}{unit}"
        hand = best["by hand"] / row["primal"] if "by hand" in best else None
        ours = 1e3 * best[OURS] if OURS in best else None
        cells = [number(1e3 * row["primal"], " ms"), number(ours, " ms")]
        cells += [number(row.get("ratio")), number(row["goal"]), number(hand)]
        others = []
        for peer in (p for p in best if p not in (OURS, "by hand")):
            text = f"{peer} {best[peer] * 1e3:.3g} ms"
            if ours is not None:
                goal = f", goal {wanted[peer]:g}x" if peer in wanted else ""
                text += f" ({row['peer_over_ours'][peer]:.2f}x{goal})"
            others.append(text)
        print(
            f"{row['title']:20s}" + "".join(f"{c:>12s}" for c in cells) + "  " + "  ".join(others)
        )


def run(workers: Workers, case: NjitCase, table: Table, args: argparse.Namespace) -> None:
    """Check, measure and report one case."""
    try:
        bad = small_check(workers, case)
    except PeerError as failure:
        print(f"    left out: {last_line(failure)}", flush=True)
        return
    peers = []
    for peer in case.peers if args.peers else ():
        if installed(peer):
            peers.append(peer)
        else:
            print(f"    {peer}: not installed, left out", flush=True)
    ways = build(workers, case, peers, bad)
    if (OURS, "primal") not in ways:
        return
    rounds, target = (3, 0.02) if args.quick else (args.rounds, args.target)
    times = measure(workers, ways, rounds, target)
    report(case, {way: t * case.scale.get(way, 1.0) for way, t in times.items()}, table)


def main() -> None:
    parser = argparse.ArgumentParser(description="derivatives of @njit programs")
    parser.add_argument("cases", nargs="*", help=f"of {', '.join([*CASES, *PROCESSES])}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--target", type=float, default=0.05, help="seconds a measurement")
    parser.add_argument("--peers", action="store_true", help="measure other tools as well")
    parser.add_argument("--quick", action="store_true", help="few and short measurements")
    args = parser.parse_args()
    chosen = args.cases or [*CASES, *PROCESSES]
    unknown = [c for c in chosen if c not in CASES and c not in PROCESSES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join([*CASES, *PROCESSES])}")
    whole = not args.cases and not args.quick
    table, workers = Table("njit"), Workers()
    start = time.perf_counter()
    try:
        for k, name in enumerate(chosen):
            title = CASES[name].title if name in CASES else PROCESSES[name].__doc__
            passed = time.perf_counter() - start
            print(f"[{k + 1}/{len(chosen)}, {passed:.0f} s] {name}: {title}", flush=True)
            if name in CASES:
                run(workers, CASES[name], table, args)
            else:
                PROCESSES[name](table, 1 if args.quick else 3)
    finally:
        workers.close()
        summary(table.rows)
        if whole:
            table.save()


if __name__ == "__main__":
    main()
