"""Estimators, facts and statistical queries through the curator."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.mechanisms import DiffusedPosterior, NoisyStatistics, StatisticalQuery
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP, RenyiDP
from sottovoce.records.facts import Category, Facts, Flag, Number
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import State

N = 400
DATA = pa.table(
    {
        "smoker": [True, None, False, False] * 100,
        "ward": ["A", "B", "B", "?"] * 100,
        "risk": [0.5, 0.25, -3.0, 9.0] * 100,
    }
)
FACTS = Facts(smoker=Flag(), ward=Category(["A", "B"], missing="B"), risk=Number(0, 1))


@dataclass
class WardShares:
    """A small estimator: the shares of a category."""

    value_: Any = None

    def mechanism_for(
        self, n: int, promise: Any = None, facts: Any = None, features: Any = None, label: Any = None
    ) -> Any:
        return NoisyStatistics.calibrate(DirichletCategorical(categories=facts[label].categories), n, promise)

    def keep(self, release: Any) -> WardShares:
        self.value_ = release.value
        return self


@pytest.fixture
def curator(tmp_path: Path) -> Any:
    with Curator(DATA, ledger=tmp_path / "l", budget=PureDP(10.0), facts=FACTS, dataset="patients") as curator:
        yield curator


def test_an_estimator_takes_promise_and_categories_from_the_curator(curator: Curator) -> None:
    fitted = curator.fit(WardShares(), features=[], label="ward", spend=PureDP(8.0))
    assert fitted.value_.mean == pytest.approx([0.25, 0.75], abs=0.05)
    (entry,) = curator.history()
    assert entry.request["column"] == "ward" and entry.cost == pytest.approx(8.0)


def test_a_retried_fit_is_charged_once_and_tells_the_same(curator: Curator) -> None:
    told = [curator.fit(WardShares(), [], "ward", spend=0.2, idempotency_key="k").value_.noisy for _ in range(2)]
    assert np.array_equal(told[0], told[1])
    assert float(curator.remaining().epsilon) == pytest.approx(8.0)


def test_shares_of_a_budget_add_up_to_it_and_no_more(curator: Curator) -> None:
    part = curator.open_part("ada", PureDP(1.0))
    for _ in range(10):
        curator.fit(WardShares(), [], "ward", spend=0.1, part=part)
    with pytest.raises(BudgetExceeded):
        curator.fit(WardShares(), [], "ward", spend=0.1, part=part)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, float("nan"), True])
def test_what_is_no_share_is_refused(curator: Curator, share: Any) -> None:
    with pytest.raises(InvalidValue):
        curator.fit(WardShares(), [], "ward", spend=share)


def test_what_is_no_estimator_is_refused(curator: Curator) -> None:
    with pytest.raises(InvalidValue, match="fits estimators"):
        curator.fit(object(), ["risk"], "ward", spend=0.1)


def test_the_facts_say_what_a_missing_value_counts_as(curator: Curator) -> None:
    system = DirichletCategorical(categories=("A", "B"))
    value = curator.release(NoisyStatistics.calibrate(system, N, PureDP(9.0)), "ward").value
    assert value.mean == pytest.approx([0.25, 0.75], abs=0.02)
    assert curator.history()[0].request["missing"] == "B"


def test_facts_give_a_csv_its_types_and_name_only_columns_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,ward\n3,A\nx,B\n")
    (tmp_path / "facts.toml").write_text('[age]\nkind = "number"\nlow = 0\nhigh = 9\n')
    with Curator(tmp_path / "a.csv", tmp_path / "l", PureDP(1.0), facts=tmp_path / "facts.toml") as curator:
        assert dict(curator.budget.schema) == {"age": "float64", "ward": "string"}
    with pytest.raises(InvalidValue, match=r"not there, .*: height"):
        Curator(DATA, tmp_path / "m", PureDP(1.0), facts=Facts(height=Number(0, 3)), dataset="p")


BUDGET = ApproxDP(20.0, 1e-5)
ESTIMATORS = {
    "logistic": lambda: sv.LogisticRegression(mechanism="noisy-moments"),
    "chain": lambda: sv.LogisticRegression(mechanism="diffused", n_steps=20),
    "naive bayes": lambda: sv.NaiveBayes(),
}


@pytest.mark.parametrize("name", ESTIMATORS)
class TestEstimators:
    """Each charged, retried under a key, killed in the middle."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> Any:
        with Curator(DATA, tmp_path / "l", BUDGET, facts=FACTS, dataset="p") as curator:
            yield curator

    def test_a_retry_is_charged_once_and_fits_the_same(
        self, table: Curator, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "sottovoce.inference.latent.moment_posterior._MOST", 100
        )  # whether chains agree is asked elsewhere
        asked: Any = {"features": ["risk"], "label": "smoker", "spend": GaussianDP(0.5)}
        fits = [table.fit(ESTIMATORS[name](), **asked, idempotency_key="k") for _ in range(2)]
        assert fits[0].release_.to_dict() == fits[1].release_.to_dict()
        assert np.all(np.isfinite(fits[0].predict_proba(pd.DataFrame({"risk": [0.5, 1.0]}))))
        (entry,) = table.history()
        assert entry.state is State.COMMITTED and entry.request["column"] is not None
        table._ledger.verify()

    def test_what_fails_in_the_middle_is_spent_and_tells_nothing(
        self, table: Curator, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        estimator = ESTIMATORS[name]()
        kind = type(estimator.mechanism_for(N, GaussianDP(0.5), FACTS, ["risk", "ward"], "smoker"))

        def killed(*_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(kind, "_value", killed)
        with pytest.raises(KeyboardInterrupt):
            table.fit(estimator, ["risk", "ward"], "smoker", spend=GaussianDP(0.5))
        (entry,) = table.history()
        assert (entry.state, entry.release) == (State.LOST, None)
        assert table._ledger.spent(table.budget) > 0


class TestStatisticalQueries:
    @pytest.mark.parametrize(("weigh", "name"), [("data", "data_weight"), ("prior", "prior_weight")])
    def test_both_algorithms_keep_the_promise_on_a_table(self, curator: Curator, weigh: Any, name: str) -> None:
        target = RenyiDP(2, 0.05)
        query = StatisticalQuery.calibrate(BetaBernoulli(6, 12), N, target, weigh=weigh)
        assert 0.0499 < float(query.profile.renyi(2)) <= 0.05
        assert getattr(query, name) != 1.0
        with Curator(DATA, curator._ledger, RenyiDP(2, 1.0), dataset="other") as other:
            answers = [other.release(query, "risk").value, other.release(query, where="risk >= 0.25").value]
        assert all(0 < answer < 1 for answer in answers)

    def test_the_prior_weight_costs_what_a_brute_force_over_neighbours_says(self) -> None:
        """E[(p/q)^2] by quadrature over the unit interval, for fractions at the corners of the data."""
        query = StatisticalQuery(BetaBernoulli(1.5, 2), 4, prior_weight=3.0)
        x = (np.arange(200_000) + 0.5) / 200_000

        def density(total: float) -> Any:
            log = (4.5 + total - 1) * np.log(x) + (6 + 4 - total - 1) * np.log1p(-x)
            weight = np.exp(log - log.max())
            return weight / weight.mean()

        laws = {total: density(total) for total in np.arange(0, 4.5, 0.5)}
        pairs = [(laws[a], laws[b]) for a in laws for b in laws if abs(a - b) <= 1]
        worst = max(float(np.log(np.mean(p**2 / q))) for p, q in pairs)
        assert float(query.profile.renyi(2)) == pytest.approx(worst, rel=1e-4)

    def test_a_column_is_read_into_the_unit_interval(self, curator: Curator) -> None:
        query = StatisticalQuery(BetaBernoulli(1, 1), N)
        seen = curator._table.read(query.reading, "risk")
        assert seen.total[0] == float(Fraction(1, 2) * 100 + Fraction(1, 4) * 100 + 0 + 100)

    def test_without_a_predicate_records_are_numbers_already(self) -> None:
        query = StatisticalQuery(BetaBernoulli(1, 1), 3)
        assert query.see([0.5, 7.0, "x"]).total[0] == 1.5

    def test_a_python_predicate_is_refused_with_advice(self, curator: Curator) -> None:
        query = StatisticalQuery.calibrate(BetaBernoulli(1, 1), N, ApproxDP(1.0, 1e-3), predicate=bool)
        with pytest.raises(InvalidValue, match="condition"):
            curator.release(query, "risk")

    @pytest.mark.parametrize("bad", [{"prior_weight": 0.5}, {"prior_weight": float("inf")}, {"data_weight": 0.0}])
    def test_weights_that_are_none_are_refused(self, bad: dict[str, float]) -> None:
        with pytest.raises(InvalidValue, match="weight"):
            StatisticalQuery(BetaBernoulli(1, 1), 3, **bad)
        with pytest.raises(InvalidValue, match="weigh must"):
            StatisticalQuery.calibrate(BetaBernoulli(1, 1), 3, PureDP(1.0), weigh="both")  # type: ignore[arg-type]


def test_a_mechanism_that_names_its_columns_needs_no_column(tmp_path: Path) -> None:
    from sottovoce.inference.latent import CountTables, Field

    tables = CountTables((Field("ward", ("A", "B")), Field("smoker", (False, True))), (("ward",), ("ward", "smoker")))
    with Curator(DATA, tmp_path / "l", PureDP(10.0), dataset="p") as curator:
        value = curator.release(NoisyStatistics.calibrate(tables, N, PureDP(8.0))).value
    assert value.table("ward")[1] == pytest.approx(100, abs=30)


def test_diffused_posteriors_of_a_system_do_as_before(curator: Curator) -> None:
    mechanism = DiffusedPosterior.calibrate(BetaBernoulli(2, 2), N, RenyiDP(2, 0.1))
    with pytest.raises(BudgetExceeded, match="infinite"):
        curator.release(mechanism, "smoker")
