"""What is told of the information behind its noise."""

import numpy as np
import pytest

from sottovoce.regression.glances import denoised


@pytest.mark.parametrize("least", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("apart", [False, True])
def test_a_direction_that_noise_does_not_hide_is_taken_as_it_was_seen_however_small(least, apart):
    turn, _ = np.linalg.qr(np.arange(16.0).reshape(4, 4) + np.eye(4))
    truth = turn @ np.diag([3.0, 1.0, 2.0, least]) @ turn.T
    (found,) = denoised(truth[None], np.array([1e-9 * least]), turn[None, :, :1] if apart else None)
    assert np.linalg.eigvalsh(found) == pytest.approx([least, 1.0, 2.0, 3.0], rel=1e-4)


def test_a_direction_that_noise_hides_is_given_as_much_as_noise_would_hide():
    values = np.linalg.eigvalsh(denoised(np.diag([1.0, 1.0, 1.0, -1e-3])[None], np.array([1e-3])))[0]
    assert values == pytest.approx([1e-3, 1.0, 1.0, 1.0], rel=1e-2)
