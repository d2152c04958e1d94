"""The counts behind a noisy histogram, against sums over all of them without transforms."""

import functools

import flint
import numpy as np
import pytest
from flint import arb
from scipy import special

from sottovoce.mechanisms import beta_quantiles, latent_histogram, sum_tree
from sottovoce.mechanisms.ball_arithmetic import precision
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.latent_histogram import polished, tabulate
from sottovoce.mechanisms.noisy_histogram import NoisyHistogram
from sottovoce.privacy.errors import InvalidValue


def by_adding(alpha, noisy, n, noise):
    """Every count's law given the sum of all: convolutions term by term, in which nothing cancels."""
    c = np.arange(n + 1.0)
    logs = special.gammaln(alpha[:, None] + c) - special.gammaln(c + 1) + noise.log_weight(noisy[:, None] - c)
    low, high = -5e3, 5e3
    for _ in range(24):  # any tilt gives the same laws, and one near this the most digits
        tilt = (low + high) / 2
        laws = logs + tilt * c
        laws = np.exp(laws - laws.max(axis=1, keepdims=True))
        laws /= laws.sum(axis=1, keepdims=True)
        low, high = (low, tilt) if (laws @ c).sum() > n else (tilt, high)

    def running(rows):
        sums = [np.eye(1, n + 1)[0]]
        for row in rows:
            law = np.convolve(sums[-1], row)[: n + 1]
            sums.append(law / law.max())
        return sums

    before, after = running(laws[:-1]), running(laws[:0:-1])[::-1]
    found = np.array([w * np.convolve(a, b)[n::-1] for w, a, b in zip(laws, before, after, strict=True)])
    return found / found.sum(axis=1, keepdims=True)


def spread_out(known, n):
    every = np.zeros((known.low.size, n + 1))
    for laws in known.marginals():
        wide = np.zeros((len(laws.low), n + laws.chances.shape[1] + 1))
        np.put_along_axis(wide, laws.low.astype(int)[:, None] + np.arange(laws.chances.shape[1]), laws.chances, axis=1)
        assert not wide[:, n + 1 :].any()
        every[laws.places] = wide[:, : n + 1]
    return every


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1e-3, 0.5, 3.0, 100.0])
@pytest.mark.parametrize("least", [1e-6, 1.0, 1e4])
def test_the_law_of_every_count_is_the_sum_over_all_histograms(kind, scale, least):
    rng = np.random.default_rng(3)
    for size, n in ((1, 9), (2, 40), (7, 60), (39, 10), (39, 700)):
        alpha = least * rng.uniform(1, 2, size)
        truth = rng.multinomial(n, rng.dirichlet(np.full(size, 0.5)))
        noisy = np.rint(truth + scale * rng.laplace(size=size))
        noise = IntegerNoise(kind, scale)
        known = tabulate(alpha, noisy, n, noise)
        assert known.lattice == 1
        found = spread_out(known, n)
        np.testing.assert_allclose(found, by_adding(alpha, noisy, n, noise), atol=1e-10)


@pytest.mark.parametrize("noisy", [[-900.0, 4.0, 2.0, 3e4], [0.0] * 4, [700.0] * 4, [-700.0, 0.0, 0.0, 0.0]])
@pytest.mark.parametrize("least", [1e-3, 1.0, 1e4])
def test_noisy_counts_far_from_any_histogram(noisy, least):
    alpha, n, noise = least * np.array([1.0, 1, 2, 3]), 300, IntegerNoise("laplace", 2.0)
    found = spread_out(tabulate(alpha, np.array(noisy), n, noise), n)
    np.testing.assert_allclose(found, by_adding(alpha, np.array(noisy), n, noise), atol=1e-10)


