"""The coverage of the verbs: what is told of it follows from its table."""

import json
from pathlib import Path

import pytest
from papers.registry import Setting, find

from sottovoce.privacy.errors import InvalidData

DOCS = Path(__file__).parents[2] / "docs"


def test_the_gallery_says_what_the_published_table_holds(tmp_path: Path) -> None:
    table = DOCS / "figures" / "verb-coverage.csv"
    outcome = find("verb-coverage").redraw(table, Setting(tmp_path))
    told = json.loads((DOCS / "gallery" / "outcomes.json").read_text(encoding="utf-8"))["verb-coverage"]["findings"]
    assert [finding.evidence for finding in outcome.findings] == [finding["evidence"] for finding in told]
    assert (tmp_path / "verb-coverage.csv").read_bytes() == table.read_bytes()


def test_another_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("verb,n\nmean,5\n", encoding="utf-8")
    with pytest.raises(InvalidData, match="columns must be"):
        find("verb-coverage").redraw(tmp_path / "other.csv", Setting(tmp_path))
