"""Random programs with prange: derivatives equal those of the same text with range, whatever order iterations run in.

Most run as plain Python with every access watched (see ``parallel_mode``), a few compiled, with two threads.
``NBGRAD_FUZZ=N`` runs N programs, one in twenty of them compiled; ``python tests/njit/test_random_parallel.py SEED`` checks
one, and prints it reduced when it fails.
"""

import functools
import os
import sys

import numba
import parallel_mode
import pytest
from random_found import PARALLEL
from random_parallel import argnums_of, arguments, text_of
from random_programs import load
from random_runs import Programs
from test_random_njit import directly, judged

LONG = int(os.environ.get("NBGRAD_FUZZ", "0"))
GROUPS = 4
PROGRAMS = (LONG or 120) // GROUPS
COMPILED = LONG // 20 or 2
SECOND = 4


def outcome(text: str, seed: int, run=None, second: bool = False) -> str:
    """What became of a program: see ``test_random_njit.check``."""
    run = run or functools.partial(parallel_mode.call, seed=seed)
    f = load(text, prange=numba.prange)
    return judged(f, arguments(seed), argnums_of(seed), seed, run, second)


RANDOM = Programs(text_of, argnums_of, outcome)


@pytest.mark.parametrize("what", PARALLEL)
def test_programs_that_were_wrong(what):
    seed, text = PARALLEL[what]
    assert outcome(text, seed, second=True) == "right"


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs(group):
    seeds = range(group * PROGRAMS, (group + 1) * PROGRAMS)
    counts = RANDOM.run_all(seeds, None, SECOND)
    assert counts["rejected"] <= 0.05 * len(seeds), counts
    assert counts["skipped"] <= 0.25 * len(seeds), counts


def test_compiled_random_programs():
    before = numba.get_num_threads()
    numba.set_num_threads(2)
    try:
        counts = RANDOM.run_all(range(1, COMPILED + 1), directly, every=100)
    finally:
        numba.set_num_threads(before)
    assert counts["right"] >= COMPILED // 2, counts


if __name__ == "__main__":
    print(RANDOM.shown(int(sys.argv[1]), directly if "compiled" in sys.argv else None))
