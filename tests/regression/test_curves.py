"""Regressions whose number is a curve alone are concluded near the likelihood of their records, not at a false mode."""

import numpy as np
import pytest
from benchmarks.paper_coverage import FACTS, encoded, log_odds
from scipy import optimize, special

from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.joint_posterior import JointRegression
from sottovoce.inference.regression.row_law import RowLaw
from sottovoce.mechanisms.observation_model import infer
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng

FORMULA = Formula("smoker ~ bs(age, df=4) + frail", FACTS)


def likeliest(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        t = x @ theta
        return float((np.logaddexp(0, t) - y * t).sum()), x.T @ (special.expit(t) - y)

    return optimize.minimize(loss, np.zeros(x.shape[1]), jac=True, method="BFGS").x


@pytest.mark.parametrize(("epsilon", "seed"), [(3.0, 1), (3.0, 2), (3.0, 5), (1.0, 1)])
def test_a_curve_is_where_the_likelihood_of_the_records_is(epsilon: float, seed: int) -> None:
    """Where its search began at a narrow number, the first three ended at log-odds of -20, surely (chi-square 600)."""
    rng, n = seeded_rng(seed), 20_000
    age, frail = rng.normal(55, 15, n).clip(20, 90), rng.random(n) < 0.3
    y = rng.random(n) < special.expit(log_odds("inside", age, frail.astype(float)))
    mechanism = AdaptiveLooks.calibrate(FORMULA, n, ApproxDP(epsilon, 1e-6))
    found = mechanism.release({"smoker": y, "age": age, "frail": frail}, seeded_rng(seed + 50)).value
    A, b = FORMULA.units
    truth = A @ likeliest(encoded(age, frail.astype(float)), y.astype(float)) + b
    assert np.abs((found.mean - truth) / found.sd).max() < 4
    assert found.sd.max() < 1.0
    assert infer(JointRegression(FORMULA, n), found.looks).explained


def test_the_search_begins_at_a_number_of_about_the_place_and_spread_that_its_curve_shows() -> None:
    law = RowLaw(FORMULA.encoding)
    for middle, spread in ((40.0, 5.0), (55.0, 15.0), (70.0, 10.0)):
        age = seeded_rng(1).normal(middle, spread, 20_000).clip(20, 90)
        rows = encoded(age, np.zeros(len(age)))
        u = law.start(rows.mean(axis=0), np.cov(rows.T))
        block = law.blocks[0]
        place = 20 + 70 * special.ndtr(u[block.start])
        wide = float(law.spread(u[block.start + 1])[0]) * 35
        assert abs(place - middle) < 4 and 0.6 < wide / spread < 1.6
