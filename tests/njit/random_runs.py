"""Many random programs at once: what became of them, and failing ones made small."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import NamedTuple

from reducing import reduced


def kind_of(result: str) -> str:
    """A result without the numbers of the case, to compare failures of programs."""
    return result.split("Mismatched")[0][:80]


class Programs(NamedTuple):
    """Programs from seeds, and the check of one: ``outcome(text, seed, run, second)``."""

    text_of: Callable
    argnums_of: Callable
    outcome: Callable

    def shown(self, seed: int, run, second: bool = True) -> str:
        """A failing program, reduced, and how it fails."""
        text = self.text_of(seed)
        result = lambda t: self.outcome(t, seed, run, second)
        first = result(text)
        if first.startswith("wrong"):
            kind = kind_of(first)
            text = reduced(text, lambda t: kind_of(result(t)) == kind, attempts=400)
        return f"seed {seed}, argnums {self.argnums_of(seed)}: {result(text)}\n{text}\n"

    def run_all(self, seeds, run, every: int) -> collections.Counter:
        """How many were right, rejected, skipped; none may be wrong. Every so many are checked in second order."""
        counts, wrong = collections.Counter(), []
        for seed in seeds:
            result = self.outcome(self.text_of(seed), seed, run, second=seed % every == 0)
            counts[result.split(":")[0]] += 1
            if result.startswith("wrong"):
                wrong.append(seed)
        small = (self.shown(s, run, s % every == 0) for s in wrong[:2])
        assert not wrong, f"{wrong}\n" + "\n".join(small)
        return counts
