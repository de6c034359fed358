"""The C++ programs of GradBench as peers: they read an input as JSON and time themselves."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .base import mapped


class Program:
    """A function of one of the programs in ``$GRADBENCH_TOOLS/<tool>/bin`` on one input."""

    def __init__(
        self, tool: str, module: str, function: str, given: dict, outputs: Callable, threads: int
    ):
        self.path = Path(os.environ["GRADBENCH_TOOLS"]) / tool / "bin" / module
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path}: build it with make")
        self.function, self.given, self.outputs = function, given, outputs
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}

    def run(self, seconds: float) -> list:
        """The lines of one run: the output, then timings."""
        given = {"min_runs": 1, "min_seconds": seconds, **self.given}
        given = mapped(lambda a: a.tolist() if isinstance(a, np.ndarray) else a, given)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(given, f)
            f.flush()
            command = [str(self.path), f.name, self.function]
            done = subprocess.run(
                command, env=self.environment, capture_output=True, text=True, check=True
            )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def __call__(self) -> Any:
        return [np.asarray(a) for a in self.outputs(self.run(0.0)[0])]

    def time(self) -> float:
        """Median seconds of an evaluation."""
        lines = self.run(0.2)[1:]
        return 1e-9 * statistics.median(t["nanoseconds"] for t in lines if t["name"] == "evaluate")


def program_ways(module: str, function: str, given: Callable, outputs: Callable) -> dict:
    """The peers ``manual`` and ``tapenade``."""

    def ways(tool: str) -> Callable[[Any], dict]:
        return lambda data: {
            f"C++, OMP_NUM_THREADS={n}": Program(tool, module, function, given(data), outputs, n)
            for n in (1, 2)
        }

    return {tool: ways(tool) for tool in ("manual", "tapenade")}
