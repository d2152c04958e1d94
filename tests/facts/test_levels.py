"""A condition on a value that the public list does not have is refused before anything is spent."""

import datetime

import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.privacy import InvalidValue
from sottovoce.records.facts.condition_parser import check_levels

FACTS = sv.Facts(
    ward=sv.Category(["A", "B"]),
    site=sv.Category([1, 2]),
    age=sv.Number(0, 110),
    seen=sv.Day("2024-01-01", "2024-12-31"),
)


@pytest.mark.parametrize("where", ["ward = 'Z'", "'Z' != ward", "age > 4 and not ward in ('A', 'Z')", "site = 3"])
def test_a_value_that_is_not_listed_is_refused(where: str) -> None:
    with pytest.raises(InvalidValue, match="the facts list no value"):
        check_levels(where, FACTS)


@pytest.mark.parametrize("where", [None, "ward = 'A' or ward != 'B'", "site in (1, 2)", "age = 3", "ward is null"])
def test_other_conditions_pass(where: str | None) -> None:
    check_levels(where, FACTS)


@pytest.mark.parametrize(
    "where",
    [
        *("seen < '2024-01-01'", "seen <= '2023-12-31'", "seen > '2024-12-31'", "'2025-01-01' <= seen"),
        *("seen = '2025-01-01'", "seen = '2023-12-31'", "age > 4 and not seen between '2025-02-01' and '2025-03-01'"),
    ],
)
def test_days_that_the_facts_do_not_have_are_refused(where: str) -> None:
    with pytest.raises(InvalidValue, match=r"the facts say that 'seen' is from 2024-01-01 to 2024-12-31\. Got "):
        check_levels(where, FACTS)


@pytest.mark.parametrize(
    "where",
    [
        *("seen <= '2024-01-01'", "seen < '2025-01-01'", "seen >= '2023-01-01'", "seen > '2024-12-30'"),
        *(
            "seen = '2024-05-01'",
            "seen != '2025-06-01'",
            "seen = 'no day'",
            "seen between '2023-01-01' and '2024-01-01'",
        ),
    ],
)
def test_days_that_they_have_pass(where: str) -> None:
    check_levels(where, FACTS)


def test_nothing_is_spent_on_a_slip(tmp_path) -> None:
    seen = pa.array([datetime.date(2024, 5, 1)] * 100)
    data = pa.table({"ward": ["A", "B"] * 50, "site": [1, 2] * 50, "age": [30.0, 60.0] * 50, "seen": seen})
    with sv.Curator(data, tmp_path / "l", sv.ApproxDP(1, 1e-6), facts=FACTS, dataset="p") as curator:
        for ask in (curator.mean, curator.quantiles):
            with pytest.raises(InvalidValue, match="'Z' of 'ward'; they list 'A', 'B'"):
                ask("age", where="ward = 'Z'", spend=0.1)
            with pytest.raises(InvalidValue, match="is from 2024-01-01"):
                ask("age", where="seen >= '2025-01-01'", spend=0.1)
        with pytest.raises(InvalidValue, match="'Z' of 'ward'"):
            curator.regress("age ~ site", where="ward = 'Z'", spend=0.1)
        assert curator.left() == "100 % left"
