"""The yardstick for one's own models: exact posteriors pass it, and posteriors that are too sure or shifted do not."""

import numpy as np
import pytest

pytest.importorskip("numpyro")

from benchmarks.own_models import DRAWS, RANKED, judged, summarised, worlds


def records(spread: float, shift: float, fits: int = 400) -> list[dict]:
    """Truths from N(0, 1), data N(truth, 1), draws of the exact posterior N(x/2, 1/2), made wrong on purpose."""
    rng = np.random.default_rng(7)
    truth = rng.standard_normal(fits)
    middle = (truth + rng.standard_normal(fits)) / 2 + shift
    draws = middle[:, None] + spread * np.sqrt(0.5) * rng.standard_normal((fits, DRAWS))
    found = [judged({"t": np.array(t)}, {"t": d[None]}) for t, d in zip(truth, draws, strict=True)]
    return [{"model": "normal", "label": "one", "fits": fits, "results": found}]


def test_exact_posteriors_pass():
    told = summarised(records(1.0, 0.0))["normal"]
    assert told["least p of the ranks, times their number"] > 1e-3
    assert 0.93 <= told["coverage"] <= 0.97
    assert told["fits and coverage"]["one"] == [400, told["coverage"]]


@pytest.mark.parametrize(("spread", "shift"), [(0.6, 0.0), (1.7, 0.0), (1.0, 0.3)])
def test_wrong_posteriors_do_not(spread, shift):
    told = summarised(records(spread, shift))["normal"]
    assert told["least p of the ranks, times their number"] < 1e-4


def test_every_world_has_its_own_noise_and_the_joined_sites_share_their_truths():
    made = worlds(["ABO alleles"], (0.1, 1.0), (2000,))
    assert [w.label for w in made[3:]] == ["eps=0.1 n=2000", "eps=1 n=2000"]
    assert made[3].noise("cells").scale == 20.0
    joined, pooled = made[1:3]
    assert sum(n for n, _ in joined.sites.values()) == sum(n for n, _ in pooled.sites.values())
    assert DRAWS // RANKED * RANKED <= DRAWS
