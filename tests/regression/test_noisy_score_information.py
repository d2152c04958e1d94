"""What is told of the information behind its noise."""

import numpy as np
import pytest

from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation, denoised
from sottovoce.records.facts import Category, Facts, Number


@pytest.mark.parametrize("least", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("apart", [False, True])
def test_a_direction_that_noise_does_not_hide_is_taken_as_it_was_seen_however_small(least, apart):
    turn, _ = np.linalg.qr(np.arange(16.0).reshape(4, 4) + np.eye(4))
    truth = turn @ np.diag([3.0, 1.0, 2.0, least]) @ turn.T
    (found,) = denoised(truth[None], np.array([1e-9 * least]), turn[None, :, 0] if apart else None)
    assert np.linalg.eigvalsh(found) == pytest.approx([least, 1.0, 2.0, 3.0], rel=1e-4)


def test_a_direction_that_noise_hides_is_given_as_much_as_noise_would_hide():
    values = np.linalg.eigvalsh(denoised(np.diag([1.0, 1.0, 1.0, -1e-3])[None], np.array([1e-3])))[0]
    assert values == pytest.approx([1e-3, 1.0, 1.0, 1.0], rel=1e-2)


def test_what_two_linear_predictors_share_is_seen_where_the_whole_would_hide_it():
    """The whole has twice the columns, and its semicircle swallowed a sixth of what was seen of the second."""
    d, tau, rng = 20, 15.0, np.random.default_rng(1)
    names = [f"x{k}" for k in range(1, d)]
    facts = {name: Number(-1, 1) for name in names} | {"y": Category(("a", "b", "c"))}
    formula = Formula("y ~ " + " + ".join(names), Facts(facts))
    look = formula.look_at(1000, np.zeros(2 * d), np.eye(d), 3.0, ("score", "information"))
    truth = np.kron([[2, -1], [-1, 2]], np.diag([1.0, 1.0, 0.5] + [0.02] * (d - 3))) * 1000 / 9
    found, off = [], []
    for _ in range(20):
        noise = tau * rng.standard_normal((2 * d, 2 * d))
        noise = (noise + noise.T) / 2
        glance = NoisyScoreInformation(look, 1000, None, truth + noise, None, 1.0, tau, 0.0)
        found.append(np.diag(glance.averaged(glance.known)))
        off.append(np.linalg.norm(glance.known - truth) / np.linalg.norm(noise))
    assert np.mean(off) < 0.32  # it was .39
    assert np.mean(found, axis=0)[:3] == pytest.approx([2000 / 9, 2000 / 9, 1000 / 9], rel=0.12)  # 188 of 222, and 76


def test_without_noise_the_information_of_several_linear_predictors_is_what_it_is():
    formula = Formula("y ~ a", Facts(y=Category(("p", "q", "r")), a=Number(-1, 1)))
    look = formula.look_at(1000, np.zeros(4), np.eye(2), 3.0, ("score", "information"))
    root = np.random.default_rng(2).standard_normal((4, 9))
    glance = NoisyScoreInformation(look, 1000, None, root @ root.T, None, 1.0, 1e-9, 0.0)
    assert glance.known == pytest.approx(root @ root.T, rel=1e-6, abs=1e-6)