@pytest.mark.parametrize(("kind", "scale", "large"), [("laplace", 2.0, 2**20), ("gaussian", 30.0, 1)])
@pytest.mark.parametrize("least", [0.01, 1.0])
def test_one_category_that_holds_nearly_all_is_in_a_table_of_its_own(monkeypatch, kind, scale, large, least):
    monkeypatch.setattr(latent_histogram, "_BLOCK", 64)
    monkeypatch.setattr(sum_tree, "_LARGE", large)  # sums that are guessed at, and those that are drawn from tables
    rng, noise, n, alpha = np.random.default_rng(5), IntegerNoise(kind, scale), 700, np.full(30, least)
    noisy = np.rint(np.append(660.0, np.zeros(29)) + scale * rng.laplace(size=30))
    noisy[7] += 300  # and one that the others must make up for
    known = tabulate(alpha, noisy, n, noise)
    assert len(known.tables) > 1 and known.lattice == 1
    exact = by_adding(alpha, noisy, n, noise)
    np.testing.assert_allclose(spread_out(known, n), exact, atol=1e-10)
    draws, counts = known.draw(20_000, rng), np.arange(n + 1)
    assert np.all(draws.sum(axis=1) == n) and draws.min() >= 0
    mean = exact @ counts
    spread = np.sqrt(np.maximum(exact @ counts**2 - mean**2, 1e-6) / len(draws))
    assert np.max(np.abs(draws.mean(axis=0) - mean) / spread) < 4.5
    for k in (0, 7):  # distribution functions of 20,000 draws are off by 0.0138 once in a thousand times
        seen = np.cumsum(np.bincount(draws[:, k].astype(int), minlength=n + 1)) / len(draws)
        assert np.max(np.abs(seen - np.cumsum(exact[k]))) < 0.0138


