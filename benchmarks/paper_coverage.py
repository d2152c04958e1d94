r"""Do intervals of what a paper shows beside its coefficients hold: curves, average effects, standard deviations?

Curves: a flag by a cubic B-spline of age and another flag; the truth bends as the spline does (*inside*), or as a sine
that it cannot follow to the end (*outside*). Asked are the pointwise bands of the share at seven ages, the average
slope of age and the risk difference of the flag over the even population, all from one fit. Standard deviations are of
the records themselves: normal or log-normal, within bounds.

    python -m benchmarks.paper_coverage --out paper.csv --tables 40
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from benchmarks.fitting import Cells, fit, options, run, show_csv
from sottovoce.inference.cells.intervals import central
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Flag, Number
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.average_effects import average_effects
from sottovoce.service.answers.catalogue import CATALOGUE
from sottovoce.service.answers.predictions import means_of

FACTS = Facts(smoker=Flag(), age=Number(20, 90), frail=Flag(), cost=Number(0, 1000))
AGES, FRAIL = np.linspace(25.0, 85.0, 7), 0.5
TRUTHS, LAWS = ("inside", "outside"), ("normal", "skewed")
SIZES, EPSILONS, DELTA, DRAWS, LEVEL = (3_000, 20_000), (0.3, 1.0, 3.0), 1e-6, 2000, 0.95
_FIELDS = ("what", "law", "n", "epsilon", "tables", "asked", "held", "least", "width")


@dataclass(frozen=True, order=True)
class PaperCell:
    """One cell of the design."""

    what: str
    law: str
    n: int
    epsilon: float


@cache
def looks_of(n: int, epsilon: float) -> AdaptiveLooks:
    """Return the looks at a curve."""
    return AdaptiveLooks.calibrate(Formula("smoker ~ bs(age, df=4) + frail", FACTS), n, ApproxDP(epsilon, DELTA))


@cache
def _bends() -> Floats:
    """Return coefficients of the spline that the truth inside has."""
    return np.array([-1.0, 0.6, 1.8, -0.4])


def encoded(age: Floats, frail: Floats) -> Floats:
    """Return the rows of the regression."""
    encoding, columns = looks_of(3000, 1.0).system.encoding, {"age": age, "frail": frail}
    return encoding.rows([np.asarray(columns[name], dtype=float) for name in encoding.names])[0]


def log_odds(law: str, age: Floats, frail: Floats) -> Floats:
    """Return the true log-odds."""
    if law == "outside":
        return np.asarray(np.sin((age - 20) / 11) - 0.3 + FRAIL * frail)
    encoding, rows = looks_of(3000, 1.0).system.encoding, encoded(age, np.zeros(len(age)))
    curved = [place for place, entry in enumerate(encoding.entries) if any(level < -1 for _, level in entry)]
    return np.asarray(rows[:, curved] @ _bends() - 0.7 + FRAIL * frail)


@cache
def population() -> dict[str, Any]:
    """Return the public population: every age as often, half of it frail."""
    return {"age": np.repeat(np.linspace(20.5, 89.5, 139), 2), "frail": np.tile([False, True], 139)}


def effects(law: str) -> tuple[float, float]:
    """Return the true average slope of age, by differences of the width that is used, and the risk difference."""
    people, step = population(), 0.07
    age, frail = people["age"], people["frail"].astype(float)
    up, down = (special.expit(log_odds(law, age + side, frail)) for side in (step, -step))
    zero = np.zeros(len(age))
    risk = special.expit(log_odds(law, age, zero + 1)) - special.expit(log_odds(law, age, zero))
    return float(((up - down) / (2 * step)).mean()), float(risk.mean())


def of_curves(law: str, n: int, epsilon: float, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return of bands and of effects whether they held, and half their widths."""
    age, frail = rng.normal(55, 15, n).clip(20, 90), (rng.random(n) < 0.3).astype(float)
    y = (rng.random(n) < special.expit(log_odds(law, age, frail))).astype(float)
    mechanism = looks_of(n, epsilon)
    posterior = fit(mechanism, encoded(age, frail), y, rng)
    bands = central(means_of(posterior, encoded(AGES, np.zeros(len(AGES))), DRAWS), LEVEL)
    truth = special.expit(log_odds(law, AGES, np.zeros(len(AGES))))
    told = [average_effects(posterior, name, population(), LEVEL, DRAWS)[0] for name in ("age", "frail")]
    ends = np.array([[row["low"], row["high"]] for row in told])
    return [
        (PaperCell(f"{what}, {law}", law, n, epsilon), (e[:, 0] <= t) & (t <= e[:, 1]), (e[:, 1] - e[:, 0]) / 2)
        for what, e, t in (
            ("bands", bands, truth),
            ("average slope", ends[:1], np.array(effects(law)[:1])),
            ("risk difference", ends[1:], np.array(effects(law)[1:])),
        )
    ]


@cache
def cells_of(n: int, epsilon: float) -> NoisyCells:
    """Return what is asked of a standard deviation."""
    question, promise = CATALOGUE["sd"].question(FACTS, {"column": "cost"}), ApproxDP(epsilon, DELTA)
    return NoisyCells.calibrate(question, n, promise, price=PrivacyFilter(promise).cost)


def of_spreads(law: str, n: int, epsilon: float, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return whether the interval of a standard deviation held, and half its width."""
    drawn = rng.normal(500, 100, n) if law == "normal" else rng.lognormal(4.5, 0.8, n)
    cost = drawn.clip(0, 1000)
    (row,) = Answer(cells_of(n, epsilon).release({"cost": cost}, rng)).rows
    held = row["low"] <= cost.std(ddof=1) <= row["high"]
    wide = (row["high"] - row["low"]) / 2
    return [(PaperCell(f"standard deviation, {law}", law, n, epsilon), np.array([held]), np.array([wide]))]


def one_table(job: tuple[str, str, int, float, int]) -> list[tuple[Any, ...]]:
    """Return what one table says."""
    what, law, n, epsilon, seed = job
    return (of_curves if what == "curves" else of_spreads)(law, n, epsilon, seeded_rng(seed))


def write(path: Path, cells: Cells) -> None:
    """Write a line a cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        for cell, tables in sorted(cells.items(), key=lambda item: item[0]):
            held, width = (np.array(column) for column in zip(*tables, strict=True))
            shown = (f"{held.mean():.3f}", f"{held.mean(axis=0).min():.3f}", f"{np.median(width):.3g}")
            writer.writerow((cell.what, cell.law, cell.n, cell.epsilon, len(tables), held.size, *shown))


def main(quick: bool = False) -> None:
    """Show a table of how often intervals held."""
    few = ["--tables", "2", "--sizes", "3000", "--processes", "2"] if quick else []
    show_csv("Curves, average effects, standard deviations", _FIELDS, lambda path: command(["--out", str(path), *few]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "paper_coverage.csv", SIZES, 1200.0)
    parser.add_argument("--tables", type=int, default=40)
    parsed = parser.parse_args(words)
    design = [("curves", law) for law in TRUTHS] + [("spreads", law) for law in LAWS]
    kinds = list(itertools.product(design, parsed.sizes, EPSILONS))
    jobs = [
        (what, law, n, epsilon, 10**6 * parsed.seed + 100 * k + table)
        for table in range(parsed.tables)
        for k, ((what, law), n, epsilon) in enumerate(kinds)
    ]
    run(parsed, jobs, one_table, write)


if __name__ == "__main__":
    command()
