"""Quantiles of whole numbers cover where some are missing and a condition leaves records out, wherever they lie."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy import special

from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.relation import REPLACE_ONE
from sottovoce.records.facts import Category, Count, Facts, Flag, Number, Person
from sottovoce.records.tables import open_table
from sottovoce.service.answers import NoisyCells, Question
from sottovoce.service.curator.table_looks import TableLooks

AT, HIGH = np.array([0.25, 0.5, 0.9]), 2000


def csv(table: pa.Table, folder: Path) -> Any:
    pyarrow.csv.write_csv(table, folder / "records.csv")
    return folder / "records.csv"


def parquet(table: pa.Table, folder: Path) -> Any:
    pyarrow.parquet.write_table(table, folder / "records.parquet")
    return folder / "records.parquet"


def database(table: pa.Table, folder: Path) -> Any:
    with duckdb.connect(folder / "records.duckdb") as connection:
        connection.register("records", table)
        connection.execute("CREATE OR REPLACE TABLE people AS FROM records")
    return f"duckdb://{folder}/records.duckdb?table=people"


@pytest.mark.parametrize(("most", "high"), [(1, 60), (1, 365), (3, 60), (40, 60)])
def test_quantiles_of_persons_averages_of_counts_cover(most: int, high: int) -> None:
    """Those of persons with one row are whole, and all that lie in a bin may: they had been taken to lie evenly."""
    rng, hits = np.random.default_rng(most), []
    who = np.repeat(np.arange(3000), rng.integers(1, most + 1, 3000))
    stay = np.minimum(np.rint(rng.lognormal(1.4, 0.8, who.size)).astype(int), high)
    truth = np.quantile(np.bincount(who, stay) / np.bincount(who), AT, method="inverted_cdf")
    facts = Facts(who=Person(), stay=Count(high))
    mechanism = NoisyCells.calibrate(
        Question("quantiles", ("stay",), facts, at=tuple(AT)), 3000, ApproxDP(1.0, 1e-6).under(REPLACE_ONE.of_person())
    )
    for seed in range(8):
        ends = mechanism.release({"who": who, "stay": stay}, seeded_rng(seed)).value.interval(0.95)
        hits += ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).tolist()
        assert np.all(np.diff(ends) < 4 * high / 60)
    assert np.mean(hits) > 0.9


def test_quantiles_of_numbers_say_how_finely_they_are_told() -> None:
    """Of round values, such as whole years, nobody knows where in a bin they lie; of counts it is known."""
    number = Question("quantiles", ("age",), Facts(age=Number(0, 128)), at=(0.5,), bins=64)
    count = Question("quantiles", ("age",), Facts(age=Count(128)), at=(0.5,), bins=64)
    assert "by bins of 2:" in str(number.bounded) and count.bounded is None


def test_quantiles_of_whole_numbers_cover(tmp_path: Path) -> None:
    """Ten tables, half of their records asked about and a fifth missing: 60 intervals, told to ±5 points.

    Records that the condition leaves out have another law; what is missing is left out or counts as 700. A whole number
    stands for all up to the next.
    """
    rng, hits = seeded_rng(3), []
    sources: list[Callable[[pa.Table, Path], Any]] = [lambda table, _: table, csv, parquet, database]
    for turn in range(10):
        n, missing = (200, 2000)[turn % 2], (None, 700)[turn // 4 % 2]
        facts = Facts(x=(Number(0, HIGH, missing), Count(HIGH, missing))[turn // 2 % 2], kept=Flag())
        question = Question("quantiles", ("x",), facts, where="kept", at=tuple(AT.tolist()))
        centre, spread = rng.uniform(300, 1700, 2), rng.uniform(40, 400, 2)
        kept, gone = rng.random(n) < 0.5, rng.random(n) < 0.2
        other = (~kept).astype(int)
        x = np.clip(np.floor(rng.normal(centre[other], spread[other])), 0, HIGH).astype(int)
        records = pa.table({"x": pa.array(x, pa.int32(), mask=gone), "kept": kept})
        heights = AT if missing is None else _below(AT, missing, centre[0], spread[0])
        truth = np.where(np.isnan(heights), missing or 0, centre[0] + spread[0] * special.ndtri(heights))
        truth = np.floor(np.clip(truth, 0, HIGH))
        with open_table(sources[turn % 4](records, tmp_path), facts=facts) as table:
            for epsilon in (0.5, 2.0):
                mechanism = NoisyCells.calibrate(question, n, PureDP(epsilon))
                seen = table.read(mechanism.reading, mechanism.columns, where="kept")
                low, high = mechanism.release(seen, rng).value.interval().T
                hits.append((low <= truth + 1) & (truth <= high))
    assert np.mean(hits) >= 0.85


def _below(at: Any, missing: int, centre: float, spread: float) -> Any:
    """Return where quantiles lie in the law of what is there, once a fifth lies at one point; NaN is at that point."""
    below = 0.8 * special.ndtr((missing - centre) / spread)
    return np.where(at < below, at / 0.8, np.where(at < below + 0.2, np.nan, (at - 0.2) / 0.8))


@pytest.mark.parametrize("where", [None, "kept"])
@pytest.mark.parametrize("column", [Count(43_200, missing=7), Number(-5, 1e6)], ids=["count", "number"])
def test_a_search_reads_the_same_counts_on_every_engine(tmp_path: Path, column: Any, where: str | None) -> None:
    """One query a round: given the same noise, the same edges and counts, and an interval that holds."""
    rng, n = np.random.default_rng(5), 4000
    days = np.ceil(rng.weibull(0.8, n) * 90).astype(int)
    kept, ward = rng.random(n) < 0.6, rng.choice(["A", "B", "?"], n)
    hidden = pa.array(days, pa.int32(), mask=rng.random(n) < 0.1)
    records = pa.table({"days": hidden, "kept": kept, "ward": ward})
    facts = Facts(days=column, kept=Flag(), ward=Category(["A", "B"]))
    question = Question("quantiles", ("days",), facts, ("ward",), where, at=(0.5, 0.9))
    mechanism = SearchedQuantiles.calibrate(question, n, ApproxDP(1.0, 1e-6))
    released = []
    for source in (lambda table, _: table, csv, parquet, database):
        with open_table(source(records, tmp_path), facts=facts) as table:
            looks = TableLooks(functools.partial(table.read, column=mechanism.columns, where=where))
            released.append(mechanism.release(looks, seeded_rng(1)).value)
    assert all(value == released[0] for value in released)
    filled = np.where(np.asarray(hidden.is_null()), 7, days) if isinstance(column, Count) else days
    there = kept if where else np.ones(n, dtype=bool)
    there = there & (True if isinstance(column, Count) else ~np.asarray(hidden.is_null()))
    truth = [np.quantile(filled[there & (ward == name)], p) for name in "AB" for p in (0.5, 0.9)]
    low, high = released[0].interval(0.999).T
    assert np.all(low - 1 <= truth) and np.all(truth <= high + 1)
