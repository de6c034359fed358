"""Adjoints of CUDA kernels: in the simulator against the CPU (one process), and compiled for real devices."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import cuda, types

import nbgrad as ng
from nbgrad.errors import ArgumentError, DTypeError, UnsupportedError

HERE = Path(__file__).parent
sys.path += [str(HERE / "sim"), str(HERE.parent / "cuda")]

from cuda_kernels import cases, elementwise, histogram, strided  # noqa: E402
from toolchain import TARGETS, assemble  # noqa: E402

KERNELS = {c.kernel.__name__: c for c in cases()}


def test_simulated():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "sim_adjoints.py"],
        cwd=HERE / "sim",
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed", run.stdout)
    assert "skipped" not in run.stdout


def narrow(t):
    """A type with float32 in place of float64."""
    if isinstance(t, types.Array):
        return t.copy(dtype=types.float32) if t.dtype == types.float64 else t
    return types.float32 if t == types.float64 else t


def kinds_of(case):
    return [ng.njit.cuda.kind_of(a) for a in case.args]


@pytest.mark.parametrize("name", KERNELS)
def test_compiles_for_devices(name, tmp_path):
    case = KERNELS[name]
    adj = ng.njit.cuda.vjp(case.kernel, sorted({*case.made, *case.wrt}), **case.options)
    axes = {"stencil": "xy", "in_space": "xyz"}.get(name, "x")
    text = adj.ptx(kinds_of(case), (8, 0), axes)
    for cc in TARGETS:
        report = assemble(text, cc, tmp_path)
        assert report.spills == 0
    shared = name not in ("elementwise", "newton", "in_place", "in_space", "engine_functions")
    assert bool(re.search(r"(atom|red)\S*\.add\.f64", text)) == shared


SINGLE = """
import math
from numba import cuda
from numba.cuda import grid
@cuda.jit
def wave(x, w, y):
    i = grid(1)
    if i < x.size:
        s = x[i] * w[0] + w[1]
        if s > w[2]:
            s = s * math.exp(-s * s)
        y[i] = math.tanh(s) / w[3]
"""


def test_float32_stays_float32(tmp_path):
    path = tmp_path / "wave_kernel.py"
    path.write_text(SINGLE)
    sys.path.insert(0, str(tmp_path))
    try:
        from wave_kernel import wave
    finally:
        sys.path.remove(str(tmp_path))
    line = types.Array(types.float32, 1, "C")
    adj = ng.njit.cuda.vjp(wave)
    report = assemble(adj.ptx([line] * 3, (9, 0)), (9, 0), tmp_path)
    assert report.float64 == 0
    assert re.search(r"(atom|red)\S*\.add\.f32", report.ptx)


def test_only_the_thread_itself_adds_to_its_element():
    kinds = kinds_of(KERNELS["elementwise"])
    assert "atomic" not in ng.njit.cuda.vjp(elementwise).source(kinds)
    text = ng.njit.cuda.vjp(strided).source(kinds_of(KERNELS["strided"]))
    assert "atomic.add(d_x" not in text
    assert "atomic.add(d_a" in text


def test_a_launch_in_two_dimensions_of_a_kernel_for_a_line():
    """Threads with the same x share an element."""
    text = ng.njit.cuda.vjp(elementwise).source(kinds_of(KERNELS["elementwise"]), "xy")
    assert "atomic.add(d_x" in text


def test_stores_of_the_kernel_are_not_repeated():
    text = ng.njit.cuda.vjp(elementwise).source(kinds_of(KERNELS["elementwise"]))
    assert not re.search(r"\by\[", text)


# -- mistakes ----------------------------------------------------------------------------------------------------


@cuda.jit
def reversed_in_shared_memory(x, y):
    t = cuda.shared.array(32, np.float64)
    i = cuda.grid(1)
    t[i] = x[i]
    cuda.syncthreads()
    y[i] = t[31 - i]


@cuda.jit
def reads_its_sum(x, y):
    i = cuda.grid(1)
    cuda.atomic.add(y, 0, x[i])
    x[i] = y[0]


@cuda.jit
def uses_the_old_value(x, y):
    i = cuda.grid(1)
    old = cuda.atomic.add(y, 0, x[i])
    x[i] = old


def refused(kernel, text):
    line = types.Array(types.float64, 1, "C")
    with pytest.raises(UnsupportedError, match=text):
        ng.njit.cuda.vjp(kernel).source([line, line])


def test_threads_that_work_together_are_refused():
    refused(
        reversed_in_shared_memory,
        r"shared memory .*Write the kernel so that each thread works by itself",
    )


def test_what_depends_on_the_order_of_threads_is_refused():
    refused(reads_its_sum, "depends on the order of the threads")
    refused(uses_the_old_value, "depends on the order of threads")


def test_wrong_arguments():
    with pytest.raises(ArgumentError, match="argnums"):
        ng.njit.cuda.vjp(elementwise, 3)
    with pytest.raises(ArgumentError, match="tape"):
        ng.njit.cuda.vjp(elementwise, tape=0)
    with pytest.raises(DTypeError, match="kernel"):
        ng.njit.cuda.vjp(3)
    with pytest.raises(ArgumentError, match="launch"):
        ng.njit.cuda.vjp(elementwise)[4]
    x = np.zeros(3)
    with pytest.raises(
        ArgumentError, match="3 arguments of 'elementwise' and a shadow for each of"
    ):
        ng.njit.cuda.vjp(elementwise)[1, 3](x, x, x)
    with pytest.raises(DTypeError, match="shadow of argument 1"):
        ng.njit.cuda.vjp(elementwise)[1, 3](x, x, x, x, x.astype(np.float32), x)
    with pytest.raises(DTypeError, match="argument 1"):
        ng.njit.cuda.vjp(histogram, 1).source(kinds_of(KERNELS["histogram"]))
