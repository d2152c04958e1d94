"""Releases: exact probabilities, secure by default, whole columns at once, every mistake named."""

from __future__ import annotations

import csv
import io
import itertools
import json
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.local import (
    LocalMechanism,
    ProfileGraph,
    ProfileMechanism,
    RandomizedResponse,
    SmoothCategorical,
)
from sottovoce.theory.local.exact import GRID

GRAPH = ProfileGraph.chain({"a": [0.2, 0.3, 0.5], "b": [0.4, 0.3, 0.3], "c": [0.6, 0.3, 0.1]}, "xyz")
MECHANISM = SmoothCategorical.calibrate(GRAPH, 0.4)


class Scripted(np.random.Generator):
    """A generator whose whole numbers are those given."""

    def __init__(self, draws):
        super().__init__(np.random.Philox(0))
        self.draws = np.asarray(draws)

    def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
        assert (low, high, size) == (0, GRID, self.draws.size)
        return self.draws


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 8, 9])
def test_every_draw_lands_on_its_output_to_the_last_step(outputs):
    """At each boundary of each row, the last draw below and the first above: probabilities are exact."""
    rng = np.random.default_rng(outputs)
    row = rng.multinomial(GRID, rng.dirichlet(np.full(outputs, 0.5)))
    if outputs > 1:  # an output of probability zero at the very start
        row[outputs // 2] += row[0]
        row[0] = 0
    graph = ProfileGraph({"a": [1.0]}, [])
    mechanism = ProfileMechanism(graph, 1.0, row.reshape(1, 1, -1), tuple(range(outputs)))
    bounds = np.concatenate([[0], row.cumsum()])
    draws = np.unique(np.clip(np.concatenate([bounds - 1, bounds]), 0, GRID - 1))
    got = mechanism.release_codes(np.zeros(draws.size, dtype=int), np.array(0), Scripted(draws))
    want = np.searchsorted(row.cumsum(), draws, side="right")
    assert np.array_equal(got, want)


def test_frequencies_match_the_matrix():
    rng = seeded_rng(1)
    for i, profile in enumerate(GRAPH.names):
        for x, category in enumerate("xyz"):
            released = MECHANISM.release([category] * 20_000, profile, rng).value
            seen = np.array([(released == y).sum() for y in "xyz"])
            want = MECHANISM.matrices[i, x] * 20_000
            keep = want > 0
            assert np.all(seen[~keep] == 0)
            assert stats.chisquare(seen[keep], want[keep]).pvalue > 1e-4


def test_a_release_is_secure_unless_seeded():
    assert not MECHANISM.release(["x", "y"], ["a", "b"]).reproducible
    seeded = [MECHANISM.release(["z"] * 50, "a", seeded_rng(3)) for _ in range(2)]
    assert seeded[0].reproducible and np.array_equal(seeded[0].value, seeded[1].value)
    assert seeded[0].guarantee == MECHANISM.guarantee
    draws = {tuple(MECHANISM.release(["z"] * 64, "a").value.tolist()) for _ in range(3)}
    assert len(draws) == 3


def test_columns_of_every_kind():
    pd = pytest.importorskip("pandas")
    still = ProfileMechanism(GRAPH, 2.0, np.tile(GRID * np.eye(3, dtype=np.int64), (3, 1, 1)))
    want = ["z", "x", "x", "y"]
    for column in (
        want,
        tuple(want),
        np.array(want),
        np.array(want, dtype=object),
        pd.Series(want),
        pd.Categorical(want),
        pd.Series(want, dtype="category"),
    ):
        assert still.release(column, ["a", "b", "c", "a"]).value.tolist() == want
        assert still.release(column, "a").value.tolist() == want
    numbers = ProfileGraph({1: [0.5, 0.5], 2: [0.5, 0.5]}, [(1, 2)], (10, 20))
    still = ProfileMechanism(numbers, 0.0, np.tile(GRID * np.eye(2, dtype=np.int64), (2, 1, 1)))
    assert still.release(np.array([20, 10], dtype=np.int8), 1).value.tolist() == [20, 10]
    mixed = ProfileGraph({"a": [0.5, 0.5]}, [], ("x", None))
    still = ProfileMechanism(mixed, 0.0, GRID * np.eye(2, dtype=np.int64)[None])
    assert still.release(["x", None, None], "a").value.tolist() == ["x", None, None]
    assert still.release([], "a").value.size == 0


@pytest.mark.parametrize(
    ("records", "profiles", "message"),
    [
        (["x", "y"], ["a"], "2 records but 1 profiles"),
        (np.array([["x"], ["y"]]), "a", "one column"),
    ],
)
def test_bad_columns_are_named(records, profiles, message):
    with pytest.raises(InvalidData, match=message):
        MECHANISM.release(records, profiles)


@pytest.mark.parametrize(
    "odd", ["q", 7, None, ["x"], {}, np.nan, 10**400, object()], ids=lambda odd: type(odd).__name__
)
def test_an_odd_record_or_profile_counts_as_the_first_and_is_never_told(odd):
    for records, profiles in ((["x", odd], "a"), (["x", "x"], ["a", odd]), ([odd] * 2, [odd] * 2), (["x", "x"], "q")):
        got = MECHANISM.release(records, profiles, seeded_rng(3)).value
        assert got.tolist() == MECHANISM.release(["x", "x"], "a", seeded_rng(3)).value.tolist()


def test_odd_positions_and_missing_categoricals_count_as_the_first():
    pd = pytest.importorskip("pandas")
    want = MECHANISM.release_codes([0, 2], [0, 2], seeded_rng(1))
    for records, profiles in (([3, 2], [0, 2]), ([-1, 2], [7, 2]), ([0.5, 2], [-1, 2]), ([None, 2], [np.nan, 2])):
        assert np.array_equal(MECHANISM.release_codes(records, profiles, seeded_rng(1)), want)
    want = MECHANISM.release(["z", "x"], "a", seeded_rng(1)).value
    for column in (pd.Categorical(["z", None]), pd.Series(["z", "q"], dtype="category")):
        assert MECHANISM.release(column, "a", seeded_rng(1)).value.tolist() == want.tolist()


def test_a_record_its_profile_says_cannot_be_counts_as_the_first_that_can():
    graph = ProfileGraph.complete({"a": [0.0, 0.5, 0.5], "b": [0.2, 0.3, 0.5]}, "xyz")
    mechanism = SmoothCategorical.calibrate(graph, 1.0)
    got = mechanism.release(["x", "z"] * 50, "a", seeded_rng(2)).value
    assert got.tolist() == mechanism.release(["y", "z"] * 50, "a", seeded_rng(2)).value.tolist()
    local = RandomizedResponse.calibrate(graph, 1.0)
    assert local.release(["x"] * 50, "a", seeded_rng(2)).value.tolist() == (
        local.release(["x"] * 50, "b", seeded_rng(2)).value.tolist()
    )


def test_rows_whose_sum_wraps_around_are_refused():
    """2049 entries of 2^53 sum to 2^53 in 64 bits: every output would be certain, whatever ε is claimed."""
    d = 2049
    graph = ProfileGraph({"a": {0: 1.0}, "b": {0: 1.0}}, [("a", "b")], range(d))
    assert np.full(d, GRID).sum() == GRID
    for kind in (np.int64, np.uint64):
        with pytest.raises(InvalidValue, match="sum to 2"):
            ProfileMechanism(graph, 0.0, np.full((2, d, d), GRID, dtype=kind))
    with pytest.raises(InvalidValue, match="ProfileGraph"):
        ProfileMechanism(None, 0.0, np.full((1, 1, 1), GRID))


def test_exports_hold_the_very_numbers():
    pd = pytest.importorskip("pandas")
    state = json.loads(MECHANISM.to_json())
    assert state["guarantee"]["epsilon"] == 0.4 and state["mechanism"] == "smooth-categorical"
    rows = np.array([m["rows"] for m in state["matrices"]])
    assert np.array_equal(rows, MECHANISM.matrices)
    assert all(sum(map(Fraction, row)) == 1 for row in rows.reshape(-1, 3).tolist())
    frame = MECHANISM.to_frame()
    assert isinstance(frame, pd.DataFrame) and frame.loc[("b", "y"), "y"] == MECHANISM.matrices[1, 1, 1]
    lines = list(csv.reader(io.StringIO(MECHANISM.to_csv())))
    assert lines[0] == ["profile", "category", "x", "y", "z"]
    assert np.array_equal(np.array([line[2:] for line in lines[1:]], dtype=float), MECHANISM.matrices.reshape(-1, 3))
    assert np.array_equal(MECHANISM.matrix("c"), MECHANISM.matrices[2])


def test_errors_need_outputs_that_are_categories():
    graph = ProfileGraph({"a": [0.5, 0.5]}, [])
    other = LocalMechanism.from_matrix(graph, 1.0, [[0.5, 0.5], [0.5, 0.5]], outputs="pq")
    for question in (other.max_error, other.mean_error, other.output_error):
        with pytest.raises(InvalidValue, match="outputs are the categories"):
            question()


def test_edge_losses_are_the_true_log_ratios():
    out = MECHANISM.output_distributions
    want = [np.abs(np.log(out[i] / out[j])).max() for i, j in ((0, 1), (1, 2))]
    assert MECHANISM.edge_losses() == pytest.approx(want, abs=1e-12)
    assert MECHANISM.edge_losses().max() <= 0.4


@pytest.mark.parametrize("spread", [1e-15, 1e-8, 1e-3, 0.3])
def test_edge_losses_are_rounded_up(spread):
    """Against ratios of whole numbers and mpmath's logarithms: never below the truth, and hardly above."""
    rng = np.random.default_rng(3)
    profiles = {name: rng.dirichlet(np.ones(4)).tolist() for name in "abcdef"}
    graph = ProfileGraph(profiles, list(itertools.combinations("abcdef", 2)))
    steps = np.rint((np.full((4, 4), 0.25) + spread * (np.eye(4) - 0.25)) * 2**53).astype(np.int64)
    steps[:, 0] += 2**53 - steps.sum(axis=1)
    mechanism = LocalMechanism(graph, 2.0, np.stack([steps] * 6))
    exact = [[sum(p * int(a) for p, a in zip(row, column, strict=True)) for column in steps.T] for row in graph.exact]
    below = 0
    with mpmath.workdps(60):
        for (i, j), told in zip(graph.edge_indices, mechanism.edge_losses().tolist(), strict=True):
            ratios = [max(p / q, q / p) for p, q in zip(exact[i], exact[j], strict=True)]
            truth = max(mpmath.log(mpmath.mpf(r.numerator) / r.denominator) for r in ratios)
            assert 0 < truth <= told <= truth * (1 + mpmath.mpf(2) ** -48)
            plain = np.abs(np.log(mechanism.output_distributions[i]) - np.log(mechanism.output_distributions[j]))
            below += mpmath.mpf(float(plain.max())) < truth
    assert below  # which doubles alone would tell


def test_a_million_records_in_one_call():
    rng = np.random.default_rng(0)
    records, sources = rng.integers(0, 3, 10**6), rng.integers(0, 3, 10**6)
    out = MECHANISM.release_codes(records, sources, seeded_rng(0))
    kept = np.mean(out == records)
    want = np.mean([MECHANISM.matrices[i, x, x] for i in range(3) for x in range(3)])
    assert kept == pytest.approx(want, abs=0.005)


def test_number_labels_far_apart_or_close_and_strangers_among_them():
    for labels in ((5, -3, 9), (10**12, 7, -(10**15))):
        graph = ProfileGraph({"a": [0.2, 0.3, 0.5]}, [], labels)
        still = ProfileMechanism(graph, 0.0, GRID * np.eye(3, dtype=np.int64)[None])
        column = np.array([labels[2], labels[0], labels[1], labels[0]])
        assert still.release(column, "a").value.tolist() == column.tolist()
        for stranger in (6, 10**16, -(10**16)):
            assert still.release(np.array([labels[1], stranger]), "a").value.tolist() == [labels[1], labels[0]]
    flags = ProfileGraph({"a": [0.5, 0.5]}, [], (0, 1))
    still = ProfileMechanism(flags, 0.0, GRID * np.eye(2, dtype=np.int64)[None])
    assert still.release(np.array([True, False]), "a").value.tolist() == [1, 0]
    assert still.release(np.array([1, 0], dtype=np.uint8), "a").value.tolist() == [1, 0]
    wide = ProfileMechanism(ProfileGraph({"a": [0.5, 0.5]}, [], (-3, 300)), 0.0, GRID * np.eye(2, dtype=np.int64)[None])
    for kind in (np.int8, np.uint8, np.uint64):
        assert wide.release(np.array([7], dtype=kind), "a").value.tolist() == [-3]
