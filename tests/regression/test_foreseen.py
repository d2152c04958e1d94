"""What a plan foresees of a regression's intervals, against releases of made-up records."""

from functools import cache

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.facts.dummy import dummy_columns
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.regression import AdaptiveLooks, Formula
from sottovoce.regression.foreseen import foresee

FACTS = sv.Facts(
    age=sv.Number(0, 110),
    ward=sv.Category(["A", "B", "C"]),
    smoker=sv.Flag(),
    sbp=sv.Number(60, 250),
    visits=sv.Count(12),
    patient=sv.Person(),
)


@cache
def made_up(seed):
    rng, records = np.random.default_rng(seed), dummy_columns(FACTS.of_rows(), 8000, seed=seed + 5)
    return records | {"sbp": rng.normal(155, 47.5, 8000), "visits": rng.poisson(1.0, 8000)}


@pytest.mark.parametrize("response", ["smoker", "sbp", "visits", "ward"])
def test_intervals_are_as_wide_as_foreseen(response):
    formula = Formula(f"{response} ~ age" + (" + C(ward)" if response != "ward" else ""), FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, 8000, sv.ApproxDP(2.0, 1e-6))
    told = foresee(mechanism)
    widths, plain = [], []
    for seed in range(3):  # where noise is loud, intervals of one table differ by a third
        value = mechanism.release(made_up(seed), seeded_rng(seed + 9)).value
        widths.append(np.diff(value.interval(), axis=1)[:, 0] / 2)
        plain.append(1.96 * value.plain_sd)
    assert [one.term for one in told] == value.terms
    np.testing.assert_allclose([one.width for one in told], np.median(widths, axis=0), rtol=0.25)
    np.testing.assert_allclose([one.plain for one in told], np.median(plain, axis=0), rtol=0.1)


def test_a_large_table_is_foreseen_from_few_imagined_records():
    formula = Formula("smoker ~ age", FACTS.of_rows())
    plain = [foresee(AdaptiveLooks.calibrate(formula, n, sv.ApproxDP(1.0, 1e-6)))[1].plain for n in (20_000, 2_000_000)]
    assert plain[0] / plain[1] == pytest.approx(10, rel=0.03)


def test_a_secret_n_is_imagined_and_persons_count_once():
    secret = AdaptiveLooks(Formula("smoker ~ age", FACTS), None, 0.05)
    with pytest.raises(InvalidValue, match="how many to imagine"):
        foresee(secret)
    assert foresee(secret, 5000)[1].width < foresee(secret, 500)[1].width
