"""Machine code on disk: found by other processes, remade where it is damaged, never in the way."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
import nbgrad as ng

f = ng.compile(lambda x, w: (ng.tanh(x @ w) ** 2).sum())
x, w = np.linspace(-1, 1, 300).reshape(100, 3), ng.tensor(np.linspace(-1, 1, 6).reshape(3, 2), requires_grad=True)
y = f(x, w)
y.backward()
info = ng.cache_info()
print(y.item().hex(), w.grad.sum().item().hex(), info.misses, info.hits)
"""


def run(folder, text=PROGRAM):
    """Standard output of a fresh process with its cache in a folder."""
    env = os.environ | {
        "NBGRAD_CACHE_DIR": str(folder),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A filled cache, and what the process that filled it printed."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, run(folder)


def test_a_second_process_compiles_nothing(first):
    folder, before = first
    after = run(folder)
    assert int(before[2]) >= 2
    assert after[:2] == before[:2]
    assert int(after[2]) == 0 and int(after[3]) >= 2


@pytest.mark.parametrize("damage", ["emptied", "cut", "garbage"])
def test_damaged_entries_are_made_anew(first, tmp_path, damage):
    folder, before = first
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            broken = {"emptied": b"", "cut": data[: len(data) // 2], "garbage": b"?" * len(data)}
            (tmp_path / path.name).write_bytes(broken[damage])
    after = run(tmp_path)
    assert after[:2] == before[:2] and int(after[2]) >= 2
    assert int(run(tmp_path)[2]) == 0  # and replaced


def test_processes_may_fill_a_cache_at_once(first, tmp_path):
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: run(tmp_path), range(3)))
    assert all(r[:2] == first[1][:2] for r in results)
    assert not [p for p in tmp_path.rglob("*") if "tmp" in p.name]


def test_it_works_without_a_cache(first):
    assert run("off")[:2] == first[1][:2]


def test_a_changed_function_is_another_entry(first):
    folder, before = first
    other = run(folder, PROGRAM.replace("** 2", "** 4"))
    assert other[0] != before[0] and int(other[2]) >= 1


def test_clearing_and_looking(tmp_path):
    text = (
        PROGRAM
        + "now = ng.cache_info()\nprint(now.entries, now.bytes, ng.clear_cache(), ng.cache_info().entries)"
    )
    entries, size, removed, left = map(int, run(tmp_path, text)[4:])
    assert entries == removed >= 2 and size > 0 and left == 0
    assert not [p for p in Path(tmp_path).rglob("*") if p.is_file() and p.stat().st_size > 4096]
