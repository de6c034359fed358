"""Machine code of derivatives on disk: found again by other processes, and never after something below has changed."""

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import nbgrad as ng
from nbgrad.njit.fingerprint import fingerprint

CONSTANTS = "RATE = {rate}\n"
CALLEES = """
from numba import njit
@njit
def power(x):
    return x ** {power}
"""
MODEL = """
import numpy as np, constants, nbgrad as ng
from numba import njit
from callees import power
SCALE = {scale}

def make(shift):
    def moved(x):
        return np.sin(x + shift)
    return njit(moved)

@njit
def callee(x):
    return power(x)

@njit
def constant(x):
    return SCALE * x * x

@njit
def attribute(x):
    return constants.RATE * x * x

closure = make({shift})
by_callee, by_constant = ng.njit.grad(callee), ng.njit.grad(constant)
by_attribute, by_closure = ng.njit.grad(attribute), ng.njit.grad(closure)
"""
CALLER = """
import json, sys, model
import numpy as np
from numba import guvectorize, njit

@njit
def between(x):
    return model_grad(x)

model_grad = model.by_callee

@njit(cache=True)
def caller(x):
    return 10.0 * between(x)

@guvectorize(["(float64[:], float64[:])"], "(n)->(n)", cache=True)
def ufunc(x, out):
    for i in range(x.size):
        out[i] = 10.0 * model_grad(x[i])

names = ("by_callee", "by_constant", "by_attribute", "by_closure")
found = {name: getattr(model, name)(2.0) for name in names}
found["caller"] = caller(2.0)
found["ufunc"] = float(ufunc(np.array([2.0]))[0])
hits = {name: sum(getattr(model, name).stats.cache_hits.values()) for name in names}
hits["caller"] = sum(caller.stats.cache_hits.values())
print(json.dumps([found, hits]))
"""


class Project:
    """A project of several files, run by one process after another."""

    def __init__(self, folder: Path):
        self.folder, self.cache = folder, folder / "cache"
        (folder / "caller.py").write_text(CALLER)

    def write(self, rate=0.5, power=2, scale=1.0, shift=0.0):
        values = {"rate": rate, "power": power, "scale": scale, "shift": shift}
        for name, text in (("constants", CONSTANTS), ("callees", CALLEES), ("model", MODEL)):
            (self.folder / f"{name}.py").write_text(text.format(**values))

    def start(self, **environment):
        env = {
            **os.environ,
            "NBGRAD_CACHE_DIR": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        }
        return subprocess.Popen(
            [sys.executable, "caller.py"],
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process):
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err[-3000:]
        return json.loads(out)

    def run(self, **environment):
        return self.finish(self.start(**environment))


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    made.write()
    return made


def expected(rate=0.5, power=2, scale=1.0, shift=0.0):
    slope = power * 2.0 ** (power - 1)
    return pytest.approx(
        {
            "by_callee": slope,
            "by_constant": 4.0 * scale,
            "by_attribute": 4.0 * rate,
            "by_closure": float(np.cos(2.0 + shift)),
            "caller": 10.0 * slope,
            "ufunc": 10.0 * slope,
        },
        rel=1e-12,
    )


def test_a_second_process_compiles_nothing(project):
    found, hits = project.run()
    assert found == expected()
    assert set(hits.values()) == {0}
    found, hits = project.run()
    assert found == expected()
    assert set(hits.values()) == {1}
    for folder in (project.cache, *(p for p in project.cache.rglob("*") if p.is_dir())):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_changes_below_are_noticed(project):
    project.run()
    project.write(power=3, scale=7.0, rate=2.5, shift=1.0)
    found, hits = project.run()
    assert found == expected(power=3, scale=7.0, rate=2.5, shift=1.0)
    assert set(hits.values()) == {0}
    project.write()  # the entries of the first version are there still; Numba keeps only one of the caller
    found, hits = project.run()
    assert found == expected()
    assert hits == {
        "by_callee": 1,
        "by_constant": 1,
        "by_attribute": 1,
        "by_closure": 1,
        "caller": 0,
    }


