"""The code of the guide runs as it stands."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "checking.md"


def test_the_code_blocks_of_the_guide_run():
    text = GUIDE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 5
    scope = {"__name__": "guide"}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, str(GUIDE), "exec"), scope)


def test_the_message_in_the_guide_is_the_real_one():
    scope = {}
    text = GUIDE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    for block in blocks[:2]:
        exec(block, scope)
    shown = re.search(r"```text\n(.*?)```", text, re.S).group(1).splitlines()
    got = scope["message"].splitlines()
    for shown_line, got_line in zip(shown[:3], got, strict=False):
        assert shown_line == got_line
    assert got[5].startswith(shown[5].removesuffix(" (a factor 2, ..."))
