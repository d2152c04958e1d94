"""How much counts vary is told with an interval: the dispersion of a negative binomial law."""

import numpy as np
import pytest

from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Count, Facts, Number
from sottovoce.service.answers.regression import Regression

FACTS = Facts(visits=Count(40), age=Number(0, 1))


@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_the_dispersion_lies_in_its_interval(alpha: float) -> None:
    rng, n = seeded_rng(4), 20_000
    age = rng.random(n)
    rates = rng.gamma(1 / alpha, alpha, n) if alpha else 1.0
    records = {"age": age, "visits": rng.poisson(np.exp(0.5 + age) * rates)}
    release = AdaptiveLooks(Formula("visits ~ age", FACTS), n, 1.0).release(records, seeded_rng(5))
    told = release.value.overdispersion()
    assert told is not None
    median, low, high = told
    assert low < median < high < alpha + 0.4
    assert low <= alpha <= high if alpha else low < 0.02
    again = Coefficients.from_dict(release.value.to_dict())
    assert again.overdispersion(0.8) == pytest.approx(release.value.overdispersion(0.8))
    assert "negative binomial" in Regression(release).footing()


def test_of_other_responses_none_is_told() -> None:
    formula = Formula("age ~ visits", FACTS)
    rng = seeded_rng(6)
    records = {"age": rng.random(2000), "visits": rng.poisson(2.0, 2000)}
    assert AdaptiveLooks(formula, 2000, 1.0).release(records, seeded_rng(5)).value.overdispersion() is None
