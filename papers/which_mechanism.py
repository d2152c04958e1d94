"""Which mechanism says most about one proportion, for the same promise."""

from __future__ import annotations

from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    NoisyStatistics,
    TemperedPosterior,
)
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP, RenyiDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics

__all__ = ["mechanisms_for", "rms_error"]

PROMISES: tuple[Promise, ...] = (PureDP(1.0), ApproxDP(1.0, 1e-6), RenyiDP(2.0, 0.05))
SIZES = (30, 300, 3000)
MEANS = {"prior agrees": 0.3, "prior disagrees": 0.8}
"""Proportions of ones in the data; the prior Beta(6, 12) has its mean at 1/3."""
WAYS: dict[str, Any] = {
    "direct": DirectPosterior.calibrate,
    "diffused": DiffusedPosterior.calibrate,
    "concentrated": ConcentratedPosterior.calibrate,
    "tempered": TemperedPosterior.calibrate,
    "Laplace": lambda system, n, target: NoisyStatistics.calibrate(system, n, target, noise="laplace"),
    "Gaussian": lambda system, n, target: NoisyStatistics.calibrate(system, n, target, noise="gaussian"),
}


def mechanisms_for(n: int, target: Promise) -> dict[str, Any]:
    """Return every way that can keep the promise for n records, calibrated, with the prior Beta(6, 12)."""
    found = {}
    for name, calibrate in WAYS.items():
        try:
            found[name] = calibrate(BetaBernoulli(6, 12), n, target)
        except PromiseUnreachable:
            continue
    return found


def rms_error(mechanism: Any, mean: float, repeats: int, seed: int) -> float:
    """Return the root mean square distance of one released draw from the data's own proportion."""
    rng = seeded_rng(seed)
    ones = round(mean * mechanism.n)
    statistics = Statistics(mechanism.n, np.array([float(ones)]))
    if isinstance(mechanism, NoisyStatistics):
        draws = [float(one.value.sample(None, rng)) for one in mechanism.releases(statistics, repeats, rng)]
    else:
        draws = np.ravel(mechanism.release(statistics, rng, draws=repeats).value).tolist()
    return float(np.sqrt(np.mean((np.array(draws) - ones / mechanism.n) ** 2)))


@experiment("which-mechanism", "Six ways to one proportion under the same promise", source="ours")
def run(setting: Setting) -> Outcome:
    """Measure every way under every promise and size, and draw the errors."""
    repeats = 30 if setting.quick else 1500
    cells = [(target, n) for target in PROMISES for n in SIZES]
    rows: list[dict[str, Any]] = []
    for index, (target, n) in enumerate(cells):
        ways = mechanisms_for(n, target)
        for data, mean in MEANS.items():
            exact = rms_error(DirectPosterior(BetaBernoulli(6, 12), n), mean, repeats, setting.seed)
            for name, mechanism in ways.items():
                forecast = mechanism.forecast(mean)
                rows.append(
                    {
                        "promise": str(target),
                        "n": n,
                        "data": data,
                        "mechanism": name,
                        "rms_error": rms_error(mechanism, mean, repeats, setting.seed + index + 1),
                        "interval_width": forecast.interval_width,
                        "expected_kl": forecast.expected_kl,
                        "no_privacy_rms_error": exact,
                    }
                )
        setting.advance((index + 1) / len(cells))
    table = write_csv(setting.output / "which_mechanism.csv", tuple(rows[0]), [tuple(row.values()) for row in rows])
    files = setting.save(_draw(rows), "which_mechanism")
    large = {_best(rows, str(target), max(SIZES), data) for target in PROMISES for data in MEANS}
    pure = {row["mechanism"] for row in rows if row["promise"] == str(PROMISES[0])}
    errors = {
        data: {row["mechanism"]: row["rms_error"] for row in rows if _is(row, str(PROMISES[1]), 30, data)}
        for data in MEANS
    }
    return Outcome(
        (*files, table),
        (
            Finding(
                "under pure privacy only tempering and Laplace noise are left",
                pure == {"tempered", "Laplace"},
                f"offered: {', '.join(sorted(pure))}",
            ),
            Finding(
                "tempering is never the best with thousands of records",
                "tempered" not in large,
                f"best at n = {max(SIZES)}: {', '.join(sorted(large))}",
            ),
            Finding(
                "a stronger prior helps few records when it is right and hurts when it is wrong",
                errors["prior agrees"]["concentrated"] < errors["prior agrees"]["Laplace"]
                and errors["prior disagrees"]["concentrated"] > errors["prior disagrees"]["Laplace"],
                "; ".join(
                    f"{data}: concentrated {e['concentrated']:.3f}, Laplace {e['Laplace']:.3f}"
                    for data, e in errors.items()
                ),
            ),
        ),
    )


def _is(row: dict[str, Any], promise: str, n: int, data: str) -> bool:
    return (row["promise"], row["n"], row["data"]) == (promise, n, data)


def _best(rows: list[dict[str, Any]], promise: str, n: int, data: str) -> str:
    mine = [row for row in rows if _is(row, promise, n, data)]
    return str(min(mine, key=lambda row: row["rms_error"])["mechanism"])


def _draw(rows: list[dict[str, Any]]) -> Any:
    drawing, grid = figure(len(PROMISES), len(MEANS), width=2.9, height=2.7)
    colours = dict(zip(WAYS, COLOURS, strict=False))
    for line, data in zip(grid, MEANS, strict=True):
        for axis, target in zip(line, PROMISES, strict=True):
            mine = [row for row in rows if row["promise"] == str(target) and row["data"] == data]
            exact = {row["n"]: row["no_privacy_rms_error"] for row in mine}
            axis.plot(list(exact), list(exact.values()), ":", color="#777777", label="no privacy")
            for name, colour in colours.items():
                points = [(row["n"], row["rms_error"]) for row in mine if row["mechanism"] == name]
                if points:
                    axis.plot(*zip(*points, strict=True), "o-", color=colour, label=name, markersize=4)
            axis.set(xscale="log", yscale="log", ylim=(0.004, 0.7), title=f"{target}\n{data}")
            axis.set_xticks(SIZES, [str(n) for n in SIZES])
            axis.minorticks_off()
        line[0].set_ylabel("rms error of one draw")
    for axis in grid[-1]:
        axis.set_xlabel("records")
    lines = {line.get_label(): line for axis in grid.flat for line in axis.get_lines()}
    order = ["no privacy", *(name for name in WAYS if name in lines)]
    drawing.legend([lines[name] for name in order], order, loc="outside right center", frameon=False)
    return drawing
