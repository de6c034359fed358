"""Workers that serve the cases of `nbgrad.njit`; see `peers`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
sys.path.insert(0, str(HERE))

import peers  # noqa: E402


class Worker(peers.Worker):
    """The near end of a worker of these cases."""

    def __init__(self, peer: str):
        self.process = subprocess.Popen(
            [sys.executable, __file__, peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=peers.environment(),
        )


class Workers(peers.Workers):
    """The workers by name, started when first needed."""

    def of(self, peer: str) -> peers.Worker:
        name = peers.HOST.get(peer, peer)
        if name not in self.alive or self.alive[name].process.poll() is not None:
            self.alive[name] = Worker(name)
        return self.alive[name]


class Server(peers.Server):
    """A worker's state: the case in hand and its formulations."""

    def setup(self, name: str, peer: str, small: bool = False) -> list[str]:
        """Build a peer's formulations of a case; their names."""
        from njit_cases import CASES

        self.found = CASES[name]
        if self.case != (name, small):
            self.case, self.ways = (name, small), {}
            self.data = self.found.data(small)
        make = self.found.ways if peer == "nbgrad" else self.found.peers[peer]
        made = make(self.data)
        self.ways.update({(peer, way): fn for way, fn in made.items()})
        return list(made)

    def error(self, peer: str, way: str) -> float:
        """The error of a formulation's result by the case's own check."""
        from compile_cases.base import flat

        return self.found.check(self.data, flat(self.ways[peer, way]()))

    def values(self, peer: str, way: str) -> list:
        """What a formulation computes, or the part of it that peers also give."""
        got = super().values(peer, way)
        whole = self.found.view is None or peer in ("manual", "tapenade") or way == "primal"
        return got if whole else self.found.view(got)


def main(peer: str) -> Any:
    """The far end."""
    peers.Server = Server  # type: ignore[misc]  # what `serve` makes one of
    peers.serve(peer)


if __name__ == "__main__":
    main(sys.argv[1])
