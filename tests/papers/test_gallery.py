"""The gallery says what the experiments found, and every figure of the five documents is accounted for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from papers.catalogue import APPENDIX, CATALOGUE, PAPER, THESIS
from papers.gallery import pages, read_outcomes, update_gallery
from papers.registry import Experiment, Finding, Outcome, all_experiments
from papers.runner import Record

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"


def _figures(document):
    """The numbers of all figures a document's entries speak of: 'Figures 4.3 to 4.5' are three."""
    found = set()
    for entry in document.entries:
        if entry.figure.startswith("Figure"):
            chapter, numbers = None, []
            for text in re.findall(r"\d+(?:\.\d+)?", entry.figure):
                chapter, number = text.split(".") if "." in text else ("", text)
                numbers.append(int(number))
            if " to " in entry.figure:
                numbers = list(range(numbers[0], numbers[1] + 1))
            found |= {f"{chapter}.{number}" if chapter else str(number) for number in numbers}
    return found


def test_no_figure_is_left_out():
    last = {4: 7, 5: 8, 6: 2, 7: 8}
    assert _figures(THESIS) == {f"{chapter}.{k}" for chapter, end in last.items() for k in range(1, end + 1)}
    assert _figures(PAPER) == {"1", "2", "3"}
    assert _figures(APPENDIX) == {"1", "2", "3", "4"}


def test_every_entry_has_an_experiment_that_was_run_or_a_reason():
    known, outcomes = all_experiments(), read_outcomes(GALLERY)
    for document in CATALOGUE:
        for entry in document.entries:
            assert entry.experiments or entry.reason, entry
            assert set(entry.experiments) <= set(known), entry
            assert entry.reason or set(entry.experiments) <= set(outcomes), entry


def test_the_pages_follow_from_the_outcomes():
    made = pages(read_outcomes(GALLERY))
    assert len(made) >= 5
    for name, text in made.items():
        assert (GALLERY / name).read_text(encoding="utf-8") == text, (
            f"{name} is out of date: python -m papers conversions --quick --gallery docs/gallery writes it anew"
        )


def test_the_gallery_holds_the_files_of_every_outcome():
    for name, outcome in read_outcomes(GALLERY).items():
        assert outcome["figures"], name
        for kind in ("figures", "tables"):
            for file in outcome[kind]:
                assert (GALLERY / kind / file).stat().st_size > 0


@pytest.fixture
def record(tmp_path):
    from PIL import Image

    output = tmp_path / "output"
    output.mkdir()
    Image.linear_gradient("L").save(output / "noise.png")
    (output / "noise.csv").write_text("a\n1\n")
    findings = (Finding("a | b holds for λ* and x_1", False, "1 < 2"), Finding("seen", True, "3"))
    return Record("noise", False, 0, "v", 100.0, {"noise.png": "", "noise.csv": ""}, findings, "A *note*.")


def test_an_outcome_is_taken_in_and_shown_as_it_is(record, tmp_path):
    experiment = Experiment("noise", "White noise", "ours", lambda setting: Outcome(()))
    written = update_gallery([record], tmp_path / "output", tmp_path / "docs", {"noise": experiment})
    assert {path.name for path in written} == {"ours.md", "index.md"}
    text = (tmp_path / "docs" / "ours.md").read_text()
    assert r"| a \| b holds for λ\* and x\_1 | **no** | 1 &lt; 2 |" in text
    assert r"A \*note\*." in text
    assert "1 of 2 seen. `python -m papers noise`, full size, seed 0." in text
    assert "[noise](ours.md#noise)" in (tmp_path / "docs" / "index.md").read_text()
    assert (tmp_path / "docs" / "figures" / "noise.png").stat().st_size > 0
    again = update_gallery([], tmp_path / "output", tmp_path / "docs", {"noise": experiment})
    assert [path.read_text() for path in again] == [path.read_text() for path in written]
