"""Naive Bayes, a hidden Markov model and a network through the curator: charged, killed, retried, read elsewhere."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.faces.estimators.naive_bayes import NaiveBayes
from sottovoce.inference.latent import (
    BayesianNetwork,
    Bounded,
    ChainGrid,
    ClassPosterior,
    Field,
    HiddenMarkovModel,
    MarkovRandomField,
    NaiveBayesModel,
    TemperedHiddenMarkov,
    TemperedNaiveBayes,
    TemperedNetwork,
    fields_of,
)
from sottovoce.mechanisms import NoisyStatistics, Release
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS, system_from
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.mechanism_choice import build_mechanism, choices, imagined_mean, names_for
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Day, Facts, Flag, Number
from sottovoce.records.readings import ClassMoments, Reading
from sottovoce.service.curator import Curator

N, BUDGET = 240, PureDP(100.0)
FACTS = Facts(
    ward=Category(["N", "S"]), month=Category([1, 2, 3]), ill=Flag(), kind=Category(["a", "b", "c"]), age=Number(0, 100)
)
WARD, MONTH, ILL, KIND, AGE = fields_of(FACTS, "ward", "month", "ill", "kind", "age")
NAIVE = NaiveBayesModel(ILL, (KIND, AGE), draws=20)
CATEGORIES = NaiveBayesModel(ILL, (KIND, WARD))
HMM = HiddenMarkovModel(ChainGrid(WARD, (MONTH,)), (KIND,), states=2)
NETWORK = BayesianNetwork((WARD, ILL, KIND), {"kind": ["ward", "ill"]})
FIELD = MarkovRandomField((WARD, ILL, KIND), [("ward", "ill"), ("ill", "kind")])
MECHANISMS = {
    "naive bayes, noisy": NoisyStatistics.calibrate(NAIVE, N, PureDP(2.0)),
    "naive bayes, tempered": TemperedNaiveBayes.calibrate(CATEGORIES, N, PureDP(2.0), draws=2),
    "hidden Markov, tempered": TemperedHiddenMarkov.calibrate(HMM, N, PureDP(9.0), sweeps=3),
    "network, noisy": NoisyStatistics.calibrate(NETWORK, N, PureDP(3.0)),
    "random field, noisy": NoisyStatistics.calibrate(FIELD, N, PureDP(3.0)),
    "network, tempered": TemperedNetwork.calibrate(NETWORK, N, PureDP(2.0)),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(5)
    ill = rng.random(N) < 0.4
    columns = {
        "ward": rng.choice(["N", "S"], N).tolist(),
        "month": rng.integers(1, 4, N).tolist(),
        "ill": ill.tolist(),
        "kind": np.where(rng.random(N) < 0.3 + 0.4 * ill, "a", rng.choice(["b", "c"], N)).tolist(),
        "age": (40 + 15 * ill + rng.normal(0, 8, N)).tolist(),
    }
    path = tmp_path_factory.mktemp("door") / "patients.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_a_hidden_markov_model_through_noise_is_released_whole(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("_LEAST_SWEEPS", "_MOST_SWEEPS"):  # other tests ask whether chains agree
        monkeypatch.setattr(f"sottovoce.inference.latent.hidden_markov.{bound}", 200)
    mechanism = NoisyStatistics.calibrate(HMM, N, PureDP(8.0))
    with Curator(data, tmp_path / "h.ledger", BUDGET) as curator:
        release = curator.release(mechanism)
    posterior = release.value
    assert len(posterior) == 400
    assert posterior.chains == 4
    assert Release.from_json(release.to_json()).value == posterior
    assert posterior.interval().shape == (len(posterior.labels), 2)
    assert np.all(posterior.interval()[:, 0] <= posterior.mean)
    assert posterior.sample(3, seeded_rng(1)).shape == (3, len(posterior.labels))
    assert posterior.interval(0.5, "transition").shape == (2, 2, 2)
    assert posterior.summary().splitlines()[0].startswith("kind[0, a]")


def test_a_random_field_is_released_whole_and_names_its_noises(data: Path, tmp_path: Path) -> None:
    assert tuple(names_for(FIELD)) == ("laplace", "gaussian")
    forecast = build_mechanism("laplace", FIELD, N, PureDP(1.0)).forecast(FIELD.reading.middle())
    assert forecast.interval_width > forecast.exact_width > 0
    with Curator(data, tmp_path / "m.ledger", BUDGET) as curator:
        release = curator.release(NoisyStatistics.calibrate(FIELD, N, PureDP(8.0)))
    assert Release.from_json(release.to_json()).value == release.value
    low, high = release.value.query_interval("ill", {"kind": "a"})[1]
    assert 0 < low < high < 1


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_every_system_and_mechanism_survives_json(mechanism: Mechanism) -> None:
    assert system_from(json.loads(json.dumps(mechanism.system.to_dict()))) == mechanism.system
    again = Mechanism.from_dict(json.loads(json.dumps(mechanism.to_dict())))
    assert again.to_dict() == mechanism.to_dict()
    assert again.profile.pure() == mechanism.profile.pure()
    assert Reading.from_dict(json.loads(json.dumps(again.reading.to_dict()))) == mechanism.reading


def test_the_old_word_reads_back_as_the_one_mechanism() -> None:
    state = {"mechanism": "noisy counts", "n": 9, "noise": "laplace", "scales": [2.0, 3.0]}
    tables = BayesianNetwork((WARD, ILL)).tables
    found = Mechanism.from_dict(state | {"system": tables.to_dict()})
    assert isinstance(found, NoisyStatistics)
    assert found.scales == (2.0, 3.0)
    one = BayesianNetwork((WARD,)).tables
    assert Mechanism.from_dict(state | {"system": one.to_dict(), "scales": [2.0]}).scale == 2.0


@pytest.mark.parametrize(("system", "names"), [(NAIVE, "noisy"), (HMM, "noisy"), (NETWORK, "noisy")])
def test_each_model_names_the_mechanisms_that_serve_it(system: object, names: str) -> None:
    assert tuple(names_for(system)) == ("laplace", "gaussian", "tempered")
    forecast = build_mechanism("laplace", system, N, PureDP(1.0)).forecast(system.reading.middle())  # type: ignore[attr-defined]
    assert forecast.interval_width > forecast.exact_width > 0


def test_an_estimator_takes_its_columns_from_the_facts_and_is_fitted_by_a_ledgers_release(
    data: Path, tmp_path: Path
) -> None:
    estimator = NaiveBayes(draws=30)
    mechanism = estimator.mechanism_for(N, PureDP(40.0), FACTS, ["kind", "age"], "ill")
    assert mechanism.columns == ["ill", "kind", "age"]
    with Curator(data, tmp_path / "n.ledger", BUDGET) as curator:
        estimator.keep(curator.release(mechanism))
        assert curator.remaining().epsilon == pytest.approx(60.0)
    with Curator(data, tmp_path / "f.ledger", BUDGET, facts=FACTS) as curator:
        other = curator.fit(NaiveBayes(draws=30), ["kind", "age"], "ill", spend=0.4)
        assert curator.remaining().epsilon == pytest.approx(60.0)
    assert other.release_.mechanism["scales"] == pytest.approx(estimator.release_.mechanism["scales"])
    table = pq.read_table(data).to_pandas()
    assert isinstance(estimator.model_, ClassPosterior)
    assert estimator.score(table[["kind", "age"]], table["ill"]) > 0.6  # 0.83 without noise
    assert estimator.profile_.satisfies(PureDP(40.0))
    with pytest.raises(InvalidValue, match="once"):
        NaiveBayes(1.0).mechanism_for(N, PureDP(40.0), FACTS, ["kind"], "ill")
    with pytest.raises(InvalidValue, match="needs categories"):
        NaiveBayes(1.0).mechanism_for(N, None, FACTS, ["kind"], "age")


def test_facts_become_fields() -> None:
    facts = Facts(
        a=Category([1, 2], missing=2), b=Count(9, missing=3), c=Number(-1, 1), d=Day("2024-01-01", "2024-02-01")
    )
    a, b, c = fields_of(facts, "a", "b", "c")
    assert (a, b, c) == (Field("a", (1, 2), 2), Bounded("b", 0, 9, 3), Bounded("c", -1, 1))
    assert b.centred([None, 9]).tolist() == [2 * (3 / 9) - 1, 1.0]
    with pytest.raises(InvalidValue, match="is a day"):
        fields_of(facts, "d")


def test_no_pair_of_records_moves_class_moments_further_than_claimed() -> None:
    """Brute force over every pair of records: block by block, and the pair that is called the farthest among them."""
    reading = ClassMoments(("p", "q"), ((0, 1),), (1, 0), ((-1.0, 3.0), (1e9, 1e9 + 1)))
    numbers = [(-1.0, 0.0, 1.0, 3.0, np.nan), (1e9, 1e9 + 0.5, 1e9 + 1, -np.inf)]
    records = list(itertools.product(("p", "q", None), (0, 1), *numbers))
    totals = np.array([reading.read([[cell] for cell in record]).total for record in records])
    ends = np.cumsum([block.size for block in reading.blocks(1)])[:-1]
    worst = [[0.0, 0.0] for _ in reading.blocks(1)]
    for total in totals:
        for found, part in zip(worst, np.split(np.abs(totals - total), ends, axis=1), strict=True):
            found[:] = [max(found[0], part.sum(axis=1).max()), max(found[1], (part**2).sum(axis=1).max())]
    for (first, second), block in zip(worst, reading.blocks(1), strict=True):
        claimed = block.movement.total or block.movement.cells * block.movement.width
        assert 0.99 * claimed < first <= claimed
        assert 0.99 * block.movement.squares < second <= block.movement.squares
    for before, after in reading.pairs(3):
        assert reading.apart(before.total - after.total)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_profile_of_counts_and_moments_covers_the_loss_of_any_two_neighbours(kind: str) -> None:
    """Independent noises, so that losses add: Laplace at most Σ|gap|/b, Gaussian ρ = Σgap²/2σ²."""
    mechanism = NoisyStatistics(NAIVE, 4, kind, (3.0, 2.0**22))
    scales = np.repeat(mechanism.scales, [block.size for block in mechanism.blocks])
    for first, second in mechanism.reading.pairs(4):
        gap = np.abs(first.total - second.total) / scales
        if kind == "laplace":
            assert gap.sum() <= mechanism.profile.pure() * (1 + 1e-12)
        else:
            assert (gap**2).sum() / 2 <= mechanism.profile.zcdp() * (1 + 1e-12)


ASKED = [
    ({"kind": "naive bayes", "label": "ill", "features": ["kind", "age"]}, NaiveBayesModel(ILL, (KIND, AGE))),
    ({"kind": "hidden Markov model", "chains": "ward", "steps": ["month"], "fields": ["kind"], "states": 2}, HMM),
    ({"kind": "Bayesian network", "fields": ["ward", "ill", "kind"], "parents": {"kind": ["ward", "ill"]}}, NETWORK),
    ({"kind": "Markov random field", "cliques": [["ward", "ill"], ["ill", "kind"]]}, FIELD),
]


@pytest.mark.parametrize(("settings", "system"), ASKED, ids=lambda v: v["kind"] if isinstance(v, dict) else "")
def test_a_question_names_columns_and_the_facts_say_the_rest(settings: dict[str, object], system: object) -> None:
    assert SYSTEMS[settings["kind"]].from_facts(settings, FACTS) == system
    for wrong in ({"secret": 1}, {"fields": 3}, {"fields": ["nobody"]}, {"label": 5, "states": None, "parents": "x"}):
        with pytest.raises(InvalidValue):
            SYSTEMS[settings["kind"]].from_facts({**settings, **wrong}, FACTS)


def test_a_summary_calls_every_entry_by_its_categories(data: Path, tmp_path: Path) -> None:
    with Curator(data, tmp_path / "n.ledger", BUDGET, facts=FACTS) as curator:
        classes = curator.fit(NaiveBayes(), features=["kind", "age"], label="ill", spend=0.1).release_.value
        network = curator.release(NoisyStatistics.calibrate(NETWORK, N, PureDP(1.0))).value
    told = [line.split("  ")[0].strip() for line in classes.summary().splitlines()]
    assert told[:2] == ["ill[False]", "ill[True]"]
    assert {"kind[True, c]", "age[False, mean]", "age[True, variance]"} <= set(told)
    assert "kind[S, True, b]" in network.summary()
    assert len(network.labels) == network.interval().shape[0]
    for line, (low, high) in zip(network.summary().splitlines(), network.interval(), strict=True):
        mean, *ends = re.findall(r"\d+\.\d+", line.replace("(", " "))  # as fine as the interval, and all three alike
        assert {len(number) for number in ends} == {len(mean)} and 10.0 ** (2 - len(mean)) <= high - low


@pytest.mark.parametrize("model", [HMM, CATEGORIES, NETWORK], ids=lambda model: model.word)
def test_every_way_to_keep_a_promise_is_planned(model) -> None:
    names = list(names_for(model))
    found = choices(model, N, ApproxDP(1.0, 1e-6), imagined_mean(model), names)
    assert all(one.mechanism is not None for one in found) and {one.name for one in found} == set(names)
    assert [one.name for one in found][-1] == "tempered"  # samples come after whole posteriors
    told = [caution for one in found for caution in one.cautions if caution.startswith("widths are of the shares")]
    assert len(told) == (0 if model.word == "naive bayes" else 2)  # that forecast is of its own parameters
