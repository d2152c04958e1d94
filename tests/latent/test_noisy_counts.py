import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sottovoce.inference.latent import CountTables, Field, NoisyTables
from sottovoce.inference.latent.latent_classes import LatentClasses
from sottovoce.mechanisms import NoisyStatistics, Release
from sottovoce.privacy.errors import InvalidData, InvalidValue, PromiseUnreachable
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics
from sottovoce.service.curator import Curator

A, B = Field("a", (0, 1)), Field("b", (0, 1))
TABLES = CountTables((A, B), (("a",), ("a", "b")))


def noise_law(kind: str, scale: float, reach: int) -> np.ndarray:
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(k) / scale) if kind == "laplace" else np.exp(-(k**2) / (2 * scale**2))
    return weights / weights.sum()


def exact_delta(kind: str, scales: list[float], one: np.ndarray, two: np.ndarray, epsilon: float) -> float:
    """The hockey stick between two noised vectors of counts, summed over every outcome (cells that agree drop out)."""
    reach = 30
    moved = np.flatnonzero(one != two)
    p = q = np.ones(1)
    for cell in moved:
        law = noise_law(kind, scales[cell], reach)
        shift = int(two[cell] - one[cell])
        wide = np.zeros(law.size + 4)
        wide[2:-2] = law
        p = np.multiply.outer(p, wide).ravel()
        q = np.multiply.outer(q, np.roll(wide, shift)).ravel()
        keep = (p > 1e-10) | (q > 1e-10)
        p, q = p[keep], q[keep]
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_one_changed_event_moves_the_noised_tables_as_the_profile_says(kind: str) -> None:
    mech = NoisyStatistics(TABLES, n=2, noise=kind, scale=(0.7, 1.1))
    cells = [0.7] * 2 + [1.1] * 4
    records = list(itertools.product(A.categories, B.categories))
    for epsilon in (0.0, 1.5):
        worst = 0.0
        for first, (other, replaced) in itertools.product(records, itertools.permutations(records, 2)):
            one, two = (
                TABLES.statistics({"a": [first[0], r[0]], "b": [first[1], r[1]]}).total for r in (other, replaced)
            )
            worst = max(worst, exact_delta(kind, cells, one, two, epsilon))
        claimed = mech.profile.delta(epsilon)
        assert worst <= claimed + 1e-9
        assert claimed <= worst * 1.01 + 1e-6  # and the claim is attained
    assert mech.profile.basis is Basis.EXACT


def test_pure_privacy_is_the_l1_sensitivity_over_the_scale() -> None:
    mech = NoisyStatistics(TABLES, n=10, noise="laplace", scale=(4.0, 8.0))
    assert mech.profile.pure() == pytest.approx(2 / 4 + 2 / 8)


def test_gaussian_noise_on_all_tables_has_the_joint_l2_sensitivity() -> None:
    three = CountTables((A, B, Field("c", (1, 2))), (("a",), ("b",), ("c",)))
    mech = NoisyStatistics(three, n=10, noise="gaussian", scale=5.0)
    assert mech.profile.zcdp() == pytest.approx((2 * 3) / (2 * 5.0**2))


@pytest.mark.parametrize("target", [PureDP(0.8), ApproxDP(0.8, 1e-6), ZeroConcentratedDP(0.05)])
@pytest.mark.parametrize("shares", [None, (3.0, 1.0)])
def test_calibration_keeps_the_promise_with_the_least_noise(target, shares) -> None:
    kinds = ["laplace"] if isinstance(target, PureDP) else ["laplace", "gaussian"]
    for kind in kinds:
        mech = NoisyStatistics.calibrate(TABLES, 50, target, kind, shares)
        assert mech.profile.satisfies(target)
        quieter = NoisyStatistics(TABLES, 50, kind, tuple(0.999 * s for s in mech.scales))
        assert not quieter.profile.satisfies(target)


def test_the_budget_is_split_as_asked() -> None:
    laplace = NoisyStatistics.calibrate(TABLES, 50, PureDP(1.0), "laplace", {"a": 1, "b": 3})
    assert 2 / laplace.scales[0] == pytest.approx(0.25)
    assert 2 / laplace.scales[1] == pytest.approx(0.75)
    gaussian = NoisyStatistics.calibrate(TABLES, 50, ZeroConcentratedDP(1.0), "gaussian", (1, 3))
    assert 1 / gaussian.scales[0] ** 2 == pytest.approx(0.25)
    assert 1 / gaussian.scales[1] ** 2 == pytest.approx(0.75)


def test_the_quieter_kind_is_taken_unless_one_is_asked_for() -> None:
    many = CountTables(tuple(Field(f"f{i}", (0, 1)) for i in range(12)), tuple((f"f{i}",) for i in range(12)))
    assert NoisyStatistics.calibrate(TABLES, 50, PureDP(1.0)).noise == "laplace"
    assert NoisyStatistics.calibrate(many, 50, ZeroConcentratedDP(0.01)).noise == "gaussian"


def test_noise_has_its_law_around_the_counts() -> None:
    big = CountTables((Field("a", tuple(range(3000))),), (("a",),))
    mech = NoisyStatistics(big, n=3000, noise="laplace", scale=3.0)
    value = mech.release({"a": list(range(3000))}, seeded_rng(5)).value
    noise = value.counts[0] - 1
    assert noise.var() == pytest.approx(mech.noises[0].variance, rel=0.15)
    assert abs(noise.mean()) < 5 * np.sqrt(mech.noises[0].variance / 3000)


