"""Expected errors against simulated releases; cautions; and what an accuracy needs."""

from typing import Any

import numpy as np
import pytest

from sottovoce.mechanisms import ConcentratedPosterior, DiffusedPosterior, NoisyStatistics, TemperedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical, GammaPoisson, NormalMean
from sottovoce.mechanisms.expected_error import cautions, expected
from sottovoce.mechanisms.mechanism_choice import choices, names_for, width_of
from sottovoce.mechanisms.required_share import records_needed, shares_needed
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, GaussianDP, Promise, PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng


@pytest.mark.parametrize("kind", [DiffusedPosterior, ConcentratedPosterior, TemperedPosterior, NoisyStatistics])
def test_the_error_is_that_of_simulated_releases(kind: type) -> None:
    """Samples from one table with the share imagined; means of posteriors from tables drawn with it.

    Of 500 errors the root mean square is known to 3 %: one told wrongly by a fifth or more is found out, as by 1,500.
    """
    n, truth, rng = 200, 0.3, seeded_rng(3)
    mechanism = kind.calibrate(BetaBernoulli(3, 9), n, ApproxDP(1.0, 1e-4))
    found = []
    for _ in range(500):
        whole = kind is NoisyStatistics
        records = (rng.random(n) < truth).astype(int) if whole else np.arange(n) < truth * n
        value = mechanism.release(records, rng).value
        found.append(float(getattr(value, "mean", value)) - truth)
    told = expected(mechanism, [truth])
    assert told is not None
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(told.error, rel=0.12)


def test_leaning_on_the_prior_looks_good_only_where_it_was_right() -> None:
    system, target = BetaBernoulli(6, 12), ApproxDP(1.0, 1e-6)
    found = choices(system, 100, target, 1 / 3, list(names_for(system)))
    names = [choice.name for choice in found]
    assert names[:2] == ["laplace", "gaussian"]
    assert names.index("concentrated") > names.index("diffused")
    narrow = next(choice for choice in found if choice.name == "concentrated")
    assert any("narrower than the truth allows" in caution for caution in narrow.cautions)
    assert not found[0].cautions


def test_a_prior_that_outweighs_the_data_is_said() -> None:
    (choice,) = choices(BetaBernoulli(600, 1200), 100, PureDP(1.0), 0.3, ["laplace"])
    assert "the prior outweighs the data" in choice.cautions[0]


def test_answers_lie_no_more_than_the_whole_way_to_the_prior() -> None:
    (choice,) = choices(BetaBernoulli(6, 12), 100, PureDP(1e-9), 0.3, ["tempered"])
    assert "lie at, or beyond, what was believed before" in choice.cautions[0] and "%" not in choice.cautions[0]


@pytest.mark.parametrize(
    ("target", "n", "said"),
    [
        (ApproxDP(1.0, 0.01), 50, ()),
        (ApproxDP(1.0, 0.03), 50, ("more than one in n = 50",)),
        (PureDP(11.0), 50, ("protects nobody",)),
        (ApproxDP(20.0, 0.5), 50, ("protects nobody", "more than one in")),
        (GaussianDP(6.0), 50, ("protects nobody",)),
        (ZeroConcentratedDP(0.5), 50, ()),
        (PureDP(1e300), 0, ("protects nobody",)),
    ],
)
def test_promises_to_beware_of(target: Promise, n: int, said: tuple[str, ...]) -> None:
    found = cautions(target, n)
    assert len(found) == len(said)
    assert all(words in caution for words, caution in zip(said, found, strict=True))


def test_plausible_means_lie_apart_and_can_be() -> None:
    for system in (BetaBernoulli(1, 1), GammaPoisson(1, 1, 5), DirichletCategorical([1.0, 1, 1])):
        means = system.reading.plausible()
        assert len(means) == 3
        for mean in means:
            system.reading.imagined(10, mean)


@pytest.mark.parametrize(
    ("system", "mean"),
    [
        (BetaBernoulli(1, 1), 0.3),
        (DirichletCategorical([1.0, 1.0, 1.0]), [0.2, 0.3, 0.5]),
        (GammaPoisson(2, 1, high=4), 1.5),
        (NormalMean(1.0, 1.0, bounds=(-1.0, 1.0)), 0.2),
    ],
)
@pytest.mark.parametrize("n", [0, 50])
def test_the_width_by_itself_is_that_of_the_forecast(system: Any, mean: Any, n: int) -> None:
    mechanism = NoisyStatistics(system, n, "gaussian", 2.0)
    assert width_of(mechanism, mean) == mechanism.forecast(mean).interval_width > 0


def test_the_share_that_an_accuracy_needs_gives_it_and_a_little_less_does_not() -> None:
    system, budget = BetaBernoulli(1, 1), ApproxDP(1.0, 1e-6)
    found = shares_needed(system, 5000, budget, 0.02, 0.5, list(names_for(system)))
    assert found[0].name == "gaussian"
    assert found[0].share == pytest.approx(0.0155, rel=0.1)
    assert all(one.width <= 0.02 for one in found if one.share is not None)  # type: ignore[operator]
    assert {one.name for one in found if one.share is None} >= {"direct", "diffused"}
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidValue):
            shares_needed(system, 5000, budget, bad, 0.5, ["gaussian"])


def test_so_many_records_give_an_accuracy_and_a_few_less_do_not() -> None:
    system, budget = BetaBernoulli(6, 12), ApproxDP(1.0, 1e-6)
    enough = records_needed(system, 50, budget, 0.02, 0.5, "diffused")
    assert enough is not None
    known = [shares_needed(system, n, budget, 0.02, 0.5, ["diffused"])[0].share for n in (enough, int(enough / 1.15))]
    assert known[0] is not None and known[1] is None
    assert records_needed(system, 50, budget, 1e-9, 0.5, "diffused") is None