def test_counts_off_by_one_without_noise_move_one_category():
    alpha = np.array([1.0, 2, 1, 1])
    known = NoisyHistogram(alpha, [5.0, 4, 0, 2], 10, "gaussian", 1e-3)
    fewer = np.array([5 / 5, 4 / 5, 0, 2 / 2])  # c! / Γ(α + c) over the same of c - 1
    np.testing.assert_allclose(known.mean * 15 - alpha, [5, 4, 0, 2] - fewer / fewer.sum(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [5, 70, 321])
def test_draws_have_the_laws_of_single_counts_and_the_total(size):
    rng = np.random.default_rng(8)
    n = 6 * size
    noisy = rng.multinomial(n, rng.dirichlet(np.ones(size))) + np.rint(rng.laplace(0, 3, size))
    known = tabulate(np.full(size, 0.7), noisy, n, IntegerNoise("laplace", 3.0))
    draws = known.draw(4000, rng)
    assert np.all(draws.sum(axis=1) == n)
    laws = spread_out(known, n)
    seen = np.array([np.bincount(column.astype(int), minlength=n + 1) for column in draws.T])
    assert not seen[laws == 0].any()
    often = 4000 * laws > 8
    chi = ((seen - 4000 * laws) ** 2 / np.maximum(4000 * laws, 1))[often]
    expected = (1 - laws)[often]
    assert abs(chi.sum() - expected.sum()) < 5 * np.sqrt(2 * expected.sum())
    # And jointly: what half of them make together.
    left, right = (functools.reduce(np.convolve, part) for part in np.split(known.tables[0], [size // 2]))
    sums = np.arange(left.size)
    other = known.target - sums
    law = left * np.where((other >= 0) & (other < right.size), right[np.clip(other, 0, right.size - 1)], 0.0)
    law /= law.sum()
    mean = law @ sums
    variance = law @ (sums - mean) ** 2
    found = (draws[:, : size // 2] - known.low[: size // 2]).sum(axis=1)
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / 4000)
    assert found.var() == pytest.approx(variance, rel=0.12)


@pytest.mark.parametrize(("columns", "often"), [(2**13, 20_000), (512, 4000)])
@pytest.mark.parametrize("least", [0.4, 1.5])
def test_draws_under_loud_noise_have_the_laws_of_whole_counts(monkeypatch, columns, often, least):
    monkeypatch.setattr(latent_histogram, "_COLUMNS", columns)
    monkeypatch.setattr(latent_histogram, "_LOOK", 64)
    rng, noise, n, alpha = np.random.default_rng(6), IntegerNoise("laplace", 40.0), 900, np.full(7, least)
    noisy = np.rint(rng.multinomial(n, rng.dirichlet(alpha)) + 40 * rng.laplace(size=7))
    known = tabulate(alpha, noisy, n, noise)
    assert (known.lattice > 1) == (columns == 512)
    draws = known.draw(often, rng)
    if known.lattice > 1:
        draws = polished(alpha, noisy, draws, n, known.lattice, noise, rng)
    assert np.all(draws.sum(axis=1) == n) and draws.min() >= 0
    exact = np.cumsum(by_adding(alpha, noisy, n, noise), axis=1)
    for law, column in zip(exact, draws.T, strict=True):  # off by so much once in a thousand times
        seen = np.cumsum(np.bincount(column.astype(int), minlength=n + 1)) / often
        assert np.max(np.abs(seen - law)) < 1.95 / np.sqrt(often)


def test_ten_thousand_categories_have_exact_laws_and_draws():
    rng, size = np.random.default_rng(4), 10_000
    n = 20 * size
    noisy = rng.multinomial(n, np.full(size, 1 / size)) + np.rint(rng.laplace(0, 2, size))
    known = tabulate(np.ones(size), noisy, n, IntegerNoise("laplace", 2.0))
    assert known.lattice == 1
    (laws,) = known.marginals()
    low, chances = laws.low, laws.chances
    steps = np.arange(chances.shape[1])
    means = chances @ steps
    assert (low + means).sum() == pytest.approx(n, rel=1e-12)
    # A fixed sum of so many takes from each variance what it gives to the sum, but for higher orders.
    columns = np.arange(known.tables[0].shape[1])
    free = known.tables[0] @ columns**2 - (known.tables[0] @ columns) ** 2
    np.testing.assert_allclose(chances @ steps**2 - means**2, free * (1 - free / free.sum()), rtol=2e-3)
    draws = known.draw(64, rng)
    assert np.all(draws.sum(axis=1) == n)
    gaps = (draws.mean(axis=0) - low - means) / np.sqrt(free / 64)
    assert abs((gaps**2).mean() - 1) < 0.1


def two_counts(alpha, noisy, n, kind, scale, first):
    """The law of the first of two counts, from none on, in 50 digits by Arb: the second is what it leaves of n."""
    before, flint.ctx.prec = flint.ctx.prec, 170
    a, b = map(arb, alpha)

    def noise(x, c):
        away = (arb(x) - c) / arb(scale)
        return -abs(away) if kind == "laplace" else -(away**2) / 2

    weights, ways = [], arb(1)  # Γ(a + c)/c! · Γ(b + n - c)/(n - c)!, over what it is for none
    for c in range(first):
        weights.append(ways * (noise(noisy[0], c) + noise(noisy[1], n - c)).exp())
        ways *= (a + c) / (c + 1) * (n - c) / (b + (n - c - 1))
    total = sum(weights)
    found = np.array([float(weight / total) for weight in weights])
    flint.ctx.prec = before
    return found


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("least", [1e-6, 0.5, 300.0])
@pytest.mark.parametrize("n", [10**5, 10**9, 10**14])
def test_counts_of_very_many_records_are_told_apart(kind, least, n):
    alpha, noisy, scale = [least, 2 * least], [3.0, n - 5.0], 2.0
    known = NoisyHistogram(alpha, noisy, n, kind, scale)
    (laws,) = known._counts
    every = 700
    found = np.zeros(9000)
    found[int(laws.low[0]) : int(laws.low[0]) + laws.chances.shape[1]] = laws.chances[0]
    assert known._table.lattice == 1
    np.testing.assert_allclose(found[:every], two_counts(alpha, noisy, n, kind, scale, every), atol=1e-9)
    lower, upper = known.interval()
    assert np.all((lower >= 0) & (lower <= upper) & (upper <= 1))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("noisy", [[1e10 + 1, 1e10], [-1e12, -1e12 + 1], [-1e9, 1e15], [9e18, 9e18]])
def test_noisy_counts_however_far_off_tell_what_they_differ_by(kind, noisy):
    alpha, n, scale = [0.3, 2.0], 9, 0.7
    found = spread_out(NoisyHistogram(alpha, noisy, n, kind, scale)._table, n)[0]
    np.testing.assert_allclose(found, two_counts(alpha, noisy, n, kind, scale, n + 1), atol=1e-9)


@pytest.mark.parametrize(("alpha", "noisy"), [([1.0], [5.0]), ([1.0, 1.0], [5.0]), (1.0, [5.0, 1.0])])
def test_a_histogram_has_two_categories_or_more_and_a_noisy_count_for_each(alpha, noisy):
    with pytest.raises(InvalidValue, match="two categories or more"):
        NoisyHistogram(alpha, noisy, 5, "laplace", 1.0)


def test_an_interval_next_to_one_has_its_ends_in_order():
    lower, upper = NoisyHistogram([5e-4, 5e-4], [0.0, 3.0], 3, "laplace", 1e-3).interval()
    assert np.all(lower <= upper)


def test_quantiles_between_a_pile_at_nothing_and_the_rest():
    """Where next to all of a law is in no cell, by Arb's Beta laws: in the pile, right above it, and in the rest."""
    first, total, weights = 1e-4, 6000.3, np.zeros((5, 300))
    weights[:, 0] = [0.999, 0.976, 0.97501, 0.9748, 0.5]
    weights[:, 150:] = (1 - weights[:, :1]) / 150
    (found,) = beta_quantiles.quantiles(np.full(5, first), total, weights, [0.975])
    for x, row in zip(found, weights, strict=True):
        with precision(200):
            some = [(arb(w), arb(first) + k) for k, w in enumerate(row.tolist()) if w > 0]
            below = sum(w * arb(float(x)).beta_lower(a, arb(total) - a, regularized=True) for w, a in some)
        assert float(below.rad()) < 1e-12
        assert float(below.mid()) == pytest.approx(0.975, rel=1e-9)
    assert found[0] < 1e-50 < found[1] < 1e-6 < found[2] < 1e-3 < found[3] < found[4]


@pytest.mark.parametrize("rest", [0.0208, 0.2438])
@pytest.mark.parametrize("q", [1e-7, 0.025, 0.15])
def test_quantiles_of_a_pile_at_one_and_little_far_below(rest, q):
    """A search that comes so near one that its steps are short beside it, by Arb's Beta laws from the other end."""
    first, total, weights = 0.0565, 59.0565 + rest, np.zeros((1, 60))
    weights[0, [0, -1]] = shares = 0.1 * q, 1 - 0.1 * q
    ((x,),) = beta_quantiles.quantiles(np.array([first]), total, weights, [q])
    with precision(200):
        laws = zip(shares, (arb(first), arb(first) + 59), strict=True)
        above = sum(arb(w) * (1 - arb(float(x))).beta_lower(arb(total) - a, a, regularized=True) for w, a in laws)
        below = 1 - above
    assert float(below.rad()) < 1e-12
    assert float(below.mid()) == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("total", [201.5, 2001.5])
def test_a_high_quantile_where_next_to_nothing_lies_above(total):
    """Between nearly all and 1e-9 far above it the law is flat: the last digits decide where it passes; by Arb."""
    first, columns, q = 0.75, 60, 1 - 1e-9
    weights = np.zeros((3, columns))
    weights[:, -1] = [8e-10, 1.1e-9, 1.5e-9]
    weights[:, 2] = 1 - weights[:, -1]
    (found,) = beta_quantiles.quantiles(np.full(3, first), total, weights, [q])

    def above(x, row):
        with precision(200):
            sums = arb(0)
            for k in (2, columns - 1):
                sums += arb(float(row[k])) * (1 - x).beta_lower(
                    arb(total) - first - k, arb(first) + k, regularized=True
                )
            return sums

    for x, row in zip(found.tolist(), weights, strict=True):
        low, high = arb(x) * (1 - arb("1e-6")), arb(x) * (1 + arb("1e-6"))
        assert above(low, row) > 1 - arb(q) > above(high, row)
