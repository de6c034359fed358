"""Measuring ratios on a noisy machine: peers alternate in one run, medians of several rounds."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SETTLE = 0.4  # seconds
RESULTS = Path(__file__).parent / "results"


def seconds(fn: Callable[[], Any], repeat: int) -> float:
    """Wall time of one call, averaged over ``repeat`` calls."""
    start = time.perf_counter()
    for _ in range(repeat):
        fn()
    return (time.perf_counter() - start) / repeat


def calibrate(fn: Callable[[], Any], target: float = 0.05) -> int:
    """How many calls take about ``target`` seconds."""
    fn()
    return max(1, int(target / max(seconds(fn, 1), 1e-9)))


def compare(
    peers: dict[str, Callable[[], Any]], rounds: int = 9, target: float = 0.05
) -> dict[str, float]:
    """Median seconds per call of each peer, measured alternately."""
    repeats = {name: calibrate(fn, target) for name, fn in peers.items()}
    times: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name, fn in peers.items():
            # OpenMP workers of the peer before keep a core busy for a while after their last region
            time.sleep(SETTLE)
            fn()
            times[name].append(seconds(fn, repeats[name]))
    return {name: statistics.median(t) for name, t in times.items()}


class Table:
    """Rows of a benchmark: times and ratios to nbgrad, printed and kept as JSON."""

    def __init__(self, name: str):
        self.name, self.rows = name, []

    def add(self, title: str, times: dict[str, float], goal: str) -> None:
        """Add a row of median times in seconds; the first key is ours."""
        ours = next(iter(times.values()))
        ratios = {k: ours / v for k, v in times.items()}
        self.rows.append({"title": title, "seconds": times, "ours_over_peer": ratios, "goal": goal})
        text = "  ".join(
            f"{k} {v * 1e6:.1f} us" + ("" if v == ours else f" (ours/peer {ours / v:.2f})")
            for k, v in times.items()
        )
        print(f"{title:52s} {text}   goal: {goal}", flush=True)

    def add_factors(self, title: str, times: dict[str, float], goal: str) -> dict[str, Any]:
        """As `add`, with the factors by which we are faster; returns the row."""
        ours = next(iter(times.values()))
        row = {
            "title": title,
            "seconds": times,
            "peer_over_ours": {k: v / ours for k, v in times.items()},
            "goal": goal,
        }
        self.rows.append(row)
        text = "  ".join(
            f"{k} {v * 1e3:.4g} ms" + ("" if v == ours else f" ({v / ours:.2f}x)")
            for k, v in times.items()
        )
        print(f"{title:20s} {text}   goal: {goal}", flush=True)
        return row

    def note(self, title: str, value: float, unit: str, goal: str) -> None:
        """Add a single figure."""
        self.rows.append({"title": title, "value": value, "unit": unit, "goal": goal})
        print(f"{title:52s} {value:.3g} {unit}   goal: {goal}", flush=True)

    def save(self) -> None:
        """Write ``results/<name>.json`` with versions and machine."""
        RESULTS.mkdir(exist_ok=True)
        packages = {}
        for p in (
            "nbgrad",
            "numpy",
            "numba",
            "llvmlite",
            "scipy",
            "torch",
            "autograd",
            "jax",
            "folx",
        ):
            try:
                packages[p] = importlib.metadata.version(p)
            except importlib.metadata.PackageNotFoundError:
                continue
        data = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "packages": packages,
            "rows": self.rows,
        }
        (RESULTS / f"{self.name}.json").write_text(json.dumps(data, indent=1) + "\n")
