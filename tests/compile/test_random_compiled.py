"""Random programs: eager, replayed, compiled (all threads, one thread, called from Numba) and differentiated runs agree.

``NBGRAD_FUZZ=N`` runs N programs of each kind; ``python tests/compile/test_random_compiled.py SEED KIND``
prints one and repeats its comparison.
"""

import os
import sys

import numpy as np
import pytest
from comparison import Checks
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from programs import build

LONG = int(os.environ.get("NBGRAD_FUZZ", "0"))
KINDS = {
    "values": 80,
    "native": 15,
    "gradient": 24,
    "tangent": 15,
    "second": 10,
    "resized": 12,
}


def program(seed: int):
    """The program of a seed: every third one in float32, every fifth with NaN and infinities in its inputs."""
    with np.errstate(all="ignore"):
        return build(seed, "float32" if seed % 3 == 2 else "float64", special=seed % 5 == 4)


def check(seed: int, kind: str) -> None:
    """One kind of comparison; a failure shows the program."""
    p = program(seed)
    try:
        getattr(Checks(p), kind)()
    except Exception as error:
        error.add_note(f"{kind} of the program of seed {seed}:\n{p}")
        raise


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind):
    @settings(
        max_examples=LONG or KINDS[kind],
        deadline=None,
        derandomize=not LONG,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        check(seed, kind)

    run()


if __name__ == "__main__":
    print(program(int(sys.argv[1])))
    check(int(sys.argv[1]), sys.argv[2])
