"""Behaviour of the CUDA backend in numba's simulator, compared with the CPU.

The simulator is chosen when numba is first imported, so each category of kernels runs in a process of its own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "sim"
CATEGORIES = sorted(p.stem for p in HERE.glob("sim_*.py"))


def test_every_category_is_here():
    assert [
        f"sim_{name}"
        for name in ("autograd", "copy", "elementwise", "index", "matmul", "process", "reduce")
    ] == CATEGORIES


@pytest.mark.parametrize("category", CATEGORIES)
def test_simulated(category):
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"{category}.py"],
        cwd=HERE,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed", run.stdout)
    assert "skipped" not in run.stdout
