"""Adjoints of random CUDA kernels, in the simulator."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_random_kernels():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "sim_random.py"],
        cwd=Path(__file__).parent / "sim",
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed", run.stdout)
