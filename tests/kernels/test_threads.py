"""The number of threads from the environment."""

import os
import subprocess
import sys

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
