"""What is told of the information behind its noise."""

import numpy as np
import pytest

from sottovoce.facts import Category, Facts, Flag, Number
from sottovoce.privacy.promises import ApproxDP
from sottovoce.regression.adaptive_looks import AdaptiveLooks
from sottovoce.regression.formula import Formula
from sottovoce.regression.glances import denoised
from sottovoce.regression.guesses import _Veil


@pytest.mark.parametrize("least", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("apart", [False, True])
def test_a_direction_that_noise_does_not_hide_is_taken_as_it_was_seen_however_small(least, apart):
    turn, _ = np.linalg.qr(np.arange(16.0).reshape(4, 4) + np.eye(4))
    truth = turn @ np.diag([3.0, 1.0, 2.0, least]) @ turn.T
    found = denoised(truth, 1e-9 * least, turn[:, :1] if apart else None)
    assert np.linalg.eigvalsh(found) == pytest.approx([least, 1.0, 2.0, 3.0], rel=1e-4)


def test_a_direction_that_noise_hides_is_given_as_much_as_noise_would_hide():
    values = np.linalg.eigvalsh(denoised(np.diag([1.0, 1.0, 1.0, -1e-3]), 1e-3))
    assert values == pytest.approx([1e-3, 1.0, 1.0, 1.0], rel=1e-2)


def test_numbers_that_noise_hides_can_share_nothing_with_groups():
    formula = Formula("y ~ x + (1 | g)", Facts(y=Flag(), x=Number(-6, 6), g=Category(list("abcd"))), "logistic")
    mechanism, rng = AdaptiveLooks.calibrate(formula, 500, ApproxDP(1.0, 1e-5)), np.random.default_rng(3)
    noisy = mechanism.walk(
        lambda look, scales: 20.0 * rng.standard_normal(sum(look.sizes.values())) * max(scales.values())
    )
    glance = noisy[-1][0]
    average, x = glance.averaged(glance.known), formula.terms.index("x")
    veil = _Veil(glance, average, np.arange(len(average)) == x, 4, grouped=True)
    assert veil._loosened(1.0) == pytest.approx(np.eye(len(average)))
    loose = veil._loosened(0.0)
    back, found = np.linalg.inv(glance.look.matrix), loose @ average @ loose.T
    moments, one = back @ found @ back.T, formula.terms.index("Intercept")
    shared = moments - np.outer(moments[one], moments[one]) / moments[one, one]
    others = [i for i in range(len(average)) if i not in (x, one)]
    assert np.abs(shared[x, others]).max() < 1e-6 * np.sqrt(shared[x, x] * np.diag(shared)[others].max())
    before = back @ average @ back.T
    assert moments[one] == pytest.approx(before[one])
    assert moments[np.ix_(others, others)] == pytest.approx(before[np.ix_(others, others)])
