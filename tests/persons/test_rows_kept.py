"""The share of rows that k keeps: its intervals hold that of the table, where most numbers of rows are nobody's too."""

from __future__ import annotations

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.answers.intervals import central
from sottovoce.answers.rows_kept import kept_rows
from sottovoce.privacy.randomness import seeded_rng

MOST, K = 32, (1, 3, 10)
SIZES = {
    "one row each": np.ones(500, dtype=np.int64),
    "mostly few": np.minimum(np.random.default_rng(1).geometric(0.5, 500), MOST),
    "a few with many": np.repeat([1, 30], [485, 15]),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("target", [sv.ApproxDP(0.3, 1e-6), sv.PureDP(1.0)], ids=str)
def test_intervals_hold_the_share_of_rows_that_k_keeps(sizes, target):
    """Held at zero one by one, the thirty numbers of rows that nobody has were told to have rows: none was held."""
    system = sv.DirichletCategorical(categories=tuple(range(1, MOST + 1)))
    mechanism = sv.NoisyStatistics.calibrate(system, len(sizes), target)
    truth = np.minimum(sizes[:, None], K).sum(axis=0) / sizes.sum()
    held = []
    for seed in range(25):
        released = mechanism.release(sizes.tolist(), seeded_rng(seed)).value.noise_aware
        ends = central(kept_rows(released, K, seeded_rng(1)))
        held.append((ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1]))
    assert np.mean(held, axis=0).min() > 0.8
