"""Guesses that have come to rest are let go: where they are is where all steps would have led to."""

import numpy as np
import pytest

from sottovoce.inference.regression import laplace_approximation as ways
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.adaptive_newton import final
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.look_posterior import believe_all
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Flag, Number

MECHANISM = AdaptiveLooks(Formula("y ~ a + b", Facts(y=Flag(), a=Number(-1, 1), b=Flag())), 400, 0.02)


def asked(seed: int):
    """What is asked of the last look at some records: noise hides one column or both, so that guesses are made."""
    rng = seeded_rng(seed)
    records = {"a": rng.uniform(-1, 1, 400), "b": rng.random(400) < 0.3, "y": rng.random(400) < 0.6}
    seen = MECHANISM.see(records)
    return final(MECHANISM, MECHANISM.walk(lambda look, scales: MECHANISM._noisy(seen, look, scales, rng)))


def test_an_early_rest_is_where_all_steps_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    look = asked(2)
    (early,) = believe_all([look])
    monkeypatch.setattr(ways, "_NEAR", 0.0)
    (late,) = believe_all([look])
    assert len(early.weights) > 1
    sd = np.sqrt(np.diag(late.covariance))
    assert np.abs(early.mean - late.mean) == pytest.approx(np.zeros(len(sd)), abs=0.01 * sd.min())
    assert early.covariance == pytest.approx(late.covariance, rel=0.01, abs=0.01 * sd.min() ** 2)


def test_what_a_look_says_does_not_depend_on_those_beside_it() -> None:
    looks = [asked(seed) for seed in (1, 2)]
    for alone, beside in zip([believe_all([look])[0] for look in looks], believe_all(looks), strict=True):
        assert beside.means == pytest.approx(alone.means, rel=1e-6, abs=1e-9)
        assert beside.weights == pytest.approx(alone.weights, rel=1e-6, abs=1e-9)
