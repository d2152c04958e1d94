"""The guide says what the code does."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "profile-based-local-privacy.md"


def test_every_example_of_the_guide_runs():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    text = GUIDE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 5
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for block in blocks:
        if ">>>" not in block:
            exec(block, names)
            continue
        test = doctest.DocTestParser().get_doctest(block, names, "guide", str(GUIDE), 0)
        runner = doctest.DocTestRunner(optionflags=flags)
        runner.run(test, clear_globs=False)
        names.update(test.globs)
        assert runner.failures == 0
    plt.close("all")


def test_every_figure_of_the_guide_is_there():
    for path in re.findall(r"\]\((\.\./figures/[^)]+)\)", GUIDE.read_text(encoding="utf-8")):
        assert (GUIDE.parent / path).stat().st_size > 5000
