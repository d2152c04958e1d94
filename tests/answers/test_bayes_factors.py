"""Bayes factors beside quadrature and enumeration, and what is said of two rows, of a trend and of two columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate, stats

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers.bayes_factors import AgainstNone, of_difference, of_independence

FACTS = sv.Facts(
    ill=sv.Flag(),
    sbp=sv.Number(60, 250),
    ward=sv.Category(["A", "B", "C", "D"]),
    stage=sv.Category(["mild", "severe"]),
)
N = 8000


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sv.Curator]:
    rng = np.random.default_rng(4)
    ward = rng.integers(4, size=N)
    severe = rng.random(N) < 0.2 + 0.15 * ward
    table = pa.table(
        {
            "ill": rng.random(N) < 0.3 + 0.05 * ward,
            "sbp": rng.normal(130, 15, N),
            "ward": np.array(list("ABCD"))[ward],
            "stage": np.where(severe, "severe", "mild"),
        }
    )
    place = tmp_path_factory.mktemp("bayes") / "l"
    with sv.Curator(table, place, sv.ApproxDP(8.0, 1e-6), facts=FACTS, dataset="b") as opened:
        yield opened


@pytest.mark.parametrize("middle", [0.0, 0.03, 0.1, 0.5])
@pytest.mark.parametrize("scale", [0.05, 0.35])
def test_a_difference_against_none_beside_quadrature(middle: float, scale: float) -> None:
    spread = 0.03
    draws = middle + spread * stats.norm.ppf((np.arange(40_000) + 0.5) / 40_000)

    def both(delta: float) -> float:
        return float(stats.norm.pdf(middle, delta, spread) * stats.cauchy.pdf(delta, 0, scale))

    some = integrate.quad(both, middle - 12 * spread, middle + 12 * spread, limit=200)[0]
    exact = math.log(some) - stats.norm.logpdf(middle, 0, spread)
    assert of_difference(draws, scale).log == pytest.approx(exact, abs=0.05, rel=0.01)


def test_both_laws_of_tables_are_laws() -> None:
    """Over all tables of six records the chance under independence, and so the factor's inverse weighed, is one."""
    tables = [t for t in itertools.product(range(7), repeat=4) if sum(t) == 6]
    inverse = [math.exp(-of_independence(np.array(t, dtype=float).reshape(1, 2, 2)).log) for t in tables]
    # Under the law by which every table is as likely as another, the mean of p₀ / p₁ is one.
    assert np.mean(inverse) == pytest.approx(1.0, abs=1e-9)


def test_two_wards(curator: sv.Curator) -> None:
    answer = curator.proportion("ill", by="ward", spend=0.12)
    apart, alike = answer.compare("D", "A"), answer.compare("D", "A", scale=1e-9)
    assert apart.difference.low <= 0.15 <= apart.difference.high and apart.higher is not None and apart.higher > 0.99
    assert apart.bayes_factor is not None and apart.bayes_factor.log > math.log(20)
    assert alike.bayes_factor is not None and alike.bayes_factor.log == pytest.approx(0, abs=0.01)  # nothing is said
    assert "For a difference against none" in repr(apart) and "to 1" in repr(apart)
    assert apart.to_dict()["log_bayes_factor"] == apart.bayes_factor.log
    same = curator.mean("sbp", by="ward", spend=0.12).compare("A", "B")
    assert same.bayes_factor is not None and same.bayes_factor.log < 0 and "For none against" in repr(same)
    with pytest.raises(InvalidValue, match="scale"):
        answer.compare("A", "B", scale=0)


def test_a_scale_is_needed_where_records_have_no_spread_that_is_told(curator: sv.Curator) -> None:
    counts = curator.counts("ward", spend=0.05)
    assert counts.compare("A", "B").bayes_factor is None
    assert counts.compare("A", "B", scale=100.0).bayes_factor is not None
    pooled = curator.proportion("ill", by="ward", pool=True, spend=0.05)
    assert pooled.compare("A", "B").bayes_factor is None


def test_a_trend_and_two_columns(curator: sv.Curator) -> None:
    trend = curator.proportion("ill", by="ward", spend=0.12).trend()
    assert trend.of == ("A", "B", "C", "D") and trend.rising > 0.99
    assert trend.slope.low <= 0.05 <= trend.slope.high
    assert "For a trend against none" in repr(trend) and "rises" in repr(trend)
    of_one = curator.proportion("stage", by="ward", spend=0.05)
    with pytest.raises(InvalidValue, match=r"trend\(value="):
        of_one.trend()
    assert of_one.trend("mild").rising < 0.01
    together = curator.counts(["ward", "stage"], spend=0.12).independence()
    assert together.bayes_factor.log > 20 and together.strength.low > 0.2
    apart = curator.counts(["ill", "stage"], spend=0.05)
    assert "Cramér's V of ill and stage" in repr(apart.independence())
    with pytest.raises(InvalidValue, match="counts of two columns"):
        curator.counts("ward", spend=0.05).independence()
    with pytest.raises(InvalidValue, match="one column of groups"):
        curator.mean("sbp", spend=0.05).trend()


def test_odds_are_said_for_the_likelier() -> None:
    said = [AgainstNone(log, "p").sentence() for log in (math.log(250), -0.1, math.inf, -math.inf)]
    assert [text.split(" (")[0] for text in said] == [
        "For a difference against none: 250 to 1",
        "For none against a difference: 1.1 to 1",
        "For a difference against none: over 1,000 to 1",
        "For none against a difference: over 1,000 to 1",
    ]