def test_a_release_is_secure_unless_seeded_and_survives_json() -> None:
    mech = NoisyStatistics(TABLES, n=3, noise="gaussian", scale=2.0)
    release = mech.release({"a": [0, 1, 1], "b": [1, 1, 0]})
    assert not release.reproducible
    again = Release.from_json(release.to_json())
    assert again.value == release.value
    assert isinstance(again.value, NoisyTables)
    assert mech.release({"a": [0, 1, 1], "b": [1, 1, 0]}, seeded_rng(1)).reproducible
    assert release.value.table("b").shape == (2, 2)
    assert all(table.min() >= 0 for table in release.value.clipped)
    with pytest.raises(InvalidValue, match="no table ends in 'z'"):
        release.value.table("z")


def test_the_curator_charges_the_ledger_and_reads_every_column(tmp_path: Path) -> None:
    data = pa.table({"a": [0, 1, 1, 0] * 50, "b": [1, 1, 0, 0] * 50})
    mech = NoisyStatistics.calibrate(TABLES, 200, PureDP(0.5), "laplace")
    place = tmp_path / "events.ledger"
    with Curator(data, place, PureDP(1.0), dataset="events") as curator:
        release = curator.release(mech, mech.columns, idempotency_key="one")
        again = curator.release(mech, mech.columns, idempotency_key="one")
        assert curator.remaining().epsilon == pytest.approx(0.5)
    assert again.value == release.value
    assert abs(release.value.counts[0].sum() - 200) < 200


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: NoisyStatistics(TABLES, 5, "laplace", 0.0), InvalidValue, "scale"),
        (lambda: NoisyStatistics(TABLES, 5, "cauchy", 1.0), InvalidValue, "noise must be"),
        (lambda: NoisyStatistics(TABLES, 5, "laplace", (1.0, 2.0, 3.0)), InvalidValue, "one for each of the 2 blocks"),
        (lambda: NoisyStatistics("tables", 5, "laplace", 1.0), InvalidValue, "takes a system"),
        (lambda: NoisyStatistics(TABLES, -1, "laplace", 1.0), InvalidValue, "n must be"),
        (lambda: NoisyStatistics.calibrate(TABLES, 5, PureDP(1.0), "gaussian"), PromiseUnreachable, "never gives"),
        (lambda: NoisyStatistics.calibrate(TABLES, 5, PureDP(1.0), shares=(1, 0)), InvalidValue, "positive"),
        (lambda: NoisyStatistics.calibrate(TABLES, 5, PureDP(1.0), shares={"a": 1}), InvalidValue, "name each of"),
        (lambda: NoisyStatistics(TABLES, 5, "laplace", 1.0).release({"a": [1], "b": [1]}), InvalidData, "n=5"),
        (lambda: NoisyStatistics(TABLES, 5, "laplace", 1.0).forecast([1.0]), InvalidValue, "proportions"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_no_records_cost_nothing_and_still_get_noise() -> None:
    mech = NoisyStatistics(TABLES, n=0, noise="laplace", scale=1.0)
    assert mech.profile.epsilon(0.0) == 0
    assert mech.release({"a": [], "b": []}).value.n == 0


def test_a_forecast_reads_no_data_and_worsens_with_noise() -> None:
    mean = [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    quiet, loud = (NoisyStatistics(TABLES, 400, "laplace", s).forecast(mean) for s in (0.5, 30.0))
    assert quiet.expected_kl < loud.expected_kl
    assert quiet.exact_width == loud.exact_width


@pytest.mark.parametrize(("size", "n", "scale"), [(2, 200, 40.0), (4, 200, 4.0), (3, 5000, 2.0)])
def test_a_forecast_is_as_wide_as_intervals_become(size: int, n: int, scale: float) -> None:
    """Sixty data sets, one chain each, by the sampler that a fit uses."""
    rng, sets = seeded_rng(1), 60
    shares = np.arange(1, size + 1) / (size * (size + 1) / 2)
    mech = NoisyStatistics(CountTables((Field("a", tuple(range(size))),), (("a",),)), n, "laplace", scale)
    noisy = rng.multinomial(n, shares, sets) + np.rint(rng.laplace(0, scale, (sets, size))).astype(int)
    latent = LatentClasses((noisy,), mech.noises, 1, n, 1.0, (1 / size,))
    counts, kept = latent.start(rng), []
    for sweep in range(260):
        counts = latent.sweep(counts, rng)
        if sweep >= 60:
            kept.append(latent.parameters(counts, rng)[1][0])
    low, high = np.quantile(kept, [0.025, 0.975], axis=0)
    forecast = mech.forecast(shares)
    assert forecast.interval_width == pytest.approx(np.mean(high - low), rel=0.3)
    assert forecast.interval_width > 0.99 * forecast.exact_width


def test_statistics_of_more_records_than_n_are_refused() -> None:
    mech = NoisyStatistics(TABLES, n=2, noise="laplace", scale=1.0)
    with pytest.raises(InvalidData, match="no records within the bounds"):
        mech.release(Statistics(2, np.array([2.0, 1.0, 1.0, 1.0, 0.0, 0.0])))
