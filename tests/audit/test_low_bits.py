"""The low-bits attack works on naive noise, and its arithmetic is right."""

from fractions import Fraction

import numpy as np
import pytest

from sottovoce.audit.low_bits import lowest_bit, naive_laplace, possible
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics


@pytest.mark.parametrize("scale", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("value", [0.0, 1.0, -7.0, 1e6])
def test_what_was_released_is_always_possible(value, scale):
    assert possible(naive_laplace(value, scale, 20_000, seeded_rng(1)), value, scale).all()


@pytest.mark.parametrize(("value", "other", "least"), [(0.0, 1.0, 0.6), (1.0, 0.0, 0.5), (1.0, 2.0, 0.4)])
def test_most_naive_releases_prove_their_data_set(value, other, least):
    outputs = naive_laplace(value, 1.0, 20_000, seeded_rng(2))
    assert 1 - possible(outputs, other, 1.0).mean() > least


def test_possible_agrees_with_trying_every_uniform_of_a_stretch():
    """All 2^16 uniforms just below a half: exactly their outputs are possible, and the doubles between are not."""
    uniforms = 0.5 - np.arange(1, 2**16) * 2.0**-53
    reached = np.unique(3.0 - 1.0 * np.log(uniforms))
    between = np.nextafter(reached, np.inf)
    between = between[~np.isin(between, reached)][:-20]
    assert possible(reached, 3.0, 1.0).all()
    fine = np.unique(-np.log(uniforms))
    gaps = np.nextafter(fine, np.inf)
    gaps = gaps[~np.isin(gaps, fine)][20:-20]
    assert gaps.size > 1000
    assert not possible(gaps, 0.0, 1.0).any()


def test_the_naive_noise_is_laplace():
    noise = naive_laplace(0.0, 2.0, 200_000, seeded_rng(3))
    assert np.abs(noise).mean() == pytest.approx(2.0, rel=0.01)
    assert np.mean(noise > 0) == pytest.approx(0.5, abs=0.005)


def test_the_lowest_bit_is_that_of_the_exact_fraction():
    values = seeded_rng(4).normal(size=500) * 2.0 ** seeded_rng(5).integers(-30, 30, 500)
    for value, place in zip(values.tolist(), lowest_bit(values).tolist(), strict=True):
        multiple = Fraction(value) / Fraction(2) ** int(place)
        assert multiple.denominator == 1
        assert multiple.numerator % 2 == 1


def test_discrete_noise_has_no_low_bits():
    mechanism = NoisyStatistics(BetaBernoulli(1, 1), 4, "laplace", 1.0)
    noisy = [mechanism.noisy_totals(Statistics(4, np.array([s])), seeded_rng(6), 500) for s in (0.0, 1.0)]
    assert min(lowest_bit(values).min() for values in noisy) >= 0


def test_the_attack_sees_textbook_noise_and_nothing_in_ours():
    """The attack of the benchmark, on fewer draws: normals, moments, a mean that diffuses, whole numbers, states."""
    pytest.importorskip("jax")
    from benchmarks.low_bits import CONTROL, look, told

    sizes = {CONTROL: 8000, "noisy moments": 60_000, "Ornstein-Uhlenbeck diffusion": 60_000}
    sizes |= {"noisy statistics": 4000, "direct posterior": 500, "tempered hidden Markov chain": 60}
    found = {name: told(look((name, size, float("inf")))) for name, size in sizes.items()}
    assert found[CONTROL]["found"]
    assert [name for name, one in found.items() if one["found"]] == [CONTROL]
    assert all(one["bits"] == "secure" for one in found.values())


def test_the_attack_sees_all_bits_of_a_sum_in_doubles(monkeypatch):
    """A number with normal noise in doubles and no cells: near zero, one that came from there has more bits."""
    pytest.importorskip("jax")
    from benchmarks import low_bits
    from sottovoce.audit.subject import Subject
    from sottovoce.privacy.gaussian import GaussianProfile

    def doubles(side, count, rng):
        return (side + rng.standard_normal(count))[:, None]  # really 1-GDP, were these real numbers

    leaky = Subject("in doubles", doubles, GaussianProfile(1.0))
    monkeypatch.setattr(low_bits, "subject", lambda word: leaky)
    monkeypatch.setattr(low_bits, "source", lambda word: (seeded_rng(1), "seeded"))
    low_bits.eye.cache_clear()
    assert low_bits.told(low_bits.look(("in doubles", 4000, float("inf"))))["found"]
    low_bits.eye.cache_clear()
