import numpy as np
import pytest
from scipy import stats

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.randomness import seeded_rng


@pytest.mark.parametrize("scale", [0.4, 2.5, 30.0])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_much_seeded_noise_has_the_discrete_law(kind: str, scale: float) -> None:
    noise, size = IntegerNoise(kind, scale), 40_000
    drawn = noise.add(np.full(size, 7), seeded_rng(1)) - 7
    k = np.arange(-int(20 * scale) - 5, int(20 * scale) + 6)
    law = np.exp(noise.log_weight(k))
    law /= law.sum()
    keep = law * size > 8
    seen = np.array([(drawn == value).sum() for value in k[keep]])
    expected = law[keep] * size
    rest = size - expected.sum()
    if rest > 5:
        seen, expected = np.append(seen, size - seen.sum()), np.append(expected, rest)
    else:
        expected *= seen.sum() / expected.sum()
    assert stats.chisquare(seen, expected).pvalue > 1e-4
    np.testing.assert_array_equal(drawn, noise.add(np.full(size, 7), seeded_rng(1)) - 7)
