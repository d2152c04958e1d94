"""Bounds that stand for integrals of tails are bounds: never below them, never above what they are to stay below."""

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.tail_integrals import BetaTail, Curved, GammaTail, Gap, Linear, TailIntegral, log_integral

_CELLS = 2000


def _scales(low: float, high: float, seed: int) -> Floats:
    return 10.0 ** seeded_rng(seed).uniform(low, high, (_CELLS, 1))


def _tails(kind: str) -> tuple[TailIntegral, Gap]:
    """Return tails of all scales whose thresholds lie on both sides of the mode, with gaps of all scales."""
    away = seeded_rng(1).normal(0, 4, (_CELLS, 1))
    if kind == "beta":
        p, q = _scales(-2, 7, 2), _scales(-2, 7, 3)
        spread = np.sqrt(1 / p + 1 / q)
        return BetaTail.of(p, q, np.log(p) - np.log(q) + away * spread), Linear(_scales(-4, 3, 4))
    k, sign = _scales(-2, 7, 2), 1.0 if kind == "gamma upwards" else -1.0
    return GammaTail.of(k, np.log(k) + away / np.sqrt(k), sign), Curved(_scales(-4, 3, 4), sign)


@pytest.mark.parametrize("kind", ["beta", "gamma upwards", "gamma downwards"])
def test_what_stays_below_a_floor_is_answered_with_a_bound(kind: str) -> None:
    tail, gap = _tails(kind)
    exact = log_integral(tail, gap)
    for above in (0.05, 0.5, 3.0):
        floor = exact + above
        rough = log_integral(tail, gap, floor)
        assert np.all(rough >= exact - 1e-9 * (1 + np.abs(exact)))
        assert np.all(rough <= floor)
        if above == 3.0:
            assert np.mean(rough > exact + 1e-6) > 0.1  # of which there are enough to tell


@pytest.mark.parametrize("near", [-8.16e-15, -4.0856e-14, -5.5955e-14])
def test_no_tangent_is_trusted_where_a_fall_has_lost_its_digits(near: float) -> None:
    p, q, w, ahead = (np.array([[x]]) for x in (8.88092489e28, 2.66115441e28, 4.79044215e14, near))
    tail, gap = BetaTail(p, q, ahead, BetaTail.of(p, q, ahead).top), Linear(w)
    whole = log_integral(tail, gap)
    assert log_integral(tail, gap, whole + 5.0) >= whole


@pytest.mark.parametrize("logit", [-500.0, 20.0, 700.0, 800.0, 3e4, 1e6])
def test_a_density_keeps_its_digits_where_one_shape_is_huge_and_the_other_tiny(logit: float) -> None:
    p, q = 658194674.7422987, 6.728009055371207e-06
    tail = BetaTail.of(*(np.array([[x]]) for x in (p, q, logit)))
    with mp.workdps(40):
        whole = mp.loggamma(p) + mp.loggamma(q) - mp.loggamma(mp.mpf(p) + q)
        truth = -p * mp.log1p(mp.exp(-logit)) - q * mp.log1p(mp.exp(logit)) - whole
    assert tail.log_density(np.zeros((1, 1)))[0, 0] == pytest.approx(float(truth), rel=1e-12)
