"""The audit itself: near where the claim is exact, silent where it is kept, loud where it is not."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

import sottovoce as sv
from audit.cases import find_case
from sottovoce.audit import Subject, Verdict, audit, subject_of
from sottovoce.audit.cases_conjugate import SYSTEMS
from sottovoce.audit.low_bits import naive_laplace
from sottovoce.privacy.errors import IncompatibleNotions, InvalidData, InvalidValue
from sottovoce.privacy.pure import PureProfile

PAIR = ([0, 1, 1], [0, 0, 1])


def noisy_sum(data, rng, draws):  # type: ignore[no-untyped-def]
    """Return sums on a grid: their last bits would give them away (see the test of low bits)."""
    return np.rint(2**20 * (sum(data) + rng.laplace(size=draws))) / 2**20


def one_noisy_sum(data, rng):  # type: ignore[no-untyped-def]
    return noisy_sum(data, rng, 1)[0]


@dataclass(frozen=True, eq=False)
class Overweight(sv.DiffusedPosterior):
    """Counts the data more than it says."""

    fault: float = 1.05

    @property
    def _weights(self) -> tuple[float, float]:
        return self.fault * self.data_weight, 1.0

    @property
    def profile(self):  # type: ignore[no-untyped-def]
        return self.system.profile(self.n, self.data_weight, 1.0)


@pytest.mark.parametrize("word", SYSTEMS)
def test_exact_claims_are_nearly_reached_and_never_passed(word: str) -> None:
    report = audit(find_case(f"diffused, {word}").build(), draws=300_000, seed=1)
    assert report.name == f"diffused, {word}"
    assert report.verdict is Verdict.HOLDS
    assert report.draws == 300_000
    assert report.tightness is not None
    assert 0.85 < report.tightness <= 1
    assert report.test == "exact likelihood ratio"


def test_gaussian_mu_is_found_to_a_few_percent() -> None:
    mechanism = sv.DirectPosterior(sv.NormalMean(variance=1, prior_variance=1, bounds=(0, 4)), 20)
    report = audit(mechanism, draws=200_000, seed=2)
    assert 0.95 * mechanism.profile.gdp() < report.mu.lower <= mechanism.profile.gdp()


def test_no_false_alarm_in_two_hundred_audits() -> None:
    """Claims that are the supremum itself, at pairs that attain it: the hardest not to accuse."""
    mechanisms = [
        sv.DirectPosterior(sv.BetaBernoulli(6, 12), 20),
        sv.DirectPosterior(sv.NormalMean(variance=1, prior_variance=1, bounds=(0, 4)), 20),
        sv.DiffusedPosterior.calibrate(sv.GammaExponential(2, 6, 2.0), 20, sv.ApproxDP(2.0, 1e-3)),
    ]
    subjects = [subject_of(m) for m in mechanisms] + [subject_of(noisy_sum, PAIR, sv.PureDP(1.0))]
    reports = [audit(subjects[k % 4], draws=5000, seed=k, test="exact" if k % 4 < 3 else "scan") for k in range(200)]
    assert [r.verdict for r in reports].count(Verdict.VIOLATED) == 0
    # Each bound by itself may be wrong once in a hundred times; Pr[Bin(200, 0.01) > 8] < 1e-3.
    assert sum(r.epsilon.exceeded for r in reports) <= 8
    assert sum(r.mu.exceeded for r in reports) <= 8
    assert sum(r.accusation.exceeded for r in reports) <= 8


@pytest.mark.parametrize("word", ["dirichlet-categorical", "gamma-poisson", "normal-mean"])
def test_a_weight_off_by_five_percent_is_flagged(word: str) -> None:
    report = audit(Overweight(SYSTEMS[word][0], 20, 0.8), draws=1_000_000, seed=3)
    assert report.verdict is Verdict.VIOLATED


def test_double_sensitivity_is_flagged_early() -> None:
    report = audit(Overweight(SYSTEMS["normal-mean"][0], 20, 0.4, fault=2.0), draws=100_000, seed=3)
    assert report.verdict is Verdict.VIOLATED
    assert report.stopped_early
    assert report.draws < 40_000
    whole = audit(Overweight(SYSTEMS["normal-mean"][0], 20, 0.4, fault=2.0), draws=30_000, seed=3, early_stop=False)
    assert whole.verdict is Verdict.VIOLATED
    assert whole.draws == 30_000
    assert whole.epsilon.lower > whole.epsilon.claimed


def test_a_mechanism_without_noise_is_flagged() -> None:
    report = audit(lambda data, rng: float(sum(data)), PAIR, sv.ApproxDP(3.0, 1e-3), draws=3000)
    assert report.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("seed", [0, None])
def test_noise_that_comes_again_with_every_call_is_refused(seed: int | None) -> None:
    """A seed left in: the draws of one call are spread as they should be, and each call tells the sum."""

    def seeded_sum(data, rng, draws):  # type: ignore[no-untyped-def]
        return np.rint(sum(data) + np.random.default_rng(7).laplace(size=draws))

    with pytest.raises(InvalidData, match="the same draws whenever it is called"):
        audit(seeded_sum, PAIR, sv.PureDP(1.0), draws=2000, seed=seed)

    def seldom(data, rng, draws):  # type: ignore[no-untyped-def]
        return (np.arange(draws) % 64 == 0).astype(float)  # no noise at all, and nothing of the data

    assert audit(seldom, PAIR, sv.PureDP(1.0), draws=2000, seed=seed).verdict is Verdict.HOLDS


def test_a_leak_in_rare_outputs_is_found_by_every_kind_of_test() -> None:
    """One output in fifty names the data set: (0, 0.02)-private at best, far from the pure promise."""

    def leaky(data, rng, draws):  # type: ignore[no-untyped-def]
        told = np.where(rng.random(draws) < 0.02, 50.0 * sum(data), rng.laplace(size=draws))
        return np.stack([rng.normal(size=draws), told], axis=1)

    for test in ("scan", "learned", "auto"):
        report = audit(leaky, PAIR, sv.PureDP(1.0), draws=40_000, test=test)
        assert report.verdict is Verdict.VIOLATED, test
        assert report.test != "exact likelihood ratio"


def test_outputs_of_several_coordinates_are_told_apart_by_a_learned_score() -> None:
    """The data moves the mean along a diagonal that no single coordinate shows."""

    def many(data, rng, draws):  # type: ignore[no-untyped-def]
        return np.rint(2**16 * (rng.normal(size=(draws, 8)) + sum(data) / np.sqrt(8))) / 2**16

    learned = audit(many, PAIR, sv.GaussianDP(1.0), draws=60_000, test="learned")
    scanned = audit(many, PAIR, sv.GaussianDP(1.0), draws=60_000, test="scan")
    assert learned.verdict is Verdict.HOLDS
    assert 0.85 < learned.mu.lower <= 1
    assert scanned.mu.lower < 0.5


def test_an_audit_is_repeatable_and_the_processes_do_not_matter() -> None:
    mechanism = sv.DirectPosterior(sv.BetaBernoulli(6, 12), 20)
    alone, again = (audit(mechanism, draws=150_000, seed=7) for _ in range(2))
    together = audit(mechanism, draws=150_000, seed=7, jobs=2)
    other = audit(mechanism, draws=150_000, seed=8)
    plain = [r.to_dict() | {"seconds": 0} for r in (alone, again, together, other)]
    assert plain[0] == plain[1] == plain[2]
    assert plain[0] != plain[3]


def test_without_a_seed_the_draws_are_those_of_a_release() -> None:
    seen = []

    def look(data, rng, draws):  # type: ignore[no-untyped-def]
        seen.append(rng)
        return noisy_sum(data, rng, draws)

    report = audit(look, PAIR, sv.PureDP(1.0), draws=2000, seed=None)
    assert report.seed is None
    assert all(sv.privacy.is_secure(rng) for rng in seen)


def test_a_function_of_one_draw_is_drawn_one_by_one() -> None:
    fractions: list[float] = []
    report = audit(one_noisy_sum, PAIR, sv.PureDP(1.0), draws=3000, test="scan", progress=fractions.append)
    assert report.name == "one_noisy_sum"
    assert report.verdict is Verdict.HOLDS
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_releases_are_read_as_their_values() -> None:
    mechanism = sv.NoisyStatistics.calibrate(sv.BetaBernoulli(1, 1), 3, sv.PureDP(1.0), "laplace")
    report = audit(lambda data, rng: mechanism.release(data, rng), PAIR, mechanism.profile, draws=1000, test="scan")
    assert report.verdict is Verdict.HOLDS


def test_pure_privacy_is_audited_at_delta_zero() -> None:
    report = audit(noisy_sum, PAIR, sv.PureDP(1.0), draws=20_000, delta=0.0, test="scan")
    assert 0.9 < report.epsilon.lower <= 1.0
    endless = audit(sv.DirectPosterior(sv.BetaBernoulli(6, 12), 20), draws=2000, delta=0.0)
    assert endless.tightness is None
    assert endless.verdict is Verdict.HOLDS


def test_a_report_is_plain_json() -> None:
    report = audit(noisy_sum, PAIR, sv.PureDP(1.0), draws=2000, name="a sum", test="scan")
    state = json.loads(report.to_json())
    assert state["name"] == "a sum"
    assert state["verdict"] == "holds"
    assert state["epsilon"]["ratio"] == pytest.approx(report.epsilon.lower / report.epsilon.claimed)
    assert sv.PureDP(1.0).epsilon == state["claim"]["level"]
    assert "holds" in str(report)
    infinite = audit(noisy_sum, PAIR, sv.RenyiDP(2.0, 1.0), draws=2000, test="scan")
    assert json.loads(infinite.to_json())["mu"] == {"lower": infinite.mu.lower, "claimed": None, "ratio": None}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("share", [1.0, 0.001])
def test_an_output_that_is_no_number_is_a_violation(value: float, share: float) -> None:
    def broken(data, rng, draws):  # type: ignore[no-untyped-def]
        return np.where(rng.random(draws) < share * (sum(data) == 2), value, rng.laplace(size=draws))

    report = audit(broken, PAIR, sv.PureDP(1.0), draws=20_000, test="scan")
    assert report.verdict is Verdict.VIOLATED
    assert report.test == "outputs that are no finite number"
    assert share < 1 or report.epsilon.lower > 4


def test_low_bits_are_seen_without_being_asked_for() -> None:
    """Textbook Laplace noise in doubles; with the likelihood ratio of real numbers at hand, and without."""

    def naive(data, rng, draws):  # type: ignore[no-untyped-def]
        return naive_laplace(float(sum(data)), 1.0, draws, rng)

    pair = ([0, 0, 1], [0, 0, 0])
    found = audit(naive, pair, sv.PureDP(1.0), draws=20_000, test="scan")
    assert found.verdict is Verdict.VIOLATED
    assert "lowest bit" in found.test
    known = Subject(
        "naive", lambda side, count, rng: naive(pair[side], rng, count), PureProfile(1.0), lambda x: abs(x) - abs(x - 1)
    )
    assert audit(known, draws=40_000).verdict is Verdict.VIOLATED


class TestWrongInput:
    def test_a_function_that_fails(self) -> None:
        def broken(data, rng):  # type: ignore[no-untyped-def]
            raise KeyError("column")

        with pytest.raises(InvalidData, match="failed on data set 1: KeyError"):
            audit(broken, PAIR, sv.PureDP(1.0), draws=1000)

    def test_one_value_whatever_the_data(self) -> None:
        with pytest.raises(InvalidData, match="same value in all"):
            audit(lambda data, rng: 3.0, PAIR, sv.PureDP(1.0), draws=1000)

    def test_values_that_are_no_numbers(self) -> None:
        with pytest.raises(InvalidData, match="numbers"):
            audit(lambda data, rng: "yes", PAIR, sv.PureDP(1.0), draws=1000)
        with pytest.raises(InvalidData, match="shape"):
            audit(lambda data, rng: [0.0] * rng.integers(1, 3), PAIR, sv.PureDP(1.0), draws=1000)
        with pytest.raises(InvalidData, match="asked for"):
            audit(lambda data, rng, draws: np.zeros(3), PAIR, sv.PureDP(1.0), draws=1000)

    def test_values_whose_shape_depends_on_the_data(self) -> None:
        with pytest.raises(InvalidData, match="one shape"):
            audit(lambda data, rng: rng.normal(size=1 + sum(data)), PAIR, sv.PureDP(1.0), draws=1000)

    @pytest.mark.parametrize("draws", [0, 999, -5, 1e6, True, "many"])
    def test_too_few_draws(self, draws: object) -> None:
        with pytest.raises(InvalidValue, match="draws"):
            audit(noisy_sum, PAIR, sv.PureDP(1.0), draws=draws)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({"delta": 1.0}, "delta"),
            ({"delta": -0.1}, "delta"),
            ({"confidence": 1.0}, "confidence"),
            ({"confidence": 0.1}, "confidence"),
            ({"seed": -1}, "seed"),
            ({"test": "psychic"}, "test"),
            ({"jobs": 0}, "jobs"),
            ({"test": "exact"}, "likelihood ratio"),
        ],
    )
    def test_options_out_of_range(self, options: dict, word: str) -> None:  # type: ignore[type-arg]
        with pytest.raises(InvalidValue, match=word):
            audit(noisy_sum, PAIR, sv.PureDP(1.0), **options)

    def test_pairs_that_are_no_neighbours(self) -> None:
        with pytest.raises(InvalidData, match="same number of records"):
            audit(noisy_sum, ([0, 1], [0, 1, 1]), sv.PureDP(1.0))
        with pytest.raises(InvalidData, match="differ in 2"):
            audit(noisy_sum, ([0, 1, 1], [1, 0, 1]), sv.PureDP(1.0))
        with pytest.raises(InvalidData, match="two data sets"):
            audit(noisy_sum, 3, sv.PureDP(1.0))  # type: ignore[arg-type]
        with pytest.raises(InvalidData, match="n=20"):
            audit(sv.DirectPosterior(sv.BetaBernoulli(6, 12), 20), PAIR)

    @pytest.mark.parametrize(
        ("system", "pair"),
        [
            (sv.BetaBernoulli(6, 12), ([0, 0, 1], [1, 1, 1])),
            (sv.DirichletCategorical([1.0, 1.0, 1.0]), ([0, 0, 1], [2, 0, 2])),
            (sv.NormalMean(1, 1, radius=1.0, dimension=2), ([[1, 0]] * 3, [[-1, 0]] * 3)),
        ],
    )
    def test_statistics_that_more_than_one_record_moved(self, system, pair) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(InvalidData, match="farther apart"):
            audit(sv.DirectPosterior(system, 3), pair)

    def test_no_pair_no_claim_no_mechanism_no_records(self) -> None:
        with pytest.raises(InvalidValue, match="needs pair"):
            audit(noisy_sum)
        with pytest.raises(InvalidValue, match="needs pair"):
            audit(noisy_sum, PAIR)
        with pytest.raises(InvalidValue, match="takes a mechanism"):
            audit(3)
        with pytest.raises(IncompatibleNotions, match="promise"):
            audit(noisy_sum, PAIR, 1.0)
        with pytest.raises(InvalidValue, match="n=0"):
            audit(sv.DirectPosterior(sv.BetaBernoulli(6, 12), 0))

    def test_a_subject_brings_its_own_claim(self) -> None:
        subject = subject_of(noisy_sum, PAIR, sv.PureDP(1.0))
        assert isinstance(subject, Subject)
        with pytest.raises(InvalidValue, match="its own"):
            audit(subject, PAIR)

    def test_what_cannot_travel_stays_in_one_process(self) -> None:
        with pytest.raises(InvalidValue, match="several jobs"):
            audit(lambda data, rng: rng.normal(), PAIR, sv.PureDP(1.0), draws=1000, jobs=2)
