"""The page of the papers, item by item: every test and page that it names exists, and nothing is left without one."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "theory" / "inventory.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if re.match(r"\| [TPXMD]-", line)
]
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them, and those that it names."""
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"\{ #([\w-]+) \}", text))
    for heading in re.findall(r"^#+ (.*?)(?: \{.*\})?$", text, re.M):
        letters = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()  # the site keeps no others
        plain = re.sub(r"[^\w\s-]", "", letters.lower()).strip()
        named.add(re.sub(r"[\s-]+", "-", plain))
    return named


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_stands_behind_a_row_exists(row: list[str]) -> None:
    assert len(row) == 4
    _, _, state, behind = row
    assert state in ("A", "B", "D", "E", "e")
    tests, links = TEST.findall(behind), LINK.findall(behind)
    assert tests or links
    for path, name in tests:
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), name
    for target, anchor in links:
        page = (PAGE.parent / target).resolve()
        assert page.exists(), target
        assert not anchor or anchor in _anchors(page), f"{target}#{anchor}"
    if state in "BE":  # a reason, in words
        words = LINK.sub("]", TEST.sub("", behind)).split()
        assert len(words) >= 6


def test_the_counts_are_those_of_the_rows() -> None:
    found = Counter(row[2] for row in ROWS)
    counts = re.search(r"\| (\d+) rows \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", TEXT)
    assert counts
    assert [int(n) for n in counts.groups()] == [len(ROWS), *(found[state] for state in ("A", "B", "D", "E", "e"))]
    assert len(ROWS) == len({row[0] for row in ROWS}) == 187
