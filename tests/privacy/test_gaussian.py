"""The Gaussian curve against sixty digits: never below the truth, hardly above."""

import mpmath as mp
import numpy as np

from sottovoce.privacy.gaussian import GaussianProfile
from tests.privacy.oracle import untraced


def test_no_delta_is_below_the_truth_by_a_single_rounding() -> None:
    rng = np.random.default_rng(20)
    with mp.workdps(60):
        for _ in range(600):
            mu, z = 10 ** rng.uniform(-8, 3), rng.uniform(-8, 40)
            epsilon = max(0.0, mu * (mu / 2 + z))
            m, e = mp.mpf(mu), mp.mpf(epsilon)
            with untraced():
                true = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
            claimed = GaussianProfile(mu)._log_delta(np.array([epsilon]))[0]
            assert 0 <= mp.mpf(float(claimed)) - mp.log(true) < 1e-13 * (1 + mu) * (1 - mp.log(true)), (mu, epsilon)
