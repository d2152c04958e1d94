"""The release of a search: neighbours by brute force, what later rounds depend on, what it costs, what is stored."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from sottovoce.inference.cells.quantile_posterior import QuantilePosterior
from sottovoce.inference.cells.quantile_search import union_of
from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE
from sottovoce.records.facts import Category, Count, Facts, Number, Person
from sottovoce.service.answers import Question

FACTS = Facts(x=Number(0, 20), days=Count(12), ward=Category(["A", "B"]))
QUESTIONS = {
    "number": Question("quantiles", ("x",), FACTS, at=(0.25, 0.9)),
    "count by ward": Question("quantiles", ("days",), FACTS, ("ward",), at=(0.5,)),
}
VALUES = {"number": [0.0, 7.5, 20.0, 99.0, None], "count by ward": [0, 5, 12, 99, None]}


def tables(name: str, n: int | None = 3) -> list[dict[str, list[Any]]]:
    """Every table of three records whose first one varies; the others stay, so that any two are neighbours."""
    column = QUESTIONS[name].columns_asked[0]
    if name == "number":
        return [{column: [value, 3.0, 11.0]} for value in VALUES[name]]
    wards = itertools.product(VALUES[name], ["A", "B", "?"])
    return [{column: [value, 3, 11], "ward": [ward, "A", "B"]} for value, ward in wards]


class Scripted:
    """Noise that hides all: what is released is the script, whatever the counts are; and the counts are kept."""

    def __init__(self, seed: int) -> None:
        self.rng, self.counts = np.random.default_rng(seed), []

    def __call__(self, noise: IntegerNoise, counts: Any, rng: Any) -> Any:
        self.counts.append(np.asarray(counts))
        return np.rint(self.rng.normal(4, 3, counts.size)).astype(np.int64)


def seen_by(mechanism: Any, table: Any, seed: int, monkeypatch: Any) -> tuple[list[Any], list[Any]]:
    """Return the edges of every round and its true counts where the released ones are scripted."""
    script = Scripted(seed)
    monkeypatch.setattr(IntegerNoise, "add", lambda noise, counts, rng: script(noise, counts, rng))
    rounds = mechanism.release(table, seeded_rng(0)).value.rounds
    return [np.concatenate(one.edges) for one in rounds], script.counts


def follows_releases_alone(mechanism: Any, name: str, monkeypatch: Any) -> bool:
    """Whether rounds are cut alike for all tables, given what was released, and no two lie farther apart than two."""
    for seed in range(3):
        seen = [seen_by(mechanism, table, seed, monkeypatch) for table in tables(name)]
        for (cut, counts), (other_cut, other) in itertools.combinations(seen, 2):
            if not all(np.array_equal(a, b) for a, b in zip(cut, other_cut, strict=True)):
                return False
            gaps = [np.abs(a - b) for a, b in zip(counts, other, strict=True)]
            if any(gap.max(initial=0) > 1 or gap.sum() > 2 for gap in gaps):
                return False
    return True


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_given_what_was_released_one_record_moves_two_counts_of_a_round(
    name: str, noise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert follows_releases_alone(SearchedQuantiles(QUESTIONS[name], 3, noise, 2.0), name, monkeypatch)


class CutAtTheMedian(SearchedQuantiles):
    """A planted fault: a round has an edge at the true quantile."""

    def _counted(self, seen: Any, edges: Any, scale: float, rng: Any) -> Any:
        values = [float(v) for v in seen.records.columns[-1] if v is not None]
        middle = float(np.clip(np.median(values), 0.25, 11.75))
        return super()._counted(seen, [union_of([cut, np.array([middle])]) for cut in edges], scale, rng)


class Unhidden(SearchedQuantiles):
    """A planted fault: rounds are cut where the true counts say."""

    def _counted(self, seen: Any, edges: Any, scale: float, rng: Any) -> Any:
        released = super()._counted(seen, edges, scale, rng)
        true = 1000 * self._counts(seen, edges)  # as of a table of as many records alike
        return self._round(true, edges, scale) if scale > min(self.scales) else released


class CountedTwice(SearchedQuantiles):
    """A planted fault: a cell is counted twice."""

    def _counts(self, seen: Any, edges: Any) -> Any:
        counts = super()._counts(seen, edges)
        counts[0] *= 2
        return counts


@pytest.mark.parametrize("fault", [CutAtTheMedian, Unhidden, CountedTwice])
def test_planted_faults_are_seen(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not follows_releases_alone(fault(QUESTIONS["number"], 3, "gaussian", 2.0), "number", monkeypatch)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_record_more_moves_one_count_where_n_is_a_secret(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = SearchedQuantiles(QUESTIONS[name], None, "gaussian", 2.0)
    for table in tables(name):
        fewer = {column: values[1:] for column, values in table.items()}
        cut, counts = seen_by(mechanism, table, 1, monkeypatch)
        other_cut, other = seen_by(mechanism, fewer, 1, monkeypatch)
        assert all(np.array_equal(a, b) for a, b in zip(cut, other_cut, strict=True))
        assert all(np.abs(a - b).sum() == 1 for a, b in zip(counts, other, strict=True))


@pytest.mark.parametrize("n", [100, None])
def test_rounds_compose_to_what_one_histogram_of_the_scale_would_cost(n: int | None) -> None:
    """Σ wₖ·m/(2s²) and Σ wₖ·m/s, m counts moved by one: in closed form."""
    moved = 1 if n is None else 2
    gaussian = SearchedQuantiles(QUESTIONS["number"], n, "gaussian", 25.0)
    assert len(gaussian.shares) == 5
    assert gaussian.profile.zcdp() == pytest.approx(moved / (2 * 25.0**2), rel=1e-3)
    assert gaussian.profile.zcdp() >= moved / (2 * 25.0**2)
    laplace = SearchedQuantiles(QUESTIONS["number"], n, "laplace", 8.0)
    assert laplace.profile.pure() == pytest.approx(moved / 8, rel=1e-12)
    assert laplace.profile.pure() >= moved / 8 * (1 - 1e-15)
    little = SearchedQuantiles(QUESTIONS["number"], n, "gaussian", 0.5)  # too little for the lattice: ρ alone
    assert little.profile.zcdp() == pytest.approx(moved / (2 * 0.5**2), rel=1e-12)


def test_the_profile_is_not_below_the_exact_composition_of_discrete_noise() -> None:
    """Against δ(ε) summed over the two counts of all rounds, each of a short discrete Gaussian law, by convolution."""
    mechanism = SearchedQuantiles(QUESTIONS["number"], 3, "gaussian", 4.0)
    grid, masses = 1e-3, np.array([1.0])
    offset = 0
    for scale in mechanism.scales:
        k = np.arange(-90, 91)
        weights = np.exp(-(k**2) / (2 * scale**2))
        weights /= weights.sum()
        for sign in (1, -1):
            losses = (((k + sign) ** 2 - k**2) / (2 * scale**2)) / grid
            places = np.floor(losses).astype(int)  # losses rounded down: the exact δ is no smaller
            law = np.bincount(places - places.min(), weights)
            masses, offset = np.convolve(masses, law), offset + places.min()
    losses = (offset + np.arange(masses.size)) * grid
    for epsilon in (0.2, 0.5, 1.0):
        exact = float(masses @ np.maximum(-np.expm1(epsilon - np.maximum(losses, epsilon)), 0.0))
        assert exact <= float(mechanism.profile.delta(epsilon)) <= exact * 1.1 + 0.01


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("target", [PureDP(0.5), ApproxDP(0.5, 1e-6), ZeroConcentratedDP(0.01)], ids=str)
def test_calibration_keeps_the_promise_and_wastes_little(name: str, target: Any) -> None:
    mechanism = SearchedQuantiles.calibrate(QUESTIONS[name], 1000, target)
    assert mechanism.profile.excess(target) <= 0
    louder = SearchedQuantiles(mechanism.system, 1000, mechanism.noise, mechanism.scale / 1.1)
    assert louder.profile.excess(target) > 0
    secret = SearchedQuantiles.calibrate(QUESTIONS[name], None, target.under(ADD_REMOVE))
    assert secret.scale < mechanism.scale


@pytest.mark.parametrize("rng", [secure_rng(), seeded_rng(3)], ids=["secure", "seeded"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_release_holds_all_rounds_and_is_read_back(name: str, rng: Any) -> None:
    mechanism = SearchedQuantiles.calibrate(QUESTIONS[name], 3, PureDP(3.0))
    made = mechanism.release(tables(name)[0], rng)
    back = Release.from_json(made.to_json())
    assert isinstance(back.value, QuantilePosterior) and back.value == made.value
    assert len(back.value.rounds) == len(mechanism.shares)
    assert [one.scale for one in back.value.rounds] == mechanism.scales
    assert np.array_equal(back.value.draws, made.value.draws)
    assert np.array_equal(back.value.interval(), made.value.interval())
    assert Mechanism.from_dict(mechanism.to_dict()).to_dict() == mechanism.to_dict()


def test_other_records_and_other_questions_are_refused() -> None:
    mechanism = SearchedQuantiles(QUESTIONS["number"], 3, "gaussian", 2.0)
    with pytest.raises(InvalidData):
        mechanism.release({"x": [1.0, 2.0]}, seeded_rng(1))
    with pytest.raises(InvalidData):
        mechanism.release([1.0, 2.0, 3.0], seeded_rng(1))
    with pytest.raises(InvalidValue):
        SearchedQuantiles(Question("mean", ("x",), FACTS), 3, "gaussian", 2.0)
    with pytest.raises(InvalidValue):
        SearchedQuantiles(QUESTIONS["number"], 3, "gaussian", 2.0, (0.5, 0.6))


def test_many_groups_share_a_table_that_can_be_read() -> None:
    names = [f"g{k}" for k in range(300)]
    facts = Facts(x=Number(0, 1e6), g=Category(names))
    question = Question("quantiles", ("x",), facts, ("g",), at=(0.25, 0.5, 0.75))
    rng = np.random.default_rng(0)
    records = {"x": rng.lognormal(5, 2, 3000), "g": rng.choice(names, 3000)}
    value = SearchedQuantiles(question, 3000, "gaussian", 1.0).release(records, seeded_rng(1)).value
    assert max(union_of(one.edges).size for one in value.rounds) <= 2**20 // 300
    assert value.interval().shape == (900, 2)


def test_persons_count_once() -> None:
    """Averages of persons whose rows are two apart: the median is that of averages, not of rows."""
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(2000), rng.integers(1, 4, 2000))
    base = rng.normal(50, 5, 2000)
    x = base[who] + rng.normal(0, 1, who.size)
    facts = Facts(x=Number(0, 100), who=Person())
    target = ApproxDP(1.0, 1e-6).under(REPLACE_ONE.of_person())
    mechanism = SearchedQuantiles.calibrate(Question("quantiles", ("x",), facts, at=(0.5,)), 2000, target)
    assert mechanism.profile.relation.unit == "person"
    low, high = mechanism.release({"x": x, "who": who}, seeded_rng(2)).value.interval()[0]
    truth = np.median(np.bincount(who, x) / np.bincount(who))
    assert low <= truth <= high and high - low < 2


def test_gaussian_profile_is_that_of_one_mu() -> None:
    profile = SearchedQuantiles(QUESTIONS["number"], 3, "gaussian", 25.0).profile
    assert isinstance(profile, GaussianProfile)
    root = optimize.brentq(lambda e: float(profile.delta(e)) - 1e-6, 0.01, 2.0)
    assert float(profile.epsilon(1e-6)) == pytest.approx(root, rel=1e-6)
