"""The notebooks of the documentation: what is stored of their last run. That they run, the tests of the pages show."""

import json
import re
from pathlib import Path

import pytest
from docs.run_notebooks import FOLDER, cells, executed, jupyter

PAGES = sorted(FOLDER.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_stored_as_its_page_says_with_all_that_it_printed_and_drew(page: Path) -> None:
    """Run ``python docs/run_notebooks.py`` where this fails: the page was changed after it was run."""
    text = page.read_text(encoding="utf-8")
    assert page.with_suffix(".ipynb").read_text(encoding="utf-8") == jupyter(text)
    for kind, code, printed in cells(text):
        if kind == "code":
            assert bool(printed) == ("\nprint(" in f"\n{code}" or "    print(" in code), code
    drawn = re.findall(r"savefig\(\"([^\"]+)", text)
    assert drawn == re.findall(r"!\[[^\]]+\]\(figures/([^)]+)\)", text)
    for name in drawn:
        assert (FOLDER / "figures" / name).stat().st_size > 5_000


def test_there_are_three_notebooks() -> None:
    assert len(PAGES) == 3


def test_what_a_page_prints_is_stored_in_place_of_what_it_printed_before() -> None:
    page = "Once.\n\n```python\nx = 2\n```\n\n```python\nprint(x)\n```\n```output\n7\n```\nEnd.\n"
    ran = executed(page)
    assert ran == page.replace("\n7\n", "\n2\n")
    assert executed(ran) == ran
    stored = json.loads(jupyter(ran))
    assert [cell["cell_type"] for cell in stored["cells"]] == ["markdown", "code", "code", "markdown"]
    assert stored["cells"][2]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "2\n"}]
