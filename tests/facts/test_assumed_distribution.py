"""Imagined records: what is said of a column is what its values are."""

import re

import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Category, Count, Day, Facts, Flag, Number, Person
from sottovoce.records.facts.assumed_distribution import AssumedDistribution, counted, imagined_of, parse_imagined

FACTS = Facts(
    smoker=Flag(), ward=Category(["A", "B", "C:x"]), age=Number(0, 110), visits=Count(9), code=Category([1, 2])
)
PLACES = (np.arange(20_000) + 0.5) / 20_000


def values(imagined: AssumedDistribution, name: str) -> np.ndarray:
    return imagined.values(name, FACTS[name], PLACES)


def test_columns_hold_what_is_said_of_them() -> None:
    said = parse_imagined(["smoker=20%", "ward:C:x=0.05", "age=0.1", "visits=1.5", "code:2=30%"], FACTS)
    assert said.columns == {"smoker": 0.2, "ward": {"C:x": 0.05}, "age": 0.1, "visits": 1.5, "code": {2: 0.3}}
    assert values(said, "smoker").mean() == pytest.approx(0.2)
    wards = values(said, "ward")
    assert [(wards == ward).mean() for ward in ("A", "B", "C:x")] == pytest.approx([0.475, 0.475, 0.05])
    ages = values(said, "age")
    assert ages.std() / 110 == pytest.approx(0.1, rel=1e-3) and ages.min() >= 0 and ages.max() <= 110
    visits = values(said, "visits")
    assert visits.mean() == pytest.approx(1.5, rel=0.01) and visits.var() == pytest.approx(1.5, rel=0.02)
    assert (values(said, "code") == 2).mean() == pytest.approx(0.3)


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.289, 0.45, 0.5])
def test_numbers_spread_as_far_as_is_said_within_their_bounds(spread: float) -> None:
    ages = values(AssumedDistribution(spread=spread), "age")
    assert ages.std() / 110 == pytest.approx(spread, abs=2e-3)
    assert ages.min() >= 0 and ages.max() <= 110


def test_counts_at_places_of_their_law_are_those_of_a_table() -> None:
    from scipy import stats

    for mean in (0.1, 1.0, 7.5):
        assert np.array_equal(counted(PLACES, mean, 99), stats.poisson.ppf(PLACES, mean))


def test_groups_are_as_large_as_is_said() -> None:
    both = {name: FACTS[name] for name in ("smoker", "ward")}
    assert AssumedDistribution().sizes(600, both).tolist() == pytest.approx([100] * 6)
    assert AssumedDistribution(kept=0.5, smallest=0.1).sizes(600, both).tolist() == pytest.approx([30, *[54] * 5])
    said = AssumedDistribution(columns={"smoker": 0.1, "ward": {"A": 0.2, "B": 0.3}})
    assert said.sizes(100, both).tolist() == pytest.approx([18, 27, 45, 2, 3, 5])
    assert said.sizes(100, both, [1, 2, 4]).tolist() == pytest.approx([0, 36, 60, 0, 4, 0])
    assert AssumedDistribution(kept=0.5, smallest=0.1).sizes(600, both, [1, 2, 4]).tolist() == pytest.approx(
        [0, 30, 135, 0, 135, 0]
    )
    assert AssumedDistribution(columns={"ward": {"A": 1.0}}).sizes(600, both, [1, 2]).tolist() == [0] * 6


@pytest.mark.parametrize(
    "text",
    ["smoker", "smoker=much", "smoker=120%", "ward=5%", "ward:D=5%", "ward:A=110%", "age=0.6", "visits=10", "n=1"],
)
def test_what_a_column_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_imagined([text], FACTS)


def test_what_is_wrong_is_named() -> None:
    for texts, match in (
        (["ward:D=5%"], "ward:C:x=5%; it has A, B, C:x. Got 'D'"),
        (["smoker=12"], "how often 'smoker' is set, from 0 to 1, such as smoker=20%. Got 12"),
        (["whose=0.2"], "of 'whose' here; there are smoker, ward, age, visits, code, seen$"),
        (["smoker=10%", "smoker=20%"], "'smoker' is imagined twice"),
        (["ward:A=10%", "ward:A=20%"], "'ward:A' is imagined twice"),
    ):
        with pytest.raises(InvalidValue, match=re.escape(match).replace(r"\$", "$")):
            parse_imagined(texts, {**FACTS, "whose": Person(), "seen": Day("2024-01-01", "2024-12-31")})


def test_columns_may_be_imagined_in_any_form() -> None:
    said = {"smoker": 0.2, "ward": {"A": 0.1}}
    for form in (said, ["smoker=20%", "ward:A=10%"], "smoker=20%, ward:A=0.1", AssumedDistribution(columns=said)):
        assert imagined_of(form, FACTS).columns == said
    for wrong in (5, [5], [None], {"smoker": "often"}, {"smoker": {True: 0.1}}, {"ward": 0.1}, {5: 0.1}):
        with pytest.raises(InvalidValue):
            imagined_of(wrong, FACTS)


def test_what_cannot_be_imagined_is_refused() -> None:
    with pytest.raises(InvalidValue, match="nobody has said how"):
        AssumedDistribution().values("seen", Day("2024-01-01", "2024-12-31"), PLACES)
    with pytest.raises(InvalidValue, match="add up"):
        AssumedDistribution(columns={"ward": {"A": 0.2, "B": 0.2, "C:x": 0.2}}).check(FACTS)
