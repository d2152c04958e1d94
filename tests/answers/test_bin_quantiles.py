"""Quantiles where bins are wide beside the column: heaps, whole numbers, most of a column in one bin."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from sottovoce.inference.cells.bin_quantiles import _ENDS, _PARTS, _unevenly, whole_values
from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Column, Count, Facts, Number

AT = np.array([0.1, 0.5, 0.9])
Draw = Callable[[np.random.Generator, int], np.ndarray]


def held(column: Column, draw: Draw, truth: np.ndarray, n: int, epsilon: float, repeats: int = 25) -> np.ndarray:
    """How often intervals of the quantiles `AT` hold the truth."""
    question = Question("quantiles", ("x",), Facts(x=column), at=tuple(AT.tolist()))
    mechanism, rng = NoisyCells.calibrate(question, n, PureDP(epsilon)), seeded_rng(4)
    ends = np.stack([mechanism.release({"x": draw(rng, n)}, rng).value.interval() for _ in range(repeats)])
    return np.mean((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1]), axis=0)


@pytest.mark.parametrize(
    ("draw", "truth", "high"),
    [
        (lambda rng, n: np.minimum(rng.lognormal(10, 0.7, n), 2e5), np.exp(10 + 0.7 * stats.norm.ppf(AT)), 2e5),
        (lambda rng, n: np.full(n, 37.0), np.full(3, 37.0), 100.0),
        (lambda rng, n: np.where(rng.random(n) < 0.7, 0.0, rng.uniform(0, 30, n)), np.array([0.0, 0.0, 20.0]), 100.0),
    ],
    ids=["incomes", "all equal", "mostly zero"],
)
def test_quantiles_within_a_bin_are_not_told_by_it(draw: Draw, truth: np.ndarray, high: float) -> None:
    # Records had been taken to lie about evenly in the first bin, and at p in one that holds them all: none was held.
    assert held(Number(0, high), draw, truth, 200, 0.5).min() >= 0.88


def test_quantiles_of_counts_are_whole_and_held() -> None:
    # Between whole numbers there is no quantile: of these 0 to 80 % had been held.
    for mean, high in ((3.0, 20), (8.0, 60)):
        truth = stats.poisson.ppf(AT, mean)
        assert held(Count(high), lambda rng, n, mean=mean: rng.poisson(mean, n), truth, 2000, 2.0, 8).min() == 1
    question = Question("quantiles", ("x",), Facts(x=Count(1000)), at=(0.5,))
    mechanism = NoisyCells.calibrate(question, 50, PureDP(1.0))
    drawn = mechanism.release({"x": np.arange(50) * 7}, seeded_rng(1)).value.draws
    assert np.array_equal(drawn, np.round(drawn)) and drawn.min() >= 0 and drawn.max() <= 1000


@pytest.mark.parametrize("edges", [np.arange(22) - 0.5, np.linspace(0, 60, 9), np.linspace(0, 60, 61)])
def test_every_whole_value_of_a_bin_has_its_place(edges: np.ndarray) -> None:
    values = np.arange(np.ceil(edges[0]), np.floor(edges[-1]) + 1)
    bins = np.minimum(np.searchsorted(edges, values, side="right") - 1, edges.size - 2)
    places = np.linspace(0, 1, 201)
    for index in range(edges.size - 1):
        found = whole_values(edges, np.full(places.size, index), places)
        assert np.array_equal(np.unique(found), values[bins == index])


@pytest.mark.parametrize("even", [0.3, 3.0, 40.0])
@pytest.mark.parametrize("level", [0.1, 0.5])
def test_where_a_share_of_a_bin_is_reached_has_the_law_of_a_dirichlet_process(even: float, level: float) -> None:
    """It is reached before x where at least that share lies below x, which has a Beta law."""
    drawn = _unevenly(np.full(20_000, level), np.full(20_000, even), seeded_rng(1))
    end = 1 / (_ENDS + even)
    for parts in (0, 3, 7, 13):
        below = end + (1 - 2 * end) * parts / _PARTS
        exact = stats.beta(even * below, even * (1 - below)).sf(level)
        assert np.mean(drawn <= parts / _PARTS) == pytest.approx(exact, abs=0.015)


def test_a_column_of_one_value_may_have_it_anywhere_in_its_bin() -> None:
    """All of 200 records are 37, near the end of a bin; noise beside it, as one table in ten has, does not hide that.

    That the quantile lies in the bin, and that all records lie near its end, are each unlikely: together they are not
    ruled out by less than one in forty, for where records lie in a bin is not told by any number of tables.
    """
    question = Question("quantiles", ("x",), Facts(x=Number(0, 100)), at=(0.05, 0.5), bins=8)
    for below in ([12, 14], [20, 5], [14, 8]):
        cells = np.array([*below, 200 - sum(below) - 14, 5, -3, 4, 6, 2, 0])
        ends = CellsPosterior(question, 200, "laplace", 2 / 0.3, cells).interval()
        assert np.all((ends[:, 0] <= 25) & (ends[:, 1] >= 37))
