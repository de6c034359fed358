"""Peers in processes of their own, measured alternately.

JAX, PyTorch and nbgrad in one process fight for the processor: each keeps a pool of threads. So every peer runs in a worker,
started once, which answers requests on pipes (``python peers.py PEER`` is such a worker); the others sleep meanwhile.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import statistics
import subprocess
import sys
import time
from typing import Any

from common import SETTLE, calibrate, seconds

THREADS = 2
HOST = {
    "folx": "jax",
    "jax dense": "jax",
    "manual": "programs",
    "tapenade": "programs",
}  # a peer's worker, if not its own


class PeerError(RuntimeError):
    """A worker's exception, with its traceback as text."""


def installed(peer: str) -> bool:
    """Whether a peer's package (or, for the C++ programs, a folder of them) is here."""
    if peer in ("manual", "tapenade"):
        return "GRADBENCH_TOOLS" in os.environ
    return importlib.util.find_spec(peer.split()[0]) is not None


def environment() -> dict[str, str]:
    """The environment of a worker: the same number of threads for everyone."""
    names = ("OMP", "MKL", "OPENBLAS", "NUMBA", "NBGRAD")
    return {**os.environ, **{f"{n}_NUM_THREADS": str(THREADS) for n in names}}


class Worker:
    """The near end of a worker process."""

    def __init__(self, peer: str):
        self.process = subprocess.Popen(
            [sys.executable, __file__, peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )

    def ask(self, *request: Any) -> Any:
        """Send a request, wait for the answer.

        Raises
        ------
        PeerError : the worker raised, or died.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            pickle.dump(request, self.process.stdin)
            self.process.stdin.flush()
            fine, answer = pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError):
            raise PeerError(f"the worker died (exit code {self.process.wait()})") from None
        if not fine:
            raise PeerError(answer)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Workers:
    """The workers by name, started when first needed."""

    def __init__(self) -> None:
        self.alive: dict[str, Worker] = {}

    def of(self, peer: str) -> Worker:
        """The worker that serves a peer."""
        name = HOST.get(peer, peer)
        if name not in self.alive or self.alive[name].process.poll() is not None:
            self.alive[name] = Worker(name)
        return self.alive[name]

    def close(self) -> None:
        """End all."""
        for worker in self.alive.values():
            worker.close()


def measure(
    workers: Workers, ways: list[tuple[str, str]], rounds: int, target: float
) -> dict[tuple[str, str], float]:
    """Median seconds per call of each (peer, formulation), measured alternately as `common.compare` does."""
    repeats = {way: workers.of(way[0]).ask("calibrate", *way, target) for way in ways}
    times: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            time.sleep(SETTLE)
            times[way].append(workers.of(way[0]).ask("seconds", *way, repeats[way]))
    return {way: statistics.median(t) for way, t in times.items()}


# -- the far end -----------------------------------------------------------------------------------------
def prepare(peer: str) -> None:
    """Threads and precision of a peer."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    if peer == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    elif peer == "torch":
        import torch

        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(THREADS)


class Server:
    """A worker's state: the case in hand and its formulations."""

    def __init__(self) -> None:
        self.case = ""
        self.ways: dict[tuple[str, str], Any] = {}
        self.data: Any = None

    def setup(self, name: str, peer: str) -> list[str]:
        """Build a peer's formulations of a case; their names."""
        from compile_cases import CASES

        case = CASES[name]
        if self.case != name:
            self.case, self.ways, self.data = name, {}, case.data()
        made = case.peers[peer](self.data)
        self.ways.update({(peer, way): fn for way, fn in made.items()})
        return list(made)

    def values(self, peer: str, way: str) -> list:
        """What a formulation computes, as a flat list of arrays."""
        from compile_cases.base import flat

        return flat(self.ways[peer, way]())

    def calibrate(self, peer: str, way: str, target: float) -> int:
        """How many calls take about ``target`` seconds."""
        fn = self.ways[peer, way]
        return 1 if hasattr(fn, "time") else calibrate(fn, target)

    def seconds(self, peer: str, way: str, repeat: int) -> float:
        """Seconds per call; a program that times itself says so with a method ``time``."""
        fn = self.ways[peer, way]
        if hasattr(fn, "time"):
            return fn.time()
        if repeat > 1:  # wake up; a call that fills the time alone needs no rehearsal
            fn()
        return seconds(fn, repeat)

    def explain(self, peer: str, way: str) -> str:
        """How nbgrad runs a formulation."""
        from compile_cases.base import schedule

        return schedule(self.ways[peer, way])


def serve(peer: str) -> None:
    """Answer requests until the pipe closes."""
    import traceback

    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a peer prints must not get into the answers
    prepare(peer)
    server = Server()
    while True:
        try:
            name, *args = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = (True, getattr(server, name)(*args))
        except Exception:
            answer = (False, traceback.format_exc())
        pickle.dump(answer, replies)
        replies.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
