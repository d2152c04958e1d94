"""Shares as people read and write them: all and nothing are said of all and of nothing alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sottovoce
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import percent, read_share
from sottovoce.service.answers.display import drawn_rows, footing, plain_words

SHARES = st.floats(0, 2) | st.floats(1e-12, 1e-2) | st.floats(1e-12, 1e-2).map(lambda gap: 1 - gap)


@given(SHARES, st.booleans())
def test_all_and_nothing_are_said_of_nothing_else(share: float, whole: bool) -> None:
    said = percent(share, whole=whole)
    number = float(re.search(r"[\d.]+", said)[0])  # type: ignore[index]
    if said.startswith("less than"):
        assert 0 < 100 * share < number
    elif said.startswith("more than"):
        assert 100 * share > number and share != 1
    else:
        assert number == pytest.approx(100 * share, rel=6e-3, abs=0.51 if whole else 0)
        assert (number == 0) == (share == 0)
        assert (number == 100) == (abs(share - 1) < 1e-9)
        assert (number > 100) <= (share > 1) and (number < 100) <= (share < 1)


def test_what_stands_beside_a_table_says_so() -> None:
    assert footing(0.9996, 0.99996, None) == "99.96 % intervals, privacy noise included; cost 99.996 % of the budget"
    assert plain_words(0.9999, 1).startswith("In 99.99 of 100 answers")
    rows = [{"ward": "A", "estimate": 0.5, "low": 0.4, "high": 0.6, "privacy_share": part} for part in (0.997, 0.003)]
    assert [row.privacy for row in drawn_rows(rows)[1]] == ["99.7 %", "less than 1 %"]


def test_no_other_line_of_ours_rounds_a_share() -> None:
    """What is formatted by hand would say 100 % of 0.9996 once more; places in a picture are no shares."""
    by_hand = re.compile(r"[{].*?:[^{}]*\d%[}]|[{]100 \* [^{}]*:\.\d[fg][}](?: |&nbsp;|\\u00a0)?%(?!\">)")
    found = [
        f"{path.name}: {line.strip()}"
        for path in Path(sottovoce.__file__).parent.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if by_hand.search(line)
    ]
    assert found == []


@given(st.integers(1, 9999))
def test_a_share_is_the_same_number_whichever_way_it_is_written(parts: int) -> None:
    assert read_share("it", f"{parts / 100:.2f}%") == read_share("it", f" {parts / 10_000:.4f} ") == parts / 10_000


@pytest.mark.parametrize("text", ["", "%", "much", "5%%", "5 percent", "1/2", "snan", "0x1"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(InvalidValue, match="it reads like 5% or 0"):
        read_share("it", text)
