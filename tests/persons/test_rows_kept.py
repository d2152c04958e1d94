"""The share of rows that k keeps: its intervals hold that of the table, where most numbers of rows are nobody's too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.inference.cells.intervals import central
from sottovoce.mechanisms.noisy_histogram import NoisyHistogram
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers.rows_per_person import kept_ends, kept_rows

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


@pytest.mark.parametrize("rows", [1, 31, 32, 40])
@pytest.mark.parametrize("seed", range(6))
def test_no_noisy_look_is_told_as_certain(rows, seed):
    """Where all have 40 rows and count with 32, nearly every draw is held at 20 of 32, and the width was zero."""
    sizes = np.full(300, min(rows, MOST))
    system = sv.DirichletCategorical(categories=tuple(range(1, MOST + 1)))
    mechanism = sv.NoisyStatistics.calibrate(system, len(sizes), sv.ApproxDP(0.6, 1e-6))
    released = mechanism.release(sizes.tolist(), seeded_rng(seed)).value.noise_aware
    ends = kept_ends(released, K, kept_rows(released, K, seeded_rng(1)), 0.95)
    assert np.all(ends[:, 0] < ends[:, 1])
    assert np.all((np.array(K) / MOST <= ends[:, 0]) & (ends[:, 1] <= 1))


def test_an_interval_at_the_end_of_what_is_possible_reaches_inward_as_far_as_noise_does():
    """Counts that noise moved beyond what 300 persons can have, for certain: every draw is held."""
    seen = NoisyHistogram(
        np.ones(MOST), np.append(np.full(MOST - 1, -9.0), 300 + 9.0 * (MOST - 1)), 300, "gaussian", 1.0
    )
    kept = kept_rows(seen, K, seeded_rng(1))
    assert np.all(np.ptp(central(kept), axis=1) == 0)
    ends = kept_ends(seen, K, kept, 0.95)
    assert np.allclose(ends[:, 0], np.array(K) / MOST) and np.all(ends[:, 1] > ends[:, 0] + 1e-4)


def test_whoever_has_more_rows_than_are_counted_is_told_of(tmp_path):
    facts = sv.Facts(visits=sv.Count(9), patient=sv.Person())
    for rows, told in ((20, False), (40, True)):
        names = np.repeat(np.arange(200), rows)
        table = pa.table({"visits": np.zeros(names.size, dtype=np.int64), "patient": names})
        with sv.Curator(table, tmp_path / f"{rows}", sv.ApproxDP(2.0, 1e-6), facts=facts, dataset="d") as curator:
            kept = curator.rows_kept((1, 20), spend=0.5)
            assert ("of all rows each k keeps a smaller share" in str(kept)) == told
            assert kept.bounded[0] <= (rows >= MOST) <= kept.bounded[1] + 0.05
            before = curator.left()
            for k, most in (
                (32, 32),
                (3, 3),
                (40, 32),
            ):  # "100 % (100 % to 100 %)" of rows of which half were not counted
                with pytest.raises(InvalidValue, match="most must be more than every k"):
                    curator.rows_kept((1, k), most=most, spend=0.5)
            assert curator.left() == before
