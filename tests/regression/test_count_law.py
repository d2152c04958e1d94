"""The law of counts that looks cut, beside SciPy's negative binomial and differences of sums."""

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.regression.count_law import CountLaw
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.records.facts import Count
from sottovoce.records.readings.families import PoissonFamily

HIGH, T = 40, np.array([-2.0, 0.3, 1.7, 4.5])
FAMILIES = [
    PoissonFamily(Count(HIGH), 3, 0.0),
    PoissonFamily(Count(HIGH), 9, 0.7),
    PoissonFamily(Count(HIGH), 30, 0, 9),
]


def law(u: float, tail: float = 0.0) -> CountLaw:
    return CountLaw.of(np.array([u, tail]), HIGH, JointPriors())


def cut(family: PoissonFamily, y: np.ndarray) -> np.ndarray:
    return np.clip(np.minimum(y, HIGH), family.beyond, family.cap) - family.beyond


@pytest.mark.parametrize("u", [-1.0, 0.5, 2.0])
def test_means_squares_and_covariances_are_those_of_the_negative_binomial(u: float) -> None:
    alpha = (1 - special.ndtr(u)) ** (-1 / 3) - 1
    assert law(u).dispersion == pytest.approx(alpha)
    counts = np.arange(400_000)
    for row, t in enumerate(T):
        p = stats.nbinom.pmf(counts, 1 / alpha, 1 / (1 + alpha * np.exp(t)))
        means = [p @ cut(family, counts) for family in FAMILIES]
        for a, family in enumerate(FAMILIES):
            centre = 0.4
            at = 0.0 if family.beyond else float(family.mean(np.array([centre]))[0])
            kernels = law(u).at(np.array([t])).kernels(family, np.array([centre]))
            assert kernels.mean[0][0] == pytest.approx(means[a] - at, rel=1e-8, abs=1e-10)
            assert kernels.square[0][0] == pytest.approx(p @ (cut(family, counts) - at) ** 2, rel=1e-8, abs=1e-10)
            for b, other in enumerate(FAMILIES):
                expected = p @ (cut(family, counts) * cut(other, counts)) - means[a] * means[b]
                assert law(u).at(T).covariances(FAMILIES)[a, b, row] == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_without_dispersion_counts_are_poisson() -> None:
    assert law(-8.0).masses(T)[:, :HIGH] == pytest.approx(stats.poisson.pmf(np.arange(HIGH), np.exp(T)[:, None]))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("u", "tail"), [(0.4, 0.0), (0.4, 1.3), (1.5, -2.0)])
def test_derivatives_are_those_of_the_values(family: PoissonFamily, u: float, tail: float) -> None:
    t0, step = T[::-1] / 2, 1e-3
    kernels = law(u, tail).at(T).kernels(family, t0)
    moved = {
        "centre": [law(u, tail).at(T).kernels(family, t0 + h) for h in (step, -step)],
        "truth": [law(u, tail).at(T + h).kernels(family, t0) for h in (step, -step)],
        "dispersion": [law(u + h, tail).at(T).kernels(family, t0) for h in (step, -step)],
        "tail": [law(u, tail + h).at(T).kernels(family, t0) for h in (step, -step)],
    }
    for name in ("mean", "kept", "square"):
        _, by_centre, by_truth, (by_dispersion, by_tail) = getattr(kernels, name)
        mine = (by_centre, by_truth, by_dispersion, by_tail)
        for slope, way in zip(mine, moved, strict=True):
            up, down = (getattr(item, name)[0] for item in moved[way])
            assert slope == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=2e-4), (name, way)


def test_a_longer_tail_is_lost_beyond_every_cut_and_nowhere_else() -> None:
    """λ > 0: less is seen the lower counts are cut, as of rates that are log-normal; of what is not cut nothing."""

    def mean(tail: float, cap: int) -> float:
        family = PoissonFamily(Count(HIGH), cap, 0.7)
        return float(law(0.8, tail).at(np.array([0.5])).kernels(family, np.zeros(1)).mean[0][0])

    seen = [mean(2.0, cap) - mean(0.0, cap) for cap in (3, 9, HIGH)]
    assert seen[0] < seen[1] < seen[2] == pytest.approx(0.0)


def test_half_of_all_dispersions_are_below_their_median_and_their_mean_is_a_half() -> None:
    u = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    assert np.mean([law(value).dispersion for value in u]) == pytest.approx(0.5, abs=0.01)
