"""Do the intervals of a private regression hold where columns are awkward: narrow, constant, collinear, rare, grouped?

python -m benchmarks.regression_awkward --out awkward.csv --fits 300 --processes 16
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from benchmarks.fitting import DELTA, Cells, fit, options, run, show_csv, write_cells
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Facts, Flag, Number

SIZES, EPSILONS, FAMILIES = (50, 2_000, 20_000, 200_000), (0.3, 1.0), ("logistic", "linear")
_WARDS = tuple("abcdefghijkl")
_FIELDS = ("table", "family", "n", "epsilon", "fits", "coverage", "least", "width")
Made = tuple[str, dict[str, Any], dict[str, Any], dict[str, float]]
"""The right side of the formula, the facts, the columns, and the true coefficients of the columns as they are."""


def _plain(rng: np.random.Generator, n: int) -> Made:
    x, w = rng.standard_normal((2, n)).clip(-6, 6)
    a, b = rng.normal(0, 0.6, 2)
    return "x + w", {"x": Number(-6, 6), "w": Number(-6, 6)}, {"x": x, "w": w}, {"x": a, "w": b}


def _narrow(wide: float, middle: float) -> Callable[[np.random.Generator, int], Made]:
    def made(rng: np.random.Generator, n: int) -> Made:
        text, facts, columns, truth = _plain(rng, n)
        columns["x"] = columns["x"] + middle * wide
        return text, facts | {"x": Number(-wide, wide)}, columns, truth

    return made


def _collinear(apart: float) -> Callable[[np.random.Generator, int], Made]:
    def made(rng: np.random.Generator, n: int) -> Made:
        text, facts, columns, truth = _plain(rng, n)
        columns["w"] = np.clip(columns["x"] + apart * columns["w"], -6, 6)
        return text, facts, columns, truth

    return made


def _constant(rng: np.random.Generator, n: int) -> Made:
    text, facts, columns, truth = _plain(rng, n)
    columns["w"] = np.full(n, 2.0)
    return text, facts, columns, truth


def _rare(rng: np.random.Generator, n: int) -> Made:
    _, facts, columns, truth = _plain(rng, n)
    columns = {"x": columns["x"], "c": rng.choice(3, n, p=[0.6, 0.395, 0.005])}
    truth = {"x": truth["x"], "c[T.q]": rng.normal(0, 1), "c[T.r]": rng.normal(0, 1)}
    return "x + c", {"x": facts["x"], "c": Category(["p", "q", "r"])}, columns, truth


def _product(rng: np.random.Generator, n: int) -> Made:
    _, facts, columns, truth = _plain(rng, n)
    columns = {"x": columns["x"], "s": (rng.random(n) < 0.3).astype(float)}
    truth = {"x": truth["x"], "s": truth["w"], "x:s": rng.normal(0, 0.6)}
    return "x*s", {"x": facts["x"], "s": Flag()}, columns, truth


def _wards(rng: np.random.Generator, n: int) -> Made:
    _, facts, columns, truth = _plain(rng, n)
    shares = np.array([0.002, *([0.998 / (len(_WARDS) - 1)] * (len(_WARDS) - 1))])
    columns = {"x": columns["x"], "g": rng.choice(len(_WARDS), n, p=shares)}
    effects = rng.normal(0, 0.6, len(_WARDS))
    truth = {"x": truth["x"]} | {f"(1 | g)[{ward}]": float(one) for ward, one in zip(_WARDS, effects, strict=True)}
    return "x + (1 | g)", {"x": facts["x"], "g": Category(list(_WARDS))}, columns, truth


def _through_zero(rng: np.random.Generator, n: int) -> Made:
    _, _, columns, truth = _plain(rng, n)
    return "0 + x", {"x": Number(-300, 300)}, {"x": columns["x"]}, {"x": truth["x"]}


TABLES: dict[str, Callable[[np.random.Generator, int], Made]] = {
    "plain": _plain,
    "spread 1/30 of the range": _narrow(30, 0.0),
    "spread 1/1000": _narrow(1000, 0.0),
    "spread 1/1000 off the middle": _narrow(1000, 0.3),
    "spread 1/10000": _narrow(10_000, 0.0),
    "nearly collinear": _collinear(0.05),
    "collinear": _collinear(0.0),
    "a constant column": _constant,
    "a rare level": _rare,
    "a product": _product,
    "groups with a rare one": _wards,
    "narrow and no intercept": _through_zero,
}


def some_fits(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Fit several tables of one kind at every ε."""
    table, family, n, seed, count = job
    found = []
    for k in range(count):
        rng = np.random.default_rng([seed, k, n])
        text, facts, columns, truth = TABLES[table](rng, n)
        asked = Formula(f"y ~ {text}", Facts(facts | {"y": Flag() if family == "logistic" else Number(-8, 8)}), family)
        terms = np.array([0.0 if term == "Intercept" else truth[term] for term in asked.terms])
        values = [np.asarray(columns[name], dtype=float) for name in asked.encoding.names]
        rows, _ = asked.encoding.rows(values, n)
        A, b = asked.units
        if "Intercept" in asked.terms:  # a mean record is like others; one at zero may be far from all
            at = asked.terms.index("Intercept")
            terms[at] = 0.0
            terms[at] = -0.5 - float(rows.mean(axis=0) @ np.linalg.solve(A, terms - b)) * A[at, at] - b[at]
        t = rows @ np.linalg.solve(A, terms - b)
        if family == "logistic":
            y = (rng.random(n) < special.expit(t)).astype(float)
        else:
            y = np.clip(t + rng.standard_normal(n) / 8, -1, 1)
        for epsilon in EPSILONS:
            mechanism = AdaptiveLooks.calibrate(asked, n, ApproxDP(epsilon, DELTA))
            low, high = fit(mechanism, rows, y, rng).interval().T
            found.append(((table, family, n, epsilon), (low <= terms) & (terms <= high), (high - low) / 3.92))
    return found


def write(path: Path, cells: Cells) -> None:
    """Write one line a cell: how often intervals hold, those of the worst coefficient, and how wide they are."""
    write_cells(
        path,
        _FIELDS,
        cells,
        lambda hit, width: (hit.mean(), hit.mean(axis=0).min(), math.exp(np.log(width).mean())),
    )


def main(quick: bool = False) -> None:
    """Fit regressions of awkward tables, and show how often their intervals hold."""
    some = ["--fits", "2", "--sizes", "50,2000"] if quick else ["--seconds", "3600"]
    show_csv("Awkward regression tables", _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "regression_awkward.csv", SIZES, 100.0)
    parser.add_argument("--fits", type=int, default=300)
    given = parser.parse_args(words)
    lot = min(10, given.fits)
    kinds = itertools.product(range(-(-given.fits // lot)), given.sizes, TABLES, FAMILIES)
    jobs = [(table, family, n, 1000 * (given.seed - 1) + seed, lot) for seed, n, table, family in kinds]
    run(given, jobs, some_fits, write)


if __name__ == "__main__":
    command()
