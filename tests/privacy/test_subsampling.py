"""What a subsampled step costs, against mpmath and against the step that attains it."""

from __future__ import annotations

from itertools import combinations

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.subsampling import subsampled_epsilon


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-9, 0.1, 1.0, 29.999, 30.0, 700.0, 1e6, 1e300])
def test_it_is_the_logarithm_rounded_up(epsilon: float) -> None:
    for rate in (5e-324, 1e-300, 1e-12, 0.01, 0.5, 1 - 1e-16, 1.0):
        with mp.workdps(60):
            step, q = mp.mpf(epsilon), mp.mpf(rate)
            truth = step + mp.log(q) if epsilon > 1e5 else mp.log1p(q * mp.expm1(step))
            claimed = subsampled_epsilon(epsilon, rate)
            assert truth <= claimed <= epsilon
            assert claimed <= truth + 1e-14 * (truth if epsilon < 700 else step) + 1e-322


@pytest.mark.parametrize("m", [1, 2, 4])
def test_no_smaller_number_holds_when_one_record_is_replaced(m: int) -> None:
    # A part of m of 5 records says by randomized response whether it holds a one: count over all parts.
    n, epsilon = 5, 3.0
    lie = 1 / (1 + np.exp(epsilon))

    def yes(records: list[int]) -> float:
        return float(np.mean([1 - lie if any(part) else lie for part in combinations(records, m)]))

    loss = np.log(yes([1, 0, 0, 0, 0]) / yes([0] * n))
    assert subsampled_epsilon(epsilon, m / n) == pytest.approx(loss, rel=1e-9)


def test_it_never_exceeds_the_step_and_refuses_what_is_no_rate() -> None:
    assert subsampled_epsilon(2.0, 1.0) == 2.0
    assert subsampled_epsilon(2.0, 0.0) == 0.0
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidValue, match="rate"):
            subsampled_epsilon(1.0, wrong)
