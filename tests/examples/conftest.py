"""The examples are scripts: make them importable by name."""

import importlib
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch, tmp_path):
    """A function that imports an example by its file's name; it runs in an empty folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (
            getattr(sys.modules[name], "__file__", None)
            and EXAMPLES in Path(sys.modules[name].__file__).parents
        ):
            del sys.modules[name]
