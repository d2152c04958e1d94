r"""What the ordinary answers of a report already tell of every two columns, beside learning relations with more.

Twelve questions of Adult, each for 5 % of (1, 10⁻⁶): counts, shares, means and quantiles, as a report asks them. From
these alone, for nothing, and after `synthesize(spend=0.1)`: which pairs of columns are kept, and the error of all pairs
and of those that the answers keep, half the L1 distance of the shares in ten tables together from the records'.

    python -m benchmarks synthetic_report --seeds 3
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sottovoce as sv
from benchmarks.synthetic import SETS, Table, table_of
from benchmarks.timing import show

COLUMNS = ["age", "education_num", "marital_status", "occupation", "sex", "hours_per_week", "income"]
QUESTIONS = (
    "share of income by sex",
    "share of income by marital_status",
    "share of income by occupation",
    "share of sex by occupation",
    "share of marital_status by sex",
    "mean of hours_per_week by sex",
    "mean of age by marital_status",
    "mean of education_num by occupation",
    "share of income where age >= 40",
    "share of occupation",
    "median of age",
    "median of hours_per_week",
)
_SHARE, _MORE, _BINS, _SETS = 0.05, 0.1, 8, 10


def _errors(tables: Sequence[Any], table: Table, codes: Any) -> dict[tuple[str, str], float]:
    """Return how far shares of every two columns in all synthetic tables are from the records', numbers in parts."""
    sizes, names = list(table.columns.sizes.values()), list(table.columns.sizes)
    drawn = np.concatenate([table.codes(each.astype(object)) for each in tables])
    return {
        (names[a], names[b]): float(np.abs(table_of(codes, sizes, (a, b)) - table_of(drawn, sizes, (a, b))).sum() / 2)
        for a, b in itertools.combinations(range(len(names)), 2)
    }


def once(seed: int) -> dict[str, list[float]]:
    """Return for each way pairs kept, the error of all pairs, of those that answers keep and of all others."""
    wide, rng = SETS["adult"](), np.random.default_rng(seed)
    facts = sv.Facts({name: wide.facts[name] for name in COLUMNS})
    table = Table(wide.frame[COLUMNS], facts, "income", _BINS)
    data = table.frame.iloc[rng.integers(0, len(wide.frame), len(wide.frame))].reset_index(drop=True)
    codes = table.codes(data)
    result: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.ledger"
        with sv.Curator(data, path, sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="adult") as curator:
            for question in QUESTIONS:
                curator.ask(question, spend=_SHARE)
            kept: list[tuple[str, str]] = []
            for words, spend in (("twelve answers, nothing more", 0.0), (f"and {_MORE:.0%} to learn relations", _MORE)):
                tables = curator.synthesize(COLUMNS, sets=_SETS, spend=spend, bins=_BINS)
                now = [pair for pair in itertools.combinations(COLUMNS, 2) if tables.posterior.kept(pair)]
                kept = kept or now
                errors = _errors(tables.tables, table, codes)
                others = [pair for pair in errors if pair not in kept]
                means = [np.mean([errors[pair] for pair in pairs]) for pairs in (errors, kept, others)]
                result[words] = [float(len(now)), *map(float, means)]
                print(seed, words, result[words], ["×".join(pair) for pair in now], flush=True)
    return result


HEADS = ["what is paid for", "pairs kept", "error of all pairs", "of pairs that answers keep", "of others"]


def main(quick: bool = False) -> None:
    """Show the table of three data sets drawn; quickly, of one."""
    command(["--seeds", "1"] if quick else [])


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(words)
    runs = [once(seed) for seed in range(given.seeds)]
    rows = []
    for way in runs[0]:
        means = np.mean([run[way] for run in runs], axis=0)
        rows.append([way, f"{means[0]:.1f} of 21", *(f"{value:.4f}" for value in means[1:])])
    note = f"Means of {given.seeds} sets of 48,842 records drawn from Adult; seven columns, numbers in {_BINS} parts."
    show("From the answers of a report", HEADS, rows, note)


if __name__ == "__main__":
    command()
