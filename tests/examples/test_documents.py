"""What the documents promise: every Python block runs, every command and every link is there."""

import re
from pathlib import Path

import pytest

from nbgrad.op import REGISTRY
from nbgrad.op.public import METHODS, PUBLIC

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = [str(p.relative_to(ROOT)) for p in PAGES]


@pytest.fixture
def registry():
    """An operator that a page declares goes when the page has run."""
    kept = [(table, dict(table)) for table in (REGISTRY, PUBLIC, METHODS)]
    yield
    for table, content in kept:
        table.clear()
        table.update(content)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_python_blocks_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    namespace = {"__name__": "document"}
    for match in BLOCK.finditer(text):
        # the line numbers of the page in tracebacks
        source = "\n" * text.count("\n", 0, match.start(1)) + match.group(1)
        exec(compile(source, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_two_commands_are_one_line_each_and_set_themselves_up():
    text = (ROOT / "README.md").read_text()
    marked = text.split("<!-- test-command -->")[1].split("<!-- end -->")[0]
    blocks = re.findall(r"```sh\n(.*?)```", marked, re.DOTALL)
    assert len(blocks) == 1 and len(blocks[0].strip().splitlines()) == 1
    commands = [c for c in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "-m venv" in c]
    assert len(commands) == 2
    for command in commands:
        assert len(command.strip().splitlines()) == 1 and "pip install" in command
    assert "examples/burgers_identify.py" in commands[0] and "pytest" in commands[1]


def test_every_extra_the_readme_names_exists():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for page in PAGES:
        for found in re.findall(r"(?:nbgrad|'\.|\"\.)\[([a-z0-9,]+)\]", page.read_text()):
            assert set(found.split(",")) <= set(extras), found


def test_every_example_is_named_in_the_readme():
    text = (ROOT / "README.md").read_text()
    missing = [p.name for p in (ROOT / "examples").glob("*.py") if p.name not in text]
    assert not missing
