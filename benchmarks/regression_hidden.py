"""Do the intervals of regressions of counts hold where noise hides what columns share, or how large rare groups are?

python -m benchmarks.regression_hidden --out hidden.csv --fits 100 --processes 16
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fitting import DELTA, Cells, fit_all, options, run, show_csv, write_cells
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

TABLES = {
    "a number, its square and its cube": ("y ~ x + x2 + x3", 20_000, 1.0),
    "thirty groups": ("y ~ x + (1 | g)", 8_000, 2.0),
    "thirty groups and a flag": ("y ~ x + f + (1 | g)", 8_000, 2.0),
}
"""The formula, n and ε of each."""
GROUPS, SHRINK = 30, 0.85
"""How many groups, and how large each is beside the one before it."""
PAIRS, SOME = ((0, 29), (0, 1), (5, 15), (10, 20), (2, 25)), (0, 5, 12, 20, 29)
"""Groups that are compared, and those for which a response is predicted."""
HIGH, FAR = 30, 6.0
"""The bounds of counts, and of the number whose powers are columns."""
_NAMES = tuple(f"g{k}" for k in range(GROUPS))
FACTS = Facts(y=Count(HIGH), x2=Number(0, FAR**2), x3=Number(0, FAR**3), f=Flag(), g=Category(_NAMES))
_FIELDS = ("table", "n", "epsilon", "fits", "slopes", "differences", "predicted", "width")


def some_fits(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Fit several tables of one kind."""
    kind, seed, count = job
    text, n, epsilon = TABLES[kind]
    powers = "x2" in text
    asked = Formula(text, Facts(dict(FACTS) | {"x": Number(0, FAR) if powers else Number(-4, 4)}), "poisson")
    mechanism = AdaptiveLooks.calibrate(asked, n, ApproxDP(epsilon, DELTA))
    rng, found, unit, tables = np.random.default_rng(seed), [], np.eye(len(asked.terms)), []
    for _ in range(count):
        table, truth = (_powers if powers else _grouped)(asked, n, rng)
        rows, _ = asked.encoding.rows([table[name] for name in asked.encoding.names], n)
        A, b = asked.units
        t = rows @ np.linalg.solve(A, truth - b)
        y = np.minimum(rng.poisson(np.exp(np.minimum(t, 4.0))), HIGH).astype(float)
        tables.append((table, truth, rows, y))
    fits = fit_all(mechanism, [(rows, y) for *_, rows, y in tables], rng)
    for (table, truth, *_), posterior in zip(tables, fits, strict=True):
        slopes = [k for k, term in enumerate(asked.terms) if term in table]
        raw = np.array([table[asked.terms[k]] for k in slopes]).T
        if powers:
            places = np.argsort(table["x"])[(np.array([0.5, 0.9, 0.99]) * n).astype(int)]
            told, differ = unit[0] + raw[places] @ unit[slopes], unit[slopes]
        else:
            levels = unit[len(unit) - GROUPS :]
            told = unit[0] + 0.5 * unit[slopes[0]] + levels[list(SOME)]
            differ = np.array([levels[i] - levels[j] for i, j in PAIRS])
        held = [np.mean([_held(posterior, row, truth) for row in some]) for some in (unit[slopes], differ, told)]
        found.append(((kind, n, epsilon), *held, float(posterior.sd[slopes[0]])))
    return found


def _powers(asked: Formula, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    x = rng.gamma(2.0, 0.5, n).clip(0, FAR)
    table, slopes = {"x": x, "x2": x**2, "x3": x**3}, rng.normal(0, [0.3, 0.06, 0.01])
    start = -0.5 - float(np.mean(slopes @ np.array(list(table.values()))))
    return table, np.array([start, *slopes])


def _grouped(asked: Formula, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    sizes = SHRINK ** np.arange(GROUPS)
    table = {
        "x": rng.standard_normal(n).clip(-4, 4),
        "f": (rng.random(n) < 0.3).astype(float),
        "g": rng.choice(GROUPS, n, p=sizes / sizes.sum()).astype(float),
    }
    slopes = rng.normal(0, 0.3, len(asked.terms) - GROUPS - 1)
    return table, np.array([-0.5, *slopes, *rng.normal(0, 0.5, GROUPS)])


def _held(posterior: Any, row: Any, truth: Any) -> bool:
    _, _, low, high = posterior.combined(row)
    return bool(low <= row @ truth <= high)


def write(path: Path, cells: Cells) -> None:
    """Write one line a table: how often slopes, differences and predictions are held; and the first slope's sd."""
    write_cells(path, _FIELDS, cells, lambda *parts: tuple(float(np.mean(one)) for one in parts))


def main(quick: bool = False) -> None:
    """Fit regressions of every kind, and show how often their intervals hold."""
    some = ["--fits", "2"] if quick else []
    show_csv("Where noise hides columns", _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "regression_hidden.csv", (), 1200.0)
    parser.add_argument("--fits", type=int, default=100)
    given = parser.parse_args(words)
    jobs = [(kind, [given.seed, lot, k], 2) for lot in range(-(-given.fits // 2)) for k, kind in enumerate(TABLES)]
    run(given, jobs, some_fits, write)


if __name__ == "__main__":
    command()
