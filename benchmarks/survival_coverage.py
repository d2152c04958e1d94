r"""Do the bands of survival hold, and how wide are they beside an oracle, over laws, censoring, sizes and ε?

Two groups of unequal hazards are followed to a public end and cut into twelve cells. What is told of: the curves at
five times that are no cuts, medians, restricted means, and how the groups differ at a time and in their restricted
means; the truth is that of the law. The oracle knows the true counts: its variance is that of multinomial counts and of
the noise, carried over by the delta method.

    python -m benchmarks.survival_coverage --out survival.csv --tables 300 --processes 16
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, special

from benchmarks.fitting import SIDE, Cells, options, run, show_csv, write_cells
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.survival_curves import cell_falls
from sottovoce.inference.cells.survival_question import SurvivalQuestion
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Flag, Number
from sottovoce.service.answers.survival import SurvivalAnswer

END, CELLS, AT = 60.0, 12, 22.0
TIMES = np.array([4.0, 11.0, 22.0, 37.0, 52.0])
LAWS, CENSORED = ("exponential", "weibull", "lognormal", "crossing"), (0.1, 0.3, 0.6)
SIZES, EPSILONS, DELTA = (1_000, 5_000, 50_000), (0.3, 1.0, 3.0), 1e-6
KINDS = ("curve", "median", "mean", "difference", "difference of means")
FACTS = Facts(days=Number(0, END), died=Flag(), arm=Category(["a", "b"]))
QUESTION = SurvivalQuestion("survival", ("days",), FACTS, ("arm",), event="died", cuts=CELLS)
_GRID = 6_000
"""Cells of a sum that stands for an integral."""
_LOT = 5
"""Tables at a time."""
_FIELDS = ("law", "censored", "n", "epsilon", "of", "tables", "held", "width", "oracle", "known")


@dataclass(frozen=True)
class Cell:
    """One cell of the design."""

    law: str
    censored: float
    n: int
    epsilon: float


def survives(law: str, arm: int, time: Any) -> Any:
    """Return the share that is without the event at a time; of the second arm hazards are half as large again.

    >>> float(survives("exponential", 0, 25.0)).__round__(3)
    0.368
    """
    time = np.maximum(np.asarray(time, dtype=np.float64), 1e-300)
    if law == "crossing":
        return np.exp(-time / 25) if arm == 0 else np.exp(-((time / 25) ** 0.6))
    base = {
        "exponential": lambda: np.exp(-time / 25),
        "weibull": lambda: np.exp(-((time / 28) ** 1.6)),
        "lognormal": lambda: special.ndtr((np.log(18) - np.log(time)) / 0.8),
    }[law]()
    return base ** (1 + arm / 2)


@cache
def _table(law: str, arm: int) -> tuple[Floats, Floats]:
    """Return times, and the share without the event at each, for drawing and for integrals."""
    times = np.concatenate([np.linspace(0, END, _GRID + 1), np.geomspace(END * 1.01, END * 1e4, 400)])
    return times, survives(law, arm, times)


def truths(law: str, arm: int) -> dict[str, Any]:
    """Return what is true of an arm: its curve at the times, its median and its mean up to the end."""
    times, shares = _table(law, arm)
    first = times <= END
    median = optimize.brentq(lambda t: float(survives(law, arm, t)) - 0.5, 1e-9, END)
    mean = np.trapezoid(shares[first], times[first])
    return {"curve": survives(law, arm, TIMES), "median": median, "mean": float(mean)}


@cache
def _reach(law: str, censored: float) -> float:
    """Return up to where censorings lie evenly, so that about such a share of both arms is cut off, by END at last."""

    def share(reach: float) -> float:
        last = min(reach, END)
        grid = np.linspace(0, last, _GRID)
        # Censored: at c < END before the event, or at END without it.
        parts = [
            np.trapezoid(survives(law, arm, grid), grid) / reach
            + max(1 - END / reach, 0.0) * float(survives(law, arm, END))
            for arm in (0, 1)
        ]
        return float(np.mean(parts))

    if share(1e6) >= censored:
        return 1e6
    return float(optimize.brentq(lambda reach: share(reach) - censored, 1.0, 1e6))


def records_of(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """Return the records of a table."""
    arms = rng.integers(2, size=cell.n)
    events = np.empty(cell.n)
    for arm in (0, 1):
        times, shares = _table(cell.law, arm)
        here = arms == arm
        events[here] = np.interp(rng.random(int(here.sum())), shares[::-1], times[::-1])
    cut = np.minimum(rng.random(cell.n) * _reach(cell.law, cell.censored), END)
    days = np.minimum(events, cut)
    return {"days": days, "died": events <= cut, "arm": np.where(arms == 0, "a", "b")}


def functionals(counts: Floats, edges: Floats) -> Floats:
    """Return what counts (two of them, censored and events, by cell and beyond) tell of an arm, without any prior."""
    censored, events = counts[0, :-1], counts[1, :-1]
    leaving = events + censored
    risk = leaving[::-1].cumsum()[::-1] + counts[:, -1].sum()
    falls = cell_falls((events + 1e-9, censored + 1e-9, np.maximum(risk - leaving, 1e-9)), 0.0)
    logs = np.concatenate([[0.0], np.cumsum(falls)])
    dense = np.linspace(0, END, 1201)
    curve = np.exp(np.interp(dense, edges, logs))
    median = float(np.interp(0.5, curve[::-1], dense[::-1])) if curve[-1] < 0.5 else np.nan
    return np.array([*np.exp(np.interp(TIMES, edges, logs)), median, np.trapezoid(curve, dense)])


def oracle(counts: Floats, edges: Floats, deviation: float) -> Floats:
    """Return the variances of what counts tell of an arm, with the noise on each of them, by the delta method."""
    steps = np.maximum(np.sqrt(counts.ravel()), 1.0) * 0.05
    slopes = []
    for k, step in enumerate(steps):
        sides = []
        for sign in (1, -1):
            moved = counts.ravel().copy()
            moved[k] = max(moved[k] + sign * step, 0.0)
            sides.append((functionals(moved.reshape(counts.shape), edges), moved[k]))
        slopes.append((sides[0][0] - sides[1][0]) / (sides[0][1] - sides[1][1]))
    lean = np.array(slopes)  # counts, functionals
    full = counts.sum()
    mean = (counts.ravel() @ lean) / full
    sampling = counts.ravel() @ (lean - mean) ** 2  # multinomial
    variances = sampling + deviation**2 * (lean**2).sum(axis=0)
    most = np.array([1.0] * len(TIMES) + [END, END]) / (2 * SIDE)  # no interval is wider than all that there can be
    return np.asarray(np.minimum(variances, most**2))


@cache
def _mechanism(cell: Cell) -> NoisyCells:
    return NoisyCells.calibrate(QUESTION, cell.n, ApproxDP(cell.epsilon, DELTA))


def _held(number: Any, truth: float) -> tuple[float, float]:
    """Return whether an interval held, and how wide it is where the number is known."""
    low, high = map(float, number.interval())
    known = number.told and np.isfinite(high) and np.isfinite(low)
    return float(low - 1e-9 <= truth <= high + 1e-9), high - low if known else np.nan


def some_curves(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Answer several tables of one cell: what held, how wide it was, and how wide the oracle is."""
    cell, seed, count = job
    rng, mechanism, result = seeded_rng(seed), _mechanism(cell), []
    every = [truths(cell.law, arm) for arm in (0, 1)]
    edges = QUESTION.edges
    deviation = float(np.sqrt(mechanism.noises[0].variance))
    for _ in range(count):
        records = records_of(cell, rng)
        answer = SurvivalAnswer(mechanism.release(records, rng))
        place = np.clip(np.searchsorted(edges, records["days"], side="right") - 1, 0, CELLS)
        place = np.where(records["days"] >= END, CELLS, place)
        counts = np.zeros((2, 2, CELLS + 1))
        np.add.at(counts, ((records["arm"] == "b").astype(int), records["died"].astype(int), place), 1)
        best = [2 * SIDE * np.sqrt(oracle(counts[arm], edges, deviation)) for arm in (0, 1)]
        for kind, rows in _asked(answer, every, best).items():
            for held, width, ideal in rows:
                result.append(((cell.law, cell.censored, cell.n, cell.epsilon, kind), held, width, ideal))
    return result


