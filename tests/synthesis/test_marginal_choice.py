"""The choice of margins: sensitivity by brute force, accounting by an oracle of its own, faults planted."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.inference.latent.junction_tree import BucketTree
from sottovoce.inference.synthesis import marginal_choice
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.inference.synthesis.pair_shares import pair_shares
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_marginals import NoisyMarginals, TableMarginals
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.mechanisms.exponential_choice import choose
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import HeldRecords

FACTS = sv.Facts(a=sv.Flag(), b=sv.Category(["x", "y"], missing="y"), c=sv.Number(0, 10))
VALUES = ([True, False, None], ["x", "y", "?", None], [0.0, 5.0, 1e9, float("nan"), float("-inf"), 1e-320])


def system():
    return TableMarginals(TableColumns(FACTS, {"c": (5.0,)}))


def records(rows):
    return HeldRecords(tuple(map(list, zip(*rows, strict=True))))


def test_one_record_moves_a_score_by_two_at_most():
    """All replacements of one record, whatever it holds, and pictures of all kinds."""
    mechanism, rng = MarginalChoice(system(), 3, 1.0), np.random.default_rng(1)
    tables = [
        mechanism.see(records([(True, "x", 0.0), (False, "y", 7.0), row])).tables for row in itertools.product(*VALUES)
    ]
    sizes = {clique: len(tables[0][clique]) for clique in mechanism.candidates}
    widest = 0
    for _ in range(20):
        expected = {clique: rng.integers(0, 4 * 1024, size) for clique, size in sizes.items()}
        scores = np.array([mechanism.scores(table, expected, mechanism.candidates, 2.0) for table in tables])
        widest = max(widest, int(np.ptp(scores, axis=0).max()))
    assert widest <= 2 * 1024
    assert widest > 1.9 * 1024  # and it does move so far: less would be paid too much


def test_one_record_is_in_one_cell_of_every_margin():
    mechanism = MarginalChoice(system(), 1, 1.0)
    for row in itertools.product(*VALUES):
        for counts in mechanism.see(records([row])).tables.values():
            assert sorted(counts)[-1] == 1
            assert counts.sum() == 1


@pytest.mark.parametrize("rho", [1e-6, 0.01, 1.0, 50.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_rounds_cost_what_was_paid_for(rho, seed, monkeypatch):
    """Every choice and every margin counted again from what they were called with, in exact fractions."""
    slopes, sigmas = [], []

    def watched(weights, source):
        slopes.append(weights)
        return choose(weights, source)

    class Noise(marginal_choice.IntegerNoise):
        def add(self, counts, rng):
            sigmas.append(Fraction(self.scale))
            return super().add(counts, rng)

    windows, scores = [], MarginalChoice.scores

    def scored(self, *given):
        windows.append(scores(self, *given))
        return windows[-1]

    monkeypatch.setattr(marginal_choice, "choose", watched)
    monkeypatch.setattr(marginal_choice, "IntegerNoise", Noise)
    monkeypatch.setattr(MarginalChoice, "scores", scored)
    rng = np.random.default_rng(seed)
    rows = [(bool(u < 0.4), "x" if u < 0.5 else "y", 10 * v) for u, v in rng.random((40, 2))]
    mechanism = MarginalChoice(system(), 40, rho)
    value = mechanism.release(records(rows), seeded_rng(seed)).value
    # A score of s parts weighs s·η/(2·2·1024).
    etas = []
    for weights, score in zip(slopes, windows, strict=True):
        at = int(np.argmax(np.abs(score)))
        etas.append(weights[at] / score[at] * 4 * 1024)
    spent = sum(1 / s**2 for s in sigmas) + sum(eta**2 / 8 for eta in etas)
    assert spent <= Fraction(rho)
    assert spent > Fraction(rho) * Fraction(999, 1000)
    assert len(value.cliques) == len(sigmas) == len(etas) + 3
    assert mechanism.profile.zcdp() == rho


def test_rounds_that_would_cost_more_are_stopped(monkeypatch):
    """Noise that is too small for its price is refused by the account, not told."""
    monkeypatch.setattr(marginal_choice, "_sigma", lambda rho: 0.5 / float(rho) ** 0.5)
    with pytest.raises(InvalidData, match="more than was paid for"):
        for _ in range(3):
            MarginalChoice(system(), 2, 0.5).release(records([(True, "x", 1.0), (False, "y", 2.0)]), seeded_rng(1))


def test_pairs_are_those_of_all_assignments():
    rng = np.random.default_rng(3)
    sizes, cliques = (2, 3, 2, 2, 3), ((0, 1), (1, 2), (0, 2), (2, 3))
    tree = BucketTree.of(sizes, (*cliques, (4,)))
    potentials = rng.normal(size=sum(int(np.prod(s)) for s in tree.shapes))
    logs = np.zeros(sizes)
    for table, clique in zip(tree.split(potentials[None]), tree.cliques, strict=True):
        logs = logs + table[0].reshape([size if v in clique else 1 for v, size in enumerate(sizes)])
    law = np.exp(logs) / np.exp(logs).sum()
    pairs = list(pair_shares(tree, potentials))
    assert [(a, b) for a, b, _ in pairs] == list(itertools.combinations(range(5), 2))
    for a, b, share in pairs:
        assert np.allclose(share, law.sum(axis=tuple(v for v in range(5) if v not in (a, b))))


def test_the_strongest_relation_is_found():
    rng = np.random.default_rng(0)
    a = rng.random(4000) < 0.5
    facts = sv.Facts(a=sv.Flag(missing=False), b=sv.Flag(missing=False), c=sv.Flag(missing=False))
    mechanism = MarginalChoice(TableMarginals(TableColumns(facts, {})), 4000, 0.05)
    data = {"a": a.tolist(), "b": a.tolist(), "c": (rng.random(4000) < 0.5).tolist()}
    assert ("a", "b") in mechanism.release(data, seeded_rng(4)).value.cliques


def test_mechanism_and_release_read_back():
    mechanism = MarginalChoice(system(), 3, 0.25)
    assert Mechanism.from_dict(mechanism.to_dict()).to_dict() == mechanism.to_dict()
    release = mechanism.release(records([(True, "x", 1.0)] * 3), seeded_rng(1))
    again = Release.from_json(release.to_json())
    assert again.to_dict() == release.to_dict()
    assert isinstance(again.value, NoisyMarginals)


def test_a_release_of_an_earlier_version_reads_back():
    state = {
        "value": "noisy marginals",
        "table": {"facts": {"a": {"kind": "flag"}, "b": {"kind": "flag"}}, "names": ["a", "b"], "edges": {}},
        "n": 4,
        "cliques": [["a"], ["a", "b"]],
        "counts": [[2, 1, 1], [1, 1, 0, 2, 0, 0, 0, 0, -1]],
        "scales": [2.0, 1.5],
    }
    value = NoisyMarginals.from_dict(state)
    assert json.loads(json.dumps(value.to_dict())) == state
    assert [variance for _, _, variance in value.counted()] == [4.0, 2.25]


def test_what_cannot_be_learnt_is_refused():
    with pytest.raises(InvalidValue, match="two columns or more"):
        TableMarginals(TableColumns(sv.Facts(a=sv.Flag()), {}))
    with pytest.raises(InvalidValue, match="leave it out"):
        TableMarginals(TableColumns(sv.Facts(a=sv.Flag(), b=sv.Flag(), d=sv.Day("2020-01-01", "2021-01-01")), {}))
    with pytest.raises(InvalidValue, match="must know how many"):
        MarginalChoice(system(), None, 1.0)
    with pytest.raises(InvalidValue, match="of 1 to"):
        MarginalChoice(system(), 2**41, 1.0)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    a = rng.random(1500) < 0.4
    return pd.DataFrame(
        {"a": a, "b": np.where(rng.random(1500) < 0.3 + 0.4 * a, "x", "y"), "c": rng.uniform(0, 10, 1500)}
    )


def test_a_retry_under_its_key_draws_the_same_sets(data, tmp_path):
    with sv.Curator(data, tmp_path / "x.ledger", sv.ApproxDP(1, 1e-6), facts=FACTS, dataset="d") as curator:
        first = curator.synthesize(spend=0.5, bins=4, sets=2, size=100, idempotency_key="k")
        left = curator.share_left()
        again = curator.synthesize(spend=0.5, bins=4, sets=2, size=100, idempotency_key="k")
        assert again.entry == first.entry
        assert curator.share_left() == left
        assert left == pytest.approx(0.5, abs=1e-6)
        assert again.tables[0].equals(first.tables[0])
        assert "% of the budget, entry" in first.report()
        assert curator.know("share of a").rows[0]["estimate"] == pytest.approx(0.4, abs=0.15)


def test_killed_before_the_commit_it_is_spent_and_nothing_is_told(data, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    with sv.Curator(data, tmp_path / "x.ledger", sv.ApproxDP(1, 1e-6), facts=FACTS, dataset="d") as curator:
        with monkeypatch.context() as patch:
            patch.setattr(MarginalChoice, "_value", lambda *_: (_ for _ in ()).throw(Killed()))
            with pytest.raises(Killed):
                curator.synthesize(spend=0.5, bins=4)
        assert curator.share_left() == pytest.approx(0.5, abs=1e-6)
        assert curator.history()[-1].release is None
        with pytest.raises(InvalidValue, match="nothing that was released"):
            curator.synthesize()