def test_processes_at_once(project):
    running = [project.start() for _ in range(2)]
    for process in running:
        assert project.finish(process)[0] == expected()
    found, hits = project.run()
    assert found == expected()
    assert set(hits.values()) == {1}


def test_without_a_cache(project):
    (project.folder / "file").write_text("")
    project.cache.mkdir(mode=0o500)
    places = [str(project.folder / "file" / "below"), "off", str(project.cache)]
    running = [project.start(NBGRAD_CACHE_DIR=place) for place in places]
    for process in running:  # no directory, none wanted, one that cannot be written to
        assert project.finish(process)[0] == expected()


def test_a_damaged_entry_is_made_again(project):
    project.run()
    for path in project.cache.rglob("*.t"):  # (the caller's entry is Numba's, in __pycache__)
        path.write_bytes(path.read_bytes()[:-100])
    found, hits = project.run()
    assert found == expected()
    assert hits == {
        "by_callee": 0,
        "by_constant": 0,
        "by_attribute": 0,
        "by_closure": 0,
        "caller": 1,
    }


MIXED = textwrap.dedent("""
    import sys, numpy as np, nbgrad as ng
    from numba import njit
    def make(k):
        if k == 0:
            def f(x):
                return np.sin(x)
        else:
            def f(x):
                return x * x
        return njit(f)
    slopes = ng.njit.grad(make(0)), ng.njit.grad(make(1))
    for k in map(int, sys.argv[1]):
        slopes[k](2.0)
    first, second = slopes
    @njit
    def both(x):
        return first(x), second(x)
    if len(sys.argv[1]) == 2:
        assert both(2.0) == (np.cos(2.0), 4.0), both(2.0)
        print(sum(sum(s.stats.cache_hits.values()) for s in slopes))
""")


def test_functions_of_one_name_from_different_processes(tmp_path):
    """Each is the first that its process compiles, so Numba alone would give both the same symbol."""
    env = {**os.environ, "NBGRAD_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "mixed.py").write_text(MIXED)
    for order in ("0", "1", "01"):
        run = subprocess.run(
            [sys.executable, str(tmp_path / "mixed.py"), order],
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.split() == ["2"]


# -- within one process --------------------------------------------------------------------------------------------

FACTOR = 1.0


def test_a_constant_changed_before_the_first_call(tmp_path, monkeypatch):
    monkeypatch.setenv("NBGRAD_CACHE_DIR", str(tmp_path))

    @njit
    def scaled(x):
        return FACTOR * x

    for value in (3.0, 5.0, 3.0):
        derivative = ng.njit.grad(scaled)
        monkeypatch.setitem(
            globals(), "FACTOR", value
        )  # Numba reads it when the types are first met
        assert derivative(1.0) == value
    assert sum(derivative.stats.cache_hits.values()) == 1


def test_clear_and_count(tmp_path, monkeypatch):
    monkeypatch.setenv("NBGRAD_CACHE_DIR", str(tmp_path))
    assert ng.cache_info().entries == 0
    ng.njit.grad(lambda x: x * x)(1.0)
    assert ng.cache_info().entries == 1
    assert ng.clear_cache() == 1
    assert ng.cache_info().entries == 0


def test_no_cache_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("NBGRAD_CACHE_DIR", str(tmp_path))
    assert ng.njit.grad(lambda x: x * x, cache=False)(3.0) == 6.0
    assert ng.cache_info().entries == 0


class Unknown:
    """An object whose content cannot be hashed."""


def test_what_a_hash_is_made_of():
    def version(constant, helper):
        def f(x):
            return helper(x) * constant if x in (0.0, 1.0) else 0.0

        return fingerprint(njit(f))

    def one(x):
        return x

    def other(x):
        return x + 1.0

    assert version(1.0, one) == version(1.0, one)
    others = [(2.0, one), (1, one), (1.0, other), (1.0, njit(fastmath=True)(one))]
    different = [version(1.0, one), *(version(*v) for v in others)]
    assert len(set(different)) == len(different)
    assert version(Unknown(), one) is None