def _asked(answer: SurvivalAnswer, every: Sequence[dict[str, Any]], best: Sequence[Floats]) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for arm, name in enumerate("ab"):
        rows = [row for row in answer.rows_at(TIMES.tolist()) if row["arm"] == name]
        for k, (row, truth) in enumerate(zip(rows, every[arm]["curve"], strict=True)):
            width = row["high"] - row["low"] if row["estimate"] is not None else np.nan
            result["curve"].append((float(row["low"] <= truth <= row["high"]), width, best[arm][k]))
        for kind, number, truth, place in (
            ("median", answer.median(name), every[arm]["median"], 5),
            ("mean", answer.restricted_mean(name), every[arm]["mean"], 6),
        ):
            result[kind].append((*_held(number, truth), best[arm][place]))
    at = int(np.flatnonzero(TIMES == AT)[0])
    gap = every[0]["curve"][at] - every[1]["curve"][at]
    ideal = float(np.hypot(best[0][at], best[1][at]))
    result["difference"].append((*_held(answer.difference("a", "b", at=AT), gap), ideal))
    gap, ideal = every[0]["mean"] - every[1]["mean"], float(np.hypot(best[0][6], best[1][6]))
    result["difference of means"].append((*_held(answer.mean_difference("a", "b"), gap), ideal))
    return result


def summed_up(held: Floats, width: Floats, ideal: Floats) -> tuple[float, ...]:
    """Return how often intervals held, the median width of those that are known and of the oracle's, how many are."""
    known = np.isfinite(width) & np.isfinite(ideal)
    middle = (np.median(width[known]), np.median(ideal[known])) if known.any() else (np.nan, np.nan)
    return float(held.mean()), *map(float, middle), float(known.mean())


def write(path: Path, cells: Cells) -> None:
    """Write one line a cell and kind of number."""
    write_cells(path, _FIELDS, cells, summed_up)


def main(quick: bool = False) -> None:
    """Ask for curves of every law, and show how often their bands hold and how wide they are."""
    some = ["--tables", "5", "--sizes", "1000"] if quick else []
    show_csv("Survival", _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "survival_coverage.csv", SIZES, 1200.0)
    parser.add_argument("--tables", type=int, default=300)
    given = parser.parse_args(words)
    cells = [Cell(*parts) for parts in itertools.product(LAWS, CENSORED, given.sizes, EPSILONS)]
    lots = range(-(-given.tables // _LOT))
    jobs = [(cell, 10**6 * given.seed + 1000 * lot + k, _LOT) for lot in lots for k, cell in enumerate(cells)]
    run(given, jobs, some_curves, write)


if __name__ == "__main__":
    command()
