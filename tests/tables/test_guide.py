"""The code in the guide runs, top to bottom, and the numbers are those of the data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "tables.md"


def test_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    said = capsys.readouterr().out
    assert "Statistics(n=95821, total=array([82178., 12980.,   663.]))" in said
    assert "[1843.]" in said
