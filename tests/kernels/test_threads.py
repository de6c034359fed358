"""The number of threads from the environment."""

import os
import subprocess
import sys
import threading

import pytest

from kernels_cpu.threads import _from_environment


@pytest.mark.parametrize("text", ["abc", "-3", "1.5"])
def test_a_wrong_number_names_the_variable(text):
    with pytest.raises(ValueError, match=r"NBGRAD_NUM_THREADS is .*expected an integer >= 0"):
        _from_environment(text)


def test_numbers_and_defaults():
    assert _from_environment("3") == 3
    assert _from_environment("") == _from_environment("0") == min(os.cpu_count() or 1, 16)


def test_the_variable_is_read():
    code = "from kernels_cpu import threads; print(threads.get_num_threads())"
    env = {**os.environ, "NBGRAD_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "2", done.stderr


def test_jobs_run_at_once_and_errors_arrive():
    from kernels_cpu import threads

    meet = threading.Barrier(2, timeout=20)
    threads.parallel([meet.wait, meet.wait])  # each waits for the other: they must overlap

    def fail():
        raise KeyError("from a worker")

    done = []
    with pytest.raises(KeyError, match="from a worker"):
        threads.parallel([lambda: done.append(1), fail])
    threads.parallel([lambda: done.append(2), lambda: done.append(3)])
    assert sorted(done) == [1, 2, 3]


def test_a_region_inside_a_region_runs_in_its_own_thread():
    from kernels_cpu import threads

    seen = []

    def inner():
        threads.parallel([lambda: seen.append(1), lambda: seen.append(2)])

    threads.parallel([inner, inner])
    assert sorted(seen) == [1, 1, 2, 2]


def test_changing_the_number_of_threads_keeps_results():
    import numpy as np

    import nbgrad as ng
    from kernels_cpu import threads

    x = ng.tensor(np.linspace(-3, 3, 700_001))
    before = threads.get_num_threads()
    results = []
    try:
        for n in (1, 3, 2, 1):
            threads.set_num_threads(n)
            results.append(((x * x).tanh().numpy(), float(x.sum())))
    finally:
        threads.set_num_threads(before)
    for values, _ in results[1:]:
        np.testing.assert_array_equal(values, results[0][0])
