"""How often intervals hold the truth where a person has one to thirty rows that go together.

How many rows a person has is skewed, and has to do with what they hold: a person with a high value has more rows, so
the mean over rows is not the mean over persons. The truth is that of a person drawn at random; for counts it is that of
the table. Each cell of the design is one question with n persons, one ε and one correlation within a person.

    python -m benchmarks.person_coverage --out coverage.csv --tables 300 --processes 16
"""

from __future__ import annotations

import argparse
import csv
import itertools
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.relation import REPLACE_ONE
from sottovoce.records.facts import Category, Facts, Flag, Number, Person

ASKED = ("proportion", "proportion by", "mean", "mean by", "counts", "counts of rows", "logistic", "linear")
SIZES, EPSILONS, WITHIN = (500, 2_000, 10_000), (0.3, 1.0), (0.0, 0.3, 0.9)
DELTA, MOST = 1e-6, 30
_FACTS: dict[str, Any] = {
    "y": Flag(),
    "z": Number(-6, 6),
    "x": Number(-3, 3),
    "g": Category(("a", "b", "c")),
    "ill": Category(("yes", "no")),
    "p": Person(),
}
FACTS = Facts(_FACTS)
_FIELDS = ("asked", "n", "epsilon", "within", "tables", "intervals", "coverage", "seconds")
_RATES = np.array([0.35, 0.25, 0.6])
_MEANS = np.array([0.2, -0.5, 1.0])
_SLOPES = np.array([-0.4, 0.8])


def imagine(n: int, within: float, rng: np.random.Generator) -> dict[str, Any]:
    """Return the rows of n persons: m of them, between 1 and 30, more where the person's own part is high."""
    own = rng.standard_normal(n)
    m = np.minimum(rng.geometric(1 / (1 + 4 * np.exp(0.7 * own))), MOST)
    p = np.repeat(np.arange(n), m)
    home = rng.choice(3, n, p=(0.5, 0.3, 0.2))
    e = np.sqrt(within) * own[p] + np.sqrt(1 - within) * rng.standard_normal(p.size)
    # Half of what a row's x is, is the person's.
    x = np.clip((rng.standard_normal(n)[p] + rng.standard_normal(p.size)) / np.sqrt(2), -3, 3)
    u = special.ndtr(e)
    return {
        "p": p,
        "g": np.array(["a", "b", "c"])[home[p]],
        "home": home[p],
        "y": u < _RATES[home[p]],
        "z": np.clip(_MEANS[home[p]] + 1.2 * e, -6, 6),
        "x": x,
        "yes": u < special.expit(_SLOPES[0] + _SLOPES[1] * x),
        "line": np.clip(_SLOPES[0] + _SLOPES[1] * x + e, -6, 6),
        "ill": np.where(u < 0.2, "yes", "no"),
    }


def cover(asked: str, n: int, epsilon: float, within: float, seed: int) -> tuple[int, int]:
    """Return how many intervals hold the truth, of how many, for one table."""
    rng = seeded_rng(seed)
    rows = imagine(n, within, rng)
    target = ApproxDP(epsilon, DELTA, relation=REPLACE_ONE.of_person())
    if asked in ("logistic", "linear"):
        found = _regressed(asked, rows, n, target, rng)
        low, high = found[:, 0], found[:, 1]
        truth: Any = _SLOPES
    else:
        mechanism = _cells(asked, n, target)
        low, high = mechanism.release(rows, rng).value.interval(0.95).T
        truth = _truth(asked, mechanism.system, rows)
    held = (low <= truth) & (truth <= high)
    return int(held.sum()), held.size


@cache
def _cells(asked: str, n: int, target: ApproxDP) -> NoisyCells:
    """Return the mechanism, which depends on no table."""
    verb, columns = {"proportion": ("proportion", ("y",)), "mean": ("mean", ("z",))}.get(
        asked.removesuffix(" by"), ("counts", ("g", "ill"))
    )
    facts = Facts(_FACTS | {"p": Person(rows=3)}) if asked == "counts of rows" else FACTS
    by = ("g",) if asked.endswith(" by") else ()
    return NoisyCells.calibrate(Question(verb, columns, facts, by=by), n, target)


def _truth(asked: str, question: Question, rows: dict[str, Any]) -> Any:
    shares = np.array([0.5, 0.3, 0.2])
    match asked:
        case "proportion":
            return shares @ _RATES
        case "proportion by":
            return _RATES
        case "mean":
            return shares @ _MEANS
        case "mean by":
            return _MEANS
        case "counts":  # the shares of persons
            cell = rows["home"] * 2 + (rows["ill"] == "no")
            weights = 1 / np.bincount(rows["p"])[rows["p"]]
            return np.bincount(cell, weights, minlength=6)
    return question.reading.read([rows[name] for name in question.columns]).total[:-1]


def _regressed(asked: str, rows: dict[str, Any], n: int, target: ApproxDP, rng: np.random.Generator) -> Any:
    return np.asarray(_looks(asked, n, target).release(rows, rng).value.interval(0.95))


@cache
def _looks(asked: str, n: int, target: ApproxDP) -> Any:
    from sottovoce.inference.regression import AdaptiveLooks, Formula

    outcome = {"logistic": ("yes", Flag()), "linear": ("line", Number(-6, 6))}[asked]
    facts = Facts({outcome[0]: outcome[1], "x": Number(-3, 3), "p": Person()})
    return AdaptiveLooks.calibrate(Formula(f"{outcome[0]} ~ x", facts), n, target)


def _cell(job: tuple[str, int, float, float, int, int]) -> dict[str, Any]:
    asked, n, epsilon, within, tables, seed = job
    start = time.perf_counter()
    each = [cover(asked, n, epsilon, within, 100_000 * seed + k) for k in range(tables)]
    held, asked_of = (sum(column) for column in zip(*each, strict=True))
    row = {"asked": asked, "n": n, "epsilon": epsilon, "within": within, "tables": tables, "intervals": asked_of}
    return row | {"coverage": held / asked_of, "seconds": round(time.perf_counter() - start, 1)}


def run(out: Path, tables: int, processes: int, sizes: Sequence[int] = SIZES) -> list[dict[str, Any]]:
    """Run the design, largest cells first, and write each cell as it ends."""
    design = list(itertools.product(ASKED, sizes, EPSILONS, WITHIN))
    # Of one interval a table, twice as many tables.
    jobs = [(*cell, tables * (2 if cell[0] in ("proportion", "mean") else 1), seed) for seed, cell in enumerate(design)]
    jobs.sort(key=lambda job: (job[0] in ("logistic", "linear"), job[1]), reverse=True)
    found = []
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _FIELDS)
        writer.writeheader()
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            for row in pool.imap_unordered(_cell, jobs):
                writer.writerow(row)
                file.flush()
                found.append(row)
    return found


def main(quick: bool = False) -> None:
    """Show a few cells."""
    from benchmarks.timing import show

    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder) / "coverage.csv", 10 if quick else 40, 2, (500,) if quick else (2_000,))
    header = ["question", "persons", "ε", "correlation within a person", "tables", "coverage of 95 % intervals"]
    rows = [
        [
            row["asked"],
            f"{row['n']:,}",
            f"{row['epsilon']:g}",
            f"{row['within']:g}",
            row["tables"],
            f"{row['coverage']:.3f}",
        ]
        for row in sorted(found, key=lambda row: (ASKED.index(row["asked"]), row["n"], row["epsilon"], row["within"]))
    ]
    show("Coverage at person level", header, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("person-coverage.csv"))
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--processes", type=int, default=16)
    given = parser.parse_args()
    run(given.out, given.tables, given.processes)
