r"""Three published tables, and the same of the same data with privacy: what a paper would have had, and what not.

Visits to a doctor in the RAND health insurance experiment (20,190; Poisson), diabetes of Pima women (768; logistic),
and a trial as small as that of lung cancer of the North Central Cancer Treatment Group (228; hazards). Of that no
records are shipped: they are drawn from a Weibull law with its published ratios, and "printed" is the piecewise
exponential model of those drawn.

    python -m benchmarks.replications --seed 1
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hazard_coverage import newton
from benchmarks.timing import show
from sottovoce.inference.regression import formula_of, looks_of
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Count, Facts, Flag, Number

_DATA = Path(__file__).parents[1] / "data"
EPSILONS, DELTA = (1.0, 3.0), 1e-6


@dataclass(frozen=True)
class Replication:
    """A published table, and the same question.

    Attributes
    ----------
    title, formula, facts, options
        What is asked.
    records
        The columns.
    published
        The estimate and the standard error of each term, as they were printed.
    """

    title: str
    formula: str
    facts: Facts
    options: dict[str, Any]
    records: dict[str, Any]
    published: dict[str, tuple[float, float]]


def rand() -> Replication:
    """Return the visits of Cameron and Trivedi (Microeconometrics, 2005, ch. 20), as statsmodels prints them."""
    with gzip.open(_DATA / "small" / "randhie.csv.gz", "rt") as file:
        names = file.readline().strip().split(",")
        values = np.loadtxt(file, delimiter=",")
    records = dict(zip(names, values.T, strict=True))
    facts = Facts(
        {
            "mdvis": Count(100),
            "lncoins": Number(0, 5),
            "idp": Flag(),
            "lpi": Number(0, 8),
            "fmde": Number(0, 9),
            "physlm": Number(0, 1),
            "disea": Number(0, 60),
            "hlthg": Flag(),
            "hlthf": Flag(),
            "hlthp": Flag(),
        }
    )
    published = {
        "lncoins": (-0.0525, 0.003),
        "idp": (-0.2471, 0.011),
        "lpi": (0.0353, 0.002),
        "fmde": (-0.0346, 0.002),
        "physlm": (0.2717, 0.012),
        "disea": (0.0339, 0.001),
        "hlthg": (-0.0126, 0.009),
        "hlthf": (0.0541, 0.015),
        "hlthp": (0.2061, 0.026),
    }
    text = f"mdvis ~ {' + '.join(published)}"
    return Replication("RAND health insurance: visits, n = 20,190", text, facts, {}, records, published)


def pima() -> Replication:
    """Return diabetes of Pima women (Smith and others, 1988), as R's glm prints it of all 768."""
    with gzip.open(_DATA / "race" / "pima-indians-diabetes.csv.gz", "rt") as file:
        values = np.loadtxt(file, delimiter=",")
    names = ["pregnant", "glucose", "pressure", "triceps", "insulin", "mass", "pedigree", "age", "diabetes"]
    ends = [17, 200, 130, 100, 900, 70, 2.5, 90]
    facts = Facts({name: Number(0, end) for name, end in zip(names, ends, strict=False)} | {"diabetes": Flag()})
    published = {
        "pregnant": (0.1232, 0.0321),
        "glucose": (0.0352, 0.0037),
        "pressure": (-0.0133, 0.0052),
        "mass": (0.0897, 0.0151),
        "pedigree": (0.9452, 0.2991),
        "age": (0.0149, 0.0093),
        "triceps": (0.0006, 0.0069),
        "insulin": (-0.0012, 0.0009),
    }
    text = f"diabetes ~ {' + '.join(published)}"
    return Replication(
        "Pima women: diabetes, n = 768", text, facts, {}, dict(zip(names, values.T, strict=True)), published
    )


def lung() -> Replication:
    """Return a trial of 228 drawn with the ratios of Cox's regression of `lung` (Loprinzi and others, 1994)."""
    rng, n = seeded_rng(1994), 228
    age, sex, ecog = (
        rng.normal(62.4, 9.1, n).clip(39, 82),
        rng.random(n) < 0.39,
        rng.choice([0, 1, 2], n, p=[0.28, 0.5, 0.22]),
    )
    growth = np.exp(0.0111 * (age - 62) - 0.5526 * sex + 0.4637 * (ecog - 1))
    lived = 420 * (rng.exponential(1, n) / growth) ** (1 / 1.3)
    followed = rng.uniform(170, 1020, n)
    records = {"age": age, "female": sex, "ecog": ecog.astype(float), "died": lived < followed}
    records["days"] = np.minimum(lived, followed).clip(0, 1022)
    facts = Facts(age=Number(39, 82), female=Flag(), ecog=Number(0, 3), died=Flag(), days=Number(0, 1022))
    cuts = (180.0, 365.0, 1022.0)
    X = np.stack([age, sex, ecog], axis=1).astype(np.float64)
    estimate, covariance = newton(X, records["days"], records["died"], cuts)
    printed = zip(estimate[3:].tolist(), np.sqrt(np.diag(covariance))[3:].tolist(), strict=True)
    published = dict(zip(("age", "female", "ecog"), printed, strict=True))
    options = {"event": "died", "cuts": cuts}
    title = "A lung-like trial (drawn, not the patients): n = 228"
    return Replication(title, "days ~ age + female + ecog", facts, options, records, published)


def table(replication: Replication, seed: int) -> list[list[Any]]:
    """Return a line a term: what was printed, and our intervals at each ε."""
    n = len(next(iter(replication.records.values())))
    formula = formula_of(replication.formula, replication.facts, **replication.options)
    columns: list[dict[str, str]] = []
    for epsilon in EPSILONS:
        mechanism = looks_of(formula, n, ApproxDP(epsilon, DELTA))
        found = mechanism.release(replication.records, seeded_rng(seed)).value
        ends, hidden = found.interval(0.95), np.isnan(found.plain_sd)
        columns.append(
            {
                term: f"{middle:.3g} ({low:.2g} to {high:.2g})" + (" ?" if unknown else "")
                for term, middle, (low, high), unknown in zip(found.terms, found.median, ends, hidden, strict=True)
            }
        )
    lines = []
    for term, (estimate, error) in replication.published.items():
        printed = f"{estimate:.3g} ({estimate - 1.96 * error:.2g} to {estimate + 1.96 * error:.2g})"
        lines.append([term, printed, *(column[term] for column in columns)])
    return lines


def main(quick: bool = False) -> None:
    """Show the tables."""
    for replication in (lung(),) if quick else (rand(), pima(), lung()):
        heads = ["term", "printed", *(f"ours, ε = {epsilon:g}" for epsilon in EPSILONS)]
        show(replication.title, heads, table(replication, 1))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args(words)
    for replication in (rand(), pima(), lung()):
        print(f"\n{replication.title}\n")
        print("| term | printed | " + " | ".join(f"ours, ε = {epsilon:g}" for epsilon in EPSILONS) + " |")
        print("| --- " * (2 + len(EPSILONS)) + "|")
        for line in table(replication, parsed.seed):
            print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    command()
